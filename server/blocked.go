package server

import (
	"fmt"
	"runtime/debug"
	"time"

	"keyp/commands"
	"keyp/storage"
)

// maxWait bounds the timer of a blocking command, in milliseconds, where it would
// overflow: 139 years.
const maxWait = 1 << 42

// blocked is what a session knows of its blocking command while that has no reply.
//
// The session waits (forKeys) in its places of commands.Waiters and reads nothing
// from its client. When one of its keys is ready its command runs again. If that needs keys
// which are only on disk, they are read, and its turn comes again; it may end meanwhile.
type blocked struct {
	waiter *commands.Waiter
	spec   *commands.Spec
	timer  timer  // not set without a timeout
	lsn    uint64 // what it depends on that there was nothing, when the command ran last
	loads  bool   // keys are being read for it
	// delayed: the session is in loop.delayed, as its command was to run and needs what a job has.
	delayed bool
}

// block has a session wait whose command waits for keys; it may have waited before.
func (l *loop) block(s *session, args [][]byte) {
	s.past, s.client.Last = commands.Past{}, l.ctx.Spec
	switch {
	case l.stopping || s.left():
		l.hangUp(s)
		return
	case s.blocked != nil:
		s.wait(forKeys)
		s.args, s.blocked.lsn = args, l.ctx.LSN
		return
	}
	if s.reader != nil && s.reader.Buffered() == 0 {
		args = commands.CopyArgs(args)
		l.readers.put(s.reader, s.room)
		s.reader, s.room = nil, 0
	}
	wait := &l.ctx.Wait
	b := &blocked{waiter: l.env.Waiters.Add(&s.client, *wait), spec: l.ctx.Spec, lsn: l.ctx.LSN}
	s.wait(forKeys)
	s.args, s.blocked = args, b
	if wait.Timeout > 0 {
		b.timer.run = func() { l.endWait(s, false) }
		l.timers.set(&b.timer, l.o.Clock.Mono()+time.Duration(min(wait.Timeout, maxWait))*time.Millisecond)
	}
	wait.Keys = nil // their names are the client's
}

// endWait answers a blocking command that found nothing: that the time is up, or that CLIENT
// UNBLOCK … ERROR said so. Another session's command may be running.
func (l *loop) endWait(s *session, withError bool) {
	s.wake()
	s.out.begin(&l.buffers)
	s.out.w.Proto = s.client.Proto
	mark := s.out.w.Len()
	c := commands.Ctx{Spec: s.blocked.spec, Args: s.args, Client: &s.client, Env: l.env, Out: &s.out.w, LSN: s.blocked.lsn}
	l.leave(s)
	c.GiveUp(withError)
	l.env.Observe(&c, mark, 0)
	l.finishReply(s, c.Spec, mark, c.LSN)
	l.goOn(s)
}

// left reports whether the client has ended its side of the connection.
func (s *session) left() bool { return s.eof || s.readToEnd }

// hangUp ends a session whose client has left while its command is blocked or paused, without running
// that: what was to be sent before still is.
func (l *loop) hangUp(s *session) {
	l.leave(s)
	s.args = nil
	s.finish()
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
	if b.loads { // those behind it have waited for that
		l.env.Waiters.LookAgain(b.waiter)
		l.busy = true
	}
	l.env.Waiters.Remove(b.waiter)
	l.timers.stop(&b.timer)
}

// eventsAtOnce and eventsInPass bound how many events are published after a command, and before
// those of a pass.
const (
	eventsAtOnce = 64
	eventsInPass = 1024
)

// deliver publishes what happened to keys, hands changes to those who wait for them,
// and serves those whose blocking command waits for that. It comes after each command and
// before the next one. While CLIENT PAUSE delays commands nobody is served.
func (l *loop) deliver() {
	l.env.Events.Deliver(eventsAtOnce)
	l.env.Changes.Deliver()
	if !l.env.Waiters.Waiting() || l.pause != commands.PauseNone || l.fatal != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil { // of the store: Again has its own guard
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			l.fatal = fmt.Errorf("internal error in the store: %v", p)
		}
	}()
	l.env.Waiters.Serve(l.ctx.Txn, l)
}

// Again runs the command of a session that waits, unless keys are being read for it.
func (l *loop) Again(w *commands.Waiter) {
	if s := w.Client.Conn.(*session); !s.blocked.loads && l.fatal == nil {
		l.guard(s, l.resume)
	}
}

// Load reads a key for Waiters.
func (l *loop) Load(k storage.Key, done func(read bool)) {
	l.env.Store.Load([]storage.Key{k}, func(err error) {
		l.box.post(func() {
			done(err == nil) // the store has logged an error
			l.deliver()
		})
	})
}

// loadAgain reads keys that a session's command needs when its turn has come.
func (l *loop) loadAgain(s *session) {
	b := s.blocked
	s.wait(forKeys)
	b.loads = true
	l.env.Store.Load(l.ctx.Keys, func(err error) {
		l.box.post(func() { l.loadedAgain(s, b, err) })
	})
}

// loadedAgain has a session's turn come again; the key that made it ready may have changed.
func (l *loop) loadedAgain(s *session, b *blocked, err error) {
	if s.blocked != b {
		return // it has an answer, or is closed
	}
	b.loads = false
	l.env.Waiters.LookAgain(b.waiter)
	if err != nil {
		l.guard(s, func(s *session) { l.loadFailed(s, err) })
	}
	l.deliver()
	if s.blocked == b && !b.loads {
		s.past = commands.Past{} // there was nothing for it any more
	}
}
