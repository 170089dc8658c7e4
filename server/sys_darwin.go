package server

import "golang.org/x/sys/unix"

// setKeepalive makes the kernel probe a silent peer after a number of seconds.
func setKeepalive(fd, seconds int) error {
	return firstError(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPALIVE, seconds))
}
