package storage

import (
	"encoding/binary"
	"math"
	"unsafe"

	"keyp/storage/elementset"
	"keyp/storage/format"
	"keyp/storage/object"
)

// Object is a key that is not in a slab: a large string or a collection. There may be millions of
// objects, so the struct is small: fields that few objects use are in a second struct (side).
type Object struct {
	key      string
	val      object.Value // nil in a tombstone
	deadline int64
	lsn      uint64
	// id is the value's generation, a number from a persisted counter. A value gets it when it is
	// created or overwritten, and keeps it through RENAME. A number is never given again.
	id      uint64
	side    *side
	created uint32
	access  uint32
	// units is the object's memory when it was last measured, in multiples of unit; the part's
	// counts have it. A transaction that changes the value measures it at its end.
	units uint32
	flags byte
	state byte
}

// unit is 8 bytes, so that a 32-bit number counts values of up to 32 GiB.
const unit = 8

// States of an object.
const (
	// stateStored: the value's elements are on disk under id, and not inline in its record. Some of
	// them may not be on disk yet.
	stateStored = 1 << iota
	// stateInline: the present or an earlier state of the value is inline in the record under its
	// key, and perhaps nowhere else.
	stateInline
	// stateLinked: the value came here by RENAME. So the record on disk under this key is not the
	// one that names id, and the value will never be inline under this key.
	stateLinked
	// stateReplayed: an unfinished checkpoint may have left elements under id on disk, and a record
	// that names id.
	stateReplayed
	// stateOpen: the present transaction has changed the value and not updated counts and index yet
	// (FlushValues).
	stateOpen
	// stateGone: detached from the keyspace.
	stateGone
	// stateShared: a batch that is not durable yet may refer to the string's bytes.
	stateShared
	// stateTimed: the value is among those that the part counts as timed.
	stateTimed
)

func (o *Object) is(state byte) bool { return o.state&state != 0 }

// side contains the fields that few objects need.
type side struct {
	// due is the first deadline of an element, as in the index. It is 0 if there is none, and while
	// the value is pinned.
	due int64
	// pins is how many commands have pinned the value (Pins), if its elements have deadlines or it
	// is a stream.
	pins int32
	// readers is how many commands have pinned the value, whatever its type and deadlines.
	readers int32
	// hidden are elements that a follower's readers do not see. They are not in the value; due
	// includes them.
	hidden *hidden
	unsaved
}

// unsaved names the elements that the data file lacks, of a value that is stored by element.
type unsaved struct {
	// rest: the data file lacks all elements from cursor to end, in the order of Scan. Elements
	// that were added since are in changed.
	rest        bool
	cursor, end uint64
	// changed and frozen are elements that differ from the data file. The checkpoint under way
	// copies the frozen ones, or a failed checkpoint was to copy them.
	changed, frozen elementset.Set
}

func (u *unsaved) any() bool { return u.rest || u.changed.Any() || u.frozen.Any() }

// saved reports whether the data file has all elements of a value that is stored by element, once
// the checkpoint finishes.
func (o *Object) saved() bool {
	return o.is(stateStored) && (o.side == nil || !o.side.unsaved.any())
}

// inline reports whether the value is, or will be, inline in its record. That never changes for a
// value: one that grows too large becomes another generation (regenerate). A value that came by
// RENAME is stored under its id, to which its log record refers.
func (o *Object) inline() bool {
	return !o.is(stateStored|stateLinked) &&
		(o.is(stateInline) || o.val.Bytes() <= format.InlineMax)
}

// stale reports whether elements on disk under the value's id are not its own: an unfinished
// checkpoint wrote them before the log recorded the whole value.
func (o *Object) stale() bool { return o.is(stateReplayed) && !o.is(stateStored) }

// beStored makes the value one that is stored by element, if it is not yet: all its present
// elements must be copied.
func (o *Object) beStored() {
	if !o.is(stateStored) {
		o.state |= stateStored
		o.more().unsaved = unsaved{rest: true, end: lastOf(o.val)}
	}
}

// lastOf returns the last place that Scan must visit to see all present elements with numbers.
// Other elements are in the order of a hash or of their names. Some new elements come before the
// last one in that order, so there is no such bound.
func lastOf(v object.Value) uint64 {
	numbered, ok := v.(object.Numbered)
	if !ok {
		return math.MaxUint64
	}
	number, ok := numbered.LastNumber()
	if !ok {
		return math.MaxUint64
	}
	key := object.ListKey(number)
	return binary.BigEndian.Uint64(key[:])
}

// freeze marks the changes until now for a checkpoint to copy.
func (o *Object) freeze() {
	if o.side == nil {
		return
	}
	u := &o.side.unsaved
	u.frozen.Merge(u.changed)
	u.changed = elementset.Set{}
}

// more returns the object's side, made if missing.
func (o *Object) more() *side {
	if o.side == nil {
		o.side = &side{}
	}
	return o.side
}

// lean drops an empty side.
func (o *Object) lean() {
	if o.side != nil && o.side.due == 0 && o.side.pins == 0 && o.side.readers == 0 &&
		o.side.hidden == nil && !o.side.any() {
		o.side = nil
	}
}

// name returns the key as bytes, which must not be changed.
func (o *Object) name() []byte { return unsafe.Slice(unsafe.StringData(o.key), len(o.key)) }

// due returns the earlier of the deadlines of the key and of its elements, as indexed; 0 for none.
func (o *Object) due() int64 {
	return format.Earlier(o.deadline, o.elementDeadline())
}

// elementDeadline returns the first deadline of an element, as indexed; 0: none has one.
func (o *Object) elementDeadline() int64 {
	if o.side == nil {
		return 0
	}
	return o.side.due
}

// pinned reports whether offloaded commands have pinned the value, if its elements have deadlines.
func (o *Object) pinned() bool { return o.side != nil && o.side.pins > 0 }

// elementDue reports whether an element is due at now.
func (o *Object) elementDue(now int64) bool {
	if o.side == nil {
		return false
	}
	due := o.side.due
	if o.side.pins > 0 {
		due = o.val.Earliest()
	}
	return due != 0 && due <= now
}

// setDue notes the first deadline of an element; 0: none has one.
func (o *Object) setDue(d int64) {
	if d != 0 || o.side != nil {
		o.more().due = d
		o.lean()
	}
}

// bytes returns the memory of the object, as last measured.
func (o *Object) bytes() int { return int(o.units) * unit }

// measure updates the value's size, and returns by how many bytes it changed.
func (o *Object) measure() int64 {
	n := int(unsafe.Sizeof(*o)) + unit + len(o.key)
	if o.val != nil {
		n += o.val.Bytes()
	}
	was := o.units
	o.units = uint32((n + unit - 1) / unit)
	return (int64(o.units) - int64(was)) * unit
}

// recount updates sizes, index and dirtiness for a value that changed.
func (p *part) recount(t *Txn, sl *slot, c *cell, o *Object) {
	p.grew(c, o)
	was := o.due()
	o.setDue(o.whole().Earliest())
	p.timedNow(t, o, o.elementDeadline() != 0)
	p.setIndex(p.id(sl, *c), was, o.due())
	p.markDirty(sl, c)
}

// change notes an element that differs from the data file. A value without elements in the file is
// written whole anyway.
func (o *Object) change(elem []byte) {
	if !o.is(stateStored) {
		return
	}
	o.more().changed.Add(o.val.Type(), elem)
}

// changeRun notes n elements with numbers, from the number first on.
func (o *Object) changeRun(first int64, n int) {
	if o.is(stateStored) {
		o.more().changed.AddRun(first, n)
	}
}

// changeRange notes which chunks of a string a write touched; was is the length before.
func (o *Object) changeRange(off, n, was int) {
	from := min(off, was)
	object.Chunks(from, off+n-from, func(elem []byte) { o.change(elem) })
}

// objects numbers Go objects, so that a cell can name them as it names blocks.
type objects struct {
	list  []*Object
	holes []uint32
	bytes int64
	// large are the streams whose runs may leave memory.
	large map[uint32]struct{}
}

func (s *objects) at(ref uint32) *Object { return s.list[ref] }

// add adds an object with its final value; later changes go through recount.
func (s *objects) add(o *Object) uint32 {
	o.state &^= stateOpen | stateGone
	o.measure()
	s.bytes += int64(o.bytes())
	if o.val != nil {
		o.setDue(o.val.Earliest())
	}
	if n := len(s.holes); n > 0 {
		ref := s.holes[n-1]
		s.holes = s.holes[:n-1]
		s.list[ref] = o
		s.noteLarge(ref, o)
		return ref
	}
	s.list = append(s.list, o)
	s.noteLarge(uint32(len(s.list)-1), o)
	return uint32(len(s.list) - 1)
}

func (s *objects) remove(ref uint32) {
	delete(s.large, ref)
	s.list[ref].state |= stateGone
	s.bytes -= int64(s.list[ref].bytes())
	s.list[ref] = nil
	s.holes = append(s.holes, ref)
}
