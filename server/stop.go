package server

import (
	"errors"

	"keyp/commands"
)

// stop begins a clean stop.
func (l *loop) stop() {
	if l.stopping {
		return
	}
	l.stopping = true
	if l.env.Busy != "" {
		l.env.StopScript()
	}
	l.timers.set(&l.stopTimer, l.o.Clock.Mono()+stopTime-lastTime)
	l.closeListeners()
	l.endPause()
	for _, s := range l.sessions {
		switch {
		case s == nil:
		case s.state == serving:
			s.halt()
		case s.state == forUnblock && s.blocked.waiter.ForKeys():
			l.dropCommand(s)
		case s.state == forHandshake:
			l.close(s)
		}
	}
}

// hurry ends the scripts, and the commands that wait for other servers: they keep the server from
// stopping. The second time it ends the stop itself. It also ends scripts that begin later: their
// tasks may be about to run, or wait for another script.
func (l *loop) hurry() {
	if l.hurried {
		l.giveUp = true
		return
	}
	l.hurried = true
	l.env.EndScripts()
	for _, j := range l.tasks.lanes[commands.Elsewhere].running {
		j.ctx.Cancel()
	}
	l.timers.set(&l.stopTimer, l.o.Clock.Mono()+lastTime)
}

// quiet reports whether everything that was begun is answered and the answers are out.
func (l *loop) quiet() bool {
	if l.tasks.count > 0 {
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
	if l.tasks.global != nil {
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
