package member

import (
	"time"

	"keyp/commands"
)

// stallTime is how long a leader may commit none of its entries before it refuses writes. This
// happens when the disks of a majority are full: these members still answer the leader, so it is
// not deposed.
const stallTime = 5 * time.Second

// stall records since when a leader has committed nothing.
type stall struct {
	term      uint64
	committed uint64
	since     time.Duration // by Mono
}

// look records the leader's progress, and reports whether it must refuse writes.
func (s *stall) look(now time.Duration, leads bool, term, committed uint64, waits bool) bool {
	if !leads || !waits || term != s.term || committed != s.committed {
		s.term, s.committed, s.since = term, committed, now
		return false
	}
	return now-s.since >= stallTime
}

// stalls refuses writes while nothing is committed, and allows them again afterwards.
func (m *Member) stalls(s *stall) {
	st := m.group.Status()
	waits := st.Committed < st.Last || m.journal.Durable() < m.journal.End()
	stalled := s.look(m.o.Clock.Mono(), st.Leading && m.status.Load().Role == commands.Leader,
		st.Term, st.Committed, waits)
	if stalled == m.status.Load().Stalled {
		return
	}
	m.become(func() { m.mu.stalled = stalled })
	if !stalled {
		m.o.Logger.Info(
			"entries are committed again, or another member leads: writes are not refused any more",
			"term", st.Term)
		return
	}
	for _, p := range m.group.Peers() {
		m.o.Logger.Warn("nothing is committed, so writes are refused: too few members store what the leader sends them, as when their disks are full",
			"last", st.Last, "committed", st.Committed, "member", p.ID, "has", p.Match,
			"connected", p.Active)
	}
}
