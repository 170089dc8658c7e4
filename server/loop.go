package server

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"keyp/commands"
	"keyp/resp"
	"keyp/storage"
)

// This file contains the event loop, which serves all clients in rounds, called passes. A pass
// waits for sockets, runs the commands that have arrived, and sends their replies.

const (
	// stopTime bounds a clean stop: replies that have not left by then are lost.
	stopTime = 5 * time.Second
	// A script that still runs is ended lastTime before the end of stopTime.
	lastTime = time.Second
	// cronTime is the period of the loop's housekeeping.
	cronTime = 100 * time.Millisecond
)

// loop is the event loop. All fields except box belong to its goroutine.
type loop struct {
	o    *Options
	env  *commands.Env
	log  storage.Journal
	box  mailbox
	poll *poller

	listeners []*listener
	reserve   reserve
	// No descriptors are left: the reserve is given up, and no connection is accepted.
	starved  bool
	refill   timer      // tries to end that
	sessions []*session // by descriptor
	count    int        // sessions, those that linger included
	nextID   uint64

	queue, spare []*session    // can go on in the next pass
	turn         []*session    // have yet to have their turns in this pass
	serving      bool          // one of them has its turn
	turnEnd      time.Duration // reading of Mono: see turnTime
	ended        chan error    // run's answer
	touched      []*session    // have something to send or to count in this pass
	unsent       []*session    // could send more than they were to in this pass
	// Wait for the end of CLIENT PAUSE or of a task, in the order in which they came.
	waitlist  []*session
	unsettled []unsettled // wait for the log to settle, in the order of their LSNs
	settles   bool        // that is under way
	waiting   []*session  // have output that is not durable
	condemned []*session  // to close at the end of the pass
	toClose   []int       // descriptors to close at the end of the pass

	ctx        commands.Ctx
	seams      seams
	ahead      [][]byte // the keys of commands to come (prefetch)
	keyPlace   func(name []byte) int
	settings   settings
	stale      atomic.Bool        // settings are to be read again
	current    *session           // whose command runs
	behind     []message          // pushed to it meanwhile
	kept       map[*session]*kept // pushed to those whose command a task runs
	complaints complaints
	inStore    bool // a command runs: a panic that gets out of it is the store's
	buffers    bufferPool
	memory     memory
	readers    readerPool
	tls        tlsFront
	tasks      tasks
	group      membership
	watchdog   watchdog

	pass      uint64        // number of the present pass
	mono      time.Duration // the newest reading of Mono
	sending   time.Duration // likewise when output began to leave
	serves    time.Duration // when the pass began to serve waiters
	durable   uint64        // the log's Durable, as last looked at
	requested uint64        // the log's End when a commit was last asked for
	owed      uint64        // the newest position that a reply depends on
	paced     uint64        // the log's End at the last commit
	busy      bool          // the pass left work that need not wait for a socket

	timers     timers
	cron       timer
	rates      rates
	pauseTimer timer // its end
	swept      int   // the descriptor that sweep looked at last
	stopping   bool
	stopTimer  timer
	hurried    bool // scripts have been ended for the stop
	giveUp     bool // the stop lasts too long
	fatal      error
}

// settings are the options that the loop needs often.
type settings struct {
	limits, guest resp.Limits // after and before authentication
	queryBuffer   int
	normal        outputLimit
	pubsub        outputLimit
	idle          time.Duration // 0: never too long
}

// outputLimit is client-output-buffer-limit of one class of clients.
type outputLimit struct {
	hard, soft int
	patience   time.Duration
}

func newLoop(o *Options, listeners []*listener) (*loop, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, fmt.Errorf("cannot wait for sockets: %w", err)
	}
	l := &loop{o: o, env: o.Env, log: o.Env.Store.Log(), poll: poll, listeners: listeners,
		kept: map[*session]*kept{}, complaints: complaints{}}
	l.box.poll = poll
	for _, ln := range listeners {
		if err := poll.add(ln.fd); err != nil {
			return nil, firstError(fmt.Errorf("cannot wait for connections to %s: %w", ln.addr,
				err), poll.close())
		}
	}
	if !l.reserve.take() {
		return nil, firstError(errors.New("the limit of open files is too low (ulimit -n)"),
			poll.close())
	}
	for _, ln := range listeners {
		if ln.tls && l.tls.turn == nil {
			if err := l.tls.setUp(o); err != nil {
				return nil, firstError(err, poll.close())
			}
		}
	}
	l.tasks.gone, l.ended = make(chan struct{}), make(chan error, 1)
	l.tasks.busy.run, l.tasks.share.run, l.tasks.waiting.run = l.checkScript,
		l.shareOut, l.endForsaken
	l.seams = l.defaultSeams()
	o.Env.LimitTasks(processors - 1) // one is left to the loop
	l.ahead, l.keyPlace = make([][]byte, 0, storage.PrefetchKeys), o.Env.Table.KeyPlace
	l.ctx.Txn = o.Env.Store.NewTxn()
	l.cron.run, l.pauseTimer.run = l.tick, l.endPause
	l.group.Membership = o.Env.Membership()
	l.group.patience.run, l.group.looks.run = l.regroup, func() { l.busy = true }
	l.refill.run = l.acceptAgain
	l.stopTimer.run = l.hurry
	l.followSettings()
	l.mono = o.Clock.Mono()
	l.durable = l.log.Durable()
	l.timers.set(&l.cron, l.mono+cronTime)
	return l, nil
}

// run runs the loop until it ends.
func (l *loop) run() error {
	go l.runWatchdog()
	go l.cycle(false)
	return <-l.ended
}

// cycle is the loop's goroutine. over: it takes the loop over from another goroutine, which
// continues with a task.
func (l *loop) cycle(over bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if over {
		l.takeOver()
	}
	err := l.passes()
	l.shut()
	l.ended <- err
}

func (l *loop) passes() error {
	for l.fatal == nil {
		n, err := l.poll.wait(l.timeout())
		if err != nil {
			return fmt.Errorf("waiting for sockets: %w", err)
		}
		l.begin()
		l.vital(func() {
			l.takeIn(n)
			l.timers.fire(l.mono)
		})
		l.serveReady()
		l.env.Tracking.Broadcast()
		l.commit()
		l.write()
		l.closeCondemned()
		l.closeEnded()
		if l.stopping && l.fatal == nil && (l.giveUp || l.quiet()) {
			return l.finish()
		}
	}
	return l.fatal
}

// timeout returns how long the pass may wait for sockets; below zero: without limit.
func (l *loop) timeout() time.Duration {
	if l.busy || len(l.queue) > 0 || !l.box.maySleep() || l.stale.Load() || l.env.Undelivered() {
		return 0
	}
	wait, ok := l.timers.next(l.o.Clock.Mono())
	if !ok {
		return -1
	}
	return wait
}

// begin starts a pass.
func (l *loop) begin() {
	l.box.begin()
	l.pass++
	l.watchdog.passes.Store(l.pass)
	l.busy = false
	l.mono = l.o.Clock.Mono()
	if l.stale.Swap(false) {
		l.readSettings()
	}
	if l.group.Membership != nil {
		l.vital(l.follow)
	}
}

// takeIn handles n events of sockets, and runs the functions that others have posted.
func (l *loop) takeIn(n int) {
	for i := range n {
		fd, ready := l.poll.at(i)
		if fd < 0 {
			continue
		}
		if fd < len(l.sessions) && l.sessions[fd] != nil {
			l.seams.event(l.sessions[fd], ready)
			continue
		}
		for _, ln := range l.listeners {
			if ln.fd == fd {
				ln.ready = true
			}
		}
	}
	l.acceptAll()
	for _, fn := range l.box.take() {
		fn()
	}
	l.env.Events.Deliver(eventsInPass)
	l.serves = l.o.Clock.Mono()
	l.env.Waiters.Resume()
	l.deliver()
}

// event notes what a session's socket is ready for.
func (l *loop) event(s *session, ready readiness) {
	if ready&readyRead != 0 {
		s.readable = true
	}
	if ready&readyEOF != 0 {
		s.readToEnd = true
	}
	if s.state == forHandshake {
		l.shake(s)
		return
	}
	if ready&readyEOF != 0 && s.waiting() {
		l.clientLeaves(s, ready&readyDead != 0)
	}
	if ready&readyDead != 0 && s.stalled {
		l.close(s) // it waits for room that will not come
	}
	if ready&readyWrite != 0 && s.full {
		s.full = false
		l.touch(s)
	}
	if s.canGoOn() {
		l.enqueue(s)
	}
}

// clientLeaves handles a waiting session whose client has ended its side of the connection. The
// client may still read: dead reports that nothing can be sent either. As with Redis, a blocked or
// paused command is dropped. Any other command runs, since Redis would have run it when it came.
// But a read-only command whose client cannot receive the reply ends; a task of it that has begun
// ends by itself.
func (l *loop) clientLeaves(s *session, dead bool) {
	switch {
	case s.state == forPause:
		l.dropPaused(s)
	case s.state == forUnblock && !s.blocked.on.Works:
		l.dropCommand(s)
	case dead && (s.args == nil || l.env.Table.Of(s.args).Is(commands.ReadOnly)):
		l.close(s)
	}
}

// serveReady gives every session in the queue its turn. Sessions that are queued meanwhile have
// their turns in the next pass.
func (l *loop) serveReady() {
	turn := l.queue
	l.queue = l.spare[:0]
	for i, s := range turn {
		if i%storage.PrefetchKeys == 0 {
			l.lookAhead(turn[i:min(i+storage.PrefetchKeys, len(turn))])
		}
		s.queued = false
		if s.state != closed && l.fatal == nil {
			l.turn, l.serving = turn[i+1:], true
			l.isolate(s, l.serve)
			l.serving = false
		}
	}
	l.turn = nil
	clear(turn)
	l.spare = turn[:0]
}

// vital runs a part of the loop that belongs to no session alone. After a panic the server stops.
func (l *loop) vital(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			l.env.Stats.Panics.Add(1)
			l.fatal = fmt.Errorf("internal error: %v", p)
		}
	}()
	fn()
}

// isolate runs a part of the loop for one session; a panic costs that session alone. A panic in a
// command's handler costs that command alone (Env.Dispatch). After a panic in the store outside of
// handlers, where transactions begin and end, it is unknown which locks are held and which changes
// are half done. Then the server stops, and a restart recovers the durable data.
func (l *loop) isolate(s *session, fn func(*session)) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		l.o.Log.Error("internal error", "client", s.client.ID, "panic", fmt.Sprint(p), "stack",
			string(debug.Stack()))
		l.env.Stats.Panics.Add(1)
		if l.inStore {
			l.fatal = fmt.Errorf("internal error in the store: %v", p)
		}
		l.current, l.inStore = nil, false
		clear(l.behind)
		l.behind = l.behind[:0]
		l.close(s)
	}()
	fn(s)
}

// enqueue gives a session a turn in the next serveReady.
func (l *loop) enqueue(s *session) {
	if !s.queued && s.state != closed {
		s.queued = true
		l.queue = append(l.queue, s)
	}
}

// touch marks a session to be looked at when this pass writes replies.
func (l *loop) touch(s *session) {
	if !s.touched && s.state != closed {
		s.touched = true
		l.touched = append(l.touched, s)
	}
}

// closeEnded closes the descriptors of sessions that ended. Only now may their numbers be
// used again: no event of this pass is left that could name them.
func (l *loop) closeEnded() {
	for _, fd := range l.toClose {
		if err := unix.Close(fd); err != nil {
			l.o.Log.Debug("closing a connection", "error", err)
		}
	}
	if len(l.toClose) > 0 && l.starved {
		l.acceptAgain()
	}
	l.toClose = l.toClose[:0]
}

// shut frees the loop's resources, and closes all sessions.
func (l *loop) shut() {
	if l.o.Bell != nil {
		l.o.Bell.box.Store(nil)
	}
	close(l.tasks.gone)
	l.closeListeners()
	for _, s := range l.sessions {
		if s != nil {
			l.close(s)
		}
	}
	l.closeEnded()
	l.reserve.release()
	l.box.close()
	if err := l.poll.close(); err != nil {
		l.o.Log.Error("closing the poller", "error", err)
	}
}
