package storage

import (
	"encoding/binary"
	"errors"
	"math"

	"keyp/internal/bigcopy"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/ttl"
)

// ErrWrongType: the key has another type than the operation needs.
var ErrWrongType = errors.New("storage: the key has another type")

// Txn is one transaction: a command, or several that are atomic together. It locks the shards of
// its keys from Begin to End. Its changes are recorded as they happen and become one batch of the
// log. So after a crash all of them are there or none. One Txn is reused for many transactions and
// belongs to one goroutine.
type Txn struct {
	// NoTouch leaves access times alone.
	NoTouch bool
	// Exempt: the governor does not decide on the changes of the transaction.
	Exempt bool
	// Noted contains the notes of the hooks. It stays with the Txn, so that they can reuse it; nil:
	// they have noted nothing yet.
	Noted Noted
	// GovernorNoted contains the notes of the governor, as Noted does those of the hooks.
	GovernorNoted GovernorNotes

	s      *Store
	mask   uint64 // locked shards, a bit for each
	now    int64
	micros int64 // now in microseconds; 0 before the first call of Micros
	// pinnedKeys contains the keys of an offloaded transaction.
	pinnedKeys *pinnedKeys
	// shown is set if the caller of End has locked shown.mu. End then logs no time, because
	// logTime would lock shown.mu again.
	shown bool
	sharing

	txnBatch
	txnEffects
	txnReports

	opened []opened
	// scratch is room for an element's value while its collection changes.
	scratch []byte
	notes   []note // the deadlines that count from a guarded instant
	// limits are the limits that the present change has changed.
	limits object.LimitChanges
}

// txnBatch is the batch that a transaction will log.
type txnBatch struct {
	before pieceList
	buf    []byte // the end of the batch so far
	seen   uint64 // the newest LSN that a look-up showed
	cost   int64  // what replaying the batch costs
	stated int64  // the changes of keys that the batch states
	logged uint64 // the value that the last record is about, if it is about an element
}

// txnEffects contains the data that get the LSN of the batch, and the parts to be counted.
type txnEffects struct {
	wrote   []touched
	gone    []*slot // slots that lost a key
	counts  []*part // parts whose counts changed
	flush   bool    // databases were emptied or exchanged
	swapped []*part // moved by SWAPDB
}

// txnReports contains the reports of a transaction: events for clients, and changes for the
// observer.
type txnReports struct {
	s *Store // constant
	// By identifies the client of the transaction, until its end: see Change. 0: none.
	By        uint64
	events    []Happened
	raised    int      // bytes of the events
	changes   []Change // for the observer
	changed   []byte   // the names of their keys
	delivered int      // of changes: by News
	// quiet: present changes are not reported to the observer.
	quiet bool
	// shedding: present changes are removals of due keys and elements.
	shedding bool
	// conflict: the command will run again, and report then.
	conflict bool
}

// touched is a key that gets the batch's LSN.
type touched struct {
	p     *part
	sl    *slot
	c     cell
	freed uint32 // slabs.freed when the key was written
}

// stale reports whether the key may have been removed or moved in memory since, so that its place
// may be inside another block.
func (w *touched) stale() bool {
	if w.freed == w.p.slabs.Freed() {
		return false
	}
	c, _ := w.sl.table.Find(uint64(w.c), func(c cell) bool {
		return c.Ref() == w.c.Ref() && c.Is(hashtable.Obj) == w.c.Is(hashtable.Obj)
	})
	return c == nil
}

// NewTxn makes a transaction for a goroutine to reuse.
func (s *Store) NewTxn() *Txn { return &Txn{s: s, txnReports: txnReports{s: s}} }

func (t *Txn) takeInstant() { t.now, t.micros = t.s.now(), 0 }

// Now is the transaction's instant in Unix milliseconds.
func (t *Txn) Now() int64 { return t.now }

// Micros is the transaction's instant in Unix microseconds. It is the clock's reading at the first
// call, clipped to the millisecond of Now. It stays the same until the end.
func (t *Txn) Micros() int64 {
	if t.micros == 0 {
		first := t.now * 1000
		t.micros = min(max(t.s.Micros(), first), first+999)
	}
	return t.micros
}

// End completes the batch, releases the locks and returns an LSN. Everything that the transaction
// showed or did depends on the log up to there. Under appendfsync always, a reply may be sent after
// the log is durable up to the LSN.
func (t *Txn) End() uint64 {
	t.FlushValues()
	if len(t.notes) > 0 {
		t.s.guard.writeNotes(t)
		t.FlushValues()
	}
	if noted(t) > 0 {
		t.s.hooks.Ending(t)
		t.FlushValues()
	}
	if t.GovernorNoted != nil {
		t.GovernorNoted.Ended()
	}
	for _, p := range t.counts {
		p.logCounts(t)
	}
	lsn := t.seen
	if size := t.BatchBytes(); size > 0 && t.s.Follower() {
		t.s.fail(errFollowerChanged) // who asks may not let it come to this: see ErrFollower
	} else if size > 0 {
		if t.s.timed && !t.shown {
			t.s.logTime()
		}
		if size > maxKept || len(t.before.list) > 0 {
			lsn = t.s.log.AppendKeeping(t.takeBatch())
		} else {
			lsn = t.s.log.Append(t.buf)
		}
		t.s.replayCost.Add(t.cost + int64(size)*byteCost)
		t.s.changes.Add(t.stated)
		t.stamp(t.s, lsn)
	}
	if len(t.changes) > 0 {
		t.notifyObserver(lsn)
	}
	if len(t.events) > 0 {
		t.raise(lsn)
	}
	t.s.unlock(t)
	t.reset()
	return lsn
}

// stamp stores the batch's LSN wherever a later look-up will need it.
func (e *txnEffects) stamp(s *Store, lsn uint64) {
	for i := range e.wrote {
		w := &e.wrote[i]
		if w.c.Is(hashtable.Obj) {
			if o := w.p.objects.at(w.c.Ref()); o != nil {
				o.lsn = lsn
			}
		} else if !w.stale() && w.p.slabs.Has(w.c.Ref()) {
			// nil: removed again by this transaction.
			w.p.slabs.At(w.c.Ref()).SetLSN(lsn)
		}
	}
	for _, sl := range e.gone {
		sl.lastDelete = lsn
	}
	if e.flush {
		for _, sh := range s.shards {
			sh.mu.flushLSN = lsn
		}
	}
	for _, p := range e.swapped {
		p.swapLSN = lsn
	}
}

// maxKept bounds the memory that a transaction's buffers keep between uses.
const maxKept = 1 << 20

func (t *Txn) reset() {
	t.NoTouch, t.Exempt, t.By, t.shedding, t.shown = false, false, 0, false, false
	t.txnBatch = txnBatch{before: t.before, buf: t.buf[:0]}
	t.txnEffects = txnEffects{wrote: t.wrote[:0], gone: t.gone[:0], counts: t.counts[:0]}
	if cap(t.buf) > maxKept {
		t.buf = nil
	}
	if cap(t.wrote) > maxKept/16 {
		t.wrote = nil
	}
}

// live finds a key that exists at the transaction's instant. A due key is removed (lazy
// expiration); p is nil only when the database has no key in the shard and create is false.
func (t *Txn) live(k Key, create bool) (p *part, sl *slot, c *cell) {
	sh := t.s.shards[t.s.shardOf(k.Slot)]
	if t.mask>>sh.num&1 == 0 {
		panic("storage: a transaction uses a key whose shard it has not locked")
	}
	p = sh.mu.parts[k.DB]
	if p == nil {
		t.seen = max(t.seen, sh.mu.flushLSN)
		if !create {
			return nil, nil, nil
		}
		p = sh.makePart(k.DB)
	}
	sl = p.slot(k)
	c = p.find(sl, k)
	if c == nil || c.Is(hashtable.Tomb) {
		t.seen = max(t.seen, sl.lastDelete, sh.mu.flushLSN)
		return p, sl, c
	}
	if due := p.due(*c); due != 0 && t.isDue(p, *c, due) {
		if t.s.Follower() {
			t.seen = max(t.seen, p.lsn(*c), p.swapLSN)
			if !t.hide(p, *c) {
				return p, sl, nil
			}
			return p, sl, c
		}
		t.shedding = true
		if d := p.deadline(*c); d != 0 && d <= t.instant(p, *c) {
			t.keyRecord(format.RecDelete, p, k.Name)
			t.expire(p, sl, c, k)
		} else {
			t.shed(p, sl, c, k, math.MaxInt)
		}
		t.shedding = false
		return p, sl, p.find(sl, k)
	}
	t.seen = max(t.seen, p.lsn(*c), p.swapLSN)
	return p, sl, c
}

// exists reports whether the cell that live returned is a key.
func exists(c *cell) bool { return c != nil && !c.Is(hashtable.Tomb) }

// expire removes a due key; the caller writes the record. The record of a command names the key. A
// record saying that everything due by now is gone would also cover keys that are still there and
// counted.
func (t *Txn) expire(p *part, sl *slot, c *cell, k Key) {
	item := p.item(*c)
	t.changing(p.space, k.Name)
	// Before the block is freed, which has the reaper's name.
	t.goneKey(k, item.Type(), item.Deadline(), t.instant(p, *c), item)
	t.remove(p, sl, c)
}

// remove removes a live key.
func (t *Txn) remove(p *part, sl *slot, c *cell) {
	p.remove(sl, c)
	t.counted(p)
	t.gone = append(t.gone, sl)
}

// counted notes that a part's counts have to be logged.
func (e *txnEffects) counted(p *part) {
	if !p.counted {
		p.counted = true
		e.counts = append(e.counts, p)
	}
}

func (e *txnEffects) wrotePut(p *part, sl *slot, c cell) {
	e.wrote = append(e.wrote, touched{p, sl, c, p.slabs.Freed()})
}

// Get finds a live key, marks it as accessed, and calls the governor, which may move its deadline.
// A missing or expired key gives false.
func (t *Txn) Get(k Key) (Item, bool) {
	item, ok := t.touch(k)
	if g := t.s.governor.Load(); ok && g != nil && g.reads {
		g.read(t, k, item)
	}
	return item, ok
}

// touch is Get for callers that set the key's deadline themselves.
func (t *Txn) touch(k Key) (Item, bool) {
	item, ok := t.Peek(k)
	if ok && !t.NoTouch && !t.Offloaded() {
		item.setAccess(t.s.accessed(item.Access(), t.now))
	}
	return item, ok
}

// Peek is Get without the mark.
func (t *Txn) Peek(k Key) (Item, bool) {
	if t.Offloaded() {
		return t.pinnedKeys.find(k)
	}
	p, _, c := t.live(k, false)
	if !exists(c) {
		return Item{}, false
	}
	return p.item(*c), true
}

// SetString sets key, whatever its type was, to value with deadline. The value is copied. An
// offloaded transaction accepts large values only.
func (t *Txn) SetString(k Key, value []byte, deadline ttl.Deadline, ev Event) {
	if t.Offloaded() {
		t.replaceOffloaded(k, &object.String{Data: bigcopy.Clone(value)}, deadline, ev)
		return
	}
	asked := deadline
	deadline = t.governNew(k, asked)
	t.set(k, value, deadline, t.createdAt(deadline.At), accessNow)
	t.notifyWritten(k, ev, asked.At, deadline.At)
}

// SetRaw is SetString for a string whose encoding stays "raw", however short it is or even if it is
// a number.
func (t *Txn) SetRaw(k Key, value []byte, deadline ttl.Deadline, ev Event) {
	t.SetString(k, value, deadline, ev)
	if !t.Offloaded() {
		t.setFlags(k, flagRaw)
	}
}

// MarkRaw sets the encoding of a string, which must exist, to "raw".
func (t *Txn) MarkRaw(k Key) { t.setFlags(k, flagRaw) }

// accessNow, passed to set as the access word, means that the key is written now. If the key keeps
// its deadline, it also keeps the time when that deadline was set.
const accessNow uint32 = math.MaxUint32

func (t *Txn) set(k Key, value []byte, deadline ttl.Deadline, created, access uint32) {
	p, sl, c := t.live(k, true)
	if access == accessNow {
		access = t.s.written(p, c, t.now)
		if exists(c) && deadline.At != ttl.None && p.deadline(*c) == deadline.At {
			created = p.created(*c) // the deadline was kept
		}
	}
	if isSmall(k.Name, value) {
		t.keyRecord(format.RecPut, p, k.Name)
		t.buf = format.AppendDeadline(t.buf, deadline.At, created)
		t.buf = format.AppendBytes(t.buf, value)
		c = p.putSmall(t, sl, c, k, value, deadline.At)
	} else {
		o := t.newObject(k, &object.String{Data: bigcopy.Clone(value)})
		c = p.putObject(t, sl, c, k, o, deadline.At)
		t.logObject(p, o, deadline.At, created)
	}
	p.setHeader(*c, deadline.At, created, access)
	t.wrotePut(p, sl, *c)
	t.s.guard.noteKey(t, p.space, k, deadline)
}

// written returns the access word of a key that a command writes at now.
// p is nil if the key's database has nothing in its shard.
func (s *Store) written(p *part, c *cell, now int64) uint32 {
	if s.frequency.Load() == nil || !exists(c) {
		return s.firstAccess(now)
	}
	return s.accessed(p.access(*c), now)
}

func (t *Txn) createdAt(deadline int64) uint32 {
	if deadline == 0 {
		return 0
	}
	return uint32(t.now / 1000)
}

// createdFor is createdAt for a key that gets a new value as a whole, and may keep its deadline.
func (t *Txn) createdFor(k Key, deadline int64) uint32 {
	if item, ok := t.Peek(k); ok && deadline != 0 && item.Deadline() == deadline {
		return item.created()
	}
	return t.createdAt(deadline)
}

// newObject makes a value, of a new generation, for a key to adopt.
func (t *Txn) newObject(k Key, v object.Value) *Object {
	return &Object{key: string(k.Name), val: ownValue(v), id: t.s.generation.Add(1)}
}

// SetAccess sets a key's last access, in Unix seconds. It does nothing for a missing or expired
// key, or with LFU counting. Accesses are not logged.
func (t *Txn) SetAccess(k Key, second int64) {
	if item, ok := t.Peek(k); ok && t.s.frequency.Load() == nil {
		item.setAccess(uint32(max(0, min(second, math.MaxUint32))))
	}
}

// SetDeadline sets a key's deadline, or removes it with none. It returns false for a missing or
// expired key. If the deadline has passed, the caller must call Delete instead.
func (t *Txn) SetDeadline(k Key, deadline ttl.Deadline, ev Event) bool {
	p, sl, c := t.live(k, false)
	if !exists(c) {
		return false
	}
	d := t.govern(k, deadline, false)
	if d.At != deadline.At && deadline.At == ttl.None {
		ev = DeadlineSet
	}
	t.changeDeadline(p, sl, c, k, d, t.createdAt(d.At))
	t.Notify(k, ev)
	return true
}

func (p *part) setDeadline(t *Txn, sl *slot, c *cell, deadline int64, created uint32) {
	was := p.due(*c)
	p.recounted(t, true, p.deadline(*c), deadline)
	if o := p.objectOf(*c); o != nil {
		o.deadline, o.created = deadline, created
	} else {
		b := p.slabs.At(c.Ref())
		b.SetDeadline(deadline)
		b.SetCreated(created)
	}
	p.setIndex(p.id(sl, *c), was, p.due(*c))
	p.markDirty(sl, c)
}

// Delete removes a key; false if there was none.
func (t *Txn) Delete(k Key, ev Event) bool {
	p, sl, c := t.live(k, false)
	if !exists(c) {
		return false
	}
	t.keyRecord(format.RecDelete, p, k.Name)
	if p.emptied(*c) {
		t.stated--
	}
	t.remove(p, sl, c)
	t.Notify(k, ev)
	return true
}

// WriteRange writes data at offset off of a string and returns the new length. A
// missing key becomes a string; the gap before off is filled with zeros, which the log need not
// spell out; the deadline stays. The key must not have another type.
func (t *Txn) WriteRange(k Key, off int, data []byte, ev Event) int {
	p, sl, c := t.live(k, true)
	var old []byte
	var deadline int64
	if exists(c) {
		old, _ = p.item(*c).String()
		deadline = p.deadline(*c)
	}
	end := max(len(old), off+len(data))
	if !exists(c) || !c.Is(hashtable.Obj) || isSmall(k.Name, old) {
		if fitsBlock(k.Name, end) || off <= len(old) {
			value := make([]byte, end)
			copy(value, old)
			copy(value[off:], data)
			t.SetRaw(k, value, ttl.At(deadline), ev)
			return end
		}
		if !exists(c) {
			t.mayCreate(k)
		}
		t.install(k, &object.String{Data: append([]byte(nil), old...)}, ttl.At(deadline),
			p.createdOf(c), t.s.written(p, c, t.now))
		p, sl, c = t.live(k, false)
	}
	o := p.objectOf(*c)
	if o.is(stateInline) && end > format.InlineMax {
		t.restate(p, o) // while it is small
	}
	o.unshare(t.s)
	o.val.(*object.String).WriteAt(off, data)
	o.changeRange(off, len(data), len(old))
	p.recount(t, sl, c, o)
	if !t.regenerate(p, o) {
		t.keyRecord(format.RecRange, p, k.Name)
		t.buf = binary.AppendUvarint(t.buf, o.id)
		t.buf = binary.AppendUvarint(t.buf, uint64(off))
		t.buf = format.AppendBytes(t.buf, data)
	}
	o.access = t.s.accessed(o.access, t.now)
	o.flags |= flagRaw
	t.wrotePut(p, sl, *c)
	t.Notify(k, ev)
	t.Govern(k)
	return end
}

// createdOf returns when the deadline of a key was set, 0 for a missing one.
func (p *part) createdOf(c *cell) uint32 {
	if !exists(c) {
		return 0
	}
	return p.created(*c)
}
