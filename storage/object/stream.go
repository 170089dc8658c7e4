package object

import (
	"slices"
	"sort"
	"unsafe"
)

// Stream is a stream: entries in the order of their ids, groups of consumers with their pending
// entries, and the records that make additions idempotent. It is stored as elements, each with a
// key. Entries have ordinals, which ascend along the stream and are never given again. The element
// key of an entry is its ordinal times NumberStep, as a list's (ListKey). The other elements begin
// with a tag (streamelem.go). The element of the metadata is there in every stream, so a stream
// without entries has one element.
//
// Methods that change the stream have a parameter changed, a function that may be nil. They call it
// with the key of each element that they changed, added or removed, so that the caller can log it.
// Add and TrimFirst do not call it for entries: they return the element keys of the entries as
// numbers. Elements have no deadlines. In a stream with a maximum age, the deadlines of entries
// follow from their ids (streamage.go).
type Stream struct {
	runs      []*streamRun
	allocated int // bytes of memory behind the runs
	live      int
	// tail is the id of the last entry, and end the ordinal after it; both are 0 without
	// entries.
	tail StreamID
	end  int64

	meta   streamMeta
	made   bool // the metadata is there
	groups streamGroups
	iids   *idempotence // nil: there is none
	bm     bookmark
	cold   *coldRuns // nil: no run is absent
}

// streamMeta is the content of the metadata's element. last and next are used only if they are
// above the values of the last entry (see LastID and next).
type streamMeta struct {
	last       StreamID
	maxDeleted StreamID
	next       int64
	offset     uint64 // entries added less the next ordinal, modulo 2^64
	duration   int64  // seconds; 0: not set
	maxSize    int64  // 0: not set
	nextIID    int64  // the ordinal of the next idempotent id, if none is left
	duplicates int64
	aging      *aging // nil: entries have no maximum age
}

// Changed is called with the key of an element that was changed, added or removed. The key is valid
// during the call.
type Changed func(elem []byte)

func (fn Changed) call(elem []byte) {
	if fn != nil {
		fn(elem)
	}
}

// NewStream returns a stream without entries that has its metadata.
func NewStream() *Stream { return &Stream{made: true} }

// Type returns TypeStream.
func (s *Stream) Type() Type { return TypeStream }

// Encoding returns the reply of OBJECT ENCODING.
func (s *Stream) Encoding() string { return "stream" }

// Created reports whether the metadata exists.
func (s *Stream) Created() bool { return s.made }

// Create adds the metadata, which every stream has, and reports whether it was missing.
func (s *Stream) Create(changed Changed) bool {
	if s.made {
		return false
	}
	s.made = true
	changed.call(metaKey[:])
	return true
}

// Entries returns the number of entries.
func (s *Stream) Entries() int { return s.live }

// LastID returns the highest id that an entry ever had, or the one that SetID has set.
func (s *Stream) LastID() StreamID {
	if s.tail.Compare(s.meta.last) > 0 {
		return s.tail
	}
	return s.meta.last
}

// MaxDeleted returns the highest id that was deleted individually, not by trimming.
func (s *Stream) MaxDeleted() StreamID { return s.meta.maxDeleted }

// next returns the ordinal of the next entry.
func (s *Stream) next() int64 { return max(s.end, s.meta.next) }

// Added returns how many entries were ever added.
func (s *Stream) Added() uint64 { return uint64(s.next()) + s.meta.offset }

// Nodes returns in how many runs, each one piece of memory, the entries are. Redis would have as
// many nodes.
func (s *Stream) Nodes() int { return len(s.runs) }

// First returns the id of the first entry; ok is false if there is none.
func (s *Stream) First() (id StreamID, ok bool) {
	if s.live == 0 {
		return id, false
	}
	return s.runs[0].low, true
}

// LastEntry returns the id of the last entry; ok is false if there is none.
func (s *Stream) LastEntry() (id StreamID, ok bool) { return s.tail, s.live > 0 }

// runOf returns the index of the last run that may have entries up to an id, or 0.
func (s *Stream) runOf(id StreamID) int {
	return max(sort.Search(len(s.runs), func(i int) bool {
		return s.runs[i].low.Compare(id) > 0
	})-1, 0)
}

// runAt returns the index of the last run that begins at an ordinal or before it, or -1.
func (s *Stream) runAt(ordinal int64) int {
	return sort.Search(len(s.runs), func(i int) bool { return s.runs[i].first > ordinal }) - 1
}

// Get returns the entry with an id; ok is false if there is none.
func (s *Stream) Get(id StreamID) (e StreamEntry, ok bool) {
	if s.live == 0 {
		return e, false
	}
	r := s.runs[s.runOf(id)]
	if !r.spans(id) {
		return e, false
	}
	in := s.entries(r)
	off, _, ok := in.find(id)
	if ok {
		e, _, _ = in.at(off)
	}
	return e, ok
}

// Range visits the entries with ids from from to to, both included, until fn returns false; from
// the last to the first if reverse is set.
func (s *Stream) Range(from, to StreamID, reverse bool, fn func(StreamEntry) bool) {
	if s.live == 0 || from.Compare(to) > 0 {
		return
	}
	if reverse {
		s.reversed(from, to, fn)
		return
	}
	s.forward(from, to, func(r *streamRun) (*runEntries, bool) { return s.entries(r), true }, fn)
}

// forward does what Range does without reverse, for a stream that has entries. It skips a run if
// get returns false for it.
func (s *Stream) forward(from, to StreamID, get func(*streamRun) (*runEntries, bool),
	fn func(StreamEntry) bool) {
	for _, r := range s.runs[s.runOf(from):] {
		switch {
		case r.last.Compare(from) < 0:
			continue
		case r.low.Compare(to) > 0:
			return
		}
		in, ok := get(r)
		for off := int(in.lo); ok && off < len(in.mem); {
			e, next, live := in.at(off)
			off = next
			if !live || e.ID.Compare(from) < 0 {
				continue
			}
			if e.ID.Compare(to) > 0 || !fn(e) {
				return
			}
		}
	}
}

func (s *Stream) reversed(from, to StreamID, fn func(StreamEntry) bool) {
	var room [128]uint32
	for i := s.runOf(to); i >= 0; i-- {
		r := s.runs[i]
		switch {
		case r.low.Compare(to) > 0:
			continue
		case r.last.Compare(from) < 0:
			return
		}
		in := s.entries(r)
		offsets := in.offsets(room[:0])
		for j := len(offsets) - 1; j >= 0; j-- {
			e, _, _ := in.at(int(offsets[j]))
			if e.ID.Compare(to) > 0 {
				continue
			}
			if e.ID.Compare(from) < 0 || !fn(e) {
				return
			}
		}
	}
}

// Before returns the number of entries with ids below id.
func (s *Stream) Before(id StreamID) (n int) {
	if s.live == 0 {
		return 0
	}
	at := s.runOf(id)
	for _, r := range s.runs[:at] {
		n += int(r.live)
	}
	r := s.runs[at]
	switch {
	case r.low.Compare(id) >= 0:
		return n
	case r.last.Compare(id) < 0:
		return n + int(r.live)
	}
	return n + s.entries(r).before(id)
}

// WholeNodes returns the largest number of entries, at most n, that whole nodes at the beginning
// contain. XTRIM with ~ removes these.
func (s *Stream) WholeNodes(n int) (whole int) {
	for _, r := range s.runs {
		if whole+int(r.live) > n {
			break
		}
		whole += int(r.live)
	}
	return whole
}

// Add adds an entry and returns its number. fields alternate names and values. The id must be above
// LastID.
func (s *Stream) Add(id StreamID, fields [][]byte) (number int64) {
	ordinal := s.next()
	s.push(ordinal, id, fields)
	return ordinal * NumberStep
}

// mostGap is the largest number of missing ordinals before an entry that is added to a run. They
// become deleted entries of the run.
const mostGap = 16

// push adds an entry after all others.
func (s *Stream) push(ordinal int64, id StreamID, fields [][]byte) {
	if n := len(s.runs); n > 0 {
		r := s.runs[n-1]
		if !r.absent() { // as it would be after all entries behind it were removed
			if gap := ordinal - r.end(); gap <= mostGap && !r.full(fields, thresholds.Load()) {
				s.change(r, func(in *runEntries) { in.append(id, fields, int(gap)) })
				s.pushed(ordinal, id)
				return
			}
			s.change(r, (*runEntries).trim)
		}
	}
	s.insertRun(len(s.runs), newStreamRun(ordinal, id, fields))
	s.pushed(ordinal, id)
}

func (s *Stream) pushed(ordinal int64, id StreamID) {
	s.live++
	s.tail, s.end = id, ordinal+1
}

// change calls fn, which changes a run, and updates the count of memory.
func (s *Stream) change(r *streamRun, fn func(*runEntries)) {
	in := s.own(r)
	was := cap(r.mem)
	fn(in)
	s.allocated += cap(r.mem) - was
}

func (s *Stream) insertRun(at int, r *streamRun) {
	s.runs = slices.Insert(s.runs, at, r)
	s.allocated += r.bytes()
}

// dropRuns removes the runs from a up to but not including b.
func (s *Stream) dropRuns(a, b int) {
	for i := a; i < b; i++ {
		r := s.runs[i]
		s.allocated -= r.bytes()
		s.live -= int(r.live)
		if r.absent() {
			s.counted(r, -1)
		}
	}
	if a == 0 {
		clear(s.runs[:b])
		s.runs = s.runs[b:]
	} else {
		s.runs = slices.Delete(s.runs, a, b)
	}
	if n := len(s.runs); n == 0 {
		s.runs = nil
	} else if cap(s.runs) > 64 && n < cap(s.runs)/4 {
		s.runs = slices.Clone(s.runs)
	}
}

// retail sets tail and end to the last entry, which is in the last of these runs.
func (s *Stream) retail(runs []*streamRun) {
	var tail StreamID
	end := int64(-1)
	if n := len(runs); n > 0 {
		tail, end = s.entries(runs[n-1]).lastLive()
	}
	s.tail, s.end = tail, end+1
}

// remember stores in the metadata the values derived from the last entry, which is about to be
// removed.
func (s *Stream) remember() { s.meta.last, s.meta.next = s.LastID(), s.next() }

// removeAt removes the live entry with an id, at off of the run i.
func (s *Stream) removeAt(i, off int, id StreamID) {
	r, tail := s.runs[i], id == s.tail
	if r.live == 1 {
		if tail {
			s.retail(s.runs[:i])
		}
		s.dropRuns(i, i+1)
		return
	}
	s.change(r, func(in *runEntries) { in.delete(off) })
	s.live--
	if tail {
		s.retail(s.runs)
	}
}

// Delete removes an entry and reports whether there was one.
func (s *Stream) Delete(id StreamID, changed Changed) bool {
	if s.live == 0 {
		return false
	}
	i := s.runOf(id)
	if !s.runs[i].spans(id) {
		return false
	}
	off, ordinal, ok := s.own(s.runs[i]).find(id)
	if !ok {
		return false
	}
	was, now := s.meta, s.meta
	if id == s.tail {
		now.last, now.next = s.LastID(), s.next()
	}
	if id.Compare(now.maxDeleted) > 0 {
		now.maxDeleted = id
	}
	s.removeAt(i, off, id)
	s.meta = now
	key := ListKey(ordinal * NumberStep)
	changed.call(key[:])
	s.metaChanged(was, changed)
	return true
}

func (s *Stream) metaChanged(was streamMeta, changed Changed) {
	if s.meta != was {
		s.made = true
		changed.call(metaKey[:])
	}
}

// TrimFirst removes the first n entries, or all if there are fewer. It returns the numbers of the
// first and the last one. If cut is not nil, it gets all numbers: n numbers from first on, each
// NumberStep after the one before.
func (s *Stream) TrimFirst(n int, changed Changed,
	cut func(first int64, n int)) (first, last int64) {
	n = min(n, s.live)
	if n <= 0 {
		return 0, -1
	}
	whole, part := 0, n // how many runs go, and how many entries of the next one
	for whole < len(s.runs) && int(s.runs[whole].live) <= part {
		part -= int(s.runs[whole].live)
		whole++
	}
	if part > 0 {
		s.own(s.runs[whole])
	}
	was := s.meta
	if n == s.live {
		s.remember()
	}
	seen := func(from, to int64) {
		last = (to - 1) * NumberStep
		if cut != nil {
			cut(from*NumberStep, int(to-from))
		}
	}
	first = s.runs[0].first * NumberStep
	for _, r := range s.runs[:whole] {
		seen(r.first, r.end())
	}
	s.dropRuns(0, whole)
	if part > 0 {
		r := s.runs[0]
		from := r.first
		s.change(r, func(in *runEntries) { in.shed(part) })
		s.live -= part
		seen(from, r.first)
	}
	if s.live == 0 {
		s.retail(nil)
	}
	s.metaChanged(was, changed)
	return first, last
}

// SetID sets the results of LastID, Added and MaxDeleted. The last id must not be below any that an
// entry of the stream ever had.
func (s *Stream) SetID(last StreamID, added uint64, maxDeleted StreamID, changed Changed) {
	was := s.meta
	s.meta.last, s.meta.maxDeleted = last, maxDeleted
	s.meta.offset = added - uint64(s.next())
	s.metaChanged(was, changed)
}

// Renumbered returns a copy whose entries have ordinals from 0 on without gaps. It must be stored
// as another value, whose last id may be lower.
func (s *Stream) Renumbered() *Stream {
	to := s.Clone().(*Stream)
	to.runs, to.allocated, to.live, to.tail, to.end, to.cold = nil, 0, 0, StreamID{}, 0, nil
	added := s.Added()
	to.meta.last, to.meta.next = StreamID{}, 0
	var fields [][]byte
	s.Range(StreamID{}, MaxStreamID, false, func(e StreamEntry) bool {
		fields = e.append(fields[:0])
		to.Add(e.ID, fields)
		return true
	})
	to.meta.offset = added - uint64(to.next())
	to.groups.all.byNumber(0, func(g *StreamGroup) bool {
		to.groups.edit(g, (*StreamGroup).order) // it may get entries again that it had
		return true
	})
	return to
}

// append appends the fields' names and values.
func (e StreamEntry) append(fields [][]byte) [][]byte {
	e.EachField(func(field, val []byte) bool {
		fields = append(fields, field, val)
		return true
	})
	return fields
}

// Bytes returns the memory used, in bytes.
func (s *Stream) Bytes() int {
	n := int(unsafe.Sizeof(*s)) + cap(s.runs)*8 + s.allocated + s.groups.bytes()
	if s.iids != nil {
		n += s.iids.bytes()
	}
	if s.meta.aging != nil {
		n += s.meta.aging.bytes()
	}
	return n + s.cold.memory()
}
