package server

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Connect returns a connection to the server from within the process, for a client at addr that the
// caller has checked. It is a session like any other, and its client begins as the default user.
// Any goroutine may call it, also before Run; after Run nobody answers.
func (s *Server) Connect(addr string) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fds[0]) // the server starts no processes that could get it before
	unix.CloseOnExec(fds[1])
	ours := os.NewFile(uintptr(fds[0]), "inside")
	conn, err := net.FileConn(ours)
	if err = firstError(err, ours.Close(), unix.SetNonblock(fds[1], true)); err != nil {
		return nil, firstError(err, unix.Close(fds[1]))
	}
	s.loop.box.post(func() { s.loop.adopt(fds[1], addr) })
	return conn, nil
}

// adopt makes a session of a connection from within the process.
func (l *loop) adopt(fd int, addr string) {
	ln := &listener{fd: -1, unix: true, addr: addr}
	if l.stopping || l.starved {
		l.turnAway(ln, fd, tooManyClients)
		return
	}
	l.connect(ln, fd, nil)
	if fd < len(l.sessions) && l.sessions[fd] != nil {
		s := l.sessions[fd]
		s.inside, s.client.Addr, s.client.LAddr = true, addr, "http"
	}
}
