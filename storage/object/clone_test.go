package object

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// elements returns a value's elements as text, in the value's order.
func elements(v Value) []string {
	var list []string
	v.Walk(func(elem, val []byte, deadline int64) bool {
		list = append(list, fmt.Sprintf("%x=%x@%d", elem, val, deadline))
		return true
	})
	return list
}

// TestClone: a clone has the form and the elements of its origin, even if the present limits would
// give another form. Later changes of one do not affect the other.
func TestClone(t *testing.T) {
	defer SetThresholds(DefaultThresholds)
	values := map[string]func(n int) Value{
		"hash": func(n int) Value {
			h := &Hash{}
			for i := range n {
				h.Set(fmt.Append(nil, "f", i), fmt.Append(nil, i), int64(i%3)*1000)
			}
			return h
		},
		"integers": func(n int) Value {
			s := &Set{}
			for i := range n {
				s.Add(fmt.Append(nil, i*7), 0)
			}
			return s
		},
		"set": func(n int) Value {
			s := &Set{}
			for i := range n {
				s.Add(fmt.Append(nil, "m", i), int64(i%2))
			}
			return s
		},
		"zset": func(n int) Value {
			z := &ZSet{}
			for i := range n {
				z.Set(fmt.Append(nil, "m", i), float64(i*37%n), int64(i%4))
			}
			return z
		},
		"list": func(n int) Value {
			l := &List{}
			for i := range n {
				l.PushBack(fmt.Append(nil, "back", i))
				l.PushFront(fmt.Append(nil, "front", i))
				l.Insert(1, fmt.Append(nil, "inserted", i))
			}
			return l
		},
		"string": func(n int) Value { return &String{Data: []byte(strings.Repeat("s", n*1000))} },
	}
	type encoded interface{ Encoding() string }
	for name, build := range values {
		for _, n := range []int{1, 50, 5000} {
			SetThresholds(DefaultThresholds)
			v := build(n)
			before := elements(v)
			SetThresholds(Thresholds{ListSize: 1})
			c := v.Clone()
			if got := elements(c); !slices.Equal(got, before) || c.Len() != v.Len() ||
				c.Earliest() != v.Earliest() {
				t.Fatalf("%s of %d: the clone has other elements", name, n)
			}
			if e, ok := v.(encoded); ok && e.Encoding() != c.(encoded).Encoding() {
				t.Errorf("%s of %d: the clone of a %s is a %s", name, n, e.Encoding(),
					c.(encoded).Encoding())
			}
			if l, ok := c.(*List); ok {
				checkList(t, l)
			}
			SetThresholds(DefaultThresholds)
			var keys [][]byte
			c.Walk(func(elem, _ []byte, _ int64) bool {
				keys = append(keys, slices.Clone(elem))
				return len(keys) < 20
			})
			for _, k := range slices.Backward(keys) {
				c.Remove(k)
			}
			if got := elements(v); !slices.Equal(got, before) {
				t.Errorf("%s of %d: the value changed with its clone", name, n)
			}
			c = v.Clone()
			for _, k := range slices.Backward(keys) {
				v.Remove(k)
			}
			if got := elements(c); !slices.Equal(got, before) {
				t.Errorf("%s of %d: the clone changed with its value", name, n)
			}
		}
	}
}

// TestCloneMemory: a clone takes hardly more memory than its origin, however long the elements are,
// although its blocks may be filled differently.
func TestCloneMemory(t *testing.T) {
	for _, size := range []int{0, 100, 1000, blockSize/4 - 100, blockSize / 4, blockSize/4 + 100,
		3 * blockSize} {
		for _, n := range []int{1, 3, 20, 500} {
			h := &Hash{}
			h.Reserve(n + 1000) // so that it has the large form
			for i := range n {
				h.Set(fmt.Append(nil, "f", i), make([]byte, size), 0)
			}
			if was, is := h.Bytes(), h.Clone().Bytes(); h.big == nil || is > was+was/20 {
				t.Errorf("%d fields of %d bytes take %d bytes, a clone %d", n, size, was, is)
			}
		}
	}
}
