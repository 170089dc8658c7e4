package object

import (
	"cmp"
	"math"
	"slices"
	"unsafe"
)

// An entry of a stream with a maximum age is due when its age, counted from the time in its id,
// reaches the maximum. Only the age is stored: deadlines follow from the metadata and the ids, so
// the elements of entries have none.

// MaxStreamAge is the largest maximum age of a stream, in ms.
const MaxStreamAge = 1<<48 - 1

// StreamRefs determines what happens to a due entry to which groups refer. The numbers are stored
// in the metadata's element.
type StreamRefs uint8

const (
	KeepRefs StreamRefs = iota + 1 // pending entries stay as they are
	DropRefs                       // they go with the entry
	// The entry stays until all groups have read and acknowledged it.
	AckedRefs
)

// aging is the state of a stream with a maximum age. from and released are only used with
// AckedRefs, with the key's shard locked.
type aging struct {
	age  int64
	refs StreamRefs

	// An entry below from is pending in a group, or some group has not read it, unless its id is in
	// released. released may also have ids of entries that are gone or pending again. So from is
	// reset when a group reads further or is removed. It is not reset when a group is added or goes
	// back.
	from     StreamID
	released sorted[StreamID]
}

// Age returns the maximum age in ms (0: none), and what happens to entries to which groups refer.
func (s *Stream) Age() (ms int64, refs StreamRefs) {
	if s.meta.aging == nil {
		return 0, 0
	}
	return s.meta.aging.age, s.meta.aging.refs
}

// SetAge sets the results of Age; 0 means no maximum age.
func (s *Stream) SetAge(ms int64, refs StreamRefs, changed Changed) {
	if age, old := s.Age(); age == ms && (old == refs || ms == 0) {
		return
	}
	was := s.meta
	if s.meta.aging = nil; ms != 0 {
		s.meta.aging = &aging{age: ms, refs: refs}
	}
	s.metaChanged(was, changed)
}

// putMeta sets the metadata. If the maximum age and its StreamRefs stay the same, putMeta keeps the
// knowledge about acknowledged entries.
func (s *Stream) putMeta(m streamMeta) {
	if a, old := m.aging, s.meta.aging; a != nil && old != nil && a.age == old.age &&
		a.refs == old.refs {
		m.aging = old
	}
	s.meta, s.made = m, true
}

// Deadline returns when an entry with that id is due by its age, in Unix ms; 0: never.
func (s *Stream) Deadline(id StreamID) int64 {
	a := s.meta.aging
	if a == nil || id.Ms > uint64(math.MaxInt64-a.age) {
		return 0
	}
	return int64(id.Ms) + a.age
}

// bornBy returns the highest id that is due at now; false if none is.
func (s *Stream) bornBy(now int64) (StreamID, bool) {
	if a := s.meta.aging; a != nil && now >= a.age {
		return StreamID{uint64(now - a.age), math.MaxUint64}, true
	}
	return StreamID{}, false
}

// reset discards the knowledge about acknowledged entries from an id on.
func (s *Stream) reset(id StreamID) {
	if a := s.meta.aging; a != nil && id.Compare(a.from) < 0 {
		a.from = id
	}
}

// released records that an entry is no longer pending in a group.
func (s *Stream) released(id StreamID) {
	if a := s.meta.aging; a != nil && a.refs == AckedRefs && id.Compare(a.from) < 0 {
		a.released.put(id)
	}
}

// resetGroup calls reset for the entries that a group has not read.
func (s *Stream) resetGroup(number uint32) {
	if g := s.groups.all.of(number); g != nil {
		s.reset(g.LastID)
	}
}

// firstToGo returns the first entry that may be removed at its deadline; false if there is none.
func (s *Stream) firstToGo() (StreamID, bool) {
	a := s.meta.aging
	if a == nil {
		return StreamID{}, false
	}
	if a.refs != AckedRefs {
		return s.First()
	}
	for {
		id, ok := a.released.first()
		if !ok {
			break
		}
		if s.seen(id) && id.Compare(a.from) < 0 && s.AckedByAll(id) {
			return id, true
		}
		a.released.remove(id)
	}
	var found StreamID
	ok := false
	s.dueIn(a.from, s.readByAll(), func(e StreamEntry) bool {
		found, ok = e.ID, !s.Referenced(e.ID)
		if a.from = e.ID; !ok {
			a.from, _ = e.ID.Next()
		}
		return !ok
	})
	return found, ok
}

// readByAll returns the last id that all groups have read.
func (s *Stream) readByAll() StreamID {
	last := MaxStreamID
	s.EachGroup(func(g *StreamGroup) bool {
		if g.LastID.Compare(last) < 0 {
			last = g.LastID
		}
		return true
	})
	return last
}

// Earliest returns the first deadline at which an entry may be removed; 0 if there is none.
func (s *Stream) Earliest() int64 {
	if id, ok := s.firstToGo(); ok {
		return s.Deadline(id)
	}
	return 0
}

// LenAt counts at most mostAged due entries. If groups may keep entries, it looks at agedLooks
// entries at most.
const (
	mostAged  = 4096
	agedLooks = 4 * mostAged
)

// LenAt returns the number of elements that are not due at now, or more if very many are due.
func (s *Stream) LenAt(now int64) int { return s.Len() - s.aged(now, mostAged) }

// aged counts the entries that are due at now, up to most, or a few more.
func (s *Stream) aged(now int64, most int) (n int) {
	end, ok := s.bornBy(now)
	if !ok {
		return 0
	}
	if s.meta.aging.refs == AckedRefs {
		if id, ok := s.firstToGo(); ok {
			looks := 0
			s.dueIn(id, end, func(e StreamEntry) bool {
				if s.AckedByAll(e.ID) {
					n++
				}
				looks++
				return n < most && looks < agedLooks
			})
		}
		return n
	}
	for _, r := range s.runs {
		switch {
		case n >= most || r.low.Compare(end) > 0:
			return n
		case r.last.Compare(end) <= 0:
			n += int(r.live)
			continue
		}
		if in, ok := s.readable(r); ok {
			after, _ := end.Next() // there is one: the run has entries behind end
			n += in.before(after)
		}
		return n
	}
	return n
}

// Due does what Expire does, for callers that log nothing.
func (s *Stream) Due(now int64, limit int, fn func(elem, val []byte, deadline int64)) int {
	return s.Expire(now, limit, nil, AgedLog{Seen: func(e StreamEntry) {
		in, _ := s.readable(s.runs[s.runOf(e.ID)])
		if _, ordinal, ok := in.find(e.ID); ok {
			key := ListKey(ordinal * NumberStep)
			fn(key[:], e.appendTo(nil), s.Deadline(e.ID))
		}
	}})
}

// AgedLog has the functions to which Expire reports the entries that it removes. Each may be nil.
type AgedLog struct {
	// Seen is called with each entry before Expire removes it. It is called with an entry that is
	// not in memory only if Expire reads that entry anyway.
	Seen func(StreamEntry)
	// All makes Expire read entries that are not in memory, and call Seen with them, if it can.
	All  bool
	Runs func(first int64, n int) // as TrimFirst's cut
	Cut  func(first, last int64)  // as what TrimFirst gives
}

// Expire removes at most limit entries that are due at now, the first ones first, and returns how
// many. It removes absent runs as a whole, so it may remove a few more.
func (s *Stream) Expire(now int64, limit int, changed Changed, log AgedLog) (n int) {
	end, ok := s.bornBy(now)
	if !ok || limit <= 0 {
		return 0
	}
	refs := s.meta.aging.refs
	var front []StreamID
	most := limit
	if refs != AckedRefs {
		most = min(limit, s.aged(now, limit))
	}
	count := 0
	see := func(e StreamEntry) bool {
		if count == most || refs == AckedRefs && !s.AckedByAll(e.ID) {
			return false
		}
		if log.Seen != nil {
			log.Seen(e)
		}
		if refs == DropRefs {
			front = append(front, e.ID)
		}
		count++
		return count < most
	}
	for _, r := range s.runs {
		if count >= most || r.low.Compare(end) > 0 {
			break
		}
		whole := refs != AckedRefs && r.last.Compare(end) <= 0
		if whole && r.absent() && refs == KeepRefs && !log.All {
			count += int(r.live)
			continue
		}
		in, ok := s.readable(r)
		if !ok && whole {
			count += int(r.live)
			front = s.pendingIn(front, r, refs)
			continue
		}
		if !ok || !in.each(func(e StreamEntry) bool { return e.ID.Compare(end) <= 0 && see(e) }) {
			break
		}
	}
	for _, id := range front {
		s.dropPending(id, changed)
	}
	if count > 0 {
		first, last := s.TrimFirst(count, changed, log.Runs)
		if log.Cut != nil {
			log.Cut(first, last)
		}
	}
	for n = count; refs == AckedRefs && n < limit; n++ {
		id, ok := s.firstToGo()
		if !ok || id.Compare(end) > 0 {
			break
		}
		if e, _ := s.Get(id); log.Seen != nil { // firstToGo has seen it
			log.Seen(e)
		}
		s.Delete(id, changed)
	}
	return n
}

// pendingIn appends the ids in the range of a run that are pending in a group, if refs is DropRefs.
// It is for a run that cannot be read.
func (s *Stream) pendingIn(ids []StreamID, r *streamRun, refs StreamRefs) []StreamID {
	if refs != DropRefs {
		return ids
	}
	s.EachGroup(func(g *StreamGroup) bool {
		g.EachPending(r.low, r.last, func(p PendingEntry) bool {
			ids = append(ids, p.ID)
			return true
		})
		return true
	})
	return ids
}

// dueIn does what Range does, but skips runs that cannot be read.
func (s *Stream) dueIn(from, to StreamID, fn func(StreamEntry) bool) {
	if s.live > 0 && from.Compare(to) <= 0 {
		s.forward(from, to, s.readable, fn)
	}
}

// seen reports whether there is an entry with an id, and it can be read.
func (s *Stream) seen(id StreamID) (found bool) {
	s.dueIn(id, id, func(StreamEntry) bool {
		found = true
		return false
	})
	return found
}

// dropPending removes an entry from the pending entries of all groups.
func (s *Stream) dropPending(id StreamID, changed Changed) {
	s.EachGroup(func(g *StreamGroup) bool {
		s.Ack(g.name, id, changed)
		return true
	})
}

// Deadlines visits the deadlines later than after, of entries that may be removed at their
// deadline. It visits them in order and each once, until visit returns false.
func (s *Stream) Deadlines(after int64, visit func(deadline int64) bool) {
	from, ok := s.firstToGo()
	if !ok {
		return
	}
	if id, some := s.bornBy(after); some && from.Compare(id) <= 0 {
		if from, ok = id.Next(); !ok {
			return
		}
	}
	last := int64(0)
	s.dueIn(from, MaxStreamID, func(e StreamEntry) bool {
		at := s.Deadline(e.ID)
		if at == 0 {
			return false
		}
		if at == last || !s.mayGo(e.ID) {
			return true
		}
		last = at
		return visit(at)
	})
}

// mayGo reports whether an entry is removed at its deadline.
func (s *Stream) mayGo(id StreamID) bool {
	return s.meta.aging.refs != AckedRefs || s.AckedByAll(id)
}

// eachAt visits the entries that are removed at a deadline.
func (s *Stream) eachAt(deadline int64, visit func(StreamID)) {
	a := s.meta.aging
	if a == nil || deadline < a.age {
		return
	}
	ms := uint64(deadline - a.age)
	s.dueIn(StreamID{Ms: ms}, StreamID{ms, math.MaxUint64}, func(e StreamEntry) bool {
		if s.mayGo(e.ID) {
			visit(e.ID)
		}
		return true
	})
}

// DueAt visits the ids of the entries that are removed at a deadline, as text. They come in the
// order of their hashes, from a hash on. If visit returns false, more is true and next is the hash
// of that id.
func (s *Stream) DueAt(deadline int64, from uint32, _ int,
	visit func(elem []byte, hash uint32) bool) (next uint32, more bool) {
	type one struct {
		hash uint32
		elem []byte
	}
	var list []one
	s.eachAt(deadline, func(id StreamID) {
		elem := id.Append(nil)
		if h := cursorOf(elem); h >= from {
			list = append(list, one{h, elem})
		}
	})
	slices.SortFunc(list, func(a, b one) int { return cmp.Compare(a.hash, b.hash) })
	for _, e := range list {
		if !visit(e.elem, e.hash) {
			return e.hash, true
		}
	}
	return 0, false
}

func (a *aging) bytes() int { return int(unsafe.Sizeof(*a)) + a.released.bytes() }

// clone returns a copy that knows nothing about acknowledged entries.
func (a *aging) clone() *aging {
	if a == nil {
		return nil
	}
	return &aging{age: a.age, refs: a.refs}
}
