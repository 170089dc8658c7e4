package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// capture is a leader's log that also records the appended batches for the follower.
type capture struct {
	*wal.Log
	to *pair
}

func (c capture) Append(batch []byte) uint64 {
	c.to.batches = append(c.to.batches, bytes.Clone(batch))
	return c.Log.Append(batch)
}

func (c capture) AppendKeeping(pieces [][]byte) uint64 {
	c.to.batches = append(c.to.batches, bytes.Join(pieces, nil))
	return c.Log.AppendKeeping(pieces)
}

// pair is a leader's store and a follower's store.
type pair struct {
	leader, follower *harness
	mirror           *Mirror
	batches          [][]byte // that the leader has logged
	lsns             []uint64 // in the follower's log, of those that it has been sent
}

// newPair opens both stores. The function set changes their settings.
func newPair(t testing.TB, set func(h *harness)) *pair {
	p := &pair{leader: closedHarness(t), follower: closedHarness(t)}
	p.follower.follower = true
	p.leader.openLog = func(o wal.Options, from LogPosition,
		replay func(uint64, []byte) error) (Journal, error) {
		log, err := wal.Open(o, from.Segment, replay)
		return capture{log, p}, err
	}
	for _, h := range []*harness{p.leader, p.follower} {
		h.member = true
		set(h)
	}
	p.follower.jumpLimit = 0   // its time is the leader's
	p.follower.clock.Reboot(0) // its machine is another one
	p.leader.open()
	p.follower.open()
	p.mirror = p.follower.s.Mirror()
	return p
}

func (p *pair) close() {
	_ = p.leader.s.Close(false)
	_ = p.follower.s.Close(false)
}

// sendTime sends the leader's time to the follower.
func (p *pair) sendTime() {
	p.follower.clock.Set(p.leader.now())
	p.follower.s.FollowTime(p.leader.now())
	if p.follower.s.options.NoBackground {
		p.follower.s.background.Wait() // one that has started after a step back sets its time back
	}
}

// send makes the follower log and apply the batches that it lacks. It calls beside before each
// batch.
func (p *pair) send(beside func()) {
	f := p.follower
	f.t.Helper()
	p.sendTime()
	for len(p.lsns) < len(p.batches) {
		beside() // which may crash, or send
		i := len(p.lsns)
		if i == len(p.batches) {
			return
		}
		lsn := f.s.Log().Append(p.batches[i])
		p.lsns = append(p.lsns, lsn)
		if err := p.mirror.Apply(lsn, p.batches[i]); err != nil {
			f.t.Fatalf("batch %d of %d: %v", i, len(p.batches), err)
		}
		if f.s.Applied() != lsn || f.s.Shown() != lsn {
			f.t.Fatalf("applied is %d, want %d", f.s.Applied(), lsn)
		}
	}
}

// crash cuts the follower's power, and starts it again with the remaining data.
func (p *pair) crash(rng *rand.Rand) {
	f := p.follower
	f.s.stop()
	f.s.background.Wait()
	crashed := f.fs.Crash(rng)
	_ = f.s.log.Close()
	if err := f.s.release(); err != nil {
		f.t.Fatalf("release: %v", err)
	}
	f.fs = crashed
	f.open()
	p.opened()
}

// opened creates the follower's mirror, which continues at the end of the follower's log.
func (p *pair) opened() {
	p.mirror = p.follower.s.Mirror()
	end := p.follower.s.Log().End()
	n, _ := slices.BinarySearch(p.lsns, end+1)
	p.lsns = p.lsns[:n]
}

// dump returns everything that a store's readers see, by database and name, with the counts.
func (h *harness) dump() map[string]string {
	h.t.Helper()
	got := map[string]string{}
	for db := range h.databases + 1 {
		var names []string
		if err := h.s.View.Walk(db, func(key []byte, _ object.Type) bool {
			names = append(names, string(key))
			return true
		}); err != nil {
			h.t.Fatalf("walk: %v", err)
		}
		for _, n := range names {
			k := h.s.Key(db, []byte(n))
			for !h.s.Begin(h.txn, []Key{k}) {
				h.load([]Key{k})
			}
			if it, ok := h.txn.Get(k); ok {
				v := value{deadline: it.Deadline()}
				if data, err := it.String(); err == nil {
					v.data = data2(data)
				} else {
					v.coll = contentOf(it.Value())
				}
				got[fmt.Sprintf("%d/%s", db, data2([]byte(n)))] = fmt.Sprintf("%v %q @%d %v",
					it.Type(), v.data, v.deadline, v.coll.whole())
			}
			h.txn.End()
		}
	}
	return got
}

func (h *harness) counts() (list [][2]int64) {
	for db := range h.databases + 1 {
		keys, expires := h.s.Count(db)
		list = append(list, [2]int64{keys, expires})
	}
	return list
}

// data2 is bytes for a comparison and a message.
func data2(b []byte) string {
	if len(b) > 40 {
		return fmt.Sprintf("%.40s…%d %x", b, len(b), object.HashOf(b))
	}
	return string(b)
}

// whole formats all elements as text.
func (c *content) whole() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for _, e := range c.elems {
		fmt.Fprintf(&b, " %q=%q@%d", e.key, e.val, e.deadline)
	}
	return b.String()
}

// verify compares the stores. It makes the follower read everything that the leader has.
func (p *pair) verify(when string) {
	p.follower.t.Helper()
	want := p.leader.dump() // which removes what is due
	p.leader.commit()
	p.send(func() {})
	got := p.follower.dump()
	if !maps.Equal(got, want) {
		for k, v := range want {
			if got[k] != v {
				p.follower.t.Fatalf("%s: the follower has of %s\n%.2000s\nand its leader\n%.2000s",
					when, k, got[k], v)
			}
		}
		for k, v := range got {
			if want[k] == "" {
				p.follower.t.Fatalf("%s: the follower has %s, which its leader has not:\n%.2000s",
					when, k, v)
			}
		}
	}
	if a, b := p.follower.counts(), p.leader.counts(); !slices.Equal(a, b) {
		p.follower.t.Fatalf("%s: the follower counts %v and its leader %v", when, a, b)
	}
	p.follower.check()
}

// TestMirror runs the operations of TestModel, and some of leases, limits and the recorder, on a
// leader's store. A follower applies the leader's batches. It has evictions, loads, checkpoints
// that may be interrupted, compactions, crashes and restarts of its own. After each operation it
// has the same data as its leader, also after a restart. In the end it becomes a leader.
func TestMirror(t *testing.T) {
	crashes, rises := 0, 0
	defer func() {
		t.Logf("%d crashes of followers and new leaders, %d followers became leaders", crashes,
			rises)
	}()
	rapid.Check(t, func(rt *rapid.T) {
		portions := rapid.Bool().Draw(rt, "portions")
		slabs := rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "slabChunks")
		p := newPair(t, func(h *harness) {
			h.t = failer{t, rt}
			h.jumpLimit, h.jumpPatience = testJump*time.Millisecond, time.Hour
			h.portions, h.slabChunks, h.databases = portions, slabs, 4
		})
		defer p.close()
		h := p.leader
		m := &machine{h: h, rt: rt, names: map[name]bool{},
			rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		for key := range 12 {
			for db := range 3 {
				m.names[name{db, keyName(key)}] = true
			}
		}
		f := &machine{h: p.follower, rt: rt, names: m.names, rng: m.rng}
		beside := []func(){
			func() {}, func() {}, func() { f.h.evict() }, func() { f.h.evict() }, func() {
				f.h.s.loads.loadAll()
			},
			func() { f.moveBlocks(rt) }, func() { f.copyObjects(rt) }, func() { f.checkpoint(rt) },
			func() { f.interrupted(rt) }, func() { f.compact(rt) }, func() { f.h.commit() },
			func() { f.h.dump() },
			func() { p.crash(f.rng); crashes++; p.send(func() {}) },
			func() { f.h.reopen(); p.opened() },
		}
		disturb := func() {
			if i := rapid.IntRange(0, 3*len(beside)).Draw(rt, "beside"); i < len(beside) {
				beside[i]()
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"set": m.set, "range": m.writeRange, "deadline": m.deadline, "delete": m.delete,
			"elements": m.elements, "fill": m.fill, "thin": m.thin, "replace": m.replace,
			"rename": m.rename, "rename again": m.rename, "copy": m.copy, "many": m.many,
			"flush": m.flush, "swap": m.swap,
			"advance": m.advance, "stepBack": m.stepBack, "stepForward": m.stepForward,
			"stepEnds": m.stepEnds, "reap": m.reap, "reapOne": m.reapOne, "evict": m.evict,
			"leave":      m.leave,
			"checkpoint": m.checkpoint, "reopen": func(*rapid.T) { h.reopen() }, "extra": m.extra,
			"": func(*rapid.T) {
				h.commit()
				p.send(disturb)
				p.verify("follower")
				if err := f.h.s.Err(); err != nil {
					rt.Fatal(err)
				}
			},
		})
		disturb()
		p.promote(m)
		crashes, rises = crashes+1, rises+1 // a new leader is crashed, too
	})
}

// promote makes the follower the leader.
func (p *pair) promote(m *machine) {
	h, f := p.leader, p.follower
	p.send(func() {})
	f.clock.Advance(10 * time.Second)
	f.s.SetFollower(false)
	f.restless()
	want := h.model.live(f.clock.Now())
	if got := f.state(m.names); !same(got, want) {
		f.t.Fatalf("the new leader has\n%v\nand must have\n%v", got, want)
	}
	f.check()
	k := f.s.Key(3, []byte("new lease"))
	f.do(func(t *Txn) {
		if _, ok := t.Get(k); ok {
			t.Delete(k, Deleted)
		}
		t.Replace(k, &object.Lease{Owner: []byte("me"), Token: 1}, ttl.In(f.s.now()+1000), Event{})
	}, k)
	f.commit()
	f.follower = false
	p.crash(m.rng)
	if got := f.state(m.names); !same(got, want) {
		f.t.Fatalf("after a crash the new leader has\n%v\nand must have\n%v", got, want)
	}
	f.check()
}

// extra changes something in a separate database that the model does not include.
func (m *machine) extra(rt *rapid.T) {
	h := m.h
	k := h.s.Key(3, fmt.Appendf(nil, "%s{%d}", rapid.SampledFrom([]string{"lease", "limit",
		"k"}).Draw(rt, "kind"), rapid.IntRange(0, 3).Draw(rt, "key")))
	deadline := h.s.now() + rapid.Int64Range(1, 4000).Draw(rt, "ttl")
	deadline += deadline & 1
	switch rapid.IntRange(0, 6).Draw(rt, "what") {
	case 0:
		h.record(true)
	case 1:
		h.record(false)
	case 2:
		h.forget()
	case 3:
		h.do(func(t *Txn) {
			switch item, ok := t.Get(k); {
			case !ok:
				m.granted++
				l := &object.Lease{Owner: []byte("owner"), Token: m.granted,
					Delay: rapid.SampledFrom([]int64{0, 1000}).Draw(rt, "delay")}
				t.Replace(k, l, ttl.In(deadline+l.Delay), Event{})
			case item.Type() == object.TypeLease:
				t.SetDeadline(k, ttl.In(deadline), Event{})
			}
		}, k)
	case 4:
		h.do(func(t *Txn) {
			l, err := t.Limit(k)
			if err != nil {
				return
			}
			rules := []object.LimitRule{{Kind: object.LimitWindow, Count: 100, Span: 5000}}
			if rapid.Bool().Draw(rt, "hold") {
				l.Hold(fmt.Appendf(nil, "id%d", rapid.IntRange(0, 3).Draw(rt, "id")),
					rules, 1, deadline)
			} else {
				l.Admit(rules, 1)
			}
			l.Finish()
		}, k)
	default:
		h.do(func(t *Txn) {
			if v, err := t.Hash(k); err == nil && rapid.Bool().Draw(rt, "hash") {
				v.Set([]byte("f"), []byte("v"), ttl.At(deadline))
			} else {
				t.SetString(k, []byte("v"), ttl.At(deadline), Event{})
			}
		}, k)
	}
}

// TestMirrorWhole: readers of a follower's store see each batch whole or not at all.
func TestMirrorWhole(t *testing.T) {
	p := newPair(t, func(*harness) {})
	defer p.close()
	var keys []Key
	for i := range 8 {
		keys = append(keys, p.leader.s.Key(0, fmt.Append(nil, "key", i)))
	}
	for n := range 300 {
		p.leader.do(func(x *Txn) {
			for i, k := range keys {
				if i%2 == 0 {
					x.SetString(k, fmt.Append(nil, n), ttl.Deadline{}, Event{})
					continue
				}
				h, err := x.Hash(k)
				if err != nil {
					t.Fatal(err)
				}
				h.Set([]byte("n"), fmt.Append(nil, n), ttl.Deadline{})
			}
		}, keys...)
	}
	done := make(chan int, 2)
	f := p.follower
	for i, k := range keys {
		keys[i] = f.s.Key(0, k.Name)
	}
	stop := make(chan struct{})
	for range 2 {
		go func() {
			looks, last, lastLSN := 0, "", uint64(0)
			x := f.s.NewTxn()
			for {
				select {
				case <-stop:
					done <- looks
					return
				default:
				}
				if !f.s.Begin(x, keys) {
					continue
				}
				seen := map[string]bool{}
				for i, k := range keys {
					it, ok := x.Get(k)
					switch {
					case !ok:
						seen[""] = true
					case i%2 == 0:
						text, _ := it.String()
						seen[string(text)] = true
					default:
						text, _, _ := it.Value().(*object.Hash).Get([]byte("n"))
						seen[string(text)] = true
					}
				}
				lsn := x.End()
				if len(seen) != 1 {
					t.Errorf("a reader sees %v", seen)
				}
				for n := range seen {
					if n != last && lsn <= lastLSN {
						t.Errorf("what a reader sees depends on %d, as what it saw before did", lsn)
					}
					last = n
				}
				lastLSN = lsn
				looks++
			}
		}()
	}
	unlocked := 0
	f.s.Observe(func([]Change) { // so it is while all shards are locked that the batch is about
		for _, k := range keys {
			if mu := &f.s.shards[f.s.shardOf(k.Slot)].mu; mu.tryLock() {
				unlocked++
				mu.Unlock()
			}
		}
	})
	p.send(func() {})
	close(stop)
	for range 2 {
		await.For(t, "a reader ends", done)
	}
	f.s.Observe(nil)
	if _, lsn := f.get(keys[0]); lsn != f.s.Applied() {
		t.Errorf("what a reader sees depends on %d, and was changed by %d", lsn, f.s.Applied())
	}
	if len(p.batches) < 300 || unlocked > 0 {
		t.Errorf("at the end of one of %d batches, %d shards of its keys were not locked",
			len(p.batches), unlocked)
	}
	p.verify("in the end")
}

// get looks up a key that is in memory. It returns the LSN that the result depends on.
func (h *harness) get(k Key) (ok bool, lsn uint64) {
	h.t.Helper()
	if !h.s.Begin(h.txn, []Key{k}) {
		h.t.Fatalf("key %q is not in memory", k.Name)
	}
	_, ok = h.txn.Get(k)
	return ok, h.txn.End()
}

// TestMirrorLeavesReaders: a task that reads a value beside others keeps the old value when a batch
// changes it.
func TestMirrorLeavesReaders(t *testing.T) {
	p := newPair(t, func(*harness) {})
	defer p.close()
	k := p.leader.s.Key(0, []byte("k"))
	set := func(val string) {
		p.leader.hash(k, func(_ *Txn, v *Hash) {
			v.Set([]byte("f"), []byte(val), ttl.At(p.leader.now()+5000))
			v.Set([]byte("g"), []byte(val), ttl.Deadline{})
		})
		p.send(func() {})
	}
	set("1")
	f := p.follower
	at := f.s.Key(0, []byte("k"))
	var pins Pins
	task := f.s.NewTxn()
	if !f.s.Begin(f.txn, []Key{at}) {
		t.Fatal("the key is not in memory")
	}
	pins.Pin(f.txn, []Key{at}, task)
	set("2")
	if v, err := task.Hash(at); err != nil {
		t.Fatal(err)
	} else if text, _, _ := v.Value().Get([]byte("f")); string(text) != "1" {
		t.Errorf("the reader sees %q", text)
	}
	pins.Unpin(task)
	p.verify("after the reader")
	set("3") // nobody reads it any more
	p.verify("then")
	f.s.Begin(f.txn, []Key{at})
	if _, c := f.s.look(at); f.s.part(at).objectOf(*c).read() {
		t.Error("somebody reads the value")
	}
	f.txn.End()
}

// TestMirrorReports: the observer of a follower's store hears of the changes in batches, with their
// LSNs. OnSystem hears of changes to the server's own data.
func TestMirrorReports(t *testing.T) {
	p := newPair(t, func(*harness) {})
	defer p.close()
	f, l := p.follower, p.leader
	var got []string
	var system []string
	f.s.Observe(func(changes []Change) {
		for _, c := range changes {
			name := string(c.Key)
			if c.Key == nil {
				name = "all"
			}
			got = append(got, fmt.Sprintf("%d/%s due=%t %t", c.DB, name, c.Due,
				c.LSN == f.s.Log().End()))
		}
	})
	f.s.OnSystem(func(names []string) { system = append(system, names...) })
	want := func(when string, lines ...string) {
		t.Helper()
		p.send(func() {})
		slices.Sort(got)
		if !slices.Equal(got, lines) {
			t.Errorf("%s: %q, want %q", when, got, lines)
		}
		got = nil
	}
	want("at first")
	l.puts(0, "a", "1", l.now()+10)
	want("set", "0/a due=false true")
	l.hash(l.s.Key(1, []byte("h")), func(_ *Txn, v *Hash) {
		v.Set([]byte("f"), []byte("1"), ttl.Deadline{})
	})
	want("hash", "1/h due=false true")
	a, b := l.s.Key(0, []byte("a")), l.s.Key(0, []byte("b"))
	l.do(func(x *Txn) { x.Rename(a, b) }, a, b)
	want("rename", "0/a due=false true", "0/b due=false true")
	l.clock.Advance(10 * time.Millisecond)
	l.s.Reap()
	want("reaped", "0/b due=true true")
	l.doAll(func(x *Txn) { x.FlushDB(1) })
	want("flushed", "1/all due=false true")
	l.doAll(func(x *Txn) { x.SwapDB(0, 2) })
	want("swapped", "0/all due=false true", "2/all due=false true")
	system = nil
	k := l.s.SystemKey("own")
	l.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
	if want("own"); !slices.Equal(system, []string{"own"}) {
		t.Errorf("of its own data the follower reports %q", system)
	}
}

// TestMirrorOnce: a batch is applied once, and only at a follower. A batch that cannot be applied
// makes the store fail.
func TestMirrorOnce(t *testing.T) {
	p := newPair(t, func(*harness) {})
	defer p.close()
	p.leader.puts(0, "k", "1", 0)
	p.leader.puts(0, "k", "2", 0)
	p.send(func() {})
	f := p.follower
	n := len(p.batches)
	if err := p.mirror.Apply(p.lsns[n-2], p.batches[n-2]); err != nil {
		t.Error(err)
	}
	cost := f.s.replayCost.Load()
	if err := p.mirror.Apply(p.lsns[n-1], p.batches[n-1]); err != nil ||
		f.s.replayCost.Load() != cost {
		t.Errorf("the newest batch is applied again: %v", err)
	}
	p.verify("after a batch again")
	f.s.SetFollower(false)
	if err := p.mirror.Apply(f.s.Log().End()+1, p.batches[n-2]); err != ErrLeads ||
		f.s.Err() != nil {
		t.Errorf("at a leader: %v", err)
	}
	f.s.SetFollower(true)
	k := p.leader.s.Key(0, []byte("h"))
	for range 2 {
		p.leader.hash(k, func(_ *Txn, v *Hash) { v.Set([]byte("f"), []byte("1"), ttl.Deadline{}) })
	}
	last := p.batches[len(p.batches)-1]
	err := p.mirror.Apply(f.s.Log().End()+1, last)
	if err == nil || f.s.Err() == nil {
		t.Errorf("a change of a value that is not there: %v, and the store says %v", err, f.s.Err())
	}
	if err := p.mirror.Apply(f.s.Log().End()+2, last); err == nil {
		t.Error("a store that has failed goes on")
	}
}

// TestMirrorReportsOnce: a follower has hidden an expired element. When the follower becomes the
// leader, it reports the expiry only if the old leader has not.
func TestMirrorReportsOnce(t *testing.T) {
	p := newPair(t, func(*harness) {})
	defer p.close()
	l, f := p.leader, p.follower
	l.record(true)
	l.hash(l.s.Key(0, []byte("h")), func(_ *Txn, v *Hash) {
		v.Set([]byte("first"), []byte("v"), ttl.At(l.now()+10))
		v.Set([]byte("second"), []byte("v"), ttl.At(l.now()+20))
		v.Set([]byte("stays"), []byte("v"), ttl.Deadline{})
	})
	p.send(func() {})
	at := f.s.Key(0, []byte("h"))
	for i, want := range []int{2, 1} {
		l.clock.Advance(10 * time.Millisecond)
		p.sendTime()
		if got := f.shownFields(at); len(got) != want {
			t.Fatalf("the follower shows %q", got)
		}
		if i == 0 {
			l.s.Reap() // the first only
			p.send(func() {})
			p.verify("after the first")
		}
	}
	f.s.SetFollower(false)
	f.restless()
	var names []string
	for _, e := range f.recorded() {
		for _, name := range []string{"first", "second"} {
			if strings.Contains(e, "="+name) {
				names = append(names, name)
			}
		}
	}
	if !slices.Equal(names, []string{"first", "second"}) {
		t.Errorf("reported: %q, of %q", names, f.recorded())
	}
	f.check()
}

// shownFields returns the fields of a hash that readers see.
func (h *harness) shownFields(k Key) (names []string) {
	h.t.Helper()
	h.s.Begin(h.txn, []Key{k})
	defer h.txn.End()
	if it, ok := h.txn.Get(k); ok {
		it.Value().Walk(func(elem, _ []byte, _ int64) bool {
			names = append(names, string(elem))
			return true
		})
	}
	return names
}

// TestReplicatedLogNames: a leader's log does not depend on which data is in memory and on disk. It
// names each key that expires. It has the whole content of a large value that RENAME moves, since a
// follower may have the value inline on disk.
func TestReplicatedLogNames(t *testing.T) {
	p := newPair(t, func(*harness) {})
	defer p.close()
	l, f := p.leader, p.follower
	k, to := l.s.Key(0, []byte("from")), l.s.Key(0, []byte("to"))
	fill := func(from, n int) {
		l.hash(k, func(_ *Txn, v *Hash) {
			for i := from; i < from+n; i++ {
				v.Set(fmt.Append(nil, i), bytes.Repeat([]byte{'v'}, 100), ttl.At(l.now()+100_000))
			}
		})
	}
	fill(0, 10)
	for i := range 5 {
		l.puts(0, fmt.Sprint("due", i), "v", l.now()+10)
	}
	p.send(func() {})
	if err := f.s.Checkpoint(); err != nil {
		// The follower's file has the value inline, and the leader's file does not have it.
		t.Fatal(err)
	}
	fill(10, 200)
	l.do(func(x *Txn) { x.Rename(k, to) }, k, to)
	l.clock.Advance(10 * time.Millisecond)
	if n := l.s.Reap(); n != 5 {
		t.Fatalf("%d keys have expired", n)
	}
	p.verify("after a rename")
	deleted := 0
	for _, batch := range p.batches {
		for r := (format.Fields{Rest: batch}); len(r.Rest) > 0; {
			switch rec := format.ReadRecord(&r); rec.Tag {
			case format.RecReaped, format.RecLink:
				t.Errorf("the leader has logged a record with tag %d", rec.Tag)
			case format.RecDelete:
				deleted++
			}
		}
	}
	if deleted != 6 {
		t.Errorf("%d keys are named as deleted, want 5 that have expired and one that was renamed",
			deleted)
	}
	p.crash(rand.New(rand.NewPCG(1, 2)))
	p.verify("after a crash")
	if err := f.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	f.reopen()
	p.opened()
	p.verify("after a checkpoint")
	for _, record := range [][]byte{format.AppendRecord(nil, format.RecReaped, 0, uint64(l.now())),
		format.AppendRecord(nil, format.RecReaped, 99, 1)} {
		if err := p.mirror.Apply(f.s.Log().End()+1, record); !errors.Is(err, format.ErrBadRecord) {
			t.Errorf("a record of a server that is alone: %v", err)
		}
	}
}

// TestMirrorBesideBackground: the background work of a follower does not conflict with its mirror.
func TestMirrorBesideBackground(t *testing.T) {
	p := newPair(t, func(*harness) {})
	defer func() { _ = p.leader.s.Close(false) }()
	f, l := p.follower, p.leader
	if err := f.s.Close(false); err != nil {
		t.Fatal(err)
	}
	o := f.options()
	o.NoBackground = false
	s, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	f.s, f.txn = s, s.NewTxn()
	p.opened()
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 400 {
		k := fmt.Sprint("k", rng.IntN(40))
		switch rng.IntN(6) {
		case 0:
			l.clock.Advance(time.Millisecond)
			l.s.Reap()
		case 1:
			a, b := l.s.Key(0, []byte(k)), l.s.Key(0, []byte("to"+k))
			l.do(func(x *Txn) { x.Rename(a, b) }, a, b)
		case 2:
			l.puts(0, k, strings.Repeat("x", n), 0)
		case 3:
			l.puts(0, k, "v", l.now()+1+int64(rng.IntN(5)))
		default:
			l.do(func(x *Txn) {
				if v, err := x.Hash(l.s.Key(0, []byte(k))); err == nil {
					for i := range rng.IntN(200) {
						v.Set(fmt.Append(nil, i), bytes.Repeat([]byte{'v'}, 70), ttl.Deadline{})
					}
				}
			}, l.s.Key(0, []byte(k)))
		}
		if n%20 == 0 {
			s.StartCheckpoint()
			f.evict()
		}
		p.send(func() {})
	}
	await.Until(t, "the checkpoint ends", func() bool { return !s.Checkpointing() })
	p.verify("in the end")
	if err := s.Close(true); err != nil {
		t.Error(err)
	}
	f.open()
	p.opened()
	p.verify("after a start")
	_ = f.s.Close(false)
}
