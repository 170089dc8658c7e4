package storage

import (
	"encoding/binary"
	"math"
	"unsafe"

	"keyp/storage/format"
	"keyp/storage/object"
)

// Object is a key that is not in a slab: a large string or a collection. Millions of
// small collections make its size matter: what few have stands in side.
type Object struct {
	key      string
	val      object.Value // nil in a tombstone
	deadline int64
	lsn      uint64
	// id is the value's generation: a number from a persisted counter that a key's
	// value gets when it is created or overwritten, keeps through RENAME, and that is
	// never given again.
	id      uint64
	side    *side
	created uint32
	access  uint32
	// units is the memory that the part counts for the object, in multiples of unit:
	// what it took when it was last measured. A transaction that changes the value
	// measures at its end, so counts agree meanwhile.
	units uint32
	flags byte
	state byte
}

// unit is 8 bytes, so that a 32-bit number counts values of up to 32 GiB.
const unit = 8

// States of an object.
const (
	// stateStored: the value's elements stand on disk under id, not inline in its
	// record, or some of them do and the rest will.
	stateStored = 1 << iota
	// stateInline: the value, as it is or was, stands inline in the record under its
	// key, and perhaps nowhere else.
	stateInline
	// stateLinked: the record on disk under this key is not the one that names id,
	// since the value came here by RENAME; nor will the value stand inline under this key.
	stateLinked
	// stateReplayed: elements may stand on disk under id, and a record may name it, as
	// a checkpoint left them that did not finish.
	stateReplayed
	// stateOpen: the present transaction has changed the value and not taken it into counts and index yet (FlushValues).
	stateOpen
	// stateGone: detached from the keyspace.
	stateGone
	// stateShared: the log may have the bytes of the string, which is the whole value, for a
	// batch that is not durable yet.
	stateShared
)

func (o *Object) is(state byte) bool { return o.state&state != 0 }

// side is what few objects have.
type side struct {
	// due is the first deadline of an element as the index has it, 0 for none, or while the
	// value is pinned.
	due int64
	// pins is how many commands have pinned the value (Pins), if its elements have deadlines.
	pins int32
	unsaved
}

// unsaved is what the data file does not show of a value whose elements stand there.
type unsaved struct {
	// rest: all elements from cursor to end, in the order of Scan; those that have come since
	// it began are in changed.
	rest        bool
	cursor, end uint64
	// changed and frozen are elements that differ, the latter those of them that the
	// checkpoint under way is to copy; or, if one failed, an earlier one was.
	changed, frozen marks
}

func (u *unsaved) any() bool { return u.rest || u.changed.any() || u.frozen.any() }

// saved says whether the data file has all elements of a value that stands by element, as far as
// a checkpoint that finishes has it.
func (o *Object) saved() bool { return o.is(stateStored) && (o.side == nil || !o.side.unsaved.any()) }

// inline says whether the value stands, or is to stand, inline in its record. A value does
// not grow out of that: regenerate makes it another one. One that came by RENAME stands
// where its log record leads to, under the id.
func (o *Object) inline() bool {
	return !o.is(stateStored|stateLinked) && (o.is(stateInline) || o.val.Bytes() <= format.InlineMax)
}

// stale says whether elements on disk under the value's id are none of its own: those of
// a checkpoint that did not finish, from before the log stated the value whole.
func (o *Object) stale() bool { return o.is(stateReplayed) && !o.is(stateStored) }

// beStored has a value's elements stand by themselves on disk, if they do not yet: all that it
// has now is to be copied.
func (o *Object) beStored() {
	if !o.is(stateStored) {
		o.state |= stateStored
		o.more().unsaved = unsaved{rest: true, end: lastOf(o.val)}
	}
}

// lastOf is how far Scan has to go to come to all elements that a value has now. The others are
// in the order of a hash: what is added to them is not all ahead, as it is at a list's end.
func lastOf(v object.Value) uint64 {
	l, ok := v.(*object.List)
	if !ok || l.Len() == 0 {
		return math.MaxUint64
	}
	number, _ := l.At(l.Len() - 1)
	key := object.ListKey(number)
	return binary.BigEndian.Uint64(key[:])
}

// freeze makes what has changed until now a checkpoint's to copy.
func (o *Object) freeze() {
	if o.side == nil {
		return
	}
	u := &o.side.unsaved
	u.frozen.merge(u.changed)
	u.changed = marks{}
}

// more gives the object its side.
func (o *Object) more() *side {
	if o.side == nil {
		o.side = &side{}
	}
	return o.side
}

// lean lets an empty side go.
func (o *Object) lean() {
	if o.side != nil && o.side.due == 0 && o.side.pins == 0 && !o.side.any() {
		o.side = nil
	}
}

// name is the key as bytes, which nobody may change.
func (o *Object) name() []byte { return unsafe.Slice(unsafe.StringData(o.key), len(o.key)) }

// due is the earlier of the deadlines of the key and of its elements, as indexed; 0 for
// none.
func (o *Object) due() int64 {
	if o.side == nil {
		return o.deadline
	}
	return format.Earlier(o.deadline, o.side.due)
}

// pinned says that offloaded commands have pinned the value, whose elements have deadlines.
func (o *Object) pinned() bool { return o.side != nil && o.side.pins > 0 }

// elementDue says whether an element is due at now.
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

// earlier is the first of two deadlines, of which 0 is none.
// setDue notes the first deadline of an element.
func (o *Object) setDue(d int64) {
	if d != 0 || o.side != nil {
		o.more().due = d
		o.lean()
	}
}

// bytes is the memory taken, as last measured.
func (o *Object) bytes() int { return int(o.units) * unit }

// measure takes the value's present size, and returns by how many bytes it changed.
func (o *Object) measure() int64 {
	n := int(unsafe.Sizeof(*o)) + unit + len(o.key)
	if o.val != nil {
		n += o.val.Bytes()
	}
	was := o.units
	o.units = uint32((n + unit - 1) / unit)
	return (int64(o.units) - int64(was)) * unit
}

// recount brings sizes, index and dirtiness in step with a value that changed.
func (p *part) recount(sl *slot, c *cell, o *Object) {
	delta := o.measure()
	p.objects.bytes += delta
	if c.is(cellDirty) {
		p.dirty += delta
	}
	was := o.due()
	o.setDue(o.val.Earliest())
	p.setIndex(p.id(sl, *c), was, o.due())
	p.markDirty(sl, c)
}

// change notes an element that differs from the data file; a value of which the file has
// no elements is written whole anyway.
func (o *Object) change(elem []byte) {
	if !o.is(stateStored) {
		return
	}
	o.more().changed.add(o.val.Type(), elem)
}

// changeRun notes n elements of a list, from the number first on.
func (o *Object) changeRun(first int64, n int) {
	if o.is(stateStored) {
		o.more().changed.addRun(first, n)
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
}

func (s *objects) at(ref uint32) *Object { return s.list[ref] }

// add takes an object whose value is as it will be, but for what recount follows.
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
		return ref
	}
	s.list = append(s.list, o)
	return uint32(len(s.list) - 1)
}

func (s *objects) remove(ref uint32) {
	s.list[ref].state |= stateGone
	s.bytes -= int64(s.list[ref].bytes())
	s.list[ref] = nil
	s.holes = append(s.holes, ref)
}
