package web

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/ttl"
)

// TestForecast: the dashboard's forecast says how many keys expire within an hour, a day and so on
// (horizons), and draws them as bars, at several scales. Each key counts once, at its next
// deadline. Only the first 64 databases are drawn; the metrics count all.
func TestForecast(t *testing.T) {
	h := listen(t, "--databases", "70")
	h.load()
	now := h.o.Clock.Now()
	deadlines := []int64{now + 40*second, now + 59*minute, now + 23*hour, now + 59*day,
		now + 100*day, now + 300*day}
	for i, at := range deadlines {
		h.run(fmt.Sprintf("SET k%d v PXAT %d", i, at))
	}
	h.run("SET none v")
	x, hash, other := h.env.Store.NewTxn(), h.env.Store.Key(0, []byte("hash")),
		h.env.Store.Key(maxDatabases, []byte("other"))
	if !h.env.Store.Begin(x, []storage.Key{hash, other}) {
		t.Fatal("new keys are on disk")
	}
	fields, err := x.Hash(hash)
	if err != nil {
		t.Fatal(err)
	}
	fields.Set([]byte("f"), []byte("v"), ttl.At(deadlines[1]))
	fields.Set([]byte("g"), []byte("v"), ttl.At(deadlines[2]))
	x.SetDeadline(hash, ttl.At(deadlines[3]), storage.Event{})
	x.SetString(other, []byte("v"), ttl.At(deadlines[2]), storage.Event{})
	x.End()
	f := countDue(h.env, func(time.Duration) bool { return true })
	if got := fmt.Sprint(f.Within); got != "map[0:[[1] [3] [4] [5] [2]]]" ||
		!slices.Equal(f.within, []int64{1, 3, 5, 6, 2}) {
		t.Errorf("within the horizons %s, in all databases %v", got, f.within)
	}
	for i, s := range scales {
		bars := f.Scales[s.name]
		want := [][]int64{}
		for k, at := range deadlines {
			n := int64(1)
			if k == 1 {
				n = 2
			}
			if bar := (at - bars.From) / s.unit; bar < int64(s.bars) {
				want = append(want, []int64{bar, n})
			}
		}
		if bars.From > f.From || bars.From+s.unit <= f.From || bars.From%s.unit != 0 ||
			bars.Unit != s.unit {
			t.Errorf("bars of a %s begin at %d, at %d", s.name, bars.From, f.From)
		}
		if len(want) != i+1 || len(bars.DBs) != 1 ||
			!reflect.DeepEqual(merged(bars.DBs[0]), merged(want)) {
			t.Errorf("by %s %v, want %v", s.name, bars.DBs, want)
		}
	}
}

// merged adds up the bars with the same number.
func merged(bars [][]int64) map[int64]int64 {
	by := map[int64]int64{}
	for _, bar := range bars {
		by[bar[0]] += bar[1]
	}
	return by
}

// An uncertain count is followed by its bounds. A count that is stopped returns nil.
func TestPacked(t *testing.T) {
	if got := packed(storage.DueSpan{Span: ttl.Exactly(7)}); !slices.Equal(got, []int64{7}) {
		t.Errorf("%v", got)
	}
	if got := packed(storage.DueSpan{Span: ttl.Span{Low: 5, Estimate: 7, High: 8}}); !slices.Equal(
		got, []int64{7, 5, 8}) {
		t.Errorf("%v", got)
	}
	h := listen(t)
	h.load()
	h.run("SET k v EX 1000")
	for stop := range len(horizons) + 1 + len(scales) {
		steps := 0
		if f := countDue(h.env, func(time.Duration) bool {
			steps++
			return steps <= stop
		}); f != nil || steps != stop+1 {
			t.Errorf("stopped at step %d there is %+v, after %d", stop, f, steps)
		}
	}
}

// During a global transaction the last forecast stays, and a page and the metrics show it. A
// waiting count ends when the server stops.
func TestDueBesideGlobal(t *testing.T) {
	h := listen(t)
	h.load()
	s := h.stream("")
	h.run("SET k v EX 1000")
	const counted = "[[0] [1] [1] [1] [0]]"
	await.Until(t, "the key is counted, by a count that began behind it", func() bool {
		f := h.pulse.due.Load()
		return f != nil && fmt.Sprint(f.Within[0]) == counted
	})
	global := h.env.Store.NewTxn()
	h.env.Store.BeginGlobal(global, nil)
	began := h.o.Clock.Now()
	for {
		m, ok := s.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if m.At <= began+2*dueEvery.Milliseconds() {
			continue
		}
		if got := fmt.Sprint(m.Due.Within[0]); got != counted {
			t.Errorf("within the horizons %s", got)
		}
		break
	}
	h.want("/metrics", 200, `keyp_keys_due{within="day"} 1`)
	global.End()
	h.patience = await.Bound
	done := make(chan struct{})
	go func() { h.Withdraw(); close(done) }()
	await.For(t, "Withdraw returns", done)
}

// The metrics count keys that are only on disk, because no command has loaded them since the start.
func TestDueOnDisk(t *testing.T) {
	dir := t.TempDir()
	store, _, err := storage.Open(storage.Options{Dir: dir, Clock: clock.System,
		Logger: slog.New(slog.DiscardHandler), InitialMmap: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	now, x := clock.System.Now(), store.NewTxn()
	for name, after := range map[string]int64{"soon": minute / 2, "later": 2 * hour,
		"much later": 9 * day} {
		k := store.Key(0, []byte(name))
		if !store.Begin(x, []storage.Key{k}) {
			t.Fatal("a new key is on disk")
		}
		x.SetString(k, []byte("v"), ttl.At(now+after), storage.Event{})
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
	await.Until(t, "the keys are counted", func() bool {
		return slices.Equal(h.pulse.dueWithin(), []int64{1, 1, 2})
	})
	h.want("/metrics", 200, `keyp_keys_due{within="day"} 2`)
}

// The latest possible deadlines are counted and listed, in memory and on disk.
func TestDueAtTheEnd(t *testing.T) {
	deadlines := map[string]int64{"a": math.MaxInt64 / 2, "b": math.MaxInt64 - 1,
		"c": math.MaxInt64}
	dir := t.TempDir()
	store, _, err := storage.Open(storage.Options{Dir: dir, Clock: clock.System,
		Logger: slog.New(slog.DiscardHandler), InitialMmap: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	x := store.NewTxn()
	for name, at := range deadlines {
		k := store.Key(0, []byte(name))
		if !store.Begin(x, []storage.Key{k}) {
			t.Fatal("a new key is on disk")
		}
		x.SetString(k, []byte("v"), ttl.At(at), storage.Event{})
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
		f := countDue(h.env, func(time.Duration) bool { return true })
		if got := fmt.Sprint(f.Within[0]); got != "[[0] [0] [0] [0] [3]]" {
			t.Errorf("%s keys are due, with %d in memory", got, resident)
		}
		for _, until := range []string{"9223372036854775807", "9223372036854776000"} {
			// The second URL has the number as a browser rounds it.
			var list dueKeys
			_, body := h.read("/dashboard/due?db=0&from=1&until="+until, "")
			if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Keys) != 3 ||
				list.Through != math.MaxInt64 {
				t.Errorf("until %s: %s %v", until, body, err)
			}
		}
	}
}

// TestDueEmptyName: a key may have the empty name, which the page must not get as null.
func TestDueEmptyName(t *testing.T) {
	text, err := json.Marshal(listed([]storage.DueKey{{At: 5}}))
	if want := `[{"name":"","at":5,"element":false}]`; string(text) != want || err != nil {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}
