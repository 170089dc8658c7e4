package server

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"keyp/storage"
)

// exclusive is where commands run that need the whole keyspace for long: scripts, and EXEC
// when it does more than use its keys. One runs at a time. Most are brief, and handing one to
// another goroutine costs more than it takes; so it begins on the loop's own goroutine, in its
// session's turn. When it takes longer than hereTime, that goroutine stays with it, and another
// one is the loop from then on (takeOver).
//
// The loop then goes on beside the job, which lets go of what it has not used (storage.Txn.Share).
// A command that needs what the job has is not waited for: its session is parked, and goes on in
// its turn when the job has ended. Once a script has run for too long, such commands are refused
// instead.
//
// All of it belongs to the loop, but for gone, and what mu guards.
type exclusive struct {
	job     *job       // that runs; nil: none
	waiting []*session // for its end, in the order in which they came
	blocked []*blocked // whose turn came, but the job has one of their keys
	next    *job       // to be used again
	txn     *storage.Txn
	timer   timer
	share   timer         // for jobs that do not begin in a turn
	work    chan *job     // to a goroutine of its own, for jobs that do not begin in a turn
	gone    chan struct{} // closed when the loop has ended

	mu    sync.Mutex
	here  *job          // that runs on the loop's goroutine
	count int           // of such jobs
	armed bool          // a watcher looks after it
	arm   chan struct{} // has the watcher begin
}

const (
	// hereTime is how often the watcher looks: a job that it finds twice has the loop move.
	hereTime = 2 * time.Millisecond
	// hereIdle is how often it looks in vain before it rests.
	hereIdle = 50
)

// runAlone has the session's parked command run as an exclusive job.
func (l *loop) runAlone(s *session) {
	x := &l.alone
	if x.work == nil {
		x.work, x.txn = make(chan *job), l.srv.Store.NewTxn()
		x.timer.run = l.watchScript
		x.share.run = l.shareOut
		go l.workAlone()
	}
	j := x.next
	if x.next = nil; j == nil {
		j = &job{}
	}
	j.s = s
	j.out.Proto, j.out.Max, j.out.Full = s.client.Proto, l.replyMost(s), false
	l.srv.StartJob(&l.ctx, &j.ctx, &j.out, x.txn)
	l.exec.jobs++
	x.job = j
	if l.serving {
		l.runHere(j)
		return
	}
	l.watchScript()
	l.timers.set(&x.share, l.o.Clock.Mono()+2*hereTime)
	x.work <- j
}

// runHere runs a job on the loop's goroutine, unless it takes too long: then this goroutine is
// the loop's no more when it has ended, and ends too.
func (l *loop) runHere(j *job) {
	x := &l.alone
	if x.arm == nil {
		x.arm = make(chan struct{})
		go l.watchHere()
	}
	x.mu.Lock()
	x.count++
	x.mu.Unlock()
	x.watch(j)
	err := l.do(j)
	x.mu.Lock()
	x.here = nil
	moved := j.moved
	x.mu.Unlock()
	if moved {
		l.postEnd(j, err)
		runtime.Goexit()
	}
	if err != nil {
		l.fail(err)
		return
	}
	l.end(j)
	l.mono = l.o.Clock.Mono()
	if j.aside {
		return
	}
	if j.s = nil; len(j.out.Buf) > pooledBuffer {
		j.out.Buf = nil // the session may have taken it
	}
	j.out.Truncate(0)
	x.next = j
}

// watch has the watcher look after a job on the loop's goroutine.
func (x *exclusive) watch(j *job) {
	x.mu.Lock()
	x.here = j
	wake := !x.armed
	x.armed = true
	x.mu.Unlock()
	if wake {
		x.arm <- struct{}{}
	}
}

// watchHere is the goroutine that looks after jobs on the loop's goroutine.
func (l *loop) watchHere() {
	x := &l.alone
	for {
		select {
		case <-x.arm:
		case <-x.gone:
			return
		}
		seen := 0
		for idle := 0; idle < hereIdle; {
			time.Sleep(hereTime)
			x.mu.Lock()
			switch {
			case x.here == nil:
				if idle++; idle == hereIdle {
					x.armed = false
				}
			case x.count == seen:
				x.here.moved = true
				x.here = nil
				go l.cycle(true)
			default:
				seen, idle = x.count, 0
			}
			x.mu.Unlock()
		}
	}
}

// takeOver makes the loop that of the present goroutine, in the midst of a session's turn: the
// others have theirs in the next pass.
func (l *loop) takeOver() {
	l.serving = false
	for _, s := range l.turn {
		s.queued = false
		l.enqueue(s)
	}
	l.turn, l.busy = nil, true
	l.spare = nil // queue has its memory
	if l.alone.job != nil {
		l.shareOut()
	}
	l.watchScript()
}

// shareOut has the exclusive job let go of what it has not used, as soon as no command of it
// runs, and then those who wait for it try again.
func (l *loop) shareOut() {
	go func() {
		l.alone.txn.Share()
		l.box.post(func() { l.release(&l.alone.waiting) })
	}()
}

// workAlone is the goroutine that runs jobs which do not begin in a turn.
func (l *loop) workAlone() {
	for {
		select {
		case j := <-l.alone.work:
			j.moved = true
			l.postEnd(j, l.do(j))
		case <-l.alone.gone:
			return
		}
	}
}

// postEnd tells the loop that a job has ended beside it.
func (l *loop) postEnd(j *job, err error) {
	l.box.post(func() {
		if err != nil {
			l.fail(err)
			return
		}
		l.end(j)
	})
}

// do runs a job. A panic that gets out of it is the store's, of which nothing is known
// then: the server stops, as guard has it.
func (l *loop) do(j *job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error in the store: %v", p)
		}
	}()
	began := l.o.Clock.Mono()
	if j.aside {
		j.again = l.srv.RunJob(&j.ctx, nil)
	} else {
		l.srv.RunJob(&j.ctx, func(fn func()) bool { return l.lend(j, fn) })
	}
	j.took = l.o.Clock.Mono() - began
	return nil
}

// lend runs a part of an exclusive job on the loop. It returns false when the loop has ended.
func (l *loop) lend(j *job, fn func()) bool {
	part := func() {
		l.current = j.s
		fn()
		l.current = nil
	}
	x := &l.alone
	x.mu.Lock()
	moved := j.moved
	if !moved {
		x.here = nil // no takeOver meanwhile; mu is free, since the part may do anything
	}
	x.mu.Unlock()
	if !moved {
		defer x.watch(j)
		part()
		return true
	}
	done := make(chan struct{})
	l.box.post(func() {
		defer close(done)
		part()
	})
	select {
	case <-done:
		return true
	case <-x.gone:
		return false
	}
}

// end takes a job's reply into its session, and lets those go on that waited.
func (l *loop) end(j *job) {
	if j.aside {
		l.endAside(j)
		return
	}
	x := &l.alone
	x.job = nil
	l.srv.EndJob(&j.ctx)
	l.timers.stop(&x.timer)
	l.timers.stop(&x.share)
	l.owed = max(l.owed, j.ctx.LSN)
	l.executed(j)
	for _, b := range x.blocked {
		l.srv.Waiters.LookAgain(b.waiter)
	}
	x.blocked = nil
	l.deliver()
	l.release(&x.waiting)
}

// waitAlone parks a session until the exclusive job has ended.
func (l *loop) waitAlone(s *session, args [][]byte) {
	x := &l.alone
	if s.blocked != nil {
		s.parked, s.args = parkBlocked, args
		x.blocked = append(x.blocked, s.blocked)
		return
	}
	s.parked, s.args = parkAlone, args
	x.waiting = append(x.waiting, s)
}

// release gives sessions that wait for the end of a job their turns, before all others: their
// commands run then, or wait again.
func (l *loop) release(waiting *[]*session) {
	if len(*waiting) == 0 {
		return
	}
	for _, s := range *waiting {
		s.queued = true
	}
	l.queue = append(*waiting, l.queue...)
	*waiting = nil
}

// watchScript looks whether a script has run for too long, and comes again when that may be.
func (l *loop) watchScript() {
	x := &l.alone
	if x.job == nil {
		return
	}
	busy, left := l.srv.TooLong()
	if busy != "" {
		l.srv.Busy = busy
		l.release(&x.waiting)
		return
	}
	l.timers.set(&x.timer, l.o.Clock.Mono()+max(left, time.Millisecond))
}
