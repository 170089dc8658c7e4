package server

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"keyp/storage"
)

// globalJobs runs jobs of scope Global, which lock the whole keyspace: scripts, and EXEC when it
// uses more than its keys. One runs at a time. Most are brief, and handing one to another goroutine
// costs more than it takes; so it begins on the loop's own goroutine, in its session's turn. When the
// watcher finds it twice (watchJobTime), that goroutine stays with it, and another one becomes the
// loop (takeOver).
//
// The loop then goes on beside the job, which unlocks what it has not used (storage.Txn.Share).
// The loop waits for nobody: a session whose command needs what the job has locked waits for the
// job's end (forJob). Once a script has run for too long, such commands are refused instead.
//
// All of it belongs to the loop, but for gone, and what mu guards.
type globalJobs struct {
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
	// watchJobTime is how often the watcher looks: a job that it finds twice has the loop move.
	watchJobTime = 2 * time.Millisecond
	// idleLooks is how often it looks without result before it sleeps.
	idleLooks = 50
)

// startGlobal has the session's command run as a job of scope Global.
func (l *loop) startGlobal(s *session) {
	x := &l.global
	if x.work == nil {
		x.work, x.txn = make(chan *job), l.srv.Store.NewTxn()
		x.timer.run = l.watchScript
		x.share.run = l.shareOut
		go l.workGlobal()
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
		l.runOnLoop(j)
		return
	}
	l.watchScript()
	l.timers.set(&x.share, l.o.Clock.Mono()+2*watchJobTime)
	x.work <- j
}

// runOnLoop runs a job on the loop's goroutine, unless it takes too long: then this goroutine is
// the loop's no more when it has ended, and ends too.
func (l *loop) runOnLoop(j *job) {
	x := &l.global
	if x.arm == nil {
		x.arm = make(chan struct{})
		go l.watchJobs()
	}
	x.mu.Lock()
	x.count++
	x.mu.Unlock()
	x.watch(j)
	err := l.do(j)
	x.mu.Lock()
	if x.here == j { // and not one that the next loop runs
		x.here = nil
	}
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
	if j.pinned {
		return
	}
	if j.s = nil; len(j.out.Buf) > pooledBuffer {
		j.out.Buf = nil // it may be the session's now
	}
	j.out.Truncate(0)
	x.next = j
}

// watch has the watcher look after a job on the loop's goroutine.
func (x *globalJobs) watch(j *job) {
	x.mu.Lock()
	x.here = j
	wake := !x.armed
	x.armed = true
	x.mu.Unlock()
	if wake {
		x.arm <- struct{}{}
	}
}

// watchJobs is the goroutine that looks after jobs on the loop's goroutine.
func (l *loop) watchJobs() {
	x := &l.global
	for {
		select {
		case <-x.arm:
		case <-x.gone:
			return
		}
		seen := 0
		for idle := 0; idle < idleLooks; {
			time.Sleep(watchJobTime)
			x.mu.Lock()
			switch {
			case x.here == nil:
				if idle++; idle == idleLooks {
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
	if l.global.job != nil {
		l.shareOut()
	}
	l.watchScript()
}

// shareOut has the global job unlock what it has not used, as soon as no command of it runs; then
// those who wait for it try again.
func (l *loop) shareOut() {
	go func() {
		l.global.txn.Share()
		l.box.post(func() { l.release(&l.global.waiting) })
	}()
}

// workGlobal is the goroutine that runs jobs which do not begin in a turn.
func (l *loop) workGlobal() {
	for {
		select {
		case j := <-l.global.work:
			j.moved = true
			l.postEnd(j, l.do(j))
		case <-l.global.gone:
			return
		}
	}
}

// postEnd has the loop note that a job has ended beside it.
func (l *loop) postEnd(j *job, err error) {
	l.box.post(func() {
		if err != nil {
			l.fail(err)
			return
		}
		l.end(j)
	})
}

// do runs a job. After a panic that gets out of it nothing is known of the store: the server stops, as guard has it.
func (l *loop) do(j *job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error in the store: %v", p)
		}
	}()
	began := l.o.Clock.Mono()
	if j.pinned {
		j.again = l.srv.RunJob(&j.ctx, nil)
	} else {
		l.srv.RunJob(&j.ctx, func(fn func()) bool { return l.lend(j, fn) })
	}
	j.took = l.o.Clock.Mono() - began
	return nil
}

// lend runs a part of a global job on the loop. It returns false when the loop has ended.
func (l *loop) lend(j *job, fn func()) bool {
	part := func() {
		l.current = j.s
		fn()
		l.current = nil
	}
	x := &l.global
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

// end moves a job's reply to its session, and lets those go on that waited.
func (l *loop) end(j *job) {
	if j.pinned {
		l.endPinned(j)
		return
	}
	x := &l.global
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

// waitForGlobal has a session wait until the global job has ended.
func (l *loop) waitForGlobal(s *session, args [][]byte) {
	x := &l.global
	if s.blocked != nil {
		s.waits, s.args = forKeys, args
		x.blocked = append(x.blocked, s.blocked)
		return
	}
	s.waits, s.args = forJob, args
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
	x := &l.global
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
