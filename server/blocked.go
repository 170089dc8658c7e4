package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"keyp/commands"
	"keyp/storage"
)

// lateLook is a pause. If a blocking command's time is up while it reads a key from disk or waits
// for a task, the loop looks again after this pause.
const lateLook = 10 * time.Millisecond

// maxWait bounds the timer of a blocking command, in milliseconds, so that it does not overflow:
// 139 years.
const maxWait = 1 << 42

// blocked is the state of a session's blocking command that has no reply yet. WAITAOF, which waits
// for the log, and DEBUG SLEEP, which waits for a time, are such commands, too: neither runs as a
// task.
//
// The session waits (forUnblock) with its tickets of commands.Waiters and reads nothing from its
// client. When one of its keys is ready its command runs again. If the command needs keys that are
// only on disk, they are read, and its turn comes again; the session may end meanwhile.
type blocked struct {
	waiter *commands.Waiter
	spec   *commands.Spec
	timer  timer  // not set without a timeout
	stop   func() // ends what BlockedOn.Begin has begun; nil: nothing
	left   int    // how many reports the wait still needs: of the log, and of what was begun
	again  timer  // runs the command again although no key has changed (commands.BlockedOn.Again)
	timed  bool   // again was set since the session began to wait
	lsn    uint64 // the log position on which the result of its last run depends
	shows  bool   // its reply is right only while this server leads its group
	loads  bool   // keys are being read for it
	began  time.Duration
	on     commands.BlockedOn // without names of keys
	// parked: the session is in loop.waitlist, because its command needs something that a task has
	// locked.
	parked bool
}

// block parks a session whose command waits for keys; it may have waited before.
func (l *loop) block(s *session, args [][]byte) {
	s.past, s.client.Last = commands.Past{}, l.ctx.Spec
	switch {
	case l.stopping && len(l.ctx.Wait.Keys) > 0, s.left() && !l.ctx.Wait.Works:
		l.dropCommand(s)
		return
	case s.blocked != nil:
		s.wait(forUnblock)
		s.args, s.blocked.lsn = args, l.ctx.LSN
		l.lookAgain(s.blocked, l.ctx.Wait.Again)
		return
	}
	if s.reader != nil && s.reader.Buffered() == 0 {
		args = commands.CopyArgs(args)
		l.readers.put(s.reader, s.room)
		s.reader, s.room = nil, 0
	}
	wait := &l.ctx.Wait
	b := &blocked{waiter: l.env.Waiters.Add(&s.client, *wait), spec: l.ctx.Spec, lsn: l.ctx.LSN,
		shows: l.ctx.Term != 0, began: l.mono, on: *wait}
	s.wait(forUnblock)
	s.args, s.blocked = args, b
	if wait.Timeout > 0 {
		b.timer.run = func() { l.timeUp(s) }
		l.timers.set(&b.timer, l.o.Clock.Mono()+
			time.Duration(min(wait.Timeout, maxWait))*time.Millisecond)
	}
	l.lookAgain(b, wait.Again)
	wait.Keys, b.on.Keys = nil, nil // their names lie in the client's input
	if wait.Begin != nil {
		b.left++
		b.stop = wait.Begin(func(end func(*commands.Ctx)) {
			l.box.post(func() { l.begunEnds(s, b, end) })
		})
	}
	if wait.LSN > 0 {
		b.left++
		l.unsettled = append(l.unsettled, unsettled{s, b})
		l.settle()
	}
}

// timeUp answers a session whose time is up. It waits if a key of the session changed earlier
// and is still being read from disk. It also waits if the command has waited for a task since then.
// Redis would have served the command by now, because nothing takes long there.
func (l *loop) timeUp(s *session) {
	b := s.blocked
	if b.timed { // the clock may have been set ahead since it looked last
		l.env.Waiters.LookAgain(b.waiter)
		if l.deliver(); s.blocked != b {
			return
		}
	}
	if b.loads || b.parked || b.waiter.Loads() {
		l.timers.set(&b.timer, l.o.Clock.Mono()+lateLook)
		return
	}
	l.endWait(s, false)
}

// lookAgain schedules a waiting session's command to run again after a number of milliseconds. With
// 0 the session waits only for its keys.
func (l *loop) lookAgain(b *blocked, in int64) {
	if in == 0 {
		l.timers.stop(&b.again)
		return
	}
	b.timed = true
	b.again.run = func() {
		l.env.Waiters.LookAgain(b.waiter)
		l.busy = true
	}
	// The time counts from the start of the pass, which is not after the command's instant. So
	// the command never runs too late.
	l.timers.set(&b.again, l.mono+time.Duration(min(in, maxWait))*time.Millisecond)
}

// endWait answers a blocking command that found nothing. The reply says that the time is up, that
// the log is on disk, or that CLIENT UNBLOCK … ERROR has ended the wait. Another session's command
// may be running meanwhile.
func (l *loop) endWait(s *session, withError bool) {
	l.endBlocked(s, func(c *commands.Ctx) { c.GiveUp(withError) })
}

// endBlocked is endWait with another reply.
func (l *loop) endBlocked(s *session, reply func(*commands.Ctx)) {
	s.wake()
	s.out.begin(&l.buffers)
	s.out.w.Proto = s.client.Proto
	mark := s.out.w.Len()
	b, took := s.blocked, time.Duration(0)
	if b.on.Works {
		took = l.o.Clock.Mono() - b.began
	}
	c := commands.Ctx{Spec: b.spec, Args: s.args, Client: &s.client, Env: l.env, Out: &s.out.w,
		LSN: b.lsn, Wait: b.on}
	if st := l.group.status; b.shows && st != nil && st.Role == commands.Leader {
		c.Term = st.Term
	}
	l.leave(s)
	reply(&c)
	l.env.Observe(&c, mark, took)
	l.finishReply(s, &c, mark)
	l.goOn(s)
}

// unsettled is a session whose command waits for the log to settle.
type unsettled struct {
	s *session
	b *blocked
}

// settle waits, on another goroutine, until the log has settled for all sessions in unsettled.
// Sessions that come meanwhile are served by another wait afterwards.
func (l *loop) settle() {
	if l.settles || len(l.unsettled) == 0 {
		return
	}
	l.settles = true
	lsn := l.unsettled[len(l.unsettled)-1].b.on.LSN // the LSNs of unsettled rise
	go func() {
		err := l.log.Settled(context.Background(), lsn)
		l.box.post(func() { l.settled(lsn, err) })
	}()
}

// settled answers the sessions that waited for the log to settle up to lsn. If err is
// storage.ErrDeposed, the log may never settle, and their replies say so.
func (l *loop) settled(lsn uint64, err error) {
	l.settles = false
	if err != nil && !errors.Is(err, storage.ErrDeposed) {
		l.fail(err)
		return
	}
	waited := l.unsettled
	l.unsettled = nil
	for _, w := range waited {
		switch {
		case w.s.blocked != w.b: // it has an answer, or is closed
		case w.b.on.LSN <= lsn:
			l.reported(w.s, w.b)
		default:
			l.unsettled = append(l.unsettled, w)
		}
	}
	l.settle()
}

// begunEnds handles the end of an operation that BlockedOn.Begin has begun; end replies if it is
// not nil.
func (l *loop) begunEnds(s *session, b *blocked, end func(*commands.Ctx)) {
	if s.blocked != b {
		return // it has an answer, or is closed
	}
	if end != nil {
		b.on.End = end
	}
	l.reported(s, b)
}

// reported answers a session once everything that it waits for has been reported.
func (l *loop) reported(s *session, b *blocked) {
	if b.left--; b.left == 0 {
		l.isolate(s, func(s *session) { l.endWait(s, false) })
	}
}

// left reports whether the client has ended its side of the connection.
func (s *session) left() bool { return s.eof || s.readToEnd }

// dropCommand ends a session whose client has left while its command is blocked or paused, without
// running that command. Earlier output is still sent.
func (l *loop) dropCommand(s *session) {
	l.leave(s)
	s.args = nil
	s.finish()
	l.touch(s)
}

// leave ends the wait of a session whose command has an answer now or needs none. It does nothing
// for a session that is not blocked.
func (l *loop) leave(s *session) {
	b := s.blocked
	if b == nil {
		return
	}
	s.blocked = nil
	if b.loads { // those after it have waited for that
		l.env.Waiters.LookAgain(b.waiter)
		l.busy = true
	}
	if l.env.Waiters.Remove(b.waiter) {
		l.busy = true
	}
	l.timers.stop(&b.timer)
	l.timers.stop(&b.again)
	if b.stop != nil {
		b.stop()
	}
}

// eventsAtOnce bounds how many events are published after a command. eventsInPass bounds how many
// are published in a pass before its commands.
const (
	eventsAtOnce = 64
	eventsInPass = 1024
)

// deliver publishes the events of keys, passes changes of keys on, and serves the sessions whose
// blocking commands wait for these changes. It is called after each command and before the next
// one. While CLIENT PAUSE delays commands, no session is served.
func (l *loop) deliver() {
	l.env.Events.Deliver(eventsAtOnce)
	l.env.Changes.Deliver()
	if !l.env.Waiters.Waiting() || l.paused() || l.fatal != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil { // it is from the store, because Again has its own guard
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			l.fatal = fmt.Errorf("internal error in the store: %v", p)
		}
	}()
	l.env.Waiters.Serve(l.ctx.Txn, l)
	if l.env.Waiters.Left() {
		l.busy = true
	}
}

// Again runs the command of a session that waits, unless keys are being read for it. It reports
// whether the command has run.
func (l *loop) Again(w *commands.Waiter) bool {
	s := w.Client.Conn.(*session)
	if s.blocked.loads || l.fatal != nil {
		return false
	}
	l.isolate(s, l.resume)
	b := s.blocked
	return b == nil || b.waiter != w || !b.loads && !b.parked
}

// servesAtMost bounds how long a pass serves waiters that can wait for the next pass.
const servesAtMost = 2 * time.Millisecond

// Enough reports whether the pass has served waiters for long enough.
func (l *loop) Enough() bool { return l.o.Clock.Mono()-l.serves > servesAtMost }

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
	s.wait(forUnblock)
	b.loads = true
	l.env.Store.LoadWith(l.ctx.Keys, l.ctx.Runs, func(err error) {
		l.box.post(func() { l.loadedAgain(s, b, err) })
	})
}

// loadedAgain runs a waiting session's command again after its keys were loaded. The key that made
// it ready may have changed.
func (l *loop) loadedAgain(s *session, b *blocked, err error) {
	if s.blocked != b {
		return // it has an answer, or is closed
	}
	b.loads = false
	l.env.Waiters.LookAgain(b.waiter)
	if err != nil {
		l.isolate(s, func(s *session) { l.loadFailed(s, err) })
	}
	l.deliver()
	if s.blocked == b && !b.loads {
		s.past = commands.Past{} // there was nothing for it any more
	}
}
