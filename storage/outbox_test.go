package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/storage/object"
	"keyp/ttl"
)

// rule makes a rule, whose stream is named as it is.
func (h *harness) rule(r OutboxRule) {
	h.t.Helper()
	if r.Stream == nil {
		r.Stream = []byte("stream:" + r.Name)
	}
	h.doAll(func(t *Txn) {
		if err := t.SetOutbox(&r); err != nil {
			h.t.Fatalf("SetOutbox: %v", err)
		}
	})
}

// reported gives what is in a stream, each entry as "name=value name=value …", without the rule,
// the database, and the time of removal.
func (h *harness) reported(db int, stream string) (list []string) {
	h.t.Helper()
	h.stream(h.s.Key(db, []byte(stream)), func(_ *Txn, v *Stream) {
		v.Value().Range(object.StreamID{}, object.MaxStreamID, false, func(e object.StreamEntry) bool {
			var words []string
			e.EachField(func(field, val []byte) bool {
				switch string(field) {
				case "rule", "db", "removed":
				case "deadline":
					words = append(words, fmt.Sprintf("deadline=%s", val)[:9]+fmt.Sprint(atoi(val)-1_700_000_000_000))
				default:
					words = append(words, fmt.Sprintf("%s=%s", field, val))
				}
				return true
			})
			list = append(list, strings.Join(words, " "))
			return true
		})
	})
	return list
}

func atoi(b []byte) (n int64) {
	fmt.Sscan(string(b), &n)
	return n
}

// report removes what is due and moves the entries.
func (h *harness) report() {
	h.s.Reap()
	h.s.Manual().MoveOutbox()
}

func (h *harness) puts(db int, key, val string, deadline int64) {
	k := h.s.Key(db, []byte(key))
	h.do(func(t *Txn) { t.SetString(k, []byte(val), ttl.At(deadline), eventSet) }, k)
}

func (h *harness) wantReported(when string, db int, stream string, want ...string) {
	h.t.Helper()
	if got := h.reported(db, stream); !slices.Equal(got, want) {
		h.t.Errorf("%s: the stream has\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOutboxReports: who expires under a rule is in its stream, in the order of deadlines, with
// what the rule wants of it.
func TestOutboxReports(t *testing.T) {
	for _, place := range []string{"memory", "disk"} {
		t.Run(place, func(t *testing.T) {
			h := newHarness(t)
			defer func() { _ = h.s.Close(false) }()
			at := h.clock.Now()
			h.rule(OutboxRule{Name: "all", Pattern: []byte("k*"), Elements: true, MaxValue: 4})
			h.rule(OutboxRule{Name: "names", Pattern: []byte("k?"), Type: object.TypeString})
			h.rule(OutboxRule{Name: "other", DB: 1, Pattern: []byte("*")})
			h.puts(0, "k1", "one", at+30)
			h.puts(0, "k2", "twelve", at+10)
			h.puts(0, "k3", "stays", 0)
			h.puts(0, "x1", "no rule", at+20)
			h.puts(1, "k1", "other database", at+20)
			hash := h.s.Key(0, []byte("khash"))
			h.do(func(x *Txn) {
				v, _ := x.Hash(hash)
				v.Set([]byte("f"), []byte("field"), ttl.At(at+20))
				v.Set([]byte("g"), []byte("g"), ttl.At(at+25))
				v.Set([]byte("h"), []byte("h"), ttl.Deadline{})
			}, hash)
			h.puts(0, "kdel", "deleted", at+10)
			h.do(func(x *Txn) { x.Delete(h.s.Key(0, []byte("kdel")), Deleted) }, h.s.Key(0, []byte("kdel")))
			if place == "disk" {
				h.saved()
				h.evict()
			}
			h.report()
			h.wantReported("before", 0, "stream:all")
			h.clock.Advance(30 * time.Millisecond)
			h.report()
			h.report() // nothing twice
			h.wantReported("all", 0, "stream:all", "key=k2 type=string deadline=10 value=twel value-bytes=6",
				"key=khash element=f type=hash deadline=20 value=fiel value-bytes=5", "key=khash element=g type=hash deadline=25 value=g",
				"key=k1 type=string deadline=30 value=one")
			h.wantReported("names", 0, "stream:names", "key=k2 type=string deadline=10", "key=k1 type=string deadline=30")
			h.wantReported("other", 1, "stream:other", "key=k1 type=string deadline=20")
			h.check()
			h.commit()
			h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
			h.wantReported("after a crash", 0, "stream:names", "key=k2 type=string deadline=10", "key=k1 type=string deadline=30")
		})
	}
}

// TestOutboxOfDue: what a command does to a key that is due comes after its expiry, but for what
// empties the database.
func TestOutboxOfDue(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*"), MaxValue: 10})
	at := h.clock.Now()
	for i := range 6 {
		h.puts(0, fmt.Sprint("k", i), fmt.Sprint("v", i), at+int64(i))
	}
	h.puts(0, "from", "new", 0)
	h.clock.Advance(10 * time.Millisecond)
	h.puts(0, "k0", "set", 0)
	key := func(i int) Key { return h.s.Key(0, fmt.Append(nil, "k", i)) }
	h.do(func(x *Txn) { x.Delete(key(1), Deleted) }, key(1))
	from := h.s.Key(0, []byte("from"))
	h.do(func(x *Txn) { x.Rename(from, key(2)) }, from, key(2))
	h.do(func(x *Txn) { x.Rename(key(3), from) }, from, key(3))
	h.puts(0, "k4", "set", 0)
	h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
	h.report() // the last key is in database 1 by now, of which there is no rule
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprintf("key=k%d type=string deadline=%d value=v%d", i, i, i))
	}
	h.wantReported("due", 0, "stream:r", want...)
	h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
	h.puts(0, "k6", "flushed", at+20)
	h.clock.Advance(10 * time.Millisecond)
	h.doAll(func(x *Txn) { x.FlushDB(0) })
	h.report()
	h.wantReported("emptied", 0, "stream:r")
	h.check()
}

// TestOutboxElementsBefore: elements that were due before their key are reported, whoever removes
// the key; others are not.
func TestOutboxElementsBefore(t *testing.T) {
	for _, how := range []string{"lookup", "reaper", "disk"} {
		t.Run(how, func(t *testing.T) {
			h := newHarness(t)
			defer func() { _ = h.s.Close(false) }()
			h.rule(OutboxRule{Name: "r", Pattern: []byte("k*"), Elements: true})
			at, k := h.clock.Now(), h.s.Key(0, []byte("k"))
			h.do(func(x *Txn) {
				v, _ := x.Hash(k)
				for i, field := range []string{"f", "g", "h"} {
					v.Set([]byte(field), []byte("v"), ttl.At(at+10*int64(i+1)))
				}
				x.FlushValues()
				x.SetDeadline(k, ttl.At(at+20), DeadlineSet)
			}, k)
			if how == "disk" {
				h.saved()
				h.evict()
			}
			h.clock.Advance(50 * time.Millisecond)
			if how == "lookup" {
				h.do(func(x *Txn) { x.Peek(k) }, k)
			}
			h.report()
			h.wantReported(how, 0, "stream:r", "key=k element=f type=hash deadline=10", "key=k type=hash deadline=20")
			h.check()
		})
	}
}

// TestOutboxPassed: a deadline that has passed is an expiry, with the deadline as it was given.
func TestOutboxPassed(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*"), Elements: true, MaxValue: 10})
	at := h.clock.Now()
	h.puts(0, "k1", "v", 0)
	k1, k2 := h.s.Key(0, []byte("k1")), h.s.Key(0, []byte("k2"))
	h.do(func(x *Txn) { x.Expire(k1, ttl.At(at-5), 0) }, k1)
	h.do(func(x *Txn) { x.Expire(k1, ttl.At(at-5), 0) }, k1) // it is gone
	h.do(func(x *Txn) {
		v, _ := x.ZSet(k2)
		v.Set([]byte("m"), 1.5)
		x.Members([]byte("m")).Expire(k2, ttl.At(at-4), ttl.Condition(0))
	}, k2)
	h.report()
	h.wantReported("passed", 0, "stream:r", "key=k1 type=string deadline=-5 value=v", "key=k2 element=m type=zset deadline=-4 value=1.5")
	h.check()
}

// TestOutboxOrder: entries are in the order of deadlines, whoever removes a key first, and after a
// stop.
func TestOutboxOrder(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
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
		h.do(func(x *Txn) { x.Peek(k) }, k)
		h.s.Manual().MoveOutbox() // they wait for those that were due before
	}
	if got := h.reported(0, "stream:r"); !slices.Equal(got, want[:len(got)]) {
		t.Errorf("the stream has %v", got)
	}
	h.report()
	h.wantReported("reaped", 0, "stream:r", want...)
	h.check()
}

// TestOutboxLargeValues: the reaper looks at the clock between large values that it copies into
// entries, and so does not keep a shard locked for many of them.
func TestOutboxLargeValues(t *testing.T) {
	h := newHarness(t)
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*"), Elements: true, MaxValue: 1 << 20})
	value := strings.Repeat("x", outboxBytes)
	for i := range 8 {
		h.puts(0, fmt.Sprintf("k%d{tag}", i), value, h.now()+10)
	}
	k := h.s.Key(0, []byte("kh{tag}"))
	h.do(func(t *Txn) {
		v, _ := t.Hash(k)
		for i := range 8 {
			v.Set(fmt.Append(nil, "f", i), []byte(value), ttl.At(h.now()+20))
		}
	}, k)
	src := &source{sh: h.s.shards[h.s.shardOf(k.Slot)], t: h.s.NewTxn()}
	h.clock.Advance(20 * time.Millisecond)
	removed := 0
	for more := true; more; {
		var n int
		if n, more = src.ReapDue(h.now(), 0); n > 1 {
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

// TestOutboxHolds: of what is in the queues only what has nothing before it is moved.
func TestOutboxHolds(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
	for i := 1; i <= 3; i++ {
		h.puts(0, fmt.Sprint("k", i), "v", h.clock.Now()+int64(i))
	}
	h.clock.Advance(5 * time.Millisecond)
	for _, name := range []string{"k3", "k1"} {
		k := h.s.Key(0, []byte(name))
		h.do(func(x *Txn) { x.Peek(k) }, k)
	}
	h.s.Manual().MoveOutbox()
	h.wantReported("k2 is not removed", 0, "stream:r", "key=k1 type=string deadline=1")
	h.report()
	h.wantReported("it is", 0, "stream:r", "key=k1 type=string deadline=1", "key=k2 type=string deadline=2", "key=k3 type=string deadline=3")
}

// TestOutboxStuckShard: what is due and cannot be removed does not block others for long.
func TestOutboxStuckShard(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
	at := h.clock.Now()
	h.puts(0, "stuck", "v", at+5)
	h.puts(0, "k", "v", at+10)
	h.clock.Advance(10 * time.Millisecond)
	k := h.s.Key(0, []byte("k"))
	h.do(func(x *Txn) { x.Peek(k) }, k)
	h.s.Manual().MoveOutbox()
	h.wantReported("at first", 0, "stream:r")
	h.clock.Advance(outboxPatience)
	h.s.Manual().MoveOutbox()
	h.wantReported("later", 0, "stream:r", "key=k type=string deadline=10")
}

// TestOutboxDeleteRepaired: what waits is not lost with a rule whose stream could not be written a
// moment ago, and can be by now. Where it cannot, the rule goes however much waits.
func TestOutboxDeleteRepaired(t *testing.T) {
	h := newHarness(t)
	stream := h.s.Key(0, []byte("stream:r"))
	for _, repaired := range []bool{true, false} {
		h.rule(OutboxRule{Name: "r", Pattern: []byte("k*"), MaxValue: 1 << 20})
		h.puts(0, "stream:r", "a string", 0)
		for i := range 12 {
			h.puts(0, fmt.Sprint("k", i), strings.Repeat("x", 1<<19), h.clock.Now()+1)
		}
		h.clock.Advance(time.Millisecond)
		h.report()
		if st := h.s.Outboxes()[0]; st.Waiting != 12 || st.Failure == "" {
			t.Errorf("%+v", st)
		}
		if repaired {
			h.do(func(x *Txn) { x.Delete(stream, Deleted) }, stream)
		}
		h.doAll(func(x *Txn) {
			if ok, err := x.DeleteOutbox("r"); !ok || err != nil {
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

// TestOutboxLargeEntries: writes are refused, and DEL fails, as well when fewer entries wait that
// are large.
func TestOutboxLargeEntries(t *testing.T) {
	h := newHarness(t)
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*"), MaxValue: 1 << 20})
	h.s.SetOutboxBacklog(1000)
	expire := func(n int) {
		for i := range n {
			h.puts(0, fmt.Sprint("k", i), strings.Repeat("x", 1<<20), h.now()+10)
		}
		h.clock.Advance(10 * time.Millisecond)
		h.s.Reap()
	}
	full := func(when string, want bool) {
		t.Helper()
		if h.s.OutboxesFull() != want {
			t.Errorf("%s: %+v", when, h.s.Outboxes())
		}
	}
	expire(1)
	full("with a MiB", true)
	h.reopen()
	h.s.SetOutboxBacklog(1000)
	full("after a restart", true)
	h.s.SetOutboxBacklog(2000)
	full("with a larger bound", false)
	expire(10)
	full("with 11 MiB", true)
	h.doAll(func(t *Txn) {
		if there, err := t.DeleteOutbox("r"); !there || err != ErrOutboxWaiting {
			h.t.Errorf("DeleteOutbox: %t, %v", there, err)
		}
	})
	h.report()
	full("when all are moved", false)
	h.doAll(func(t *Txn) {
		if there, err := t.DeleteOutbox("r"); !there || err != nil {
			h.t.Errorf("DeleteOutbox: %t, %v", there, err)
		}
	})
	if n := len(h.reported(0, "stream:r")); n != 11 {
		t.Errorf("%d reported", n)
	}
}

// TestOutboxStream: entries wait while the stream cannot be written: other rules go on, and writes
// are refused when too many wait.
func TestOutboxStream(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "bad", Pattern: []byte("k*")})
	h.rule(OutboxRule{Name: "good", Pattern: []byte("k*")})
	h.puts(0, "stream:bad", "a string", 0)
	h.s.SetOutboxBacklog(2)
	at := h.clock.Now()
	state := func(i int) OutboxState { return h.s.Outboxes()[i] }
	for i := range 3 {
		h.puts(0, fmt.Sprint("k", i), "v", at+int64(i))
	}
	h.clock.Advance(time.Millisecond)
	h.report()
	if _, full := h.s.OutboxFull(h.s.Key(0, []byte("k"))); full || state(0).Failure == "" || state(1).Failure != "" || state(0).Waiting != 2 || state(0).Oldest != at {
		t.Errorf("with two entries: %+v", h.s.Outboxes())
	}
	h.clock.Advance(2 * outboxRetry)
	h.report()
	if rule, full := h.s.OutboxFull(h.s.Key(0, []byte("k"))); !full || rule != "bad" || !h.s.OutboxesFull() {
		t.Errorf("with three entries: %q, %t", rule, full)
	}
	if _, full := h.s.OutboxFull(h.s.Key(0, []byte("x"))); full {
		t.Error("another key is refused")
	}
	h.wantReported("the other rule", 0, "stream:good", "key=k0 type=string deadline=0", "key=k1 type=string deadline=1", "key=k2 type=string deadline=2")
	h.commit()
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	h.s.SetOutboxBacklog(2)
	if state(0).Waiting != 3 || !h.s.OutboxesFull() {
		t.Errorf("after a crash: %+v", h.s.Outboxes())
	}
	h.reopen() // the queue is only on disk
	k := h.s.Key(0, []byte("stream:bad"))
	h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
	h.report()
	h.wantReported("at last", 0, "stream:bad", "key=k0 type=string deadline=0", "key=k1 type=string deadline=1", "key=k2 type=string deadline=2")
	if state(0).Waiting != 0 || h.s.OutboxesFull() || state(0).Failure != "" || state(0).Written != 3 {
		t.Errorf("at last: %+v", h.s.Outboxes())
	}
	h.check()
}

// TestOutboxPinned: a stream that a job reads does not change meanwhile.
func TestOutboxPinned(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
	h.puts(0, "k1", "v", h.clock.Now()+1)
	h.puts(0, "k2", "v", h.clock.Now()+2)
	h.clock.Advance(time.Millisecond)
	h.report()
	var pins Pins
	job, k := h.s.NewTxn(), h.s.Key(0, []byte("stream:r"))
	h.s.Begin(h.txn, []Key{k})
	pins.Pin(h.txn, []Key{k}, job)
	h.clock.Advance(time.Millisecond)
	h.report()
	if item, _ := job.Peek(k); item.Value().(*object.Stream).Entries() != 1 {
		t.Error("the stream has changed under a job")
	}
	pins.Unpin(job)
	h.clock.Advance(outboxPinned)
	h.report()
	h.wantReported("unpinned", 0, "stream:r", "key=k1 type=string deadline=1", "key=k2 type=string deadline=2")
}

// TestOutboxTrim: without MAXLEN the stream loses what all groups have acknowledged, and nothing
// else; with it what is lost is counted.
func TestOutboxTrim(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
	h.rule(OutboxRule{Name: "short", Pattern: []byte("k*"), MaxLen: 2})
	expire := func(n int) {
		at := h.clock.Now()
		for i := range n {
			h.puts(0, fmt.Sprint("k", i), "v", at+int64(i)+1)
		}
		h.clock.Advance(time.Duration(n) * time.Millisecond)
		h.report()
		h.s.Manual().TidyOutbox()
	}
	k, a, b, c := h.s.Key(0, []byte("stream:r")), []byte("a"), []byte("b"), []byte("consumer")
	left := func() (n int) {
		h.stream(k, func(_ *Txn, v *Stream) { n = v.Value().Entries() })
		return n
	}
	ids := func() (ids []object.StreamID) {
		h.stream(k, func(_ *Txn, v *Stream) {
			v.Value().Range(object.StreamID{}, object.MaxStreamID, false, func(e object.StreamEntry) bool {
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
	h.stream(k, func(x *Txn, v *Stream) {
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
	h.s.Manual().TidyOutbox()
	if n := left(); n != 3 {
		t.Errorf("%d entries are left when all but the first are pending", n)
	}
	expire(1)
	h.stream(k, func(_ *Txn, v *Stream) {
		for _, id := range all {
			v.Ack(a, id)
			v.Ack(b, id)
		}
	})
	h.s.Manual().TidyOutbox()
	if n := left(); n != 1 {
		t.Errorf("%d entries are left when all but the last, which is not delivered, are acknowledged", n)
	}
	states := h.s.Outboxes()
	if states[0].Lost != 0 || states[1].Lost != 3 {
		t.Errorf("lost: %d, with MAXLEN %d", states[0].Lost, states[1].Lost)
	}
	if got := h.reported(0, "stream:short"); len(got) != 2 {
		t.Errorf("with MAXLEN 2 the stream has %v", got)
	}
}

// TestOutboxDelete: what waits is written before the rule goes, if it can be.
func TestOutboxDelete(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	drop := func(name string) (ok bool, err error) {
		h.doAll(func(x *Txn) { ok, err = x.DeleteOutbox(name) })
		return ok, err
	}
	if ok, err := drop("none"); ok || err != nil {
		t.Errorf("a rule that is not there: %t, %v", ok, err)
	}
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
	h.rule(OutboxRule{Name: "bad", Pattern: []byte("k*")})
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
	h.doAll(func(x *Txn) {
		_ = x.View().WalkSystem(func(name []byte, _ object.Type) bool {
			if strings.HasPrefix(string(name), "outbox") {
				left++
			}
			return true
		})
	})
	if left != 0 || len(h.s.Outboxes()) != 0 {
		t.Errorf("%d keys are left, and %d rules", left, len(h.s.Outboxes()))
	}
	h.check()
}

// TestOutboxOneBatch: the removal and its entry are in one batch of the log, and so are leaving the
// queue and coming into the stream: whatever part of the log a crash leaves, the key is there or is
// reported, once.
func TestOutboxOneBatch(t *testing.T) {
	for _, how := range []string{"reaper", "lookup", "window", "elements"} {
		t.Run(how, func(t *testing.T) {
			for cut := uint64(0); ; cut++ {
				if done := outboxCut(t, how, cut); done {
					if cut < 3 {
						t.Errorf("only %d cuts", cut)
					}
					return
				}
			}
		})
	}
}

// outboxCut expires keys, and crashes the store when the log contains some batches of that. done
// reports that there were no more.
func outboxCut(t *testing.T, how string, batches uint64) (done bool) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*"), Elements: true})
	at := h.clock.Now()
	const n = 5
	var keys []Key
	for i := range n {
		k := h.s.Key(0, fmt.Append(nil, "k", i))
		keys = append(keys, k)
		if how == "elements" {
			h.do(func(x *Txn) {
				v, _ := x.Hash(k)
				v.Set([]byte("f"), []byte("v"), ttl.At(at+1+int64(i)))
			}, k)
		} else {
			h.puts(0, string(k.Name), "v", at+1+int64(i))
		}
	}
	if how == "window" {
		h.saved()
		h.evict()
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
			step(func() { h.do(func(x *Txn) { x.Peek(k) }, k) })
		}
	} else {
		for i := range h.s.shards {
			src := &source{sh: h.s.shards[i], t: h.s.NewTxn()}
			for more := true; more; {
				if left == 0 {
					break
				}
				step(func() {
					if how == "window" {
						_, more = h.s.window.reapDue(h.s.now(), 0, true)
					} else {
						_, more = src.reapDue(h.s.now(), 0, true)
					}
				})
			}
		}
	}
	step(func() { h.s.Manual().MoveOutbox() })
	h.commit()
	h.clock.Set(at) // who is still stored is visible then
	h.s.stop()
	h.s.background.Wait()
	h.fs = h.fs.Crash(rand.New(rand.NewPCG(batches, 1)))
	_ = h.s.log.Close()
	_ = h.s.release()
	h.open()
	h.report()
	seen := map[string]int{}
	for _, e := range h.reported(0, "stream:r") {
		seen[strings.Fields(e)[0][len("key="):]]++
	}
	for _, k := range keys {
		times := seen[string(k.Name)]
		h.do(func(x *Txn) {
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

// TestOutboxFullDisk: where the disk is full entries wait, and come when there is room.
func TestOutboxFullDisk(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
	h.puts(0, "k", "v", h.clock.Now()+1)
	h.clock.Advance(time.Millisecond)
	h.s.house.lowSpace.Store(true)
	h.report()
	h.wantReported("full", 0, "stream:r")
	h.s.house.lowSpace.Store(false)
	h.report()
	h.wantReported("with room", 0, "stream:r", "key=k type=string deadline=1")
}

// TestOutboxEntry: an entry reads as it was written.
func TestOutboxEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := outEntry{
			deadline: rapid.Int64().Draw(t, "deadline"), removed: rapid.Int64Min(0).Draw(t, "removed"), db: rapid.IntRange(0, 100).Draw(t, "db"),
			typ: object.Type(rapid.IntRange(1, 6).Draw(t, "type")), key: []byte(rapid.String().Draw(t, "key")), size: rapid.IntRange(0, 1<<40).Draw(t, "size"),
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

// BenchmarkOutbox expires keys under a rule, and moves their entries. An operation is one key.
func BenchmarkOutbox(b *testing.B) {
	for _, what := range []string{"none", "reap", "move"} {
		b.Run(what, func(b *testing.B) {
			h := newHarness(b)
			defer func() { _ = h.s.Close(false) }()
			h.s.bounds = h.s.options.Testing.bounds()
			if what != "none" {
				h.rule(OutboxRule{Name: "r", Pattern: []byte("k*")})
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
				h.s.Manual().MoveOutbox()
			}
		})
	}
}
