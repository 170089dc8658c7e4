package storage

import (
	"encoding/binary"

	"keyp/internal/bigcopy"
	"keyp/storage/format"
	"keyp/storage/object"
)

func (p *part) logCounts(t *Txn) {
	p.counted = false
	if !p.dead {
		t.record(format.RecPopulation, uint64(p.space), uint64(p.shard.num), uint64(p.keys),
			uint64(p.expires), uint64(p.timed))
	}
}

// logReaped logs that all keys and elements of the shard with a deadline up to through are gone.
// The caller has already taken them off the numbers of keys. A start that reads this record removes
// the same keys. So nothing that was seen expired returns, whatever the wall clock does over a
// restart.
func (sh *shard) logReaped(t *Txn, through int64) {
	if through <= sh.mu.logged {
		return
	}
	sh.mu.logged = through
	t.record(format.RecReaped, uint64(sh.num), uint64(through))
}

// record begins a record of any kind except the short records of elements. A short record may not
// follow directly, because it is about the value of the record before it.
func (b *txnBatch) record(tag byte, fields ...uint64) {
	b.logged = 0
	b.buf = format.AppendRecord(b.buf, tag, fields...)
}

func (t *Txn) keyRecord(tag byte, p *part, key []byte) {
	t.changing(p.space, key)
	t.stateKey(tag, p.space, key)
}

// stateKey is keyRecord without reporting a change.
func (b *txnBatch) stateKey(tag byte, space uint32, key []byte) {
	b.cutBatch()
	b.record(tag, uint64(space))
	b.buf = format.AppendBytes(b.buf, key)
	b.cost += recordCost[tag]
	b.stated++
}

// Uncounted calls f. Stats.Changes does not count the changes that f makes: they are part of
// another change, or are not changes in Redis.
func (b *txnBatch) Uncounted(f func()) {
	n := b.stated
	f()
	b.stated = n
	b.logged = 0 // the next change of the same value counts
}

// logObject records a whole new value.
func (t *Txn) logObject(p *part, o *Object, deadline int64, created uint32) {
	t.changing(p.space, o.name())
	t.stateObject(p.space, o, deadline, created)
}

// stateObject is logObject without reporting a change.
func (t *Txn) stateObject(space uint32, o *Object, deadline int64, created uint32) {
	t.stateKey(format.RecLarge, space, o.name())
	t.buf = binary.AppendUvarint(t.buf, o.id)
	t.buf = format.AppendDeadline(t.buf, deadline, created)
	t.buf = append(t.buf, byte(o.val.Type()))
	t.logged = o.id
	if s, ok := o.val.(*object.String); ok {
		if t.mayShare(o, s) {
			t.shareString(o, s)
			return
		}
		t.buf = bigcopy.Grow(t.buf, len(s.Data)+s.Len()*chunkRecord+recordsRoom)
	}
	o.val.Walk(func(elem, val []byte, d int64) bool {
		t.element(nil, o, elem, val, d) // the record before has the value
		return true
	})
}

// chunkRecord is the most bytes that the record of a string's chunk has in addition to the chunk.
const chunkRecord = 1 + 1 + 8 + 1 + 3

// recordsRoom is room for other records in the batch of a large string: counts, another key.
const recordsRoom = 256

// regenerate logs a value again, as a new generation, if it is inline on disk and has grown too
// large for that. Then the log alone can restore it, and a checkpoint may replace the small value's
// record by elements in portions.
func (t *Txn) regenerate(p *part, o *Object) bool {
	if !o.is(stateInline) || o.val.Bytes() <= format.InlineMax {
		return false
	}
	t.restate(p, o)
	return true
}

// restate logs a value as a new generation.
func (t *Txn) restate(p *part, o *Object) {
	o.id = t.s.generation.Add(1)
	o.state &^= stateInline | stateReplayed
	t.logObject(p, o, o.deadline, o.created)
}

// element records an element's value.
func (t *Txn) element(p *part, o *Object, elem, val []byte, deadline int64) {
	t.elementRecord(format.RecElement, format.RecMore, p, o, elem)
	t.buf = binary.AppendUvarint(t.buf, uint64(deadline))
	t.buf = format.AppendBytes(t.buf, val)
}

// removed records that an element is gone.
func (t *Txn) removed(p *part, o *Object, elem []byte) {
	t.elementRecord(format.RecRemove, format.RecLess, p, o, elem)
}

// cut records that all elements with the numbers from first to last are gone.
func (t *Txn) cut(p *part, o *Object, first, last int64) {
	if first == last {
		key := object.ListKey(first)
		t.removed(p, o, key[:])
		return
	}
	t.keyRecord(format.CutOf(o.val.Type()), p, o.name())
	t.buf = binary.AppendUvarint(t.buf, o.id)
	for _, number := range [2]int64{first, last} {
		key := object.ListKey(number)
		t.buf = append(t.buf, key[:]...)
	}
}

// elementRecord begins a record about an element; it is short if the record before it in the batch
// is about the same value. p is nil while a whole value is recorded: the value was reported as a
// whole, or no key has it yet.
func (t *Txn) elementRecord(tag, short byte, p *part, o *Object, elem []byte) {
	if t.logged == o.id {
		t.cutBatch()
		if p != nil {
			t.changing(p.space, o.name()) // the record before may have been of what is no change
		}
		t.buf = append(t.buf, short)
		t.cost += recordCost[short]
	} else {
		t.keyRecord(tag, p, o.name())
		t.buf = append(binary.AppendUvarint(t.buf, o.id), byte(o.val.Type()))
		t.logged = o.id
	}
	t.buf = format.AppendBytes(t.buf, elem)
}
