package server

import (
	"slices"
	"time"

	"keyp/commands"
)

// delay parks a session whose command may not run yet. It waits for the end of a job (forJob) or of
// CLIENT PAUSE (forPause), or until the group's leader is known (forGroup). A session whose command
// also waits for keys stays in that wait, and its command is tried again afterwards.
func (l *loop) delay(s *session, why state, args [][]byte) {
	if why == forPause && s.left() {
		l.dropPaused(s)
		return
	}
	s.args = args
	if s.blocked == nil {
		s.wait(why)
	} else {
		s.wait(forUnblock)
		if s.blocked.delayed {
			return
		}
		s.blocked.delayed = true
	}
	if len(l.delayed) == cap(l.delayed) { // many of them may have ended since
		l.delayed = slices.DeleteFunc(l.delayed, func(s *session) bool { return !s.delayed() })
		l.delayed = slices.Grow(l.delayed, len(l.delayed)+1)
	}
	l.delayed = append(l.delayed, s)
}

// dropPaused ends a session whose client has closed its sending side while CLIENT PAUSE delays its
// command, which does not run. A client within the process (Connect) does so after its last command
// and still reads, so it gets an error.
func (l *loop) dropPaused(s *session) {
	if s.inside && s.client.Reply == commands.ReplyOn {
		l.env.Stats.Errors.Add(1)
		s.out.begin(&l.buffers)
		s.out.w.Error("ERR CLIENT PAUSE delays this command; neither it nor any behind it was run")
	}
	l.dropCommand(s)
}

// delayed reports whether the session is one of loop.delayed, and not one that has ended since.
func (s *session) delayed() bool {
	return s.state == forJob || s.state == forPause || s.state == forGroup ||
		s.blocked != nil && s.blocked.delayed
}

// release gives the sessions that wait for why their turns, before all others and in the order in
// which they came. Their commands then run, or wait again. Sessions that were released earlier in
// the same pass stay before them. Otherwise a write could come before the CLIENT PAUSE that it
// waited for.
func (l *loop) release(why state) {
	if len(l.delayed) == 0 {
		return
	}
	delayed := l.delayed
	l.delayed = nil
	var turns []*session
	for _, s := range delayed {
		switch {
		case s.state == why:
			s.release()
			if !s.queued {
				s.queued = true
				turns = append(turns, s)
			}
		case s.blocked != nil && s.blocked.delayed && why != forPause:
			s.blocked.delayed = false
			l.env.Waiters.LookAgain(s.blocked.waiter)
			l.busy = true
		case s.delayed():
			l.delayed = append(l.delayed, s)
		}
	}
	at := 0
	for i, s := range l.queue {
		if s.state == released {
			at = i + 1
		}
	}
	l.queue = slices.Insert(l.queue, at, turns...)
}

// endWaitForJobs releases those that wait for the end of a job.
func (l *loop) endWaitForJobs() {
	if len(l.delayed) > 0 {
		l.release(forJob)
		l.deliver()
	}
}

// pauseFor begins CLIENT PAUSE, or extends it: the wider kind and the later end stand. While the
// server stops nothing is delayed any more.
func (l *loop) pauseFor(kind commands.Pause, d time.Duration) {
	if l.stopping {
		return
	}
	end := l.o.Clock.Mono() + d
	if l.paused() {
		end = max(end, l.pauseTimer.at)
	}
	l.env.Paused = max(l.env.Paused, kind)
	l.timers.set(&l.pauseTimer, end)
}

// paused reports whether CLIENT PAUSE delays commands.
func (l *loop) paused() bool { return l.env.Paused != commands.PauseNone }

// endPause ends CLIENT PAUSE: each session goes on with the command that was delayed. A command may
// be running, so what happened to keys meanwhile is delivered in the next pass.
func (l *loop) endPause() {
	l.env.Paused = commands.PauseNone
	l.timers.stop(&l.pauseTimer)
	l.release(forPause)
	l.busy = true
}
