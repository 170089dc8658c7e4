package server

import (
	"errors"

	"golang.org/x/sys/unix"
)

// readSocket is recv(2) of a non-blocking socket; at the end of input it gives 0 and no
// error.
func readSocket(fd int, p []byte) (int, error) {
	for {
		n, err := receive(fd, p)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// writeSocket is send(2) of a non-blocking socket; one that takes nothing gives 0.
func writeSocket(fd int, p []byte) (int, error) {
	for {
		n, err := send(fd, p)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case !errors.Is(err, unix.EINTR):
			return 0, err
		}
	}
}
