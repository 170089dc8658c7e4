package storage

import (
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// Governor is a feature that decides which deadline a key gets when a command writes it, such as a
// policy (features/policies). It decides before the change is logged, so the log contains the
// decisions, and replay decides nothing. For a changed collection it decides at the end of the
// command.
//
// Calls must be quick: the shard of the key is locked. They may use the transaction, and nothing
// else of the store. Some keys are not subject to a governor: those that a transaction with the
// field Exempt writes, and the server's own data. The deadlines of leases, limits and delay queues
// are their own: the governor decides only if a command such as EXPIRE sets or removes them.
type Governor interface {
	// Governs reports whether the governor has a rule about a key; otherwise other calls have no
	// effect.
	Governs(k Key) bool
	// Decide returns the deadline that a key gets when it is written with deadline. If kept is true
	// the write does not set that deadline: the key had it before, or the value brings it from
	// another key. To refuse the deadline, Decide panics. The function of the store that called
	// Decide has then changed nothing.
	Decide(t *Txn, k Key, deadline ttl.Deadline, kept bool) ttl.Deadline
	// MayCreate panics if Decide would refuse a missing key that is about to be created without a
	// deadline. Such a key gets its deadline when the command ends (Decide with kept).
	MayCreate(t *Txn, k Key)
	// MayWrite panics if Decide would refuse a deadline, 0 for none, of a key that is missing or
	// has another.
	MayWrite(t *Txn, k Key, deadline int64)
	// StreamAge returns the maximum age (ms, 0: none) for a changed stream that has none. refs is
	// the rule for entries of that age that are pending in consumer groups.
	StreamAge(k Key) (ms int64, refs object.StreamRefs)
	// Read is called when a command reads a key that has a deadline. It may move the deadline
	// (MoveDeadline). It is not called for a transaction with NoTouch, at a follower, on a full
	// disk, or while the value is pinned. Nor is it called for types with deadlines of their own.
	Read(t *Txn, k Key, item Item)
}

// GovernorNotes contains the notes of a governor in a transaction. They stay with the Txn for
// reuse.
type GovernorNotes interface {
	// Ended is called at the end of each transaction, even if nothing was noted in it.
	Ended()
}

// governing is the present governor.
type governing struct {
	Governor
	reads bool
}

// SetGovernor sets the governor; nil removes it. The store calls Read only if reads is true.
func (s *Store) SetGovernor(g Governor, reads bool) {
	if g == nil {
		s.governor.Store(nil)
		return
	}
	s.governor.Store(&governing{g, reads})
}

// Governor returns the governor that decides about a key in the transaction. It returns nil if
// there is none, for an Exempt transaction, and for a key of the system database.
func (t *Txn) Governor(k Key) Governor {
	g := t.s.governor.Load()
	if g == nil || t.Exempt || k.DB == t.s.options.Databases {
		return nil
	}
	return g.Governor
}

// govern returns the deadline of a key that is written with deadline; see Governor.
func (t *Txn) govern(k Key, deadline ttl.Deadline, kept bool) ttl.Deadline {
	if g := t.Governor(k); g != nil {
		return g.Decide(t, k, deadline, kept)
	}
	return deadline
}

// governNew returns the deadline, as govern does, of a key whose whole value is written. It passes
// kept as true if the deadline is the key's present one.
func (t *Txn) governNew(k Key, deadline ttl.Deadline) ttl.Deadline {
	if t.s.governor.Load() == nil {
		return deadline
	}
	item, ok := t.Peek(k)
	return t.govern(k, deadline, ok && item.Deadline() == deadline.At)
}

// notifyWritten raises the event of a write that asked for a deadline, and that of the deadline
// that the governor gave it.
func (r *txnReports) notifyWritten(k Key, ev Event, asked, deadline int64) {
	r.Notify(k, ev)
	if asked == ttl.None && deadline != ttl.None {
		r.Notify(k, DeadlineSet)
	}
}

// governMoved returns the deadline of a key that gets a value of another key with its deadline. It
// also returns when that deadline was set. Types with deadlines of their own keep their deadline.
func (t *Txn) governMoved(to Key, typ object.Type, deadline int64,
	created uint32) (ttl.Deadline, uint32) {
	d := ttl.At(deadline)
	if typ.OwnDeadline() {
		return d, created
	}
	if d = t.govern(to, d, deadline != ttl.None); d.At != deadline {
		created = t.createdAt(d.At)
	}
	return d, created
}

// mayCreate panics as the governor does if it refuses a missing key without a deadline.
func (t *Txn) mayCreate(k Key) {
	if g := t.Governor(k); g != nil {
		g.MayCreate(t, k)
	}
}

// MayWrite panics as the governor does if it refuses a deadline, 0 for none, of a key that is
// missing or has another. A command that changes something else before it writes the key calls it
// first.
func (t *Txn) MayWrite(k Key, deadline int64) {
	if g := t.Governor(k); g != nil {
		g.MayWrite(t, k, deadline)
	}
}

// Govern gives a key that was changed in place the deadline that the governor wants. It does
// nothing for a missing or expired key.
func (t *Txn) Govern(k Key) {
	g := t.Governor(k)
	if g == nil || !g.Governs(k) {
		return
	}
	p, sl, c := t.live(k, false)
	if !exists(c) || p.item(*c).Type().OwnDeadline() {
		return
	}
	was := p.deadline(*c)
	if d := g.Decide(t, k, ttl.At(was), true); d.At != was {
		t.changeDeadline(p, sl, c, k, d, t.createdAt(d.At))
		t.notifyWritten(k, Event{}, was, d.At)
	}
}

// GovernStream gives a stream without a maximum age the one that the governor wants. It does
// nothing for a missing or expired key, or one of another type.
func (t *Txn) GovernStream(k Key) {
	if item, ok := t.Peek(k); ok && item.o != nil {
		t.governStream(k, item.o)
	}
}

// governStream sets the maximum age of a value in memory, as GovernStream does.
func (t *Txn) governStream(k Key, o *Object) {
	v, ok := o.val.(*object.Stream)
	g := t.Governor(k)
	if !ok || g == nil {
		return
	}
	if age, _ := v.Age(); age != 0 {
		return
	}
	if ms, refs := g.StreamAge(k); ms != 0 {
		s := Stream{handle: handle{t: t, k: k, o: o, typ: object.TypeStream}}
		s.SetAge(ms, refs)
	}
}

// read calls the governor for a key that a command reads, except in the cases that Governor.Read
// lists.
func (g *governing) read(t *Txn, k Key, item Item) {
	switch {
	case t.NoTouch, t.Offloaded(), t.s.Follower(), t.Governor(k) == nil:
	case item.Deadline() == ttl.None, item.Type().OwnDeadline(), t.s.Full(), item.o != nil &&
		item.o.pinned():
	default:
		g.Read(t, k, item)
	}
}

// MoveDeadline gives an existing key another deadline because it is read. For clients that watch
// the key this is no change, and it raises no event. Item.DeadlineSet stays as it is.
func (t *Txn) MoveDeadline(k Key, to ttl.Deadline) {
	p, sl, c := t.live(k, false)
	if !exists(c) {
		return
	}
	quiet := t.quiet
	t.quiet = true
	t.changeDeadline(p, sl, c, k, to, p.created(*c))
	t.quiet = quiet
}

// changeDeadline gives a key another deadline, and records it.
func (t *Txn) changeDeadline(p *part, sl *slot, c *cell, k Key, deadline ttl.Deadline,
	created uint32) {
	p.setDeadline(t, sl, c, deadline.At, created)
	if o := p.objectOf(*c); o != nil && o.id != 0 && t.logged == o.id {
		t.changing(p.space, k.Name)
		t.cutBatch()
		t.buf = append(t.buf, format.RecExpire)
		t.cost += recordCost[format.RecExpire]
		t.stated++
	} else {
		t.keyRecord(format.RecDeadline, p, k.Name)
	}
	t.buf = format.AppendDeadline(t.buf, deadline.At, created)
	t.wrotePut(p, sl, *c)
	t.s.guard.noteKey(t, p.space, k, deadline)
}
