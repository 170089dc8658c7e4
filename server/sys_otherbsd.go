//go:build freebsd || netbsd || openbsd || dragonfly

package server

import "golang.org/x/sys/unix"

// setKeepalive makes the kernel probe a silent peer; the system's settings say how often.
func setKeepalive(fd, _ int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
}
