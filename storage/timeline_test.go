package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/storage/object"
	"keyp/ttl"
)

// timeline calls View.Timeline, which counts the keys that are due in each of several spans of
// time. It checks that the true number of each span, from the model, is within the bounds of the
// reply. exact reports whether all counts are exact.
func (h *harness) timeline(v View, db int, from, until Instant, spans int,
	match func([]byte) bool) (list []DueSpan, exact bool) {
	h.t.Helper()
	list, err := v.Timeline(db, from, until, spans, match)
	if err != nil {
		h.t.Fatalf("timeline: %v", err)
	}
	now, exact := h.now(), true
	first, last := from.At, until.At-1
	if from.Open {
		first = now
	}
	if until.Open {
		last = math.MaxInt64
	}
	counts := make([]int64, len(list))
	for n, v := range h.model.live(now) {
		due := v.earliest()
		if n.db != db || due == 0 || due < first || due > last ||
			match != nil && !match([]byte(n.key)) {
			continue
		}
		i := len(list) - 1
		for i >= 0 && due < list[i].From {
			i--
		}
		if i < 0 {
			h.t.Fatalf("%.20q, due at %d, is in none of %v", n.key, due, list)
		}
		counts[i]++
	}
	for i, s := range list {
		if s.Low > counts[i] || counts[i] > s.High || s.Estimate < s.Low || s.Estimate > s.High {
			h.t.Fatalf("database %d has %v keys from %v until %v, and counts %v", db, counts,
				from, until, list)
		}
		exact = exact && s.Exact()
	}
	return list, exact
}

// verifyTimeline compares counts of spans with the model. After some calls, a few keys are counted
// exactly.
func (h *harness) verifyTimeline(v View) {
	h.t.Helper()
	if h.s.quit.Err() != nil {
		return
	}
	now := h.now()
	for db := range h.databases {
		for _, c := range []struct {
			from, until Instant
			spans       int
		}{
			{Instant{Open: true}, Instant{Open: true}, 3},
			{Instant{At: now - 500}, Instant{At: now + 3000}, 7},
			{Instant{At: now + 100}, Instant{At: math.MaxInt64}, 2},
			{Instant{At: now + 1}, Instant{At: now + 5}, 100},
		} {
			for _, match := range []func([]byte) bool{nil, anyName} {
				for calls, exact := 0, false; !exact; calls++ {
					if _, exact = h.timeline(v, db, c.from, c.until, c.spans,
						match); len(h.model) > 15 {
						break
					}
					if calls > 1000 {
						h.t.Fatalf("%d keys are never counted exactly", len(h.model))
					}
				}
			}
		}
	}
}

// Each key counts once, at its next deadline, whether it is in memory or on disk.
func TestTimeline(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.exact, h.s.bounds.dueStep = exactMost, dueStep
	defer h.check()
	now := h.clock.Now()
	h.mixed(1, 900)
	h.mixed(2, 300)
	next := map[int64]int64{} // how many keys are due at an instant, of those that mixed sets
	for i := range 900 {
		due := now + 10_000 + int64(i%3)
		switch {
		case i%5 == 0:
			due = now + 5000 + int64(i%4)
		case i%7 == 0:
			continue
		case i%11 == 0:
			due = math.MaxInt64
		}
		next[due]++
	}
	count := func(from, through int64) (n int64) {
		for due, k := range next {
			if from <= due && due <= through {
				n += k
			}
		}
		return n
	}
	at := func(ms int64) Instant { return Instant{At: ms} }
	open := Instant{Open: true}
	compare := func(place string, v View) {
		t.Helper()
		for _, c := range []struct {
			from, until  Instant
			spans        int
			starts       []int64
			last         int64 // instant of the last span
			onlyWithSame bool
		}{
			{open, open, 1, []int64{now}, math.MaxInt64, false},
			{open, at(now + 20_000), 4, []int64{now, now + 5000, now + 10_000, now + 15_000},
				now + 19_999, false},
			{at(now + 10_000), at(now + 10_003), 3,
				[]int64{now + 10_000, now + 10_001, now + 10_002}, now + 10_002, false},
			{at(now + 10_000), at(now + 10_003), 500,
				[]int64{now + 10_000, now + 10_001, now + 10_002}, now + 10_002, false},
			{at(now + 9999), at(now + 10_003), 3, []int64{now + 9999, now + 10_000, now + 10_001},
				now + 10_002, false},
			{at(now + 5000), at(now + 10_001), 2, []int64{now + 5000, now + 7500},
				now + 10_000, true},
			{at(now - 1000), at(now + 1000), 2, []int64{now - 1000, now}, now + 999, false},
			{at(math.MaxInt64 - 1), at(math.MaxInt64), 5, []int64{math.MaxInt64 - 1},
				math.MaxInt64 - 1, false},
			{at(math.MaxInt64), open, 5, []int64{math.MaxInt64}, math.MaxInt64, false},
			{at(math.MinInt64), open, 2, []int64{math.MinInt64 + 1, 0}, math.MaxInt64, false},
			{at(now + 5), at(now + 5), 5, nil, 0, false},
			{at(now + 5), at(now), 5, nil, 0, false},
			{at(math.MinInt64), at(math.MinInt64), 5, nil, 0, false},
			{open, at(math.MinInt64), 5, nil, 0, false},
		} {
			var match func([]byte) bool
			if c.onlyWithSame {
				match = func(name []byte) bool { return bytes.HasPrefix(name, []byte("{same}")) }
			}
			list, err := v.Timeline(1, c.from, c.until, c.spans, match)
			if err != nil || len(list) != len(c.starts) {
				t.Fatalf("%s, %v to %v by %d: %v (%v), want %v", place, c.from, c.until, c.spans,
					list, err, c.starts)
			}
			for i, s := range list {
				through := c.last
				if i+1 < len(list) {
					through = list[i+1].From - 1
				}
				want := count(c.starts[i], through)
				if c.onlyWithSame {
					want = 0
					for k := 0; k < 900; k += 2 {
						due := now + 10_000 + int64(k%3)
						if k%5 == 0 {
							due = now + 5000 + int64(k%4)
						} else if k%7 == 0 || k%11 == 0 {
							continue
						}
						if c.starts[i] <= due && due <= through {
							want++
						}
					}
				}
				if s.From != c.starts[i] || s.Span != ttl.Exactly(want) {
					t.Errorf("%s, %v to %v by %d, span %d: %+v, want %d from %d on", place, c.from,
						c.until, c.spans, i, s, want, c.starts[i])
				}
			}
		}
	}
	both := func(place string) {
		t.Helper()
		compare(place, h.s.View)
		h.doAll(func(x *Txn) { compare(place+", within a transaction", x.View()) })
	}
	both("in memory")
	h.saved()
	h.evict()
	both("on disk")
	for i := 0; i < 900; i += 2 {
		h.load([]Key{h.s.Key(1, fmt.Appendf(nil, "{same}%d", i))})
	}
	both("in both")
	h.check()
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.s.bounds.exact, h.s.bounds.dueStep = exactMost, dueStep
	both("after a restart")
	h.doAll(func(x *Txn) { x.SwapDB(1, 2) })
	if list, err := h.s.Timeline(2, open, open, 1, nil); err != nil ||
		list[0].Span != ttl.Exactly(count(0, math.MaxInt64)) {
		t.Errorf("swapped: %v (%v)", list, err)
	}
	h.doAll(func(x *Txn) { x.FlushDB(2) })
	if list, err := h.s.Timeline(2, open, open, 5, nil); err != nil || len(list) != 0 {
		t.Errorf("emptied: %v (%v)", list, err)
	}
}

// Due keys do not count, whether or not they were removed. A key with only a due element counts at
// its next deadline. The log records that something is due before a reply shows it.
func TestTimelineLeavesOutDue(t *testing.T) {
	for _, place := range []string{"in memory", "on disk"} {
		h := newHarness(t)
		h.s.bounds.exact, h.s.bounds.dueStep = exactMost, dueStep
		now := h.clock.Now()
		hash := func(name string, deadline int64, elements ...int64) {
			k := h.s.Key(0, []byte(name))
			h.do(func(x *Txn) {
				v, err := x.Hash(k)
				if err != nil {
					t.Fatal(err)
				}
				for i, d := range elements {
					v.Set(fmt.Append(nil, i), []byte("v"), ttl.At(d))
				}
			}, k)
			if deadline != 0 {
				h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(deadline), Event{}) }, k)
			}
		}
		hash("later element", 0, now+1000, now+5000)
		hash("own deadline", now+6000, now+1000, 0)
		hash("stays", 0, now+1000, 0)
		hash("gone with its elements", now+6000, now+1000, now+2000)
		hash("gone", now+1000, now+9000, 0)
		k := h.s.Key(0, []byte("string"))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000), Event{}) }, k)
		if place == "on disk" {
			h.saved()
			h.evict()
		}
		h.clock.Advance(2000e6)
		end, logged := h.s.Log().End(), h.s.shown.at.Load()
		if list, err := h.s.Monitoring().Timeline(0, Instant{Open: true}, Instant{Open: true}, 1,
			nil); err != nil || list[0].Span != ttl.Exactly(2) {
			t.Errorf("%s: %v (%v)", place, list, err)
		}
		if h.s.Log().End() != end || h.s.shown.at.Load() != logged {
			t.Errorf("%s: monitoring has logged the time", place)
		}
		for _, match := range []func([]byte) bool{nil, anyName, func(name []byte) bool {
			return string(name) != "own deadline"
		}} {
			want := []DueSpan{{now + 4000, ttl.Exactly(0)}, {now + 5000, ttl.Exactly(1)},
				{now + 6000, ttl.Exactly(1)}}
			if match != nil && !match([]byte("own deadline")) {
				want[2].Span = ttl.Exactly(0)
			}
			list, err := h.s.Timeline(0, Instant{At: now + 4000}, Instant{At: now + 7000}, 3, match)
			if err != nil || !slices.Equal(list, want) {
				t.Errorf("%s: %v (%v), want %v", place, list, err, want)
			}
		}
		if list, err := h.s.Timeline(0, Instant{Open: true}, Instant{Open: true}, 1,
			nil); err != nil || len(list) != 1 || list[0].Span != ttl.Exactly(2) {
			t.Errorf("%s: %v (%v)", place, list, err)
		}
		if logged = h.s.shown.at.Load(); logged != h.clock.Now() {
			t.Errorf("%s: time is logged as %d, now is %d", place, logged, h.clock.Now())
		}
		end = h.s.Log().End()
		if _, err := h.s.Timeline(0, Instant{At: 1}, Instant{At: 2}, 1, nil); err != nil ||
			h.s.Log().End() != end {
			t.Errorf("%s: the same time is logged again (%v)", place, err)
		}
		h.s.Reap()
		if list, err := h.s.Timeline(0, Instant{At: now + 4000}, Instant{At: now + 7000}, 1,
			nil); err != nil || list[0].Span != ttl.Exactly(2) {
			t.Errorf("%s, removed: %v (%v)", place, list, err)
		}
		h.check()
		if err := h.s.Close(false); err != nil {
			t.Fatal(err)
		}
	}
}

// If the end is open, the bounds of the last span include the keys whose next deadline is not
// known, even if nothing else is due.
func TestTimelineOpenEndUnknown(t *testing.T) {
	for _, c := range []struct {
		place          string
		keys, elements int // more than are looked at
	}{{"in memory", 1, timelineElements + 1}, {"on disk", 30, 2}} {
		h := newHarness(t)
		h.s.bounds.exact = 10
		now := h.clock.Now()
		for i := range c.keys {
			k, n := h.s.Key(0, fmt.Append(nil, i)), name{0, fmt.Sprint(i)}
			content := &content{}
			h.do(func(x *Txn) {
				v, err := x.Hash(k)
				if err != nil {
					t.Fatal(err)
				}
				for j := range c.elements {
					field, at := fmt.Append(nil, j), now+1000+int64(j%2)*8000
					v.Set(field, []byte("v"), ttl.At(at))
					content.elems = append(content.elems, elem{string(field), "v", at})
				}
			}, k)
			h.model[n] = value{coll: content}
		}
		if c.place == "on disk" {
			h.saved()
			h.evict()
		}
		h.clock.Advance(2000e6)
		for _, from := range []Instant{{Open: true}, {At: now + 5000}, {At: now + 9000},
			{At: now + 9001}} {
			for _, match := range []func([]byte) bool{nil, anyName} {
				list, exact := h.timeline(h.s.View, 0, from, Instant{Open: true}, 3, match)
				if exact || len(list) == 0 {
					t.Errorf("%s: %v counts as if all were known", c.place, list)
				}
				h.doAll(func(x *Txn) {
					h.timeline(x.View(), 0, from, Instant{Open: true}, 3, match)
				})
			}
		}
		h.check()
		if err := h.s.Close(false); err != nil {
			t.Fatal(err)
		}
	}
}

// The bounds are right whatever happens to keys between calls and while names are matched, and
// whatever is known of the deadlines on disk. Nothing is lost while these are being found.
func TestTimelineBesideChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(t)
		h.t = failer{t, rt}
		defer func() { _ = h.s.Close(false) }()
		h.s.bounds.exact = rapid.SampledFrom([]int{1, 10, 1000}).Draw(rt, "exact")
		now := h.clock.Now()
		const keys = 40
		text := func(i int) string { return fmt.Sprintf("{%d}%d", i%3, i) }
		key := func(i int) Key { return h.s.Key(i%2, []byte(text(i))) }
		set := func(i int) {
			k, n := key(i), name{i % 2, text(i)}
			deadline := now + rapid.Int64Range(-1, 60).Draw(rt, "deadline")*100
			if deadline == now {
				deadline = 0
			}
			if i%4 < 2 {
				h.model[n] = value{data: "v", deadline: deadline}
				h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(deadline), Event{}) }, k)
				return
			}
			first, second := now+rapid.Int64Range(1, 60).Draw(rt, "first")*100,
				now+rapid.Int64Range(0, 60).Draw(rt, "second")*100
			if second == now {
				second = 0
			}
			h.model[n] = value{deadline: deadline,
				coll: &content{elems: []elem{{"f", "v", first}, {"g", "v", second}}}}
			h.do(func(x *Txn) {
				x.Delete(k, Event{})
				v, err := x.Hash(k)
				if err != nil {
					rt.Fatal(err)
				}
				v.Set([]byte("f"), []byte("v"), ttl.At(first))
				v.Set([]byte("g"), []byte("v"), ttl.At(second))
				if deadline != 0 {
					x.SetDeadline(k, ttl.At(deadline), Event{})
				}
			}, k)
		}
		for i := range keys {
			set(i)
		}
		move := func() { // nothing that the model would notice
			i := rapid.IntRange(0, keys-1).Draw(rt, "key")
			switch rapid.IntRange(0, 4).Draw(rt, "move") {
			case 0:
				h.saved()
			case 1:
				h.evict()
			case 2:
				h.saved()
				h.evict()
			case 3:
				h.load([]Key{key(i)})
			case 4:
				h.s.Reap()
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(*rapid.T) { set(rapid.IntRange(0, keys-1).Draw(rt, "key")) },
			"delete": func(*rapid.T) {
				i := rapid.IntRange(0, keys-1).Draw(rt, "key")
				delete(h.model, name{i % 2, text(i)})
				h.do(func(x *Txn) { x.Delete(key(i), Event{}) }, key(i))
			},
			"delete many": func(*rapid.T) {
				var list []Key
				for i := 0; i < keys; i += 2 {
					if rapid.IntRange(0, 5).Draw(rt, "some") == 0 {
						delete(h.model, name{0, text(i)})
						list = append(list, key(i))
					}
				}
				if len(list) == 0 {
					return
				}
				h.do(func(x *Txn) {
					for _, k := range list {
						x.Delete(k, Event{})
					}
				}, list...)
			},
			"move": func(*rapid.T) { move() },
			"swap": func(*rapid.T) {
				if rapid.IntRange(0, 4).Draw(rt, "rarely") == 0 {
					h.doAll(func(x *Txn) { x.FlushDB(1) })
					for n := range h.model {
						if n.db == 1 {
							delete(h.model, n)
						}
					}
				}
			},
			"time": func(*rapid.T) { h.clock.Advance(100e6) },
			"restart": func(*rapid.T) {
				if rapid.IntRange(0, 3).Draw(rt, "rarely") == 0 {
					b := h.s.bounds
					h.reopen()
					h.s.bounds = b
				}
			},
			"count": func(*rapid.T) {
				var match func([]byte) bool
				if rapid.Bool().Draw(rt, "match") {
					match = func([]byte) bool {
						if rapid.IntRange(0, 9).Draw(rt, "moves") == 0 {
							move()
						}
						return true
					}
				}
				from := now + rapid.Int64Range(-1, 60).Draw(rt, "from")*100
				until := Instant{At: now + rapid.Int64Range(0, 70).Draw(rt, "until")*100,
					Open: rapid.Bool().Draw(rt, "open")}
				db, spans := rapid.IntRange(0, 1).Draw(rt, "db"),
					rapid.IntRange(1, 9).Draw(rt, "spans")
				if match == nil && rapid.IntRange(0, 3).Draw(rt, "within") == 0 {
					h.doAll(func(x *Txn) {
						h.timeline(x.View(), db, Instant{At: from}, until, spans, nil)
					})
					return
				}
				h.timeline(h.s.View, db, Instant{At: from}, until, spans, match)
			},
			"": func(*rapid.T) { h.check() },
		})
	})
}

// TestTimelineNoticesLoadedKey: an element of a key on disk is due, and the key has a later
// deadline. The key is the last one on disk, and comes into memory when the timeline has looked at
// its shard. So the timeline would not find the later deadline, and counts again.
func TestTimelineNoticesLoadedKey(t *testing.T) {
	h := newHarness(t)
	now := h.clock.Now()
	k := h.keyIn(0)
	h.setElement(k, object.TypeHash, "f", "v", now+100)
	h.setElement(k, object.TypeHash, "g", "v", now+5000)
	h.saved()
	h.evict()
	h.clock.Advance(200 * time.Millisecond)
	for _, loads := range []bool{false, true} {
		l := timeline{View: h.s.View, now: h.s.View.now(), first: now, last: now + 10_000,
			exact: h.s.bounds.exact}
		if _, err := l.lookAtDueInMemory(); err != nil {
			t.Fatal(err)
		}
		if loads {
			h.s.loads.loadAll()
		}
		if n, err := l.moved(); err != nil || (n > 0) != loads {
			t.Errorf("loaded: %t: %d keys have moved, %v", loads, n, err)
		}
	}
}

// TestTimelineCountsLeftKeysOnce: the walk over the bucket ttl is in the middle when keys leave
// memory. The walk comes to their entries afterwards, and must not count them again.
func TestTimelineCountsLeftKeysOnce(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	h.s.bounds.exact = 1 // entries of ttl that a timeline reads
	now := h.clock.Now()
	set := func(tag string) {
		for i := range 10 {
			n := name{0, fmt.Sprintf("{%s}%d", tag, i)}
			h.model[n] = value{data: "v", deadline: now + 1000 + int64(i)}
			h.do(func(x *Txn) {
				x.SetString(h.s.Key(0, []byte(n.key)), []byte("v"), ttl.At(h.model[n].deadline),
					Event{})
			}, h.s.Key(0, []byte(n.key)))
		}
	}
	set("disk")
	h.saved()
	h.evict()
	set("memory")
	h.saved()
	count := func() { h.timeline(h.s.View, 0, Instant{At: now}, Instant{Open: true}, 3, nil) }
	count()
	if h.s.diskWalk.turn.cursor == nil {
		t.Fatal("the walk is at its end already")
	}
	h.evict()
	for range 30 {
		count()
	}
	if h.s.diskWalk.turn.cursor != nil {
		t.Error("the walk is not at its end")
	}
}

// The deadlines on disk are found once. After that the counts include keys that leave memory, come
// back or expire. They are exact without the bucket ttl if the keys are few, and by reading the
// bucket if they are many.
func TestTimelineKnowsDisk(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.exact = 10
	defer h.check()
	now := h.clock.Now()
	const keys = 100
	for i := range keys {
		k := h.s.Key(0, fmt.Appendf(nil, "key%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000+int64(i)), Event{}) }, k)
	}
	h.saved()
	h.evict()
	all := func() ttl.Span {
		t.Helper()
		var s ttl.Span
		h.doAll(func(x *Txn) { // which reads some entries of ttl at most
			list, err := x.View().Timeline(0, Instant{At: now + 1}, Instant{At: now + 5000}, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			s = list[0].Span
		})
		return s
	}
	last := all()
	if last.Low == 0 || last.Low == keys || last.High != keys {
		t.Fatalf("a first step finds %+v of %d", last, keys)
	}
	for last.Low < keys {
		s := all()
		if s.Low <= last.Low || s.High != keys {
			t.Fatalf("%+v comes after %+v", s, last)
		}
		last = s
	}
	h.load([]Key{h.s.Key(0, []byte("key7"))})
	if s := all(); s != ttl.Exactly(keys) {
		t.Errorf("after a load: %+v", s)
	}
	h.evict()
	h.clock.Advance(1010e6)
	h.s.Reap()
	if s := all(); s != ttl.Exactly(keys-11) {
		t.Errorf("after some expired: %+v", s)
	}
}

// If a count has more deadlines than it may look at one by one, its spans have bounds and
// estimates. The sum of the estimates is about right.
func TestTimelineEstimates(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.exact = 1000
	defer h.check()
	now := h.clock.Now()
	const keys = 20_000
	for i := range keys {
		name := fmt.Appendf(nil, "%d:%d", i%4, i)
		k := h.s.Key(0, name)
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000+int64(i)*7), Event{}) }, k)
	}
	spans, err := h.s.Timeline(0, Instant{At: now + 1000}, Instant{At: now + 1000 + 7*keys}, 100,
		nil)
	if err != nil {
		t.Fatal(err)
	}
	estimated, sum := 0, int64(0)
	for i, s := range spans {
		if s.Low > keys/100 || s.High < keys/100 || s.High-s.Low > 4*1024 {
			t.Errorf("span %d: %+v", i, s)
		}
		if sum += s.Estimate; !s.Exact() {
			estimated++
		}
	}
	if estimated == 0 || sum < keys*9/10 || sum > keys*11/10 {
		t.Errorf("%d of %d spans are estimated, %d in all", estimated, len(spans), sum)
	}
	// With a pattern for names, all keys are looked at.
	for _, within := range []bool{false, true} {
		match := func(name []byte) bool { return bytes.HasPrefix(name, []byte("3:")) }
		count := func(v View) {
			if spans, err = v.Timeline(0, Instant{At: now + 1000}, Instant{At: now + 1000 + 7*keys},
				10, match); err != nil {
				t.Fatal(err)
			}
		}
		if within {
			h.doAll(func(x *Txn) { count(x.View()) })
		} else {
			count(h.s.View)
		}
		for i, s := range spans {
			if s.Span != ttl.Exactly(keys/40) {
				t.Errorf("names, span %d: %+v, within a transaction: %v", i, s, within)
			}
		}
	}
}

// If a span cuts a bin of the deadlines on disk, the deadlines are read, as long as they may be
// few. They are not always spread evenly within a bin.
func TestTimelineUnevenOnDisk(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.exact, h.s.bounds.dueStep = 300, 100
	defer h.check()
	now := h.clock.Now()
	at := func(i int, deadline int64) {
		k := h.s.Key(0, fmt.Appendf(nil, "{same}%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(deadline), Event{}) }, k)
	}
	const hour = 3600_000
	for i := range 4097 {
		// Each deadline has its own bin at first. Then there are fewer bins, whose ends are hours
		// apart.
		at(i, now+hour+int64(i)*hour)
	}
	h.saved()
	h.evict()
	for range 50 {
		if _, err := h.s.Timeline(0, Instant{At: now + 1}, Instant{Open: true},
			1, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 500 {
		at(5000+i, now+hour+hour/2+int64(i)) // one of them gets all of these
	}
	h.saved()
	h.evict()
	list, err := h.s.Timeline(0, Instant{At: now + hour + hour/2 + 100},
		Instant{At: now + hour + hour/2 + 110}, 2, nil)
	if err != nil || list[0].Span != ttl.Exactly(5) || list[1].Span != ttl.Exactly(5) {
		t.Errorf("%v (%v)", list, err)
	}
}

// Keys whose databases are swapped are counted in one of the two, whenever the swap happens.
func TestTimelineSwapped(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.exact, h.s.bounds.dueStep = exactMost, dueStep
	defer h.check()
	now := h.clock.Now()
	const keys = 600
	for i := range 3 * keys {
		k := h.s.Key(1+min(i%3, 1), fmt.Appendf(nil, "key%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+5000+int64(i)), Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		for swapAt := 1; swapAt < 2*keys; swapAt += 111 {
			for _, again := range []int{0, 1, 50} {
				// again is the number of further names before the databases are swapped back.
				calls := 0
				list, err := h.s.Timeline(1, Instant{Open: true}, Instant{At: now + 100_000}, 1,
					func([]byte) bool {
						if calls++; calls == swapAt || again > 0 && calls == swapAt+again {
							h.doAll(func(x *Txn) { x.SwapDB(1, 2) })
						}
						return true
					})
				if err != nil || list[0].Span != ttl.Exactly(keys) && list[0].Span != ttl.Exactly(
					2*keys) {
					t.Fatalf("%s, swapped at %d, and back %d names later: %v (%v)", place, swapAt,
						again, list, err)
				}
			}
			for _, flush := range []bool{false, true} {
				if flush && (place == "in memory" || swapAt < keys) {
					continue
				}
				calls := 0
				list, err := h.s.Timeline(1, Instant{Open: true}, Instant{At: now + 100_000}, 1,
					func([]byte) bool {
						if calls++; calls == swapAt {
							h.doAll(func(x *Txn) {
								if x.SwapDB(1, 2); flush {
									x.FlushDB(1)
								}
							})
						}
						return true
					})
				if err != nil || list[0].Span != ttl.Exactly(keys) && list[0].Span != ttl.Exactly(
					2*keys) && !(flush && list[0].Span == ttl.Exactly(0)) {
					t.Fatalf("%s, swapped at %d: %v (%v)", place, swapAt, list, err)
				}
				if flush {
					return
				}
			}
		}
		h.saved()
		h.evict()
	}
}

// A timeline whose database is swapped again and again has bounds that include the counts of both
// databases.
func TestTimelineSwappedAgain(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.exact = exactMost
	now := h.clock.Now()
	for i := range 600 {
		k := h.s.Key(1+min(i%3, 1), fmt.Appendf(nil, "key%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+5000), Event{}) }, k)
	}
	list, err := h.s.Timeline(1, Instant{Open: true}, Instant{At: now + 100_000}, 1,
		func([]byte) bool {
			h.doAll(func(x *Txn) { x.SwapDB(1, 2) })
			return true
		})
	if err != nil || list[0].Low > 200 || list[0].High < 400 {
		t.Errorf("of 200 or 400 keys: %+v (%v)", list, err)
	}
}

// A timeline waits while a global transaction has a shard, and ends when the store is closed.
func TestTimelineWaitsForGlobal(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.exact = exactMost
	h.mixed(1, 50)
	global := h.s.NewTxn()
	count := func(match func([]byte) bool) chan error {
		done := make(chan error, 1)
		go func() {
			list, err := h.s.Timeline(1, Instant{At: 1}, Instant{Open: true}, 1, match)
			if err == nil && !list[0].Exact() {
				err = fmt.Errorf("%v", list)
			}
			done <- err
		}()
		return done
	}
	for _, match := range []func([]byte) bool{nil, anyName} {
		h.s.BeginGlobal(global, nil)
		done := count(match)
		select {
		case err := <-done:
			t.Fatalf("it has not waited: %v", err)
		default:
		}
		global.End()
		if err := await.For(t, "the count", done); err != nil {
			t.Error(err)
		}
	}
	h.s.BeginGlobal(global, nil)
	done := count(nil)
	h.s.stop()
	if err := await.For(t, "its end", done); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	global.End()
	if err := h.s.Close(false); err != nil {
		t.Error(err)
	}
}

// A goroutine finds the remaining deadlines on disk.
func TestTimelineWalksOn(t *testing.T) {
	h := newHarness(t)
	now := h.clock.Now()
	for i := range 500 {
		k := h.s.Key(0, fmt.Appendf(nil, "key%d%s", i, strings.Repeat("x", i%2*2000)))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000+int64(i)), Event{}) }, k)
	}
	h.saved()
	h.evict()
	h.s.options.NoBackground = false
	if _, err := h.s.Timeline(0, Instant{At: 1}, Instant{At: now + 1001}, 1, nil); err != nil {
		t.Fatal(err)
	}
	w := &h.s.diskWalk
	await.Until(t, "the walk has come to its end", func() bool {
		w.turn.Lock()
		defer w.turn.Unlock()
		return w.turn.cursor == nil && !w.turn.alone
	})
	h.s.background.Wait()
	h.check()
	n := 0
	for _, sh := range h.s.shards {
		n += sh.mu.parts[0].disk.bins.Len()
	}
	if n != 500 {
		t.Errorf("%d deadlines on disk are found", n)
	}
}

// BenchmarkTimelineWithin counts a timeline within a transaction, for which all other clients wait.
// It uses the maximum number of spans, or a pattern for names, in memory and on disk. ms/most is
// the longest time.
func BenchmarkTimelineWithin(b *testing.B) {
	h := newHarness(b)
	h.s.bounds.exact, h.s.bounds.dueStep = exactMost, dueStep
	now := h.clock.Now()
	const keys = 400_000
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		k := h.s.Key(1, fmt.Appendf(nil, "key:%d", i))
		h.do(func(x *Txn) {
			x.SetString(k, []byte("v"), ttl.At(now+5000+rng.Int64N(30*24*3600_000)), Event{})
		}, k)
	}
	for _, place := range []string{"memory", "disk"} {
		for _, c := range []struct {
			name  string
			spans int
			match func([]byte) bool
		}{{"30 spans", 30, nil}, {"10000 spans", 10_000, nil}, {"names", 30, anyName}} {
			b.Run(place+"/"+c.name, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					h.doAll(func(x *Txn) {
						began := time.Now()
						if _, err := x.View().Timeline(1, Instant{Open: true}, Instant{Open: true},
							c.spans, c.match); err != nil {
							b.Fatal(err)
						}
						took = append(took, time.Since(began))
					})
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms/median")
				b.ReportMetric(took[len(took)-1].Seconds()*1000, "ms/most")
			})
		}
		h.saved()
		h.evict()
	}
}

// A timeline does not count a key that the running checkpoint has deleted. The bucket ttl has the
// key's entry until the checkpoint's end, but the key is not in memory any more. The counts that
// the timeline begins to keep stay right.
func TestTimelineDuringCheckpoint(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	const keys = 60
	set := func(i int, d ttl.Deadline) {
		k := h.s.Key(1, fmt.Appendf(nil, "key%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), d, Event{}) }, k)
	}
	for i := range keys {
		set(i, ttl.At(now+10_000+int64(i)))
	}
	h.saved()
	h.evict()
	for i := range keys {
		switch k := h.s.Key(1, fmt.Appendf(nil, "key%d", i)); i % 4 {
		case 0:
			h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
		case 1:
			set(i, ttl.At(now+20_000+int64(i)))
		case 2:
			set(i, ttl.Deadline{})
		}
	}
	count := func(want ...int64) {
		t.Helper()
		list, err := h.s.Timeline(1, Instant{At: now + 10_000}, Instant{At: now + 30_000}, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range list {
			if s.Low > want[i] || s.High < want[i] {
				t.Errorf("span %d has from %d to %d keys, want %d", i, s.Low, s.High, want[i])
			}
		}
	}
	looks := 0
	h.s.options.Testing.OnStep = only(StepPending, func() error {
		looks++
		count(keys/4, keys/4)
		return nil
	})
	h.saved()
	if looks == 0 {
		t.Error("no change of ttl was pending")
	}
	count(keys/4, keys/4)
	h.evict()
	count(keys/4, keys/4)
}

// A step of the walk over ttl reads entries, and a checkpoint deletes their keys before the step
// looks at memory.
func TestTimelineBesideDeletion(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	k := h.s.Key(0, []byte("key"))
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+10_000), Event{}) }, k)
	h.saved()
	h.evict()
	w := &h.s.diskWalk
	if err := w.begin(h.s.View); err != nil {
		t.Fatal(err)
	}
	list, next, err := h.s.readDue(w.turn.cursor, math.MaxInt64, 10)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
	h.saved()
	for _, sh := range h.s.shards {
		var its []diskDue
		if sh.num == h.s.ShardOf(k) {
			its = list
		}
		sh.mu.Lock()
		err := sh.learnDisk(its, next)
		sh.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.turn.cursor = next
	if n := h.s.shards[h.s.ShardOf(k)].mu.parts[0].disk.bins.Len(); n != 0 {
		t.Errorf("%d deadlines on disk are counted", n)
	}
}
