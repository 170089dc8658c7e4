package server

import (
	"fmt"
	"runtime/debug"
	"time"

	"keyp/commands"
	"keyp/storage"
)

// exclusive is where commands run that need the whole keyspace for long: scripts, and EXEC
// when it does more than use its keys. One runs at a time, on a goroutine of its own. The loop
// goes on meanwhile, but no command does that could need the keyspace: its session is parked,
// and goes on in its turn when the job has ended. Once a script has run for too long, such
// commands are refused instead. All of it belongs to the loop, but for gone.
type exclusive struct {
	job     *job       // that runs; nil: none
	waiting []*session // for its end, in the order in which they came
	txn     *storage.Txn
	timer   timer
	work    chan *job     // to the goroutine, which starts with the first job
	gone    chan struct{} // closed when the loop has ended
}

// runAlone has the session's parked command run as an exclusive job.
func (l *loop) runAlone(s *session) {
	x := &l.alone
	if x.work == nil {
		x.work, x.txn = make(chan *job), l.srv.Store.NewTxn()
		x.timer.run = l.watchScript
		go l.workAlone()
	}
	j := &job{s: s}
	j.out.Proto = s.client.Proto
	j.ctx = commands.Ctx{
		Spec: l.ctx.Spec, Args: commands.CopyArgs(s.args), Client: &s.client, Server: l.srv, Out: &j.out, Txn: x.txn,
	}
	j.ctx.Take()
	l.exec.jobs++
	x.job = j
	l.watchScript()
	x.work <- j
}

// workAlone is the goroutine that runs exclusive jobs.
func (l *loop) workAlone() {
	for {
		var j *job
		select {
		case j = <-l.alone.work:
		case <-l.alone.gone:
			return
		}
		began := l.o.Clock.Mono()
		err := l.doAlone(j)
		j.took = l.o.Clock.Mono() - began
		l.box.post(func() {
			if err != nil {
				l.fail(err)
				return
			}
			l.endAlone(j)
		})
	}
}

// doAlone runs a job. A panic that gets out of it is the store's, of which nothing is known
// then: the server stops, as guard has it.
func (l *loop) doAlone(j *job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.o.Log.Error("internal error", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error in the store: %v", p)
		}
	}()
	l.srv.RunExclusive(&j.ctx, func(fn func()) bool { return l.lend(j, fn) })
	return nil
}

// lend runs a part of an exclusive job on the loop. It returns false when the loop has ended.
func (l *loop) lend(j *job, fn func()) bool {
	done := make(chan struct{})
	l.box.post(func() {
		defer close(done)
		l.current = j.s
		fn()
		l.current = nil
	})
	select {
	case <-done:
		return true
	case <-l.alone.gone:
		return false
	}
}

// endAlone takes a job's reply into its session, and lets those go on that waited.
func (l *loop) endAlone(j *job) {
	x := &l.alone
	x.job = nil
	l.srv.Busy = ""
	l.timers.stop(&x.timer)
	l.owed = max(l.owed, j.ctx.LSN)
	l.executed(j)
	l.deliver()
	l.runWaiting()
}

// runWaiting lets the sessions go on that wait for the end of an exclusive job, until one of
// them begins another.
func (l *loop) runWaiting() {
	x := &l.alone
	for len(x.waiting) > 0 && (x.job == nil || l.srv.Busy != "") {
		s := x.waiting[0]
		x.waiting[0] = nil
		x.waiting = x.waiting[1:]
		if !s.closed && s.parked == parkAlone && l.fatal == nil {
			l.guard(s, l.resume)
		}
	}
	if len(x.waiting) == 0 {
		x.waiting = nil
	}
}

// mustWait says whether a command has to wait for the end of an exclusive job. Those that
// Dispatch refuses do not.
func (l *loop) mustWait(args [][]byte) bool {
	if l.alone.job == nil {
		return false
	}
	spec := l.srv.Table.Of(args)
	switch {
	case spec == nil:
		return false
	case spec.Is(commands.AllowBusy):
		return spec.Keys != nil
	default:
		return l.srv.Busy == ""
	}
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
		l.runWaiting()
		return
	}
	l.timers.set(&x.timer, l.o.Clock.Mono()+max(left, time.Millisecond))
}
