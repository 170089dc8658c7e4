package server

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"keyp/commands"
	"keyp/resp"
	"keyp/storage"
)

// tasks are the commands that may take long, so the loop does not wait for them: Dispatch has
// returned Task. This file decides on which goroutine a task runs. That depends on what the task
// has locked (commands.Scope):
//
//   - Pinned (the keys that it declares) and Global (all keys): most of these tasks are brief, and
//     handing one to another goroutine costs more than it takes. So a task begins on the loop's own
//     goroutine, in its session's turn. A supervisor looks at the loop every superviseEvery. If it
//     sees a task two times in a row, the loop continues on another goroutine, and this one is left
//     to the task (takeOver). A task whose session has waited has a goroutine of its own from the
//     start.
//   - Unlocked (it locks keys as it goes): a task may wait for the disk, so it always has a
//     goroutine of its own. These tasks are in several lanes, one for clients, one for operators,
//     and one for tasks that wait for other servers. At most maxUnlocked of a lane run at a time,
//     and the others wait in its queue.
//
// A session whose command needs something that a task has locked waits for the task's end
// (forTask). It then has its turn before all others. Once a script has run for too long, such
// commands are refused instead. Some of a Global task's code uses data that belongs to the loop.
// The loop runs this code, while the task waits (lend).
type tasks struct {
	// These belong to the loop.
	count  int   // tasks that have begun, or wait in queue, and whose end the loop has not seen
	global *task // that runs; nil: none
	next   *task // a global one, to be used again
	busy   timer // for the script of the global one
	// For a global one that did not begin in a turn, or whose transaction had not begun.
	share   timer
	waiting timer // for those that wait for other servers; see endForsaken

	lanes [commands.Lanes]lane // for those of scope Unlocked

	gone chan struct{} // closed when the loop has ended
	arm  chan struct{} // has the supervisor begin

	mu struct {
		sync.Mutex
		here  *task // that runs on the loop's goroutine, for the supervisor
		runs  int   // how many have begun there
		armed bool  // the supervisor looks
	}
}

// lane holds the tasks of scope Unlocked of one commands.Lane.
type lane struct {
	running []*task
	queue   []*task // to begin when another one ends
}

// task is a command that runs as a task, with all data that it may use. Its arguments stay valid,
// because its session waits.
type task struct {
	s    *session
	ctx  commands.Ctx
	txn  *storage.Txn
	out  resp.Writer
	took time.Duration
	// moved: the task does not run on the loop's goroutine, or does not any more. Once it runs,
	// tasks.mu guards this.
	moved bool
	// again: the task's keys have changed, so it has done nothing, and its command is dispatched
	// again.
	again bool

	forsaken bool // endForsaken has found reason to end it
}

const (
	// maxUnlocked is how many tasks of scope Unlocked run at a time in each lane.
	maxUnlocked = 4
	// superviseEvery is how often the supervisor looks. If it finds a task twice, another
	// goroutine becomes the loop.
	superviseEvery = 2 * time.Millisecond
	// idleLooks is how often the supervisor looks without result before it sleeps.
	idleLooks = 50
	// thresholdEvery is how often the loop looks for a new busy-reply-threshold while it is 0.
	thresholdEvery = 100 * time.Millisecond
	// forsakenEvery is how often endForsaken looks.
	forsakenEvery = 250 * time.Millisecond
)

// processors is the number of processors that the process may use.
var processors = runtime.GOMAXPROCS(0)

// spareProcs is how many more goroutines than that may run at a time: see SpareProcs.
const spareProcs = 2

// SpareProcs makes GOMAXPROCS larger than the number of processors, unless the user has set it. Go
// gives a goroutine that computes a turn of 10 ms, even while the loop is ready: it does not know
// that the loop matters more. With a task and the collector on two processors, the loop therefore
// waited each time after it had slept. The system switches sooner among more threads, and prefers
// one that mostly waits. The call stops the world for a moment.
func SpareProcs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + spareProcs)
	}
}

// startTask runs the session's command as a task, after Dispatch has asked for that.
func (l *loop) startTask(s *session) {
	x, scope := &l.tasks, l.ctx.Scope
	j := x.newTask(l, scope)
	j.s = s
	s.client.Last = l.ctx.Spec // CLIENT LIST shows it while it runs
	j.out.Proto, j.out.Max, j.out.Full = s.client.Proto, l.replyMost(s), false
	at := &x.lanes[l.ctx.Spec.Lane()]
	queued := scope == commands.Unlocked && len(at.running) == maxUnlocked
	l.inStore = true // keys are locked until they are pinned
	l.env.StartTask(&l.ctx, &j.ctx, &j.out, j.txn, queued)
	l.inStore = false
	x.count++
	if scope == commands.Global {
		x.global = j
	}
	switch {
	case queued:
		at.queue = append(at.queue, j)
	case scope == commands.Unlocked:
		l.beginUnlocked(j)
	case l.serving:
		l.runOnLoop(j)
	default:
		if scope == commands.Global {
			l.checkScript()
			l.timers.set(&x.share, l.o.Clock.Mono()+2*l.seams.superviseEvery)
		}
		l.runElsewhere(j)
	}
}

// newTask returns a task that has nothing of an earlier one. Global tasks are used again, because
// scripts are brief and many.
func (x *tasks) newTask(l *loop, scope commands.Scope) *task {
	j := &task{}
	if scope == commands.Global && x.next != nil {
		j, x.next = x.next, nil
	}
	if j.txn == nil && scope != commands.Unlocked {
		j.txn = l.env.Store.NewTxn()
	}
	return j
}

// runElsewhere runs a task on a goroutine of its own.
func (l *loop) runElsewhere(j *task) {
	j.moved = true
	go func() {
		l.seams.besideLoop()
		l.postEnd(j, l.do(j))
	}()
}

// runOnLoop runs a task on the loop's goroutine. If it takes too long, another goroutine becomes
// the loop, and this one ends after the task.
func (l *loop) runOnLoop(j *task) {
	x := &l.tasks
	if x.arm == nil {
		x.arm = make(chan struct{})
		go l.superviseTasks()
	}
	x.onLoop(j, 1)
	err := l.do(j)
	if x.offLoop(j) {
		l.postEnd(j, err)
		runtime.Goexit()
	}
	if err != nil {
		l.fail(err)
		return
	}
	l.end(j)
	l.mono = l.o.Clock.Mono()
	if j.ctx.Scope != commands.Global {
		return
	}
	if j.s = nil; len(j.out.Buf) > pooledBuffer {
		j.out.Buf = nil // it may be the session's now
	}
	j.out.Truncate(0)
	x.next = j
}

// onLoop makes the supervisor watch a task that runs on the loop's goroutine. began is 1 if the
// task begins there, and 0 if it continues.
func (x *tasks) onLoop(j *task, began int) {
	x.mu.Lock()
	x.mu.here = j
	x.mu.runs += began
	wake := !x.mu.armed
	x.mu.armed = true
	x.mu.Unlock()
	if wake {
		x.arm <- struct{}{}
	}
}

// offLoop makes the supervisor stop watching a task. It reports whether another goroutine has
// become the loop.
func (x *tasks) offLoop(j *task) (moved bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.here == j { // and not one that the next loop runs
		x.mu.here = nil
	}
	return j.moved
}

// superviseTasks is the supervisor's goroutine.
func (l *loop) superviseTasks() {
	x := &l.tasks
	for {
		select {
		case <-x.arm:
		case <-x.gone:
			return
		}
		seen := 0
		for idle := 0; idle < idleLooks; {
			time.Sleep(l.seams.superviseEvery)
			x.mu.Lock()
			switch {
			case x.mu.here == nil:
				if idle++; idle == idleLooks {
					x.mu.armed = false
				}
			case x.mu.runs == seen:
				x.mu.here.moved = true
				x.mu.here = nil
				go l.cycle(true)
			default:
				seen, idle = x.mu.runs, 0
			}
			x.mu.Unlock()
		}
	}
}

// takeOver makes the present goroutine the loop's, in the middle of a session's turn. The other
// sessions have their turns in the next pass.
func (l *loop) takeOver() {
	l.serving = false
	for _, s := range l.turn {
		s.queued = false
		l.enqueue(s)
	}
	l.turn, l.busy = nil, true
	l.spare = nil // queue has its memory
	if l.tasks.global != nil {
		l.shareOut()
	}
	l.checkScript()
}

// shareOut makes the global task unlock the shards that it has not used, as soon as none of its
// commands is running. Then the commands that wait for it try again. On a busy machine the task's
// goroutine may not have begun its transaction yet; then shareOut runs again later.
func (l *loop) shareOut() {
	x := &l.tasks
	j := x.global
	go func() {
		shared := j.txn.Share()
		l.box.post(func() {
			if !shared && x.global == j {
				l.timers.set(&x.share, l.o.Clock.Mono()+2*l.seams.superviseEvery)
			}
			l.endWaitForTasks()
		})
	}()
}

// postEnd reports the end of a task on another goroutine to the loop.
func (l *loop) postEnd(j *task, err error) {
	l.seams.besideLoop()
	l.box.post(func() {
		if err != nil {
			l.fail(err)
			return
		}
		l.end(j)
	})
}

// do runs a task. After a panic that gets out of it, the state of the store is unknown. So the
// error stops the server.
func (l *loop) do(j *task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error in the store: %v", p)
		}
	}()
	began := l.o.Clock.Mono()
	j.again = l.env.RunTask(&j.ctx, func(fn func()) bool { return l.lend(j, fn) })
	j.took = l.o.Clock.Mono() - began
	return nil
}

// lend runs a part of a global task on the loop. It returns false when the loop has ended.
func (l *loop) lend(j *task, fn func()) bool {
	part := func() {
		l.current = j.s
		defer func() { l.current = nil }()
		fn()
	}
	x := &l.tasks
	if !x.offLoop(j) { // no takeOver meanwhile; mu is free, since the part may do anything
		defer x.onLoop(j, 0)
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

// end moves a task's reply to its session, and lets the sessions continue that waited for the task.
func (l *loop) end(j *task) {
	x := &l.tasks
	x.count--
	switch j.ctx.Scope {
	case commands.Unlocked:
		// While CLIENT PAUSE waits for the end of this task, queued tasks that may write wait, too.
		l.endUnlocked(j)
	case commands.Global:
		x.global = nil
		l.timers.stop(&x.busy)
		l.timers.stop(&x.share)
	}
	l.inStore = true // pinned values are to be changed again
	awaited := l.env.EndTask(&j.ctx)
	l.inStore = false
	l.owed = max(l.owed, j.ctx.LSN)
	if j.again && j.s.state == forOwnTask {
		j.ctx.RunEmitted()
		j.s.past.Offloads++
		j.s.wake()
		l.park(j.s, forTask, j.s.args)
		l.pushKept(j.s) // which may condemn it
	} else {
		l.executed(j)
	}
	if j.again || awaited {
		l.deliver()
		l.endWaitForTasks()
	}
}

// beginUnlocked begins a task of scope Unlocked.
func (l *loop) beginUnlocked(j *task) {
	x, of := &l.tasks, j.ctx.Spec.Lane()
	x.lanes[of].running = append(x.lanes[of].running, j)
	if of == commands.Elsewhere && x.waiting.index == 0 {
		l.timers.set(&x.waiting, l.o.Clock.Mono()+forsakenEvery)
	}
	l.runElsewhere(j)
}

// endUnlocked removes a task of scope Unlocked from its lane, and begins the next one. The tasks of
// clients that have left come after all others.
func (l *loop) endUnlocked(j *task) {
	at := &l.tasks.lanes[j.ctx.Spec.Lane()]
	at.running = slices.DeleteFunc(at.running, func(o *task) bool { return o == j })
	if len(at.queue) > 0 {
		i := max(0, slices.IndexFunc(at.queue, func(o *task) bool { return !o.s.left() }))
		next := at.queue[i]
		at.queue = slices.Delete(at.queue, i, i+1)
		l.env.BeginQueued(&next.ctx)
		l.beginUnlocked(next)
	}
}

// endForsaken ends tasks that wait for another server, if their client has left or CLIENT PAUSE
// waits for them. It ends a task only when it finds it for the second time, since the other server
// may be about to reply: a client may end its side as soon as it has sent its command.
func (l *loop) endForsaken() {
	x := &l.tasks
	at := &x.lanes[commands.Elsewhere]
	for _, j := range at.running {
		switch {
		case j.s.state != closed && !j.s.left() && !l.env.PauseWaits():
			j.forsaken = false
		case j.forsaken:
			j.ctx.Cancel()
		default:
			j.forsaken = true
		}
	}
	if len(at.running) > 0 {
		l.timers.set(&x.waiting, l.o.Clock.Mono()+forsakenEvery)
	}
}

// releaseQueued takes the tasks that have not begun out of the queue. Their commands wait again
// like commands that have no task.
func (l *loop) releaseQueued() {
	x := &l.tasks
	for i := range x.lanes {
		queue := x.lanes[i].queue
		x.lanes[i].queue = nil
		for _, j := range queue {
			x.count--
			j.s.wake()
			l.park(j.s, forTask, j.s.args)
		}
	}
}

// dropQueued drops the task of a session that ends, if it has not begun.
func (l *loop) dropQueued(s *session) {
	x := &l.tasks
	for i := range x.lanes {
		at := &x.lanes[i]
		had := len(at.queue)
		at.queue = slices.DeleteFunc(at.queue, func(j *task) bool { return j.s == s })
		x.count -= had - len(at.queue)
	}
}

// executed moves a task's reply to its session and lets the session continue.
func (l *loop) executed(j *task) {
	s := j.s
	if s.state != forOwnTask {
		j.ctx.RunEmitted()
		l.env.Gone(&s.client) // a transaction may have it subscribe, or track
		return
	}
	l.isolate(s, func(s *session) {
		s.wake()
		l.env.Observe(&j.ctx, 0, j.took)
		mark := s.out.add(j.out.Buf, &l.buffers)
		s.out.w.Full = s.out.w.Full || j.out.Full
		l.finishReply(s, &j.ctx, mark)
		l.pushKept(s)
		j.ctx.RunEmitted()
		s.past = commands.Past{}
		if l.serving { // its turn goes on
			s.args = nil
			return
		}
		l.goOn(s)
	})
}

// checkScript checks whether a script has run too long. If not, it sets a timer to check again when
// the script may have.
func (l *loop) checkScript() {
	x := &l.tasks
	if x.global == nil {
		return
	}
	busy, left := l.env.TooLong()
	if busy != "" {
		l.env.Busy = busy
		if l.stopping {
			l.env.StopScript()
		}
		l.releaseQueued()
		l.endWaitForTasks()
		return
	}
	if left <= 0 { // there is no threshold at present
		left = thresholdEvery
	}
	l.timers.set(&x.busy, l.o.Clock.Mono()+max(left, time.Millisecond))
}
