package storage

import (
	"testing"

	"keyp/storage/object"
	"keyp/ttl"
)

// TestSystem: the server's own data survives restarts from the log or a checkpoint, a compaction,
// FLUSHALL, SWAPDB, and a different number of databases. Nobody gets events of it, and it is in no
// count.
func TestSystem(t *testing.T) {
	h := newHarness(t)
	var heard int
	h.s.Observe(func([]Change) { heard++ })
	reopen := func(save bool) {
		t.Helper()
		if err := h.s.Close(save); err != nil {
			t.Fatal(err)
		}
		h.open()
	}
	key := h.s.SystemKey("lib")
	if key.DB != h.s.Databases() {
		t.Fatalf("database %d", key.DB)
	}
	large := string(make([]byte, 100_000))
	h.do(func(x *Txn) {
		x.SetString(key, []byte("code"), ttl.Deadline{}, Event{EventString, "set"})
		x.SetString(h.s.SystemKey("large"), []byte(large), ttl.Deadline{},
			Event{EventString, "set"})
	}, key, h.s.SystemKey("large"))
	want := func(when string) {
		t.Helper()
		got := map[string]string{}
		if err := h.s.WalkSystem(func(name []byte, _ object.Type) bool {
			got[string(name)] = ""
			return true
		}); err != nil {
			t.Fatal(err)
		}
		for name := range got {
			h.do(func(x *Txn) {
				item, _ := x.Get(h.s.SystemKey(name))
				value, err := item.String()
				if err != nil {
					t.Fatal(err)
				}
				got[name] = string(value)
			}, h.s.SystemKey(name))
		}
		if len(got) != 2 || got["lib"] != "code" || got["large"] != large {
			t.Errorf("%s: %d keys", when, len(got))
		}
		if err := h.s.Check(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	want("at once")
	if heard != 0 || len(h.events) != 0 {
		t.Errorf("%d changes and %d events were heard", heard, len(h.events))
	}
	for _, save := range []bool{false, true, false} {
		reopen(save)
		want("after a restart")
	}
	x := h.s.NewTxn()
	h.s.BeginAll(x)
	for db := range h.s.Databases() {
		x.FlushDB(db)
	}
	x.SwapDB(0, 1)
	x.End()
	reopen(false)
	want("after FLUSHALL")
	if _, _, err := h.s.Compact(); err != nil {
		t.Fatal(err)
	}
	want("after a compaction")
	for db := range h.s.Databases() {
		if keys, _ := h.s.Count(db); keys != 0 {
			t.Errorf("database %d has %d keys", db, keys)
		}
	}
	h.databases += 3
	reopen(true)
	want("with more databases")
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
}
