package storage

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Monitoring goes on beside a global transaction, with what it saw before.
func TestSurveyBesideGlobal(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	for i := range 100 {
		k := h.s.Key(i%2, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), int64(i%4)*(h.clock.Now()+5000), Event{}) }, k)
	}
	before, stats := h.s.Populations(), h.s.Stats()
	if len(before) != 2 || before[0].Keys != 50 || before[1].Keys != 50 || before[0].Expires != 25 || before[1].Expires != 50 || stats.Resident != 100 {
		t.Fatalf("%+v, %+v", before, stats)
	}
	global := h.s.NewTxn()
	h.s.BeginGlobal(global, nil)
	k := h.s.Key(0, []byte("more"))
	global.Use([]Key{k})
	global.SetString(k, []byte("v"), 0, Event{})
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

// Lateness is counted to the microsecond, and only of what was due since the start.
func TestLatenessHistograms(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	k := h.s.Key(0, []byte("k"))
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), h.clock.Now()+1000, Event{}) }, k)
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
