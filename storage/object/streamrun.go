package object

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unsafe"
)

// A streamRun is a run of a stream's entries in one piece of memory. The shape precedes the
// entries; it is the field names of the run's first entry:
//
//	┌───────┬──────────────┬───┬───────────┬────┬─────┬────────┬───────────┬───┐
//	│ pairs │ length, name │ … │ size, own │ ms │ seq │ length │ value     │ … │
//	└───────┴──────────────┴───┴───────────┴────┴─────┴────────┴───────────┴───┘
//	 shape                      entry
//
// Numbers are uvarints. size is the length of the rest of the entry, times two. Its lowest bit,
// own, is set if the entry's field names are not those of the shape. Then pairs precedes the first
// value, and a length and a name precede each value. ms is the difference to that of the run's
// first ID (base), and so is seq if ms is 0. A deleted entry is a byte 0, so that the ordinals of
// entries are consecutive.
type streamRun struct {
	mem  []byte   // nil: the run is absent (streamaccess.go)
	base StreamID // of the first entry that ever was in it
	low  StreamID // of the first entry
	last StreamID // of the last entry that ever was in it: no entry is above it
	// first is the ordinal of the entry at lo. The entries begin there, deleted ones included.
	first   int64
	lo      uint32
	entries int32
	live    int32
	cut     int32 // deleted entries that were before lo
	node    int32 // bytes of Redis's node with these entries, without its two counts
	used    bool  // since Leave looked at it
}

// runEntries is a run whose entries are in mem. Methods that need only the summary are methods of
// streamRun; the summary is all fields but mem and lo. Only the accessors in streamaccess.go give
// the entries of a run.
type runEntries streamRun

// StreamEntry is an entry of a stream. It is valid until the stream changes.
type StreamEntry struct {
	ID    StreamID
	pairs int
	names []byte // of the shape; nil if they are in body
	body  []byte
}

// Fields returns the number of fields, each with a value.
func (e StreamEntry) Fields() int { return e.pairs }

// EachField visits the fields with their values, in order, until fn returns false.
func (e StreamEntry) EachField(fn func(field, val []byte) bool) {
	names, body := e.names, e.body
	var name, val []byte
	for range e.pairs {
		if e.names != nil {
			name, names = cutBytes(names)
		} else {
			name, body = cutBytes(body)
		}
		val, body = cutBytes(body)
		if !fn(name, val) {
			return
		}
	}
}

// cutBytes reads a length and the bytes that follow it; b contains all of them.
func cutBytes(b []byte) (head, rest []byte) {
	n, size := uint64(b[0]), 1
	if n >= 0x80 {
		n, size = binary.Uvarint(b)
	}
	to := size + int(n)
	return b[size:to:to], b[to:]
}

// appendTo appends the entry as the value of its element.
func (e StreamEntry) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(appendID(dst, e.ID), uint64(e.pairs))
	if e.names == nil {
		return append(dst, e.body...)
	}
	e.EachField(func(field, val []byte) bool {
		dst = appendBytes(appendBytes(dst, field), val)
		return true
	})
	return dst
}

// AppendStreamEntry appends an entry as the value of its element; fields alternate names and
// values.
func AppendStreamEntry(dst []byte, id StreamID, fields [][]byte) []byte {
	dst = binary.AppendUvarint(appendID(dst, id), uint64(len(fields)/2))
	for _, f := range fields {
		dst = appendBytes(dst, f)
	}
	return dst
}

func (r *streamRun) bytes() int { return int(unsafe.Sizeof(*r)) + cap(r.mem) }

// newStreamRun returns a run with one entry.
func newStreamRun(ordinal int64, id StreamID, fields [][]byte) *streamRun {
	return (*streamRun)(startRun(id, ordinal, id, fields))
}

// startRun returns a run with one entry. base is the id of the first entry that the run ever had.
func startRun(base StreamID, ordinal int64, id StreamID, fields [][]byte) *runEntries {
	size := uvarintLen(uint64(len(fields) / 2))
	for i := 0; i < len(fields); i += 2 {
		size += uvarintLen(uint64(len(fields[i]))) + len(fields[i])
	}
	r := &runEntries{base: base, low: id, last: id, first: ordinal, lo: uint32(size)}
	e := r.measure(id, fields, false)
	mem := resize(nil, size+e.total(), 0)[:0]
	mem = binary.AppendUvarint(mem, uint64(len(fields)/2))
	for i := 0; i < len(fields); i += 2 {
		mem = appendBytes(mem, fields[i])
	}
	r.mem = r.write(mem, e, fields)
	r.entries, r.live = 1, 1
	r.node = nodeHead(fields) + nodeEntry(r.base, id, fields, false)
	return r
}

// measured is an entry as it will be in a run.
type measured struct {
	own     bool
	ms, seq uint64
	size    int // of what follows the size
}

func (e measured) head() uint64 {
	if e.own {
		return uint64(e.size)<<1 | 1
	}
	return uint64(e.size) << 1
}

func (e measured) total() int { return uvarintLen(e.head()) + e.size }

func (r *runEntries) measure(id StreamID, fields [][]byte, own bool) measured {
	e := measured{own: own, ms: id.Ms - r.base.Ms, seq: id.Seq}
	if e.ms == 0 {
		e.seq -= r.base.Seq
	}
	e.size = uvarintLen(e.ms) + uvarintLen(e.seq)
	for i, f := range fields {
		if own || i%2 == 1 {
			e.size += uvarintLen(uint64(len(f))) + len(f)
		}
	}
	if own {
		e.size += uvarintLen(uint64(len(fields) / 2))
	}
	return e
}

// write appends an entry to mem.
func (r *runEntries) write(mem []byte, e measured, fields [][]byte) []byte {
	mem = binary.AppendUvarint(mem, e.head())
	mem = binary.AppendUvarint(binary.AppendUvarint(mem, e.ms), e.seq)
	if e.own {
		mem = binary.AppendUvarint(mem, uint64(len(fields)/2))
	}
	for i, f := range fields {
		if e.own || i%2 == 1 {
			mem = appendBytes(mem, f)
		}
	}
	return mem
}

// shaped reports whether the fields have the names of the shape.
func (r *runEntries) shaped(fields [][]byte) bool {
	pairs, size := binary.Uvarint(r.mem)
	if pairs != uint64(len(fields)/2) {
		return false
	}
	names := r.mem[size:]
	var name []byte
	for i := 0; i < len(fields); i += 2 {
		if name, names = cutBytes(names); !bytes.Equal(name, fields[i]) {
			return false
		}
	}
	return true
}

// full reports whether an entry with these fields must begin another run, because Redis's node
// would be full.
func (r *streamRun) full(fields [][]byte, lim *Thresholds) bool {
	size := 0
	for _, f := range fields {
		size += len(f)
	}
	gone := r.cut + r.entries - r.live
	node := int(r.node) + packInt(int64(r.live)) + packInt(int64(gone))
	return node+size >= lim.streamBytes() || int(r.live+gone) >= lim.streamEntries()
}

// append adds an entry after all others and gap deleted ones.
func (r *runEntries) append(id StreamID, fields [][]byte, gap int) {
	own := !r.shaped(fields)
	e := r.measure(id, fields, own)
	n := len(r.mem)
	need := n + gap + e.total()
	mem := resize(r.mem, need, need/2)[:n]
	for range gap {
		mem = append(mem, 0)
	}
	r.mem = r.write(mem, e, fields)
	r.entries += int32(gap) + 1
	r.live++
	r.last = id
	r.node += nodeEntry(r.base, id, fields, own)
}

// trim frees the unused memory of a run to which nothing will be added any more.
func (r *runEntries) trim() {
	if cap(r.mem)-len(r.mem) > len(r.mem)/16 {
		r.mem = append([]byte(nil), r.mem...)
	}
}

// at reads the entry at off and returns the offset of the next one. live is false for a deleted
// entry.
func (r *runEntries) at(off int) (e StreamEntry, next int, live bool) {
	head, n := uint64(r.mem[off]), 1
	if head == 0 {
		return e, off + 1, false
	}
	if head >= 0x80 {
		head, n = binary.Uvarint(r.mem[off:])
	}
	off += n
	next = off + int(head>>1)
	body := r.mem[off:next:next]
	ms, n := binary.Uvarint(body)
	seq, m := binary.Uvarint(body[n:])
	e.ID = StreamID{r.base.Ms + ms, seq}
	if ms == 0 {
		e.ID.Seq += r.base.Seq
	}
	e.body = body[n+m:]
	names := r.mem
	if head&1 != 0 {
		names = e.body
	}
	pairs, n := binary.Uvarint(names)
	e.pairs = int(pairs)
	if head&1 != 0 {
		e.body = e.body[n:]
	} else {
		e.names = names[n:r.lo:r.lo]
	}
	return e, next, true
}

// spans reports whether an id is in the range from the first to the last entry.
func (r *streamRun) spans(id StreamID) bool {
	return id.Compare(r.low) >= 0 && id.Compare(r.last) <= 0
}

// end returns the ordinal after the run.
func (r *streamRun) end() int64 { return r.first + int64(r.entries) }

// find returns the offset and the ordinal of the entry with an id; ok is false if there is none.
func (r *runEntries) find(id StreamID) (off int, ordinal int64, ok bool) {
	ordinal = r.first
	for off = int(r.lo); off < len(r.mem); ordinal++ {
		e, next, live := r.at(off)
		if live {
			if c := e.ID.Compare(id); c >= 0 {
				return off, ordinal, c == 0
			}
		}
		off = next
	}
	return 0, 0, false
}

// each visits the live entries until fn returns false. It reports whether it visited all of them.
func (r *runEntries) each(fn func(StreamEntry) bool) bool {
	for off := int(r.lo); off < len(r.mem); {
		e, next, live := r.at(off)
		if off = next; live && !fn(e) {
			return false
		}
	}
	return true
}

// before returns the number of live entries with ids below id.
func (r *runEntries) before(id StreamID) (n int) {
	for off := int(r.lo); off < len(r.mem); {
		e, next, live := r.at(off)
		if off = next; live {
			if e.ID.Compare(id) >= 0 {
				break
			}
			n++
		}
	}
	return n
}

// offset returns the offset of the entry with an ordinal, which must be in the run.
func (r *runEntries) offset(ordinal int64) int {
	off := int(r.lo)
	for ; ordinal > r.first; ordinal-- {
		_, off, _ = r.at(off)
	}
	return off
}

// offsets appends the offsets of the live entries.
func (r *runEntries) offsets(dst []uint32) []uint32 {
	for off := int(r.lo); off < len(r.mem); {
		_, next, live := r.at(off)
		if live {
			dst = append(dst, uint32(off))
		}
		off = next
	}
	return dst
}

// delete marks the live entry at off as deleted.
func (r *runEntries) delete(off int) {
	_, next, _ := r.at(off)
	r.mem[off] = 0
	r.mem = slices.Delete(r.mem, off+1, next)
	r.live--
	r.advance()
}

// advance skips the deleted entries at the front, if the run has live ones.
func (r *runEntries) advance() {
	if r.live == 0 {
		return
	}
	for r.mem[r.lo] == 0 {
		r.lo++
		r.first++
		r.entries--
		r.cut++
	}
	e, _, _ := r.at(int(r.lo))
	r.low = e.ID
}

// remove deletes the entries with ordinals from a up to but not including b. It returns how many
// were live.
func (r *runEntries) remove(a, b int64) (n int) {
	from := r.offset(a)
	off := from
	for at := a; at < b; at++ {
		_, next, live := r.at(off)
		if off = next; live {
			n++
		}
	}
	clear(r.mem[from : from+int(b-a)])
	r.mem = slices.Delete(r.mem, from+int(b-a), off)
	r.live -= int32(n)
	r.advance()
	return n
}

// shed removes the first n live entries. The run must have more.
func (r *runEntries) shed(n int) {
	off := int(r.lo)
	for n > 0 {
		_, next, live := r.at(off)
		off = next
		if live {
			n--
			r.live--
		}
		r.first++
		r.entries--
		r.cut++
	}
	r.lo = uint32(off)
	r.advance()
}

// lastLive returns the id and the ordinal of the last live entry.
func (r *runEntries) lastLive() (id StreamID, ordinal int64) {
	at := r.first
	for off := int(r.lo); off < len(r.mem); at++ {
		e, next, live := r.at(off)
		if live {
			id, ordinal = e.ID, at
		}
		off = next
	}
	return id, ordinal
}

// revive replaces a deleted entry by a live one. It returns false if the id does not fit there.
func (r *runEntries) revive(ordinal int64, id StreamID, fields [][]byte) bool {
	off := r.offset(ordinal)
	if !(*streamRun)(r).spans(id) {
		return false
	}
	for at := int(r.lo); at < len(r.mem); {
		e, next, live := r.at(at)
		if live && (at < off) != (e.ID.Compare(id) < 0) {
			return false
		}
		at = next
	}
	e := r.measure(id, fields, !r.shaped(fields))
	mem := append(make([]byte, 0, len(r.mem)+e.total()), r.mem[:off]...)
	mem = r.write(mem, e, fields)
	r.mem = append(mem, r.mem[off+1:]...)
	r.live++
	return true
}

func (r *streamRun) clone() *streamRun {
	to := *r
	to.mem = slices.Clone(r.mem)
	return &to
}
