package object

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// listMachine runs random operations on a list and on a slice. log is a second list that gets only
// the changes that the first one reports, like the data file.
type listMachine struct {
	l     *List
	log   *List
	model []string
}

var listVals = rapid.OneOf(rapid.StringMatching(`[a-c]{0,2}`), rapid.StringMatching(`[a-z]{5,20}`),
	long(100, 300), rapid.SampledFrom([]string{strings.Repeat("y", 9000),
		strings.Repeat("z", 3000)}))

func (m *listMachine) put(rt *rapid.T, number int64) {
	key := ListKey(number)
	val, _, ok := m.l.Element(key[:])
	if !ok {
		rt.Fatalf("element %d is not there", number)
	}
	if err := m.log.Put(key[:], slices.Clone(val), 0); err != nil {
		rt.Fatal(err)
	}
}

func (m *listMachine) gone(number int64) {
	key := ListKey(number)
	m.log.Remove(key[:])
}

// goneRun logs the removal of a run, element by element.
func (m *listMachine) goneRun(first int64, n int) {
	for i := range n {
		m.gone(first + int64(i)*NumberStep)
	}
}

// moved logs a renumbering. It removes the old numbers first, since another element may get the
// same number.
func (m *listMachine) moved(rt *rapid.T, moves []Move) {
	for _, move := range moves {
		m.gone(move.From)
	}
	for _, move := range moves {
		m.put(rt, move.To)
	}
}

func (m *listMachine) insert(rt *rapid.T) {
	index := rapid.IntRange(0, len(m.model)).Draw(rt, "index")
	for range rapid.IntRange(1, 60).Draw(rt, "n") {
		val := listVals.Draw(rt, "val")
		number, moves := m.l.Insert(index, []byte(val))
		m.moved(rt, moves)
		m.put(rt, number)
		m.model = slices.Insert(m.model, index, val)
	}
}

func (m *listMachine) push(rt *rapid.T) {
	front := rapid.Bool().Draw(rt, "front")
	for range rapid.IntRange(1, 100).Draw(rt, "n") {
		val := listVals.Draw(rt, "val")
		if front {
			number, moves := m.l.PushFront([]byte(val))
			m.moved(rt, moves)
			m.put(rt, number)
			m.model = slices.Insert(m.model, 0, val)
		} else {
			number, moves := m.l.PushBack([]byte(val))
			m.moved(rt, moves)
			m.put(rt, number)
			m.model = append(m.model, val)
		}
	}
}

func (m *listMachine) pop(rt *rapid.T) {
	front := rapid.Bool().Draw(rt, "front")
	for range min(rapid.IntRange(1, 150).Draw(rt, "n"), len(m.model)) {
		at := len(m.model) - 1
		if front {
			at = 0
		}
		m.l.RemoveRange(at, at+1, m.goneRun)
		m.model = slices.Delete(m.model, at, at+1)
	}
}

func (m *listMachine) set(rt *rapid.T) {
	if len(m.model) > 0 {
		index, val := rapid.IntRange(0, len(m.model)-1).Draw(rt, "index"), listVals.Draw(rt, "val")
		m.put(rt, m.l.Set(index, []byte(val)))
		m.model[index] = val
	}
}

func (m *listMachine) removeRange(rt *rapid.T) {
	from := rapid.IntRange(-2, len(m.model)+2).Draw(rt, "from")
	to := from + rapid.OneOf(rapid.IntRange(-1, 5), rapid.IntRange(0, 500)).Draw(rt, "n")
	var numbers []int64
	if rapid.Bool().Draw(rt, "by numbers") && max(from, 0) < min(to, m.l.Len()) {
		first, _ := m.l.At(max(from, 0))
		last, _ := m.l.At(min(to, m.l.Len()) - 1)
		m.log.RemoveNumbers(first, last, func(first int64, n int) { // as replay of a cut
			for i := range n {
				numbers = append(numbers, first+int64(i)*NumberStep)
			}
		})
		m.l.RemoveRange(from, to, func(first int64, n int) {
			if n > len(numbers) || numbers[0] != first || numbers[n-1] != first+
				int64(n-1)*NumberStep {
				rt.Fatalf("removed are %d from %d, by their numbers %v", n, first, numbers)
			}
			numbers = numbers[n:]
		})
	} else {
		m.l.RemoveRange(from, to, m.goneRun)
	}
	if len(numbers) > 0 {
		rt.Fatalf("by their numbers also %v were removed", numbers)
	}
	from = max(from, 0)
	if to = min(to, len(m.model)); from < to {
		m.model = slices.Delete(m.model, from, to)
	}
}

func (m *listMachine) removeEqual(rt *rapid.T) {
	val, count := listVals.Draw(rt, "val"),
		rapid.SampledFrom([]int{0, 1, -1, 2, -2, 10, math.MaxInt, math.MinInt}).Draw(rt, "count")
	if len(m.model) > 0 && rapid.Bool().Draw(rt, "one that is there") {
		val = rapid.SampledFrom(m.model).Draw(rt, "val")
	}
	all := 0
	for _, v := range m.model {
		if v == val {
			all++
		}
	}
	want := all
	switch {
	case count > 0:
		want = min(all, count)
	case count < 0:
		want = min(all, -max(count, -math.MaxInt))
	}
	left := want
	if count < 0 {
		slices.Reverse(m.model)
	}
	m.model = slices.DeleteFunc(m.model, func(v string) bool {
		if v == val && left > 0 {
			left--
			return true
		}
		return false
	})
	if count < 0 {
		slices.Reverse(m.model)
	}
	if got := m.l.RemoveEqual([]byte(val), count, m.gone); got != want {
		rt.Fatalf("RemoveEqual(%q, %d) = %d of %d", val, count, got, all)
	}
}

func (m *listMachine) positions(rt *rapid.T) {
	val := listVals.Draw(rt, "val")
	rank := rapid.SampledFrom([]int{1, 2, 5, -1, -2}).Draw(rt, "rank")
	count, maxlen := rapid.IntRange(0, 3).Draw(rt, "count"),
		rapid.IntRange(0, 50).Draw(rt, "maxlen")
	var want []int
	skip := max(rank, -rank) - 1
	for n := range m.model {
		i := n
		if rank < 0 {
			i = len(m.model) - 1 - n
		}
		if maxlen > 0 && n >= maxlen || count > 0 && len(want) == count {
			break
		}
		if m.model[i] == val {
			if skip--; skip < 0 {
				want = append(want, i)
			}
		}
	}
	if got := m.l.Positions([]byte(val), rank, count, maxlen); !slices.Equal(got, want) {
		rt.Fatalf("Positions(%q, %d, %d, %d) = %v, want %v", val, rank, count, maxlen, got, want)
	}
}

func listContents(l *List) (vals []string) {
	l.Walk(func(_, val []byte, _ int64) bool {
		vals = append(vals, string(val))
		return true
	})
	return vals
}

func (m *listMachine) agree(rt *rapid.T) {
	if m.l.Len() != len(m.model) || !slices.Equal(listContents(m.l), m.model) {
		rt.Fatalf("list of %d: %.200q, model of %d: %.200q", m.l.Len(), listContents(m.l),
			len(m.model), m.model)
	}
	if !slices.Equal(listContents(m.log), m.model) {
		rt.Fatal("what was reported makes another list")
	}
	var twin List
	m.l.Walk(func(elem, val []byte, _ int64) bool {
		_ = twin.Put(elem, val, 0)
		return true
	})
	if !slices.Equal(listContents(&twin), m.model) {
		rt.Fatal("Walk and Put give another list")
	}
	checkList(rt, m.l)
	checkList(rt, m.log)
	checkList(rt, &twin)
	if len(m.model) == 0 {
		return
	}
	index := rapid.IntRange(0, len(m.model)-1).Draw(rt, "index")
	number, val := m.l.At(index)
	if string(val) != m.model[index] {
		rt.Fatalf("At(%d) = %.100q, model %.100q", index, val, m.model[index])
	}
	key := ListKey(number)
	if got, _, ok := m.l.Element(key[:]); !ok || string(got) != m.model[index] {
		rt.Fatalf("Element(%d) = %.100q, %v", number, got, ok)
	}
	m.l.Each(index, true, func(i int, _ int64, val []byte) bool {
		if i != index || string(val) != m.model[i] {
			rt.Fatalf("backwards element %d is %.100q, model %d %.100q", i, val,
				index, m.model[index])
		}
		index--
		return true
	})
	if index != -1 {
		rt.Fatalf("backwards the walk ends at %d", index)
	}
}

// checkList checks the invariants of chunks that their comments state.
func checkList(rt rapid.TB, l *List) {
	held, size, n := 0, 0, 0
	last := int64(math.MinInt64)
	for ci := range l.chunks() {
		c := l.chunk(ci)
		held += cap(c.mem)
		size += c.plain()
		if l.many != nil && c.n == 0 {
			rt.Fatal("an empty chunk")
		}
		if c.n > 0 && int(c.pos-l.chunk(0).pos) != n {
			rt.Fatalf("chunk %d begins at %d, not %d", ci, c.pos-l.chunk(0).pos, n)
		}
		n += int(c.n)
		off := int(c.lo)
		for i := range int(c.n) {
			number := c.number(i, off)
			if i == 0 && number != c.first || n+i > 1 && (ci > 0 || i > 0) && number <= last {
				rt.Fatalf("number %d follows %d, the first is %d", number, last, c.first)
			}
			last = number
			_, _, next := c.read(off)
			if c.before(next) != off {
				rt.Fatalf("the element at %d is found at %d from its end", off, c.before(next))
			}
			off = next
		}
		if off != len(c.mem) {
			rt.Fatalf("the elements end at %d of %d", off, len(c.mem))
		}
		if l.many != nil && c.n > 1 && (c.n > chunkElems || c.size() > chunkBytes+8*int(c.n)) {
			rt.Fatalf("a chunk of %d elements in %d bytes", c.n, c.size())
		}
	}
	if l.many != nil && (held != l.many.allocated || size != l.many.size) {
		rt.Fatalf("%d and %d bytes, counted as %d and %d", held, size, l.many.allocated,
			l.many.size)
	}
}

// TestListModel: a list behaves like a slice in every form, and reports each change of its numbers.
func TestListModel(t *testing.T) {
	for _, size := range []int{8, 300, -2} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			l := DefaultThresholds
			l.ListSize = size
			SetThresholds(l)
			defer SetThresholds(DefaultThresholds)
			rapid.Check(t, func(rt *rapid.T) {
				m := &listMachine{l: &List{}, log: &List{}}
				if start := rapid.SampledFrom([]int64{0, math.MaxInt64 - 100,
					math.MinInt64 + 100}).Draw(rt, "start"); start != 0 {
					key := ListKey(start)
					_ = m.l.Put(key[:], []byte("first"), 0)
					m.put(rt, start)
					m.model = []string{"first"}
				}
				rt.Repeat(map[string]func(*rapid.T){
					"insert": m.insert, "push": m.push, "push more": m.push,
					"pop": m.pop, "set": m.set,
					"remove range": m.removeRange, "remove equal": m.removeEqual,
					"positions": m.positions, "": m.agree,
				})
			})
		})
	}
}

// TestListInsertAtOnePlace: if no number is left between two elements, a few neighbours get new
// numbers.
func TestListInsertAtOnePlace(t *testing.T) {
	var l List
	for i := range 2000 {
		l.PushBack([]byte(fmt.Sprint(i)))
	}
	total, most := 0, 0
	const inserts = 3000
	for range inserts {
		_, moved := l.Insert(1000, []byte("x"))
		total += len(moved)
		most = max(most, len(moved))
	}
	checkList(t, &l)
	if l.Len() != 2000+inserts || total > 20*inserts || most > 1000 {
		t.Errorf("%d elements; %d moves, at most %d at once", l.Len(), total, most)
	}
}

// TestListQueue: a list that is used as a queue keeps no memory of removed elements, and its
// numbers need no memory.
func TestListQueue(t *testing.T) {
	var l List
	for i := range 200000 {
		l.PushBack([]byte("a job for somebody"))
		if i >= 1000 {
			l.RemoveRange(0, 1, func(int64, int) {})
		}
	}
	checkList(t, &l)
	for ci := range l.chunks() {
		if l.chunk(ci).loose {
			t.Fatal("a chunk has its numbers written out")
		}
	}
	if l.Len() != 1000 || l.Bytes() > 40000 {
		t.Errorf("%d elements in %d bytes", l.Len(), l.Bytes())
	}
}

// TestListForms: a list is small up to 8 KiB. A large list becomes small again at half of that.
func TestListForms(t *testing.T) {
	var l List
	for i := range 400 {
		l.PushBack([]byte(fmt.Sprintf("%014d", i)))
	}
	if l.Encoding() != "listpack" {
		t.Fatal("400 elements of 16 bytes: " + l.Encoding())
	}
	for i := range 200 {
		l.PushFront([]byte(fmt.Sprintf("%014d", i)))
	}
	if l.Encoding() != "quicklist" {
		t.Fatal("600 elements: " + l.Encoding())
	}
	l.RemoveRange(100, 400, func(int64, int) {})
	if l.Encoding() != "quicklist" {
		t.Fatal("300 are left: " + l.Encoding())
	}
	l.RemoveRange(0, 60, func(int64, int) {})
	if l.Encoding() != "listpack" || l.Len() != 240 {
		t.Fatal("240 are left: "+l.Encoding(), l.Len())
	}
	var big List
	big.PushBack(make([]byte, 9000))
	if big.Encoding() != "quicklist" {
		t.Fatal("9000 bytes: " + big.Encoding())
	}
	if err := big.Put([]byte("1234567"), nil, 0); err == nil {
		t.Error("a key of 7 bytes is taken")
	}
}

// TestListChunks: whether elements or their number grow, a chunk of a large list stays small unless
// it is a single element. The cost of a change depends on that.
func TestListChunks(t *testing.T) {
	large := []byte(strings.Repeat("y", 2*chunkBytes))
	for _, at := range [][]int{{0, 1}, {6, 7}, {126, 127}, {60, 61, 63}, {199, 198},
		{130, 129, 128, 127, 126}} {
		var l List
		for i := range 200 {
			l.PushBack(fmt.Appendf(nil, "element %d of the list, which has some bytes", i))
		}
		if l.Encoding() != "quicklist" {
			t.Fatal("200 elements: " + l.Encoding())
		}
		for _, i := range at {
			l.Set(i, large)
			checkList(t, &l)
		}
	}
	for _, change := range []func(*List){
		func(l *List) { l.Set(700, large) },
		func(l *List) { l.PushFront(large) },
		func(l *List) { l.Insert(700, large) },
	} {
		var l List
		for range 1500 {
			l.PushBack([]byte("xyz"))
		}
		if l.Encoding() != "listpack" {
			t.Fatal("1500 elements of 5 bytes: " + l.Encoding())
		}
		change(&l)
		checkList(t, &l)
	}
}
