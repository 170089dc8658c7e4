package server

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"keyp/commands"
)

// This file accepts the connections of clients, and refuses them if the server has no room or if
// protected mode forbids them.

const (
	// acceptTurn bounds the connections accepted from one listener in a pass.
	acceptTurn = 64
	// acceptPause is how long nothing is accepted after descriptors ran out.
	acceptPause = 100 * time.Millisecond
	// refusedTurn bounds the connections of a listener that are refused in a pass meanwhile.
	refusedTurn = 16
)

const (
	tooManyClients = "-ERR max number of clients reached\r\n"
	denied         = "-DENIED Protected mode is on and no password is set, so only connections from this machine are accepted. " +
		"To serve others, set a password (requirepass) or, if the network is safe, turn protected-mode off: " +
		"both in the configuration file, on the command line, or with CONFIG SET from this machine.\r\n"
)

// reserve are descriptors that are open only to be closed. When the process has no more, closing
// them gives the store some descriptors to continue with. It also lets waiting clients get an error
// instead of hanging. No client is accepted until all of them are open again.
type reserve struct{ fds []int }

// reserved is how many descriptors are kept in reserve.
const reserved = 8

// take opens the missing descriptors, and one more to prove that there is one for a client. If that
// fails, it closes all of them and returns false.
func (r *reserve) take() bool {
	for len(r.fds) <= reserved {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			r.release()
			return false
		}
		r.fds = append(r.fds, fd)
	}
	_ = unix.Close(r.fds[reserved])
	r.fds = r.fds[:reserved]
	return true
}

func (r *reserve) release() {
	for _, fd := range r.fds {
		_ = unix.Close(fd) // /dev/null has nothing to lose
	}
	r.fds = r.fds[:0]
}

// acceptAll takes waiting connections of all listeners that are ready.
func (l *loop) acceptAll() {
	if l.stopping || l.starved {
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

// accept takes a connection, if one waits. It returns false if an error prevents that at present.
func (l *loop) accept(ln *listener) bool {
	fd, peer, err := acceptSocket(ln.fd)
	switch {
	case err == nil:
		l.connect(ln, fd, peer)
	case errors.Is(err, unix.EAGAIN):
		ln.ready = false
	case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR), errors.Is(err, unix.EPROTO):
		// it went away while it waited
	default:
		l.complain("no new connections can be accepted; refusing them until that changes",
			"address", ln.addr, "error", err)
		l.starved = true
		l.reserve.release()
		l.refuseWaiting()
		l.timers.set(&l.refill, l.mono+acceptPause)
		return false
	}
	return true
}

// acceptAgain takes new connections again once there are descriptors for them. If there are none
// yet, it tries again later.
func (l *loop) acceptAgain() {
	l.timers.stop(&l.refill)
	if l.stopping {
		return
	}
	if !l.reserve.take() {
		l.refuseWaiting()
		l.timers.set(&l.refill, l.mono+acceptPause)
		return
	}
	l.starved, l.busy = false, true
	for _, ln := range l.listeners {
		ln.ready = true
	}
}

// refuseWaiting sends some of the waiting clients the error that there is no room.
func (l *loop) refuseWaiting() {
	for _, ln := range l.listeners {
		for range refusedTurn {
			fd, _, err := acceptSocket(ln.fd)
			if err != nil {
				break
			}
			l.turnAway(ln, fd, tooManyClients)
			l.env.Stats.Rejected.Add(1)
		}
	}
}

// turnAway sends the reason and closes. Text that does not fit a new socket's buffer is lost.
// Before a TLS handshake nothing can be sent.
func (l *loop) turnAway(ln *listener, fd int, why string) {
	if !ln.tls {
		_, _ = unix.Write(fd, []byte(why)) // the peer may be gone already
	}
	if err := unix.Close(fd); err != nil {
		l.o.Log.Debug("closing a refused connection", "error", err)
	}
}

// connect makes a session of a connection, or refuses it.
func (l *loop) connect(ln *listener, fd int, peer unix.Sockaddr) {
	from := addrPort(peer)
	stats := &l.env.Stats
	switch {
	case int64(l.count) >= l.o.Config.Int("maxclients"):
		stats.Rejected.Add(1)
		l.complain("refusing a client: there are maxclients connections", "address", from)
		l.turnAway(ln, fd, tooManyClients)
		return
	case !ln.unix && !ln.tls && l.protects(from):
		stats.Rejected.Add(1)
		l.complain("refusing a client: protected-mode is on and no password is set",
			"address", from)
		l.turnAway(ln, fd, denied)
		return
	}
	s := &session{loop: l, fd: fd, unix: ln.unix, readable: true}
	if err := l.prepare(s); err != nil {
		l.o.Log.Debug("a connection went away before it was set up", "error", err)
		l.turnAway(ln, fd, "")
		return
	}
	l.nextID++
	s.client = commands.Client{
		ID: l.nextID, Conn: s, FD: fd, Created: l.mono, LastActive: l.mono,
		Addr: from.String(), LAddr: ln.addr,
	}
	if ln.unix {
		s.client.Addr, s.client.LAddr = ln.addr+":0", ln.addr+":0"
	} else if local, err := unix.Getsockname(fd); err == nil {
		s.client.LAddr = l.sameText(addrPort(local).String(), ln.addr)
	}
	l.env.Reset(&s.client)
	if fd >= len(l.sessions) {
		l.sessions = append(l.sessions, make([]*session, fd+1-len(l.sessions))...)
	}
	l.sessions[fd] = s
	l.env.Clients[s.client.ID] = &s.client
	l.count++
	stats.Connections.Add(1)
	if n := int64(len(l.env.Clients)); n > stats.PeakClients.Load() {
		stats.PeakClients.Store(n)
	}
	if ln.tls {
		l.greet(s)
		return
	}
	l.armIdle(s)
	l.enqueue(s)
}

// protects reports whether protected mode refuses a TCP peer.
func (l *loop) protects(from netip.AddrPort) bool {
	return !from.Addr().Unmap().IsLoopback() && l.env.Open() && l.o.Config.Bool("protected-mode")
}

// sameText returns known if both texts are equal, so that they share their memory.
func (l *loop) sameText(text, known string) string {
	if text == known {
		return known
	}
	return text
}

// maxKeepalive is the most seconds that Linux takes; with more it refuses the option, and no client
// would be served.
const maxKeepalive = 32767

func (l *loop) prepare(s *session) error {
	if !s.unix {
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
		if seconds := int(min(l.o.Config.Int("tcp-keepalive"), maxKeepalive)); seconds > 0 {
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
