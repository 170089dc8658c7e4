package server

import (
	"slices"
	"time"

	"keyp/commands"
)

// park parks a session whose command may not run yet. The session then waits for the end of a task
// (forTask) or of CLIENT PAUSE (forPause), or until the group's leader is known (forGroup). If the
// command is a blocking one that waits for keys already, the session stays in the state forUnblock,
// and the command is tried again when the task or pause has ended.
func (l *loop) park(s *session, why state, args [][]byte) {
	if why == forPause && s.left() {
		l.dropPaused(s)
		return
	}
	s.args = args
	if s.blocked == nil {
		s.wait(why)
	} else {
		s.wait(forUnblock)
		if s.blocked.parked {
			return
		}
		s.blocked.parked = true
	}
	if len(l.waitlist) == cap(l.waitlist) { // many of them may have ended since
		l.waitlist = slices.DeleteFunc(l.waitlist, func(s *session) bool { return !s.parked() })
		l.waitlist = slices.Grow(l.waitlist, len(l.waitlist)+1)
	}
	l.waitlist = append(l.waitlist, s)
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

// parked reports whether the session is in loop.waitlist and still waits. A session that has ended
// may still be in that list.
func (s *session) parked() bool {
	return s.state == forTask || s.state == forPause || s.state == forGroup ||
		s.blocked != nil && s.blocked.parked
}

// release gives the sessions that wait for why their turns, before all others and in the order in
// which they came. Their commands then run, or wait again. Sessions that were released earlier in
// the same pass stay before them. Otherwise a write could come before the CLIENT PAUSE that it
// waited for.
func (l *loop) release(why state) {
	if len(l.waitlist) == 0 {
		return
	}
	delayed := l.waitlist
	l.waitlist = nil
	var turns []*session
	for _, s := range delayed {
		switch {
		case s.state == why:
			s.release()
			if !s.queued {
				s.queued = true
				turns = append(turns, s)
			}
		case s.blocked != nil && s.blocked.parked && why != forPause:
			s.blocked.parked = false
			l.env.Waiters.LookAgain(s.blocked.waiter)
			l.busy = true
		case s.parked():
			l.waitlist = append(l.waitlist, s)
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

// endWaitForTasks releases those that wait for the end of a task.
func (l *loop) endWaitForTasks() {
	if len(l.waitlist) > 0 {
		l.release(forTask)
		l.deliver()
	}
}

// pauseFor begins CLIENT PAUSE, or extends it: the wider kind and the later end apply. While the
// server stops, nothing is delayed any more.
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
// be running, so the events and changes of keys are delivered in the next pass.
func (l *loop) endPause() {
	l.env.Paused = commands.PauseNone
	l.timers.stop(&l.pauseTimer)
	l.release(forPause)
	l.busy = true
}
