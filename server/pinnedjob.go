package server

import (
	"os"
	"runtime"
)

// pinnedJobs runs jobs of scope Pinned, which read much of large values (commands.Spec.Offload).
// Such a job has no shard locked, so others are served meanwhile. It begins on the loop's goroutine,
// as most end soon, and like a global job keeps that when it takes longer: another goroutine becomes
// the loop.
//
// The loop waits for nothing of it. Sessions do: those that are to change one of its values,
// those with more of its kind than there are processors to spare for, and global jobs, which
// may change anything. All of it belongs to the loop.
type pinnedJobs struct {
	running int
	waiting []*session // for the end of one; while there are some nothing more begins
}

// processors is how many the process has.
var processors = runtime.GOMAXPROCS(0)

// spareProcs is how many goroutines more than that are to run at a time: see SpareProcs.
const spareProcs = 2

// SpareProcs has Go run more goroutines at a time than there are processors, unless its user
// said how many. Go lets one that computes have its turn for 10 ms, also while the loop is
// ready, as it does not know that the loop matters more: beside such a job and the collector, on two
// processors, the loop waited so each time that it had slept. The system divides the processors
// among more threads sooner, and runs one that mostly waits before others. The call stops the
// world for a moment.
func SpareProcs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + spareProcs)
	}
}

// waitForPinned has a session wait until one of the jobs has ended.
func (l *loop) waitForPinned(s *session, args [][]byte) {
	s.waits, s.args = forJob, args
	l.pinned.waiting = append(l.pinned.waiting, s)
}

// startPinned has a session's command run as a job of scope Pinned.
func (l *loop) startPinned(s *session) {
	j := &job{s: s, pinned: true}
	j.out.Proto, j.out.Max = s.client.Proto, l.replyMost(s)
	l.srv.StartJob(&l.ctx, &j.ctx, &j.out, l.srv.Store.NewTxn())
	l.exec.jobs++
	l.pinned.running++
	if l.serving {
		l.runOnLoop(j)
		return
	}
	j.moved = true
	go func() { l.postEnd(j, l.do(j)) }()
}

// endPinned moves a job's reply to its session, and lets those go on that waited.
func (l *loop) endPinned(j *job) {
	l.pinned.running--
	l.srv.EndJob(&j.ctx)
	l.owed = max(l.owed, j.ctx.LSN)
	if j.again && !j.s.closed {
		l.exec.jobs--
		j.s.past.Offloads++
		l.pushKept(j.s)
		l.waitForPinned(j.s, j.s.args)
	} else {
		l.executed(j)
	}
	l.deliver()
	l.release(&l.pinned.waiting)
}
