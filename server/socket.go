package server

import (
	"errors"

	"golang.org/x/sys/unix"
)

// readSocket is recv(2) of a non-blocking socket; at the end of input it returns 0 and no error.
func readSocket(fd int, p []byte) (int, error) {
	for {
		n, err := receive(fd, p)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// writeSocket is send(2) of a non-blocking socket; it returns 0 if the socket takes nothing.
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

// receive reads from a session's connection, as readSocket does; more: another read may return
// more.
func (s *session) receive(p []byte) (n int, more bool, err error) {
	if s.tls != nil {
		return s.tls.read(p, s.readToEnd)
	}
	n, err = readSocket(s.fd, p)
	return n, n == len(p) || s.readToEnd, err
}

// sendTurn bounds what one call of transmit sends without TLS, in bytes. A client on the same
// machine may read as fast as the server sends. Without the bound, all of a long reply would leave
// while others wait.
const sendTurn = 256 << 10

// transmit sends the first n bytes of p: at most sendTurn, with TLS about sealTurn. full: the
// socket has no room for more, or with TLS the turn is over.
func (s *session) transmit(p []byte, pool *bufferPool) (n int, full bool, err error) {
	if s.tls != nil {
		return s.tls.write(p, pool)
	}
	p = p[:min(len(p), sendTurn)]
	n, err = writeSocket(s.fd, p)
	return n, n < len(p), err
}
