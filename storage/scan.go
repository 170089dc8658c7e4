package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
)

// A SCAN cursor is a position in the keyspace: the slot and the hash prefix of the next key. It
// needs no state in the server, survives restarts, and is the same for keys in memory and on disk:
// both are in this order. A key that exists from start to end of an iteration keeps its position,
// so it is visited at least once.
//
//	cursor = slot << 29 | hash prefix, and 0 for start and end
const scanEnd = uint64(Slots) << hashtable.HashBits

// found is a key of a scan step.
type found struct {
	prefix uint32
	item   Item
	hash   uint64 // of the name, if the key is on disk
	due    bool   // the key is on disk and due now, but not by the log's time
}

// View reads the whole keyspace. From outside it locks shard after shard (Store.View). Within a
// transaction that has all shards locked it also sees that transaction's changes (Txn.View).
type View struct {
	s *Store
	t *Txn // nil: from outside
	// passing: the View is used from outside a transaction, for monitoring. It waits for the shards
	// of a global transaction without queueing for their locks. It shows no key, so the log need
	// not have the time by which it leaves out due keys.
	passing bool
	// patience is how often lockOpen tries to lock a shard; 0: it tries without end.
	patience int
}

// errTaken is returned if a global transaction has a shard for too long.
var errTaken = errors.New("storage: a script or a transaction has the keys")

// Monitoring returns a View for numbers of keys on which no command depends. Its use changes
// nothing.
func (s *Store) Monitoring() View { return View{s: s, passing: true} }

// patient returns a View as Monitoring does, which does not wait for long for a global transaction.
func (s *Store) patient() View { return View{s: s, passing: true, patience: dueTries} }

// View returns a View of the keyspace with the transaction's changes, at its instant. The
// transaction needs BeginAll, or UseAll.
func (t *Txn) View() View {
	if t.mask != 1<<len(t.s.shards)-1 {
		panic("storage: a transaction looks at a keyspace that it has not locked")
	}
	return View{s: t.s, t: t}
}

func (v View) lock(sh *shard) {
	switch {
	case v.t != nil:
	case v.passing:
		for !sh.lockPassingGlobal() {
			time.Sleep(duePause)
		}
	default:
		sh.mu.Lock()
	}
}

// lockOpen locks a shard. It waits while a global transaction has the shard, as long as the View
// has patience (errTaken). The error is ErrClosed if the store is closed meanwhile.
func (v View) lockOpen(sh *shard) error {
	if v.t != nil {
		return nil
	}
	for tries := 1; !sh.lockPassingGlobal(); tries++ {
		if v.s.quit.Err() != nil {
			return ErrClosed
		}
		if tries == v.patience {
			return errTaken
		}
		time.Sleep(duePause)
	}
	if v.s.quit.Err() != nil {
		sh.mu.Unlock()
		return ErrClosed
	}
	return nil
}

// locked runs fn while lockOpen has a shard locked.
func (v View) locked(sh *shard, fn func()) error {
	if err := v.lockOpen(sh); err != nil {
		return err
	}
	defer v.unlock(sh) // after a panic, too
	fn()
	return nil
}

func (v View) unlock(sh *shard) {
	if v.t == nil {
		sh.mu.Unlock()
	}
}

// each calls fn with the part that a database has in each shard, while the shard is locked.
func (v View) each(db int, fn func(*part)) {
	for _, sh := range v.s.shards {
		func() {
			v.lock(sh)
			defer v.unlock(sh)
			if p := sh.mu.parts[db]; p != nil {
				fn(p)
			}
		}()
	}
}

// applyPostponed makes the expiration indexes of a database do their postponed moves. It works in
// steps, between which others have their turn. A caller that then looks at an index with its shard
// locked finds few postponed moves.
func (v View) applyPostponed(db int) {
	const step, steps = 256, 64 // while others go on, more are postponed
	if v.t != nil {
		return
	}
	for _, sh := range v.s.shards {
		for more, n := true, 0; more && n < steps; n++ {
			if v.locked(sh, func() {
				p := sh.mu.parts[db]
				more = p != nil && p.index.ApplyPostponed(step)
			}) != nil {
				return // the caller finds that the store is closed
			}
		}
	}
}

func (v View) now() int64 {
	if v.t != nil {
		return v.t.now
	}
	return v.s.now()
}

// onDisk returns the instant by which due keys of a shard that are only on disk have expired.
func (v View) onDisk(shard int) int64 {
	if v.t != nil {
		return v.t.lockedAt(shard, v.t.now)
	}
	return v.s.now()
}

// Scan visits the live keys of a database from cursor on, about count of them, or fewer if their
// names are very long. It returns the next cursor, 0 at the end. It examines a bounded number of
// keys. While visit runs, only the shards of a transaction are locked; the name is valid until
// visit returns. Scan may read the data file; the error is about that.
//
// Scan skips due keys. These keys never return once the log is durable up to the end that it has
// when Scan returns. The same is true for Walk and RandomKey.
func (v View) Scan(db int, cursor uint64, count int,
	visit func(name []byte, typ object.Type)) (next uint64, err error) {
	w := walk{View: v, logged: v.s.shown.at.Load()}
	defer w.end()
	return w.scan(db, cursor, count, visit)
}

// Untimed is Scan for the keys that have no deadline of their own. The others count as examined, so
// a call may visit none although more keys follow.
func (v View) Untimed(db int, cursor uint64, count int,
	visit func(name []byte, typ object.Type)) (next uint64, err error) {
	w := walk{View: v, logged: v.s.shown.at.Load(), untimed: true}
	defer w.end()
	return w.scan(db, cursor, count, visit)
}

// walk visits keys one after another.
type walk struct {
	View
	logged int64 // the latest time in the log when the walk began
	hidden bool  // it skipped a key that was not due by then
	// untimed: keys with a deadline of their own count as looks, and are not visited.
	untimed bool
	step    []walked
	names   []byte // of keys of step, one behind the other
}

// walked is a key that is to be visited when its shard is unlocked.
type walked struct {
	long []byte // its name, if that is not in the walk's names
	end  int    // of its name there
	typ  object.Type
	skip bool // it only counts
}

// add adds a key to the keys of the present step, which are visited after the step.
func (w *walk) add(it Item) {
	k := walked{typ: it.Type(), skip: w.untimed && it.Deadline() != 0}
	switch {
	case k.skip:
	case it.o != nil:
		// Its name never changes, so a long one is not copied while the shard is locked.
		k.long = it.o.name()
	default:
		w.names = append(w.names, it.Key()...)
	}
	k.end = len(w.names)
	w.step = append(w.step, k)
}

// end logs the time if the walk skipped keys that were due by it and the log does not have it yet.
func (w *walk) end() {
	if w.hidden {
		w.s.logTime()
	}
}

func (w *walk) scan(db int, cursor uint64, count int,
	visit func(name []byte, typ object.Type)) (next uint64, err error) {
	v := w.View
	if cursor >= scanEnd {
		return 0, nil
	}
	for n, size := 0, 0; n < max(count, 1) && size < listBytes; {
		slot, from := uint16(cursor>>hashtable.HashBits), uint32(cursor&(1<<hashtable.HashBits-1))
		sh := v.s.shards[v.s.shardOf(slot)]
		w.step, w.names = w.step[:0], w.names[:0]
		next, p := w.scanSlot(sh, slot, db, from, count-n)
		if p != nil {
			if next, err = w.scanDisk(sh, p, slot, db, from, count-n); err != nil {
				return 0, err
			}
		}
		begin := 0
		for _, k := range w.step {
			name := k.long
			if name == nil {
				name = w.names[begin:k.end]
			}
			if begin = k.end; !k.skip {
				size += len(name)
				visit(name, k.typ)
			}
		}
		if n, cursor = n+len(w.step), next; cursor >= scanEnd {
			return 0, nil
		}
	}
	return cursor, nil
}

// scanSlot adds keys of a slot, or finds the next one that may have any. It returns the slot's part
// if it is to be scanned on disk.
func (w *walk) scanSlot(sh *shard, number uint16, db int, from uint32,
	count int) (next uint64, onDisk *part) {
	w.lock(sh)
	defer w.unlock(sh) // after a panic, too
	p := sh.mu.parts[db]
	sl := (*slot)(nil)
	if p != nil {
		sl = p.occupied(int(number))
	}
	switch {
	case sl == nil:
		return w.behind(sh), nil
	case sl.num != number:
		return position(sl.num, 0), nil
	case sl.partial:
		return 0, p
	}
	return w.scanMemory(p, sl, from, count), nil
}

// behind returns the cursor of the first slot after a shard.
func (w *walk) behind(sh *shard) uint64 {
	return uint64((sh.num+1)*w.s.slotsPerShard) << hashtable.HashBits
}

// occupied returns the first slot from number on that may have keys; nil if none has.
func (p *part) occupied(number int) (found *slot) {
	p.used(number-int(p.first), func(sl *slot) bool {
		if sl.partial || sl.table.Len() > 0 {
			found = sl
		}
		return found == nil
	})
	return found
}

// SlotCursor returns the cursor from which Scan visits the keys of a hash slot. The cursor of the
// slot after the last one is the end.
func SlotCursor(slot uint16) uint64 { return position(slot, 0) }

func position(slot uint16, prefix uint32) uint64 {
	return uint64(slot)<<hashtable.HashBits | uint64(prefix)
}

// scanMemory adds keys of one bucket of a slot whose keys are all in memory.
func (w *walk) scanMemory(p *part, sl *slot, from uint32, count int) (next uint64) {
	now := w.now()
	var keys []found
	after, done := sl.table.WalkBucket(from, func(c *cell) {
		if it, ok := w.liveItem(p, *c, now); ok {
			keys = append(keys, found{prefix: c.Prefix(), item: it})
		}
	})
	switch cut, all := w.addSome(keys, count); {
	case !all:
		return position(sl.num, cut)
	case done:
		return position(sl.num+1, 0)
	default:
		return position(sl.num, after)
	}
}

// liveItem returns the item of a cell; false: the cell is no live key.
func (w *walk) liveItem(p *part, c cell, now int64) (Item, bool) {
	it, ok := p.liveItem(c, now)
	if ok && w.t != nil && w.t.late != 0 {
		_, ok = p.liveItem(c, w.t.lockedAt(p.shard.num, w.t.now))
		ok = ok || w.t.hasWritten(p, c)
	}
	if !ok && !w.hidden {
		_, w.hidden = p.liveItem(c, w.logged)
	}
	return it, ok
}

func (p *part) liveItem(c cell, now int64) (Item, bool) {
	if c.Is(hashtable.Tomb) {
		return Item{}, false
	}
	it := p.item(c)
	if d := it.Deadline(); d != 0 && d <= now {
		return it, false
	}
	if o := it.o; o != nil && o.elementDue(now) {
		return it, o.val.LenAt(now) > 0
	}
	return it, true
}

// addSome adds keys in the order of their prefixes. When it has added count keys, or walkBytes
// bytes of names, it adds only the other keys with the last prefix. cut is the prefix of the first
// key that is left out; all is true if there is none.
func (w *walk) addSome(keys []found, count int) (cut uint32, all bool) {
	slices.SortFunc(keys, func(a, b found) int { return cmp.Compare(a.prefix, b.prefix) })
	size := 0
	for n, k := range keys {
		if n > 0 && (n >= count || size >= walkBytes) && k.prefix != keys[n-1].prefix {
			return k.prefix, false
		}
		w.add(k.item)
		size += len(k.item.Key())
	}
	return 0, true
}

// scanDisk adds keys of a slot that are in memory or on disk. It first reads a stretch of the data
// file. If the slot lost no key meanwhile, it then merges the stretch with memory, which is newer.
func (w *walk) scanDisk(sh *shard, p *part, number uint16, db int, from uint32,
	count int) (next uint64, err error) {
	for try := 0; ; try++ {
		w.lock(sh)
		epoch := p.slotAt(int(number - p.first)).epoch
		if try < 3 { // afterwards the lock is kept, so that this ends
			w.unlock(sh)
		}
		// A merge uses no more keys than a bucket has.
		st, err := w.readStretch(p.space, number, from, min(count, hashtable.BucketCells))
		if try < 3 {
			w.lock(sh)
		}
		if err != nil {
			w.unlock(sh)
			return 0, err
		}
		if next, fresh := w.mergeFresh(sh, p, number, db, epoch, from, count, st); fresh {
			return next, nil
		}
	}
}

// mergeFresh is mergeStretch for a slot with an epoch, whose shard is locked, and unlocks that.
// fresh is false if the slot has lost a key since.
func (w *walk) mergeFresh(sh *shard, p *part, number uint16, db int, epoch, from uint32, count int,
	st fileStretch) (next uint64, fresh bool) {
	defer w.unlock(sh)
	if sh.mu.parts[db] != p {
		return w.behind(sh), true
	}
	sl := p.slotAt(int(number - p.first)) // it may have been freed and made again
	if sl.epoch != epoch {
		return 0, false
	}
	return w.mergeStretch(p, sl, from, count, st), true
}

// stretchEnd is one past the last hash prefix.
const stretchEnd = 1 << hashtable.HashBits

// fileStretch is the data file's part of a slot up to a prefix. Memory may have newer state.
type fileStretch struct {
	keys []found
	upTo uint32
}

// readStretch reads the keys of a slot from a prefix on: all, or at least count, or walkBytes of
// names.
func (w *walk) readStretch(space uint32, slot uint16, from uint32,
	count int) (st fileStretch, err error) {
	start := binary.BigEndian.AppendUint32(format.SlotKey(nil, space, slot),
		from<<(32-hashtable.HashBits))
	st.upTo = stretchEnd
	now, size := w.onDisk(w.s.shardOf(slot)), 0
	err = w.s.file.View(func(tx *bolt.Tx) error {
		err := datafile.Each(tx, format.BucketValues, start, nil, func(at, record []byte) error {
			if !bytes.HasPrefix(at, start[:6]) || len(at) < format.PrefixLen {
				return datafile.ErrEnough
			}
			prefix := binary.BigEndian.Uint32(at[6:]) >> (32 - hashtable.HashBits)
			if n := len(st.keys); n > 0 && (n >= count || size >= walkBytes) &&
				prefix != st.keys[n-1].prefix {
				st.upTo = prefix
				return datafile.ErrEnough
			}
			im, err := format.ParseImage(at, record)
			if err != nil {
				return err
			}
			w.s.repairTimes(tx, at, &im)
			live, err := datafile.ReadLive(tx, &im, now)
			hides := false
			if err == nil && !live && !w.hidden {
				hides, err = datafile.ReadLive(tx, &im, w.logged)
			}
			if !live && !hides || err != nil {
				return err
			}
			o := &Object{key: string(im.Name), val: object.New(im.Type), deadline: im.Deadline,
				created: im.Created}
			st.keys = append(st.keys,
				found{prefix: prefix, item: Item{o: o}, hash: w.s.hash(im.Name), due: !live})
			size += len(im.Name)
			return nil
		})
		if err == datafile.ErrEnough {
			return nil
		}
		return err
	})
	return st, err
}

// mergeStretch merges a bucket of the slot with the data file's stretch, as far as that bucket
// goes. It adds all of these keys, or some as addSome does.
func (w *walk) mergeStretch(p *part, sl *slot, from uint32, count int,
	st fileStretch) (next uint64) {
	now := w.now()
	lockedAt := w.onDisk(p.shard.num)
	var keys []found
	upTo := st.upTo
	after, done := sl.table.WalkBucket(from, func(c *cell) {
		if c.Prefix() >= st.upTo {
			return
		}
		if it, ok := w.liveItem(p, *c, now); ok {
			keys = append(keys, found{prefix: c.Prefix(), item: it})
		}
	})
	if !done {
		upTo = min(upTo, after)
	}
	known := func(f found) bool {
		return p.find(sl, Key{Slot: sl.num, Hash: f.hash, Name: f.item.Key()}) != nil
	}
	for _, f := range st.keys {
		if f.prefix >= upTo || known(f) {
			continue
		}
		if d := f.item.Deadline(); f.due || d != 0 && d <= lockedAt {
			w.hidden = w.hidden || f.due || d > w.logged
			continue
		}
		keys = append(keys, f)
	}
	if cut, all := w.addSome(keys, count); !all {
		upTo = cut
	}
	if upTo == stretchEnd {
		return position(sl.num+1, 0)
	}
	return position(sl.num, upTo)
}

// Walk visits every live key of a database until visit returns false; keys that are created or
// removed meanwhile may be visited or not. For visit and errors see Scan.
func (v View) Walk(db int, visit func(name []byte, typ object.Type) bool) error {
	const step = 512
	w := walk{View: v, logged: v.s.shown.at.Load()}
	defer w.end()
	on := true
	for cursor := uint64(0); on; {
		next, err := w.scan(db, cursor, step, func(name []byte, typ object.Type) {
			on = on && visit(name, typ)
		})
		if err != nil || next == 0 {
			return err
		}
		cursor = next
	}
	return nil
}

// RandomKey returns a live key chosen at random; ok is false if there is none.
func (v View) RandomKey(db int) (key []byte, ok bool, err error) {
	const sample = 16
	w := walk{View: v, logged: v.s.shown.at.Load()}
	defer w.end()
	start := w.s.options.Random() % scanEnd
	var keys [][]byte
	for _, from := range []uint64{start, 0} {
		cursor := from
		for {
			cursor, err = w.scan(db, cursor, sample, func(name []byte, _ object.Type) {
				keys = append(keys, bytes.Clone(name))
			})
			if err != nil {
				return nil, false, err
			}
			if len(keys) > 0 {
				return keys[w.s.options.Random()%uint64(len(keys))], true, nil
			}
			if cursor == 0 {
				break
			}
		}
	}
	return nil, false, nil
}
