package storage

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"keyp/storage/format"
	"keyp/storage/object"
)

// collections lists the types of collections.
var collections = []object.Type{object.TypeHash, object.TypeSet, object.TypeZSet, object.TypeList,
	object.TypeStream, object.TypeLimit}

// content is the content of a collection in the model. It is immutable: changing a collection makes
// a new content.
type content struct {
	typ   object.Type
	elems []elem // of a list in its order, else in the order of keys
}

// elem is an element. Elements of a list have no key.
type elem struct {
	key, val string
	deadline int64
}

func contentOf(v object.Value) *content {
	c := &content{typ: v.Type()}
	v.Walk(func(key, val []byte, deadline int64) bool {
		e := elem{string(key), string(val), deadline}
		if c.typ == object.TypeList {
			e.key = ""
		}
		c.elems = append(c.elems, e)
		return true
	})
	c.sort()
	return c
}

func (c *content) sort() {
	if c.typ != object.TypeList {
		slices.SortFunc(c.elems, func(a, b elem) int { return strings.Compare(a.key, b.key) })
	}
}

func (c *content) clone() *content { return &content{c.typ, slices.Clone(c.elems)} }

func (c *content) live(now int64) *content {
	if c.typ == object.TypeStream {
		s := streamOf(c)
		s.Due(now, math.MaxInt, func(_, _ []byte, _ int64) {})
		return contentOf(s)
	}
	return &content{c.typ, slices.DeleteFunc(slices.Clone(c.elems), func(e elem) bool {
		return e.deadline != 0 && e.deadline <= now
	})}
}

// eachDeadline calls fn with each element that has a deadline, by its visible id, and with the
// deadline. A nil content has none.
func (c *content) eachDeadline(fn func(id string, at int64)) {
	switch {
	case c == nil:
	case c.typ == object.TypeStream: // they follow from its age
		s := streamOf(c)
		s.Deadlines(0, func(at int64) bool {
			s.DueAt(at, 0, 0, func(id []byte, _ uint32) bool {
				fn(string(id), at)
				return true
			})
			return true
		})
	default:
		for _, e := range c.elems {
			switch {
			case e.deadline == 0:
			case c.typ == object.TypeLimit:
				fn(string(object.LimitHeldID([]byte(e.key))), e.deadline)
			default:
				fn(e.key, e.deadline)
			}
		}
	}
}

// earliest returns the first deadline of a key and its elements, or 0 if there is none.
func (v value) earliest() int64 {
	first := v.deadline
	v.coll.eachDeadline(func(_ string, at int64) { first = format.Earlier(first, at) })
	return first
}

func (c *content) equal(o *content) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.typ == o.typ && slices.Equal(c.elems, o.elems)
}

func (c *content) String() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v of %d:", c.typ, len(c.elems))
	for _, e := range c.elems[:min(len(c.elems), 12)] {
		fmt.Fprintf(&b, " %.8q=%.8q@%d", e.key, e.val, e.deadline)
	}
	return b.String()
}

func (c *content) find(key string) int {
	return slices.IndexFunc(c.elems, func(e elem) bool { return e.key == key })
}

// put sets an element and returns whether it is new. A new element is inserted in order.
func (c *content) put(e elem) (created bool) {
	at, ok := slices.BinarySearchFunc(c.elems, e.key, func(a elem, key string) int {
		return strings.Compare(a.key, key)
	})
	if ok {
		c.elems[at] = e
	} else {
		c.elems = slices.Insert(c.elems, at, e)
	}
	return !ok
}

// editor makes the same changes to a collection of the store and to its content in the model.
type editor struct {
	m  *machine
	rt *rapid.T
	t  *Txn
	k  Key
	c  *content
	// deadline and fixed belong to the key.
	deadline int64
	fixed    bool
}

func (e *editor) must(what string, got, want any) {
	if got != want {
		e.rt.Fatalf("%s of a %v gave %v, want %v", what, e.c.typ, got, want)
	}
}

func (e *editor) opened(err error) {
	if err != nil {
		e.rt.Fatalf("a %v does not open: %v", e.c.typ, err)
	}
}

// put sets an element of a hash, set or sorted set. In a sorted set, val gives the score.
func (e *editor) put(key, val string, deadline int64) {
	now := elem{key: key, deadline: deadline}
	at := e.c.find(key)
	switch e.c.typ {
	case object.TypeHash:
		h, err := e.t.Hash(e.k)
		e.opened(err)
		now.val = val
		e.must("Set", h.Set([]byte(key), []byte(val), e.m.given(deadline)), e.c.put(now))
	case object.TypeSet:
		s, err := e.t.Set(e.k)
		e.opened(err)
		e.must("Add", s.Add([]byte(key)), at < 0)
		s.SetDeadline([]byte(key), e.m.given(deadline))
		e.c.put(now)
	case object.TypeZSet:
		z, err := e.t.ZSet(e.k)
		e.opened(err)
		score := float64(len(val))
		e.must("Set", z.Set([]byte(key), score), at < 0)
		z.SetDeadline([]byte(key), e.m.given(deadline))
		now.val = string(object.AppendScore(nil, score))
		e.c.put(now)
	case object.TypeList:
		l, err := e.t.List(e.k)
		e.opened(err)
		l.PushBack([]byte(val))
		e.c.elems = append(e.c.elems, elem{val: val})
	}
}

func (e *editor) remove(key string) {
	at := e.c.find(key)
	var got bool
	switch e.c.typ {
	case object.TypeHash:
		h, err := e.t.Hash(e.k)
		e.opened(err)
		got = h.Delete([]byte(key))
	case object.TypeSet:
		s, err := e.t.Set(e.k)
		e.opened(err)
		got = s.Remove([]byte(key))
	case object.TypeZSet:
		z, err := e.t.ZSet(e.k)
		e.opened(err)
		got = z.Remove([]byte(key))
	}
	e.must("removal", got, at >= 0)
	if at >= 0 {
		e.c.elems = slices.Delete(e.c.elems, at, at+1)
	}
}

// removeRange removes members of a sorted set by rank.
func (e *editor) removeRange(from, to int) {
	z, err := e.t.ZSet(e.k)
	e.opened(err)
	z.Value().Range(from, to, false, func(member []byte, _ float64, _ int64) bool {
		at := e.c.find(string(member))
		e.c.elems = slices.Delete(e.c.elems, at, at+1)
		return true
	})
	z.RemoveRange(from, to)
}

func (e *editor) setDeadline(key string, deadline int64) {
	at := e.c.find(key)
	var got bool
	switch e.c.typ {
	case object.TypeHash:
		h, err := e.t.Hash(e.k)
		e.opened(err)
		got = h.SetDeadline([]byte(key), e.m.given(deadline))
	case object.TypeSet:
		s, err := e.t.Set(e.k)
		e.opened(err)
		got = s.SetDeadline([]byte(key), e.m.given(deadline))
	case object.TypeZSet:
		z, err := e.t.ZSet(e.k)
		e.opened(err)
		got = z.SetDeadline([]byte(key), e.m.given(deadline))
	}
	e.must("SetDeadline", got, at >= 0)
	if at >= 0 {
		e.c.elems[at].deadline = deadline
	}
}

// list makes a random change to a list.
func (e *editor) list() {
	l, err := e.t.List(e.k)
	e.opened(err)
	val := rapid.SampledFrom([]string{"a", "b", "", strings.Repeat("long", 100)}).Draw(e.rt, "val")
	elems, n := &e.c.elems, len(e.c.elems)
	draw := func(label string, to int) int { return rapid.IntRange(0, to).Draw(e.rt, label) }
	switch op := draw("op", 6); {
	case op == 0:
		l.PushFront([]byte(val))
		*elems = slices.Insert(*elems, 0, elem{val: val})
	case op == 1 || n == 0:
		l.PushBack([]byte(val))
		*elems = append(*elems, elem{val: val})
	case op <= 3:
		at := draw("index", n)
		for range draw("times", 30) { // in one place: numbers run out
			l.Insert(at, []byte(val))
			*elems = slices.Insert(*elems, at, elem{val: val})
		}
	case op == 4:
		at := draw("index", n-1)
		l.SetAt(at, []byte(val))
		(*elems)[at].val = val
	case op == 5:
		from := draw("from", n)
		to := min(n, from+draw("length", n/2+1))
		l.RemoveRange(from, to)
		*elems = slices.Delete(*elems, from, to)
	default:
		count := rapid.IntRange(-2, 2).Draw(e.rt, "count")
		kept, gone := removeEqual(*elems, val, count)
		e.must("RemoveEqual", l.RemoveEqual([]byte(val), count), gone)
		*elems = kept
	}
}

func removeEqual(elems []elem, val string, count int) (kept []elem, gone int) {
	kept = slices.Clone(elems)
	if count < 0 {
		slices.Reverse(kept)
	}
	limit := max(count, -count)
	kept = slices.DeleteFunc(kept, func(e elem) bool {
		if e.val != val || limit != 0 && gone == limit {
			return false
		}
		gone++
		return true
	})
	if count < 0 {
		slices.Reverse(kept)
	}
	return kept, gone
}

// edit opens a key as a collection, of a random type if it is new, and changes it. It does not
// change strings.
func (m *machine) edit(rt *rapid.T, fn func(*editor)) {
	n := m.name(rt, "key")
	v, ok := m.get(n)
	if ok && v.coll == nil {
		m.h.do(func(t *Txn) {
			if _, err := t.Hash(m.key(n)); err != ErrWrongType {
				rt.Fatalf("a string opens as a hash: %v", err)
			}
		}, m.key(n))
		return
	}
	if !ok {
		v = value{coll: &content{typ: rapid.SampledFrom(collections).Draw(rt, "type")}}
	}
	c := v.coll.clone()
	// The model gets a copy of its new state before the transaction ends.
	m.h.do(func(t *Txn) {
		e := &editor{m: m, rt: rt, t: t, k: m.key(n), c: c, deadline: v.deadline, fixed: v.fixed}
		fn(e)
		v.deadline, v.fixed = e.deadline, e.fixed
		if v.coll = c; len(c.elems) == 0 {
			delete(m.h.model, n)
		} else {
			m.h.model[n] = v
		}
	}, m.key(n))
}

func (m *machine) elemDeadline(rt *rapid.T) int64 {
	if rapid.IntRange(0, 2).Draw(rt, "timed") > 0 {
		return 0
	}
	return m.drawDeadline(rt)
}

// elements changes a few elements.
func (m *machine) elements(rt *rapid.T) {
	m.edit(rt, func(e *editor) {
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			key := fmt.Sprintf("e%d", rapid.IntRange(0, 300).Draw(rt, "elem"))
			switch e.c.typ {
			case object.TypeList:
				e.list()
				continue
			case object.TypeStream:
				e.stream()
				continue
			case object.TypeLimit:
				e.limits(1)
				continue
			}
			switch rapid.IntRange(0, 3).Draw(rt, "op") {
			case 0, 1:
				e.put(key, strings.Repeat("v", rapid.SampledFrom([]int{0, 1, 50, 70}).Draw(rt,
					"size")), m.elemDeadline(rt))
			case 2:
				e.remove(key)
			case 3:
				e.setDeadline(key, m.elemDeadline(rt))
			}
		}
	})
}

// fill adds many elements, so that the value is stored on disk by element.
func (m *machine) fill(rt *rapid.T) {
	m.edit(rt, func(e *editor) {
		switch e.c.typ {
		case object.TypeStream:
			e.stream()
			return
		case object.TypeLimit:
			e.limits(30)
			return
		}
		from := rapid.IntRange(0, 100).Draw(rt, "from")
		val := strings.Repeat(string(rune('a'+rapid.IntRange(0, 25).Draw(rt, "letter"))), 50)
		deadline := m.elemDeadline(rt)
		for i := range rapid.SampledFrom([]int{20, 200}).Draw(rt, "elements") {
			e.put(fmt.Sprintf("e%d", from+i), val, deadline)
		}
	})
}

// thin removes many elements.
func (m *machine) thin(rt *rapid.T) {
	m.edit(rt, func(e *editor) {
		switch e.c.typ {
		case object.TypeList:
			e.list()
			return
		case object.TypeStream:
			e.stream()
			return
		case object.TypeLimit:
			e.limits(3)
			return
		}
		from := rapid.IntRange(0, 100).Draw(rt, "from")
		if e.c.typ == object.TypeZSet {
			e.removeRange(from, from+200)
			return
		}
		for i := range 200 {
			e.remove(fmt.Sprintf("e%d", from+i))
		}
	})
}

// replace installs a value that was built separately.
func (m *machine) replace(rt *rapid.T) {
	n, deadline := m.name(rt, "key"), m.drawDeadline(rt)
	typ := rapid.SampledFrom(collections).Draw(rt, "type")
	v := object.New(typ)
	if s, ok := v.(*object.Stream); ok {
		s.Create(nil) // every stream has metadata, and the first change of one without would add it
	}
	for i := range rapid.SampledFrom([]int{0, 1, 10, 300}).Draw(rt, "elements") {
		key, val := fmt.Appendf(nil, "e%d", i), []byte(strings.Repeat("r", 30))
		switch typ {
		case object.TypeList:
			number := object.ListKey(int64(i))
			key = number[:]
		case object.TypeSet:
			val = nil
		case object.TypeZSet:
			val = object.AppendScore(nil, float64(i))
		case object.TypeStream:
			number := object.ListKey(int64(i) * object.NumberStep)
			key, val = number[:], object.AppendStreamEntry(nil, object.StreamID{Ms: uint64(i) + 1},
				[][]byte{key, val})
		case object.TypeLimit: // a window
			key, val = binary.BigEndian.AppendUint64([]byte{2, 0}, uint64(m.h.now()-int64(i))),
				[]byte{1}
		}
		if err := v.Put(key, val, 0); err != nil {
			rt.Fatal(err)
		}
	}
	if l, ok := v.(*object.Limit); ok && l.Len() > 0 {
		if err := l.Put([]byte{1, 0}, []byte{byte(object.LimitWindow), 100}, 0); err != nil {
			rt.Fatal(err)
		}
	}
	if c := contentOf(v); len(c.elems) == 0 {
		delete(m.h.model, n)
	} else {
		m.h.model[n] = value{deadline: deadline, coll: c}
	}
	m.h.do(func(t *Txn) {
		t.Replace(m.key(n), v, m.given(deadline), Event{EventGeneric, "restore"})
	}, m.key(n))
}
