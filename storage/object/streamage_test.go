package object

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// modelAge is the maximum age of a stream in the model (XCFGSET MAXAGE), and how groups' references
// to old entries are treated.
type modelAge struct {
	ms   int64
	refs StreamRefs
}

// Age sets the maximum age.
func (sm *streamMachine) Age(rt *rapid.T) {
	a := modelAge{rapid.SampledFrom([]int64{0, 1, 1000, 1 << 20, MaxStreamAge}).Draw(rt, "age"),
		rapid.SampledFrom([]StreamRefs{KeepRefs, DropRefs, AckedRefs}).Draw(rt, "refs")}
	sm.s.SetAge(a.ms, a.refs, sm.changed)
	if a.ms == 0 {
		a.refs = 0
	}
	sm.m.aging = a
}

// Renumber replaces the stream with a renumbered one, as is done to give a stream a lower last id.
func (sm *streamMachine) Renumber(*rapid.T) {
	sm.s = sm.s.Renumbered()
	sm.replica = elementsOf(sm.s)
	sm.m.last = StreamID{}
	if n := len(sm.m.entries); n > 0 {
		sm.m.last = sm.m.entries[n-1].id
	}
}

// goes reports whether an entry is removed at its deadline.
func (m *streamModel) goes(id StreamID) bool {
	if m.aging.refs != AckedRefs {
		return true
	}
	for _, g := range m.groups {
		if _, pending := g.pending[id]; pending || g.last.Compare(id) < 0 {
			return false
		}
	}
	return true
}

// due returns the entries that are due at now, and how many of them come before all that are not
// due.
func (m *streamModel) due(now int64) (ids []StreamID, front int) {
	for i, e := range m.entries {
		if int64(e.id.Ms)+m.aging.ms > now {
			break
		}
		if m.goes(e.id) {
			if front == i {
				front++
			}
			ids = append(ids, e.id)
		}
	}
	return ids, front
}

// now draws a time about the deadline of an entry.
func (sm *streamMachine) now(rng *rand.Rand) int64 {
	return int64(sm.drawID(rng).Ms) + sm.m.aging.ms + rng.Int64N(3) - 1
}

// Expire removes entries that are due.
func (sm *streamMachine) Expire(rt *rapid.T) {
	rng, m := rng(rt), &sm.m
	now, limit := sm.now(rng), rapid.SampledFrom([]int{0, 1, 3, 150, math.MaxInt}).Draw(rt, "limit")
	due, front := m.due(now)
	if m.aging.ms == 0 {
		due, front = nil, 0
	}
	absent, _ := sm.s.Absent()
	var seen []StreamID
	log := AgedLog{All: rapid.Bool().Draw(rt, "all"), Seen: func(e StreamEntry) {
		seen = append(seen, e.ID)
	}}
	cut := map[int64]bool{}
	log.Runs = func(first int64, n int) {
		for ; n > 0; n-- {
			cut[first] = true
			first += NumberStep
		}
	}
	n := sm.s.Expire(now, limit, sm.changed, log)
	if least := min(limit, len(due)); n < least || n > least && (absent == 0 || limit == 0) ||
		n > len(due) {
		rt.Fatalf("Expire removed %d entries, at most %d were to be, of %d", n, limit, len(due))
	}
	due = due[:n]
	if (log.All || absent == 0) && !slices.Equal(seen, due) {
		rt.Fatalf("Expire removed %v, and named %v", due, seen)
	}
	for i, id := range due {
		m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool { return e.id == id })
		if i >= front && id.Compare(m.maxDeleted) > 0 {
			m.maxDeleted = id
		}
		for _, g := range m.groups {
			if m.aging.refs == DropRefs {
				delete(g.pending, id)
				g.line = slices.DeleteFunc(g.line, func(other StreamID) bool { return other == id })
			}
		}
	}
	for number := range cut {
		key := ListKey(number)
		delete(sm.replica, string(key[:]))
	}
}

// checkAges compares all results about deadlines with the model.
func (sm *streamMachine) checkAges(rt *rapid.T) {
	s, m := sm.s, &sm.m
	if ms, refs := s.Age(); ms != m.aging.ms || refs != m.aging.refs {
		rt.Fatalf("the age is %d, %d, want %+v", ms, refs, m.aging)
	}
	if m.aging.ms == 0 {
		if s.Earliest() != 0 || s.LenAt(math.MaxInt64) != s.Len() {
			rt.Fatalf("entries are due at %d without an age, %d of %d stay", s.Earliest(),
				s.LenAt(math.MaxInt64), s.Len())
		}
		return
	}
	var deadlines []int64 // of each entry that goes
	for _, e := range m.entries {
		if m.goes(e.id) {
			deadlines = append(deadlines, int64(e.id.Ms)+m.aging.ms)
		}
	}
	earliest := int64(0)
	if len(deadlines) > 0 {
		earliest = deadlines[0]
	}
	if got := s.Earliest(); got != earliest {
		rt.Fatalf("the first entry is due at %d, want %d", got, earliest)
	}
	now := sm.now(rng(rt))
	due, _ := m.due(now)
	if got := s.LenAt(now); got != s.Len()-len(due) {
		rt.Fatalf("%d elements of %d are not due, want %d", got, s.Len(), s.Len()-len(due))
	}
	var got []int64
	s.Deadlines(now, func(at int64) bool {
		got = append(got, at)
		return true
	})
	later := slices.Compact(deadlines[len(due):])
	if !slices.Equal(got, later) {
		rt.Fatalf("behind %d are the deadlines %d, want %d", now, got, later)
	}
	sm.checkDueAt(rt, now)
}

// checkDueAt compares the entries that are due at now with the model.
func (sm *streamMachine) checkDueAt(rt *rapid.T, now int64) {
	var want, got []string
	for _, e := range sm.m.entries {
		if int64(e.id.Ms)+sm.m.aging.ms == now && sm.m.goes(e.id) {
			want = append(want, string(e.id.Append(nil)))
		}
	}
	for from, more := uint32(0), true; more; {
		visits := 0
		from, more = sm.s.DueAt(now, from, 0, func(elem []byte, _ uint32) bool {
			if visits++; visits > 2 {
				return false
			}
			got = append(got, string(elem))
			return true
		})
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		rt.Fatalf("due at %d are %q, want %q", now, got, want)
	}
}

// TestStreamDeadlines: an entry whose deadline would be after the last possible instant is never
// due.
func TestStreamDeadlines(t *testing.T) {
	const age = 1000
	for _, c := range []struct {
		ms  uint64
		due int64
	}{{0, age}, {1, age + 1}, {math.MaxInt64 - age, math.MaxInt64}, {math.MaxInt64 - age + 1, 0},
		{math.MaxInt64 + 1, 0}, {math.MaxUint64, 0}} {
		s := NewStream()
		s.SetAge(age, KeepRefs, nil)
		s.Add(StreamID{c.ms, 1}, [][]byte{[]byte("f"), []byte("v")})
		if got, first := s.Deadline(StreamID{c.ms, 1}), s.Earliest(); got != c.due ||
			first != c.due {
			t.Errorf("an entry of %d is due at %d, the first one at %d, want %d", c.ms,
				got, first, c.due)
		}
		visits := 0
		s.Deadlines(0, func(int64) bool { visits++; return true })
		if n := s.Expire(math.MaxInt64, 10, nil, AgedLog{}); n != visits ||
			n != int(min(c.due, 1)) {
			t.Errorf("an entry of %d: %d deadlines, %d removed in the end", c.ms, visits, n)
		}
	}
}

// TestAckedGoAgain: entries that a group still needs are skipped when they are due. Whatever
// releases an entry makes it due again.
func TestAckedGoAgain(t *testing.T) {
	const age = 1000
	g, late, c := []byte("g"), []byte("late"), []byte("c")
	id := func(ms uint64) StreamID { return StreamID{ms, 1} }
	elem := func(k []byte) []byte { return slices.Clone(k) }
	var key elemKey
	for _, f := range []struct {
		name  string
		frees func(s *Stream)
		due   int64
	}{
		{"nothing", func(*Stream) {}, 0},
		{"the consumer is deleted", func(s *Stream) { s.DeleteConsumer(g, c, nil) }, 1 + age},
		{"the group is destroyed", func(s *Stream) { s.DestroyGroup(g, nil) }, 1 + age},
		{"the group's element is removed", func(s *Stream) {
			s.Remove(elem(key.group(s.Group(g).number)))
		}, 1 + age},
		{"an entry is acknowledged", func(s *Stream) { s.Ack(g, id(3), nil) }, 3 + age},
		{"its element is removed", func(s *Stream) {
			s.Remove(elem(key.pending(s.Group(g).number, id(3))))
		}, 3 + age},
		{"an entry is put between", func(s *Stream) {
			e := StreamEntry{ID: id(2)}
			at := ListKey(1 * NumberStep)
			if err := s.Put(at[:], e.appendTo(nil), 0); err != nil {
				t.Error(err)
			}
		}, 2 + age},
		{"a group that came later reads on", func(s *Stream) {
			s.CreateGroup(late, StreamID{}, 0, nil)
			s.Ack(g, id(3), nil)
			if at := s.Earliest(); at != 0 {
				t.Errorf("an entry that a group has not read goes at %d", at)
			}
			s.SetGroup(late, id(4), -1, nil)
		}, 3 + age},
		{"its element is put", func(s *Stream) {
			s.CreateGroup(late, StreamID{}, 0, nil)
			s.Ack(g, id(3), nil)
			if at := s.Earliest(); at != 0 {
				t.Errorf("an entry that a group has not read goes at %d", at)
			}
			n := s.Group(late).number
			if err := s.Put(elem(key.group(n)),
				(&StreamGroup{name: late, LastID: id(4), read: -1}).append(nil), 0); err != nil {
				t.Error(err)
			}
		}, 3 + age},
		{"a group goes back and on", func(s *Stream) {
			s.SetGroup(g, StreamID{}, -1, nil)
			s.Ack(g, id(3), nil)
			if at := s.Earliest(); at != 0 {
				t.Errorf("an entry that the group is to read again goes at %d", at)
			}
			s.SetGroup(g, id(4), -1, nil)
		}, 3 + age},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := NewStream()
			for ms := range uint64(4) {
				s.Add(id(ms+1), nil)
			}
			s.Delete(id(2), nil)
			s.SetAge(age, AckedRefs, nil)
			s.CreateGroup(g, StreamID{}, 0, nil)
			s.CreateConsumer(g, c, 1, nil)
			for _, ms := range []uint64{1, 3, 4} {
				s.SetGroup(g, id(ms), -1, nil)
				s.Deliver(g, c, id(ms), 1, 1, nil)
			}
			if at := s.Earliest(); at != 0 {
				t.Fatalf("an entry that is pending goes at %d", at)
			}
			if f.frees(s); s.Earliest() != f.due {
				t.Errorf("the first entry goes at %d, want %d", s.Earliest(), f.due)
			}
		})
	}
}
