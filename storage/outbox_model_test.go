package storage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/storage/object"
	"keyp/ttl"
)

// outboxModel says which values there are, and which have expired. Each value that is set is
// another one.
type outboxModel struct {
	keys     map[name]map[string]timedValue // by field; a string has the field ""
	reported map[string]bool                // values that have expired
	either   map[string]bool                // that have perhaps: their database, or that of the stream, was emptied
}

type timedValue struct {
	val      string
	deadline int64 // 0: none
}

func (m *outboxModel) clone() *outboxModel {
	c := &outboxModel{keys: map[name]map[string]timedValue{}, reported: maps.Clone(m.reported), either: maps.Clone(m.either)}
	for n, fields := range m.keys {
		c.keys[n] = maps.Clone(fields)
	}
	return c
}

// settle removes everything that is due from the model, and notes it as reported.
func (m *outboxModel) settle(now int64) {
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

// outboxMachine runs random operations beside a model.
type outboxMachine struct {
	h        *harness
	rt       *rapid.T
	m        *outboxModel
	since    []*outboxModel // states since the last commit
	rng      *rand.Rand
	values   int
	crashes  int
	expiries int
}

func (x *outboxMachine) name(rt *rapid.T) name {
	return name{rapid.IntRange(0, 1).Draw(rt, "db"), fmt.Sprint("k", rapid.IntRange(0, 7).Draw(rt, "key"))}
}

func (x *outboxMachine) key(n name) Key { return x.h.s.Key(n.db, []byte(n.key)) }

// next is a value that there was not yet, with a deadline or none.
func (x *outboxMachine) next(rt *rapid.T) timedValue {
	x.values++
	v := timedValue{val: fmt.Sprint("v", x.values)}
	if rapid.IntRange(0, 3).Draw(rt, "timed") > 0 {
		v.deadline = x.h.now() + rapid.Int64Range(1, 60).Draw(rt, "ttl")
	}
	return v
}

func (x *outboxMachine) done() { x.since = append(x.since, x.m.clone()) }

// settled is the model with what is due now reported, as a command finds it that locks a key.
func (x *outboxMachine) settled() *outboxModel {
	x.m.settle(x.h.now())
	return x.m
}

func (x *outboxMachine) set(rt *rapid.T) {
	n, v := x.name(rt), x.next(rt)
	x.settled().keys[n] = map[string]timedValue{"": v}
	x.h.do(func(t *Txn) { t.SetString(x.key(n), []byte(v.val), ttl.At(v.deadline), eventSet) }, x.key(n))
	x.done()
}

func (x *outboxMachine) field(rt *rapid.T) {
	n, v, f := x.name(rt), x.next(rt), fmt.Sprint("f", rapid.IntRange(0, 3).Draw(rt, "field"))
	m := x.settled()
	if _, text := m.keys[n][""]; text {
		return
	}
	if m.keys[n] == nil {
		m.keys[n] = map[string]timedValue{}
	}
	m.keys[n][f] = v
	x.h.do(func(t *Txn) {
		h, err := t.Hash(x.key(n))
		if err != nil {
			rt.Fatal(err)
		}
		h.Set([]byte(f), []byte(v.val), ttl.At(v.deadline))
	}, x.key(n))
	x.done()
}

func (x *outboxMachine) del(rt *rapid.T) {
	n := x.name(rt)
	delete(x.settled().keys, n)
	x.h.do(func(t *Txn) { t.Delete(x.key(n), Deleted) }, x.key(n))
	x.done()
}

func (x *outboxMachine) rename(rt *rapid.T) {
	from, to := x.name(rt), x.name(rt)
	m := x.settled()
	if fields := m.keys[from]; fields != nil && from != to {
		m.keys[to] = fields
		delete(m.keys, from)
	}
	if from != to {
		x.h.do(func(t *Txn) { t.Rename(x.key(from), x.key(to)) }, x.key(from), x.key(to))
	}
	x.done()
}

// passed gives a string a deadline that has passed.
func (x *outboxMachine) passed(rt *rapid.T) {
	n := x.name(rt)
	m := x.settled()
	if v, ok := m.keys[n][""]; ok {
		m.reported[v.val] = true
		delete(m.keys, n)
		x.h.do(func(t *Txn) { t.Expire(x.key(n), ttl.At(x.h.now()-1), 0) }, x.key(n))
	}
	x.done()
}

func (x *outboxMachine) flush(rt *rapid.T) {
	db := rapid.IntRange(0, 1).Draw(rt, "db")
	now := x.h.now()
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
	x.h.doAll(func(t *Txn) { t.FlushDB(db) })
	x.done()
}

func (x *outboxMachine) swap(*rapid.T) {
	swapped := map[name]map[string]timedValue{}
	for n, fields := range x.m.keys {
		swapped[name{1 - n.db, n.key}] = fields
	}
	x.m.keys = swapped
	x.h.doAll(func(t *Txn) { t.SwapDB(0, 1) })
	x.done()
}

// rule replaces a rule: with another stream, and with other settings that leave unchanged what is
// reported.
func (x *outboxMachine) rule(rt *rapid.T) {
	db := rapid.IntRange(0, 1).Draw(rt, "db")
	x.h.rule(outboxRule(db, rapid.IntRange(0, 1).Draw(rt, "stream")))
	x.done()
}

func outboxRule(db, stream int) OutboxRule {
	return OutboxRule{Name: fmt.Sprint("rule", db), DB: db, Pattern: []byte("k*"), Elements: true, MaxValue: 100, Stream: fmt.Append(nil, "stream", stream)}
}

// block puts a string in place of a stream, whose entries are gone: what expires waits, until
// unblock.
func (x *outboxMachine) block(rt *rapid.T) {
	k := x.h.s.Key(rapid.IntRange(0, 1).Draw(rt, "db"), fmt.Append(nil, "stream", rapid.IntRange(0, 1).Draw(rt, "stream")))
	x.settled()
	maps.Copy(x.m.either, x.m.reported)
	clear(x.m.reported)
	x.h.do(func(t *Txn) { t.SetString(k, []byte("no stream"), ttl.Deadline{}, eventSet) }, k)
	x.done()
}

// unblock deletes what is no stream.
func (x *outboxMachine) unblock() {
	blocked := false
	for db := range 2 {
		for i := range 2 {
			k := x.h.s.Key(db, fmt.Append(nil, "stream", i))
			x.h.do(func(t *Txn) {
				if item, ok := t.Peek(k); ok && item.Type() != object.TypeStream {
					blocked = t.Delete(k, Deleted)
				}
			}, k)
		}
	}
	if blocked {
		x.h.clock.Advance(outboxRetry)
	}
}

// again deletes a rule, which writes what waits where that can be written, and makes it again.
func (x *outboxMachine) again(rt *rapid.T) {
	db := rapid.IntRange(0, 1).Draw(rt, "db")
	x.unblock()
	x.settled()
	x.done()
	x.h.doAll(func(t *Txn) {
		if there, err := t.DeleteOutbox(fmt.Sprint("rule", db)); !there || err != nil {
			rt.Fatalf("DeleteOutbox: %t, %v", there, err)
		}
		r := outboxRule(db, rapid.IntRange(0, 1).Draw(rt, "stream"))
		if err := t.SetOutbox(&r); err != nil {
			rt.Fatal(err)
		}
	})
	x.done()
}

func (x *outboxMachine) advance(rt *rapid.T) {
	x.h.clock.Advance(time.Duration(rapid.IntRange(1, 80).Draw(rt, "ms")) * time.Millisecond)
	x.done()
}

// reapOne makes one shard, or the window, remove something.
func (x *outboxMachine) reapOne(rt *rapid.T) {
	s := x.h.s
	if i := rapid.IntRange(0, len(s.shards)).Draw(rt, "source"); i < len(s.shards) {
		(&source{sh: s.shards[i], t: s.NewTxn()}).ReapDue(s.now(), 0)
	} else {
		s.window.reapDue(s.now(), 0, true)
	}
}

func (x *outboxMachine) commit(*rapid.T) {
	x.h.commit()
	x.since = []*outboxModel{x.m.clone()}
}

func (x *outboxMachine) checkpoint(rt *rapid.T) {
	if err := x.h.s.Checkpoint(); err != nil {
		rt.Fatal(err)
	}
	x.commit(rt)
}

func (x *outboxMachine) reopen(rt *rapid.T) {
	x.h.reopen()
	x.commit(rt)
}

func (x *outboxMachine) crash(rt *rapid.T) {
	h := x.h
	h.s.stop()
	h.s.background.Wait()
	h.fs = h.fs.Crash(x.rng)
	_ = h.s.log.Close()
	if err := h.s.release(); err != nil {
		rt.Fatal(err)
	}
	h.open()
	x.crashes++
	x.verify(rt, append(x.since, x.m))
	x.commit(rt)
}

// look reads all values, and how often each was reported.
func (x *outboxMachine) look(rt *rapid.T) (there, reported map[string]int) {
	h := x.h
	there, reported = map[string]int{}, map[string]int{}
	x.unblock()
	h.report()
	for db := range 2 {
		for i := range 8 {
			n := name{db, fmt.Sprint("k", i)}
			h.do(func(t *Txn) {
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
	for _, r := range h.s.Outboxes() {
		if r.Waiting != 0 {
			rt.Fatalf("%d entries of %s wait", r.Waiting, r.Name)
		}
	}
	return there, reported
}

// verify compares all values, and what was reported, with one of some states, which is the model's
// from then on.
func (x *outboxMachine) verify(rt *rapid.T, states []*outboxModel) {
	there, reported := x.look(rt)
	for val, times := range reported {
		if times != 1 {
			rt.Fatalf("%s was reported %d times", val, times)
		}
	}
	var last string
	for i := len(states) - 1; i >= 0; i-- {
		m := states[i].clone()
		m.settle(x.h.now())
		if last = m.differs(there, reported); last == "" {
			x.m, x.expiries = m, max(x.expiries, len(m.reported))
			return
		}
	}
	rt.Fatalf("of %d states: %s", len(states), last)
}

func (m *outboxModel) differs(there, reported map[string]int) string {
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

// TestOutboxModel: whatever happens, each value that expires is reported once, and no other is:
// with crashes, restarts, evictions and other rules meanwhile.
func TestOutboxModel(t *testing.T) {
	t.Parallel()
	crashes, expiries := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(t)
		h.t = failer{t, rt}
		h.portions = rapid.Bool().Draw(rt, "portions")
		h.reopen()
		x := &outboxMachine{h: h, rt: rt, rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		x.m = &outboxModel{keys: map[name]map[string]timedValue{}, reported: map[string]bool{}, either: map[string]bool{}}
		for db := range 2 {
			h.rule(outboxRule(db, 0))
		}
		x.commit(rt)
		defer func() { _ = h.s.Close(false) }()
		rt.Repeat(map[string]func(*rapid.T){
			"set": x.set, "set more": x.set, "field": x.field, "del": x.del, "rename": x.rename, "passed": x.passed, "flush": x.flush, "swap": x.swap,
			"rule": x.rule, "block": x.block, "again": x.again, "advance": x.advance, "reapOne": x.reapOne, "reap": func(*rapid.T) { h.s.Reap() }, "move": func(*rapid.T) { h.s.Manual().MoveOutbox() },
			"evict": func(*rapid.T) { h.evict() }, "commit": x.commit, "checkpoint": x.checkpoint, "reopen": x.reopen, "crash": x.crash,
			"verify": func(rt *rapid.T) { x.verify(rt, []*outboxModel{x.m}); x.done() },
			"":       func(*rapid.T) {},
		})
		x.verify(rt, []*outboxModel{x.m})
		h.check()
		crashes, expiries = crashes+x.crashes, expiries+x.expiries
	})
	t.Logf("%d crashes, %d expiries", crashes, expiries)
	if crashes == 0 || expiries == 0 {
		t.Error("that is too little")
	}
}
