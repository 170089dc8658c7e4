package storage

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"

	"keyp/internal/pieces"
	"keyp/storage/format"
	"keyp/storage/object"
)

// A command that writes very many keys is one change, which nobody may see in part. To do all of it with their
// shards locked takes tens of milliseconds. Instead:
//
//   - Before, the caller looks the keys up, some at a time, and notes what it finds (See): that prepares the records.
//   - When all shards are locked, and what was noted is so, Install adds the records to the transaction, with what is
//     reported of the keys. That touches no key.
//   - End appends the batch. Then it is as in a replay: memory becomes what the log says, a shard after the other. Each
//     is unlocked as soon as it is done, those first that somebody waits for.
//
// A shard is locked from the instant until it is as it should be, so nobody sees a key as it was before. Transactions
// in shards that are unlocked already come after this one: their batches are behind its own in the log.

// Many writes very many keys of one database: it deletes them, or gives each a string.
type Many struct {
	s      *Store
	keys   []Key
	values [][]byte // by number of the key; nil: the keys are deleted
	seen   []seenKey
	// order has the numbers of the keys in the order of slots; of a key that is named several times the last.
	order  []int
	from   []int // by shard: where its keys begin in order; the last is their end
	states *Txn  // has the records
	space  uint32
	stale  bool            // there is a record of a key that has all of its elements due by now
	large  map[int]*Object // values that need no block
}

// seenKey is what is known of a key.
type seenKey struct {
	there  bool // memory has it
	live   bool // and not all of it is due
	timed  bool // it has a deadline
	stated bool // there is a record of it
	typ    object.Type
	// again: the key was named before. last is where it is named last, and there is what is known of it.
	again bool
	last  int
}

// NewMany prepares to delete keys, all of one database, or to give them values, which stay as they are until the
// transaction has ended.
func (s *Store) NewMany(keys []Key, values [][]byte) *Many {
	m := &Many{s: s, keys: keys, values: values, seen: make([]seenKey, len(keys)), states: s.NewTxn(), large: map[int]*Object{}}
	m.sort()
	for i, value := range values {
		if m.seen[i].last == i && !isSmall(keys[i].Name, value) {
			m.large[i] = m.states.newObject(keys[i], &object.String{Data: pieces.Clone(value)})
		}
	}
	return m
}

// sort finds the order of keys, and those that are named several times.
func (m *Many) sort() {
	type place struct {
		at uint64 // slot and hash
		i  int
	}
	all := make([]place, len(m.keys))
	for i := range all {
		k := &m.keys[i]
		all[i] = place{uint64(k.Slot)<<48 | k.Hash>>16, i}
	}
	slices.SortFunc(all, func(x, y place) int {
		if x.at != y.at {
			return cmp.Compare(x.at, y.at)
		}
		return cmp.Or(bytes.Compare(m.keys[x.i].Name, m.keys[y.i].Name), cmp.Compare(x.i, y.i))
	})
	for n := len(all) - 1; n >= 0; n-- {
		i, last := all[n].i, all[n].i
		if n+1 < len(all) && all[n+1].at == all[n].at && bytes.Equal(m.keys[i].Name, m.keys[all[n+1].i].Name) {
			m.seen[all[n+1].i].again = true
			last = m.seen[all[n+1].i].last
		} else {
			m.order = append(m.order, i)
		}
		m.seen[i].last = last
	}
	slices.Reverse(m.order)
	m.from = make([]int, len(m.s.shards)+1)
	for _, i := range m.order {
		m.from[m.s.shardOf(m.keys[i].Slot)+1]++
	}
	for shard := range m.s.shards {
		m.from[shard+1] += m.from[shard]
	}
}

// See notes what a transaction that has the shard of key i locked has found; live is false if there is no such key for
// commands. A key that changes afterwards, or whose database is emptied or exchanged, must be seen again. It returns the
// last number that the key has.
func (m *Many) See(i int, item Item, live bool) (last int) {
	i = m.seen[i].last
	k, had := &m.keys[i], &m.seen[i]
	if space := m.s.spaces.ids[k.DB]; space != m.space {
		m.space, m.states = space, m.s.NewTxn() // all keys are seen again
		for n := range m.seen {
			m.seen[n].stated = false
		}
	}
	if had.there, had.live, had.timed = item.b != nil || item.o != nil, live, false; had.there {
		had.timed, had.typ = item.Deadline() != 0, item.Type()
	}
	if had.stated && had.there && !live && m.values == nil {
		m.stale = true // it counts until its elements are removed
	}
	if !had.stated && (live || m.values != nil) {
		had.stated = true
		m.state(i)
	}
	return i
}

// restate makes the records again.
func (m *Many) restate() {
	m.states = m.s.NewTxn()
	for _, i := range m.order {
		if m.seen[i].live || m.values != nil {
			m.state(i)
		}
	}
}

// state makes the record of a key.
func (m *Many) state(i int) {
	t, name := m.states, m.keys[i].Name
	switch o := m.large[i]; {
	case m.values == nil:
		t.stateKey(format.RecDelete, m.space, name)
	case o != nil:
		t.stateObject(m.space, o, 0, 0)
	default:
		t.stateKey(format.RecPut, m.space, name)
		t.buf = format.AppendDeadline(t.buf, 0, 0)
		t.buf = format.AppendBytes(t.buf, m.values[i])
	}
}

// Each gives the numbers of the keys that are to be seen, each key's once, in the order in which that is fastest.
func (m *Many) Each() []int { return m.order }

// Live is how many of the keys there are.
func (m *Many) Live() (n int64) {
	for _, i := range m.order {
		if m.seen[i].live {
			n++
		}
	}
	return n
}

// Install adds the writes to the transaction, which BeginMany began and which changes nothing more: its End makes
// them. Each key that there is gets event.
func (t *Txn) Install(m *Many, event Event) {
	if m.stale {
		m.restate()
	}
	if m.values != nil && len(t.s.outbox.rules.Load().of(m.keys[0].DB)) > 0 {
		for _, i := range m.order {
			if m.seen[i].there {
				t.reportReplaced(m.keys[i])
			}
		}
	}
	t.many = m // from here on, so that memory follows the batch after a panic too
	if len(t.buf) > 0 {
		t.before.add(t.buf)
		t.buf = nil
	}
	for _, piece := range m.states.takeBatch() {
		t.before.add(piece)
	}
	t.cost, t.stated, t.logged = t.cost+m.states.cost, t.stated+m.states.stated, 0
	for shard := range t.s.shards {
		m.count(t, shard)
	}
	if t.s.observer.Load() != nil || t.s.eventMask.Load() != 0 {
		m.report(t, event)
	}
}

// count counts the keys of a shard as they will be.
func (m *Many) count(t *Txn, shard int) {
	var keys, expires int64
	for _, i := range m.order[m.from[shard]:m.from[shard+1]] {
		switch had := &m.seen[i]; {
		case m.values == nil && !had.live:
			continue
		case m.values == nil:
			keys--
		case !had.there:
			keys++
		}
		if m.seen[i].timed {
			expires--
		}
	}
	if keys == 0 && expires == 0 {
		return
	}
	sh, db := t.s.shards[shard], m.keys[0].DB
	p := sh.mu.parts[db]
	if p == nil {
		p = sh.makePart(db)
	}
	p.keys, p.expires = p.keys+keys, p.expires+expires
	t.counted(p)
}

// report reports the changes, and raises the events, in the order in which the keys are named.
func (m *Many) report(t *Txn, event Event) {
	for i := range m.keys {
		k, again, had := m.keys[i], m.seen[i].again, &m.seen[m.seen[i].last]
		if m.values == nil && (!had.live || again) {
			continue
		}
		t.changing(m.space, k.Name)
		switch {
		case m.values == nil:
		case again:
			t.Overwrote(k, object.TypeString, object.TypeString)
		case had.live:
			t.Overwrote(k, had.typ, object.TypeString)
		default:
			t.Notify(k, New)
		}
		t.Notify(k, event)
	}
}

// apply makes memory what the batch says, which has an LSN by now, and unlocks each shard.
func (m *Many) apply(t *Txn, lsn uint64) {
	for t.mask != 0 {
		shard := bits.TrailingZeros64(t.mask)
		for rest := t.mask; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros64(rest); m.from[i] == m.from[i+1] || m.s.shards[i].mu.wanted() {
				shard = i
				break
			}
		}
		m.applyTo(t, shard, lsn)
		m.s.shards[shard].mu.Unlock()
		t.mask &^= 1 << shard
	}
}

func (m *Many) applyTo(t *Txn, shard int, lsn uint64) {
	p := m.s.shards[shard].mu.parts[m.keys[0].DB]
	if p == nil || m.from[shard] == m.from[shard+1] {
		return
	}
	keys, expires := p.keys, p.expires // Install has counted
	var some [PrefetchKeys]Key
	for numbers := range slices.Chunk(m.order[m.from[shard]:m.from[shard+1]], PrefetchKeys) {
		for n, i := range numbers {
			some[n] = m.keys[i]
		}
		m.s.prefetchKeys(some[:len(numbers)], 1<<shard)
		for n, i := range numbers {
			if m.values != nil {
				m.set(t, p, some[n], i, lsn)
			} else if m.seen[i].live {
				m.remove(p, some[n], lsn)
			}
		}
	}
	p.keys, p.expires = keys, expires
}

// remove removes a key. One that was evicted since it was seen is only in the data file: a tombstone removes it, without a read.
func (m *Many) remove(p *part, k Key, lsn uint64) {
	sl := p.slot(k)
	if c := p.find(sl, k); c != nil {
		p.remove(sl, c)
	} else {
		p.forgetDisk()
		p.tombstone(sl, k)
	}
	sl.lastDelete = lsn
}

// set gives a key its value. As to what has left memory, see remove.
func (m *Many) set(t *Txn, p *part, k Key, i int, lsn uint64) {
	sl := p.slot(k)
	c := p.find(sl, k)
	onDisk := c == nil && m.seen[i].there
	if onDisk {
		p.forgetDisk()
	}
	access := t.written(p, c)
	if o := m.large[i]; o != nil {
		c = p.putObject(nil, sl, c, k, o, 0)
	} else {
		c = p.putSmall(nil, sl, c, k, m.values[i], 0)
	}
	p.setHeader(*c, 0, 0, access)
	if onDisk {
		*p.flags(*c) |= flagDisk
	}
	if o := p.objectOf(*c); o != nil {
		o.lsn = lsn
	} else {
		p.slabs.at(c.ref()).setLSN(lsn)
	}
}
