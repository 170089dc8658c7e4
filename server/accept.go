package server

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"keyp/commands"
)

const (
	// acceptTurn bounds the connections taken from one listener in a pass.
	acceptTurn = 64
	// acceptPause is how long nothing is accepted after descriptors ran out.
	acceptPause = 100 * time.Millisecond
	// refusedTurn bounds the connections that are refused then, one after another on
	// the reserve descriptor.
	refusedTurn = 16
)

const (
	tooManyClients = "-ERR max number of clients reached\r\n"
	denied         = "-DENIED Protected mode is on and no password is set, so only connections from this machine are accepted. " +
		"To serve others, set a password (requirepass) or, if the network is safe, turn protected-mode off: " +
		"both in the configuration file, on the command line, or with CONFIG SET from this machine.\r\n"
)

// openReserve opens a descriptor whose only use is to be given up: when there are no
// more, that lets waiting clients be told so instead of hanging.
func openReserve() int {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// acceptAll takes waiting connections of all listeners that are ready.
func (l *loop) acceptAll() {
	if l.stopping || l.starved && l.refill.index > 0 {
		return
	}
	for _, ln := range l.listeners {
		for n := 0; ln.ready && n < acceptTurn; n++ {
			if !l.accept(ln) {
				return
			}
		}
		l.busy = l.busy || ln.ready
	}
}

// accept takes one connection; it reports false when descriptors have run out.
func (l *loop) accept(ln *listener) bool {
	fd, peer, err := acceptSocket(ln.fd)
	switch {
	case err == nil:
		l.starved = false
		l.admit(ln, fd, peer)
	case errors.Is(err, unix.EAGAIN):
		ln.ready = false
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		if !l.starved {
			l.o.Log.Warn("no descriptors left for new connections; refusing them until some close", "error", err)
		}
		l.starved = true
		l.refuse(ln)
		l.timers.set(&l.refill, l.mono+acceptPause)
		return false
	case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR), errors.Is(err, unix.EPROTO):
		// it went away while it waited
	default:
		ln.ready = false
		l.o.Log.Error("accepting connections", "address", ln.addr, "error", err)
		l.starved = true
		l.timers.set(&l.refill, l.mono+acceptPause)
		return false
	}
	return true
}

// acceptAgain ends the pause that want of descriptors began.
func (l *loop) acceptAgain() {
	l.timers.stop(&l.refill)
	if l.reserve < 0 {
		l.reserve = openReserve()
	}
	for _, ln := range l.listeners {
		ln.ready = true
	}
	l.busy = true
}

// refuse tells some of those who wait that there is no room, with the reserve
// descriptor's number.
func (l *loop) refuse(ln *listener) {
	for n := 0; n < refusedTurn && l.reserve >= 0; n++ {
		if unix.Close(l.reserve) != nil {
			l.reserve = -1
			return
		}
		fd, _, err := acceptSocket(ln.fd)
		if err == nil {
			l.turnAway(fd, tooManyClients)
			l.srv.Stats.Rejected.Add(1)
		}
		l.reserve = openReserve()
		if err != nil {
			return
		}
	}
}

// turnAway says why and closes. What does not fit a new socket's buffer is lost.
func (l *loop) turnAway(fd int, why string) {
	_, _ = unix.Write(fd, []byte(why)) // the peer may be gone already
	if err := unix.Close(fd); err != nil {
		l.o.Log.Debug("closing a refused connection", "error", err)
	}
}

// admit makes a session of a connection, or refuses it.
func (l *loop) admit(ln *listener, fd int, peer unix.Sockaddr) {
	from := addrPort(peer)
	stats := &l.srv.Stats
	switch {
	case int64(l.count) >= l.o.Config.Int("maxclients"):
		stats.Rejected.Add(1)
		l.turnAway(fd, tooManyClients)
		return
	case !ln.unix && !from.Addr().Unmap().IsLoopback() && l.open() && l.o.Config.Bool("protected-mode"):
		stats.Rejected.Add(1)
		l.turnAway(fd, denied)
		return
	}
	s := &session{loop: l, fd: fd, unix: ln.unix, readable: true}
	if err := l.prepare(s); err != nil {
		l.o.Log.Warn("a connection cannot be set up", "error", err)
		l.turnAway(fd, "")
		return
	}
	l.nextID++
	s.client = commands.Client{
		ID: l.nextID, Conn: s, FD: fd, Created: l.wall, LastActive: l.wall,
		Addr: from.String(), LAddr: ln.addr,
	}
	if ln.unix {
		s.client.Addr, s.client.LAddr = ln.addr+":0", ln.addr+":0"
	} else if local, err := unix.Getsockname(fd); err == nil {
		s.client.LAddr = l.sameText(addrPort(local).String(), ln.addr)
	}
	s.client.Reset(l.open())
	if fd >= len(l.sessions) {
		l.sessions = append(l.sessions, make([]*session, fd+1-len(l.sessions))...)
	}
	l.sessions[fd] = s
	l.srv.Clients[s.client.ID] = &s.client
	l.count++
	stats.Connections.Add(1)
	if n := int64(len(l.srv.Clients)); n > stats.PeakClients.Load() {
		stats.PeakClients.Store(n)
	}
	l.armIdle(s)
	l.enqueue(s)
}

// sameText gives known when both texts are equal, so that they share their memory.
func (l *loop) sameText(text, known string) string {
	if text == known {
		return known
	}
	return text
}

// open says whether clients need no password.
func (l *loop) open() bool { return l.o.Config.String("requirepass") == "" }

func (l *loop) prepare(s *session) error {
	if !s.unix {
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
		if seconds := int(l.o.Config.Int("tcp-keepalive")); seconds > 0 {
			if err := setKeepalive(s.fd, seconds); err != nil {
				return err
			}
		}
	}
	return l.poll.add(s.fd)
}

// closeListeners ends listening.
func (l *loop) closeListeners() {
	for _, ln := range l.listeners {
		if ln.fd < 0 {
			continue
		}
		if err := ln.close(); err != nil {
			l.o.Log.Warn("closing a listener", "address", ln.addr, "error", err)
		}
		ln.fd, ln.ready = -1, false
	}
}
