package storage

import (
	"bytes"
	"errors"
	"fmt"

	"keyp/storage/format"
	"keyp/ttl"
)

// Mirror applies the batches that its leader has logged to a follower's store, one at a time.
// Records have the same effect as at a start. A Mirror is a replay (replay.go), but of a store that
// is in use. So
//
//   - it locks the shards of all that a batch is about before it changes anything, so that readers
//     see the whole batch or nothing of it;
//   - keys that are only on disk are loaded first, as for a transaction;
//   - it replaces a value that has readers without the shard's lock (Pins) by a copy: a batch waits
//     for no reader;
//   - each key that it changes gets the batch's LSN, and is reported to the observer;
//   - a batch that changes the store's own settings, such as policies, takes effect at once
//     (hooks.Follow); other stores read these settings only at a start.
//
// Each batch that adds or removes keys contains their new number (format.RecPopulation), so the
// mirror counts none. Nothing is logged here: the log has the batch already.
//
// Batches come in the order of their LSNs. One goroutine at a time uses a Mirror, and no other one
// changes the store's role meanwhile.
type Mirror struct {
	s    *Store
	t    *Txn
	r    *replay
	need need
}

// ErrDiverged: a batch changes a value that the store lacks, so this follower's data differ from
// its leader's. No more batches can be applied to this store.
var ErrDiverged = errors.New("storage: the store has not what its leader has")

// ErrLeads: the store is a leader's.
var ErrLeads = errors.New("storage: the store is not a follower's")

// mirrorTries is how often a batch tries to find its keys in memory before it loads them with their
// shards locked.
const mirrorTries = 100

// need contains the shards and keys that a batch needs before it is applied.
type need struct {
	mask   uint64 // the shards that it is about
	keys   []neededKey
	system []string // names among the server's own data
}

// neededKey is a key that a batch changes. Its name is part of the batch.
type neededKey struct {
	Key
	stated bool // the first record states the key whole, or that it is gone
}

// Mirror makes the mirror of a follower's store.
func (s *Store) Mirror() *Mirror {
	m := &Mirror{s: s, t: s.NewTxn()}
	r := &recovering{s: s, floor: make([]int64, len(s.shards))}
	m.r = &replay{recovering: r, mirror: m, counts: map[countKey]format.PartCounts{}}
	r.replays = []*replay{m.r}
	r.meeting.init(1)
	return m
}

// Applied returns the LSN of the last batch that a follower's memory has.
func (s *Store) Applied() uint64 { return s.follower.applied.Load() }

// Apply applies a batch whose LSN is lsn. It does nothing for a batch that the store has already.
// The batch may not change meanwhile.
//
// After ErrLeads the store is unchanged. After any other error memory may have a part of the batch:
// the store has failed then.
func (m *Mirror) Apply(lsn uint64, batch []byte) error {
	s := m.s
	if err := s.Err(); err != nil {
		return err
	}
	if lsn <= s.follower.applied.Load() {
		return nil
	}
	err := m.plan(batch)
	if err == nil {
		err = m.begin()
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrLeads):
		return err
	default:
		s.fail(err)
		return err
	}
	if at, err := m.r.batch(batch); err != nil {
		err = fmt.Errorf("storage: a batch of the leader at %d, its record at %d: %w", lsn, at, err)
		s.fail(err) // before anybody sees a part of the batch
		s.unlock(m.t)
		m.t.reset()
		return err
	}
	m.end(lsn, len(batch))
	return nil
}

// plan finds the shards and keys that a batch needs.
func (m *Mirror) plan(batch []byte) error {
	s, n := m.s, &m.need
	*n = need{keys: n.keys[:0], system: n.system[:0]}
	all := uint64(1)<<len(s.shards) - 1
	f := format.Fields{Rest: batch}
	for len(f.Rest) > 0 {
		r := format.ReadRecord(&f)
		if f.Bad {
			return format.ErrBadRecord
		}
		switch r.Tag {
		case format.RecCounts, format.RecPopulation:
			if r.Shard >= uint64(len(s.shards)) {
				return format.ErrBadRecord
			}
			n.mask |= 1 << r.Shard
		case format.RecReaped, format.RecLink:
			// Only a server that is alone logs them: they depend on its memory and data file.
			return fmt.Errorf("%w: tag %d of a server that is alone", format.ErrBadRecord, r.Tag)
		case format.RecFlush, format.RecSwap:
			n.mask = all
		case format.RecTime:
			if r.Time == 0 {
				n.mask = all
			}
		case format.RecMore, format.RecLess:
		default:
			m.needs(r.Tag, r.Space, r.Key)
		}
	}
	for _, name := range n.system {
		if m.s.hooks.ChangesRules(name) {
			n.mask = all
		}
	}
	return nil
}

// needs notes a record about a key. Keyspaces change only by batches, so the mirror may look at
// them.
func (m *Mirror) needs(tag byte, space uint32, name []byte) {
	s, n := m.s, &m.need
	if last := len(n.keys) - 1; last >= 0 && bytes.Equal(n.keys[last].Name, name) &&
		n.keys[last].DB == s.dbOf(space) {
		return
	}
	k := s.Key(s.dbOf(space), name)
	n.mask |= 1 << s.shardOf(k.Slot)
	if k.DB < 0 {
		return // the batch makes the keyspace
	}
	n.keys = append(n.keys, neededKey{k, tag == format.RecPut || tag == format.RecLarge ||
		tag == format.RecDelete})
	if k.DB == s.options.Databases {
		n.system = append(n.system, string(name))
	}
}

// begin loads the batch's keys into memory, and locks the shards that the batch is about.
func (m *Mirror) begin() error {
	s := m.s
	for tries := 0; ; tries++ {
		s.lock(m.t, m.need.mask)
		m.t.takeInstant()
		if !s.Follower() {
			s.unlock(m.t)
			return ErrLeads
		}
		missing := m.missing()
		if len(missing) == 0 {
			return nil
		}
		if tries >= mirrorTries {
			return m.loadLocked(missing)
		}
		s.unlock(m.t)
		for _, k := range missing {
			if err := s.loads.loadKey(k.Key); err != nil && !errors.Is(err, errBusy) &&
				!k.replaces(err) {
				return err
			}
		}
	}
}

// missing returns the keys of the batch that may be only on disk. The caller loads them.
func (m *Mirror) missing() (keys []neededKey) {
	if m.s.partials.Load() == 0 {
		return nil
	}
	for _, k := range m.need.keys {
		if !m.s.resident(k.Key) {
			keys = append(keys, k)
		}
	}
	return keys
}

// replaces reports whether the batch replaces a key that is damaged on disk.
func (k neededKey) replaces(err error) bool { return k.stated && errors.Is(err, ErrCorrupt) }

// loadLocked loads keys with their shards locked. It is for keys that leave memory again and again,
// or are damaged.
func (m *Mirror) loadLocked(keys []neededKey) error {
	for _, k := range keys {
		if err := m.t.Load(k.Key); k.replaces(err) {
			m.s.part(k.Key).forgetDisk()
		} else if err != nil {
			m.s.unlock(m.t)
			return err
		}
	}
	return nil
}

// end completes a batch and makes it visible.
func (m *Mirror) end(lsn uint64, size int) {
	s, t, r := m.s, m.t, m.r
	for at, c := range r.counts {
		if p := s.partOf(c.Space, s.shards[c.Shard]); p != nil {
			p.keys, p.expires = c.Keys, c.Expires
			if c.Timed != format.Unknown {
				p.timed = c.Timed
			}
		}
		delete(r.counts, at)
	}
	if r.timed {
		s.followTime(r.time)
	}
	m.s.hooks.Follow(m.t, m.need.system)
	s.replayCost.Add(r.cost + int64(size)*byteCost)
	s.changes.Add(r.stated)
	r.cost, r.stated, r.timed = 0, 0, false
	t.stamp(t.s, lsn)
	s.follower.applied.Store(lsn)
	if len(t.changes) > 0 {
		t.notifyObserver(lsn)
	}
	if fn := s.onSystem.Load(); fn != nil && len(m.need.system) > 0 {
		(*fn)(m.need.system)
	}
	s.unlock(t)
	t.reset()
}

// OnSystem calls fn with the names of the server's own data that batches of a leader have changed
// (Mirror). It is called while their shards are locked: it must be quick, must not call the store,
// and must not keep the slice.
func (s *Store) OnSystem(fn func(names []string)) { s.onSystem.Store(&fn) }

// A replay calls the methods below on its mirror.

// changed notes a key that was changed.
func (m *Mirror) changed(p *part, sl *slot, c *cell, k Key) {
	m.t.wrotePut(p, sl, *c)
	m.t.changing(p.space, k.Name)
}

// removing notes a key that is about to be removed.
func (m *Mirror) removing(p *part, sl *slot, k Key) {
	t := m.t
	t.gone = append(t.gone, sl)
	if c := p.find(sl, k); exists(c) {
		d := p.deadline(*c)
		t.shedding = d != 0 && d <= t.now
	}
	t.changing(p.space, k.Name)
	t.shedding = false
}

// opening prepares a value for a change in place. It replaces a value that has readers by a copy.
func (m *Mirror) opening(p *part, sl *slot, c *cell, o *Object) {
	if o.read() {
		p.setApart(sl, c, o)
	}
	o.unhide()
	o.unshare(m.t.s)
}

// flushed notes that a database was emptied.
func (m *Mirror) flushed(db int) {
	m.t.flushed()
	m.t.changingAll(db)
}

// swapped notes that two databases were exchanged.
func (m *Mirror) swapped(a, b int) { m.t.noteSwap(a, b) }

// read reports whether offloaded commands read the value.
func (o *Object) read() bool { return o != nil && o.side != nil && o.side.readers > 0 }

// setApart replaces a value that offloaded commands read by a copy; these commands keep the
// original.
func (p *part) setApart(sl *slot, c *cell, o *Object) {
	was := o.due()
	o.val = o.val.Clone()
	o.side.readers, o.side.pins = 0, 0
	o.setDue(o.whole().Earliest())
	p.setIndex(p.id(sl, *c), was, o.due())
}

// followTime sets the store's time to the one that its leader has logged. 0 means that the leader's
// time has followed its clock back; then all shards are locked.
func (s *Store) followTime(at int64) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	s.shown.at.Store(at)
	if at != 0 {
		RaiseTo(&s.instant, at)
		return
	}
	was, now := s.instant.Load(), s.reading()
	if now < was {
		s.goBack(was, now)
		s.guard.SteppedBack()
	}
}

// unhideDue puts elements back that were due by an instant.
func (p *part) unhideDue(by int64) {
	p.index.Walk(0, func(e ttl.Entry) bool {
		if e.Deadline > by {
			return false
		}
		if _, c, _ := p.byID(e.ID); c != nil {
			if o := p.objectOf(*c); o != nil && !o.read() {
				o.unhide()
			}
		}
		return true
	})
}
