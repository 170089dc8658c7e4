package storage

import (
	"encoding/binary"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// Rename moves a key's value and deadline to another name, whose old value is lost. It returns
// false, and changes nothing, for a missing or expired key. From and to are different keys; they
// may be of different databases. It raises no event but New.
func (t *Txn) Rename(from, to Key) bool {
	t.FlushValues()
	p, _, c := t.live(from, false)
	if !exists(c) {
		return false
	}
	deadline, created := t.governMoved(to, p.item(*c).Type(), p.deadline(*c), p.created(*c))
	t.raiseNewAgain(to)
	p, sl, c := t.live(from, false)
	if deadline.At != p.deadline(*c) {
		t.changeDeadline(p, sl, c, from, deadline, created)
	}
	o := p.objectOf(*c)
	value, err := p.item(*c).String()
	access := p.access(*c)
	var arriving object.Value // nil: a string
	if err != nil {
		arriving = t.s.hooks.Arriving(t, to, o.val)
	}
	switch {
	case err != nil && (arriving != o.val || t.s.options.Member):
		// A link is for a data file like this store's.
		v := ownValue(arriving) // before anything is gone
		t.Delete(from, Event{})
		t.install(to, v, deadline, created, access)
	case o == nil || err == nil && (isSmall(to.Name, value) || t.s.options.Member):
		value = append([]byte(nil), value...)
		raw := *p.flags(*c) & flagRaw
		t.Delete(from, Event{})
		t.set(to, value, deadline, created, access)
		t.setFlags(to, raw)
	case o.is(stateInline):
		t.carry(from, to)
	default:
		t.link(from, to)
	}
	t.s.guard.carryNotes(t, from, to)
	return true
}

// Copy gives the key to the value and deadline of from; the old value of to is lost. It returns
// false for a missing or expired key. It raises no event but New.
func (t *Txn) Copy(from, to Key) bool {
	t.FlushValues()
	if t.Offloaded() {
		return t.copyOffloaded(from, to)
	}
	p, _, c := t.live(from, false)
	if !exists(c) {
		return false
	}
	deadline, created := t.governMoved(to, p.item(*c).Type(), p.deadline(*c), p.created(*c))
	t.raiseNewAgain(to)
	p, _, c = t.live(from, false)
	access := p.access(*c)
	raw := *p.flags(*c) & flagRaw
	if value, err := p.item(*c).String(); err == nil {
		t.set(to, append([]byte(nil), value...), deadline, created, access)
	} else {
		t.install(to, t.s.hooks.Arriving(t, to, p.objectOf(*c).val.Clone()), deadline,
			created, access)
	}
	t.setFlags(to, raw)
	t.s.guard.carryNotes(t, from, to)
	return true
}

// raiseNewAgain raises New for a key that exists and is about to be replaced: in Redis, RENAME and
// COPY delete it first. If the key does not exist, its creation raises the event.
func (t *Txn) raiseNewAgain(k Key) {
	if _, _, c := t.live(k, false); exists(c) {
		t.Notify(k, New)
	}
}

// Replace sets key to val, which then belongs to the store, with deadline. The key's old value is
// lost; an empty value deletes the key, and raises Deleted if the key existed.
func (t *Txn) Replace(k Key, v object.Value, deadline ttl.Deadline, ev Event) {
	t.FlushValues()
	if t.Offloaded() {
		t.replaceOffloaded(k, v, deadline, ev)
		return
	}
	if s, ok := v.(*object.String); ok {
		t.SetString(k, s.Data, deadline, ev)
		return
	}
	if v.Len() == 0 {
		t.Delete(k, Deleted)
		return
	}
	asked := deadline
	if !v.Type().OwnDeadline() {
		deadline = t.governNew(k, asked)
	}
	t.install(k, t.s.hooks.Arriving(t, k, v), deadline, t.createdFor(k, deadline.At),
		t.s.firstAccess(t.now))
	t.notifyWritten(k, ev, asked.At, deadline.At)
}

// install makes a collection a key's new value.
func (t *Txn) install(k Key, v object.Value, deadline ttl.Deadline, created,
	access uint32) *Object {
	return t.installObject(k, t.newObject(k, v), deadline, created, access)
}

// installObject is install of a value that newObject made.
func (t *Txn) installObject(k Key, o *Object, deadline ttl.Deadline, created,
	access uint32) *Object {
	p, sl, c := t.live(k, true)
	c = p.putObject(t, sl, c, k, o, deadline.At)
	p.setHeader(*c, deadline.At, created, access)
	t.logObject(p, o, deadline.At, created)
	t.wrotePut(p, sl, *c)
	t.s.guard.noteKey(t, p.space, k, deadline)
	return o
}

// setFlags adds flags to a live key.
func (t *Txn) setFlags(k Key, flags byte) {
	p, _, c := t.live(k, false)
	*p.flags(*c) |= flags
}

// carry moves a value to another name with its data, as a new generation. The record under the old
// name will be deleted, and may be the only place that has the data.
func (t *Txn) carry(from, to Key) {
	q, _, _ := t.live(to, true)
	p := t.s.part(from)
	t.keyRecord(format.RecDelete, p, from.Name)
	moved := p.unlink(t, from)
	t.gone = append(t.gone, p.slot(from))
	moved.id, moved.state, moved.side = t.s.generation.Add(1), moved.state&stateShared, nil
	t.wrotePut(q, q.slot(to), *q.adopt(t, to, moved, moved.deadline))
	t.logObject(q, moved, moved.deadline, moved.created)
}

// link moves a value to another name without its data. The data is in the log since the last
// checkpoint, or on disk under the value's id. The record has everything but the elements. So it
// can be replayed even if the data file is newer and has nothing under the old name any more. The
// records that made the value may be in log segments before a checkpoint's rotation, and that
// checkpoint may have passed the new name. So the checkpoint copies the value at its end
// (arrivals.go). It puts the elements under the id, to which the record refers, and not inline.
func (t *Txn) link(from, to Key) {
	q, _, _ := t.live(to, true)
	p := t.s.part(from)
	o := p.objectOf(*p.find(p.slot(from), from))
	t.keyRecord(format.RecLink, p, from.Name)
	t.changing(q.space, to.Name)
	t.buf = binary.AppendUvarint(t.buf, uint64(q.space))
	t.buf = format.AppendBytes(t.buf, to.Name)
	t.buf = binary.AppendUvarint(t.buf, o.id)
	t.buf = append(t.buf, byte(o.val.Type()))
	t.buf = format.AppendDeadline(t.buf, o.deadline, o.created)
	moved := p.unlink(t, from)
	t.gone = append(t.gone, p.slot(from))
	if t.s.checkpointer.arrivals.moved(portions{p: q, sl: q.slot(to), o: moved}) {
		moved.state |= stateLinked
	}
	t.wrotePut(q, q.slot(to), *q.adopt(t, to, moved, moved.deadline))
}

// unlink removes a value from its key, which is then gone. Until the next checkpoint the record on
// disk names the value's elements, as after a move.
func (p *part) unlink(t *Txn, from Key) *Object {
	sl := p.slot(from)
	c := p.find(sl, from)
	_, deadline := p.unindex(sl, c)
	p.keys--
	if deadline != 0 {
		p.expires--
	}
	if t != nil {
		t.counted(p)
	}
	o := p.objectOf(*c) // the cell keeps o until it is retired
	moved := *o
	delete(p.copied, o.id)
	if o.is(stateLinked) {
		delete(p.linked, o.id)
	}
	if o.is(stateReplayed) || o.is(stateStored) && !o.is(stateLinked) {
		o.flags |= flagMoved
		p.moved.add(o.id)
	}
	p.retire(sl, c)
	return &moved
}

// adopt makes a value without a key the value of the key to.
func (p *part) adopt(t *Txn, to Key, o *Object, deadline int64) *cell {
	o.key, o.flags = string(to.Name), o.flags&flagRaw
	if o.is(stateStored | stateReplayed | stateLinked) {
		o.state |= stateLinked
		p.linked.add(o.id)
	}
	sl := p.slot(to)
	return p.putObject(t, sl, p.find(sl, to), to, o, deadline)
}
