package member

import (
	"math"
	"time"

	"keyp/consensus"
)

// A checkpoint releases the parts of the log that a start does not need, except for the parts that
// backups, the archive and other members need. For members that are behind, the log is kept up to
// KeptLog, in bytes on disk. A member that needs more takes a snapshot. After that it must find the
// rest in the log, or it would need another snapshot. So more of the log is kept for it until it
// has caught up. The bound is then the size of the snapshot, or lagFactor times KeptLog if that is
// more: a member needs more time for a larger snapshot.

const (
	// lagFactor times KeptLog is kept at least for a member that continues after a snapshot.
	lagFactor = 4
	// lagPatience is how long the log is kept for such a member while it takes no entry.
	lagPatience = 5 * time.Minute
)

// lagging is a member that is sent a snapshot, or that continues after one.
type lagging struct {
	index   uint64 // the log after it is needed
	size    int64  // of the snapshot
	sending bool
	moved   time.Duration // when the member last took entries, as a reading of Mono
}

// sends keeps the log after an entry for a member that is sent a snapshot of a size.
func (m *Member) sends(to, index uint64, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.lagging[to] = &lagging{index: index, size: size, sending: true}
}

// sent notes that a member has its snapshot, or that sending it has failed.
func (m *Member) sent(to uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.mu.lagging[to]; err == nil && l != nil {
		l.sending, l.moved = false, m.o.Clock.Mono()
		return
	}
	delete(m.mu.lagging, to)
}

// ended returns the first segment that must be kept after a checkpoint. The data file says that a
// start begins with first, because backups and the archive need that.
func (m *Member) ended(first uint64) uint64 {
	m.mu.Lock()
	own := max(m.mu.own, first)
	m.mu.saved, m.mu.begin = own, first
	m.mu.Unlock()
	return min(first, m.needed(own))
}

// letGo releases segments that were kept for other members and are needed no more. Otherwise they
// would stay until the next checkpoint, which may be far in an idle group.
func (m *Member) letGo() {
	m.mu.Lock()
	saved, first, kept := m.mu.saved, m.mu.begin, m.mu.others < m.mu.saved
	m.mu.Unlock()
	if kept && m.group.Status().Leading {
		// The next checkpoint meets the error.
		_ = m.journal.log.Release(min(first, m.forKeeps(saved), m.needed(saved)))
	}
}

// needed returns own, the segment that a start of this member needs, or an earlier one that other
// members need.
func (m *Member) needed(own uint64) uint64 {
	m.mu.Lock()
	reread := m.mu.reread
	m.mu.Unlock()
	if !reread { // the group may still read the log from its beginning
		return m.journal.log.First()
	}
	others := m.forSnapshots(own)
	for _, p := range m.group.Peers() {
		others = min(others, m.forPeer(&p, own))
	}
	m.mu.Lock()
	m.mu.others = others
	m.mu.Unlock()
	return others
}

// forSnapshots returns own, or an earlier segment that members need while they are sent a snapshot.
func (m *Member) forSnapshots(own uint64) uint64 {
	lowest := uint64(0)
	m.mu.Lock()
	for _, l := range m.mu.lagging {
		if l.sending && (lowest == 0 || l.index < lowest) {
			lowest = l.index
		}
	}
	m.mu.Unlock()
	return m.segmentWith(own, lowest)
}

// forPeer returns own, or an earlier segment that is kept for a member that is behind.
func (m *Member) forPeer(p *consensus.Peer, own uint64) uint64 {
	most := m.o.KeptLog()
	has, size := m.lag(p)
	if size > 0 {
		most = max(min(most, math.MaxInt64/lagFactor)*lagFactor, size)
	}
	from := m.journal.log.First()
	switch {
	case has == 0: // not known yet: everything is kept
	case has < m.journal.log.Begin().Index: // it needs a snapshot, whatever is kept
		from = own
	default:
		from = m.segmentWith(own, has)
	}
	switch {
	case from >= own:
		m.follows(p.ID)
		return own
	case m.journal.log.Taken(from, own) <= most:
		return from
	case size > 0:
		m.o.Logger.Warn("a member cannot catch up after its snapshot, as more is written meanwhile; a larger cluster-log-size helps",
			"id", p.ID)
		m.follows(p.ID)
	}
	return own
}

// follows ends the keeping of more than KeptLog for a member.
func (m *Member) follows(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.mu.lagging[id]; l != nil && !l.sending {
		delete(m.mu.lagging, id)
	}
}

// lag returns the entry up to which a peer has the log; 0: that is not known. If the peer continues
// after a snapshot, it also returns the size of the snapshot, and 0 otherwise.
func (m *Member) lag(p *consensus.Peer) (has uint64, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.mu.lagging[p.ID]
	if l == nil || l.sending {
		return p.Match, 0
	}
	now := m.o.Clock.Mono()
	if p.Match > l.index {
		l.index, l.moved = p.Match, now
	}
	if now-l.moved > lagPatience {
		delete(m.mu.lagging, p.ID)
		return p.Match, 0
	}
	return l.index, l.size
}

// segmentWith returns first, or an earlier segment from which on the log contains everything after
// an entry; 0: nobody needs one.
func (m *Member) segmentWith(first, index uint64) uint64 {
	if index == 0 {
		return first
	}
	if segment := m.journal.log.Needed(index); segment != 0 {
		return min(first, segment)
	}
	return min(first, m.journal.log.First())
}
