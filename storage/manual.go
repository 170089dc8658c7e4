package storage

// Manual does the work of the background goroutines of a store that has none (NoBackground), one
// piece with each call. Store.Reap, Checkpoint and Compact are further pieces. It is for tests that
// choose the order of events.
type Manual struct{ s *Store }

// Manual returns the Manual of a store with NoBackground.
func (s *Store) Manual() Manual { return Manual{s} }

// Serve reads the keys that Load has queued.
func (m Manual) Serve() {
	l := &m.s.loads
	l.mu.Lock()
	batch := l.mu.queue
	l.mu.queue = nil
	l.mu.Unlock()
	for _, slow := range m.s.loads.serveBatch(batch) {
		m.s.loads.serve(slow)
	}
}

// ReapSome removes some keys and elements that are due in a shard. If shard is the number of
// shards, it removes keys that are only on disk. It returns how many it has removed, and whether
// more may be due.
func (m Manual) ReapSome(shard int) (n int, more bool) {
	if s := m.s; shard < len(s.shards) {
		return (&source{sh: s.shards[shard], t: s.NewTxn()}).reapDue(s.now(), 0, true)
	}
	return m.s.diskDeadlines.reapDue(m.s.now(), 0, true)
}

// LoadAll reads all keys into memory, as the loader does after a start.
func (m Manual) LoadAll() { m.s.loads.loadAll() }

// Evict removes clean keys from memory, in about one of oneIn slots.
func (m Manual) Evict(oneIn uint64) {
	for _, sh := range m.s.shards {
		for db, p := range sh.mu.parts[:m.s.options.Databases] {
			if p == nil {
				continue
			}
			for _, sl := range p.allUsed() {
				if sl.table.Len() > 0 && m.s.options.Random()%oneIn == 0 {
					m.s.house.evictSlot(sh, db, int(sl.num-p.first))
				}
			}
		}
	}
}

// Leave removes clean runs of streams from memory, about one in oneIn.
func (m Manual) Leave(oneIn uint64) {
	for _, sh := range m.s.shards {
		for _, p := range sh.mu.parts {
			if p == nil {
				continue
			}
			for ref, o := range p.objects.list {
				if o == nil || o.is(stateGone) {
					continue
				}
				if v, ok := streamIn(o.val); ok {
					l := largeStream{p: p, ref: uint32(ref), o: o}
					for done := false; !done; {
						_, done = m.s.house.leaveClean(l, v, 1<<40, func() bool {
							return m.s.options.Random()%oneIn == 0
						})
					}
				}
			}
		}
	}
}

// Room checks whether the disk has room again.
func (m Manual) Room() { m.s.house.lowSpace.Store(m.s.spaceIsLow()) }

// KeepClock does housekeeping's work on the clock: it ends the guard, or keeps its record.
func (m Manual) KeepClock() {
	m.s.guard.keep()
	m.s.background.Wait()
}

// AwaitClock waits until a step back of the wall clock is handled: the store's time is the clock's
// again, unless the clock is a second or less behind.
func (m Manual) AwaitClock() {
	m.s.now()
	m.s.background.Wait()
}
