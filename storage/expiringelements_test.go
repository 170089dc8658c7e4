package storage

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/storage/object"
)

// setElement gives a key an element of a type, with a deadline.
func (h *harness) setElement(k Key, typ object.Type, elem, val string, deadline int64) {
	h.t.Helper()
	h.do(func(x *Txn) {
		var err error
		switch typ {
		case object.TypeSet:
			var v Set
			if v, err = x.Set(k); err == nil {
				v.Add([]byte(elem))
				v.SetDeadline([]byte(elem), deadline)
			}
		case object.TypeZSet:
			var v ZSet
			if v, err = x.ZSet(k); err == nil {
				v.Set([]byte(elem), float64(len(elem)))
				v.SetDeadline([]byte(elem), deadline)
			}
		default:
			var v Hash
			if v, err = x.Hash(k); err == nil {
				v.Set([]byte(elem), []byte(val), deadline)
			}
		}
		if err != nil {
			h.t.Fatalf("%v", err)
		}
	}, k)
}

// dueElement is an element, or a key if element is false.
type dueElement struct {
	key, elem string
	element   bool
}

// mixedElements makes hashes, sets and sorted sets of all forms, in memory and on disk, whose elements have few deadlines, and
// gives what a listing has.
func (h *harness) mixedElements(db int) (want map[dueElement]int64) {
	h.t.Helper()
	want = map[dueElement]int64{}
	now := h.clock.Now()
	for i := range 60 {
		name := fmt.Sprintf("key%d", i)
		if i%2 == 0 {
			name = fmt.Sprintf("{same}%d", i)
		}
		k := h.s.Key(db, []byte(name))
		typ := []object.Type{object.TypeHash, object.TypeSet, object.TypeZSet}[i%3]
		own, elements, val := int64(0), 1+i%4, "v"
		switch {
		case i%20 == 7: // large, and stored by element
			elements, val = 700, strings.Repeat("v", 30)
		case i%10 == 3: // inline, but large in memory
			elements = 200
		}
		if i%4 == 0 {
			own = now + 10_000 + int64(i%3)
		}
		for j := range elements {
			elem, at := fmt.Sprintf("element %d", j), now+10_000+int64((i+j)%5)
			switch {
			case j%9 == 8:
				at = 0
			case elements == 700 && j%2 == 0: // many with one deadline
				at = now + 10_001
			case j == 1 && i%5 == 0:
				at = math.MaxInt64
			}
			h.setElement(k, typ, elem, val, at)
			if at != 0 && (own == 0 || at < own) {
				want[dueElement{name, elem, true}] = at
			}
		}
		if own != 0 {
			h.do(func(x *Txn) { x.SetDeadline(k, own, Event{}) }, k)
			want[dueElement{key: name}] = own
		}
	}
	for i := range 100 {
		k := h.s.Key(db, fmt.Appendf(nil, "string%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), now+10_000+int64(i%4), Event{}) }, k)
		want[dueElement{key: string(k.Name)}] = now + 10_000 + int64(i%4)
	}
	return want
}

func (h *harness) expiringElements(v View, db int, from, until DuePlace, count func() int) map[dueElement]int64 {
	h.t.Helper()
	got := map[dueElement]int64{}
	for _, k := range h.expiringWith(v, db, from, until, count, anyName, "", anyElements) {
		one := dueElement{string(k.Name), string(k.Elem), k.Element}
		if _, twice := got[one]; twice {
			h.t.Fatalf("%v comes twice", one)
		}
		got[one] = k.At
	}
	return got
}

// Keys and elements come once and in order, in pages of any size, in memory, on disk and in both, and after a restart; so they do
// before and after their places are known.
func TestExpiringElements(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.s.bounds.group, h.s.bounds.cover, h.s.bounds.stretch = 30, 1000, 100
	defer h.check()
	now := h.clock.Now()
	want := h.mixedElements(1)
	h.mixedElements(2)
	compare := func(place string) {
		t.Helper()
		for _, size := range []int{1, 7, 100, 10_000} {
			if place != "in memory" && size == 1 {
				size = 3
			}
			if got := h.expiringElements(h.s.View, 1, DuePlace{}, DueEnd, always(size)); !maps.Equal(got, want) {
				t.Fatalf("%s, by %d: %d keys and elements, want %d", place, size, len(got), len(want))
			}
		}
		for _, c := range [][2]DuePlace{
			{{Deadline: now + 10_001}, {Deadline: now + 10_002}},
			{{Deadline: now + 10_002}, DueEnd},
			{{Deadline: math.MaxInt64}, DueEnd},
			{{Deadline: now + 10_005}, {Deadline: math.MaxInt64}},
			{DueEnd, DueEnd},
		} {
			some := maps.Clone(want)
			maps.DeleteFunc(some, func(_ dueElement, at int64) bool {
				return (DuePlace{Deadline: at}).Before(c[0]) || !(DuePlace{Deadline: at}).Before(c[1])
			})
			if got := h.expiringElements(h.s.View, 1, c[0], c[1], always(50)); !maps.Equal(got, some) {
				t.Errorf("%s, %v: %d keys and elements, want %d", place, c, len(got), len(some))
			}
		}
		sets, n := 0, 0
		for e := range want {
			if k := e.key; e.element && strings.HasSuffix(k, "7") {
				n++
			}
		}
		for _, k := range h.expiringWith(h.s.View, 1, DuePlace{}, DueEnd, always(20), func(name []byte) bool { return strings.HasSuffix(string(name), "7") }, "",
			func(_ []byte, typ object.Type) bool {
				sets += map[bool]int{true: 1}[typ == object.TypeSet]
				return true
			}) {
			n -= map[bool]int{true: 1}[k.Element]
		}
		if n != 0 || sets == 0 {
			t.Errorf("%s: %d elements of keys that match are missing, %d are of sets", place, n, sets)
		}
		for _, k := range h.expiringWith(h.s.View, 1, DuePlace{}, DueEnd, always(90), anyName, "zset", func(name []byte, _ object.Type) bool { return name[0] == 'k' }) {
			if k.Name[0] != 'k' && k.Element {
				t.Fatalf("%s: elements of %s are not to be seen", place, k.Name)
			}
		}
		h.doAll(func(x *Txn) {
			if got := h.expiringElements(x.View(), 1, DuePlace{}, DueEnd, always(100)); !maps.Equal(got, want) {
				t.Errorf("%s, within a transaction: %d, want %d", place, len(got), len(want))
			}
		})
	}
	compare("in memory")
	h.saved()
	h.evict()
	compare("on disk")
	i := 0
	for e := range want {
		if i++; i%2 == 0 {
			h.load([]Key{h.s.Key(1, []byte(e.key))})
		}
	}
	compare("in both")
	for _, what := range []string{"after a restart", "after another"} {
		if err := h.s.Close(true); err != nil {
			t.Fatal(err)
		}
		h.open()
		h.s.bounds.cover = 40 // pages are empty until what ttl has before them is known
		if what == "after another" {
			h.evict()
			if got := h.expiringElements(h.s.View, 1, DuePlace{Deadline: now + 10_003}, DuePlace{Deadline: now + 10_004}, always(9)); len(got) == 0 {
				t.Error("no elements that are due behind others are found")
			}
		}
		compare(what)
	}
	h.doAll(func(x *Txn) { x.FlushDB(1) })
	if got := h.expiringElements(h.s.View, 1, DuePlace{}, DueEnd, always(100)); len(got) != 0 {
		t.Errorf("emptied: %d", len(got))
	}
}

// A page is of one keyspace, whenever its database is swapped with another one or emptied while it is made, and pages within a
// transaction are as the others, but shorter.
func TestExpiringSwapped(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	const keys = 600
	for i := range 2 * keys {
		k := h.s.Key(1+i%2, fmt.Appendf(nil, "%d:%d", 1+i%2, i/2))
		h.setElement(k, object.TypeHash, "f", "v", now+5000+int64(i/2))
		h.do(func(x *Txn) { x.SetDeadline(k, now+100_000+int64(i/2), Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		for _, elements := range []func([]byte, object.Type) bool{nil, anyElements} {
			for swapAt := 1; swapAt < 1500; swapAt += 311 {
				calls, counts := 0, map[byte]int{}
				list, _, _, err := h.s.Expiring(1, DuePlace{}, DueEnd, 200, func([]byte) bool {
					if calls++; calls == swapAt {
						h.doAll(func(x *Txn) { x.SwapDB(1, 2) })
					}
					return true
				}, "", elements)
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
		}
		h.doAll(func(x *Txn) {
			list, next, more, err := x.View().Expiring(1, DuePlace{}, DueEnd, 10_000, anyName, "", anyElements)
			if err != nil || !more || len(list) == 0 || len(list) > withinMost || !(DuePlace{Deadline: now}).Before(next) {
				t.Errorf("%s: a page within a transaction has %d entries, up to %v: %v", place, len(list), next, err)
			}
			if n := len(h.expiringElements(x.View(), 1, DuePlace{}, DueEnd, always(10_000))); n != 2*keys {
				t.Errorf("%s: %d entries within a transaction", place, n)
			}
		})
		h.saved()
		h.evict()
	}
	flushed := false
	list, _, more, err := h.s.Expiring(1, DuePlace{}, DueEnd, 200, func([]byte) bool {
		if !flushed {
			flushed = true
			h.doAll(func(x *Txn) { x.FlushDB(1) })
		}
		return true
	}, "", anyElements)
	if err != nil || len(list) != 0 || more {
		t.Errorf("emptied meanwhile: %d entries, more: %v, %v", len(list), more, err)
	}
}

// BenchmarkExpiringWithin is a page within a transaction, for which all others wait, of as many entries as it may have: in memory and
// on disk, with elements or not. ms/most is the longest.
func BenchmarkExpiringWithin(b *testing.B) {
	h := newHarness(b)
	now := h.clock.Now()
	const keys = 40_000
	for i := range keys {
		k := h.s.Key(1, fmt.Appendf(nil, "key:%d", i))
		if i%2 == 0 {
			h.do(func(x *Txn) { x.SetString(k, []byte("v"), now+5000+int64(i), Event{}) }, k)
			continue
		}
		h.setElement(k, object.TypeHash, "f", "v", now+5000+int64(i))
		h.setElement(k, object.TypeHash, "g", "v", now+5000+int64(i+keys)%keys)
		h.do(func(x *Txn) { x.SetDeadline(k, now+100_000+int64(i), Event{}) }, k)
	}
	for _, place := range []string{"memory", "disk"} {
		for name, elements := range map[string]func([]byte, object.Type) bool{"keys": nil, "elements": anyElements} {
			b.Run(place+"/"+name, func(b *testing.B) {
				from, took := DuePlace{}, []time.Duration{}
				for b.Loop() {
					h.doAll(func(x *Txn) {
						began := time.Now()
						_, next, more, err := x.View().Expiring(1, from, DueEnd, 10_000, anyName, "", elements)
						if took = append(took, time.Since(began)); err != nil {
							b.Fatal(err)
						}
						if from = next; !more {
							from = DuePlace{}
						}
					})
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms/p99")
				b.ReportMetric(took[len(took)-1].Seconds()*1000, "ms/most")
			})
		}
		h.saved()
		h.evict()
	}
}

// Elements whose deadlines stay come once, whatever happens between pages and while one is made: values come and go, grow, and
// move in memory and between memory and disk; other elements and the keys get other deadlines; the places are made again.
func TestExpiringElementsBesideChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := newHarness(t)
		h.t = failer{t, rt}
		defer func() { _ = h.s.Close(false) }()
		h.s.bounds.group = rapid.SampledFrom([]int{1, 4, 100}).Draw(rt, "group")
		h.s.bounds.cover = rapid.SampledFrom([]int{3, 1000}).Draw(rt, "cover")
		h.s.bounds.stretch = 10
		h.s.bounds.left = rapid.SampledFrom([]int{1, 3, leftKept}).Draw(rt, "left")
		now := h.clock.Now()
		const keys = 12
		typ := func(i int) object.Type { return []object.Type{object.TypeHash, object.TypeSet, object.TypeZSet}[i%3] }
		key := func(i int) Key { return h.s.Key(0, fmt.Appendf(nil, "{%d}%d", i%2, i)) }
		want := map[dueElement]int64{}
		for i := range keys {
			n := 1 + i
			if i%4 == 3 {
				n = 60
			}
			for j := range n {
				at := now + 5000 + int64(j%4)
				elem := fmt.Sprint("kept", j, strings.Repeat("x", (i%3)*100))
				h.setElement(key(i), typ(i), elem, "v", at)
				want[dueElement{string(key(i).Name), elem, true}] = at
			}
		}
		change := func() {
			i := rapid.IntRange(0, keys-1).Draw(rt, "key")
			switch rapid.IntRange(0, 9).Draw(rt, "change") {
			case 0:
				h.saved()
			case 1:
				h.evict()
			case 2:
				h.saved()
				h.evict()
			case 3:
				h.load([]Key{key(i)})
			case 4, 5:
				h.setElement(key(i), typ(i), fmt.Sprint("other", rapid.IntRange(0, 3).Draw(rt, "element")), "v",
					now+rapid.SampledFrom([]int64{-now, 1000, 4999, 5001, 9000}).Draw(rt, "due"))
			case 6:
				h.do(func(x *Txn) {
					x.SetDeadline(key(i), now+rapid.SampledFrom([]int64{-now, 6000, 7000}).Draw(rt, "own"), Event{})
				}, key(i))
			case 7:
				h.do(func(x *Txn) { // the value as a whole
					x.Delete(key(keys+i), Event{})
					x.Copy(key(i), key(keys+i))
				}, key(i), key(keys+i))
			case 8:
				sh := h.s.shards[h.s.shardOf(key(i).Slot)]
				sh.mu.Lock()
				if p := sh.mu.parts[0]; p != nil {
					p.places = nil
				}
				sh.mu.Unlock()
			case 9:
				h.do(func(x *Txn) { x.Delete(key(keys+i), Event{}) }, key(keys+i))
			}
		}
		for range rapid.IntRange(0, 10).Draw(rt, "before") {
			change()
		}
		got := map[dueElement][]int64{}
		from, pages, quiet := DuePlace{Deadline: now + 5000}, 0, false
		for more := true; more; pages++ {
			var list []DueKey
			var err error
			count := rapid.IntRange(1, 60).Draw(rt, "count")
			list, from, more, err = h.s.Expiring(0, from, DuePlace{Deadline: now + 5100}, count, func([]byte) bool {
				if !quiet && rapid.IntRange(0, 40).Draw(rt, "changes") == 0 {
					change()
				}
				return true
			}, "", anyElements)
			if err != nil || pages > 5000 {
				rt.Fatalf("page %d: %v", pages, err)
			}
			for _, k := range list {
				one := dueElement{string(k.Name), string(k.Elem), k.Element}
				got[one] = append(got[one], k.At)
			}
			if quiet = pages > 60; !quiet { // lest the places are made again for ever
				change()
			}
		}
		for one, at := range want {
			if !slices.Equal(got[one], []int64{at}) {
				rt.Fatalf("%v, of %d, comes at %v", one, at, got[one])
			}
		}
	})
}

// A page that is begun, and never gone on with, leaves nothing that grows with what leaves memory; what has left comes all the same.
func TestExpiringElementsBegun(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	const keys = 500
	for i := range keys {
		h.setElement(h.s.Key(0, fmt.Appendf(nil, "key%d", i)), object.TypeHash, "f", "v", now+5000+int64(i))
	}
	for _, sh := range h.s.shards { // the first page that has come no further than this, as one within a transaction may
		if p := sh.mu.parts[0]; p != nil {
			l := &expiring{View: h.s.View, now: now, space: p.space, places: make([]*elementPlaces, len(h.s.shards))}
			h.s.later.begin(p.space)
			l.usePlaces(p)
		}
	}
	for space := range h.s.later.mu.of { // ttl has been read, as far as it went
		h.s.later.knownElements(space, DuePlace{}, DueEnd, h.s.later.mu.of[space].round)
	}
	h.saved()
	h.evict()
	for space, of := range h.s.later.mu.of {
		if n := len(of.left); n > h.s.bounds.left {
			t.Errorf("keyspace %d: %d values that have left memory are noted, %d may be", space, n, h.s.bounds.left)
		}
	}
	if got := h.expiringElements(h.s.View, 0, DuePlace{}, DueEnd, always(50)); len(got) != keys {
		t.Errorf("%d elements are listed, of %d", len(got), keys)
	}
}
