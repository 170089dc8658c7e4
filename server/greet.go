package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// A TLS handshake costs about a millisecond of computation, so it runs on a goroutine of its own,
// from the client's first byte to the end of the handshake. Only the loop uses the socket. Loop and
// goroutine pass each other the bytes through a buffer (the wire), which they use in turn:
//
//	loop                                      goroutine of the handshake
//	input comes; sets fetched ───────────►    computes, writes to wire.out
//	sends wire.out, waits for input     ◄──── needs more: posts shake
//	input comes; sets fetched ───────────►    computes
//	sends wire.out; the session begins  ◄──── ends: posts greeted
//
// If the session is closed meanwhile, it closes the channel gone, and the goroutine ends at its
// next step. So no goroutine is left over, in whichever order they end.
const (
	// greetTime bounds a handshake.
	greetTime = 10 * time.Second
	// greetRead is the room for one read of a handshake, in bytes.
	greetRead = 4 << 10
)

// greeting is a handshake that is under way.
type greeting struct {
	turn    chan struct{} // one element for each handshake that computes; shared by all
	step    func()        // lets the loop send, and fetch input
	fetched chan struct{} // the wire has input, or never will have
	gone    chan struct{} // the session is closed
	started bool
	wants   bool // the loop must fetch input, and has the wire
	room    []byte
}

var errGone = errors.New("the connection was closed during the handshake")

// greeters returns how many handshakes may compute at a time. If there are several processors, it
// leaves one to the loop.
func greeters() int { return max(1, processors-1) }

// await lets the loop fetch input. The handshake calls it, through wire.Read.
func (g *greeting) await() (err error) {
	<-g.turn
	g.step()
	select {
	case <-g.fetched:
	case <-g.gone:
		err = errGone
	}
	g.turn <- struct{}{}
	return err
}

// run is the handshake's goroutine. A panic of crypto/tls costs one connection.
func (g *greeting) run(conn *tls.Conn) (err error) {
	g.turn <- struct{}{}
	defer func() {
		<-g.turn
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v: %s", p, debug.Stack())
		}
	}()
	return conn.Handshake()
}

// greet begins the TLS handshake of a session. Other clients already see the session's client and
// can end it, and it counts as connected. But none of its commands runs before the handshake has
// succeeded.
func (l *loop) greet(s *session) {
	g := &greeting{turn: l.tls.turn, fetched: make(chan struct{}, 1), gone: make(chan struct{}),
		wants: true}
	g.step = func() {
		l.box.post(func() {
			if s.state == forHandshake {
				g.wants = true
				l.shake(s)
			}
		})
	}
	t := &secure{greet: g, wire: wire{fd: s.fd, greet: g}}
	t.conn = tls.Server(&t.wire, l.tls.Config())
	s.tls = t
	s.wait(forHandshake)
	s.idle = &timer{run: func() { l.greetingFailed(s, errors.New("it takes too long")) }}
	l.timers.set(s.idle, l.mono+greetTime)
	l.shake(s)
}

// shake does the loop's part of a handshake, as far as the socket lets it.
func (l *loop) shake(s *session) {
	g, w := s.tls.greet, &s.tls.wire
	if !g.wants {
		return // it computes, and has the wire
	}
	if done, err := w.flush(&l.buffers); err != nil {
		l.greetingFailed(s, errGone)
		return
	} else if !l.noteRoom(s, !done) || !s.readable {
		return
	}
	if g.room == nil {
		g.room = make([]byte, greetRead)
	}
	n, err := readSocket(s.fd, g.room)
	switch {
	case errors.Is(err, unix.EAGAIN):
		s.readable = false
		return
	case err != nil || n == 0 && !g.started:
		l.greetingFailed(s, errGone)
		return
	}
	w.in, g.wants = g.room[:n], false
	if g.started {
		g.fetched <- struct{}{}
		return
	}
	g.started = true
	conn := s.tls.conn
	go func() {
		err := g.run(conn)
		l.box.post(func() { l.greeted(s, err) })
	}()
}

// greeted continues after a handshake.
func (l *loop) greeted(s *session, err error) {
	if s.state != forHandshake {
		return
	}
	s.tls.greet.wants = true // the wire is the loop's for good
	if err != nil {
		l.greetingFailed(s, err)
		return
	}
	s.tls.greet, s.tls.wire.greet = nil, nil
	l.timers.stop(s.idle)
	s.idle, s.readable = nil, true
	s.wake()
	if peer, err := netip.ParseAddrPort(s.client.Addr); err != nil || l.protects(peer) {
		l.env.Stats.Rejected.Add(1)
		l.complain("refusing a client: protected-mode is on and no password is set",
			"address", s.client.Addr)
		s.out.begin(&l.buffers)
		s.out.w.Buf = append(s.out.w.Buf, denied...)
		s.finish()
	}
	l.armIdle(s)
	l.touch(s)
	l.enqueue(s)
}

// greetingFailed ends a connection whose handshake failed, with the alert that says why. A
// connection that just ends, as those of health checks do, is not worth a complaint.
func (l *loop) greetingFailed(s *session, err error) {
	if errors.Is(err, errGone) || errors.Is(err, io.EOF) {
		l.o.Log.Debug("a connection went away during its TLS handshake", "address", s.client.Addr)
	} else {
		l.complain("a TLS handshake failed", "client", s.client.ID, "address",
			s.client.Addr, "error", err)
	}
	if !s.tls.greet.wants {
		l.close(s)
		return
	}
	if done, err := s.tls.wire.flush(&l.buffers); err != nil || !done {
		l.close(s)
		return
	}
	l.linger(s)
}

// endTLS does the part of close for a session with TLS.
func (l *loop) endTLS(s *session) {
	if g := s.tls.greet; g != nil {
		close(g.gone)
		return
	}
	if s.state != lingering {
		s.tls.end(&l.buffers)
	}
	l.buffers.put(s.tls.wire.out)
	s.tls.wire.out, s.tls.wire.sent = nil, 0
}
