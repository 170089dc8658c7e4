package storage

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"keyp/storage/object"
)

// ErrWrongType says that a key holds another type than the operation is for.
var ErrWrongType = errors.New("storage: the key holds another type")

// Txn is one transaction: a command, or several that are atomic together. It holds the
// shards of its keys from Begin to End. What it changes is recorded as it happens and
// becomes one batch of the log, so after a crash all of it is there or nothing. One
// Txn is reused for many transactions and belongs to one goroutine.
type Txn struct {
	// NoTouch leaves access times alone.
	NoTouch bool

	s      *Store
	mask   uint64 // shards held
	now    int64
	buf    []byte // the batch so far
	seen   uint64 // the newest LSN that a look-up showed
	cost   int64  // what replaying the batch costs
	wrote  []touched
	gone   []*slot // slots that lost a key
	counts []*part // parts whose counts changed
	late   uint64  // shards in which a key was seen expired
	flush  bool    // databases were emptied or exchanged
	// through is the deadline up to which late shards are reaped, 0 for now.
	through int64
	events  []Happened
}

// touched is a key that the batch's LSN has to be noted for.
type touched struct {
	p *part
	c cell
}

// NewTxn makes a transaction for a goroutine to reuse.
func (s *Store) NewTxn() *Txn { return &Txn{s: s} }

// Begin locks the shards of keys, in index order, and takes the instant. It returns
// false, with nothing locked, when a key is not in memory but may be on disk: the
// caller has it loaded (Store.Load) and comes again.
func (s *Store) Begin(t *Txn, keys []Key) bool {
	var mask uint64
	for i := range keys {
		mask |= 1 << s.shardOf(keys[i].Slot)
	}
	s.lock(t, mask)
	for i := range keys {
		if !s.resident(keys[i]) {
			s.unlock(t)
			return false
		}
	}
	t.now = s.now()
	return true
}

// BeginAll locks the whole keyspace.
func (s *Store) BeginAll(t *Txn) {
	s.lock(t, 1<<len(s.shards)-1)
	t.now = s.now()
}

func (s *Store) shardOf(slot uint16) int { return int(slot) / s.slotsPerShard }

func (s *Store) lock(t *Txn, mask uint64) {
	t.mask = mask
	for m := mask; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.lockFirst()
	}
}

func (s *Store) unlock(t *Txn) {
	for m := t.mask; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
	t.mask = 0
}

// resident says whether memory knows all about a key: its value, or that it does not
// exist.
func (s *Store) resident(k Key) bool {
	p := s.shards[s.shardOf(k.Slot)].parts[k.DB]
	if p == nil {
		return true
	}
	sl := p.slot(k)
	return !sl.partial || p.find(sl, k) != nil
}

// Now is the transaction's instant in Unix milliseconds.
func (t *Txn) Now() int64 { return t.now }

// End seals what was recorded, releases the locks and returns the LSN that everything
// the transaction showed or did depends on: under appendfsync always a reply may leave
// once the log is durable that far.
func (t *Txn) End() uint64 {
	through := t.now
	if t.through != 0 {
		through = t.through
	}
	for m := t.late; m != 0; m &= m - 1 {
		t.s.shards[bits.TrailingZeros64(m)].logReaped(t, through)
	}
	for _, p := range t.counts {
		p.logCounts(t)
	}
	lsn := t.seen
	if len(t.buf) > 0 {
		lsn = t.s.log.Append(t.buf)
		t.s.replayCost.Add(t.cost)
		t.stamp(lsn)
	}
	t.s.unlock(t)
	if len(t.events) > 0 {
		t.raise(lsn)
	}
	t.reset()
	return lsn
}

// stamp notes the batch's LSN wherever a later look-up will want it.
func (t *Txn) stamp(lsn uint64) {
	for _, w := range t.wrote {
		if w.c.is(cellObj) {
			if o := w.p.objects.at(w.c.ref()); o != nil {
				o.lsn = lsn
			}
		} else if w.p.slabs.chunks[w.c.ref()>>chunkBits].mem != nil { // nil: removed again by this transaction
			w.p.slabs.at(w.c.ref()).setLSN(lsn)
		}
	}
	for _, sl := range t.gone {
		sl.lastDelete = lsn
	}
	for m := t.late; m != 0; m &= m - 1 {
		t.s.shards[bits.TrailingZeros64(m)].loggedLSN = lsn
	}
	if t.flush {
		for _, sh := range t.s.shards {
			sh.flushLSN = lsn
		}
	}
}

func (t *Txn) raise(lsn uint64) {
	for i := range t.events {
		t.events[i].LSN = lsn
		t.s.options.OnEvent(t.events[i])
	}
	t.events = t.events[:0]
}

// maxKept bounds what a transaction's buffers keep between uses.
const maxKept = 1 << 20

func (t *Txn) reset() {
	t.buf, t.wrote, t.gone, t.counts = t.buf[:0], t.wrote[:0], t.gone[:0], t.counts[:0]
	t.seen, t.late, t.cost, t.through, t.NoTouch, t.flush = 0, 0, 0, 0, false, false
	if cap(t.buf) > maxKept {
		t.buf = nil
	}
	if cap(t.wrote) > maxKept/16 {
		t.wrote = nil
	}
}

// Notify raises an event that goes with a change made by other means.
func (t *Txn) Notify(k Key, ev Event) {
	if t.s.options.OnEvent == nil || EventClass(t.s.eventMask.Load())&ev.Class == 0 {
		return
	}
	t.events = append(t.events, Happened{Event: ev, DB: k.DB, Key: append([]byte(nil), k.Name...)})
}

// live finds a key that exists at the transaction's instant. One whose deadline has
// come is removed on the way (lazy expiration); p is nil only when the database has no
// key in the shard and create is false.
func (t *Txn) live(k Key, create bool) (p *part, sl *slot, c *cell) {
	sh := t.s.shards[t.s.shardOf(k.Slot)]
	p = sh.parts[k.DB]
	if p == nil {
		t.seen = max(t.seen, sh.flushLSN)
		if !create {
			return nil, nil, nil
		}
		p = newPart(sh, t.s.spaces[k.DB], t.s.slotsPerShard)
		sh.parts[k.DB] = p
	}
	sl = p.slot(k)
	c = p.find(sl, k)
	if c == nil || c.is(cellTomb) {
		t.seen = max(t.seen, sl.lastDelete, sh.flushLSN)
		return p, sl, c
	}
	if d := p.deadline(*c); d != 0 && d <= t.now {
		t.expire(p, sl, c, k)
		return p, sl, p.find(sl, k)
	}
	t.seen = max(t.seen, p.lsn(*c))
	return p, sl, c
}

// exists says whether the cell that live returned is a key.
func exists(c *cell) bool { return c != nil && !c.is(cellTomb) }

// expire removes a key whose deadline has come. No record names it: the batch says
// that all of the shard that was due by now is gone.
func (t *Txn) expire(p *part, sl *slot, c *cell, k Key) {
	t.s.observeLateness(p.deadline(*c), t.now)
	t.remove(p, sl, c)
	t.late |= 1 << p.shard.num
	t.Notify(k, Expired)
	t.s.stats.Expired.Add(1)
}

// remove takes a live key out of index, counts and table.
func (t *Txn) remove(p *part, sl *slot, c *cell) {
	if d := p.deadline(*c); d != 0 {
		p.setIndex(p.id(sl, *c), d, 0)
		p.expires--
	}
	p.keys--
	t.counted(p)
	t.s.dropped(p, *c)
	p.bury(sl, c)
	t.gone = append(t.gone, sl)
}

// counted notes that a part's counts have to be logged.
func (t *Txn) counted(p *part) {
	if !p.counted {
		p.counted = true
		t.counts = append(t.counts, p)
	}
}

func (p *part) logCounts(t *Txn) {
	p.counted = false
	if !p.dead {
		t.buf = appendRecord(t.buf, recCounts, uint64(p.space), uint64(p.shard.num), uint64(p.keys), uint64(p.expires))
	}
}

// logReaped records that everything of the shard due by through is gone. Replay
// removes it in order, so nothing that was seen expired returns, whatever the wall
// clock does over a restart.
func (sh *shard) logReaped(t *Txn, through int64) {
	if through <= sh.logged {
		t.seen = max(t.seen, sh.loggedLSN)
		if len(t.buf) == 0 { // the removal is durable with that older record
			for _, sl := range t.gone {
				sl.lastDelete = max(sl.lastDelete, sh.loggedLSN)
			}
		}
		return
	}
	sh.logged = through
	t.buf = appendRecord(t.buf, recReaped, uint64(sh.num), uint64(through))
}

func (t *Txn) keyRecord(tag byte, p *part, key []byte) {
	t.buf = appendBytes(appendRecord(t.buf, tag, uint64(p.space)), key)
	t.cost += recordCost[tag]
}

func (t *Txn) wrotePut(p *part, c cell) { t.wrote = append(t.wrote, touched{p, c}) }

// Get finds a live key and marks it as accessed. A missing or expired key gives false.
func (t *Txn) Get(k Key) (Item, bool) {
	item, ok := t.Peek(k)
	if ok && !t.NoTouch {
		if now := uint32(t.now / 1000); item.o != nil {
			item.o.access = now
		} else if item.b.access() != now {
			item.b.setAccess(now)
		}
	}
	return item, ok
}

// Peek is Get without the mark.
func (t *Txn) Peek(k Key) (Item, bool) {
	p, _, c := t.live(k, false)
	if !exists(c) {
		return Item{}, false
	}
	return p.item(*c), true
}

// SetString makes key hold value, whatever it held before, with deadline (Unix ms, 0
// for none). The value is copied.
func (t *Txn) SetString(k Key, value []byte, deadline int64, ev Event) {
	t.set(k, value, deadline, t.createdAt(deadline), uint32(t.now/1000))
	t.Notify(k, ev)
}

func (t *Txn) set(k Key, value []byte, deadline int64, created, access uint32) {
	p, sl, c := t.live(k, true)
	if exists(c) && deadline != 0 && p.deadline(*c) == deadline {
		created = p.created(*c) // the deadline was kept
	}
	if isSmall(k.Name, value) {
		t.keyRecord(recPut, p, k.Name)
		t.buf = appendDeadline(t.buf, deadline, created)
		t.buf = appendBytes(t.buf, value)
		c = p.putSmall(t, sl, c, k, value, deadline)
	} else {
		o := &Object{key: append([]byte(nil), k.Name...), val: &object.String{Data: append([]byte(nil), value...)}, id: t.s.generation.Add(1)}
		c = p.putObject(t, sl, c, k, o, deadline)
		t.logObject(p, o, deadline, created)
	}
	p.setHeader(*c, deadline, created, access)
	t.wrotePut(p, *c)
}

func (t *Txn) createdAt(deadline int64) uint32 {
	if deadline == 0 {
		return 0
	}
	return uint32(t.now / 1000)
}

// logObject records a whole new value.
func (t *Txn) logObject(p *part, o *Object, deadline int64, created uint32) {
	t.keyRecord(recLarge, p, o.key)
	t.buf = binary.AppendUvarint(t.buf, o.id)
	t.buf = appendDeadline(t.buf, deadline, created)
	t.buf = append(t.buf, byte(o.val.Type()))
	o.val.Walk(func(elem, val []byte, d int64) bool {
		t.element(p, o, elem, val, d)
		return true
	})
}

func (t *Txn) element(p *part, o *Object, elem, val []byte, deadline int64) {
	t.keyRecord(recElement, p, o.key)
	t.buf = append(binary.AppendUvarint(t.buf, o.id), byte(o.val.Type()))
	t.buf = appendBytes(t.buf, elem)
	t.buf = binary.AppendUvarint(t.buf, uint64(deadline))
	t.buf = appendBytes(t.buf, val)
}

// removed records that an element is gone.
func (t *Txn) removed(p *part, o *Object, elem []byte) {
	t.keyRecord(recRemove, p, o.key)
	t.buf = append(binary.AppendUvarint(t.buf, o.id), byte(o.val.Type()))
	t.buf = appendBytes(t.buf, elem)
}

// isSmall says whether a string key stands in a slab block.
func isSmall(key, value []byte) bool {
	return len(key) <= maxSlabKey && blockHeader+len(key)+len(value) <= maxBlock
}

const maxSlabKey = maxBlock - blockHeader

// recounted notes in counts and index that a key now exists with deadline, where old
// is the deadline it had and existed says whether it was there.
func (p *part) recounted(t *Txn, existed bool, old, deadline int64) {
	if existed && (old == 0) == (deadline == 0) {
		return
	}
	if !existed {
		p.keys++
	}
	if old != 0 {
		p.expires--
	}
	if deadline != 0 {
		p.expires++
	}
	if t != nil {
		t.counted(p)
	}
}

// unindex takes what the cell holds out of the index and says what was there.
func (p *part) unindex(sl *slot, c *cell) (existed bool, deadline int64) {
	if !exists(c) {
		return false, 0
	}
	if deadline = p.deadline(*c); deadline != 0 {
		p.setIndex(p.id(sl, *c), deadline, 0)
	}
	return true, deadline
}

// putSmall makes a key's cell hold a block with the value: in place where it fits.
func (p *part) putSmall(t *Txn, sl *slot, c *cell, k Key, value []byte, deadline int64) *cell {
	size := blockHeader + len(k.Name) + len(value)
	if exists(c) && !c.is(cellObj) {
		if b := p.slabs.at(c.ref()); classOf[(size+granule-1)/granule] == classOf[len(b)/granule] {
			old := b.deadline()
			p.setIndex(p.id(sl, *c), old, deadline)
			p.recounted(t, true, old, deadline)
			b.setValue(value)
			p.markDirty(sl, c)
			return c
		}
	}
	ref, b := p.slabs.alloc(size)
	b.setKey(k.Name)
	b.setValue(value)
	return p.replace(t, sl, c, k, newCell(k.Hash, ref, 0), deadline)
}

func (p *part) putObject(t *Txn, sl *slot, c *cell, k Key, o *Object, deadline int64) *cell {
	return p.replace(t, sl, c, k, newCell(k.Hash, p.objects.add(o), cellObj), deadline)
}

// replace puts a new cell in the place of c, which may be nil, a tombstone or a live
// key, and keeps counts, index and dirtiness in step. It returns where the cell is.
func (p *part) replace(t *Txn, sl *slot, c *cell, k Key, with cell, deadline int64) *cell {
	existed, old := p.unindex(sl, c)
	p.recounted(t, existed, old, deadline)
	if c == nil {
		c = p.insert(sl, k.Hash, with)
	} else {
		*p.flags(with) |= *p.flags(*c) & (flagDisk | flagMoved)
		if existed {
			p.shard.store.dropped(p, *c)
		}
		p.dirtyOff(sl, c)
		p.free(*c)
		*c = with
	}
	p.markDirty(sl, c)
	p.setIndex(p.id(sl, *c), 0, deadline)
	return c
}

// setHeader fills in what index and counts already know.
func (p *part) setHeader(c cell, deadline int64, created, access uint32) {
	if c.is(cellObj) {
		o := p.objects.at(c.ref())
		o.deadline, o.created, o.access = deadline, created, access
		return
	}
	b := p.slabs.at(c.ref())
	b.setDeadline(deadline)
	b.setCreated(created)
	b.setAccess(access)
	b[offFlags] &^= flagRaw
}

// SetDeadline gives a key a deadline (Unix ms), or takes it away with 0. It returns
// false for a missing or expired key. A deadline that has passed is the caller's to
// handle, by Delete.
func (t *Txn) SetDeadline(k Key, deadline int64, ev Event) bool {
	p, sl, c := t.live(k, false)
	if !exists(c) {
		return false
	}
	created := t.createdAt(deadline)
	p.setDeadline(t, sl, c, deadline, created)
	t.keyRecord(recDeadline, p, k.Name)
	t.buf = appendDeadline(t.buf, deadline, created)
	t.wrotePut(p, *c)
	t.Notify(k, ev)
	return true
}

func (p *part) setDeadline(t *Txn, sl *slot, c *cell, deadline int64, created uint32) {
	old := p.deadline(*c)
	p.recounted(t, true, old, deadline)
	p.setIndex(p.id(sl, *c), old, deadline)
	if c.is(cellObj) {
		o := p.objects.at(c.ref())
		o.deadline, o.created = deadline, created
	} else {
		b := p.slabs.at(c.ref())
		b.setDeadline(deadline)
		b.setCreated(created)
	}
	p.markDirty(sl, c)
}

// Delete removes a key; false if there was none.
func (t *Txn) Delete(k Key, ev Event) bool {
	p, sl, c := t.live(k, false)
	if !exists(c) {
		return false
	}
	t.keyRecord(recDelete, p, k.Name)
	t.remove(p, sl, c)
	t.Notify(k, ev)
	return true
}

// WriteRange writes data at offset off of a string and returns the new length. A
// missing key becomes a string; the gap before off is filled with zeros; the deadline
// stays. The key must not hold another type.
func (t *Txn) WriteRange(k Key, off int, data []byte, ev Event) int {
	p, sl, c := t.live(k, true)
	var old []byte
	if exists(c) {
		old, _ = p.item(*c).String()
		if o := p.objectOf(*c); o != nil {
			p.dirtyOff(sl, c)
			p.objects.bytes -= int64(o.bytes())
			o.val.(*object.String).WriteAt(off, data)
			p.objects.bytes += int64(o.bytes())
			o.dirtyRange(off, len(data), len(old))
			p.markDirty(sl, c)
			t.keyRecord(recRange, p, k.Name)
			t.buf = binary.AppendUvarint(t.buf, o.id)
			t.buf = binary.AppendUvarint(t.buf, uint64(off))
			t.buf = appendBytes(t.buf, data)
			o.access = uint32(t.now / 1000)
			t.wrotePut(p, *c)
			t.Notify(k, ev)
			return len(o.val.(*object.String).Data)
		}
	}
	value := make([]byte, max(len(old), off+len(data)))
	copy(value, old)
	copy(value[off:], data)
	var deadline int64
	if exists(c) {
		deadline = p.deadline(*c)
	}
	t.SetString(k, value, deadline, ev)
	t.mark(k, flagRaw)
	return len(value)
}

// objectOf is the cell's object, nil if it is a block.
func (p *part) objectOf(c cell) *Object {
	if c.is(cellObj) {
		return p.objects.at(c.ref())
	}
	return nil
}

// dirtyRange notes which chunks a write touched; was is the length before it.
func (o *Object) dirtyRange(off, n, was int) {
	from := min(off, was)
	object.Chunks(from, off+n-from, func(elem []byte) { o.dirtyElement(elem) })
}

// dirtyElement notes a changed element; a value that stands inline, or nowhere yet, is
// written whole anyway.
func (o *Object) dirtyElement(elem []byte) {
	if !o.stored {
		return
	}
	if o.changed == nil {
		o.changed = map[string]struct{}{}
	}
	o.changed[string(elem)] = struct{}{}
}

// Rename moves a key's value and deadline to another name, which loses what it held.
// It returns false, and changes nothing, for a missing or expired key. From and to
// are different keys; they may be of different databases. It raises no event.
func (t *Txn) Rename(from, to Key) bool {
	p, _, c := t.live(from, false)
	if !exists(c) {
		return false
	}
	deadline, created, access := p.deadline(*c), p.created(*c), p.access(*c)
	if o := p.objectOf(*c); o != nil && o.stored {
		t.link(from, to)
		return true
	}
	value, err := p.item(*c).String()
	if err != nil {
		return false
	}
	value = append([]byte(nil), value...)
	raw := *p.flags(*c) & flagRaw
	t.Delete(from, Event{})
	t.set(to, value, deadline, created, access)
	t.mark(to, raw)
	return true
}

// Copy gives another name the same value and deadline; what it held is lost. It
// returns false for a missing or expired key. It raises no event.
func (t *Txn) Copy(from, to Key) bool {
	p, _, c := t.live(from, false)
	if !exists(c) {
		return false
	}
	deadline, created, access := p.deadline(*c), p.created(*c), p.access(*c)
	value, err := p.item(*c).String()
	if err != nil {
		return false
	}
	raw := *p.flags(*c) & flagRaw
	t.set(to, append([]byte(nil), value...), deadline, created, access)
	t.mark(to, raw)
	return true
}

// mark adds flags to a live key.
func (t *Txn) mark(k Key, flags byte) {
	p, _, c := t.live(k, false)
	*p.flags(*c) |= flags
}

// link moves a value to another name without its data: its elements stay on disk under
// its id. The record says all that the elements do not, so it replays also where the
// data file is newer and has nothing under the old name any more. Elements that the file
// does not show yet follow it: the records that changed them may stand before the
// rotation of a checkpoint that has been at the new name already and will let them go.
func (t *Txn) link(from, to Key) {
	q, _, _ := t.live(to, true)
	p := t.s.part(from)
	c := p.find(p.slot(from), from)
	o := p.objectOf(*c)
	t.keyRecord(recLink, p, from.Name)
	t.buf = binary.AppendUvarint(t.buf, uint64(q.space))
	t.buf = appendBytes(t.buf, to.Name)
	t.buf = binary.AppendUvarint(t.buf, o.id)
	t.buf = append(t.buf, byte(o.val.Type()))
	t.buf = appendDeadline(t.buf, o.deadline, o.created)
	moved := p.unlink(t, from)
	t.gone = append(t.gone, p.slot(from))
	t.wrotePut(q, *q.adopt(t, to, moved, moved.deadline))
	for elem := range moved.changed {
		if val, deadline, ok := moved.val.Element([]byte(elem)); ok {
			t.element(q, moved, []byte(elem), val, deadline)
		} else {
			t.removed(q, moved, []byte(elem))
		}
	}
}

// unlink takes a value away from its key, which is gone then. The record that names the
// value's elements stays on disk until the next checkpoint, as one that was moved.
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
	o := p.objectOf(*c) // the cell keeps o, to be buried as any other
	moved := *o
	if !o.linked {
		o.flags |= flagMoved
		p.noteMoved(o.id)
	}
	p.bury(sl, c)
	return &moved
}

func (p *part) noteMoved(id uint64) {
	if p.moved == nil {
		p.moved = map[uint64]struct{}{}
	}
	p.moved[id] = struct{}{}
}

// adopt gives a value that came from elsewhere to a key.
func (p *part) adopt(t *Txn, to Key, o *Object, deadline int64) *cell {
	o.key, o.flags, o.linked = append([]byte(nil), to.Name...), 0, true
	sl := p.slot(to)
	return p.putObject(t, sl, p.find(sl, to), to, o, deadline)
}

// Len is the number of keys of a database.
func (t *Txn) Len(db int) int64 {
	keys, _ := t.s.count(db, t.mask)
	return keys
}
