//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// newSocket returns a non-blocking stream socket that child processes do not inherit.
func newSocket(family int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	return prepare(fd)
}

// acceptSocket takes a waiting connection, non-blocking and not inherited.
func acceptSocket(fd int) (int, unix.Sockaddr, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	c, sa, err := unix.Accept(fd)
	if err != nil {
		return -1, nil, err
	}
	c, err = prepare(c)
	return c, sa, err
}

func prepare(fd int) (int, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return -1, firstError(err, unix.Close(fd))
	}
	return fd, nil
}

// receive and send are read(2) and write(2); an error is a unix.Errno.
func receive(fd int, p []byte) (int, error) { return unix.Read(fd, p) }

func send(fd int, p []byte) (int, error) { return unix.Write(fd, p) }
