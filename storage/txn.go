package storage

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"keyp/internal/bigcopy"
	"keyp/storage/format"
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
	// Exempt: what the transaction does is not decided by policies.
	Exempt bool
	// By identifies the client of the transaction, until its end: see Change. 0: none.
	By uint64

	s      *Store
	mask   uint64 // locked shards, a bit for each
	now    int64
	micros int64  // now in microseconds, once somebody has asked; 0 until then
	buf    []byte // the end of the batch so far
	before pieceList
	seen   uint64 // the newest LSN that a look-up showed
	cost   int64  // what replaying the batch costs
	stated int64  // the changes of keys that the batch states
	logged uint64 // the value that the last record is about, if it is about an element
	opened []opened
	// scratch is room for an element's value while its collection changes.
	scratch   []byte
	wrote     []touched
	gone      []*slot // slots that lost a key
	counts    []*part // parts whose counts changed
	flush     bool    // databases were emptied or exchanged
	swapped   []*part // that SWAPDB moved
	events    []Happened
	raised    int      // bytes that these take
	changes   []Change // for the observer
	changed   []byte   // the names of their keys
	delivered int      // of changes: by News
	// quiet: present changes are not reported to the observer.
	quiet bool
	// shedding: present changes are removals of due keys and elements.
	shedding bool
	// snapshot contains the keys of an offloaded transaction.
	snapshot *snapshot
	// blocked: the last Begin found a shard locked by the global transaction.
	blocked bool
	// shown: the caller has shown.mu, so End logs no time.
	shown   bool
	slid    []slid  // the deadlines that reading has moved
	notes   []note  // the deadlines that count from a guarded instant
	reports reports // expiries that the hooks have noted
	// limits are what the present change of limits has changed.
	limits object.LimitChanges
	sharing
}

// touched is a key that gets the batch's LSN.
type touched struct {
	p       *part
	sl      *slot
	c       cell
	emptied uint32 // slabs.emptied when the key was written
}

// stale reports whether the key may have been removed or moved in memory since, so that its place
// may be inside another block.
func (w *touched) stale() bool {
	if w.emptied == w.p.slabs.emptied {
		return false
	}
	c, _ := w.sl.table.find(uint64(w.c), func(c cell) bool {
		return c.ref() == w.c.ref() && c.is(cellObj) == w.c.is(cellObj)
	})
	return c == nil
}

// NewTxn makes a transaction for a goroutine to reuse.
func (s *Store) NewTxn() *Txn { return &Txn{s: s} }

// Begin locks the shards of keys, in index order, and takes the instant. It returns false, with
// nothing locked, when the global transaction has one of the shards (BlockedByGlobal), or when a
// key is not in memory but may be on disk, or has so many due elements that removing them takes
// long: the caller calls Store.Load and tries again.
func (s *Store) Begin(t *Txn, keys []Key) bool {
	if !s.lockKeys(t, keys) {
		return false
	}
	// The slots of these keys become partial, or whole, only while their shards are locked.
	if s.partials.Load() == 0 && !s.anyDue(t) {
		return true
	}
	for i := range keys {
		if i%PrefetchKeys == 0 && len(keys) > PrefetchKeys {
			t.Prefetch(keys[i:])
		}
		if !s.resident(keys[i]) || s.overdue(keys[i], t.now) {
			s.unlock(t)
			return false
		}
	}
	return true
}

// anyDue reports whether anything may be due in the shards that t has locked.
func (s *Store) anyDue(t *Txn) bool {
	for m := t.mask; m != 0; m &= m - 1 {
		if s.shards[bits.TrailingZeros64(m)].nextDue.Load() <= t.now {
			return true
		}
	}
	return false
}

// BeginLoading is Begin for keys that leave memory again and again before their command can run: it
// reads keys that are only on disk while the shards are locked, and others wait. It returns false,
// with nothing locked, where the global transaction has one of the shards (BlockedByGlobal), and
// with an error, which is as Load's.
func (s *Store) BeginLoading(t *Txn, keys []Key) (bool, error) {
	if !s.lockKeys(t, keys) {
		return false, nil
	}
	for i := range keys {
		if err := t.Load(keys[i]); err != nil {
			s.unlock(t)
			return false, err
		}
	}
	return true, nil
}

// BeginBeside is BeginLoading for a job beside the loop, which waits for the global transaction.
// With an error nothing is locked.
func (s *Store) BeginBeside(t *Txn, keys []Key) error {
	s.lock(t, s.maskOf(keys))
	t.takeInstant()
	for i := range keys {
		if err := t.Load(keys[i]); err != nil {
			s.unlock(t)
			return err
		}
	}
	return nil
}

// BeginAll locks the whole keyspace.
func (s *Store) BeginAll(t *Txn) {
	s.lock(t, 1<<len(s.shards)-1)
	t.takeInstant()
}

func (s *Store) shardOf(slot uint16) int { return int(slot) / s.slotsPerShard }

// maskOf gives the shards of keys.
func (s *Store) maskOf(keys []Key) (mask uint64) {
	for i := range keys {
		mask |= 1 << s.shardOf(keys[i].Slot)
	}
	return mask
}

// lockKeys locks the shards of keys and takes the instant. It returns false, with nothing
// locked, where the global transaction has one of them.
func (s *Store) lockKeys(t *Txn, keys []Key) bool {
	mask := s.maskOf(keys)
	t.blocked = false
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if !s.shards[i].lockUnlessGlobal() {
			t.mask = mask & (1<<i - 1)
			s.unlock(t)
			t.blocked = true
			return false
		}
	}
	t.mask = mask
	t.takeInstant()
	return true
}

// lock locks shards, and waits for those of the global transaction: see globaltxn.go for the gate.
func (s *Store) lock(t *Txn, mask uint64) {
	if mask&(mask-1) != 0 {
		s.global.gate.Lock()
		defer s.global.gate.Unlock()
	}
	s.lockShards(t, mask)
}

func (s *Store) lockShards(t *Txn, mask uint64) {
	t.mask = mask
	for m := mask; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.lockFirst()
	}
}

// lockBehind locks one shard for a background transaction, after the commands that want it. It
// returns false if the global transaction has it and wait is false.
func (s *Store) lockBehind(t *Txn, sh *shard, wait bool) bool {
	if wait {
		sh.mu.Lock()
	} else if !sh.lockPassingGlobal() {
		return false
	}
	t.mask = 1 << sh.num
	return true
}

func (s *Store) unlock(t *Txn) {
	if t.global {
		t.endGlobal()
		return
	}
	for m := t.mask; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
	t.mask = 0
}

// resident reports whether memory has a key's value, or knows that it does not exist.
func (s *Store) resident(k Key) bool {
	if s.partials.Load() == 0 { // its slot becomes partial, or whole, only while the shard is locked
		return true
	}
	p := s.shards[s.shardOf(k.Slot)].mu.parts[k.DB]
	if p == nil {
		return true
	}
	sl := p.slot(k)
	return !sl.partial || p.find(sl, k) != nil
}

func (t *Txn) takeInstant() { t.now, t.micros = t.s.now(), 0 }

// Now is the transaction's instant in Unix milliseconds.
func (t *Txn) Now() int64 { return t.now }

// Micros is the transaction's instant in Unix microseconds: the clock's when somebody first asks,
// but within the millisecond that Now is, and the same until the end.
func (t *Txn) Micros() int64 {
	if t.micros == 0 {
		first := t.now * 1000
		t.micros = min(max(t.s.Micros(), first), first+999)
	}
	return t.micros
}

// End seals what was recorded, releases the locks and returns the LSN that everything
// the transaction showed or did depends on: under appendfsync always a reply may leave
// once the log is durable that far.
func (t *Txn) End() uint64 {
	t.FlushValues()
	if len(t.notes) > 0 {
		t.writeNotes()
		t.FlushValues()
	}
	if len(t.reports.list) > 0 {
		t.s.hooks.ending(t)
		t.FlushValues()
	}
	if len(t.slid) > 0 {
		t.countSlides()
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
		t.stamp(lsn)
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
func (t *Txn) stamp(lsn uint64) {
	for i := range t.wrote {
		w := &t.wrote[i]
		if w.c.is(cellObj) {
			if o := w.p.objects.at(w.c.ref()); o != nil {
				o.lsn = lsn
			}
		} else if !w.stale() && w.p.slabs.chunks[w.c.ref()>>chunkBits].mem != nil { // nil: removed again by this transaction
			w.p.slabs.at(w.c.ref()).setLSN(lsn)
		}
	}
	for _, sl := range t.gone {
		sl.lastDelete = lsn
	}
	if t.flush {
		for _, sh := range t.s.shards {
			sh.mu.flushLSN = lsn
		}
	}
	for _, p := range t.swapped {
		p.swapLSN = lsn
	}
}

// maxKept bounds what a transaction's buffers keep between uses.
const maxKept = 1 << 20

func (t *Txn) reset() {
	t.buf, t.wrote, t.gone, t.counts = t.buf[:0], t.wrote[:0], t.gone[:0], t.counts[:0]
	t.seen, t.cost, t.stated, t.logged, t.NoTouch, t.Exempt, t.flush, t.swapped = 0, 0, 0, 0, false, false, false, nil
	t.By, t.shedding, t.shown = 0, false, false
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
	if c == nil || c.is(cellTomb) {
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
func exists(c *cell) bool { return c != nil && !c.is(cellTomb) }

// expire removes a due key; the caller writes the record. A command's record names the key: one
// that states that all due by now is gone would cover keys that are still there and counted.
func (t *Txn) expire(p *part, sl *slot, c *cell, k Key) {
	item := p.item(*c)
	t.changing(p.space, k.Name)
	t.goneKey(k, item.Type(), item.Deadline(), t.instant(p, *c), item) // before the block is freed, which has the reaper's name
	t.remove(p, sl, c)
}

// remove removes a live key.
func (t *Txn) remove(p *part, sl *slot, c *cell) {
	p.remove(sl, c)
	t.counted(p)
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
		t.record(format.RecCounts, uint64(p.space), uint64(p.shard.num), uint64(p.keys), uint64(p.expires))
	}
}

// logReaped logs that everything of the shard due by through is gone; none of it may still be
// counted. Replay removes it in order, so nothing that was seen expired returns, whatever the wall
// clock does over a restart.
func (sh *shard) logReaped(t *Txn, through int64) {
	if through <= sh.mu.logged {
		return
	}
	sh.mu.logged = through
	t.record(format.RecReaped, uint64(sh.num), uint64(through))
}

// record begins any record but the short ones of elements, which may not follow it: they are about
// the value of the record before them.
func (t *Txn) record(tag byte, fields ...uint64) {
	t.logged = 0
	t.buf = format.AppendRecord(t.buf, tag, fields...)
}

func (t *Txn) keyRecord(tag byte, p *part, key []byte) {
	t.changing(p.space, key)
	t.stateKey(tag, p.space, key)
}

// stateKey is keyRecord without reporting a change.
func (t *Txn) stateKey(tag byte, space uint32, key []byte) {
	t.cutBatch()
	t.record(tag, uint64(space))
	t.buf = format.AppendBytes(t.buf, key)
	t.cost += recordCost[tag]
	t.stated++
}

// Uncounted calls f, whose changes Stats.Changes leaves out: they are one with another change, or
// none to Redis.
func (t *Txn) Uncounted(f func()) {
	n := t.stated
	f()
	t.stated = n
	t.logged = 0 // the next change of the same value counts
}

func (t *Txn) wrotePut(p *part, sl *slot, c cell) {
	t.wrote = append(t.wrote, touched{p, sl, c, p.slabs.emptied})
}

// Get finds a live key, marks it as accessed, and moves its deadline if a policy says that reading
// does so. A missing or expired key gives false.
func (t *Txn) Get(k Key) (Item, bool) {
	item, ok := t.touch(k)
	if ps := t.s.policies.Load(); ok && ps != nil && ps.slides && !t.NoTouch && !t.Offloaded() && !t.s.Follower() {
		t.slide(k, item)
	}
	return item, ok
}

// touch is Get for what gives the key a deadline itself.
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
		return t.snapshot.find(k)
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

// accessNow means the access word of a key that is written now, and whose deadline is as old as it
// is if it has that already.
const accessNow uint32 = math.MaxUint32

func (t *Txn) set(k Key, value []byte, deadline ttl.Deadline, created, access uint32) {
	p, sl, c := t.live(k, true)
	if access == accessNow {
		access = t.written(p, c)
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
	t.noteKey(p.space, k, deadline)
}

// written is the access word of a key that a command writes.
func (t *Txn) written(p *part, c *cell) uint32 {
	if t.s.frequency.Load() == nil || !exists(c) {
		return t.s.firstAccess(t.now)
	}
	return t.s.accessed(p.access(*c), t.now)
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

// chunkRecord is the most bytes that the record of a string's chunk has beside the chunk.
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
// is about the same value. p is nil for a value that is being stated: that was reported as a whole,
// or no key has it yet.
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
		b := p.slabs.at(c.ref())
		b.setDeadline(deadline)
		b.setCreated(created)
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
	if !exists(c) || !c.is(cellObj) || isSmall(k.Name, old) {
		if fitsBlock(k.Name, end) || off <= len(old) {
			value := make([]byte, end)
			copy(value, old)
			copy(value[off:], data)
			t.SetRaw(k, value, ttl.At(deadline), ev)
			return end
		}
		if !exists(c) {
			t.creating(k)
		}
		t.install(k, &object.String{Data: append([]byte(nil), old...)}, ttl.At(deadline), t.createdOf(p, c), t.written(p, c))
		p, sl, c = t.live(k, false)
	}
	o := p.objectOf(*c)
	if o.is(stateInline) && end > format.InlineMax {
		t.restate(p, o) // while it is small
	}
	t.unshare(o)
	o.val.(*object.String).WriteAt(off, data)
	o.changeRange(off, len(data), len(old))
	p.recount(sl, c, o)
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
	t.governPresent(k)
	return end
}

// createdOf is when the deadline of a key was set, 0 for a missing one.
func (t *Txn) createdOf(p *part, c *cell) uint32 {
	if !exists(c) {
		return 0
	}
	return p.created(*c)
}
