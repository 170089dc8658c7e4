package storage

// Change is a key whose value or deadline changed, or that was removed, expired or renamed. An
// observer looks the key up to find out what happened. A key may be reported several times, or
// although it did not change. Changes to the groups of a stream are reported only where
// Stream.Signal is called.
type Change struct {
	DB int
	// Key is valid during the call only. nil means all keys of the database, which was emptied or
	// exchanged.
	Key []byte
	LSN uint64 // the log position with which the change is durable
	By  uint64 // Txn.By of the transaction that made it
	Due bool   // the key, or elements of it, had expired: no command changed it
	// Same: the value is the same as before, but commands that wait for the key may be able to
	// reply now.
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

// changing reports to the observer that the transaction changes a key of a keyspace, unless the
// transaction is quiet.
func (r *txnReports) changing(space uint32, key []byte) {
	if !r.quiet {
		r.report(space, key, false)
	}
}

// report adds a Change to the list for the observer, unless it repeats the last one of the list.
func (r *txnReports) report(space uint32, key []byte, same bool) {
	if r.s.observer.Load() == nil {
		return
	}
	if n := len(r.changes); n > r.delivered {
		if last := &r.changes[n-1]; string(last.Key) == string(key) &&
			r.s.spaces.ids[last.DB] == space && last.Due == r.shedding && (same || !last.Same) {
			return // records of one value follow each other
		}
	}
	if db := r.s.dbOf(space); db >= 0 && db < r.s.options.Databases {
		if r.changed == nil {
			r.changed = make([]byte, 0, 128) // an empty name is not nil, which stands for all keys
		}
		at := len(r.changed)
		r.changed = append(r.changed, key...)
		r.changes = append(r.changes,
			Change{DB: db, Key: r.changed[at:len(r.changed):len(r.changed)], By: r.By,
				Due: r.shedding, Same: same})
	}
}

// changingAll notes that a database was emptied or exchanged.
func (r *txnReports) changingAll(db int) {
	if r.s.observer.Load() != nil {
		r.changes = append(r.changes, Change{DB: db, By: r.By})
	}
}

// News returns the changes since its last call, before the transaction ends: their LSN is not known
// yet. They are valid until the transaction's next operation. End reports them again.
func (r *txnReports) News() []Change {
	news := r.changes[r.delivered:]
	r.delivered = len(r.changes)
	return news
}

// Changed reports whether the transaction has changed a key that it has locked, or removed it
// because it was due. It works only while there is an observer.
func (r *txnReports) Changed(k Key) bool {
	for i := range r.changes {
		if c := &r.changes[i]; !c.Same && c.DB == k.DB &&
			(c.Key == nil || string(c.Key) == string(k.Name)) {
			return true
		}
	}
	return false
}

// notifyObserver calls the observer with each change; lsn is the transaction's.
func (r *txnReports) notifyObserver(lsn uint64) {
	if fn := r.s.observer.Load(); fn != nil {
		for i := range r.changes {
			r.changes[i].LSN = lsn
		}
		(*fn)(r.changes)
	}
	clear(r.changes)
	r.changes, r.changed, r.delivered = r.changes[:0], r.changed[:0], 0
	if cap(r.changed) > maxKept {
		r.changed = nil
	}
	if cap(r.changes) > maxKept/64 {
		r.changes = nil
	}
}
