package server

import "golang.org/x/sys/unix"

// setKeepalive has the kernel probe a silent peer after so many seconds.
func setKeepalive(fd, seconds int) error {
	return firstError(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPALIVE, seconds))
}
