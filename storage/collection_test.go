package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/storage/object"
	"keyp/ttl"
)

func (h *harness) hash(k Key, fn func(*Txn, *Hash)) {
	h.t.Helper()
	h.do(func(t *Txn) {
		v, err := t.Hash(k)
		if err != nil {
			h.t.Fatalf("Hash: %v", err)
		}
		fn(t, &v)
	}, k)
}

func (h *harness) eventNames() (names []string) {
	for _, e := range h.events {
		names = append(names, e.Name)
	}
	h.events = nil
	return names
}

// TestLastElementDeletesKey: the event of the deletion comes after the command's own event.
func TestLastElementDeletesKey(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	h.hash(k, func(t *Txn, v *Hash) {
		v.Set([]byte("f"), []byte("1"), ttl.Deadline{})
		t.Notify(k, Event{EventHash, "hset"})
	})
	h.hash(k, func(t *Txn, v *Hash) {
		if !v.Exists() || !v.Delete([]byte("f")) || v.Delete([]byte("f")) || v.Exists() {
			h.t.Fatalf("the field did not go once")
		}
		t.Notify(k, Event{EventHash, "hdel"})
	})
	if got := h.eventNames(); !slices.Equal(got, []string{"hset", "hdel", "del"}) {
		t.Fatalf("events %v", got)
	}
	if n, _ := h.s.Count(0); n != 0 {
		t.Fatalf("%d keys are left", n)
	}
	h.check()
}

// TestHandlesOfOneKey: a change through one handle is visible through the other, even if the key is
// new.
func TestHandlesOfOneKey(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	h.do(func(t *Txn) {
		a, _ := t.List(k)
		b, _ := t.List(k)
		a.PushBack([]byte("1"))
		b.PushBack([]byte("2"))
		if a.Value().Len() != 2 || !b.Exists() {
			h.t.Fatalf("the handles see %d and %d elements", a.Value().Len(), b.Value().Len())
		}
		t.Delete(k, Deleted)
		a.PushBack([]byte("3"))
		if b.Value().Len() != 1 {
			h.t.Fatalf("the handle sees %d elements of the new list", b.Value().Len())
		}
	}, k)
	h.check()
	h.do(func(t *Txn) {
		if _, err := t.Hash(k); err != ErrWrongType {
			h.t.Fatalf("a list opened as a hash: %v", err)
		}
	}, k)
}

// TestKeyNamedOnce: a command that writes many elements writes the key's name to the log once.
func TestKeyNamedOnce(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	name := strings.Repeat("n", 10000)
	k := h.s.Key(0, []byte(name))
	h.s.Begin(h.txn, []Key{k})
	v, _ := h.txn.Hash(k)
	for i := range 1000 {
		v.Set(fmt.Append(nil, i), []byte("value"), ttl.Deadline{})
	}
	if n := len(h.txn.buf); n > 10000+1000*20 {
		t.Fatalf("the batch has %d bytes", n)
	}
	h.txn.End()
	h.commit()
	h.reopen()
	h.hash(k, func(_ *Txn, v *Hash) {
		if v.Value().Len() != 1000 {
			t.Fatalf("%d fields came back", v.Value().Len())
		}
	})
	h.check()
}

// TestElementsExpire: elements are gone at their deadline, whether a command or the reaper notices
// it first. The key goes with its last element.
func TestElementsExpire(t *testing.T) {
	for _, reap := range []bool{false, true} {
		h := newHarness(t)
		k := h.s.Key(0, []byte("k"))
		h.hash(k, func(_ *Txn, v *Hash) {
			for i := range 5000 {
				v.Set(fmt.Append(nil, i), []byte("v"), ttl.At(h.clock.Now()+100))
			}
			v.Set([]byte("stays"), []byte("v"), ttl.At(h.clock.Now()+200))
		})
		h.eventNames()
		h.clock.Advance(100 * time.Millisecond)
		if reap {
			h.s.Reap()
		}
		h.hash(k, func(_ *Txn, v *Hash) {
			if v.Value().Len() != 1 {
				t.Fatalf("%d fields are left", v.Value().Len())
			}
		})
		h.check()
		h.eventNames()
		h.clock.Advance(100 * time.Millisecond)
		if reap {
			h.s.Reap()
		}
		h.do(func(t *Txn) {
			if _, ok := t.Peek(k); ok {
				h.t.Fatalf("the key outlives its last field")
			}
		}, k)
		if got := h.eventNames(); !slices.Equal(got, []string{"hexpired", "del"}) {
			t.Fatalf("events %v", got)
		}
		h.check()
		_ = h.s.Close(false)
	}
}

// TestReplace: a value built separately replaces the key's value. An empty value deletes the key.
func TestReplace(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	v := &object.Set{}
	v.Add([]byte("a"), 0)
	h.do(func(t *Txn) { t.Replace(k, v, ttl.Deadline{}, Event{EventSet, "sunionstore"}) }, k)
	h.do(func(t *Txn) {
		t.Replace(k, &object.Set{}, ttl.Deadline{}, Event{EventSet, "sunionstore"})
	}, k)
	h.do(func(t *Txn) {
		t.Replace(k, &object.Set{}, ttl.Deadline{}, Event{EventSet, "sunionstore"})
	}, k)
	if got := h.eventNames(); !slices.Equal(got, []string{"sunionstore", "del"}) {
		t.Fatalf("events %v", got)
	}
	h.check()
}

func BenchmarkHashSet(b *testing.B) {
	h := newHarness(b)
	defer func() { _ = h.s.Close(false) }()
	keys := make([][]Key, 1000)
	for i := range keys {
		keys[i] = []Key{h.s.Key(0, fmt.Append(nil, "key", i))}
	}
	field, val := []byte("field"), []byte("value")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := keys[i%len(keys)]
		h.s.Begin(h.txn, k)
		v, _ := h.txn.Hash(k[0])
		v.Set(field, val, ttl.Deadline{})
		h.txn.FlushValues()
		h.txn.End()
	}
}
