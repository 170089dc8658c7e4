package storage

import (
	"errors"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
)

// A stream stores its entries in runs (object.Stream). Runs whose entries are all in the data file
// may leave memory while the stream stays. So a stream may be larger than memory:
//
//   - Housekeeping removes runs from memory (leaveRuns), the least recently used first, instead of
//     the keys of large streams.
//   - A command says which runs it needs (Missing) before it changes anything. A loader reads them
//     outside of the loop, like keys that are only on disk (Load). If the command cannot run again,
//     they are read at once (LoadRuns).
//   - A command that reads a whole stream reads one run after the other, and does not keep them.
//
// A run is clean, and may leave, if
//
//   - the data file has a record for each of the stream's elements, and none of the run's elements
//     has changed since (unsaved), and
//   - no checkpoint is about to write elements of the stream (copying).
//
// A changed run is in memory, and is not clean before a checkpoint has copied it again. So the data
// file's copy of an absent run is current until the value is deleted.

// runFile reads the absent runs of a stream.
type runFile struct {
	s  *Store
	id uint64 // the value's
}

// ReadRun calls fn for each element of a run in the data file (object.RunSource).
func (f *runFile) ReadRun(first, last int64, fn func(number int64, val []byte) error) error {
	f.s.stats.Loads.Add(1)
	key := object.ListKey(first)
	err := f.s.file.View(func(tx *bolt.Tx) error {
		return datafile.EachElement(tx, f.id, key[:], func(elem, val []byte, _ int64) error {
			if len(elem) != len(key) || object.ListNumber(elem) > last {
				return datafile.ErrEnough
			}
			return fn(object.ListNumber(elem), val)
		})
	})
	if err != nil {
		err = f.Wrong(err)
	}
	return err
}

// Wrong returns err with the value that it is about (object.RunSource).
func (f *runFile) Wrong(err error) error { return datafile.BadElement(f.id, err) }

// streamIn returns a value as a stream; false: it is none.
func streamIn(v object.Value) (*object.Stream, bool) {
	s, ok := v.(*object.Stream)
	return s, ok
}

// runFileOf returns the reader of a value's absent runs, and makes it if missing.
func (s *Store) runFileOf(id uint64, v *object.Stream) *runFile {
	if f, ok := v.Source().(*runFile); ok {
		return f
	}
	f := &runFile{s: s, id: id}
	v.SetSource(f)
	return f
}

// ownValue prepares a value for another key or another generation. It reads absent runs into
// memory, because the data file has them under the old value.
func ownValue(v object.Value) object.Value {
	if s, ok := streamIn(v); ok {
		s.Whole()
	}
	return v
}

// Runs are runs of a stream that are not in memory.
type Runs struct {
	Key   Key
	First []int64 // where they begin
}

// Cold reports whether some of the stream's runs are not in memory and may be loaded. Then the
// value's Wanted methods say which ones are needed. Nothing is loaded into a value that offloaded
// commands read.
func (s *Stream) Cold() bool {
	if s.t.Offloaded() {
		return false
	}
	o := s.object()
	if o == nil || o.read() {
		return false
	}
	v, ok := streamIn(o.val)
	if !ok {
		return false
	}
	absent, _ := v.Absent()
	return absent > 0
}

// Missing returns the runs of the stream, which is Cold, that begin at the numbers first.
func (s *Stream) Missing(first []int64) Runs { return Runs{s.k, first} }

// LoadRuns reads runs into memory while the transaction has their shard locked, and others wait.
func (t *Txn) LoadRuns(w Runs) error {
	err := t.TryRuns(w)
	if err != nil {
		t.s.loads.failed(w.Key, err)
	}
	return err
}

// TryRuns is LoadRuns for callers that continue if some runs cannot be read: it logs nothing.
func (t *Txn) TryRuns(w Runs) error {
	for _, first := range w.First {
		p, c, v := t.s.streamAt(w.Key)
		if v == nil {
			return nil
		}
		r := v.BeginRead(first)
		if r == nil {
			continue
		}
		if err := r.Read(); err != nil {
			return err
		}
		v.EndRead(r)
		p.grew(c, p.objectOf(*c))
	}
	return nil
}

// streamAt finds a key's stream whose runs may be read into memory. It is nil if there is none, or
// if offloaded commands read it.
func (s *Store) streamAt(k Key) (*part, *cell, *object.Stream) {
	p := s.part(k)
	if p == nil {
		return nil, nil, nil
	}
	c := p.find(p.slot(k), k)
	if !exists(c) {
		return nil, nil, nil
	}
	o := p.objectOf(*c)
	if o == nil || o.read() {
		return nil, nil, nil
	}
	v, _ := streamIn(o.val)
	return p, c, v
}

// grew notes that memory has more, or less, of an unchanged value than before.
func (p *part) grew(c *cell, o *Object) {
	delta := o.measure()
	p.objects.bytes += delta
	if c.Is(hashtable.Dirty) {
		p.dirty += delta
	}
	p.objects.noteLarge(c.Ref(), o)
}

// loadRuns reads runs while others use their shard.
func (l *loads) loadRuns(w Runs) error {
	sh := l.s.shards[l.s.shardOf(w.Key.Slot)]
	for _, first := range w.First {
		if !sh.lockPassingGlobal() {
			return nil // the command tries again, and finds the shard locked
		}
		_, _, v := l.s.streamAt(w.Key)
		var r *object.RunRead
		if v != nil {
			r = v.BeginRead(first)
		}
		sh.mu.Unlock()
		if r == nil {
			continue
		}
		err := r.Read()
		if !sh.lockPassingGlobal() {
			return nil
		}
		p, c, now := l.s.streamAt(w.Key)
		there := now == v && v.EndRead(r)
		if there {
			p.grew(c, p.objectOf(*c))
		}
		sh.mu.Unlock()
		if there && err != nil {
			l.failed(w.Key, err)
			return err
		}
	}
	return nil
}

// Reread reports whether an offloaded command must run again because it could not read its keys
// (object.ReadError). The command must run again if a key was removed or has another value now.
// Then the data file may have lost the old data.
func (t *Txn) Reread(err error) bool {
	var read *object.ReadError
	return errors.As(err, &read) && t.Offloaded() && !t.validate()
}

// largeRuns is the size in bytes from which on runs of a stream leave memory one by one. Its key
// leaves only if that is not enough.
const largeRuns = 256 << 10

// noteLarge notes an object that is large, if runs of it may leave memory.
func (s *objects) noteLarge(ref uint32, o *Object) {
	if o.bytes() < largeRuns {
		return
	}
	if _, ok := streamIn(o.val); ok {
		if s.large == nil {
			s.large = map[uint32]struct{}{}
		}
		s.large[ref] = struct{}{}
	}
}

// owed returns about how many bytes of a dirty stream that is stored by element the data file
// lacks.
func (o *Object) owed() int64 {
	v, ok := streamIn(o.val)
	if !ok || !o.is(stateStored) || o.side == nil || o.side.rest {
		return int64(o.bytes())
	}
	absent, _ := v.Absent()
	each := o.bytes() / max(v.Len()-absent, 1)
	return int64(min(o.bytes(), each*(o.side.changed.Count()+o.side.frozen.Count())))
}

// cleanInDirty returns about how many bytes of the dirty large streams the data file already has.
// p.dirty counts all bytes of these streams.
func (p *part) cleanInDirty() (n int64) {
	for ref := range p.objects.large {
		o := p.objects.list[ref]
		if _, c, found := p.cellAt(o.name(), ref, hashtable.Obj); found && c.Is(hashtable.Dirty) &&
			!c.Is(hashtable.Tomb) {
			n += int64(o.bytes()) - o.owed()
		}
	}
	return n
}

// largeStream is a stream whose runs may leave memory.
type largeStream struct {
	p     *part
	ref   uint32
	o     *Object
	bytes int64
}

// leaveRuns removes runs of large streams from memory. Each stream loses its share of the excess.
func (h *housekeeper) leaveRuns(excess int64) (left int64) {
	var list []largeStream
	total := int64(0)
	for _, sh := range h.s.shards {
		if !sh.lockPassingGlobal() {
			continue
		}
		for _, p := range sh.mu.parts {
			if p == nil {
				continue
			}
			for ref := range p.objects.large {
				o := p.objects.list[ref]
				list = append(list, largeStream{p, ref, o, int64(o.bytes())})
				total += int64(o.bytes())
			}
		}
		sh.mu.Unlock()
	}
	if total == 0 {
		return 0
	}
	slices.SortFunc(list, func(a, b largeStream) int { return int(b.bytes - a.bytes) })
	share := min(float64(excess)*float64(total)/float64(max(h.memory.Load(), total)),
		float64(excess))
	if other := h.memory.Load() - total; other < total/8 {
		share = float64(excess)
	}
	for _, l := range list {
		enough := int64(share * float64(l.bytes) / float64(total))
		for freed, done := int64(0), 0; freed <= enough && done < 2 && h.s.quit.Err() == nil; {
			n, last := h.leaveSome(l, int(enough-freed)+1)
			if last {
				done++ // the first time some had been used since they were looked at
			}
			freed += n
			left += n
		}
	}
	return left
}

// leaveSome is a step of leaveRuns, and reports whether it has come to the last run.
func (h *housekeeper) leaveSome(l largeStream, enough int) (freed int64, last bool) {
	sh := l.p.shard
	if !sh.lockPassingGlobal() {
		return 0, true
	}
	defer sh.mu.Unlock()
	p, o := l.p, l.o
	if p.dead || int(l.ref) >= len(p.objects.list) || p.objects.list[l.ref] != o {
		return 0, true
	}
	v, _ := streamIn(o.val)
	if absent, _ := v.Absent(); absent == 0 && o.bytes() < largeRuns {
		delete(p.objects.large, l.ref)
		return 0, true
	}
	return h.leaveClean(l, v, enough, func() bool { return true })
}

// leaveClean removes from memory the clean runs that chosen selects. Their shard is locked.
func (h *housekeeper) leaveClean(l largeStream, v *object.Stream, enough int,
	chosen func() bool) (freed int64, last bool) {
	o := l.o
	_, c, found := l.p.cellAt(o.name(), l.ref, hashtable.Obj)
	if !found || !h.mayLeaveRuns(o, v) {
		return 0, true
	}
	n, last := v.Leave(enough, func(first, last int64) bool {
		return chosen() && (o.side == nil ||
			!o.side.changed.Touches(first, last) && !o.side.frozen.Touches(first, last))
	})
	l.p.grew(c, o)
	return int64(n), last
}

// mayLeaveRuns reports whether clean runs of a stream may leave memory.
func (h *housekeeper) mayLeaveRuns(o *Object, v *object.Stream) bool {
	if !o.is(stateStored) || o.is(stateOpen) || o.read() ||
		o.side != nil && (o.side.rest || o.side.hidden != nil) {
		return false
	}
	h.s.runFileOf(o.id, v) // nobody reads v beside others
	return !h.s.checkpointer.copying.has(o.id)
}

// copying is the set of streams with elements in the checkpoint's present batch.
type copying struct {
	mu struct {
		sync.Mutex
		ids map[uint64]struct{}
	}
}

func (c *copying) add(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ids == nil {
		c.mu.ids = map[uint64]struct{}{}
	}
	c.mu.ids[id] = struct{}{}
}

// reset is called when the batch is written, or its elements are noted as unwritten again.
func (c *copying) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.mu.ids)
}

func (c *copying) has(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.mu.ids[id]
	return ok
}

// keepsKey reports whether an object is a stream whose runs leave memory instead of its key.
func (p *part) keepsKey(c cell) bool {
	_, large := p.objects.large[c.Ref()]
	return large && c.Is(hashtable.Obj)
}

// trimLoaded bounds the memory of a stream that is being read from the data file in the order of
// its elements.
func (l *loads) trimLoaded(id uint64, v object.Value) {
	s, ok := streamIn(v)
	limit := l.s.maxMemory.Load()
	if !ok || limit == 0 || int64(s.InRuns()) < max(limit/loadedShare, l.s.bounds.loadedRuns) {
		return
	}
	l.s.runFileOf(id, s)
	for done := false; !done; {
		_, done = s.Leave(int(limit), func(int64, int64) bool { return true })
	}
}

// loadedShare: entries of a stream that is being read may take MaxMemory/loadedShare.
const loadedShare = 64

// readPart is readResident for a record whose value the log may change further.
func (l *loads) readPart(tx *bolt.Tx, m *format.Image) (resident, error) {
	if m.Inline || m.Type != object.TypeStream {
		return readResident(tx, m)
	}
	v, err := l.readTrimmed(tx, m.Type, m.ID)
	if err != nil {
		return resident{}, err
	}
	return resident{deadline: m.Deadline, created: m.Created, badTime: m.BadTime,
		object: objectFrom(m, v)}, nil
}

// readTrimmed is readElements, but not all elements stay in memory if they are very many.
func (l *loads) readTrimmed(tx *bolt.Tx, typ object.Type, id uint64) (object.Value, error) {
	v, n := object.New(typ), 0
	err := datafile.EachElement(tx, id, nil, func(elem, val []byte, deadline int64) error {
		if n++; n%l.s.bounds.stretch == 0 {
			l.trimLoaded(id, v)
		}
		return v.Put(elem, val, deadline)
	})
	if err != nil {
		return nil, datafile.BadElement(id, err)
	}
	return v, nil
}
