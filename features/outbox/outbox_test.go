package outbox

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// TestReports: each key that expires and matches a rule has an entry in the rule's stream. The
// entries are in the order of deadlines, with the fields that the rule asks for.
func TestReports(t *testing.T) {
	for _, place := range []string{"memory", "disk"} {
		t.Run(place, func(t *testing.T) {
			h := newHarness(t)
			defer h.close()
			at := h.clock.Now()
			h.rule(Rule{Name: "all", Pattern: []byte("k*"), Elements: true, MaxValue: 4})
			h.rule(Rule{Name: "names", Pattern: []byte("k?"), Type: object.TypeString})
			h.rule(Rule{Name: "other", DB: 1, Pattern: []byte("*")})
			h.puts(0, "k1", "one", at+30)
			h.puts(0, "k2", "twelve", at+10)
			h.puts(0, "k3", "stays", 0)
			h.puts(0, "x1", "no rule", at+20)
			h.puts(1, "k1", "other database", at+20)
			hash := h.s.Key(0, []byte("khash"))
			h.do(func(x *storage.Txn) {
				v, _ := x.Hash(hash)
				v.Set([]byte("f"), []byte("field"), ttl.At(at+20))
				v.Set([]byte("g"), []byte("g"), ttl.At(at+25))
				v.Set([]byte("h"), []byte("h"), ttl.Deadline{})
			}, hash)
			h.puts(0, "kdel", "deleted", at+10)
			h.do(func(x *storage.Txn) { x.Delete(h.s.Key(0, []byte("kdel")), storage.Deleted) },
				h.s.Key(0, []byte("kdel")))
			if place == "disk" {
				h.saved()
				h.s.Manual().Evict(1)
			}
			h.report()
			h.wantReported("before", 0, "stream:all")
			h.clock.Advance(30 * time.Millisecond)
			h.report()
			h.report() // nothing twice
			h.wantReported("all", 0, "stream:all",
				"key=k2 type=string deadline=10 value=twel value-bytes=6",
				"key=khash element=f type=hash deadline=20 value=fiel value-bytes=5",
				"key=khash element=g type=hash deadline=25 value=g",
				"key=k1 type=string deadline=30 value=one")
			h.wantReported("names", 0, "stream:names", "key=k2 type=string deadline=10",
				"key=k1 type=string deadline=30")
			h.wantReported("other", 1, "stream:other", "key=k1 type=string deadline=20")
			h.check()
			h.commit()
			h.crash(rand.New(rand.NewPCG(1, 1)))
			h.wantReported("after a crash", 0, "stream:names", "key=k2 type=string deadline=10",
				"key=k1 type=string deadline=30")
		})
	}
}

// TestOfDue: a key that is due expires, and is reported, before a command changes it. Commands that
// empty the database are the exception.
func TestOfDue(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*"), MaxValue: 10})
	at := h.clock.Now()
	for i := range 6 {
		h.puts(0, fmt.Sprint("k", i), fmt.Sprint("v", i), at+int64(i))
	}
	h.puts(0, "from", "new", 0)
	h.clock.Advance(10 * time.Millisecond)
	h.puts(0, "k0", "set", 0)
	key := func(i int) storage.Key { return h.s.Key(0, fmt.Append(nil, "k", i)) }
	h.do(func(x *storage.Txn) { x.Delete(key(1), storage.Deleted) }, key(1))
	from := h.s.Key(0, []byte("from"))
	h.do(func(x *storage.Txn) { x.Rename(from, key(2)) }, from, key(2))
	h.do(func(x *storage.Txn) { x.Rename(key(3), from) }, from, key(3))
	h.puts(0, "k4", "set", 0)
	h.doAll(func(x *storage.Txn) { x.SwapDB(0, 1) })
	h.report() // the last key is in database 1 by now, of which there is no rule
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprintf("key=k%d type=string deadline=%d value=v%d", i, i, i))
	}
	h.wantReported("due", 0, "stream:r", want...)
	h.doAll(func(x *storage.Txn) { x.SwapDB(0, 1) })
	h.puts(0, "k6", "flushed", at+20)
	h.clock.Advance(10 * time.Millisecond)
	h.doAll(func(x *storage.Txn) { x.FlushDB(0) })
	h.report()
	h.wantReported("emptied", 0, "stream:r")
	h.check()
}

// TestElementsBefore: elements that were due before their key are reported, no matter how the key
// is removed. Elements with later deadlines are not reported.
func TestElementsBefore(t *testing.T) {
	for _, how := range []string{"lookup", "reaper", "disk"} {
		t.Run(how, func(t *testing.T) {
			h := newHarness(t)
			defer h.close()
			h.rule(Rule{Name: "r", Pattern: []byte("k*"), Elements: true})
			at, k := h.clock.Now(), h.s.Key(0, []byte("k"))
			h.do(func(x *storage.Txn) {
				v, _ := x.Hash(k)
				for i, field := range []string{"f", "g", "h"} {
					v.Set([]byte(field), []byte("v"), ttl.At(at+10*int64(i+1)))
				}
				x.FlushValues()
				x.SetDeadline(k, ttl.At(at+20), storage.DeadlineSet)
			}, k)
			if how == "disk" {
				h.saved()
				h.s.Manual().Evict(1)
			}
			h.clock.Advance(50 * time.Millisecond)
			if how == "lookup" {
				h.do(func(x *storage.Txn) { x.Peek(k) }, k)
			}
			h.report()
			h.wantReported(how, 0, "stream:r", "key=k element=f type=hash deadline=10",
				"key=k type=hash deadline=20")
			h.check()
		})
	}
}

// TestPassed: setting a deadline in the past counts as an expiry, and the entry has the deadline as
// it was given.
func TestPassed(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*"), Elements: true, MaxValue: 10})
	at := h.clock.Now()
	h.puts(0, "k1", "v", 0)
	k1, k2 := h.s.Key(0, []byte("k1")), h.s.Key(0, []byte("k2"))
	h.do(func(x *storage.Txn) { x.Expire(k1, ttl.At(at-5), 0) }, k1)
	h.do(func(x *storage.Txn) { x.Expire(k1, ttl.At(at-5), 0) }, k1) // it is gone
	h.do(func(x *storage.Txn) {
		v, _ := x.ZSet(k2)
		v.Set([]byte("m"), 1.5)
		x.Members([]byte("m")).Expire(k2, ttl.At(at-4), ttl.Condition(0))
	}, k2)
	h.report()
	h.wantReported("passed", 0, "stream:r", "key=k1 type=string deadline=-5 value=v",
		"key=k2 element=m type=zset deadline=-4 value=1.5")
	h.check()
}

// TestOrder: entries are in the order of their deadlines, no matter which key is removed first.
// This also holds after a restart.
func TestOrder(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*")})
	at := h.clock.Now()
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 500
	var want []string
	for _, i := range rng.Perm(n) {
		h.puts(0, fmt.Sprint("k", i), "v", at+int64(i))
	}
	for i := range n {
		want = append(want, fmt.Sprintf("key=k%d type=string deadline=%d", i, i))
	}
	h.reopen() // only on disk
	h.clock.Advance(time.Second)
	for _, i := range rng.Perm(n)[:100] {
		k := h.s.Key(0, fmt.Append(nil, "k", i))
		h.do(func(x *storage.Txn) { x.Peek(k) }, k)
		h.o.Move() // they wait for those that were due before
	}
	if got := h.reported(0, "stream:r"); !slices.Equal(got, want[:len(got)]) {
		t.Errorf("the stream has %v", got)
	}
	h.report()
	h.wantReported("reaped", 0, "stream:r", want...)
	h.check()
}

// TestLargeValues: the reaper checks the clock between large values that it copies into entries, so
// it does not keep a shard locked for many of them.
func TestLargeValues(t *testing.T) {
	h := newHarness(t)
	h.rule(Rule{Name: "r", Pattern: []byte("k*"), Elements: true, MaxValue: 1 << 20})
	value := strings.Repeat("x", moveBytes)
	for i := range 8 {
		h.puts(0, fmt.Sprintf("k%d{tag}", i), value, h.clock.Now()+10)
	}
	k := h.s.Key(0, []byte("kh{tag}"))
	h.do(func(t *storage.Txn) {
		v, _ := t.Hash(k)
		for i := range 8 {
			v.Set(fmt.Append(nil, "f", i), []byte(value), ttl.At(h.clock.Now()+20))
		}
	}, k)
	h.clock.Advance(20 * time.Millisecond)
	removed := 0
	for more := true; more; {
		var n int
		if n, more = h.s.Manual().ReapSome(h.s.ShardOf(k)); n > 1 {
			t.Errorf("%d at once", n)
		}
		removed += n
	}
	if removed != 16 {
		t.Errorf("removed %d", removed)
	}
	h.report()
	if n := len(h.reported(0, "stream:r")); n != 16 {
		t.Errorf("%d reported", n)
	}
}

// TestHolds: an entry is moved from the queue only after the keys with earlier deadlines are
// removed.
func TestHolds(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*")})
	for i := 1; i <= 3; i++ {
		h.puts(0, fmt.Sprintf("k%d{tag}", i), "v", h.clock.Now()+int64(i))
	}
	h.clock.Advance(5 * time.Millisecond)
	for _, name := range []string{"k3{tag}", "k1{tag}"} {
		k := h.s.Key(0, []byte(name))
		h.do(func(x *storage.Txn) { x.Peek(k) }, k)
	}
	h.o.Move()
	h.wantReported("k2 is not removed", 0, "stream:r", "key=k1{tag} type=string deadline=1")
	h.report()
	h.wantReported("it is", 0, "stream:r", "key=k1{tag} type=string deadline=1",
		"key=k2{tag} type=string deadline=2", "key=k3{tag} type=string deadline=3")
}

// TestStuckShard: a key that is due and cannot be removed does not delay other entries for long.
func TestStuckShard(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*")})
	at := h.clock.Now()
	h.puts(0, "stuck", "v", at+5)
	h.puts(0, "k", "v", at+10)
	h.clock.Advance(10 * time.Millisecond)
	k := h.s.Key(0, []byte("k"))
	h.do(func(x *storage.Txn) { x.Peek(k) }, k)
	h.o.Move()
	h.wantReported("at first", 0, "stream:r")
	h.clock.Advance(patience)
	h.o.Move()
	h.wantReported("later", 0, "stream:r", "key=k type=string deadline=10")
}

// TestDeleteRepaired: deleting a rule writes its waiting entries if the stream, which could not be
// written a moment ago, is writable by now. If it is not, the rule is deleted no matter how much
// waits.
func TestDeleteRepaired(t *testing.T) {
	h := newHarness(t)
	stream := h.s.Key(0, []byte("stream:r"))
	for _, repaired := range []bool{true, false} {
		h.rule(Rule{Name: "r", Pattern: []byte("k*"), MaxValue: 1 << 20})
		h.puts(0, "stream:r", "a string", 0)
		for i := range 12 {
			h.puts(0, fmt.Sprint("k", i), strings.Repeat("x", 1<<19), h.clock.Now()+1)
		}
		h.clock.Advance(time.Millisecond)
		h.report()
		if st := h.o.List()[0]; st.Waiting != 12 || st.Failure == "" {
			t.Errorf("%+v", st)
		}
		if repaired {
			h.do(func(x *storage.Txn) { x.Delete(stream, storage.Deleted) }, stream)
		}
		h.doAll(func(x *storage.Txn) {
			if ok, err := h.o.Delete(x, "r"); !ok || err != nil {
				t.Errorf("repaired %t: %t, %v", repaired, ok, err)
			}
		})
		if repaired {
			if n := len(h.reported(0, "stream:r")); n != 12 {
				t.Errorf("%d reported", n)
			}
		}
	}
	h.check()
}

// TestLargeEntries: a few large entries that wait are enough for writes to be refused, and for the
// deletion of the rule to fail.
func TestLargeEntries(t *testing.T) {
	h := newHarness(t)
	h.rule(Rule{Name: "r", Pattern: []byte("k*"), MaxValue: 1 << 20})
	h.o.SetBacklog(1000)
	expire := func(n int) {
		for i := range n {
			h.puts(0, fmt.Sprint("k", i), strings.Repeat("x", 1<<20), h.clock.Now()+10)
		}
		h.clock.Advance(10 * time.Millisecond)
		h.s.Reap()
	}
	full := func(when string, want bool) {
		t.Helper()
		if h.o.AnyFull() != want {
			t.Errorf("%s: %+v", when, h.o.List())
		}
	}
	expire(1)
	full("with a MiB", true)
	h.reopen()
	h.o.SetBacklog(1000)
	full("after a restart", true)
	h.o.SetBacklog(2000)
	full("with a larger bound", false)
	expire(10)
	full("with 11 MiB", true)
	h.doAll(func(t *storage.Txn) {
		if there, err := h.o.Delete(t, "r"); !there || err != ErrWaiting {
			h.t.Errorf("Delete: %t, %v", there, err)
		}
	})
	h.report()
	full("when all are moved", false)
	h.doAll(func(t *storage.Txn) {
		if there, err := h.o.Delete(t, "r"); !there || err != nil {
			h.t.Errorf("Delete: %t, %v", there, err)
		}
	})
	if n := len(h.reported(0, "stream:r")); n != 11 {
		t.Errorf("%d reported", n)
	}
}

// TestStream: entries wait while their stream cannot be written. Other rules continue, and writes
// are refused when too many entries wait.
func TestStream(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "bad", Pattern: []byte("k*")})
	h.rule(Rule{Name: "good", Pattern: []byte("k*")})
	h.puts(0, "stream:bad", "a string", 0)
	h.o.SetBacklog(2)
	at := h.clock.Now()
	state := func(i int) State { return h.o.List()[i] }
	for i := range 3 {
		h.puts(0, fmt.Sprint("k", i), "v", at+int64(i))
	}
	h.clock.Advance(time.Millisecond)
	h.report()
	if _, full := h.o.Full(h.s.Key(0, []byte("k"))); full || state(0).Failure == "" ||
		state(1).Failure != "" || state(0).Waiting != 2 || state(0).Oldest != at {
		t.Errorf("with two entries: %+v", h.o.List())
	}
	h.clock.Advance(2 * retryAfter)
	h.report()
	if rule, full := h.o.Full(h.s.Key(0, []byte("k"))); !full || rule != "bad" || !h.o.AnyFull() {
		t.Errorf("with three entries: %q, %t", rule, full)
	}
	if _, full := h.o.Full(h.s.Key(0, []byte("x"))); full {
		t.Error("another key is refused")
	}
	h.wantReported("the other rule", 0, "stream:good", "key=k0 type=string deadline=0",
		"key=k1 type=string deadline=1", "key=k2 type=string deadline=2")
	h.commit()
	h.crash(rand.New(rand.NewPCG(1, 1)))
	h.o.SetBacklog(2)
	if state(0).Waiting != 3 || !h.o.AnyFull() {
		t.Errorf("after a crash: %+v", h.o.List())
	}
	h.reopen() // the queue is only on disk
	k := h.s.Key(0, []byte("stream:bad"))
	h.do(func(x *storage.Txn) { x.Delete(k, storage.Deleted) }, k)
	h.report()
	h.wantReported("at last", 0, "stream:bad", "key=k0 type=string deadline=0",
		"key=k1 type=string deadline=1", "key=k2 type=string deadline=2")
	if state(0).Waiting != 0 || h.o.AnyFull() || state(0).Failure != "" || state(0).Written != 3 {
		t.Errorf("at last: %+v", h.o.List())
	}
	h.check()
}

// TestPinned: a stream does not change while a task reads it.
func TestPinned(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*")})
	h.puts(0, "k1", "v", h.clock.Now()+1)
	h.puts(0, "k2", "v", h.clock.Now()+2)
	h.clock.Advance(time.Millisecond)
	h.report()
	var pins storage.Pins
	job, k := h.s.NewTxn(), h.s.Key(0, []byte("stream:r"))
	h.s.Begin(h.txn, []storage.Key{k})
	pins.Pin(h.txn, []storage.Key{k}, job)
	h.clock.Advance(time.Millisecond)
	h.report()
	if item, _ := job.Peek(k); item.Value().(*object.Stream).Entries() != 1 {
		t.Error("the stream has changed under a job")
	}
	pins.Unpin(job)
	h.clock.Advance(pinnedAfter)
	h.report()
	h.wantReported("unpinned", 0, "stream:r", "key=k1 type=string deadline=1",
		"key=k2 type=string deadline=2")
}

// TestTrim: without MAXLEN the stream loses only the entries that all groups have acknowledged.
// With MAXLEN the lost entries are counted.
func TestTrim(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*")})
	h.rule(Rule{Name: "short", Pattern: []byte("k*"), MaxLen: 2})
	expire := func(n int) {
		at := h.clock.Now()
		for i := range n {
			h.puts(0, fmt.Sprint("k", i), "v", at+int64(i)+1)
		}
		h.clock.Advance(time.Duration(n) * time.Millisecond)
		h.report()
		h.o.Tidy()
	}
	k, a, b, c := h.s.Key(0, []byte("stream:r")), []byte("a"), []byte("b"), []byte("consumer")
	left := func() (n int) {
		h.stream(k, func(_ *storage.Txn, v *storage.Stream) { n = v.Value().Entries() })
		return n
	}
	ids := func() (ids []object.StreamID) {
		h.stream(k, func(_ *storage.Txn, v *storage.Stream) {
			v.Value().Range(object.StreamID{}, object.MaxStreamID, false,
				func(e object.StreamEntry) bool {
					ids = append(ids, e.ID)
					return true
				})
		})
		return ids
	}
	expire(4)
	if n := left(); n != 4 {
		t.Fatalf("without groups %d entries are left", n)
	}
	all := ids()
	h.stream(k, func(x *storage.Txn, v *storage.Stream) {
		for _, g := range [][]byte{a, b} {
			v.CreateGroup(g, object.StreamID{}, 0)
			v.CreateConsumer(g, c, 1)
			for _, id := range all {
				v.Deliver(g, c, id, 1, 1)
			}
			v.SetGroup(g, all[3], 4)
		}
		v.Ack(a, all[0])
		v.Ack(b, all[0])
		v.Ack(a, all[1])
		v.Ack(b, all[2])
	})
	h.o.Tidy()
	if n := left(); n != 3 {
		t.Errorf("%d entries are left when all but the first are pending", n)
	}
	expire(1)
	h.stream(k, func(_ *storage.Txn, v *storage.Stream) {
		for _, id := range all {
			v.Ack(a, id)
			v.Ack(b, id)
		}
	})
	h.o.Tidy()
	if n := left(); n != 1 {
		t.Errorf(
			"%d entries are left when all but the last, which is not delivered, are acknowledged",
			n)
	}
	states := h.o.List()
	if states[0].Lost != 0 || states[1].Lost != 3 {
		t.Errorf("lost: %d, with MAXLEN %d", states[0].Lost, states[1].Lost)
	}
	if got := h.reported(0, "stream:short"); len(got) != 2 {
		t.Errorf("with MAXLEN 2 the stream has %v", got)
	}
}

// TestDelete: deleting a rule first writes its waiting entries if possible.
func TestDelete(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	drop := func(name string) (ok bool, err error) {
		h.doAll(func(x *storage.Txn) { ok, err = h.o.Delete(x, name) })
		return ok, err
	}
	if ok, err := drop("none"); ok || err != nil {
		t.Errorf("a rule that is not there: %t, %v", ok, err)
	}
	h.rule(Rule{Name: "r", Pattern: []byte("k*")})
	h.rule(Rule{Name: "bad", Pattern: []byte("k*")})
	h.puts(0, "stream:bad", "a string", 0)
	h.puts(0, "k", "v", h.clock.Now()+1)
	h.clock.Advance(time.Millisecond)
	h.s.Reap()
	for _, name := range []string{"r", "bad"} {
		if ok, err := drop(name); !ok || err != nil {
			t.Errorf("%s: %t, %v", name, ok, err)
		}
	}
	h.wantReported("deleted", 0, "stream:r", "key=k type=string deadline=1")
	h.puts(0, "k", "v", h.clock.Now()+1)
	h.clock.Advance(time.Millisecond)
	h.report()
	h.wantReported("without a rule", 0, "stream:r", "key=k type=string deadline=1")
	left := 0
	h.doAll(func(x *storage.Txn) {
		_ = x.View().WalkSystem(func(name []byte, _ object.Type) bool {
			if strings.HasPrefix(string(name), "outbox") {
				left++
			}
			return true
		})
	})
	if left != 0 || len(h.o.List()) != 0 {
		t.Errorf("%d keys are left, and %d rules", left, len(h.o.List()))
	}
	h.check()
}

// TestOneBatch: the removal of a key and its entry are in one batch of the log. The entry's move
// from the queue to the stream is in one batch too. So after a crash, wherever the log is cut off,
// each key exists or is reported once.
func TestOneBatch(t *testing.T) {
	for _, how := range []string{"reaper", "lookup", "window", "elements"} {
		t.Run(how, func(t *testing.T) {
			for cut := uint64(0); ; cut++ {
				if done := cutShort(t, how, cut); done {
					if cut < 3 {
						t.Errorf("only %d cuts", cut)
					}
					return
				}
			}
		})
	}
}

// cutShort expires keys, and crashes the store when the log contains the given number of batches of
// these expiries. It returns true if there are no more batches.
func cutShort(t *testing.T, how string, batches uint64) (done bool) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*"), Elements: true})
	at := h.clock.Now()
	const n = 5
	var keys []storage.Key
	for i := range n {
		k := h.s.Key(0, fmt.Append(nil, "k", i))
		keys = append(keys, k)
		if how == "elements" {
			h.do(func(x *storage.Txn) {
				v, _ := x.Hash(k)
				v.Set([]byte("f"), []byte("v"), ttl.At(at+1+int64(i)))
			}, k)
		} else {
			h.puts(0, string(k.Name), "v", at+1+int64(i))
		}
	}
	if how == "window" {
		h.saved()
		h.s.Manual().Evict(1)
	}
	h.commit()
	h.clock.Advance(10 * time.Millisecond)
	left := batches
	done = true
	step := func(fn func()) {
		if left == 0 {
			done = false
			return
		}
		left--
		fn()
	}
	if how == "lookup" {
		for _, k := range keys {
			step(func() { h.do(func(x *storage.Txn) { x.Peek(k) }, k) })
		}
	} else {
		for i := range h.s.Shards() {
			if how == "window" {
				i = h.s.Shards()
			}
			for more := left > 0; more && left > 0; {
				step(func() { _, more = h.s.Manual().ReapSome(i) })
			}
		}
	}
	step(func() { h.o.Move() })
	h.commit()
	h.clock.Set(at) // who is still stored is visible then
	h.crash(rand.New(rand.NewPCG(batches, 1)))
	h.report()
	seen := map[string]int{}
	for _, e := range h.reported(0, "stream:r") {
		seen[strings.Fields(e)[0][len("key="):]]++
	}
	for _, k := range keys {
		times := seen[string(k.Name)]
		h.do(func(x *storage.Txn) {
			if _, ok := x.Peek(k); ok {
				times++
			}
		}, k)
		if times != 1 {
			t.Fatalf("after %d steps %s is there, or reported, %d times", batches, k.Name, times)
		}
	}
	h.check()
	return done
}

// TestFullDisk: entries wait while the disk is full, and are written once there is room.
func TestFullDisk(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	h.rule(Rule{Name: "r", Pattern: []byte("k*")})
	h.puts(0, "k", "v", h.clock.Now()+1)
	h.clock.Advance(time.Millisecond)
	h.fs.SetFree(0)
	h.s.Manual().Room()
	h.report()
	h.wantReported("full", 0, "stream:r")
	h.fs.SetFree(math.MaxUint64)
	h.s.Manual().Room()
	h.report()
	h.wantReported("with room", 0, "stream:r", "key=k type=string deadline=1")
}

// TestBesideBackground: once a store is a follower, the mover logs nothing. After the store becomes
// a leader again, each expiry is reported once.
func TestBesideBackground(t *testing.T) {
	h := opened(t, func(o *storage.Options) {
		o.NoBackground = false
		// A checkpoint begins another segment of the log, with an empty batch.
		o.CheckpointBytes = 1 << 40
	})
	h.rule(Rule{Name: "r", Pattern: []byte("k*"), MaxLen: 1 << 20})
	const rounds, keys = 100, 20
	for range rounds {
		for i := range keys {
			h.puts(0, fmt.Sprint("k", i), "v", h.clock.Now()+1+int64(i%2))
		}
		h.clock.Advance(time.Millisecond) // the reaper and the mover begin
		h.s.SetFollower(true)
		end := h.s.Log().End()
		h.clock.Advance(time.Millisecond)
		for i := range keys {
			if h.looks(fmt.Sprint("k", i)) {
				t.Fatalf("a follower shows k%d", i)
			}
		}
		h.o.Move()
		h.o.Tidy()
		if got := h.s.Log().End(); got != end {
			t.Fatalf("a follower has logged %d bytes", got-end)
		}
		h.s.SetFollower(false)
	}
	h.s.Reap()
	await.Until(t, "all expiries are reported", func() bool {
		h.o.Move()
		return len(h.reported(0, "stream:r")) >= rounds*keys
	})
	if n := len(h.reported(0, "stream:r")); n != rounds*keys {
		t.Errorf("%d expiries are reported, want %d", n, rounds*keys)
	}
	h.check()
	if err := h.s.Close(true); err != nil {
		t.Error(err)
	}
}

// TestEntry: an encoded entry decodes to the same entry.
func TestEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := entry{
			deadline: rapid.Int64().Draw(t, "deadline"), removed: rapid.Int64Min(0).Draw(t,
				"removed"), db: rapid.IntRange(0, 100).Draw(t, "db"),
			typ:        object.Type(rapid.IntRange(1, 6).Draw(t, "type")),
			key:        []byte(rapid.String().Draw(t, "key")),
			size:       rapid.IntRange(0, 1<<40).Draw(t, "size"),
			hasElement: rapid.Bool().Draw(t, "element"), hasValue: rapid.Bool().Draw(t, "value"),
		}
		if e.hasElement {
			e.element = []byte(rapid.String().Draw(t, "name"))
		}
		if e.hasValue {
			e.value = []byte(rapid.String().Draw(t, "data"))
		}
		b := e.append(nil)
		got, ok := parseEntry(b)
		if !ok || fmt.Sprint(got) != fmt.Sprint(e) || entryDeadline(b) != e.deadline {
			t.Fatalf("%+v is read as %+v, %t", e, got, ok)
		}
		for n := range b {
			if _, ok := parseEntry(b[:n]); ok {
				t.Fatalf("%d bytes of %d are an entry", n, len(b))
			}
		}
	})
}

// BenchmarkReport expires keys that match a rule, and moves their entries. One operation is one
// key.
func BenchmarkReport(b *testing.B) {
	for _, what := range []string{"none", "reap", "move"} {
		b.Run(what, func(b *testing.B) {
			h := opened(b, func(*storage.Options) {})
			defer h.close()
			if what != "none" {
				h.rule(Rule{Name: "r", Pattern: []byte("k*")})
			}
			at := h.clock.Now() + 1000
			for i := range b.N {
				h.puts(0, fmt.Sprint("k", i), "value", at)
			}
			h.commit()
			h.clock.Advance(time.Second)
			b.ResetTimer()
			if what == "move" {
				b.StopTimer()
			}
			h.s.Reap()
			if what == "move" {
				b.StartTimer()
				h.o.Move()
			}
		})
	}
}

// TestStreamAges: entries of a rule's stream that expire by the stream's age are not reported
// themselves.

func TestStreamAges(t *testing.T) {
	h := newHarness(t)
	defer h.close()
	start := h.clock.Now()
	h.rule(Rule{Name: "r", Pattern: []byte("*"), Elements: true})
	h.puts(0, "k", "v", start+10)
	h.clock.Set(start + 10)
	h.s.Reap()
	h.report()
	k := h.s.Key(0, []byte("stream:r"))
	if list := h.reported(0, "stream:r"); len(list) != 1 {
		t.Fatalf("the stream has %q", list)
	}
	h.stream(k, func(_ *storage.Txn, s *storage.Stream) { s.SetAge(100, object.KeepRefs) })
	h.clock.Set(start + 10_000)
	h.s.Reap()
	h.report()
	if list := h.reported(0, "stream:r"); !slices.Equal(list, nil) {
		t.Errorf("the stream has %q", list)
	}
	h.check()
}

// TestFollower: a follower has the rules and queues of its leader, and continues with them after it
// becomes a leader.
func TestFollower(t *testing.T) {
	p := newPair(t)
	defer p.close()
	l, f := p.leader, p.follower
	l.rule(Rule{Name: "r", Pattern: []byte("*")})
	l.rule(Rule{Name: "gone", Pattern: []byte("*")})
	if ok, err := l.drop("gone"); !ok || err != nil {
		t.Errorf("drop: %t, %v", ok, err)
	}
	for i := range 5 {
		l.puts(0, fmt.Sprint("k", i), "v", l.clock.Now()+1+int64(i%2))
	}
	l.clock.Advance(time.Millisecond)
	l.s.Reap() // three wait
	p.send()
	for _, h := range []*harness{l, f} {
		if got := h.o.List(); len(got) != 1 || got[0].Name != "r" || got[0].Waiting != 3 ||
			got[0].Oldest != l.clock.Now() {
			t.Errorf("outboxes: %+v", got)
		}
	}
	f.s.SetFollower(false)
	f.clock.Advance(time.Second)
	f.report()
	if got := f.reported(0, "stream:r"); len(got) != 5 {
		t.Errorf("the new leader has reported %q", got)
	}
	f.check()
}
