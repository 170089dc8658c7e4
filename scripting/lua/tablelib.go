package lua

import "math"

// OpenTable returns the table of the table library.
func (L *State) OpenTable() *Table {
	t := L.NewTable(0, 16)
	L.Register(t, map[string]Builtin{
		"concat": tableConcat, "foreach": tableForeach, "foreachi": tableForeachi,
		"getn":   tableGetn,
		"insert": tableInsert, "maxn": tableMaxn, "remove": tableRemove, "setn": tableSetn,
		"sort": tableSort,
	})
	return t
}

func tableConcat(L *State) int {
	separator := L.OptString(2, "") // looked at first, as C's Lua does
	t := L.CheckTable(1)
	first := L.OptInt(3, 1)
	last := 0
	if L.Arg(4).IsNil() {
		last = t.Len()
	} else {
		last = L.CheckInt(4)
	}
	var out []byte
	for i := first; i <= last; i++ {
		L.Check()
		v := t.GetInt(i)
		if !v.isText() {
			L.Errorf("invalid value (%s) at index %d in table for 'concat'", v.Kind(), i)
		}
		more := len(separator)
		if v.isString() {
			more += len(v.str().s)
		} else {
			more += 32
		}
		if len(out)+more > cap(out) {
			size := max(2*cap(out), len(out)+more, 64)
			L.Reserve(size)
			out = L.Append(make([]byte, 0, size), text(out))
		}
		if v.isString() {
			out = L.Append(out, v.str().s)
		} else {
			out = AppendNumber(out, v.number())
		}
		if i != last {
			out = L.Append(out, separator)
		}
	}
	L.Push(L.Bytes(out))
	return 1
}

func tableForeach(L *State) int {
	t, fn := L.CheckTable(1), L.CheckFunction(2)
	for key := Nil; ; {
		next, value, ok := t.Next(key)
		if !ok {
			L.fault("invalid key to 'next'")
		}
		if next.IsNil() {
			return 0
		}
		if result := L.Call(fn, next, value); !result.IsNil() {
			L.Push(result)
			return 1
		}
		key = next
	}
}

func tableForeachi(L *State) int {
	t, fn := L.CheckTable(1), L.CheckFunction(2)
	n := t.Len()
	for i := 1; i <= n; i++ {
		if result := L.Call(fn, Number(float64(i)), t.GetInt(i)); !result.IsNil() {
			L.Push(result)
			return 1
		}
	}
	return 0
}

func tableGetn(L *State) int {
	L.PushNumber(float64(L.CheckTable(1).Len()))
	return 1
}

func tableSetn(L *State) int {
	L.CheckTable(1)
	L.Errorf("'setn' is obsolete")
	return 0
}

func tableMaxn(L *State) int {
	t := L.CheckTable(1)
	most := 0.0
	for i, v := range t.array {
		if v.ref != nil {
			most = float64(i + 1)
		}
	}
	for i := range t.nodes {
		if n := &t.nodes[i]; n.value.ref != nil && n.key.isNumber() {
			most = math.Max(most, n.key.number())
		}
	}
	L.PushNumber(most)
	return 1
}

// change returns t for a write by a builtin. It raises an error if t is readonly.
func (t *Table) change(L *State) *Table {
	if t.readonly {
		L.fault(errReadonly)
	}
	return t
}

func tableInsert(L *State) int {
	t := L.CheckTable(1)
	end := t.Len() + 1
	switch L.NArgs() {
	case 2:
		t.change(L).SetInt(L, end, L.Arg(2))
	case 3:
		at := L.CheckInt(2)
		t.change(L)
		for i := max(end, at); i > at; i-- {
			L.Check()
			t.SetInt(L, i, t.GetInt(i-1))
		}
		t.SetInt(L, at, L.Arg(3))
	default:
		L.Errorf("wrong number of arguments to 'insert'")
	}
	return 0
}

func tableRemove(L *State) int {
	t := L.CheckTable(1)
	end := t.Len()
	at := L.OptInt(2, end)
	if at < 1 || at > end {
		return 0
	}
	L.Push(t.GetInt(at))
	t.change(L)
	for ; at < end; at++ {
		L.Check()
		t.SetInt(L, at, t.GetInt(at+1))
	}
	t.SetInt(L, end, Nil)
	return 1
}

func tableSort(L *State) int {
	t := L.CheckTable(1)
	n := t.Len()
	s := sorter{L: L, t: t}
	if !L.Arg(2).IsNil() {
		s.fn = L.CheckFunction(2)
	}
	s.sort(1, n)
	return 0
}

// sorter is a quicksort in place, with the pivots of C's Lua: programs can see the order of
// comparisons and the order of equal elements.
type sorter struct {
	L  *State
	t  *Table
	fn Value
}

func (s *sorter) less(a, b Value) bool {
	s.L.Check()
	if s.fn.IsNil() {
		return s.L.Less(a, b)
	}
	return s.L.Call(s.fn, a, b).Truth()
}

func (s *sorter) get(i int) Value { return s.t.GetInt(i) }

// set writes two elements. The comparison may have made the table readonly.
func (s *sorter) set(i int, v Value, j int, w Value) {
	s.t.change(s.L)
	s.t.SetInt(s.L, i, v)
	s.t.SetInt(s.L, j, w)
}

// order swaps two elements if they are out of order, and reports whether it did.
func (s *sorter) order(i, j int) bool {
	a, b := s.get(i), s.get(j)
	if s.less(b, a) {
		s.set(i, b, j, a)
		return true
	}
	return false
}

// sort sorts the elements low to high. It calls itself for the smaller part only.
func (s *sorter) sort(low, high int) {
	for low < high {
		s.order(low, high)
		if high-low == 1 {
			return
		}
		middle := (low + high) / 2
		if !s.order(low, middle) {
			s.order(middle, high)
		}
		if high-low == 2 {
			return
		}
		pivot := s.get(middle)
		s.set(middle, s.get(high-1), high-1, pivot)
		i := s.partition(low, high, pivot)
		a, b := s.get(high-1), s.get(i)
		s.set(high-1, b, i, a)
		if i-low < high-i {
			s.sort(low, i-1)
			low = i + 1
		} else {
			s.sort(i+1, high)
			high = i - 1
		}
	}
}

// partition moves elements less than the pivot, which is at high-1, before the others, and returns
// where the others begin.
func (s *sorter) partition(low, high int, pivot Value) int {
	i, j := low, high-1
	for {
		var a, b Value
		for {
			i++
			if a = s.get(i); !s.less(a, pivot) {
				break
			}
			if i > high {
				s.L.Errorf("invalid order function for sorting")
			}
		}
		for {
			j--
			if b = s.get(j); !s.less(pivot, b) {
				break
			}
			if j < low {
				s.L.Errorf("invalid order function for sorting")
			}
		}
		if j < i {
			return i
		}
		s.set(i, b, j, a)
	}
}
