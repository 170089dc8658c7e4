package web

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

// The spans of a forecast are those of the calendar, without a gap, and end at each horizon too.
func TestSpans(t *testing.T) {
	for _, now := range []int64{1_700_000_000_000, 1_700_000_000_001, 1_700_006_399_999, 1_700_006_400_000} {
		near, far, all := nearSpans(now), farSpans(now, false), farSpans(now, true)
		for name, list := range map[string][]int64{"near": near, "far": far, "all": all} {
			if !slices.IsSorted(list) || list[0] <= now || len(slices.Compact(slices.Clone(list))) != len(list) || len(list) > 250 {
				t.Errorf("%s of %d: %v", name, now, list)
			}
		}
		for _, want := range []struct {
			list []int64
			at   int64
		}{{near, now - now%second + second}, {near, now + minute}, {near, now + hour}, {far, now - now%hour + hour}, {far, now + hour}, {far, now + day}, {all, endOfTime}} {
			if !slices.Contains(want.list, want.at) {
				t.Errorf("from %d there is no end at %d", now, want.at)
			}
		}
		if last := near[len(near)-1]; last%hour != 0 {
			t.Errorf("minutes end within an hour, at %d", last)
		}
		for i, end := range all[:len(all)-2] {
			if next := all[i+1]; next-end > day || end >= now+2*day && next-end != day {
				t.Errorf("after %d there is a span of %d ms", end, next-end)
			}
		}
	}
}

// What is due within a horizon is the sum of the spans up to it.
func TestWithin(t *testing.T) {
	f := forecast{From: 1000, Until: []int64{2000, 61_000, 62_000}, DBs: map[int][][]int64{}}
	f.put(0, []int64{1, 10, 100}, []int64{0, 0, 1000})
	f.put(maxDatabases, []int64{0, 0, 0}, []int64{5, 0, 0})
	if got := fmt.Sprint(f.DBs, f.shown().DBs); got != "map[0:[[0 1 0] [1 10 0] [2 100 1000]] 64:[[0 0 5]]] map[0:[[0 1 0] [1 10 0] [2 100 1000]]]" {
		t.Errorf("counts that are not 0, and those that pages get: %s", got)
	}
	for ms, want := range map[int64]int64{1000: 6, minute: 16, hour: 1116} {
		if n := f.within(ms); n != want {
			t.Errorf("%d within %d ms, want %d", n, ms, want)
		}
	}
}

// The metrics have keys that no command has asked for since the start: they are only on disk.
func TestDueOnDisk(t *testing.T) {
	dir := t.TempDir()
	store, _, err := storage.Open(storage.Options{Dir: dir, Clock: clock.System, Logger: slog.New(slog.DiscardHandler), InitialMmap: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	now, x := clock.System.Now(), store.NewTxn()
	for name, after := range map[string]int64{"soon": minute / 2, "later": 2 * hour, "much later": 9 * day} {
		k := store.Key(0, []byte(name))
		if !store.Begin(x, []storage.Key{k}) {
			t.Fatal("a new key is on disk")
		}
		x.SetString(k, []byte("v"), now+after, storage.Event{})
		x.End()
	}
	if err := store.Close(true); err != nil {
		t.Fatal(err)
	}
	h := listen(t, "--dir", dir)
	h.maxMemory = 1 // nothing is loaded that no command asks for
	h.load()
	if n := h.env.Store.Stats().Resident; n != 0 {
		t.Errorf("%d keys are in memory", n)
	}
	await.Until(t, "the keys are counted", func() bool { return slices.Equal(h.pulse.dueWithin(), []int64{1, 1, 2}) })
	h.want("/metrics", 200, `keyp_keys_due{within="day"} 2`)
}

// The latest deadlines there may be are counted and listed, in memory and on disk.
func TestDueAtTheEnd(t *testing.T) {
	deadlines := map[string]int64{"a": endOfTime / 2, "b": endOfTime - 1, "c": endOfTime}
	dir := t.TempDir()
	store, _, err := storage.Open(storage.Options{Dir: dir, Clock: clock.System, Logger: slog.New(slog.DiscardHandler), InitialMmap: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	x := store.NewTxn()
	for name, at := range deadlines {
		k := store.Key(0, []byte(name))
		if !store.Begin(x, []storage.Key{k}) {
			t.Fatal("a new key is on disk")
		}
		x.SetString(k, []byte("v"), at, storage.Event{})
		x.End()
	}
	if err := store.Close(true); err != nil {
		t.Fatal(err)
	}
	onDisk, inMemory := listen(t, "--dir", dir), listen(t)
	onDisk.maxMemory = 1 // nothing is loaded that no command asks for
	onDisk.load()
	inMemory.load()
	for name, at := range deadlines {
		inMemory.run(fmt.Sprintf("SET %s v PXAT %d", name, at))
	}
	for h, resident := range map[*harness]int64{onDisk: 0, inMemory: 3} {
		if n := h.env.Store.Stats().Resident; n != resident {
			t.Errorf("%d keys are in memory, want %d", n, resident)
		}
		now := h.o.Clock.Now()
		f, whole := h.pulse.countDue(h.env, now, farSpans(now, true), func() bool { return false })
		if n := f.within(endOfTime); !whole || n != 3 {
			t.Errorf("%d keys are due in all time, with %d in memory", n, resident)
		}
		for _, until := range []string{"9223372036854775807", "9223372036854776000"} { // the second is what a browser has of the first
			var list dueKeys
			_, body := h.read("/dashboard/due?db=0&from=1&until="+until, "")
			if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Keys) != 3 || list.Through != endOfTime {
				t.Errorf("until %s: %s %v", until, body, err)
			}
		}
	}
}
