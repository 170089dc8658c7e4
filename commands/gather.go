package commands

import (
	"math"
	"slices"

	"keyp/internal/pieces"
	"keyp/storage"
)

// A command that names so many keys that looking all of them up takes long is a job of scope Unlocked that looks
// some up at a time. In between others are served, and may change what it has seen. So what they change is recorded
// meanwhile, and looked at again; in the end there is little of that, or nothing, and the job does it with all shards
// locked. It is as if it had run at that instant. What such a command writes is prepared as its keys are looked up:
// see storage.Many.

const (
	// gatherStep is how many keys are looked up while shards are locked. With all shards locked twice as many are
	// looked up at most, if they are in memory.
	gatherStep = 512
	// gatherRounds is how often keys are looked up before all that has changed again is looked up with all
	// shards locked, whatever that takes, and read from the disk too.
	gatherRounds = 10
	// gatherBits is how many bits a gathering has for a key to find out whether it has the key.
	gatherBits = 16
)

// gathering is what a command gathers. What others change of it Changes records.
type gathering struct {
	keys []storage.Key
	// dues are when the keys, or elements of theirs, are due, as they were seen last; 0: never. earliest
	// is not later than any of them.
	dues     []int64
	earliest int64

	bits []uint64 // one is set for each key's hash, which other keys' hashes may share; constant

	// recorded is what Changes has recorded since the keys were seen. Changes.mu guards it.
	recorded struct {
		changed []uint64 // hashes of keys that changed, some of them of keys that are not in keys
		all     bool     // a database was emptied or exchanged
	}
}

// manyKeys is the scope of a command on the keys that it names: of very many it is to gather them. One that
// reads for a client whose keys are tracked must not, since nobody may change them before they are.
func manyKeys(c *Ctx) Scope {
	if len(c.Args) <= manyElements || c.Nested || c.Client.queue != nil {
		return KeysOnly
	}
	if _, tracks := c.Env.Tracking.of(c.Client.ID); tracks && c.Spec.Is(ReadOnly) {
		return KeysOnly
	}
	return Unlocked
}

func newGathering(keys []storage.Key) *gathering {
	words := 1
	for words*64 < len(keys)*gatherBits {
		words *= 2
	}
	g := &gathering{keys: keys, dues: make([]int64, len(keys)), earliest: math.MaxInt64, bits: make([]uint64, words)}
	for i := range keys {
		word, bit := g.place(keys[i].Hash)
		g.bits[word] |= bit
	}
	return g
}

func (g *gathering) place(hash uint64) (word int, bit uint64) {
	return int(hash >> 6 & uint64(len(g.bits)-1)), 1 << (hash & 63)
}

// heard records changed keys; Changes.mu is locked.
func (g *gathering) heard(store *storage.Store, changes []storage.Change) {
	for _, change := range changes {
		if change.Key == nil {
			g.recorded.all = true
			continue
		}
		hash := store.Key(change.DB, change.Key).Hash
		if word, bit := g.place(hash); g.bits[word]&bit != 0 {
			g.recorded.changed = append(g.recorded.changed, hash)
		}
	}
}

// record has what others change of g recorded, until ended.
func (c *Changes) record(g *gathering) (ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.gathers = append(c.mu.gathers, g)
	c.listen()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.gathers = slices.DeleteFunc(c.mu.gathers, func(o *gathering) bool { return o == g })
		c.listen()
	}
}

// again gives the numbers of the keys that may have changed since they were seen, or are due at now, and
// forgets what was recorded.
func (g *gathering) again(c *Changes, now int64) (list []int) {
	c.mu.Lock()
	all, changed := g.recorded.all, g.recorded.changed
	g.recorded.all, g.recorded.changed = false, nil
	c.mu.Unlock()
	if !all && len(changed) == 0 && now < g.earliest {
		return nil
	}
	const buckets = 1 << 16
	var some [buckets / 64]uint64 // for most keys this says that they have not changed
	hashes := make(map[uint64]bool, len(changed))
	for _, hash := range changed {
		some[hash%buckets/64] |= 1 << (hash % 64)
		hashes[hash] = true
	}
	for i := range g.keys {
		hash, due := g.keys[i].Hash, g.dues[i]
		if all || some[hash%buckets/64]>>(hash%64)&1 != 0 && hashes[hash] || due != 0 && due <= now {
			list = append(list, i)
		}
	}
	return list
}

// gather looks the command's keys with these numbers up and has see called for each, with the time (Unix ms), again
// when it may have changed: what counts is the last call. Then it calls done, with a transaction that has all shards
// locked by begin, and at whose instant all of that is so.
func (c *Ctx) gather(begin func(*storage.Txn), list []int, touch bool, see func(i int, item storage.Item, ok bool, now int64), done func(*storage.Txn)) error {
	t := c.Env.Store.NewTxn()
	defer t.End() // after a panic, which costs this command alone, nothing stays locked
	err := c.lookAll(t, begin, list, touch, see)
	if err == nil {
		done(t)
	}
	c.LSN = max(c.LSN, t.End())
	return err
}

// lookAll looks the keys up, and leaves all shards locked by t. What others change until then is recorded.
func (c *Ctx) lookAll(t *storage.Txn, begin func(*storage.Txn), list []int, touch bool, see func(i int, item storage.Item, ok bool, now int64)) error {
	e, g := c.Env, newGathering(c.Keys)
	defer e.Changes.record(g)()
	look := func(list []int) error {
		t.NoTouch = !touch || c.noTouch()
		for _, i := range list {
			if err := t.Load(g.keys[i]); err != nil {
				return err
			}
			item, ok := t.Get(g.keys[i])
			ok = ok && t.Left(item)
			if g.dues[i] = 0; ok {
				g.dues[i] = item.Due()
			}
			if due := g.dues[i]; due != 0 {
				g.earliest = min(g.earliest, due)
			}
			see(i, item, ok, t.Now())
		}
		return nil
	}
	steps := func(list []int) error {
		for step := range slices.Chunk(list, gatherStep) {
			keys := make([]storage.Key, len(step))
			for n, i := range step {
				keys[n] = g.keys[i]
			}
			if err := e.beginBeside(t, keys); err != nil {
				return err
			}
			for from := 0; from < len(keys); from += storage.PrefetchKeys {
				t.Prefetch(keys[from:])
			}
			err := look(step)
			if c.LSN = max(c.LSN, t.End()); err != nil {
				return err
			}
		}
		return nil
	}
	for round := 1; ; round++ {
		if err := steps(list); err != nil {
			return err
		}
		if list = g.again(&e.Changes, e.Clock.Now()); len(list) > gatherStep && round < gatherRounds {
			continue
		}
		begin(t)
		list = append(list, g.again(&e.Changes, t.Now())...)
		if round >= gatherRounds || g.brief(t, list) {
			return look(list)
		}
		c.LSN = max(c.LSN, t.End())
	}
}

// brief reports whether it takes little time to look up the keys with these numbers: they are few, and in memory.
func (g *gathering) brief(t *storage.Txn, list []int) bool {
	return len(list) <= 2*gatherStep && !slices.ContainsFunc(list, func(i int) bool { return !t.Resident(g.keys[i]) })
}

// allKeys are the numbers of the command's keys.
func (c *Ctx) allKeys() []int {
	list := make([]int, len(c.Keys))
	for i := range list {
		list[i] = i
	}
	return list
}

// beginBeside locks the shards of keys, for a job, and has them in memory.
func (e *Env) beginBeside(t *storage.Txn, keys []storage.Key) error {
	if e.Store.Begin(t, keys) {
		return nil
	}
	if !t.BlockedByGlobal() {
		loaded := make(chan error, 1)
		e.Store.Load(keys, func(err error) { loaded <- err })
		if err := <-loaded; err != nil {
			return err
		}
	}
	return e.Store.BeginBeside(t, keys)
}

// countGathered counts what a command that gathers has seen, and raises the events of missing keys.
func (c *Ctx) countGathered(t *storage.Txn, seen []bool) (hits int64) {
	for i, ok := range seen {
		if ok {
			hits++
		} else {
			t.Notify(c.Keys[i], eventKeyMiss)
		}
	}
	c.hits += hits
	c.misses += int64(len(seen)) - hits
	return hits
}

// countMany is countKeys for very many keys.
func countMany(c *Ctx, touch bool) error {
	var n int64
	seen := make([]bool, len(c.Keys))
	err := c.gather(c.Env.Store.BeginAll, c.allKeys(), touch, func(i int, _ storage.Item, ok bool, _ int64) { seen[i] = ok }, func(t *storage.Txn) {
		n = c.countGathered(t, seen)
	})
	if err == nil {
		c.Out.Int(n)
	}
	return err
}

// texts are values that are gathered, by number. What was seen again is replaced.
type texts struct {
	first []textSpan     // as each was seen first
	all   []byte         // those, one behind the other
	later map[int][]byte // as they were seen since; nil: there is none any more
	size  int            // of all as they were seen last, in bytes
	most  int            // bound of size; 0: none
}

// textSpan is where a value stands among all; from is negative where there is none.
type textSpan struct{ from, to int }

// notSeen is the span of what was not seen yet.
var notSeen = textSpan{-2, -2}

func newTexts(n, most int) *texts {
	return &texts{first: slices.Repeat([]textSpan{notSeen}, n), later: map[int][]byte{}, most: most}
}

// set copies value i; ok is false if there is none. It returns false, and copies nothing, if that were more
// than most.
func (x *texts) set(i int, value []byte, ok bool) (fits bool) {
	was, _ := x.get(i)
	size := x.size - len(was) + len(value)
	if x.most > 0 && size > x.most {
		return false
	}
	x.size = size
	switch {
	case x.first[i] != notSeen && ok:
		x.later[i] = append([]byte{}, value...)
	case x.first[i] != notSeen:
		x.later[i] = nil
	case ok:
		x.first[i] = textSpan{len(x.all), len(x.all) + len(value)}
		x.all = pieces.Append(x.all, value)
	default:
		x.first[i] = textSpan{-1, -1}
	}
	return true
}

// get gives value i; ok is false if there is none.
func (x *texts) get(i int) (value []byte, ok bool) {
	if value, again := x.later[i]; again {
		return value, value != nil
	}
	if at := x.first[i]; at.from >= 0 {
		return x.all[at.from:at.to:at.to], true
	}
	return nil, false
}

// getMany is MGET of very many keys.
func getMany(c *Ctx) error {
	// Of what fits some values may be seen before they change, and others after.
	seen, values := make([]bool, len(c.Keys)), newTexts(len(c.Keys), 2*c.Out.Max)
	err := c.gather(c.Env.Store.BeginAll, c.allKeys(), true, func(i int, item storage.Item, ok bool, _ int64) {
		if seen[i] = ok; c.Out.Full {
			return
		}
		value := []byte(nil)
		if ok {
			var err error
			value, err = item.String()
			ok = err == nil
		}
		c.Out.Full = !values.set(i, value, ok)
	}, func(t *storage.Txn) { c.countGathered(t, seen) })
	if err != nil {
		return err
	}
	c.Out.Array(len(c.Keys))
	for i := range c.Keys {
		if value, ok := values.get(i); ok {
			c.Out.Bulk(value)
		} else {
			c.Out.Null()
		}
	}
	return nil
}
