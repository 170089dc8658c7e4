package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// expiring lists keys page by page, and checks the order over all pages. It ends with the page
// after which there are no more keys.
func (h *harness) expiring(v View, db int, from, until DueCursor, count func() int,
	match func([]byte) bool, typ string) (all []DueKey) {
	h.t.Helper()
	last := DueCursor{}
	for range 100_000 {
		n := count()
		list, next, more, err := v.Expiring(db, from, until, n, match, typ)
		if err != nil {
			h.t.Fatalf("expiring: %v", err)
		}
		for i, k := range list {
			at := DueCursor{Deadline: k.At, Slot: Slot(k.Name), Hash: h.s.hash(k.Name)}
			if at.Before(from) || !last.Before(at) && last != (DueCursor{}) || !at.Before(until) ||
				more && !at.Before(next) {
				h.t.Fatalf("%.20q at %v comes after %v, from %v until %v, next %v (%v)", k.Name, at,
					last, from, until, next, more)
			}
			if last = at; i >= n {
				h.t.Fatalf("%d keys in a page of %d", len(list), n)
			}
		}
		all = append(all, list...)
		if !more {
			return all
		}
		if next.Before(from) {
			h.t.Fatalf("from %v on to %v", from, next)
		}
		from = next
	}
	h.t.Fatalf("expiring does not end")
	return nil
}

func always(n int) func() int { return func() int { return n } }

// verifyExpiring compares the list of keys by deadline with the model.
func (h *harness) verifyExpiring(v View, from DueCursor) {
	h.t.Helper()
	if h.s.quit.Err() != nil {
		return // pages are refused
	}
	for db := range h.databases {
		got := map[name]int64{}
		for _, k := range h.expiring(v, db, from, DueEnd, always(2), anyName, "") {
			got[name{db, string(k.Name)}] = k.At
		}
		want := map[name]int64{}
		for n, v := range h.model.live(h.now()) {
			if n.db == db && v.deadline != 0 {
				want[n] = v.deadline
			}
		}
		if !maps.Equal(got, want) {
			h.t.Fatalf("the keys with deadlines are\n%.40v\nwant\n%.40v", got, want)
		}
	}
}

// mixed sets keys of several kinds in one slot and in others. Most keys have one of a few
// deadlines. It returns the keys with a deadline.
func (h *harness) mixed(db, keys int) (want map[string]int64) {
	want = map[string]int64{}
	now := h.clock.Now()
	for i := range keys {
		text := fmt.Sprintf("key%d", i)
		if i%2 == 0 {
			text = fmt.Sprintf("{same}%d", i)
		}
		k := h.s.Key(db, []byte(text))
		deadline := now + 10_000 + int64(i%3)
		switch {
		case i%7 == 0:
			deadline = 0
		case i%11 == 0:
			deadline = math.MaxInt64
		}
		switch i % 5 {
		case 0: // with fields that are due before the key, or without it, and one that is not
			h.do(func(x *Txn) {
				hash, err := x.Hash(k)
				if err != nil {
					h.t.Fatalf("%v", err)
				}
				hash.Set([]byte("f"), []byte("v"), ttl.At(now+5000+int64(i%4)))
				hash.Set([]byte("g"), []byte("v"), ttl.At(now+20_000))
				hash.Set([]byte("h"), bytes.Repeat([]byte("v"), 30*(i%2)), ttl.Deadline{})
			}, k)
			if deadline != 0 {
				h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(deadline), Event{}) }, k)
			}
		case 1:
			h.do(func(x *Txn) {
				x.SetString(k, bytes.Repeat([]byte("v"), 9000), ttl.At(deadline), Event{})
			}, k)
		default:
			h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(deadline), Event{}) }, k)
		}
		if deadline != 0 {
			want[text] = deadline
		}
	}
	return want
}

// Each key is listed once, by its own deadline, in pages of any size. Keys may be in memory, on
// disk or both, and many may share a slot and a deadline.
func TestExpiring(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.group, h.s.bounds.cover = 30, 1000
	defer h.check()
	now := h.clock.Now()
	want := h.mixed(1, 900)
	h.mixed(2, 300)
	compare := func(place string) {
		t.Helper()
		for _, size := range []int{1, 7, 100, 10_000} {
			if place != "in memory" && size == 1 {
				size = 3
			}
			got := map[string]int64{}
			for _, k := range h.expiring(h.s.View, 1, DueCursor{}, DueEnd, always(size), anyName,
				"") {
				got[string(k.Name)] = k.At
			}
			if !maps.Equal(got, want) {
				t.Fatalf("%s, by %d: %d keys, want %d", place, size, len(got), len(want))
			}
		}
		for _, c := range []struct {
			from, until DueCursor
			typ         string
			has         func(i int, at int64) bool
		}{
			{DueCursor{Deadline: now + 10_001}, DueCursor{Deadline: now + 10_002}, "",
				func(_ int, at int64) bool { return at == now+10_001 }},
			{DueCursor{Deadline: now + 10_002}, DueEnd, "", func(_ int, at int64) bool {
				return at >= now+10_002
			}},
			{DueCursor{Deadline: math.MaxInt64}, DueEnd, "", func(_ int, at int64) bool {
				return at == math.MaxInt64
			}},
			{DueCursor{Deadline: now + 10_003}, DueCursor{Deadline: math.MaxInt64}, "",
				func(int, int64) bool { return false }},
			{DueEnd, DueEnd, "", func(int, int64) bool { return false }},
			{DueCursor{Deadline: now + 10_002}, DueCursor{}, "", func(int, int64) bool {
				return false
			}},
			{DueCursor{}, DueCursor{Deadline: now}, "", func(int, int64) bool { return false }},
			{DueCursor{}, DueEnd, "hash", func(i int, _ int64) bool { return i%5 == 0 }},
			{DueCursor{}, DueEnd, "list", func(int, int64) bool { return false }},
		} {
			got := map[string]int64{}
			for _, k := range h.expiring(h.s.View, 1, c.from, c.until, always(50), anyName, c.typ) {
				got[string(k.Name)] = k.At
			}
			some := maps.Clone(want)
			maps.DeleteFunc(some, func(text string, at int64) bool {
				var i int
				if _, err := fmt.Sscanf(strings.TrimPrefix(strings.TrimPrefix(text, "{same}"),
					"key"), "%d", &i); err != nil {
					t.Fatal(err)
				}
				return !c.has(i, at)
			})
			if !maps.Equal(got, some) {
				t.Errorf("%s, %v to %v, type %q: %d keys, want %d", place, c.from, c.until, c.typ,
					len(got), len(some))
			}
		}
		some := 0
		for range h.expiring(h.s.View, 1, DueCursor{}, DueEnd, always(20), func(name []byte) bool {
			return bytes.HasSuffix(name, []byte("7"))
		}, "") {
			some++
		}
		match := 0
		for text := range want {
			if strings.HasSuffix(text, "7") {
				match++
			}
		}
		if some != match {
			t.Errorf("%s: %d names match, want %d", place, some, match)
		}
		h.doAll(func(x *Txn) {
			if n := len(h.expiring(x.View(), 1, DueCursor{}, DueEnd, always(100), anyName,
				"")); n != len(want) {
				t.Errorf("%s, within a transaction: %d keys, want %d", place, n, len(want))
			}
		})
	}
	compare("in memory")
	h.saved()
	h.evict()
	compare("on disk")
	i := 0
	for text := range want {
		if i++; i%2 == 0 {
			h.load([]Key{h.s.Key(1, []byte(text))})
		}
	}
	compare("in both")
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.s.bounds.cover = 40 // pages are empty until what ttl has before them is known
	compare("after a restart")
	if of := h.s.later.mu.of[h.s.spaces.ids[1]]; of == nil || of.index.Len() == 0 ||
		of.through.Before(DueCursor{Deadline: now + 10_000}) {
		t.Errorf("the next page reads ttl again: %+v", of)
	}
	h.doAll(func(x *Txn) { x.SwapDB(1, 2) })
	if n := len(h.expiring(h.s.View, 2, DueCursor{}, DueEnd, always(100), anyName, "")); n != len(
		want) {
		t.Errorf("swapped: %d keys, want %d", n, len(want))
	}
	h.doAll(func(x *Txn) { x.FlushDB(2) })
	if list := h.expiring(h.s.View, 2, DueCursor{}, DueEnd, always(100), anyName,
		""); len(list) != 0 {
		t.Errorf("emptied: %d keys", len(list))
	}
}

// Due keys are not listed, whether or not they were removed. The log records that they are gone
// before a reply shows it.
func TestExpiringLeavesOutDue(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	h.mixed(1, 100)
	for _, place := range []string{"in memory", "on disk"} {
		h.clock.Advance(7000e6) // fields
		for _, k := range h.expiring(h.s.View, 1, DueCursor{}, DueEnd, always(9), anyName, "") {
			if k.At <= h.clock.Now() {
				t.Errorf("%s: %q is due", place, k.Name)
			}
		}
		if logged := h.s.shown.at.Load(); logged != h.clock.Now() {
			t.Errorf("%s: time is logged as %d, now is %d", place, logged, h.clock.Now())
		}
		h.saved()
		h.evict()
	}
	end := h.s.Log().End()
	h.expiring(h.s.View, 1, DueCursor{}, DueEnd, always(9), anyName, "")
	if h.s.Log().End() != end {
		t.Error("the same time is logged again")
	}
}

// Keys whose deadlines stay the same are listed once, whatever happens between pages and while one
// is made. Other keys are added and removed, and values move in memory, leave it and return. The
// deadlines of elements and of other keys change, and checkpoints change the bucket ttl.
func TestExpiringBesideChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(t)
		h.t = failer{t, rt}
		defer func() { _ = h.s.Close(false) }()
		h.s.bounds.group = rapid.SampledFrom([]int{1, 4, 100}).Draw(rt, "group")
		h.s.bounds.cover = 1000
		now := h.clock.Now()
		const stay = 24
		want := map[string]int64{}
		key := func(i int) Key { return h.s.Key(0, fmt.Appendf(nil, "{%d}%d", i%3, i)) }
		hash := func(i int, field string, deadline int64) {
			h.do(func(x *Txn) {
				v, err := x.Hash(key(i))
				if err != nil {
					rt.Fatal(err)
				}
				v.Set([]byte("kept"), []byte("v"), ttl.Deadline{})
				v.Set([]byte(field), []byte("v"), ttl.At(deadline))
			}, key(i))
		}
		for i := range 2 * stay {
			at := now + 5000 + int64(i%4)
			if i%2 == 0 {
				hash(i, "f", 0)
				h.do(func(x *Txn) { x.SetDeadline(key(i), ttl.At(at), Event{}) }, key(i))
			} else {
				h.do(func(x *Txn) { x.SetString(key(i), []byte("v"), ttl.At(at), Event{}) }, key(i))
			}
			if i < stay {
				want[string(key(i).Name)] = at
			}
		}
		change := func() {
			i := rapid.IntRange(0, 2*stay-1).Draw(rt, "key")
			switch rapid.IntRange(0, 7).Draw(rt, "change") {
			case 0:
				h.saved()
			case 1:
				h.evict()
			case 2:
				h.saved()
				h.evict()
			case 3:
				h.load([]Key{key(i)})
			case 4, 5: // of the same deadline, elsewhere in memory, or with another first element
				if i%2 == 0 {
					hash(i, fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "field")),
						now+rapid.SampledFrom([]int64{1000, 4999, 5001, 9000}).Draw(rt, "due"))
					return
				}
				size := rapid.SampledFrom([]int{1, 50, 5000}).Draw(rt, "size")
				h.do(func(x *Txn) {
					if at, ok := x.Deadline(key(i)); ok {
						x.SetString(key(i), bytes.Repeat([]byte("v"), size), ttl.At(at), Event{})
					}
				}, key(i))
			case 6:
				if i >= stay {
					h.do(func(x *Txn) { x.Delete(key(i), Event{}) }, key(i))
				}
			case 7:
				if i >= stay {
					h.do(func(x *Txn) {
						x.SetDeadline(key(i),
							ttl.At(now+rapid.Int64Range(1, 9000).Draw(rt, "deadline")), Event{})
					}, key(i))
				}
			}
		}
		for range rapid.IntRange(0, 10).Draw(rt, "before") {
			change()
		}
		got := map[string][]int64{}
		from, pages := DueCursor{Deadline: now + 5000}, 0
		for more := true; more; pages++ {
			var list []DueKey
			var err error
			count := rapid.IntRange(1, 10).Draw(rt, "count")
			list, from, more, err = h.s.Expiring(0, from, DueCursor{Deadline: now + 5100}, count,
				func([]byte) bool {
					if rapid.IntRange(0, 7).Draw(rt, "changes") == 0 {
						change()
					}
					return true
				}, "")
			if err != nil || pages > 1000 {
				rt.Fatalf("page %d: %v", pages, err)
			}
			for _, k := range list {
				got[string(k.Name)] = append(got[string(k.Name)], k.At)
			}
			change()
		}
		for text, at := range want {
			if !slices.Equal(got[text], []int64{at}) {
				rt.Fatalf("%s, of %d, comes at %v", text, at, got[text])
			}
		}
	})
}

// keyIn returns a key of database 0 in a shard.
func (h *harness) keyIn(shard int) Key {
	for i := 0; ; i++ {
		if k := h.s.Key(0, fmt.Append(nil, i)); h.s.shardOf(k.Slot) == shard {
			return k
		}
	}
}

// TestExpiringFindsMovedEntry: while a page is made, a key comes from disk into memory, and its
// entry in the bucket ttl moves to a place before the page. The page was past the key's shard
// already. It lists the key all the same.
func TestExpiringFindsMovedEntry(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	moved, other := h.keyIn(0), h.keyIn(len(h.s.shards)-1)
	at := h.clock.Now() + 5000
	field := func(due int64) {
		h.hash(moved, func(_ *Txn, v *Hash) { v.Set([]byte("f"), []byte("v"), ttl.At(due)) })
	}
	field(at + 1000)
	h.do(func(x *Txn) { x.SetDeadline(moved, ttl.At(at), Event{}) }, moved)
	h.saved()
	h.evict()
	h.do(func(x *Txn) { x.SetString(other, []byte("v"), ttl.At(at+1), Event{}) }, other)
	changed := false
	list, _, _, err := h.s.Expiring(0, DueCursor{Deadline: at}, DueEnd, 10, func([]byte) bool {
		if !changed { // this is other, in the last shard
			changed = true
			h.load([]Key{moved})
			field(at - 1000)
			h.saved()
		}
		return true
	}, "")
	if err != nil || len(list) != 2 || string(list[0].Name) != string(moved.Name) ||
		list[0].At != at || string(list[1].Name) != string(other.Name) {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestExpiringBesideLoadAll: while a page is made, the last keys on disk come into memory, in a
// shard that the page has passed. Then no key is only on disk any more, and the page lists them all
// the same.
func TestExpiringBesideLoadAll(t *testing.T) {
	for name, page := range map[string]func(s *Store, at int64, match func([]byte) bool) (
		[]DueKey, error){
		"by own deadlines": func(s *Store, at int64, match func([]byte) bool) ([]DueKey, error) {
			list, _, _, err := s.Expiring(0, DueCursor{Deadline: at}, DueEnd, 10, match, "")
			return list, err
		},
		"by next deadlines": func(s *Store, at int64, match func([]byte) bool) ([]DueKey, error) {
			list, _, err := s.NextDue(0, at, math.MaxInt64, 10, match)
			return list, err
		},
	} {
		h := newHarness(t)
		loaded, other := h.keyIn(0), h.keyIn(len(h.s.shards)-1)
		at := h.clock.Now() + 5000
		h.do(func(x *Txn) { x.SetString(loaded, []byte("v"), ttl.At(at), Event{}) }, loaded)
		h.saved()
		h.evict()
		h.do(func(x *Txn) { x.SetString(other, []byte("v"), ttl.At(at+1), Event{}) }, other)
		list, err := page(h.s, at, func([]byte) bool {
			h.s.loads.loadAll() // the page is at other, in the last shard
			return true
		})
		if err != nil || h.s.partials.Load() != 0 || len(list) != 2 ||
			string(list[0].Name) != string(loaded.Name) ||
			string(list[1].Name) != string(other.Name) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		h.check()
	}
}

// Pages wait while a global transaction has a shard, and end when the store is closed.
func TestExpiringWaitsForGlobal(t *testing.T) {
	h := newHarness(t)
	want := h.mixed(1, 50)
	global := h.s.NewTxn()
	page := func() chan error {
		done := make(chan error, 1)
		go func() {
			list, _, _, err := h.s.Expiring(1, DueCursor{}, DueEnd, 1000, anyName, "")
			if err == nil && len(list) != len(want) {
				err = fmt.Errorf("%d keys, want %d", len(list), len(want))
			}
			done <- err
		}()
		return done
	}
	h.s.BeginGlobal(global, nil)
	done := page()
	select {
	case err := <-done:
		t.Fatalf("it has not waited: %v", err)
	default:
	}
	global.End()
	if err := await.For(t, "the page", done); err != nil {
		t.Error(err)
	}
	h.s.BeginGlobal(global, nil)
	done = page()
	h.s.stop()
	if err := await.For(t, "the page's end", done); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	global.End()
	if err := h.s.Close(false); err != nil {
		t.Error(err)
	}
}

// Names are matched while no shard is locked. Long names are not copied before that, and they limit
// the size of a page.
func TestExpiringLongNames(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.group = groupMost
	defer h.check()
	now := h.clock.Now()
	const long, short = 40, 400
	for i := range long {
		k := h.s.Key(1, fmt.Appendf(nil, "{same}%d%s", i, strings.Repeat("x", 400<<10)))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000), Event{}) }, k)
	}
	for i := range short {
		k := h.s.Key(2, fmt.Appendf(nil, "{same}%d%s", i, strings.Repeat("x", 1500)))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000), Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		for db, n := range map[int]int{1: long, 2: short} {
			l := expiring{View: h.s.View, db: db, now: now, count: 10_000,
				match: func([]byte) bool {
					h.unlocked(place)
					return true
				}, from: DueCursor{Deadline: now + 1}, through: DueEnd}
			before := allocated()
			for _, sh := range h.s.shards {
				if err := l.inMemory(sh); err != nil {
					t.Fatal(err)
				}
			}
			if copied := allocated() - before; copied > 3<<20 {
				t.Errorf("%s: %d bytes were copied", place, copied)
			}
			if copied := cap(l.names); copied > 3*walkBytes {
				t.Errorf("%s: %d bytes of names were copied at once", place, copied)
			}
			seen := 0
			for from, more := (DueCursor{}), true; more; {
				var list []DueKey
				var err error
				if list, from, more, err = h.s.Expiring(db, from, DueEnd, 10_000, l.match,
					""); err != nil {
					t.Fatal(err)
				}
				size := 0
				for _, k := range list {
					size += len(k.Name)
				}
				if size > listBytes {
					t.Errorf("%s: a page has %d bytes of names", place, size)
				}
				seen += len(list)
			}
			if seen != n {
				t.Errorf("%s: %d keys, want %d", place, seen, n)
			}
		}
		h.saved()
		h.evict()
	}
}

// Damaged entries of the bucket ttl are left out, whatever remains of them.
func TestExpiringDamage(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	now := h.clock.Now()
	h.mixed(0, 60)
	h.saved()
	h.evict()
	if err := h.s.updateFile(func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketTTL)
		var err error
		for n := range 30 {
			err = errors.Join(err, b.Put(format.TTLKey(nil, now+10_000, nil)[:1+n%8], []byte("x")),
				b.Put(format.TTLKey(nil, now+9000, make([]byte, n)), make([]byte, n%9)))
		}
		k := h.s.Key(0, []byte("{same}2"))
		at := format.TTLKey(nil, now+10_002, format.DiskKey(nil, h.s.spaces.ids[0], k))
		entry := bytes.Clone(b.Get(at))
		if entry == nil {
			t.Fatal("there is no entry to damage")
		}
		entry[0] ^= 1
		return errors.Join(err, b.Put(at, entry))
	}); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, k := range h.expiring(h.s.View, 0, DueCursor{}, DueEnd, always(3), anyName, "") {
		got[string(k.Name)] = true
	}
	if want := 60 - 9 - 1; len(got) != want || got["{same}2"] {
		t.Errorf("%d keys, want %d", len(got), want)
	}
	if _, _, err := h.s.NextDue(0, now, now+100_000, 1000, anyName); err != nil {
		t.Error("NextDue gives up:", err)
	}
	if !h.s.WalkDue(now, now+100_000, 1, func([]DueKey) bool { return true }) {
		t.Error("WalkDue gives up")
	}
}

// The store keeps a key's own deadline apart from that of an element only while the key is only on
// disk. It drops the deadline when the key is loaded or expires, or its database is emptied. The
// method check compares the two.
func TestLaterDeadlines(t *testing.T) {
	h := newHarness(t)
	now := h.clock.Now()
	const keys = 40
	key := func(i int) Key { return h.s.Key(1, fmt.Appendf(nil, "key%d", i)) }
	set := func(first, own int64) {
		for i := range keys {
			h.do(func(x *Txn) {
				v, err := x.Hash(key(i))
				if err != nil {
					t.Fatal(err)
				}
				v.Set([]byte("f"), []byte("v"), ttl.At(first))
				v.Set([]byte("g"), []byte("v"), ttl.Deadline{})
			}, key(i))
			h.do(func(x *Txn) { x.SetDeadline(key(i), ttl.At(own), Event{}) }, key(i))
		}
	}
	load := func() {
		for i := range keys {
			h.load([]Key{key(i)})
		}
	}
	kept := func(place string, want int) {
		t.Helper()
		h.check()
		if n := h.s.later.mu.of[h.s.spaces.ids[1]].index.Len(); n != want {
			t.Errorf("%s: %d deadlines are kept, want %d", place, n, want)
		}
	}
	page := func(until int64) {
		t.Helper()
		h.expiring(h.s.View, 1, DueCursor{}, DueCursor{Deadline: until}, always(100), anyName, "")
	}
	other := h.s.Key(1, []byte("other"))
	h.do(func(x *Txn) { x.SetString(other, []byte("v"), ttl.At(now+100), Event{}) }, other)
	set(now+5000, now+50_000)
	h.saved()
	h.evict()
	h.load([]Key{key(0)})
	page(now + 6000) // before all of them
	kept("read from ttl, one key in memory", keys-1)
	load()
	kept("loaded", 0)
	for i := range 3 {
		set(now+5000, now+60_000+int64(i))
		h.saved()
		page(now + 6000)
		kept("in memory", 0)
		h.evict()
		kept("evicted", keys)
		load()
		kept("loaded again", 0)
	}
	h.evict()
	kept("at the end", keys)
	h.clock.Advance(100_000e6) // elements and keys are due
	h.s.Reap()
	kept("expired", 0)
	now = h.clock.Now()
	set(now+5000, now+50_000)
	h.saved()
	h.evict()
	kept("new ones", keys)
	h.doAll(func(x *Txn) { x.FlushDB(1) })
	if len(h.s.later.mu.of) != 0 {
		t.Error("deadlines of an emptied database are kept")
	}
}

// If a slot has some hundred keys for each deadline, a page takes the keys from the index. In the
// table it would look at all keys of the slot for each deadline. If the keys are too many, by
// number or by the length of their names, a step takes as many as fit.
func TestExpiringOneSlot(t *testing.T) {
	h := newHarness(t)
	h.s.bounds.group = groupMost
	now := h.clock.Now()
	for i := range 5000 {
		k := h.s.Key(0, fmt.Appendf(nil, "{same}%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000+int64(i/200)), Event{}) },
			k)
	}
	for from, pages, more := (DueCursor{}), 0, true; more; pages++ {
		var list []DueKey
		var err error
		if list, from, more, err = h.s.Expiring(0, from, DueEnd, 500, anyName, ""); err != nil ||
			len(list) != 500 {
			t.Fatalf("page %d has %d keys (%v)", pages, len(list), err)
		}
	}
	for i := range 1000 {
		k := h.s.Key(1, fmt.Appendf(nil, "{same}%d%s", i, strings.Repeat("x", 1000)))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000), Event{}) }, k)
	}
	l := expiring{View: h.s.View, db: 1, now: now, through: DueEnd}
	sh, steps := h.s.shards[h.s.shardOf(Slot([]byte("{same}")))], 0
	for at := (DueCursor{Deadline: now + 1000}); at.Before(DueEnd); steps++ {
		var err error
		if at, _, err = l.lookIn(sh, at); err != nil {
			t.Fatal(err)
		}
	}
	if steps > 50 {
		t.Errorf("%d steps for 1 MB of names", steps)
	}
}

// A page reads a bounded number of ttl entries, whatever databases they belong to.
func TestExpiringBesideDatabase(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	const others = 2000
	for i := range others {
		k := h.s.Key(i%2*2, fmt.Appendf(nil, "key%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000+int64(i)), Event{}) }, k)
	}
	k := h.s.Key(1, []byte("last"))
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000+others), Event{}) }, k)
	h.saved()
	h.evict()
	l := expiring{View: h.s.View, db: 1, now: now, count: 1, match: anyName,
		from: DueCursor{Deadline: now + 1}, through: DueEnd}
	space, _, err := l.beginOnDisk()
	if err != nil {
		t.Fatal(err)
	}
	for at, steps := l.from, 0; at.Before(DueEnd); steps++ {
		keys, next, looks, err := l.readTTL(space, at, DueEnd, 10, true)
		if err != nil || looks > 10+2*walkNames || !at.Before(next) ||
			len(keys) > 0 == next.Before(DueEnd) {
			t.Fatalf("step %d has %d keys of %d entries, from %v on to %v (%v)", steps, len(keys),
				looks, at, next, err)
		}
		at = next
	}
	if list := h.expiring(h.s.View, 1, DueCursor{}, DueEnd, always(10), anyName,
		""); len(list) != 1 {
		t.Errorf("%d keys", len(list))
	}
}

// A page belongs to one keyspace, even if its database is swapped or emptied while the page is
// made. Pages within a transaction are like others, but shorter.
func TestExpiringSwapped(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	const keys = 600
	for i := range 2 * keys {
		k := h.s.Key(1+i%2, fmt.Appendf(nil, "%d:%d", 1+i%2, i/2))
		h.setElement(k, object.TypeHash, "f", "v", now+5000+int64(i/2))
		h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(now+100_000+int64(i/2)), Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		for swapAt := 1; swapAt < 1500; swapAt += 311 {
			back := swapAt%2 == 0
			calls, counts := 0, map[byte]int{}
			list, _, _, err := h.s.Expiring(1, DueCursor{}, DueEnd, 200, func([]byte) bool {
				if calls++; calls == swapAt || back && calls == swapAt+100 {
					h.doAll(func(x *Txn) { x.SwapDB(1, 2) })
				}
				if calls%10 == 0 { // these are no concern of the page
					h.doAll(func(x *Txn) { x.SwapDB(0, 3) })
				}
				return true
			}, "")
			if err != nil || len(list) != 200 {
				t.Fatalf("%s: %d entries, %v", place, len(list), err)
			}
			for _, k := range list {
				counts[k.Name[0]]++
			}
			if len(counts) != 1 {
				t.Errorf("%s, swapped at %d: a page has %v", place, swapAt, counts)
			}
		}
		h.doAll(func(x *Txn) {
			list, next, more, err := x.View().Expiring(1, DueCursor{}, DueEnd, 10_000, anyName, "")
			if err != nil || !more || len(list) == 0 || len(list) > withinMost ||
				!(DueCursor{Deadline: now}).Before(next) {
				t.Errorf("%s: a page within a transaction has %d entries, up to %v: %v", place,
					len(list), next, err)
			}
			if n := len(h.expiring(x.View(), 1, DueCursor{}, DueEnd, always(10_000), anyName,
				"")); n != keys {
				t.Errorf("%s: %d entries within a transaction", place, n)
			}
		})
		h.saved()
		h.evict()
	}
	flushed := false
	list, _, more, err := h.s.Expiring(1, DueCursor{}, DueEnd, 200, func([]byte) bool {
		if !flushed {
			flushed = true
			h.doAll(func(x *Txn) { x.FlushDB(1) })
		}
		return true
	}, "")
	if err != nil || len(list) != 0 || more {
		t.Errorf("emptied meanwhile: %d entries, more: %v, %v", len(list), more, err)
	}
}

// BenchmarkExpiringWithin makes a page of the largest size within a transaction, for which all
// other clients wait. The entries are in memory and on disk. ms/most is the longest time.
func BenchmarkExpiringWithin(b *testing.B) {
	h := newHarness(b)
	now := h.clock.Now()
	const keys = 40_000
	for i := range keys {
		k := h.s.Key(1, fmt.Appendf(nil, "key:%d", i))
		if i%2 == 0 {
			h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+5000+int64(i)), Event{}) },
				k)
			continue
		}
		h.setElement(k, object.TypeHash, "f", "v", now+5000+int64(i))
		h.setElement(k, object.TypeHash, "g", "v", now+5000+int64(i+keys)%keys)
		h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(now+100_000+int64(i)), Event{}) }, k)
	}
	for _, place := range []string{"memory", "disk"} {
		b.Run(place, func(b *testing.B) {
			from, took := DueCursor{}, []time.Duration{}
			for b.Loop() {
				h.doAll(func(x *Txn) {
					began := time.Now()
					_, next, more, err := x.View().Expiring(1, from, DueEnd, 10_000, anyName, "")
					if took = append(took, time.Since(began)); err != nil {
						b.Fatal(err)
					}
					if from = next; !more {
						from = DueCursor{}
					}
				})
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms/p99")
			b.ReportMetric(took[len(took)-1].Seconds()*1000, "ms/most")
		})
		h.saved()
		h.evict()
	}
}
