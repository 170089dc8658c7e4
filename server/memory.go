package server

import (
	"math"
	"math/bits"

	"keyp/commands"
)

// memory bounds the memory of all clients together: their input, their output, and the state kept
// for them. If the sum is above the limit, the clients that use the most memory are closed until it
// is below the limit.
//
// Sessions are in classes by size, so one of the largest is found at once. A session is counted
// again at the end of each pass of the loop that served it. If it grows much, or gets a large
// reply, it is counted at once. So the sum exceeds the limit at most by a single reply, and a
// little for each session.
//
// In Redis maxmemory-clients is 0 by default, which means no limit. Then many clients that ask for
// much and read nothing use up all memory. So here 0 means half of the memory that the process may
// use.
type memory struct {
	limit   int
	total   int                           // of all sessions, those included that may not be evicted
	classes [bits.UintSize + 1][]*session // those that may be, by the bits of their size
}

// evictTurn bounds the sessions that are closed at once. Their memory is released at once, but each
// socket takes a system call.
const evictTurn = 1000

// limitMemory reads the limit. A reply may be a quarter of the memory (half of the default for all
// clients), whatever the limit is: its client may read it at once. A string always fits.
func (l *loop) limitMemory(limit, maxBulk int64) {
	usable := commands.UsableMemory()
	if usable == 0 {
		usable = math.MaxInt // unknown
	}
	if limit == 0 {
		limit = usable / 2
	}
	l.memory.limit = int(min(limit, math.MaxInt))
	l.env.MaxReply.Store(min(max(usable/4, min(maxBulk, math.MaxInt/2)+outputPause), math.MaxInt/2))
}

// over reports whether the clients take more memory than they may.
func (m *memory) over() bool { return m.total > m.limit }

// count updates the size of a session, and its class.
func (m *memory) count(s *session) {
	size := s.Memory()
	m.total += size - s.counted
	s.counted = size
	class := 0
	if !s.client.NoEvict {
		class = bits.Len(uint(size))
	}
	if class != s.class {
		m.move(s, class)
	}
}

// move puts a session into another class; in class 0 it is in none.
func (m *memory) move(s *session, class int) {
	if s.class > 0 {
		list := m.classes[s.class]
		last := len(list) - 1
		list[s.place] = list[last]
		list[s.place].place = s.place
		list[last] = nil
		m.classes[s.class] = list[:last]
	}
	s.class = class
	if class > 0 {
		s.place = len(m.classes[class])
		m.classes[class] = append(m.classes[class], s)
	}
}

// forget removes a session that ends.
func (m *memory) forget(s *session) {
	m.total -= s.counted
	s.counted = 0
	m.move(s, 0)
}

// largest returns a session that uses about as much memory as any other; nil if none may be
// evicted.
func (m *memory) largest() *session {
	for class := len(m.classes) - 1; class > 0; class-- {
		if list := m.classes[class]; len(list) > 0 {
			return list[len(list)-1]
		}
	}
	return nil
}

// heavy reports whether a session uses so much memory that it is counted before the pass ends.
func (s *session) heavy() bool { return s.room > turnBytes || s.out.pending() >= earlyOutput }

// weigh counts a session that may have grown much, and enforces the limit. No command may be
// running.
func (l *loop) weigh(s *session) {
	if !s.takes() {
		return
	}
	l.memory.count(s)
	if l.memory.over() {
		l.makeRoom()
	}
}

// makeRoom evicts clients until their memory is within the limit. It evicts at most evictTurn
// clients, and leaves the rest to the next pass.
func (l *loop) makeRoom() {
	m := &l.memory
	for n := 0; m.over(); n++ {
		if n == evictTurn {
			l.busy = true
			return
		}
		s := m.largest()
		if s == nil {
			l.complain("clients take more than maxmemory-clients, and none of them may be evicted",
				"bytes", m.total, "limit", m.limit)
			return
		}
		l.evict(s)
	}
}

// evict ends a session that is not in use, so that others have its memory.
func (l *loop) evict(s *session) {
	l.env.Stats.EvictedClients.Add(1)
	l.complain("closing a client, since all clients together take more than maxmemory-clients",
		"client", s.client.ID, "address", s.client.Addr, "bytes", s.counted, "all", l.memory.total,
		"limit", l.memory.limit)
	l.condemn(s)
	s.out.drop(&l.buffers)
}
