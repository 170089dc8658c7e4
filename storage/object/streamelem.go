package object

import (
	"bytes"
	"encoding/binary"
)

// The element keys of a stream, except those of entries, begin with a tag. Numbers in keys are
// big-endian, so on disk they are in the same order. Keys of entries begin with 0x80 or above and
// come last. Only keys of entries have eight bytes.
//
//	key                            value: uvarints, and names, each after its length
//	1                              metadata: last id, highest deleted id, next ordinal, what to add
//	                               to the ordinal for entries-added, how long idempotent ids are
//	                               kept and how many, next idempotent id, duplicates; with a
//	                               maximum age also that age (ms) and its StreamRefs
//	2 ordinal (8)                  producer, idempotent id, entry's id
//	3 group (4)                    name, last delivered id, entries read + 1 (0: not known)
//	4 group (4) consumer (4)       name, seen, active + 1 (0: never), Unix ms
//	5 group (4) ms (8) seq (8)     consumer (0: none), delivered (Unix ms; without a consumer the
//	                               place among those without one), count
//	ordinal * NumberStep (ListKey) id, pairs, and the fields: name, value, …
//
// An id is two uvarints. Groups and consumers have numbers from 1.
const (
	tagMeta = 1 + iota
	tagIID
	tagGroup
	tagConsumer
	tagPending
)

// maxStreamNumber is the highest number of a group or a consumer: two of them fit a cursor of Scan.
const maxStreamNumber = 1<<28 - 1

// maxOrdinal is above all ordinals, so that an entry's number fits in an int64.
const maxOrdinal = 1 << 46

var metaKey = [1]byte{tagMeta}

type (
	elemKey [21]byte // with room for the longest

	// streamElem is a parsed element key.
	streamElem struct {
		tag       byte // 0: an entry
		ordinal   int64
		group     uint32
		consumer  uint32
		pendingID StreamID
	}
)

// streamKeySizes are the sizes of the keys with a tag.
var streamKeySizes = [...]int{tagMeta: 1, tagIID: 9, tagGroup: 5, tagConsumer: 9, tagPending: 21}

// namesStream reports whether elem can be an element key of a stream.
func namesStream(elem []byte) bool {
	_, ok := parseStreamKey(elem)
	return ok
}

func parseStreamKey(elem []byte) (e streamElem, ok bool) {
	if len(elem) == 8 {
		number := ListNumber(elem)
		e.ordinal = number / NumberStep
		return e, number >= 0 && number%NumberStep == 0 && e.ordinal < maxOrdinal
	}
	if len(elem) == 0 || elem[0] < tagMeta || elem[0] > tagPending ||
		len(elem) != streamKeySizes[elem[0]] {
		return e, false
	}
	e.tag, elem = elem[0], elem[1:]
	switch e.tag {
	case tagIID:
		e.ordinal = int64(binary.BigEndian.Uint64(elem))
		return e, e.ordinal >= 0 && e.ordinal < maxOrdinal
	case tagGroup, tagConsumer, tagPending:
		e.group = binary.BigEndian.Uint32(elem)
		elem = elem[4:]
	}
	switch e.tag {
	case tagConsumer:
		e.consumer = binary.BigEndian.Uint32(elem)
		ok = e.consumer > 0 && e.consumer <= maxStreamNumber
	case tagPending:
		e.pendingID = StreamID{binary.BigEndian.Uint64(elem), binary.BigEndian.Uint64(elem[8:])}
		ok = true
	default:
		ok = true
	}
	return e, ok && (e.tag == tagMeta || e.group > 0 && e.group <= maxStreamNumber)
}

func (k *elemKey) iid(ordinal int64) []byte {
	k[0] = tagIID
	return binary.BigEndian.AppendUint64(k[:1], uint64(ordinal))
}

func (k *elemKey) group(group uint32) []byte {
	k[0] = tagGroup
	return binary.BigEndian.AppendUint32(k[:1], group)
}

func (k *elemKey) consumer(group, consumer uint32) []byte {
	k[0] = tagConsumer
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(k[:1], group), consumer)
}

func (k *elemKey) pending(group uint32, id StreamID) []byte {
	k[0] = tagPending
	b := binary.BigEndian.AppendUint32(k[:1], group)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, id.Ms), id.Seq)
}

func (m *streamMeta) append(dst []byte) []byte {
	dst = appendID(appendID(dst, m.last), m.maxDeleted)
	for _, v := range [...]uint64{uint64(m.next), m.offset, uint64(m.duration), uint64(m.maxSize),
		uint64(m.nextIID), uint64(m.duplicates)} {
		dst = binary.AppendUvarint(dst, v)
	}
	if a := m.aging; a != nil {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(a.age)), uint64(a.refs))
	}
	return dst
}

func parseMeta(val []byte) (m streamMeta, ok bool) {
	f := fieldsOf{rest: val}
	m.last, m.maxDeleted = f.id(), f.id()
	m.next, m.offset = f.int(), f.uint()
	m.duration, m.maxSize, m.nextIID, m.duplicates = f.int(), f.int(), f.int(), f.int()
	if !f.bad && len(f.rest) > 0 {
		age, refs := f.int(), f.uint()
		if age == 0 || age > MaxStreamAge || refs < uint64(KeepRefs) || refs > uint64(AckedRefs) {
			return m, false
		}
		m.aging = &aging{age: age, refs: StreamRefs(refs)}
	}
	return m, f.done() && m.next < maxOrdinal && m.nextIID < maxOrdinal
}

// Put sets an element that replay or a load from disk has read. Elements may come in any order, and
// may refer to later ones. Put returns an error if the element is not valid.
func (s *Stream) Put(elem, val []byte, deadline int64) error {
	e, ok := parseStreamKey(elem)
	if !ok || deadline != 0 {
		return errBadElement
	}
	switch e.tag {
	case 0:
		ok = s.putEntry(e.ordinal, val)
	case tagMeta:
		var m streamMeta
		if m, ok = parseMeta(val); ok {
			s.putMeta(m)
		}
	case tagIID:
		ok = s.putIID(e.ordinal, val)
	case tagGroup:
		s.resetGroup(e.group)
		ok = s.groups.putGroup(e.group, val)
	case tagConsumer:
		ok = s.groups.putConsumer(e.group, e.consumer, val)
	case tagPending:
		ok = s.groups.putPending(e.group, e.pendingID, val)
	}
	if !ok {
		return errBadElement
	}
	return nil
}

// putEntry puts an entry at its ordinal. Ids ascend with ordinals, and an ordinal never gets
// another entry.
func (s *Stream) putEntry(ordinal int64, val []byte) bool {
	var room [16][]byte
	id, fields, ok := parseEntry(val, room[:0])
	if !ok {
		return false
	}
	s.reset(id)
	at := s.runAt(ordinal)
	if at+1 < len(s.runs) && id.Compare(s.runs[at+1].low) >= 0 {
		return false
	}
	if at < 0 {
		s.placeRun(0, newStreamRun(ordinal, id, fields))
		return true
	}
	r := s.runs[at]
	end := r.end()
	switch {
	case ordinal < end:
		return s.putAgain(r, ordinal, id, fields, val)
	case id.Compare(r.last) <= 0:
		return false
	case at == len(s.runs)-1:
		s.push(ordinal, id, fields)
	case ordinal-end <= mostGap && !r.full(fields, thresholds.Load()):
		s.change(r, func(in *runEntries) { in.append(id, fields, int(ordinal-end)) })
		s.live++
	default:
		s.placeRun(at+1, newStreamRun(ordinal, id, fields))
	}
	return true
}

// parseEntry reads the value of an entry's element.
func parseEntry(val []byte, fields [][]byte) (id StreamID, _ [][]byte, ok bool) {
	f := fieldsOf{rest: val}
	id, pairs := f.id(), f.uint()
	if f.bad || pairs > uint64(len(f.rest)) {
		return id, nil, false
	}
	for range 2 * pairs {
		fields = append(fields, f.bytes())
	}
	return id, fields, f.done() && id != StreamID{}
}

func (s *Stream) placeRun(at int, r *streamRun) {
	s.insertRun(at, r)
	s.live++
	if at == len(s.runs)-1 {
		s.tail, s.end = r.last, r.first+1
	}
}

// putAgain puts an entry into a run that has, or had, one at that ordinal.
func (s *Stream) putAgain(r *streamRun, ordinal int64, id StreamID, fields [][]byte,
	val []byte) (ok bool) {
	in := s.own(r) // the caller's record of what the file lacks has this entry now
	if e, _, live := in.at(in.offset(ordinal)); live {
		return e.ID == id && bytes.Equal(e.appendTo(nil), val)
	}
	s.change(r, func(in *runEntries) { ok = in.revive(ordinal, id, fields) })
	if ok {
		s.live++
		if id.Compare(s.tail) > 0 {
			s.tail, s.end = id, ordinal+1
		}
	}
	return ok
}

// Remove removes an element, if it exists.
func (s *Stream) Remove(elem []byte) {
	e, ok := parseStreamKey(elem)
	if !ok {
		return
	}
	switch e.tag {
	case 0:
		if at := s.runAt(e.ordinal); at >= 0 {
			r := s.runs[at]
			if e.ordinal >= r.end() {
				return
			}
			in := s.own(r)
			off := in.offset(e.ordinal)
			if e, _, live := in.at(off); live {
				s.removeAt(at, off, e.ID)
			}
		}
	case tagMeta:
		s.meta, s.made = streamMeta{}, false
	case tagIID:
		s.removeIID(e.ordinal)
	case tagGroup:
		s.groups.removeGroup(e.group)
		s.reset(StreamID{})
	case tagConsumer:
		s.groups.removeConsumer(e.group, e.consumer)
	case tagPending:
		s.groups.removePending(e.group, e.pendingID)
		s.released(e.pendingID)
	}
}

// RemoveNumbers removes the entries whose numbers are from first to last. Before it removes some,
// it calls fn with their numbers: n numbers from first on, each NumberStep after the one before.
func (s *Stream) RemoveNumbers(first, last int64, fn func(first int64, n int)) {
	from := (max(first, 0) + NumberStep - 1) / NumberStep
	to := last / NumberStep
	if last < 0 {
		return
	}
	for at := max(s.runAt(from), 0); at < len(s.runs) && s.runs[at].first <= to; {
		r := s.runs[at]
		a, b := max(from, r.first), min(to+1, r.end())
		if a >= b {
			at++
			continue
		}
		fn(a*NumberStep, int(b-a))
		runs := len(s.runs)
		if a == r.first && b == r.end() {
			s.dropRuns(at, at+1)
		} else {
			s.change(r, func(in *runEntries) { s.live -= in.remove(a, b) })
			if r.live == 0 {
				s.dropRuns(at, at+1)
			}
		}
		if len(s.runs) == runs {
			at++
		}
	}
	if from < s.end && to >= s.end-1 {
		s.retail(s.runs)
	}
}

// Element returns an element's value; ok is false if there is no such element.
func (s *Stream) Element(elem []byte) (val []byte, deadline int64, ok bool) {
	e, ok := parseStreamKey(elem)
	if !ok {
		return nil, 0, false
	}
	switch e.tag {
	case 0:
		at := s.runAt(e.ordinal)
		if at < 0 || e.ordinal >= s.runs[at].end() {
			return nil, 0, false
		}
		in := s.entries(s.runs[at])
		entry, _, live := in.at(in.offset(e.ordinal))
		if !live {
			return nil, 0, false
		}
		return entry.appendTo(nil), 0, true
	case tagMeta:
		return s.meta.append(nil), 0, s.made
	case tagIID:
		val, ok = s.iid(e.ordinal)
	case tagGroup:
		val, ok = s.groups.group(e.group)
	case tagConsumer:
		val, ok = s.groups.consumer(e.group, e.consumer)
	case tagPending:
		val, ok = s.groups.pending(e.group, e.pendingID)
	}
	return val, 0, ok
}

// Len returns the number of elements.
func (s *Stream) Len() int {
	n := s.live + s.groups.len()
	if s.made {
		n++
	}
	if s.iids != nil {
		n += s.iids.order.n
	}
	return n
}

// Walk visits all elements until fn returns false, in the order of their keys.
func (s *Stream) Walk(fn func(elem, val []byte, deadline int64) bool) {
	w := streamWalk{fn: fn}
	if s.walkSmall(&w, 0) {
		s.walkEntries(&w, 0)
	}
}

// streamWalk visits elements. Its memory is reused for each element.
type streamWalk struct {
	fn  func(elem, val []byte, deadline int64) bool
	key elemKey
	val []byte
	// present: absent runs are left out.
	present bool
}

// entry visits an entry.
func (w *streamWalk) entry(ordinal int64, e StreamEntry) bool {
	w.val = e.appendTo(w.val[:0])
	key := ListKey(ordinal * NumberStep)
	copy(w.key[:], key[:])
	return w.fn(w.key[:8], w.val, 0)
}

func (s *Stream) walkEntries(w *streamWalk, from int64) bool {
	for _, r := range s.runs[max(min(s.runAt(from), len(s.runs)), 0):] {
		if r.end() <= from || w.present && r.absent() {
			continue
		}
		in, ordinal := s.entries(r), r.first
		for off := int(in.lo); off < len(in.mem); ordinal++ {
			e, next, live := in.at(off)
			if off = next; live && ordinal >= from && !w.entry(ordinal, e) {
				return false
			}
		}
	}
	return true
}

// From visits the entries whose numbers are not below number, as the values of their elements,
// until fn returns false. It skips absent runs, because it is for elements that the data file
// lacks.
func (s *Stream) From(number int64, fn func(number int64, val []byte) bool) {
	w := streamWalk{fn: func(elem, val []byte, _ int64) bool {
		return fn(ListNumber(elem), val)
	}, present: true}
	s.walkEntries(&w, (max(number, 0)+NumberStep-1)/NumberStep)
}

// LastNumber returns the number of the last entry; ok is false if there is none.
func (s *Stream) LastNumber() (number int64, ok bool) {
	return (s.end - 1) * NumberStep, s.live > 0
}
