package outbox

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// name identifies a key.
type name struct {
	db  int
	key string
}

// failer makes a harness fail a run of rapid instead of the test.
type failer struct {
	testing.TB
	rt *rapid.T
}

func (f failer) Fatalf(format string, args ...any) { f.rt.Fatalf(format, args...) }

// model knows which values exist, and which have expired. All values that are set are different.
type model struct {
	keys     map[name]map[string]timedValue // by field; a string has the field ""
	reported map[string]bool                // values that have expired
	// either contains values that may be reported or not, because their database or that of the
	// stream was emptied.
	either map[string]bool
}

type timedValue struct {
	val      string
	deadline int64 // 0: none
}

func (m *model) clone() *model {
	c := &model{keys: map[name]map[string]timedValue{}, reported: maps.Clone(m.reported),
		either: maps.Clone(m.either)}
	for n, fields := range m.keys {
		c.keys[n] = maps.Clone(fields)
	}
	return c
}

// settle removes all values that are due from the model, and marks them as reported.
func (m *model) settle(now int64) {
	for n, fields := range m.keys {
		for f, v := range fields {
			if v.deadline != 0 && v.deadline <= now {
				m.reported[v.val] = true
				delete(fields, f)
			}
		}
		if len(fields) == 0 {
			delete(m.keys, n)
		}
	}
}

// machine runs random operations on a store, and the same operations on a model.
type machine struct {
	h        *harness
	rt       *rapid.T
	m        *model
	since    []*model // states since the last commit
	rng      *rand.Rand
	values   int
	crashes  int
	expiries int
}

func (x *machine) name(rt *rapid.T) name {
	return name{rapid.IntRange(0, 1).Draw(rt, "db"),
		fmt.Sprint("k", rapid.IntRange(0, 7).Draw(rt, "key"))}
}

func (x *machine) key(n name) storage.Key { return x.h.s.Key(n.db, []byte(n.key)) }

// next returns a new value, with or without a deadline.
func (x *machine) next(rt *rapid.T) timedValue {
	x.values++
	v := timedValue{val: fmt.Sprint("v", x.values)}
	if rapid.IntRange(0, 3).Draw(rt, "timed") > 0 {
		v.deadline = x.h.clock.Now() + rapid.Int64Range(1, 60).Draw(rt, "ttl")
	}
	return v
}

func (x *machine) done() { x.since = append(x.since, x.m.clone()) }

// settled returns the model after all values that are due now are reported. This is the state that
// a command finds after it has locked a key.
func (x *machine) settled() *model {
	x.m.settle(x.h.clock.Now())
	return x.m
}

func (x *machine) set(rt *rapid.T) {
	n, v := x.name(rt), x.next(rt)
	x.settled().keys[n] = map[string]timedValue{"": v}
	x.h.do(func(t *storage.Txn) {
		t.SetString(x.key(n), []byte(v.val), ttl.At(v.deadline), storage.Event{})
	}, x.key(n))
	x.done()
}

func (x *machine) field(rt *rapid.T) {
	n, v, f := x.name(rt), x.next(rt), fmt.Sprint("f", rapid.IntRange(0, 3).Draw(rt, "field"))
	m := x.settled()
	if _, text := m.keys[n][""]; text {
		return
	}
	if m.keys[n] == nil {
		m.keys[n] = map[string]timedValue{}
	}
	m.keys[n][f] = v
	x.h.do(func(t *storage.Txn) {
		h, err := t.Hash(x.key(n))
		if err != nil {
			rt.Fatal(err)
		}
		h.Set([]byte(f), []byte(v.val), ttl.At(v.deadline))
	}, x.key(n))
	x.done()
}

func (x *machine) del(rt *rapid.T) {
	n := x.name(rt)
	delete(x.settled().keys, n)
	x.h.do(func(t *storage.Txn) { t.Delete(x.key(n), storage.Deleted) }, x.key(n))
	x.done()
}

func (x *machine) rename(rt *rapid.T) {
	from, to := x.name(rt), x.name(rt)
	m := x.settled()
	if fields := m.keys[from]; fields != nil && from != to {
		m.keys[to] = fields
		delete(m.keys, from)
	}
	if from != to {
		x.h.do(func(t *storage.Txn) { t.Rename(x.key(from), x.key(to)) }, x.key(from), x.key(to))
	}
	x.done()
}

// passed gives a string a deadline in the past.
func (x *machine) passed(rt *rapid.T) {
	n := x.name(rt)
	m := x.settled()
	if v, ok := m.keys[n][""]; ok {
		m.reported[v.val] = true
		delete(m.keys, n)
		x.h.do(func(t *storage.Txn) { t.Expire(x.key(n), ttl.At(x.h.clock.Now()-1), 0) }, x.key(n))
	}
	x.done()
}

func (x *machine) flush(rt *rapid.T) {
	db := rapid.IntRange(0, 1).Draw(rt, "db")
	now := x.h.clock.Now()
	for n, fields := range x.m.keys {
		if n.db == db {
			for _, v := range fields {
				if v.deadline != 0 && v.deadline <= now {
					x.m.either[v.val] = true
				}
			}
			delete(x.m.keys, n)
		}
	}
	maps.Copy(x.m.either, x.m.reported)
	clear(x.m.reported)
	x.h.doAll(func(t *storage.Txn) { t.FlushDB(db) })
	x.done()
}

func (x *machine) swap(*rapid.T) {
	swapped := map[name]map[string]timedValue{}
	for n, fields := range x.m.keys {
		swapped[name{1 - n.db, n.key}] = fields
	}
	x.m.keys = swapped
	x.h.doAll(func(t *storage.Txn) { t.SwapDB(0, 1) })
	x.done()
}

// rule replaces a rule by one with another stream or other settings. The new settings do not change
// what is reported.
func (x *machine) rule(rt *rapid.T) {
	db := rapid.IntRange(0, 1).Draw(rt, "db")
	x.h.rule(ruleOf(db, rapid.IntRange(0, 1).Draw(rt, "stream")))
	x.done()
}

func ruleOf(db, stream int) Rule {
	return Rule{Name: fmt.Sprint("rule", db), DB: db, Pattern: []byte("k*"), Elements: true,
		MaxValue: 100, Stream: fmt.Append(nil, "stream", stream)}
}

// block replaces a stream, and so its entries, by a string. Entries of expiries wait until unblock.
func (x *machine) block(rt *rapid.T) {
	k := x.h.s.Key(rapid.IntRange(0, 1).Draw(rt, "db"),
		fmt.Append(nil, "stream", rapid.IntRange(0, 1).Draw(rt, "stream")))
	x.settled()
	maps.Copy(x.m.either, x.m.reported)
	clear(x.m.reported)
	x.h.do(func(t *storage.Txn) {
		t.SetString(k, []byte("no stream"), ttl.Deadline{}, storage.Event{})
	}, k)
	x.done()
}

// unblock deletes the strings that block has put in place of streams.
func (x *machine) unblock() {
	blocked := false
	for db := range 2 {
		for i := range 2 {
			k := x.h.s.Key(db, fmt.Append(nil, "stream", i))
			x.h.do(func(t *storage.Txn) {
				if item, ok := t.Peek(k); ok && item.Type() != object.TypeStream {
					blocked = t.Delete(k, storage.Deleted)
				}
			}, k)
		}
	}
	if blocked {
		x.h.clock.Advance(retryAfter)
	}
}

// again deletes a rule and makes it again. The deletion writes the waiting entries if their stream
// can be written.
func (x *machine) again(rt *rapid.T) {
	db := rapid.IntRange(0, 1).Draw(rt, "db")
	x.unblock()
	x.settled()
	x.done()
	x.h.doAll(func(t *storage.Txn) {
		if there, err := x.h.o.Delete(t, fmt.Sprint("rule", db)); !there || err != nil {
			rt.Fatalf("Delete: %t, %v", there, err)
		}
		r := ruleOf(db, rapid.IntRange(0, 1).Draw(rt, "stream"))
		if err := x.h.o.Set(t, &r); err != nil {
			rt.Fatal(err)
		}
	})
	x.done()
}

func (x *machine) advance(rt *rapid.T) {
	x.h.clock.Advance(time.Duration(rapid.IntRange(1, 80).Draw(rt, "ms")) * time.Millisecond)
	x.done()
}

// reapOne removes some of the due keys of one shard, or of those on disk.
func (x *machine) reapOne(rt *rapid.T) {
	x.h.s.Manual().ReapSome(rapid.IntRange(0, x.h.s.Shards()).Draw(rt, "source"))
}

func (x *machine) commit(*rapid.T) {
	x.h.commit()
	x.since = []*model{x.m.clone()}
}

func (x *machine) checkpoint(rt *rapid.T) {
	if err := x.h.s.Checkpoint(); err != nil {
		rt.Fatal(err)
	}
	x.commit(rt)
}

func (x *machine) reopen(rt *rapid.T) {
	x.h.reopen()
	x.commit(rt)
}

func (x *machine) crash(rt *rapid.T) {
	h := x.h
	h.crash(x.rng)
	x.crashes++
	x.verify(rt, append(x.since, x.m))
	x.commit(rt)
}

// look reads all values and counts how often each was reported.
func (x *machine) look(rt *rapid.T) (there, reported map[string]int) {
	h := x.h
	there, reported = map[string]int{}, map[string]int{}
	x.unblock()
	h.report()
	for db := range 2 {
		for i := range 8 {
			n := name{db, fmt.Sprint("k", i)}
			h.do(func(t *storage.Txn) {
				item, ok := t.Peek(x.key(n))
				if !ok {
					return
				}
				if text, err := item.String(); err == nil {
					there[fmt.Sprintf("%v//%s", n, text)]++
					return
				}
				item.Value().Walk(func(elem, val []byte, _ int64) bool {
					there[fmt.Sprintf("%v/%s/%s", n, elem, val)]++
					return true
				})
			}, x.key(n))
		}
		for i := range 2 {
			for _, e := range h.reported(db, fmt.Sprint("stream", i)) {
				_, val, _ := strings.Cut(e, " value=")
				reported[val]++
			}
		}
	}
	for _, r := range h.o.List() {
		if r.Waiting != 0 {
			rt.Fatalf("%d entries of %s wait", r.Waiting, r.Name)
		}
	}
	return there, reported
}

// verify compares all values and all reports with several possible states. The state that matches
// becomes the model's.
func (x *machine) verify(rt *rapid.T, states []*model) {
	there, reported := x.look(rt)
	for val, times := range reported {
		if times != 1 {
			rt.Fatalf("%s was reported %d times", val, times)
		}
	}
	var last string
	for i := len(states) - 1; i >= 0; i-- {
		m := states[i].clone()
		m.settle(x.h.clock.Now())
		if last = m.differs(there, reported); last == "" {
			x.m, x.expiries = m, max(x.expiries, len(m.reported))
			return
		}
	}
	rt.Fatalf("of %d states: %s", len(states), last)
}

func (m *model) differs(there, reported map[string]int) string {
	want := map[string]int{}
	for n, fields := range m.keys {
		for f, v := range fields {
			want[fmt.Sprintf("%v/%s/%s", n, f, v.val)]++
		}
	}
	if !maps.Equal(there, want) {
		return fmt.Sprintf("there are %v, want %v", there, want)
	}
	for val := range m.reported {
		if reported[val] == 0 && !m.either[val] {
			return val + " has expired and was not reported"
		}
	}
	for val := range reported {
		if !m.reported[val] && !m.either[val] {
			return val + " was reported and has not expired"
		}
	}
	return ""
}

// TestModel: each value that expires is reported once, and no other value is reported. This holds
// across crashes, restarts, evictions and changes of rules.
func TestModel(t *testing.T) {
	t.Parallel()
	crashes, expiries := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(t)
		h.t = failer{t, rt}
		small := rapid.Bool().Draw(rt, "small steps")
		h.set = func(o *storage.Options) { o.Testing.SmallSteps = small }
		h.reopen()
		x := &machine{h: h, rt: rt, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		x.m = &model{keys: map[name]map[string]timedValue{}, reported: map[string]bool{},
			either: map[string]bool{}}
		for db := range 2 {
			h.rule(ruleOf(db, 0))
		}
		x.commit(rt)
		defer h.close()
		rt.Repeat(map[string]func(*rapid.T){
			"set": x.set, "set more": x.set, "field": x.field, "del": x.del, "rename": x.rename,
			"passed": x.passed, "flush": x.flush, "swap": x.swap,
			"rule": x.rule, "block": x.block, "again": x.again, "advance": x.advance,
			"reapOne": x.reapOne, "reap": func(*rapid.T) { h.s.Reap() }, "move": func(*rapid.T) {
				h.o.Move()
			},
			"evict": func(*rapid.T) { h.s.Manual().Evict(1) }, "commit": x.commit,
			"checkpoint": x.checkpoint, "reopen": x.reopen, "crash": x.crash,
			"verify": func(rt *rapid.T) { x.verify(rt, []*model{x.m}); x.done() },
			"":       func(*rapid.T) {},
		})
		x.verify(rt, []*model{x.m})
		h.check()
		crashes, expiries = crashes+x.crashes, expiries+x.expiries
	})
	t.Logf("%d crashes, %d expiries", crashes, expiries)
	if crashes == 0 || expiries == 0 {
		t.Error("that is too little")
	}
}
