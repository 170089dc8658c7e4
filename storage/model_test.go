package storage

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/storage/clockguard"
	"keyp/storage/datafile"
	"keyp/storage/object"
	"keyp/storage/slab"
	"keyp/ttl"
)

// TestModel runs random operations on the store and on a map, and compares all keys, values and
// deadlines. Between the operations there are checkpoints, evictions, loads, clock steps, clean
// restarts and crashes.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var h *harness
		if rapid.Bool().Draw(rt, "member") { // its log names all that expires
			h, _ = memberHarness(t)
			h.open()
		} else {
			h = newHarness(t)
		}
		h.t = failer{t, rt}
		h.jumpLimit, h.jumpPatience = testJump*time.Millisecond, time.Hour
		h.portions = rapid.Bool().Draw(rt, "portions")
		h.slabChunks = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "slabChunks")
		h.reopen()
		m := &machine{h: h, rt: rt, names: map[name]bool{},
			rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		for key := range 12 {
			for db := range 3 {
				m.names[name{db, keyName(key)}] = true
			}
		}
		defer func() { h.s.Close(false) }()
		rt.Repeat(map[string]func(*rapid.T){
			"set": m.set, "range": m.writeRange, "deadline": m.deadline, "delete": m.delete,
			"elements": m.elements, "fill": m.fill, "thin": m.thin, "replace": m.replace,
			"rename": m.rename, "copy": m.copy, "many": m.many, "flush": m.flush, "swap": m.swap,
			"advance": m.advance, "stepBack": m.stepBack, "stepForward": m.stepForward,
			"stepEnds": m.stepEnds, "reap": m.reap, "reapOne": m.reapOne, "evict": m.evict,
			"leave":      m.leave,
			"moveBlocks": m.moveBlocks, "copyObjects": m.copyObjects,
			"loadAll": m.loadAll, "checkpoint": m.checkpoint, "interrupted": m.interrupted,
			"disturbed": m.disturbed,
			"commit":    func(*rapid.T) { h.commit() }, "compact": m.compact,
			"walk": m.walk, "follow": m.follow, "reopen": func(*rapid.T) {
				h.reopen()
			}, "crash": func(*rapid.T) { h.crash(m.rng, m.names) },
			"": func(*rapid.T) {
				if m.rng.IntN(2) == 0 {
					m.leave(rt)
				}
				h.verify(m.names)
			},
		})
	})
}

// failer fails the rapid run, so that rapid shrinks it. For everything else it is the test.
type failer struct {
	testing.TB
	rt *rapid.T
}

func (f failer) Fatalf(format string, args ...any) { f.rt.Fatalf(format, args...) }

// keyName returns keys of several kinds. Some share a slot, one is longer than a slab block can be,
// and one is longer than bbolt allows. The slots of long names come from their tags, as hashing a
// long name with the race detector takes longer than the store's work.
func keyName(n int) string {
	switch {
	case n < 6:
		return fmt.Sprintf("{tag}%d", n)
	case n == 6:
		return "{long}" + strings.Repeat("long", 2000)
	case n == 7:
		return "{longer}" + strings.Repeat("longer", 8000)
	default:
		return fmt.Sprintf("key%d", n)
	}
}

type machine struct {
	h     *harness
	rt    *rapid.T
	names map[name]bool
	rng   *rand.Rand
	// guards counts the clock steps that made a guard begin.
	guards int64
	// granted is the last token of a lease.
	granted uint64
}

func (m *machine) name(rt *rapid.T, label string) name {
	return name{rapid.IntRange(0, 2).Draw(rt, label+"DB"),
		keyName(rapid.IntRange(0, 11).Draw(rt, label))}
}

func (m *machine) key(n name) Key { return m.h.s.Key(n.db, []byte(n.key)) }

// get returns the model's live value.
func (m *machine) get(n name) (value, bool) {
	v, ok := model{n: m.h.model[n]}.live(m.h.now())[n]
	_, known := m.h.model[n]
	return v, ok && known
}

func (m *machine) drawDeadline(rt *rapid.T) int64 {
	if rapid.Bool().Draw(rt, "persistent") {
		return 0
	}
	if rapid.Bool().Draw(rt, "shared") { // by many keys
		return m.tagged(m.h.now()/2000*2000+rapid.SampledFrom([]int64{2000, 4000}).Draw(rt,
			"instant"), m.h.ahead != 0)
	}
	relative := m.h.ahead != 0 && rapid.Bool().Draw(rt, "relative")
	return m.tagged(m.h.now()+rapid.Int64Range(1, 5000).Draw(rt, "ttl"), relative)
}

func (m *machine) data(rt *rapid.T) string {
	size := rapid.SampledFrom([]int{0, 1, 20, 100, 300, 4000, 5000, 9000, 40000}).Draw(rt, "size")
	return strings.Repeat(string(rune('a'+rapid.IntRange(0, 25).Draw(rt, "letter"))), size)
}

func (m *machine) set(rt *rapid.T) {
	n, data, deadline := m.name(rt, "key"), m.data(rt), m.drawDeadline(rt)
	m.h.model[n] = value{data: data, deadline: deadline}
	m.h.do(func(t *Txn) {
		t.SetString(m.key(n), []byte(data), m.given(deadline), Event{EventString, "set"})
	}, m.key(n))
}

func (m *machine) writeRange(rt *rapid.T) {
	n, data := m.name(rt, "key"), m.data(rt)
	off := rapid.IntRange(0, 20000).Draw(rt, "offset")
	v, ok := m.get(n)
	if !ok {
		v = value{}
	}
	if v.coll != nil {
		return
	}
	old := []byte(v.data)
	if need := off + len(data); need > len(old) {
		old = append(old, make([]byte, need-len(old))...)
	}
	copy(old[off:], data)
	m.h.model[n] = value{data: string(old), deadline: v.deadline}
	m.h.do(func(t *Txn) {
		if got := t.WriteRange(m.key(n), off, []byte(data),
			Event{EventString, "setrange"}); got != len(old) {
			rt.Fatalf("WriteRange gave %d, want %d", got, len(old))
		}
	}, m.key(n))
}

func (m *machine) deadline(rt *rapid.T) {
	n, deadline := m.name(rt, "key"), m.drawDeadline(rt)
	v, ok := m.get(n)
	if ok {
		m.h.model[n] = value{data: v.data, deadline: deadline, coll: v.coll}
	}
	m.h.do(func(t *Txn) {
		if got := t.SetDeadline(m.key(n), m.given(deadline),
			Event{EventGeneric, "expire"}); got != ok {
			rt.Fatalf("SetDeadline gave %t, want %t", got, ok)
		}
	}, m.key(n))
}

func (m *machine) delete(rt *rapid.T) {
	n := m.name(rt, "key")
	_, ok := m.get(n)
	delete(m.h.model, n)
	m.h.do(func(t *Txn) {
		if got := t.Delete(m.key(n), Deleted); got != ok {
			rt.Fatalf("Delete gave %t, want %t", got, ok)
		}
	}, m.key(n))
}

func (m *machine) rename(rt *rapid.T) {
	from, to := m.name(rt, "from"), m.name(rt, "to")
	if from == to {
		return
	}
	v, ok := m.get(from)
	if ok {
		delete(m.h.model, from)
		m.h.model[to] = v
	}
	m.h.do(func(t *Txn) {
		if got := t.Rename(m.key(from), m.key(to)); got != ok {
			rt.Fatalf("Rename gave %t, want %t", got, ok)
		}
	}, m.key(from), m.key(to))
}

func (m *machine) copy(rt *rapid.T) {
	from, to := m.name(rt, "from"), m.name(rt, "to")
	if from == to {
		return
	}
	v, ok := m.get(from)
	if ok {
		m.h.model[to] = v
	}
	m.h.do(func(t *Txn) {
		if got := t.Copy(m.key(from), m.key(to)); got != ok {
			rt.Fatalf("Copy gave %t, want %t", got, ok)
		}
	}, m.key(from), m.key(to))
}

func (m *machine) flush(rt *rapid.T) {
	db := rapid.IntRange(0, 2).Draw(rt, "db")
	for n := range m.h.model {
		if n.db == db {
			delete(m.h.model, n)
		}
	}
	m.h.doAll(func(t *Txn) { t.FlushDB(db) })
}

func (m *machine) swap(rt *rapid.T) {
	a, b := rapid.IntRange(0, 2).Draw(rt, "a"), rapid.IntRange(0, 2).Draw(rt, "b")
	swapped := model{}
	for n, v := range m.h.model {
		switch n.db {
		case a:
			n.db = b
		case b:
			n.db = a
		}
		swapped[n] = v
	}
	m.h.model = swapped
	m.h.doAll(func(t *Txn) { t.SwapDB(a, b) })
}

func (m *machine) advance(rt *rapid.T) {
	m.h.clock.Advance(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "ms")) * time.Millisecond)
}

// stepBack moves the wall clock back. Expired keys stay gone.
func (m *machine) stepBack(rt *rapid.T) {
	h := m.h
	h.s.now()
	h.model = h.model.live(h.now())
	h.changed()
	m.back(h.now() - rapid.Int64Range(1500, 6000).Draw(rt, "ms"))
	h.s.now() // sees the step
	if h.member && h.ahead == 0 && h.s.ClockGuard().Since != 0 {
		// A group's time does not go back before an operator confirms that.
		if err := h.s.ConfirmClock(); err != nil {
			rt.Fatal(err)
		}
	}
	h.s.background.Wait()
	if got := h.s.now(); got != h.now() {
		rt.Fatalf("time is %d after the step, want %d", got, h.now())
	}
	h.commit()
}

// back sets the wall clock back so far that the store's time would be now. While time is guarded,
// the store does not follow the wall clock.
func (m *machine) back(now int64) {
	h, by := m.h, m.h.now()-now
	switch {
	case h.ahead == 0:
	case h.ahead-by > testJump:
		h.ahead -= by
	default:
		return // that would take the step back
	}
	h.clock.Set(h.clock.Now() - by)
}

// walk lets some keys become due, which a walk then skips. Then the store crashes once or twice,
// and the wall clock is set back in between. If the walk did not show a key, everything that was
// due then stays gone.
func (m *machine) walk(rt *rapid.T) {
	h := m.h
	if rapid.Bool().Draw(rt, "evicts") {
		h.evict()
	}
	h.model = h.model.live(h.now()) // verify has removed the rest
	h.changed()
	m.advance(rt)
	shown := h.now()
	h.compareWalk(rapid.Bool().Draw(rt, "within"), rapid.Bool().Draw(rt, "pages"))
	if rapid.IntRange(0, 4).Draw(rt, "checkpoint") == 0 {
		m.checkpoint(rt)
	}
	// A page of Expiring looks for keys from the present on. It may log the time if only elements
	// are due.
	if left := h.model.live(shown); len(left) < len(h.model) || h.s.shown.at.Load() == shown {
		h.model = left
	}
	h.commit()
	for range rapid.IntRange(1, 2).Draw(rt, "crashes") {
		// The clock goes back by more than the tolerance, also before the time in the log.
		// Otherwise the store waits for that time, and is ahead of the clock. A group's time does
		// not go back: a member that starts continues from the newest instant in its log.
		if back := rapid.Int64Range(clockguard.StepTolerance+1, 8000).Draw(rt, "back"); !h.member ||
			h.ahead != 0 {
			m.back(min(h.now(), shown, cmp.Or(h.s.shown.at.Load(), shown)) - back)
		}
		h.crash(m.rng, m.names)
	}
}

// compareWalk walks over all databases, from within a transaction or not, and lists keys by their
// deadlines.
func (h *harness) compareWalk(within, pages bool) {
	h.t.Helper()
	got := map[name]bool{}
	untimed := map[name]int{}
	look := func(v View) {
		if pages {
			h.verifyExpiring(v, DueCursor{})
		}
		for db := range 3 {
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				var err error
				if cursor, err = v.Untimed(db, cursor, 2, func(key []byte, _ object.Type) {
					untimed[name{db, string(key)}]++
				}); err != nil {
					h.t.Fatalf("walk: %v", err)
				}
			}
			if err := v.Walk(db, func(key []byte, _ object.Type) bool {
				got[name{db, string(key)}] = true
				return true
			}); err != nil {
				h.t.Fatalf("walk: %v", err)
			}
		}
	}
	if within {
		h.doAll(func(t *Txn) { look(t.View()) })
	} else {
		look(h.s.View)
	}
	want := h.model.live(h.now())
	for n, v := range want {
		if !got[n] {
			h.t.Fatalf("the walk does not show %d/%.20q", n.db, n.key)
		}
		if times := untimed[n]; times != 1 && v.deadline == 0 || times != 0 && v.deadline != 0 {
			h.t.Fatalf("the walk over keys without a deadline shows %d/%.20q, whose deadline is %d, %d times",
				n.db, n.key, v.deadline, times)
		}
		delete(untimed, n)
	}
	if len(untimed) > 0 {
		h.t.Fatalf("the walk over keys without a deadline shows %v", untimed)
	}
	if len(got) != len(want) {
		h.t.Fatalf("the walk shows %d keys, want %d", len(got), len(want))
	}
}

func (m *machine) reap(rt *rapid.T) {
	h := m.h
	h.s.Reap()
	h.model = h.model.live(h.now())
	h.changed()
	var total int64
	for db := range 3 {
		keys, _ := h.s.Count(db)
		total += keys
	}
	if total != int64(len(h.model)) {
		rt.Fatalf("the databases count %d keys after reaping, want %d", total, len(h.model))
	}
}

// reapOne removes one key or a few elements from one shard, or from diskDeadlines. Other due keys
// stay.
func (m *machine) reapOne(rt *rapid.T) {
	s := m.h.s
	if i := rapid.IntRange(0, len(s.shards)).Draw(rt, "source"); i < len(s.shards) {
		(&source{sh: s.shards[i], t: s.NewTxn()}).ReapDue(s.now(), 0)
	} else {
		s.diskDeadlines.reapDue(s.now(), 0, true)
	}
	m.h.changed()
}

func (m *machine) evict(*rapid.T) { m.h.evict() }

// leave removes some unchanged runs of streams from memory.
func (m *machine) leave(*rapid.T) { m.h.s.Manual().Leave(2) }

// evict removes all unchanged keys from memory. It visits only slots with keys, as most of the
// 16,384 have none.
func (h *harness) evict() {
	s := h.s
	for _, sh := range s.shards {
		for db := range sh.mu.parts {
			for _, i := range filledSlots(sh, db) {
				s.house.evictSlot(sh, db, i)
			}
		}
	}
}

// filledSlots returns the slots that ever had a key, or none while a global transaction holds the
// shard.
func filledSlots(sh *shard, db int) (list []int) {
	if !sh.lockPassingGlobal() {
		return nil
	}
	defer sh.mu.Unlock()
	if p := sh.mu.parts[db]; p != nil {
		for _, sl := range p.allUsed() {
			list = append(list, int(sl.num-p.first))
		}
	}
	return list
}

func (m *machine) loadAll(*rapid.T) { m.h.s.loads.loadAll() }

func (m *machine) checkpoint(*rapid.T) {
	if err := m.h.s.Checkpoint(); err != nil {
		m.h.t.Fatalf("checkpoint: %v", err)
	}
	m.h.commit()
}

// interrupted runs a checkpoint that writes some parts and never finishes.
func (m *machine) interrupted(rt *rapid.T) {
	moment := m.rotate()
	defer m.h.s.garbage.add(moment.garbage...)
	c := &m.h.s.checkpointer
	m.h.s.options.Testing.OnStep = func(at datafile.Step) error {
		if (at == StepPortion || at == StepPending) && rapid.IntRange(0, 9).Draw(rt, "ends") == 0 {
			return errInterrupted
		}
		return nil
	}
	defer func() { m.h.s.options.Testing.OnStep = nil }()
	var b cpBatch
	for _, p := range moment.parts {
		if !rapid.Bool().Draw(rt, "part") {
			continue
		}
		if err := m.part(rt, &b, p); err == errInterrupted {
			c.arrivals.reset()
			return
		} else if err != nil {
			m.h.t.Fatalf("checkpoint: %v", err)
		}
	}
	if err := m.h.s.checkpointer.commitBatch(&b); err != nil && err != errInterrupted {
		m.h.t.Fatalf("checkpoint: %v", err)
	}
	if rapid.Bool().Draw(rt, "pending") {
		if err := m.h.s.checkpointer.makePending(); err != nil && err != errInterrupted {
			m.h.t.Fatalf("pending: %v", err)
		}
	}
}

// part copies a part, and may commit it before the next one is copied.
func (m *machine) part(rt *rapid.T, b *cpBatch, p *part) error {
	err := m.h.s.checkpointer.copyPart(b, p)
	if err == nil && rapid.Bool().Draw(rt, "commit") {
		err = m.h.s.checkpointer.commitBatch(b)
	}
	return err
}

var errInterrupted = errors.New("interrupted")

func (m *machine) rotate() mark {
	moment, err := m.h.s.checkpointer.rotate()
	if err != nil {
		m.h.t.Fatalf("rotate: %v", err)
	}
	return moment
}

// disturbed runs a checkpoint and random operations during it: after each part that it writes,
// between portions of large values, between transactions that change the bucket ttl, and before and
// after each transaction. The disk may become full.
func (m *machine) disturbed(rt *rapid.T) {
	s := m.h.s
	moment := m.rotate()
	beside := []func(*rapid.T){m.set, m.writeRange, m.deadline, m.delete, m.elements, m.fill,
		m.thin, m.replace,
		m.rename, m.rename, m.rename, m.rename, m.swap, m.flush, m.advance, m.reap, m.reapOne,
		m.evict, m.leave,
		m.many}
	disturb := func() { beside[rapid.IntRange(0, len(beside)-1).Draw(rt, "beside")](rt) }
	between := func() error {
		if rapid.IntRange(0, 4).Draw(rt, "between") == 0 {
			disturb()
		}
		return nil
	}
	fails := rapid.IntRange(0, 4).Draw(rt, "fails") == 0
	s.options.Testing.OnStep = func(at datafile.Step) error {
		if fails && at == datafile.StepWrite && rapid.IntRange(0, 9).Draw(rt, "full") == 0 {
			return syscall.ENOSPC
		}
		return between()
	}
	defer func() { s.options.Testing.OnStep = nil }()
	parts := moment.parts
	moment.parts = nil
	err := error(nil)
	var b cpBatch
	for _, p := range parts {
		if err == nil {
			err = m.part(rt, &b, p)
			disturb()
		}
	}
	if err == nil {
		err = s.checkpointer.commitBatch(&b)
	}
	if err == nil {
		err = s.checkpointer.writeSince(moment)
	}
	if err != nil {
		s.checkpointer.arrivals.reset()
		s.garbage.add(moment.garbage...)
	} else {
		err = s.checkpointer.collectGarbage()
	}
	if err != nil && err != syscall.ENOSPC {
		m.h.t.Fatalf("checkpoint: %v", err)
	}
	m.h.commit()
}

// TestStringElements checks the contract of object.Value for large strings: putting all elements
// into a new value gives the same value.
func TestStringElements(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var a, b object.String
		for range rapid.IntRange(1, 5).Draw(rt, "writes") {
			off := rapid.IntRange(0, 50000).Draw(rt, "offset")
			a.WriteAt(off, []byte(strings.Repeat("x", rapid.IntRange(0, 30000).Draw(rt, "size"))))
		}
		a.Walk(func(elem, val []byte, deadline int64) bool {
			if err := b.Put(elem, val, deadline); err != nil {
				rt.Fatal(err)
			}
			return true
		})
		if string(a.Data) != string(b.Data) {
			rt.Fatalf("%d bytes became %d", len(a.Data), len(b.Data))
		}
	})
}

// TestFullSlabs: strings that do not fit in a part's slabs become Go objects. They behave like
// other strings when they are read, changed, renamed, written and loaded.
func TestFullSlabs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.slabChunks = 2
	h.reopen()
	names := map[name]bool{}
	set := func(key, v string, deadline int64) {
		n := name{0, key}
		h.do(func(x *Txn) {
			x.SetString(h.s.Key(0, []byte(key)), []byte(v), ttl.At(deadline), Event{})
		}, h.s.Key(0, []byte(key)))
		names[n], h.model[n] = true, value{data: v, deadline: deadline}
	}
	for i := range 3000 { // of 300 bytes, in some 8 chunks of 32 KiB
		set(fmt.Sprint("{tag}", i), strings.Repeat(string(rune('a'+i%26)), 270),
			int64(i%2)*(h.clock.Now()+hour))
	}
	p := h.s.part(h.s.Key(0, []byte("{tag}")))
	full := func() {
		t.Helper()
		if p := h.s.part(h.s.Key(0, []byte("{tag}"))); p.slabs.Count() > h.slabChunks ||
			len(p.objects.list) == len(p.objects.holes) {
			t.Fatalf("%d chunks, %d objects", p.slabs.Count(),
				len(p.objects.list)-len(p.objects.holes))
		}
	}
	full()
	if p.slabs.Bytes() > int64(h.slabChunks*slab.ChunkSize) {
		t.Fatalf("%d bytes in %d chunks", p.slabs.Bytes(), h.slabChunks)
	}
	h.verify(names)
	for i := range 600 {
		from, to := fmt.Sprint("{tag}", 5*i), fmt.Sprint("{tag}new", i)
		v := h.model[name{0, from}]
		switch a, b := h.s.Key(0, []byte(from)), h.s.Key(0, []byte(to)); i % 4 {
		case 0:
			h.do(func(x *Txn) { x.WriteRange(a, 3, []byte("xyz"), Event{}) }, a)
			v.data = v.data[:3] + "xyz" + v.data[6:]
		case 1:
			h.do(func(x *Txn) { x.Rename(a, b) }, a, b)
			delete(h.model, name{0, from})
			from = to
		case 2:
			h.do(func(x *Txn) { x.Copy(a, b) }, a, b)
			h.model[name{0, to}] = v
		case 3:
			h.do(func(x *Txn) { x.WriteRange(a, len(v.data), make([]byte, 5000), Event{}) }, a)
			v.data += string(make([]byte, 5000))
		}
		names[name{0, to}], h.model[name{0, from}] = true, v
	}
	h.commit()
	h.crash(rand.New(rand.NewPCG(1, 1)), names)
	full()
	h.saved()
	h.evict()
	h.verify(names)
	full()
	h.clock.Advance(2 * hour * time.Millisecond)
	h.s.Reap()
	h.model = h.model.live(h.now())
	h.commit()
	h.verify(names)
	h.reopen()
	h.verify(names)
}

// many deletes several keys in one transaction, or sets each to a string.
func (m *machine) many(rt *rapid.T) {
	h, db := m.h, rapid.IntRange(0, 2).Draw(rt, "db")
	deletes := rapid.Bool().Draw(rt, "deletes")
	var names []name
	var keys []Key
	var data []string
	for range rapid.IntRange(1, 12).Draw(rt, "keys") {
		n := name{db, keyName(rapid.IntRange(0, 11).Draw(rt, "key"))}
		names, keys = append(names, n), append(keys, m.key(n))
		if !deletes {
			data = append(data, m.data(rt))
		}
	}
	there := make([]bool, len(names))
	for i, n := range names {
		_, ok := m.get(n)
		there[i] = ok && slices.Index(names, n) == i
	}
	h.model = h.model.clone()
	for i, n := range names {
		if delete(h.model, n); !deletes {
			h.model[n] = value{data: data[i]}
		}
	}
	h.do(func(t *Txn) {
		for i, k := range keys {
			if !deletes {
				t.SetString(k, []byte(data[i]), ttl.Deadline{}, Event{})
			} else if t.Delete(k, Deleted) != there[i] {
				rt.Fatalf("key %d was there: %v", i, !there[i])
			}
		}
	}, keys...)
}
