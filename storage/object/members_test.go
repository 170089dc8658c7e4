package object

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// smallLimits makes values of a few elements large, so that the tests cover both forms and the
// change between them.
func smallLimits(t *testing.T) {
	SetThresholds(Thresholds{HashEntries: 8, HashValue: 64, SetInts: 12,
		SetEntries: 8, SetValue: 64,
		ZSetEntries: 8, ZSetValue: 64, ListSize: 8})
	t.Cleanup(func() { SetThresholds(DefaultThresholds) })
}

type modelElement struct {
	val      string
	deadline int64
}

// machine runs random operations on a value and on a map.
type machine struct {
	v     Value
	model map[string]modelElement
	keys  *rapid.Generator[string]
	vals  *rapid.Generator[string]
	check func(rt *rapid.T)         // the type's own properties
	more  map[string]func(*rapid.T) // operations beside those of all types
}

var deadlines = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 30))

func (m *machine) put(rt *rapid.T) {
	elem, val, deadline := m.keys.Draw(rt, "elem"), m.vals.Draw(rt, "val"),
		deadlines.Draw(rt, "deadline")
	if err := m.v.Put([]byte(elem), []byte(val), deadline); err != nil {
		rt.Fatal(err)
	}
	m.model[elem] = modelElement{val, deadline}
}

func (m *machine) remove(rt *rapid.T) {
	elem := m.keys.Draw(rt, "elem")
	if len(m.model) > 0 && rapid.Bool().Draw(rt, "one that is there") {
		elem = rapid.SampledFrom(slices.Sorted(maps.Keys(m.model))).Draw(rt, "elem")
	}
	m.v.Remove([]byte(elem))
	delete(m.model, elem)
}

// expire changes the deadline of an element that may exist.
func (m *machine) expire(rt *rapid.T) {
	elem, deadline := m.keys.Draw(rt, "elem"), deadlines.Draw(rt, "deadline")
	if len(m.model) > 0 && rapid.Bool().Draw(rt, "one that is there") {
		elem = rapid.SampledFrom(slices.Sorted(maps.Keys(m.model))).Draw(rt, "elem")
	}
	e, had := m.model[elem]
	if had {
		if err := m.v.Put([]byte(elem), []byte(e.val), deadline); err != nil {
			rt.Fatal(err)
		}
		m.model[elem] = modelElement{e.val, deadline}
	}
}

// due removes due elements, and checks that the earliest come first.
func (m *machine) due(rt *rapid.T) {
	now, limit := rapid.Int64Range(0, 35).Draw(rt, "now"), rapid.IntRange(0, 20).Draw(rt, "limit")
	var last int64
	n := m.v.Due(now, limit, func(elem, val []byte, deadline int64) {
		e, ok := m.model[string(elem)]
		if !ok || e.val != string(val) || e.deadline != deadline || e.deadline == 0 ||
			e.deadline > now || e.deadline < last {
			rt.Fatalf("%q=%q is shown as due at %d; the model has %v", elem, val, now, e)
		}
		last = e.deadline
		delete(m.model, string(elem))
	})
	if left := m.dueBy(now); n > limit || n < limit && left > 0 {
		rt.Fatalf("Due(%d, %d) = %d leaves %d", now, limit, n, left)
	}
}

func (m *machine) dueBy(now int64) (n int) {
	for _, e := range m.model {
		if e.deadline != 0 && e.deadline <= now {
			n++
		}
	}
	return n
}

// agree compares the value with the model.
func (m *machine) agree(rt *rapid.T) {
	got := contents(rt, m.v)
	if !maps.Equal(got, m.model) || m.v.Len() != len(m.model) {
		rt.Fatalf("value has %d elements %v, model %v", m.v.Len(), got, m.model)
	}
	var earliest int64
	for elem, e := range m.model {
		val, deadline, ok := m.v.Element([]byte(elem))
		if !ok || string(val) != e.val || deadline != e.deadline {
			rt.Fatalf("Element(%q) = %q, %d, %v; model %v", elem, val, deadline, ok, e)
		}
		if e.deadline != 0 && (earliest == 0 || e.deadline < earliest) {
			earliest = e.deadline
		}
	}
	if m.v.Earliest() != earliest {
		rt.Fatalf("Earliest() = %d, model %d", m.v.Earliest(), earliest)
	}
	for _, now := range []int64{0, 5, 17, 30} {
		if got, want := m.v.LenAt(now), len(m.model)-m.dueBy(now); got != want {
			rt.Fatalf("LenAt(%d) = %d, model %d", now, got, want)
		}
	}
	if m.v.Bytes() <= 0 {
		rt.Fatalf("Bytes() = %d", m.v.Bytes())
	}
	m.reput(rt)
	if m.check != nil {
		m.check(rt)
	}
}

// reput checks that putting a value's elements, in the order of Walk, gives the same value.
func (m *machine) reput(rt *rapid.T) {
	twin := New(m.v.Type())
	m.v.Walk(func(elem, val []byte, deadline int64) bool {
		if err := twin.Put(elem, val, deadline); err != nil {
			rt.Fatal(err)
		}
		return true
	})
	if !maps.Equal(contents(rt, twin), m.model) {
		rt.Fatal("Walk and Put give another value")
	}
	if isSmall(m.v) && !beginsWithInts(m.v) && !slices.Equal(order(m.v), order(twin)) {
		rt.Fatalf("Walk and Put give another order: %q, %q", order(m.v), order(twin))
	}
}

func isSmall(v Value) bool {
	e := v.(interface{ Encoding() string }).Encoding()
	return e != "hashtable" && e != "skiplist"
}

// beginsWithInts reports whether the first element of a set is an integer. Such a set, when made
// again, is first a set of integers, which sorts them.
func beginsWithInts(v Value) bool {
	s, ok := v.(*Set)
	if !ok || s.ints() || s.Len() == 0 {
		return false
	}
	first, _ := s.At(0)
	_, ok = parseInt(first)
	return ok
}

func order(v Value) (elems []string) {
	v.Walk(func(elem, _ []byte, _ int64) bool {
		elems = append(elems, string(elem))
		return true
	})
	return elems
}

func contents(rt *rapid.T, v Value) map[string]modelElement {
	all := map[string]modelElement{}
	v.Walk(func(elem, val []byte, deadline int64) bool {
		if _, twice := all[string(elem)]; twice {
			rt.Fatalf("Walk visits %q twice", elem)
		}
		all[string(elem)] = modelElement{string(val), deadline}
		return true
	})
	return all
}

func (m *machine) run(rt *rapid.T) {
	actions := map[string]func(*rapid.T){
		"put": m.put, "put more": m.put, "and more": m.put, "remove": m.remove, "expire": m.expire,
		"due": m.due, "": m.agree,
	}
	maps.Copy(actions, m.more)
	rt.Repeat(actions)
}

var (
	someKeys = rapid.OneOf(rapid.StringMatching(`[a-z]{0,2}`), rapid.StringMatching(`-?[0-9]{1,3}`),
		rapid.StringMatching(`[a-z]{30,40}`))
	someVals = rapid.OneOf(rapid.StringMatching(`[a-z]{0,3}`), long(100, 150), long(4000, 4200))
)

func long(from, to int) *rapid.Generator[string] {
	return rapid.Map(rapid.IntRange(from, to), func(n int) string { return strings.Repeat("x", n) })
}

// TestHashModel: in every form a hash behaves like a map from fields to values and deadlines.
func TestHashModel(t *testing.T) {
	smallLimits(t)
	rapid.Check(t, func(rt *rapid.T) {
		h := &Hash{}
		m := &machine{v: h, model: map[string]modelElement{}, keys: someKeys, vals: someVals}
		m.check = func(rt *rapid.T) {
			checkAt(rt, m, func(i int) []byte { field, _, _ := h.At(i); return field })
			checkScan(rt, m)
			checkDict(rt, h.big)
		}
		m.run(rt)
	})
}

// checkAt checks that the numbers below Len give each element once.
func checkAt(rt *rapid.T, m *machine, at func(i int) []byte) {
	seen := map[string]bool{}
	for i := range m.v.Len() {
		seen[string(at(i))] = true
	}
	if len(seen) != len(m.model) {
		rt.Fatalf("At gives %d different elements of %d", len(seen), len(m.model))
	}
}

type scanner interface {
	Scan(cursor uint64, count int, fn func(elem, val []byte, deadline int64)) uint64
}

// checkScan checks that a scan without changes visits each element once.
func checkScan(rt *rapid.T, m *machine) {
	seen, total, calls := map[string]bool{}, 0, 0
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = m.v.(scanner).Scan(cursor, 3, func(elem, val []byte, deadline int64) {
			if m.model[string(elem)] != (modelElement{string(val), deadline}) {
				rt.Fatalf("scan shows %q=%q at %d", elem, val, deadline)
			}
			seen[string(elem)] = true
			total++
		})
		if calls++; calls > 10+len(m.model) {
			rt.Fatal("scan does not end")
		}
	}
	if len(seen) != len(m.model) || total != len(seen) {
		rt.Fatalf("scan visits %d elements, %d different ones, of %d", total,
			len(seen), len(m.model))
	}
}

// checkDict checks that the parts of a large value agree.
func checkDict(rt rapid.TB, d *dict) {
	if d == nil {
		return
	}
	live, timed := map[ref]bool{}, 0
	holes := 0
	for pos := range uint32(d.dense.n) {
		if d.isHole(pos) {
			holes++
			before, after := d.neighbours(pos)
			if _, at := d.neighbours(before); at != pos {
				rt.Fatalf("hole %d is behind %d, which is before %d", pos, before, at)
			}
			if at, _ := d.neighbours(after); at != pos {
				rt.Fatalf("hole %d is before %d, which is behind %d", pos, after, at)
			}
			continue
		}
		e := d.entry(pos)
		live[*d.dense.at(pos)] = true
		if at, ok := d.find(e.key); !ok || at != pos {
			rt.Fatalf("index has %d, %v for pos %d", at, ok, pos)
		}
		if e.deadline != 0 {
			timed++
		}
	}
	if holes != d.holes.n || holes > 0 && (d.scores == nil || !d.isHole(d.holes.first)) ||
		holes > holesPerElement*d.len()+holesAtLeast {
		rt.Fatalf("%d holes, %d counted, with %d elements", holes, d.holes.n, d.len())
	}
	if d.index.Len() != d.len() || d.due.n != timed || d.scores != nil && d.scores.n != d.len() {
		rt.Fatalf("%d elements, %d in the index, %d of %d deadlines", d.len(), d.index.Len(),
			d.due.n, timed)
	}
	checkTree(rt, &d.due)
	if d.scores != nil {
		checkTree(rt, d.scores)
	}
	checkArena(rt, &d.arena, live)
}

func checkArena(rt rapid.TB, a *arena, live map[ref]bool) {
	held := 0
	for n, b := range a.blocks {
		held += cap(b.mem)
		bytes := 0
		for off := 0; off < len(b.mem); {
			e := entryAt(b.mem[off:])
			r := ref(n)<<refBits | ref(off)
			if gone := b.mem[off]&flagGone != 0; gone == live[r] {
				rt.Fatalf("entry %x: gone %v, in use %v", r, gone, live[r])
			}
			if live[r] {
				bytes += e.size
			}
			delete(live, r)
			off += e.size
		}
		if bytes != b.live {
			rt.Fatalf("block %d counts %d bytes, has %d", n, b.live, bytes)
		}
	}
	if held != a.allocated || len(live) > 0 {
		rt.Fatalf("arena counts %d bytes, has %d; %d entries are nowhere", a.allocated,
			held, len(live))
	}
}

// TestScanMissesNothing: a scan visits each element that exists during the whole scan, whatever
// other elements are added and removed, and wherever the value moves meanwhile.
func TestScanMissesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := New(TypeHash)
		stay := map[string]bool{}
		for i := range rapid.IntRange(0, 1000).Draw(rt, "stay") {
			stay[fmt.Sprint("stay", i)] = true
		}
		other := func(i int) []byte { return []byte(fmt.Sprint("other", i)) }
		others := rapid.IntRange(0, 1000).Draw(rt, "others")
		for i := range others {
			_ = v.Put(other(i), nil, 0)
		}
		for elem := range stay {
			_ = v.Put([]byte(elem), nil, 0)
		}
		count := rapid.IntRange(5, 300).Draw(rt, "count")
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			cursor = v.(scanner).Scan(cursor, count, func(elem, _ []byte, _ int64) {
				delete(stay, string(elem))
			})
			n := rapid.IntRange(0, 200).Draw(rt, "changes")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				for i := range n {
					_ = v.Put(other(others+i), nil, 0)
				}
				others += n
			case 1:
				for i := range n {
					v.Remove(other(others - 1 - i))
				}
				others = max(others-n, 0)
			case 2: // to disk and back, in another order
				old := v
				v = New(TypeHash)
				for _, elem := range slices.Sorted(slices.Values(order(old))) {
					_ = v.Put([]byte(elem), nil, 0)
				}
			}
		}
		if len(stay) > 0 {
			rt.Fatalf("%d elements were not visited", len(stay))
		}
	})
}

// TestHashOrder: the order of a small hash is that of Redis.
func TestHashOrder(t *testing.T) {
	h := &Hash{}
	for _, f := range []string{"c", "a", "d", "b"} {
		h.Set([]byte(f), []byte("1"), 0)
	}
	expect := func(want ...string) {
		t.Helper()
		if got := order(h); !slices.Equal(got, want) {
			t.Fatalf("order %q, want %q", got, want)
		}
	}
	h.Set([]byte("a"), []byte("longer"), 0)
	expect("c", "a", "d", "b")
	h.Delete([]byte("a"))
	expect("c", "d", "b")
	if h.Encoding() != "listpack" {
		t.Fatal(h.Encoding())
	}
	h.Set([]byte("b"), nil, 200)
	h.Set([]byte("d"), nil, 100)
	expect("d", "b", "c")
	h.Set([]byte("d"), nil, 0)
	expect("b", "c", "d")
	h.Delete([]byte("b"))
	if h.Encoding() != "listpackex" {
		t.Fatal(h.Encoding())
	}
	h.Set([]byte("e"), bytes.Repeat([]byte("x"), 65), 0)
	if h.Encoding() != "hashtable" || h.Len() != 3 {
		t.Fatal(h.Encoding(), h.Len())
	}
}

// TestHashLimits: a hash changes its form at the same limits as in Redis.
func TestHashLimits(t *testing.T) {
	h := &Hash{}
	for i := range 512 {
		h.Set([]byte(fmt.Sprint(i)), nil, 0)
	}
	h.Set([]byte("7"), bytes.Repeat([]byte("x"), 64), 0)
	if h.Encoding() != "listpack" {
		t.Fatal("512 fields: " + h.Encoding())
	}
	h.Set([]byte("more"), nil, 0)
	if h.Encoding() != "hashtable" {
		t.Fatal("513 fields: " + h.Encoding())
	}
	h = &Hash{}
	h.Reserve(512)
	if h.Encoding() != "listpack" {
		t.Fatal(h.Encoding())
	}
	h.Reserve(513)
	if h.Encoding() != "hashtable" {
		t.Fatal(h.Encoding())
	}
}

// TestLargeHash grows a hash over many blocks, pages and buckets and empties it again. The memory
// is freed.
func TestLargeHash(t *testing.T) {
	h := &Hash{}
	const n = 60000
	key := func(i int) []byte { return []byte(fmt.Sprint("field:", i)) }
	for i := range n {
		h.Set(key(i), bytes.Repeat([]byte{'v'}, i%50), int64(i%3)*int64(i))
	}
	full := h.Bytes()
	for i := range n {
		val, deadline, ok := h.Get(key(i))
		if !ok || len(val) != i%50 || deadline != int64(i%3)*int64(i) {
			t.Fatalf("field %d: %d bytes, %d, %v", i, len(val), deadline, ok)
		}
		if i%2 == 0 {
			h.Set(key(i), bytes.Repeat([]byte{'w'}, i%60), 0)
		}
	}
	checkDict(t, h.big)
	if h.Bytes() > full*3/2 {
		t.Errorf("%d bytes after replacing half of %d", h.Bytes(), full)
	}
	for i := n - 1; i >= 10; i-- {
		if !h.Delete(key(i * 7919 % n)) {
			t.Fatalf("field %d was not there", i*7919%n)
		}
		if i == n/5 && h.Bytes() > full/2 {
			t.Errorf("a fifth of %d bytes takes %d", full, h.Bytes())
		}
	}
	if h.Len() != 10 || h.Bytes() > full/10 {
		t.Errorf("%d elements in %d bytes, of %d", h.Len(), h.Bytes(), full)
	}
}

// TestNoAllocation: looking up an element allocates no memory.
func TestNoAllocation(t *testing.T) {
	for _, n := range []int{10, 1000} {
		h, ints, s, z := &Hash{}, &Set{}, &Set{}, &ZSet{}
		s.Add([]byte("word"), 0)
		for i := range n {
			key := []byte(fmt.Sprint(i))
			h.Set(key, []byte("value"), 0)
			ints.Add(key, 0)
			s.Add(key, 0)
			z.Set(key, float64(i), 0)
		}
		key := []byte("7")
		look := func() {
			h.Get(key)
			ints.Has(key)
			s.Has(key)
			z.Score(key)
			z.Rank(key)
			z.RankOfScore(5, true)
			h.LenAt(5)
			h.Earliest()
		}
		if allocs := testing.AllocsPerRun(100, look); allocs != 0 {
			t.Errorf("with %d elements: %v allocations", n, allocs)
		}
	}
}

// FuzzPut: any bytes are valid as fields, values and members.
func FuzzPut(f *testing.F) {
	f.Add([]byte("field"), []byte("value"), int64(5))
	f.Fuzz(func(t *testing.T, elem, val []byte, deadline int64) {
		deadline = max(deadline, 0)
		for _, n := range []int{0, 600} {
			h := &Hash{}
			h.Reserve(n)
			h.Set([]byte("before"), []byte("x"), 9)
			if err := h.Put(elem, val, deadline); err != nil {
				t.Fatal(err)
			}
			h.Set([]byte("after"), []byte("y"), 0)
			if string(elem) == "after" {
				continue
			}
			got, at, ok := h.Get(elem)
			if !ok || !bytes.Equal(got, val) || at != deadline {
				t.Fatalf("%q=%q at %d became %q at %d, %v", elem, val, deadline, got, at, ok)
			}
			s := &Set{}
			s.Reserve(n, elem)
			s.Add([]byte("5"), 0)
			_ = s.Put(elem, nil, deadline)
			if at, ok := s.Has(elem); !ok || at != deadline {
				t.Fatalf("%q at %d became %d, %v", elem, deadline, at, ok)
			}
		}
	})
}
