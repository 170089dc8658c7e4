package server

import (
	"sync"
	"time"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/resp"
)

// maxWorkers is how many jobs of scope Unlocked run at a time; more wait for their turn.
const maxWorkers = 4

// executor runs jobs of scope Unlocked beside the loop. A session has one job at most, so
// there are never more jobs than sessions.
type executor struct {
	post  func(func()) // to the loop
	clock clock.Clock

	mu      sync.Mutex
	more    sync.Cond
	queue   []*job
	workers int
	idle    int
	stopped bool
	jobs    int // whose end the loop has not seen, of any scope; belongs to the loop
}

// job is a command with all that it may touch: copies, since the session goes on to
// belong to the loop.
type job struct {
	s      *session
	ctx    commands.Ctx
	out    resp.Writer
	took   time.Duration
	moved  bool // a job that began, but does not go on, on the loop's goroutine; globalJobs.mu guards it
	pinned bool // of scope Pinned
	again  bool // and has to begin again, since its keys have changed
}

// run has a worker run the session's command. The loop calls it.
func (e *executor) run(l *loop, s *session) {
	j := &job{s: s}
	j.out.Proto, j.out.Max = s.client.Proto, l.replyMost(s)
	l.srv.StartJob(&l.ctx, &j.ctx, &j.out, nil)
	e.jobs++
	e.mu.Lock()
	defer e.mu.Unlock()
	e.more.L = &e.mu
	e.queue = append(e.queue, j)
	if e.idle > 0 {
		e.more.Signal()
		return
	}
	if e.workers < maxWorkers {
		e.workers++
		go e.work(l)
	}
}

// work is a worker's goroutine.
func (e *executor) work(l *loop) {
	for {
		j := e.take()
		if j == nil {
			return
		}
		began := e.clock.Mono()
		l.srv.RunJob(&j.ctx, nil)
		j.took = e.clock.Mono() - began
		e.post(func() { l.executed(j) })
	}
}

// take waits for a job; nil means that the executor has stopped.
func (e *executor) take() *job {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle++
	defer func() { e.idle-- }()
	for len(e.queue) == 0 && !e.stopped {
		e.more.Wait()
	}
	if e.stopped {
		return nil
	}
	j := e.queue[0]
	e.queue[0] = nil
	e.queue = e.queue[1:]
	return j
}

// stop lets the workers end; what they run at present ends by itself.
func (e *executor) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped, e.queue = true, nil
	if e.more.L != nil {
		e.more.Broadcast()
	}
}

// executed moves a job's reply to its session and lets that go on.
func (l *loop) executed(j *job) {
	l.exec.jobs--
	s := j.s
	if s.closed {
		j.ctx.RunEmitted()
		l.srv.Gone(&s.client) // a transaction may have it subscribe, or track
		return
	}
	l.guard(s, func(s *session) {
		l.srv.Observe(&j.ctx, 0, j.took)
		mark := s.out.add(j.out.Buf, &l.buffers)
		s.out.w.Full = s.out.w.Full || j.out.Full
		l.finishReply(s, j.ctx.Spec, mark, j.ctx.LSN)
		j.ctx.RunEmitted()
		l.pushKept(s)
		s.past = commands.Past{}
		if l.serving { // its turn goes on
			s.waits, s.args = forNothing, nil
			return
		}
		l.goOn(s)
	})
}
