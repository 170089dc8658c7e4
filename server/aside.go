package server

import (
	"os"
	"runtime"
)

// aside is where commands run that read much of large values (commands.Spec.Long). Such a
// command holds no shard, so others are served meanwhile. It begins on the loop's goroutine, as
// most end soon, and like an exclusive job keeps that when it takes longer: another goroutine is
// the loop from then on.
//
// The loop waits for nothing of it. Sessions do: those that are to change one of its values,
// those with more of its kind than there are processors to spare for, and exclusive jobs, which
// may change anything. All of it belongs to the loop.
type aside struct {
	running int
	waiting []*session // for the end of one; while there are some nothing more begins
}

// processors is how many the process has.
var processors = runtime.GOMAXPROCS(0)

// spareProcs is how many goroutines more than that are to run at a time: see SpareProcs.
const spareProcs = 2

// SpareProcs has Go run more goroutines at a time than there are processors, unless its user
// said how many. Go lets one that computes have its turn for 10 ms, also while the loop is
// ready, of which it knows no better: beside a command aside and the collector, on two
// processors, the loop waited so each time that it had slept. The system divides the processors
// among more threads sooner, and runs one that mostly waits before others. The call stops the
// world for a moment.
func SpareProcs() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors + spareProcs)
	}
}

// waitAside parks a session until a command that runs aside has ended.
func (l *loop) waitAside(s *session, args [][]byte) {
	s.parked, s.args = parkAlone, args
	l.aside.waiting = append(l.aside.waiting, s)
}

// runAside has a session's parked command run aside.
func (l *loop) runAside(s *session) {
	j := &job{s: s, aside: true}
	j.out.Proto, j.out.Max = s.client.Proto, l.replyMost(s)
	l.srv.StartJob(&l.ctx, &j.ctx, &j.out, l.srv.Store.NewTxn())
	l.exec.jobs++
	l.aside.running++
	if l.serving {
		l.runHere(j)
		return
	}
	j.moved = true
	go func() { l.postEnd(j, l.do(j)) }()
}

// endAside takes in the reply of a command that ran aside, and lets those go on that waited.
func (l *loop) endAside(j *job) {
	l.aside.running--
	l.srv.EndJob(&j.ctx)
	l.owed = max(l.owed, j.ctx.LSN)
	if j.again && !j.s.closed {
		l.exec.jobs--
		j.s.past.Offloads++
		l.pushKept(j.s)
		l.waitAside(j.s, j.s.args)
	} else {
		l.executed(j)
	}
	l.deliver()
	l.release(&l.aside.waiting)
}
