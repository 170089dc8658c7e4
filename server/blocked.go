package server

import (
	"fmt"
	"runtime/debug"
	"time"

	"keyp/commands"
)

// maxWait bounds the timer of a blocking command, in milliseconds, where it would
// overflow: 139 years.
const maxWait = 1 << 42

// blocked is what a session knows of its blocking command while that has no reply.
//
// The session is parked (parkBlocked) in its places of commands.Waiters and reads nothing
// from its client. When one of its keys is ready its command runs again, and may have keys
// read from disk first; meanwhile it is parked for that instead, and keeps its places.
type blocked struct {
	waiter *commands.Waiter
	spec   *commands.Spec
	timer  timer // not set without a timeout
	// over and unblocked say that the wait has ended while the command could not be
	// answered: it is unless it finds something now.
	over, unblocked bool
	// skipped says that the session could not run its command when it was its turn, so that
	// those behind it in its lines wait for it.
	skipped bool
}

// block parks a session whose command waits; it may have waited before.
func (l *loop) block(s *session, args [][]byte) {
	s.tries, s.client.Last = 0, l.ctx.Spec
	switch b := s.blocked; {
	case l.stopping || s.eof || s.readToEnd:
		l.hangUp(s)
		return
	case b != nil && b.over:
		s.args = args
		l.endWait(s, b.unblocked)
		return
	case b != nil:
		s.parked, s.args = parkBlocked, args
		l.letPass(b)
		return
	}
	if s.reader != nil && s.reader.Buffered() == 0 {
		args = copyArgs(args)
		l.readers.put(s.reader, s.room)
		s.reader, s.room = nil, 0
	}
	wait := &l.ctx.Wait
	b := &blocked{waiter: l.srv.Waiters.Add(&s.client, *wait), spec: l.ctx.Spec}
	s.parked, s.args, s.blocked = parkBlocked, args, b
	if wait.Timeout > 0 {
		b.timer.run = func() { l.unblock(s, false) }
		l.timers.set(&b.timer, l.o.Clock.Mono()+time.Duration(min(wait.Timeout, maxWait))*time.Millisecond)
	}
	wait.Keys = nil // their names are the client's
}

// unblock ends a session's wait as if the time were up, or with an error.
func (l *loop) unblock(s *session, withError bool) {
	if s.parked == parkBlocked {
		l.endWait(s, withError)
		return
	}
	s.blocked.over, s.blocked.unblocked = true, withError
}

// endWait answers a blocking command that found nothing. Another session's command may be
// running.
func (l *loop) endWait(s *session, withError bool) {
	s.out.begin(&l.buffers)
	s.out.w.Proto = s.client.Proto
	mark := s.out.w.Len()
	c := commands.Ctx{Spec: s.blocked.spec, Args: s.args, Client: &s.client, Server: l.srv, Out: &s.out.w}
	l.leave(s)
	c.GiveUp(withError)
	l.srv.Observe(&c, mark, 0)
	l.settle(s, c.Spec, mark, 0)
	l.unpark(s)
}

// hangUp ends a session whose client has gone while its command waits: what was to be sent
// before that still is.
func (l *loop) hangUp(s *session) {
	l.leave(s)
	s.parked, s.args = parkNone, nil
	s.client.Closing = true
	l.touch(s)
}

// leave ends a session's wait, which has an answer now or needs none. Nothing happens
// where there is none.
func (l *loop) leave(s *session) {
	b := s.blocked
	if b == nil {
		return
	}
	s.blocked = nil
	l.letPass(b)
	l.srv.Waiters.Remove(b.waiter)
	l.timers.stop(&b.timer)
}

// letPass has the keys looked at again for those that a session held up.
func (l *loop) letPass(b *blocked) {
	if b.skipped {
		b.skipped = false
		l.srv.Waiters.LookAgain(b.waiter)
		l.busy = true
	}
}

// deliver tells those who wait for changes what has changed, and serves those whose
// blocking command waits for that. It comes after each command and before the next one.
// While CLIENT PAUSE holds commands back nobody is served.
func (l *loop) deliver() {
	l.srv.Changes.Deliver()
	if !l.srv.Waiters.Waiting() || l.pause != commands.PauseNone || l.fatal != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil { // of the store: again has its own guard
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			l.fatal = fmt.Errorf("internal error in the store: %v", p)
		}
	}()
	l.srv.Waiters.Serve(l.ctx.Txn, l.again)
}

// again runs the command of a client that waits, if it stands still.
func (l *loop) again(c *commands.Client) {
	s := c.Conn.(*session)
	if s.parked == parkBlocked && l.fatal == nil {
		l.guard(s, l.resume)
	}
	if s.blocked != nil && s.parked != parkBlocked {
		s.blocked.skipped = true
	}
}
