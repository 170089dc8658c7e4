package storage

// Change is a key whose value or deadline changed, or that is gone: removed, expired, renamed. An
// observer looks the key up to find out which. A key may be reported several times, or although it
// did not change. Changes to the groups of a stream are reported only where Stream.Signal is
// called.
type Change struct {
	DB int
	// Key is valid during the call only. nil means all keys of the database, which was emptied or
	// exchanged.
	Key []byte
	LSN uint64 // the log position with which the change is durable
	By  uint64 // Txn.By of the transaction that made it
	Due bool   // the key, or elements of it, had expired: no command changed it
	// Same: the value is the same as before, but commands that wait for the key may have an answer
	// now.
	Same bool
}

// Observe calls fn with all later changes; nil ends that. fn is called at the end of each
// transaction that changed something, by the goroutine that ran it and while the shards are still
// locked. So any later transaction on the keys runs after fn, and fn must be quick and must not
// call the store.
func (s *Store) Observe(fn func([]Change)) {
	if fn == nil {
		s.observer.Store(nil)
		return
	}
	s.observer.Store(&fn)
}

// changing notes that the transaction changes a key of a keyspace.
func (t *Txn) changing(space uint32, key []byte) {
	if !t.quiet {
		t.report(space, key, false)
	}
}

// report adds a Change to those for the observer.
func (t *Txn) report(space uint32, key []byte, same bool) {
	if t.s.observer.Load() == nil {
		return
	}
	if n := len(t.changes); n > t.delivered {
		if last := &t.changes[n-1]; string(last.Key) == string(key) &&
			t.s.spaces.ids[last.DB] == space && last.Due == t.shedding && (same || !last.Same) {
			return // records of one value follow each other
		}
	}
	if db := t.s.dbOf(space); db >= 0 && db < t.s.options.Databases {
		if t.changed == nil {
			t.changed = make([]byte, 0, 128) // an empty name is not nil, which stands for all keys
		}
		at := len(t.changed)
		t.changed = append(t.changed, key...)
		t.changes = append(t.changes,
			Change{DB: db, Key: t.changed[at:len(t.changed):len(t.changed)], By: t.By,
				Due: t.shedding, Same: same})
	}
}

// changingAll notes that a database was emptied or exchanged.
func (t *Txn) changingAll(db int) {
	if t.s.observer.Load() != nil {
		t.changes = append(t.changes, Change{DB: db, By: t.By})
	}
}

// News returns the changes since its last call, before the transaction ends: their LSN is not known
// yet. They are valid until the transaction's next operation. End reports them again.
func (t *Txn) News() []Change {
	news := t.changes[t.delivered:]
	t.delivered = len(t.changes)
	return news
}

// Changed reports whether the transaction has changed a key that it has locked, or removed it
// because it was due. It works only while there is an observer.
func (t *Txn) Changed(k Key) bool {
	for i := range t.changes {
		if c := &t.changes[i]; !c.Same && c.DB == k.DB &&
			(c.Key == nil || string(c.Key) == string(k.Name)) {
			return true
		}
	}
	return false
}

// notifyObserver calls the observer with each change; lsn is the transaction's.
func (t *Txn) notifyObserver(lsn uint64) {
	if fn := t.s.observer.Load(); fn != nil {
		for i := range t.changes {
			t.changes[i].LSN = lsn
		}
		(*fn)(t.changes)
	}
	clear(t.changes)
	t.changes, t.changed, t.delivered = t.changes[:0], t.changed[:0], 0
	if cap(t.changed) > maxKept {
		t.changed = nil
	}
	if cap(t.changes) > maxKept/64 {
		t.changes = nil
	}
}
