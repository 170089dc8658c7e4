package server

import (
	"errors"
	"time"

	"keyp/commands"
)

// pauseFor begins CLIENT PAUSE, or extends it: the wider kind and the later end stand.
func (l *loop) pauseFor(kind commands.Pause, d time.Duration) {
	end := l.o.Clock.Mono() + d
	if l.pause != commands.PauseNone {
		end = max(end, l.pauseTimer.at)
	}
	l.pause = max(l.pause, kind)
	l.timers.set(&l.pauseTimer, end)
}

// endPause ends CLIENT PAUSE: each session goes on with the command that was delayed.
func (l *loop) endPause() {
	l.pause = commands.PauseNone
	l.timers.stop(&l.pauseTimer)
	l.resumed = append(l.resumed, l.paused...)
	clear(l.paused)
	l.paused = l.paused[:0]
	l.busy = true
}

// runResumed runs the delayed commands of sessions whose pause is over.
func (l *loop) runResumed() {
	turn := l.resumed
	l.resumed = nil
	for _, s := range turn {
		if s.state == forPause && l.fatal == nil {
			l.guard(s, l.resume)
		}
	}
}

// stop begins a clean stop.
func (l *loop) stop() {
	if l.stopping {
		return
	}
	l.stopping = true
	if l.env.Busy != "" {
		l.env.StopScript()
	}
	l.timers.set(&l.stopTimer, l.o.Clock.Mono()+stopTime)
	l.closeListeners()
	l.endPause()
	for _, s := range l.sessions {
		switch {
		case s == nil:
		case s.state == serving:
			s.halt()
		case s.state == forKeys:
			l.hangUp(s)
		case s.state == forHandshake:
			l.close(s)
		}
	}
}

// quiet says whether everything that was begun is answered and the answers are out.
func (l *loop) quiet() bool {
	if l.jobs.count > 0 || len(l.resumed) > 0 {
		return false
	}
	for _, s := range l.sessions {
		if s != nil && s.state != lingering && (s.waiting() || s.out.pending() > 0) {
			return false
		}
	}
	return true
}

// finish ends a clean stop with a last commit, unless the log has no room: that could wait
// for ever.
func (l *loop) finish() error {
	if l.jobs.global != nil {
		return errors.New("a script or transaction has not ended: nothing of it is kept")
	}
	if l.giveUp {
		l.o.Log.Warn("some replies could not be sent before the stop", "bound", stopTime)
	}
	if l.log.Full() && l.log.Durable() < l.log.End() {
		l.o.Log.Warn("the log has no room for what was not acknowledged: it may be lost")
		return nil
	}
	return l.log.Commit()
}
