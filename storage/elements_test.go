package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// fields makes a hash of n fields that have a deadline after the given number of ms, and one field
// without a deadline.
func (h *harness) fields(k Key, n int, left int64) {
	h.t.Helper()
	h.hash(k, func(_ *Txn, v *Hash) {
		for i := range n {
			v.Set(fmt.Appendf(nil, "field%d", i), []byte("value"), ttl.At(h.clock.Now()+left))
		}
		v.Set([]byte("stays"), []byte("value"), ttl.Deadline{})
	})
}

func (h *harness) scan() (names []string) {
	h.t.Helper()
	if err := h.s.Walk(0, func(name []byte, _ object.Type) bool {
		names = append(names, string(name))
		return true
	}); err != nil {
		h.t.Fatalf("walk: %v", err)
	}
	return names
}

// TestElementsOnDiskExpire: elements of keys that are only on disk are removed at their deadline
// without being read, in small and large values alike. The count of keys with a deadline does not
// include these keys.
func TestElementsOnDiskExpire(t *testing.T) {
	for _, n := range []int{3, 3000} {
		h := newHarness(t)
		k := h.s.Key(0, []byte("k"))
		h.fields(k, n, 100)
		h.reopen()
		h.check()
		if keys, expires := h.s.Count(0); keys != 1 || expires != 0 {
			t.Fatalf("%d keys, %d with a deadline; want 1 and 0", keys, expires)
		}
		h.clock.Advance(100 * time.Millisecond)
		h.eventNames()
		h.s.Reap()
		if got := h.eventNames(); len(got) == 0 || got[0] != FieldExpired.Name {
			t.Fatalf("events %v", got)
		}
		if got := h.s.Stats().ExpiredElements; got != int64(n) {
			t.Fatalf("%d elements expired, want %d", got, n)
		}
		h.commit()
		h.check()
		h.reopen()
		h.hash(k, func(_ *Txn, v *Hash) {
			if v.Value().Len() != 1 {
				t.Fatalf("%d fields are left", v.Value().Len())
			}
		})
		h.check()
		_ = h.s.Close(false)
	}
}

// TestKeyOnDiskGoesWithItsElements: a key whose elements are all due is not listed, and is gone for
// good after it was reaped.
func TestKeyOnDiskGoesWithItsElements(t *testing.T) {
	for _, n := range []int{3, 3000} {
		h := newHarness(t)
		k := h.s.Key(0, []byte("k"))
		h.fields(k, n, 100)
		h.hash(k, func(_ *Txn, v *Hash) {
			v.SetDeadline([]byte("stays"), ttl.At(h.clock.Now()+100))
		})
		h.reopen()
		if got := h.scan(); len(got) != 1 {
			t.Fatalf("the scan shows %v before the deadline", got)
		}
		h.clock.Advance(100 * time.Millisecond)
		if got := h.scan(); len(got) != 0 {
			t.Fatalf("the scan shows %v after the deadline", got)
		}
		h.load([]Key{k})
		if got := h.scan(); len(got) != 0 {
			t.Fatalf("the scan shows %v in memory after the deadline", got)
		}
		h.s.Reap()
		if keys, _ := h.s.Count(0); keys != 0 {
			t.Fatalf("%d keys are left", keys)
		}
		h.commit()
		h.reopen()
		if got := h.scan(); len(got) != 0 {
			t.Fatalf("the scan shows %v after the restart", got)
		}
		h.check()
		_ = h.s.Close(false)
	}
}

// TestKeyDeadlineAfterElements: if the ttl bucket has an element's deadline for a key, the whole
// key still goes at its own deadline, even when only the log has the latter.
func TestKeyDeadlineAfterElements(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := newHarness(t)
		k := h.s.Key(0, []byte("k"))
		h.fields(k, 3, 100)
		h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(h.clock.Now()+200), Event{}) }, k)
		h.reopen()
		h.clock.Advance(200 * time.Millisecond)
		h.eventNames()
		h.s.Reap()
		if got := h.eventNames(); len(got) != 1 || got[0] != Expired.Name {
			t.Fatalf("events %v", got)
		}
		h.model = model{}
		h.commit()
		if crash { // and the clock is behind
			h.clock.Set(h.clock.Now() - 150)
			h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{{0, "k"}: true})
		}
		if keys, expires := h.s.Count(0); keys != 0 || expires != 0 {
			t.Fatalf("%d keys, %d with a deadline are left", keys, expires)
		}
		h.check()
		_ = h.s.Close(false)
	}
}

// TestElementsLeftBehind: a checkpoint that did not finish has written elements. Commands delete
// some of them before the next checkpoint.
func TestElementsLeftBehind(t *testing.T) {
	h := newHarness(t)
	k := h.s.Key(0, []byte("k"))
	h.fields(k, 3000, 1000)
	h.commit()
	m, err := h.s.checkpointer.rotate()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.parts {
		if err := h.s.checkpointer.copyPart(new(cpBatch), p); err != nil {
			t.Fatal(err)
		}
	}
	n := name{0, "k"}
	h.model = h.state(map[name]bool{n: true})
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{n: true})
	h.hash(k, func(_ *Txn, v *Hash) {
		for i := range 1000 {
			v.Delete(fmt.Appendf(nil, "field%d", i))
		}
	})
	h.reopen()
	h.hash(k, func(_ *Txn, v *Hash) {
		if v.Value().Len() != 2001 {
			t.Fatalf("%d fields are left", v.Value().Len())
		}
	})
	h.check()
	_ = h.s.Close(false)
}

// TestLongElements: elements that are too long for keys of the data file, and differ only at their
// end, can be loaded, changed and removed like others.
func TestLongElements(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k, l := h.s.Key(0, []byte("k")), h.s.Key(0, []byte("l"))
	field := func(n int, end string) []byte { return []byte(strings.Repeat("x", n-len(end)) + end) }
	sizes := []int{format.LongName - 1, format.LongName, format.LongName + 1, format.LongName + 32,
		40_000, 1_000_000}
	h.hash(k, func(_ *Txn, v *Hash) {
		for _, n := range sizes {
			v.Set(field(n, "a"), []byte("1"), ttl.Deadline{})
			v.Set(field(n, "b"), []byte("2"), ttl.At(h.clock.Now()+1000))
			v.Set(field(n, "c"), []byte("3"), ttl.Deadline{})
		}
	})
	h.do(func(tx *Txn) {
		s, err := tx.Set(l)
		if err != nil || !s.Add(field(40_000, "")) {
			t.Fatal(err)
		}
	}, l)
	h.reopen()
	h.check()
	h.hash(k, func(_ *Txn, v *Hash) {
		for _, n := range sizes {
			if !v.Delete(field(n, "a")) || v.Set(field(n, "c"), []byte("4"), ttl.Deadline{}) {
				t.Fatalf("the fields of %d bytes did not come back", n)
			}
		}
	})
	h.reopen()
	h.check()
	h.hash(k, func(_ *Txn, v *Hash) {
		if v.Value().Len() != 2*len(sizes) {
			t.Fatalf("%d fields are left", v.Value().Len())
		}
		for _, n := range sizes {
			val, _, ok := v.Value().Get(field(n, "c"))
			if _, deadline, timed := v.Value().Get(field(n, "b")); !ok || string(val) != "4" ||
				!timed || deadline == 0 {
				t.Fatalf("a field of %d bytes: %q, deadline %d", n, val, deadline)
			}
		}
	})
	h.clock.Advance(time.Second)
	h.s.Reap()
	h.reopen()
	h.check()
	h.hash(k, func(_ *Txn, v *Hash) {
		if v.Value().Len() != len(sizes) {
			t.Fatalf("%d fields outlive those that were due", v.Value().Len())
		}
	})
	h.do(func(tx *Txn) {
		if s, err := tx.Set(l); err != nil || s.Value().Len() != 1 {
			t.Fatalf("the set has %d members, %v", s.Value().Len(), err)
		}
	}, l)
}

// TestDeadlineFromBehindAStep: a checkpoint that did not finish has left a deadline in the data
// file that is newer than the beginning of the log. It was set after the clock went back. It is
// before the instant at which, by a later log record, all due keys are gone.
func TestDeadlineFromBehindAStep(t *testing.T) {
	for _, lives := range []bool{true, false} {
		h := newHarness(t)
		k := h.s.Key(0, []byte("k"))
		h.fields(k, 3, 0)
		if !lives { // its deadline is from before the log
			h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(h.clock.Now()+500), Event{}) }, k)
		}
		if err := h.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		// To replay this, the start reads the key.
		h.hash(k, func(_ *Txn, v *Hash) { v.Set([]byte("f"), []byte("v"), ttl.Deadline{}) })
		h.clock.Advance(10 * time.Second)
		h.s.now()
		h.clock.Set(h.clock.Now() - 9000)
		h.s.now()
		h.s.background.Wait()
		if lives {
			h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(h.clock.Now()+1000), Event{}) }, k)
		}
		h.commit()
		m, err := h.s.checkpointer.rotate()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.parts {
			if err := h.s.checkpointer.copyPart(new(cpBatch), p); err != nil {
				t.Fatal(err)
			}
		}
		n := map[name]bool{{0, "k"}: true}
		h.model = h.state(n)
		if want := map[bool]int{true: 1}[lives]; len(h.model) != want {
			t.Fatalf("before the crash there are %d keys", len(h.model))
		}
		h.commit()
		h.crash(rand.New(rand.NewPCG(1, 1)), n)
		_ = h.s.Close(false)
	}
}

// TestDeadlineRecordNamesItsKey: in a batch the short record of a deadline applies to the value of
// the record before it. The deadline of any other key has a record that names the key.
func TestDeadlineRecordNamesItsKey(t *testing.T) {
	h := newHarness(t)
	a, b := h.s.Key(0, []byte("a")), h.s.Key(0, []byte("b"))
	h.fields(a, 1, hour)
	h.fields(b, 1, hour)
	due := h.clock.Now() + 2*hour
	h.do(func(x *Txn) {
		v, err := x.Hash(a)
		if err != nil {
			t.Fatal(err)
		}
		v.Set([]byte("field"), []byte("value"), ttl.Deadline{})
		if !x.SetDeadline(b, ttl.At(due), Event{}) {
			t.Fatal("the key is gone")
		}
	}, a, b)
	h.again(true, func() {})
	defer func() { _ = h.s.Close(false) }()
	h.do(func(x *Txn) {
		of, _ := x.Deadline(a)
		is, _ := x.Deadline(b)
		if of != ttl.None || is != due {
			t.Errorf("the deadlines are %d and %d", of, is)
		}
	}, a, b)
}

// TestTimedOfOlderVersion: an older version did not count the keys that have elements with
// deadlines. A start counts them then, including those on disk.
func TestTimedOfOlderVersion(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	var keys []Key
	for i := range 20 {
		keys = append(keys, h.s.Key(0, fmt.Appendf(nil, "k%d", i)))
		h.fields(keys[i], 1, 1000)
	}
	h.do(func(x *Txn) {
		x.SetString(keys[0], []byte("string"), ttl.Deadline{}, Deleted)
		x.SetDeadline(keys[2], ttl.At(h.clock.Now()+10), DeadlineSet)
	}, keys[0], keys[2])
	h.reopen()
	h.saved()
	h.do(func(x *Txn) { x.Delete(keys[1], Deleted) }, keys[1])
	h.commit()
	err := h.s.file.DB().Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketMeta)
		sealed := b.Get(format.MetaState)
		plain, _ := format.Unseal(format.MetaState, sealed)
		st, err := format.ParseState(plain)
		plain = plain[:len(plain)-len(st.Counts)-1] // without the flags and what they announce
		return errors.Join(err, b.Put(format.MetaState, format.Seal(format.MetaState, plain)))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{18, 17} {
		if err := h.s.Close(false); err != nil { // without a checkpoint
			t.Fatal(err)
		}
		h.open()
		h.check()
		if n := h.s.CountTimed(0); n != want {
			t.Errorf("%d keys have deadlines of elements, not %d", n, want)
		}
		h.clock.Advance(20 * time.Millisecond)
		h.s.Reap()
		h.check()
		if n := h.s.CountTimed(0); n != 17 {
			t.Errorf("%d keys have deadlines of elements, not 17", n)
		}
		h.commit()
	}
}
