package member

import (
	"time"

	"keyp/commands"
)

// wait is a call of await: done is called once, as soon as over returns true.
type wait struct {
	over func() bool
	done func()
}

// await calls done once, when over returns true, unless stop is called before.
func (m *Member) await(over func() bool, done func()) (stop func()) {
	w := &wait{over, done}
	m.mu.Lock()
	m.mu.waits[w] = true
	m.mu.Unlock()
	m.look()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.mu.waits, w)
	}
}

// look ends the waits that are over.
func (m *Member) look() {
	m.mu.Lock()
	var list []*wait
	for w := range m.mu.waits {
		list = append(list, w)
	}
	m.mu.Unlock()
	for _, w := range list {
		if !w.over() {
			continue
		}
		m.mu.Lock()
		waits := m.mu.waits[w]
		delete(m.mu.waits, w)
		m.mu.Unlock()
		if waits {
			w.done()
		}
	}
}

// Status, OnChange, Leased, Confirm, Synced, AwaitSynced and Progress implement
// commands.Membership.
func (m *Member) Status() *commands.GroupStatus { return m.status.Load() }

func (m *Member) OnChange(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed = fn
}

// leads reports whether this member leads in a term.
func (m *Member) leads(term uint64) bool {
	st := m.status.Load()
	return st.Role.Leads() && st.Term == term
}

func (m *Member) Leased(term uint64) bool { return m.leads(term) && m.group.LeasedIn(term) }

// askAgain is the pause before a majority is asked again. A question counts only if its stamp is
// later than the moment that it must confirm, and stamps have a resolution of 1 ms.
const askAgain = 2 * time.Millisecond

func (m *Member) Confirm(term uint64, done func(leads bool)) {
	read := m.o.Clock.Boot()
	confirmed := func() bool { return m.leads(term) && m.group.Confirmed(term, read) }
	m.await(func() bool { return !m.leads(term) || confirmed() }, func() { done(confirmed()) })
	var ask func()
	ask = func() {
		if m.group.Ask() == read && m.ctx.Err() == nil {
			time.AfterFunc(askAgain, ask)
			return
		}
		m.look()
	}
	ask()
}

func (m *Member) Synced(lsn uint64) (n int) {
	m.journal.mu.Lock()
	index, known := m.journal.indexOf(lsn), len(m.journal.mu.spans) > 0
	m.journal.mu.Unlock()
	if index == 0 {
		if known || lsn > m.journal.Durable() {
			return 0 // it is not proposed yet
		}
		m.mu.Lock()
		index = m.mu.applied.Index
		m.mu.Unlock()
	}
	for _, p := range m.group.Peers() {
		if p.Match >= index {
			n++
		}
	}
	return n
}

func (m *Member) AwaitSynced(lsn uint64, members int, done func()) (stop func()) {
	term := m.status.Load().Term
	return m.await(func() bool { return !m.leads(term) || m.Synced(lsn) >= members }, done)
}

func (m *Member) Progress() (p commands.GroupProgress) {
	if m.group == nil {
		return p
	}
	st := m.group.Status()
	p.Commit, p.Last = st.Committed, st.Last
	p.Skew = time.Duration(m.clocks.own()) * time.Millisecond
	p.CommitLSN, p.EndLSN, p.AppliedLSN = m.journal.Durable(), m.journal.End(), m.store.Shown()
	if !st.Leading {
		p.Heard = st.Silent
	}
	m.mu.Lock()
	p.Applied, p.Elections, p.Snapshot = m.mu.applied.Index, m.mu.elected, m.mu.taken
	m.mu.Unlock()
	if !st.Leading {
		if st.Leader != 0 {
			p.Members = append(p.Members, commands.MemberProgress{ID: st.Leader, Connected: true,
				Contact: st.Silent})
		}
		return p
	}
	for _, peer := range m.group.Peers() {
		mp := commands.MemberProgress{ID: peer.ID, Connected: peer.Active, Contact: -1,
			SyncedLSN: m.journal.positionOf(peer.Match)}
		if peer.Active {
			mp.Contact = 0
		}
		if ms, known := m.clocks.of(peer.ID); known {
			mp.Skew, mp.Skewed = time.Duration(ms)*time.Millisecond, true
		}
		p.Members = append(p.Members, mp)
	}
	return p
}

// fail makes the store fail with err.
func (m *Member) fail(err error) { m.journal.onFail(err) }
