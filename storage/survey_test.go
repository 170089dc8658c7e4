package storage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"keyp/internal/testkit/await"
	"keyp/storage/object"
	"keyp/ttl"
)

// TestSurveyBesideGlobal: while a transaction has locked the whole keyspace, monitoring reports the
// numbers of before, and does not wait.
func TestSurveyBesideGlobal(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	for i := range 100 {
		k := h.s.Key(i%2, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) {
			x.SetString(k, []byte("v"), ttl.At(int64(i%4)*(h.clock.Now()+5000)), Event{})
		}, k)
	}
	before, stats := h.s.Populations(), h.s.Stats()
	if len(before) != 2 || before[0].Keys != 50 || before[1].Keys != 50 ||
		before[0].Expires != 25 || before[1].Expires != 50 || stats.Resident != 100 {
		t.Fatalf("%+v, %+v", before, stats)
	}
	global := h.s.NewTxn()
	h.s.BeginGlobal(global, nil)
	k := h.s.Key(0, []byte("more"))
	global.Use([]Key{k})
	global.SetString(k, []byte("v"), ttl.Deadline{}, Event{})
	if during := h.s.Populations(); !slices.Equal(during, before) {
		t.Errorf("%+v, before it was %+v", during, before)
	}
	if during := h.s.Stats(); during.Resident != stats.Resident || during.Memory != stats.Memory {
		t.Errorf("%+v, before it was %+v", during, stats)
	}
	global.End()
	if after := h.s.Populations(); after[0].Keys != 51 || h.s.Stats().Resident != 101 {
		t.Errorf("afterwards %+v", after)
	}
}

// Keys in memory and on disk are counted by type in steps, without those that are due. A count
// writes nothing to the log. It waits for the shards that a global transaction changes.
func TestCountTypes(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	const each = 3 * typesStep
	due := h.clock.Now() + 1000
	for i := range each {
		k, list := h.s.Key(1, fmt.Appendf(nil, "s%d", i)),
			h.s.Key(1, fmt.Appendf(nil, "{same}l%d", i))
		h.do(func(x *Txn) {
			x.SetString(k, []byte("v"), ttl.At(int64(i%2)*due), Event{})
			l, err := x.List(list)
			if err != nil {
				t.Fatal(err)
			}
			l.PushBack([]byte("v"))
		}, k, list)
	}
	count := func(want TypeCounts) {
		t.Helper()
		steps, end := 0, h.s.log.End()
		counts, whole := h.s.CountTypes(1, func() bool { steps++; return true })
		if !whole || counts != want {
			t.Errorf("counted %v (%v), want %v", counts, whole, want)
		}
		if steps < 3 || h.s.log.End() != end {
			t.Errorf("%d steps, and the log grew by %d", steps, h.s.log.End()-end)
		}
	}
	want := TypeCounts{object.TypeString: each, object.TypeList: each}
	count(want)
	h.saved()
	h.evict()
	count(want)
	h.clock.Set(due)
	want[object.TypeString] /= 2
	count(want)
	h.s.Reap()
	count(want)
	if _, whole := h.s.CountTypes(1, func() bool { return false }); whole {
		t.Error("a count that was ended is whole")
	}
	global := h.s.NewTxn()
	h.s.BeginGlobal(global, nil)
	counts := make(chan TypeCounts)
	go func() {
		got, _ := h.s.CountTypes(1, func() bool { return true })
		counts <- got
	}()
	k := h.s.Key(1, []byte("more"))
	global.Use([]Key{k})
	global.SetString(k, []byte("v"), ttl.Deadline{}, Event{})
	global.End()
	want[object.TypeString]++
	if got := await.For(t, "the keys are counted", counts); got != want {
		t.Errorf("beside a global transaction there are %v, want %v", got, want)
	}
}

// verifyTypes compares the counts by type with the model.
func (h *harness) verifyTypes() {
	h.t.Helper()
	want := make([]TypeCounts, h.databases)
	for n, v := range h.model.live(h.now()) {
		typ := object.TypeString
		if v.coll != nil {
			typ = v.coll.typ
		}
		want[n.db][typ]++
	}
	for db := range want {
		if got, whole := h.s.CountTypes(db, func() bool { return true }); !whole ||
			got != want[db] {
			h.t.Fatalf("database %d has %v of the types (%v), and must have %v", db, got,
				whole, want[db])
		}
	}
}

// Lateness is counted to the microsecond, and only for keys that became due after the start.
func TestLatenessHistograms(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	k := h.s.Key(0, []byte("k"))
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(h.clock.Now()+1000), Event{}) }, k)
	h.clock.Advance(time.Second + 300*time.Microsecond)
	h.s.Reap()
	got := h.s.Histograms().KeyLateness
	if got.Count != 1 || got.Sum != 300 || got.Upto[1] != 0 || got.Upto[2] != 1 {
		t.Errorf("%+v", got)
	}
	if err := h.s.Log().Commit(); err != nil {
		t.Fatal(err)
	}
	if commits := h.s.Histograms().LogCommits; commits.Count == 0 || commits.Sum == 0 {
		t.Errorf("%+v", commits)
	}
}
