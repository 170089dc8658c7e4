package server

import (
	"slices"
	"time"

	"keyp/commands"
)

// A member of a group serves clients according to its role, which Dispatch checks for each command.
// This file handles the other effects of a change of the role. It also holds back the replies of a
// leader until it is certain that this member was still the leader when they were made.

// leaseLook is how often the loop looks again for a lease while replies wait for one.
const leaseLook = 5 * time.Millisecond

// membership is the loop's part of that state.
type membership struct {
	commands.Membership                       // nil: the server is in no group, and never will be
	status              *commands.GroupStatus // as the loop has followed it
	patience            timer                 // until commands wait for the group
	// Sessions with replies that wait until it is certain that this server led.
	unproven []*session
	term     uint64 // in which all of these replies were made
	looks    timer  // for that
	asked    bool   // a majority has been asked, and has not answered
	quorum   bool   // cluster-reads
}

// follow handles a change of the group's status.
func (l *loop) follow() {
	g := &l.group
	was, now := g.status, g.Status()
	if was == now {
		return
	}
	g.status = now
	if was != nil && was.Role.Leads() && (!now.Role.Leads() || was.Term != now.Term) {
		l.deposed()
	} else if !l.env.Leads(g.term) {
		l.endUnproven() // it was elected and deposed within a pass
	}
	l.awaitGroup()
	l.regroup()
}

// awaitGroup bounds how long commands wait for the group.
func (l *loop) awaitGroup() {
	if until := l.env.Undecided(); until > l.mono {
		l.timers.set(&l.group.patience, until)
		return
	}
	l.timers.stop(&l.group.patience)
}

// regroup dispatches again the commands that wait for the group. It does the same to those that
// wait for keys, if they may not wait any longer.
func (l *loop) regroup() {
	l.release(forGroup)
	l.busy = true
	st := l.group.status
	if until := l.env.Undecided(); st == nil || st.Role == commands.Alone ||
		st.Role == commands.Leader || until > l.mono {
		return
	}
	for _, s := range l.sessions {
		if s != nil && s.state == forUnblock && s.blocked.waiter.ForKeys() && !s.blocked.loads &&
			!s.blocked.parked {
			l.isolate(s, l.resume)
		}
	}
	if st.Role == commands.Tentative {
		l.endWaiting()
	}
}

// endWaiting closes the clients whose replies wait for the log when nobody has led the group for
// too long. The outcome of their writes may stay unknown for ever.
func (l *loop) endWaiting() {
	for _, s := range l.waiting {
		if s.takes() && s.out.needs[0].lsn > l.log.Durable() {
			l.o.Log.Debug("closing a client, since nobody leads the group and its writes are not known to be committed",
				"client", s.client.ID, "address", s.client.Addr)
			l.condemn(s)
		}
	}
}

// deposed handles the loss of the leadership: the outcome of the last commands is unknown.
func (l *loop) deposed() {
	l.endUnproven()
	l.env.Deposed()
	for _, s := range l.sessions {
		if s != nil && s.blocked != nil && s.blocked.on.Leads {
			l.isolate(s, func(s *session) { l.endBlocked(s, (*commands.Ctx).ForceUnblock) })
		}
	}
}

// endUnproven closes the clients with replies that were made in a term that is over, if it was not
// yet certain that this server still led when it made them.
func (l *loop) endUnproven() {
	g := &l.group
	for _, s := range g.unproven {
		if s.out.holds && s.takes() {
			l.o.Log.Debug("closing a client whose replies may not be those of the group", "client",
				s.client.ID, "address", s.client.Addr)
			l.condemn(s)
		}
	}
	clear(g.unproven)
	g.unproven = g.unproven[:0]
	l.timers.stop(&g.looks)
}

// shows notes that the reply which begins at mark in the session's output shows data of the leader
// of a term. If that term or the session is over, it returns false, and nothing of the reply may
// leave.
func (l *loop) shows(s *session, mark int, term uint64) bool {
	g := &l.group
	if !l.env.Leads(term) {
		return false
	}
	if g.term != term {
		l.endUnproven()
		g.term = term
	}
	if !s.takes() {
		return false
	}
	if s.out.hold(mark) {
		g.unproven = append(g.unproven, s)
	}
	return true
}

// prove releases replies that were made while this server led, if its leadership is certain by now.
// It is called after all commands of the pass.
func (l *loop) prove() {
	g := &l.group
	if len(g.unproven) == 0 {
		return
	}
	if g.quorum {
		l.askQuorum()
		return
	}
	if g.Leased(g.term) {
		l.timers.stop(&g.looks)
		for _, s := range g.unproven {
			if s.out.holds && s.takes() {
				s.out.holds = false
				l.touch(s)
			}
		}
		clear(g.unproven)
		g.unproven = g.unproven[:0]
		return
	}
	l.lookForLease()
}

// cutUnproven ends a connection with a reply that was made by a leader whose term is over. The
// reply may differ from the data of the group.
func (l *loop) cutUnproven(s *session) {
	if s.takes() {
		l.condemn(s)
	}
}

func (l *loop) lookForLease() {
	if l.group.looks.index == 0 {
		l.timers.set(&l.group.looks, l.o.Clock.Mono()+leaseLook)
	}
}

// askQuorum asks a majority to confirm the replies so far, with one question at a time.
func (l *loop) askQuorum() {
	g := &l.group
	if g.asked {
		return
	}
	g.asked = true
	term := g.term
	for _, s := range g.unproven {
		s.out.asked = s.out.end()
	}
	asked := slices.Clone(g.unproven)
	g.Confirm(term, func(leads bool) {
		l.box.post(func() { l.answered(asked, term, leads) })
	})
}

// answered releases the replies that existed when a majority was asked, if the majority has
// confirmed.
func (l *loop) answered(asked []*session, term uint64, confirmed bool) {
	g := &l.group
	g.asked = false
	if g.term != term || !l.env.Leads(term) {
		return // they were closed, or will be
	}
	if !confirmed {
		l.lookForLease() // and ask again, unless another one leads
		return
	}
	for _, s := range asked {
		if s.out.holds && s.takes() {
			s.out.confirm()
			l.touch(s)
		}
	}
	g.unproven = slices.DeleteFunc(g.unproven, func(s *session) bool { return !s.out.holds })
}
