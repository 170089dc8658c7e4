//go:build freebsd || netbsd || openbsd || dragonfly

package server

import "golang.org/x/sys/unix"

// setKeepalive has the kernel probe a silent peer; how often is the system's setting.
func setKeepalive(fd, _ int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
}
