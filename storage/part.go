package storage

import (
	"bytes"
	"math"
	"sync/atomic"

	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/storage/slab"
	"keyp/ttl"
)

// shard is a run of slots of all databases under one lock.
type shard struct {
	// Constant.
	store *Store
	num   int

	// mu also guards everything in the parts.
	mu struct {
		shardLock
		parts []*part // by database number; nil until the database has a key here
		// logged is the latest instant for which the log records that everything due by then is
		// gone.
		logged int64
		// flushLSN is the LSN of the last FLUSHDB or SWAPDB: every miss may depend on it. A key
		// that exists depends on its part's swapLSN.
		flushLSN uint64
	}

	// Written while mu is locked, read without it.
	nextDue     atomic.Int64 // at most the earliest deadline of any part, for the reaper
	used, dirty atomic.Int64 // the last results of View.measure
	resident    atomic.Int64 // keys of clients in memory, as of then
	counted     atomic.Pointer[[]shardPopulation]
}

// cell is a key's entry in the table of its slot.
type cell = hashtable.Cell

const never = math.MaxInt64

// part is the part of one database in one shard: a table per slot, the memory of the keys, and the
// expiration index. The shard's lock guards it.
type part struct {
	space   uint32 // id of the keyspace, which the database number maps to
	shard   *shard
	first   uint16              // first slot
	groups  []*[groupSlots]slot // of slots; nil until one of them is used
	slabs   slab.Allocator
	objects objects
	index   *ttl.Index
	own     ownDeadlines
	disk    *diskDues // nil until a timeline needs them
	// How often a key with a deadline has left memory, come into it from disk, or expired on disk.
	moves int64
	sum   int64 // of the indexed deadlines, each as spanOf has it

	keys    int64 // live keys, those that are only on disk included
	expires int64 // of them, with a deadline
	timed   int64 // of them, with a deadline of an element
	cells   int   // in all tables, tombstones included
	tombs   int   // tombstones of them
	dirty   int64 // bytes that the data file does not have yet, about
	// moved are values that now belong to another key, although a record of this part on disk still
	// names their elements. It has one entry for each such record: a checkpoint leaves several
	// records if the value is renamed several times meanwhile.
	moved idSet
	// linked are values whose elements are on disk although no record of the part names them yet.
	linked idSet
	// copied are values that were linked, and have a record now or one that is being written.
	// Another record may still name them.
	copied  idSet
	counted bool // the part is in the present transaction's list of counts
	filed   bool // the data file has entries of the part, or a checkpoint has copied some for it
	dead    bool // the database was emptied: nothing refers to this keyspace
	// swapLSN is the LSN of the last SWAPDB that moved the part: all its keys depend on it.
	swapLSN uint64
	// epoch is the epoch that new slots get. It is not below the epochs of the slots that
	// freeTables has freed.
	epoch uint32
}

// slot is one hash slot of one database.
type slot struct {
	table      hashtable.Table
	dirty      int32  // cells with the flag Dirty
	num        uint16 // the slot's number
	lastDelete uint64 // LSN of the newest removal: a miss depends on it
	// epoch rises when a cell leaves, so that a copy that was read from disk before is known to be
	// outdated.
	epoch    uint32
	partial  bool   // keys may be on disk that are not in the table
	inflight bool   // a checkpoint has copied cells and has not committed: no key may be evicted
	awaiting bool   // changes of ttl are pending: no key may be evicted
	verified bool   // the slot's records on disk were proven complete (proof.go)
	onDisk   int64  // keys in the data file, as of the last commit
	digest   uint64 // of the slot's records in the data file
}

func newPart(sh *shard, space uint32, slots int) *part {
	groups := make([]*[groupSlots]slot, slots/groupSlots)
	p := &part{space: space, shard: sh, first: uint16(sh.num * slots), groups: groups,
		slabs: slab.New(), index: ttl.NewCounted()}
	if sh.store.diskWalk.begun.Load() {
		p.disk = newDiskDues(nil) // a part that is new has nothing on disk
	}
	return p
}

// makePart makes the part of a database that has none in the shard.
func (sh *shard) makePart(db int) *part {
	p := newPart(sh, sh.store.spaces.ids[db], sh.store.slotsPerShard)
	sh.mu.parts[db] = p
	return p
}

// groupSlots is how many slots are allocated together: a database of few keys needs some kilobytes
// for each key instead of the memory of all slots.
const groupSlots = 32

func (p *part) slot(k Key) *slot { return p.slotAt(int(k.Slot - p.first)) }

// slotAt returns the slot with a number within the part, and makes it if there is none.
func (p *part) slotAt(i int) *slot {
	if g := p.groups[i/groupSlots]; g != nil {
		return &g[i%groupSlots]
	}
	return p.makeSlot(i)
}

// hasSlot reports whether the key's slot was made.
func (p *part) hasSlot(k Key) bool { return p.groups[(k.Slot-p.first)/groupSlots] != nil }

func (p *part) makeSlot(i int) *slot {
	g := new([groupSlots]slot)
	for j := range g {
		g[j].num, g[j].epoch = p.first+uint16(i/groupSlots*groupSlots+j), p.epoch
	}
	p.groups[i/groupSlots] = g
	return &g[i%groupSlots]
}

// freeTables frees the memory of a part without keys and tombstones, for example after all have
// expired. A slot stays if it is still needed: a miss waits for its last removal, the data file has
// keys of it, or a checkpoint continues with it.
func (p *part) freeTables() {
	if p.cells > 0 {
		return
	}
	for i, g := range p.groups {
		if g != nil && p.shard.idle(g) {
			for j := range g {
				// A transaction that unlocked the shard in between finds that the slot has changed.
				g[j].epoch++
				p.epoch = max(p.epoch, g[j].epoch)
			}
			p.groups[i] = nil
		}
	}
	p.slabs.Reset()
	p.objects, p.own = objects{}, ownDeadlines{}
}

// idle reports whether slots without cells are in the state of new slots.
func (sh *shard) idle(g *[groupSlots]slot) bool {
	durable := sh.store.log.Durable()
	for i := range g {
		if sl := &g[i]; sl.partial || sl.inflight || sl.awaiting || sl.onDisk != 0 ||
			sl.digest != 0 || sl.lastDelete > durable {
			return false
		}
	}
	return true
}

// used visits the slots that were made, from a number within the part on.
func (p *part) used(from int, visit func(*slot) bool) {
	for i, g := range p.groups {
		if g == nil {
			continue
		}
		for j := max(from-i*groupSlots, 0); j < groupSlots; j++ {
			if !visit(&g[j]) {
				return
			}
		}
	}
}

// allUsed returns the slots that were made.
func (p *part) allUsed() (slots []*slot) {
	p.used(0, func(sl *slot) bool {
		slots = append(slots, sl)
		return true
	})
	return slots
}

// find returns the cell of a key, live, expired or tombstone; nil if there is none.
func (p *part) find(sl *slot, k Key) *cell {
	c, _ := sl.table.Find(k.Hash, func(c cell) bool { return bytes.Equal(p.name(c), k.Name) })
	return c
}

func (p *part) name(c cell) []byte {
	if c.Is(hashtable.Obj) {
		return p.objects.at(c.Ref()).name()
	}
	return p.slabs.At(c.Ref()).Key()
}

// Flags of a key in memory.
const (
	// flagDisk: a copy of the key may be in the data file, so removing the key must leave a
	// tombstone.
	flagDisk = 1 << iota
	// flagMoved: the elements that the copy in the data file names now belong to
	// another key, so replacing the copy does not make them garbage.
	flagMoved
	// flagRaw: the string was written in part (APPEND, SETRANGE); OBJECT ENCODING shows that.
	flagRaw
	// flagUnstated: the deadline is from the data file, and no replayed record has set it yet. The
	// flag has no meaning after recovery.
	flagUnstated
)

// The header fields of a key, whether it is in a slab or an object.

func (p *part) deadline(c cell) int64 { return p.item(c).Deadline() }

// due returns a key's time in the expiration index: the earlier of its deadline and the first
// deadline of an element.
func (p *part) due(c cell) int64 {
	if c.Is(hashtable.Obj) {
		return p.objects.at(c.Ref()).due()
	}
	return p.slabs.At(c.Ref()).Deadline()
}

func (p *part) created(c cell) uint32 {
	if c.Is(hashtable.Obj) {
		return p.objects.at(c.Ref()).created
	}
	return p.slabs.At(c.Ref()).Created()
}

func (p *part) access(c cell) uint32 { return p.item(c).Access() }

func (p *part) lsn(c cell) uint64 {
	if c.Is(hashtable.Obj) {
		return p.objects.at(c.Ref()).lsn
	}
	return p.slabs.At(c.Ref()).LSN()
}

func (p *part) flags(c cell) *byte {
	if c.Is(hashtable.Obj) {
		return &p.objects.at(c.Ref()).flags
	}
	return p.slabs.At(c.Ref()).Flags()
}

func (p *part) size(c cell) int {
	if c.Is(hashtable.Obj) {
		return p.objects.at(c.Ref()).bytes()
	}
	return cap(p.slabs.At(c.Ref()))
}

// id names a cell's key in the index. It changes when the key moves in memory.
func (p *part) id(sl *slot, c cell) uint64 {
	return uint64(sl.num)<<33 | uint64(c.Ref()) | uint64(c&hashtable.Obj)
}

// setIndex moves a key's entry in the expiration index; 0 is no deadline.
func (p *part) setIndex(id uint64, old, new int64) {
	if cell(id)&hashtable.Obj != 0 {
		p.noteOwn(id, new)
	}
	if old == new {
		return
	}
	p.index.Set(id, old, new)
	p.sum += p.shard.store.spanOf(new) - p.shard.store.spanOf(old)
	if new != 0 && new <= p.shard.mu.logged {
		// The global transaction has an older instant: it may set a deadline that is not
		// gone.
		p.shard.mu.logged = new - 1
	}
	if new != 0 && new < p.shard.nextDue.Load() {
		p.shard.nextDue.Store(new)
		p.shard.store.wake(new)
	}
}

// spanOf returns the time from the opening of the store to a deadline, in ms. It is at most some 35
// years, small enough to be summed over all keys. 0 for no deadline.
func (s *Store) spanOf(deadline int64) int64 {
	if deadline == 0 {
		return 0
	}
	return min(max(deadline-s.opened, -1<<40), 1<<40)
}

// markDirty notes that the data file does not have the cell's state.
func (p *part) markDirty(sl *slot, c *cell) {
	if !c.Is(hashtable.Dirty) {
		*c |= hashtable.Dirty
		sl.dirty++
		p.dirty += int64(p.size(*c))
	}
}

// free frees the memory of a cell's key.
func (p *part) free(c cell) {
	if c.Is(hashtable.Obj) {
		p.objects.remove(c.Ref())
	} else {
		p.slabs.Release(c.Ref())
	}
}

// insert adds a cell for a key that the table does not have.
func (p *part) insert(sl *slot, hash uint64, c cell) *cell {
	p.cells++
	return sl.table.Insert(hash, c)
}

// drop removes a cell from the table: memory knows nothing of the key any more.
func (p *part) drop(sl *slot, c *cell) {
	if c.Is(hashtable.Dirty) {
		sl.dirty--
		p.dirty -= int64(p.size(*c))
	}
	if c.Is(hashtable.Tomb) {
		p.tombs--
	}
	p.free(*c)
	sl.table.Remove(c)
	p.cells--
	sl.epoch++
}

// remove removes a live key from the index and the counts, and retires its cell.
func (p *part) remove(sl *slot, c *cell) {
	if _, d := p.unindex(sl, c); d != 0 {
		p.expires--
	}
	p.keys--
	p.shard.store.dropped(p, *c)
	p.retire(sl, c)
}

// retire makes a key a tombstone, or drops it if no copy of it can be on disk. The caller has
// removed it from the index and the counts.
func (p *part) retire(sl *slot, c *cell) {
	if *p.flags(*c)&flagDisk == 0 {
		p.drop(sl, c)
		return
	}
	old := *c
	name := p.name(old)
	p.dirtyOff(sl, c)
	if len(name) <= maxSlabKey && p.room(slab.Header+len(name)) {
		ref, b := p.slabs.Alloc(slab.Header + len(name))
		b.SetKey(name)
		b.SetValue(nil)
		*b.Flags() = *p.flags(old) & (flagDisk | flagMoved)
		*c = hashtable.NewCell(uint64(old), ref, hashtable.Tomb)
	} else {
		ref := p.objects.add(&Object{key: string(name),
			flags: *p.flags(old) & (flagDisk | flagMoved)})
		*c = hashtable.NewCell(uint64(old), ref, hashtable.Tomb|hashtable.Obj)
	}
	p.tombs++
	p.free(old)
	p.markDirty(sl, c)
}

// dirtyOff removes the cell from the dirty counts before its memory changes.
func (p *part) dirtyOff(sl *slot, c *cell) {
	if c.Is(hashtable.Dirty) {
		*c &^= hashtable.Dirty
		sl.dirty--
		p.dirty -= int64(p.size(*c))
	}
}

// idSet is a multiset of value ids, usually empty.
type idSet map[uint64]int

func (s *idSet) add(id uint64) {
	if *s == nil {
		*s = idSet{}
	}
	(*s)[id]++
}

// take removes one occurrence of an id, if there is any.
func (s idSet) take(id uint64) {
	if s[id] > 1 {
		s[id]--
	} else {
		delete(s, id)
	}
}

// hasMoved reports whether a value moved away from a key of the part.
func (p *part) hasMoved(id uint64) bool {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	return p.moved[id] > 0
}

// isSmall reports whether a string key belongs in a slab block.
func isSmall(key, value []byte) bool { return fitsBlock(key, len(value)) }

// fitsBlock is isSmall for a value of n bytes.
func fitsBlock(key []byte, n int) bool {
	return len(key) <= maxSlabKey && slab.Header+len(key)+n <= slab.MaxBlock
}

const maxSlabKey = slab.MaxBlock - slab.Header

// recounted updates the counts for a key that now exists with deadline. old is its previous
// deadline, and existed says whether it existed.
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

// timedNow updates the count of keys with deadlines of elements. has says whether an element of
// this key has one.
func (p *part) timedNow(t *Txn, o *Object, has bool) {
	if has == o.is(stateTimed) {
		return
	}
	if o.state ^= stateTimed; has {
		p.timed++
	} else {
		p.timed--
	}
	if t != nil {
		t.counted(p)
	}
}

// unindex removes the cell's key from the index and from the count of timed keys. It returns
// whether the key existed, and its deadline. It does not log the counts.
func (p *part) unindex(sl *slot, c *cell) (existed bool, deadline int64) {
	if !exists(c) {
		return false, 0
	}
	if o := p.objectOf(*c); o != nil {
		p.timedNow(nil, o, false)
	}
	p.setIndex(p.id(sl, *c), p.due(*c), 0)
	return true, p.deadline(*c)
}

// putSmall writes the value to the key's block, in place where it fits.
func (p *part) putSmall(t *Txn, sl *slot, c *cell, k Key, value []byte, deadline int64) *cell {
	size := slab.Header + len(k.Name) + len(value)
	if exists(c) && !c.Is(hashtable.Obj) {
		if b := p.slabs.At(c.Ref()); b.SameClass(size) {
			old := b.Deadline()
			p.setIndex(p.id(sl, *c), old, deadline)
			p.recounted(t, true, old, deadline)
			b.SetValue(value)
			p.markDirty(sl, c)
			return c
		}
	}
	if !p.room(size) {
		return p.putObject(t, sl, c, k, spilled(k.Name, value), deadline)
	}
	ref, b := p.slabs.Alloc(size)
	b.SetKey(k.Name)
	b.SetValue(value)
	return p.replace(t, sl, c, k, hashtable.NewCell(k.Hash, ref, 0), deadline)
}

// room reports whether there is room for a block.
func (p *part) room(size int) bool {
	return p.slabs.Room(size, p.shard.store.bounds.slabChunks)
}

// spilled returns a small string for which the slabs have no room. On disk and in the log it is
// like any other small string, so it has no id. It is never changed in place.
func spilled(name, value []byte) *Object {
	return &Object{key: string(name), val: &object.String{Data: bytes.Clone(value)},
		state: stateInline}
}

func (p *part) putObject(t *Txn, sl *slot, c *cell, k Key, o *Object, deadline int64) *cell {
	o.deadline = deadline
	return p.replace(t, sl, c, k, hashtable.NewCell(k.Hash, p.objects.add(o), hashtable.Obj),
		deadline)
}

// replace puts a new cell in the place of c, which may be nil, a tombstone or a live key. It
// updates counts, index and dirtiness, and returns where the cell is.
func (p *part) replace(t *Txn, sl *slot, c *cell, k Key, with cell, deadline int64) *cell {
	timed := p.timed
	existed, old := p.unindex(sl, c)
	p.recounted(t, existed, old, deadline)
	if t != nil && p.timed != timed {
		t.counted(p)
	}
	if t != nil && !existed {
		t.Notify(k, New)
	}
	if c == nil {
		c = p.insert(sl, k.Hash, with)
	} else {
		*p.flags(with) |= *p.flags(*c) & (flagDisk | flagMoved)
		if existed {
			p.shard.store.dropped(p, *c)
		}
		if c.Is(hashtable.Tomb) {
			p.tombs--
		}
		p.dirtyOff(sl, c)
		p.free(*c)
		*c = with
	}
	p.markDirty(sl, c)
	if o := p.objectOf(*c); o != nil {
		deadline = o.due()
		p.timedNow(t, o, o.elementDeadline() != 0)
	}
	p.setIndex(p.id(sl, *c), 0, deadline)
	return c
}

// setHeader writes a key's header. Index and counts have the deadline already.
func (p *part) setHeader(c cell, deadline int64, created, access uint32) {
	if c.Is(hashtable.Obj) {
		o := p.objects.at(c.Ref())
		o.deadline, o.created, o.access = deadline, created, access
		return
	}
	b := p.slabs.At(c.Ref())
	b.SetDeadline(deadline)
	b.SetCreated(created)
	b.SetAccess(access)
	*b.Flags() &^= flagRaw
}

// objectOf returns the cell's object, nil if the key is in a block.
func (p *part) objectOf(c cell) *Object {
	if c.Is(hashtable.Obj) {
		return p.objects.at(c.Ref())
	}
	return nil
}

// emptied reports whether a key's value has lost its last element. That loss was a change of the
// key, so its deletion does not count as another one.
func (p *part) emptied(c cell) bool {
	o := p.objectOf(c)
	return o != nil && o.val.Len() == 0
}
