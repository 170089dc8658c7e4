package server

import (
	"errors"
	"time"

	"keyp/commands"
)

// maxPause bounds the timer of a pause, in milliseconds, where it would overflow: cron
// sees the end of a longer one.
const maxPause = 1 << 32

// hold begins or extends CLIENT PAUSE, until an instant in Unix ms.
func (l *loop) hold(kind commands.Pause, until int64) {
	l.pause = max(l.pause, kind)
	l.pauseEnd = max(l.pauseEnd, until)
	l.wakeAtPauseEnd()
}

// wakeAtPauseEnd sets the timer for the end of the pause. The wall clock may jump, so
// every pass looks at it again; cron sees to it that there are passes.
func (l *loop) wakeAtPauseEnd() {
	if l.pauseTimer.run == nil {
		l.pauseTimer.run = func() {
			if l.pause != commands.PauseNone {
				l.busy = true
			}
		}
	}
	left := max(0, l.pauseEnd-l.o.Clock.Now())
	l.timers.set(&l.pauseTimer, l.o.Clock.Mono()+time.Duration(min(left, maxPause))*time.Millisecond)
}

// unhold ends CLIENT PAUSE: what was held back runs, each session from its held
// command on.
func (l *loop) unhold() {
	l.pause, l.pauseEnd = commands.PauseNone, 0
	l.timers.stop(&l.pauseTimer)
	l.released = append(l.released, l.held...)
	clear(l.held)
	l.held = l.held[:0]
	l.busy = true
}

// runReleased runs the held commands of sessions whose pause is over.
func (l *loop) runReleased() {
	turn := l.released
	l.released = nil
	for _, s := range turn {
		if !s.closed && s.parked == parkHeld && l.fatal == nil {
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
	if l.srv.Busy != "" {
		l.srv.StopScript()
	}
	l.timers.set(&l.stopTimer, l.o.Clock.Mono()+stopTime)
	l.closeListeners()
	l.unhold()
	for _, s := range l.sessions {
		switch {
		case s == nil:
		case s.parked == parkBlocked:
			l.hangUp(s)
		case s.parked == parkGreeting:
			l.close(s)
		}
	}
}

// quiet says whether everything that was begun is answered and the answers are out.
func (l *loop) quiet() bool {
	if l.exec.jobs > 0 || len(l.released) > 0 {
		return false
	}
	for _, s := range l.sessions {
		if s != nil && !s.lingering && (s.parked != parkNone || s.out.pending() > 0) {
			return false
		}
	}
	return true
}

// finish ends a clean stop with a last commit, unless the log has no room: that could wait
// for ever.
func (l *loop) finish() error {
	if l.alone.job != nil {
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
