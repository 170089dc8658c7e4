package storage

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"keyp/storage/object"
)

// streamOf returns the stream that a content describes.
func streamOf(c *content) *object.Stream {
	s := &object.Stream{}
	for _, e := range c.elems {
		if err := s.Put([]byte(e.key), []byte(e.val), 0); err != nil {
			panic(err)
		}
	}
	return s
}

// stream makes a random change to a stream, and to a separate one from which the model's content is
// made.
func (e *editor) stream() {
	h, err := e.t.Stream(e.k)
	e.opened(err)
	m := streamOf(e.c)
	draw := func(label string, to int) int { return rapid.IntRange(0, to).Draw(e.rt, label) }
	switch op := draw("op", 13); {
	case op <= 3 || !h.Exists():
		e.addEntries(&h, m, rapid.SampledFrom([]int{1, 5, 200}).Draw(e.rt, "entries"))
	case op == 4:
		for range draw("times", 5) {
			id := object.StreamID{Ms: uint64(draw("ms", 400)), Seq: 1}
			e.must("Delete", h.Delete(id), m.Delete(id, nil))
		}
	case op == 5:
		n := rapid.SampledFrom([]int{1, 3, 150, 1 << 30}).Draw(e.rt, "n")
		h.TrimFirst(n)
		m.TrimFirst(n, nil, nil)
	case op == 6:
		id := m.LastID()
		if _, some := m.First(); !some && draw("lower", 1) == 0 {
			id = object.StreamID{}
			m = m.Renumbered()
		}
		h.SetID(id, 1000, object.StreamID{Ms: 7})
		m.SetID(id, 1000, object.StreamID{Ms: 7}, nil)
	case op == 7:
		ms := int64(draw("ms", 400))
		h.AddIdempotent([]byte("p"), fmt.Append(nil, ms), object.StreamID{Ms: uint64(ms)}, 5)
		m.AddIdempotent([]byte("p"), fmt.Append(nil, ms), object.StreamID{Ms: uint64(ms)}, 5, nil)
		e.must("ForgetIdempotent", h.ForgetIdempotent(ms/2, 3), m.ForgetIdempotent(ms/2, 3, nil))
	case op >= 12:
		ms := max(e.t.Now()-int64(draw("ms", 400))+int64(draw("later", 50)), 1)
		refs := object.StreamRefs(1 + draw("refs", 2))
		if draw("none", 3) == 0 {
			ms = 0
		}
		h.SetAge(ms, refs)
		m.SetAge(ms, refs, nil)
	default:
		e.groups(&h, m, op)
	}
	e.c.elems = contentOf(m).elems
}

// addEntries adds entries with small ids, as long as such ids are left.
func (e *editor) addEntries(h *Stream, m *object.Stream, n int) {
	m.Create(nil)
	h.Create()
	val := []byte(strings.Repeat("s", rapid.SampledFrom([]int{1, 50, 500}).Draw(e.rt, "size")))
	for range n {
		id := object.StreamID{Ms: m.LastID().Ms + 1, Seq: 1}
		fields := [][]byte{[]byte("field"), val}
		h.Add(id, fields)
		m.Add(id, fields)
	}
}

// groups makes a random change to a group of a stream.
func (e *editor) groups(h *Stream, m *object.Stream, op int) {
	name := []byte(rapid.SampledFrom([]string{"g1", "g2"}).Draw(e.rt, "group"))
	id := object.StreamID{Ms: uint64(rapid.IntRange(0, 400).Draw(e.rt, "ms")), Seq: 1}
	if m.Group(name) == nil {
		h.CreateGroup(name, id, 3)
		m.CreateGroup(name, id, 3, nil)
		e.must("CreateConsumer", h.CreateConsumer(name, []byte("c"), 5),
			m.CreateConsumer(name, []byte("c"), 5, nil))
		return
	}
	there := m.Group(name).Consumer([]byte("c")) != nil
	switch {
	case op == 8:
		h.SetGroup(name, id, 4)
		m.SetGroup(name, id, 4, nil)
		e.must("CreateConsumer", h.CreateConsumer(name, []byte("c"), 5),
			m.CreateConsumer(name, []byte("c"), 5, nil))
	case op == 9 && there:
		for i := range rapid.SampledFrom([]int{1, 300}).Draw(e.rt, "entries") {
			id := object.StreamID{Ms: id.Ms + uint64(i), Seq: 1}
			consumer := []byte("c")
			if i%7 == 0 {
				consumer = nil
			}
			h.Deliver(name, consumer, id, int64(i), 1)
			m.Deliver(name, consumer, id, int64(i), 1, nil)
		}
		h.Touch(name, []byte("c"), 9, 9)
		m.Touch(name, []byte("c"), 9, 9, nil)
	case op == 10:
		for i := range 50 {
			id := object.StreamID{Ms: id.Ms + uint64(i), Seq: 1}
			e.must("Ack", h.Ack(name, id), m.Ack(name, id, nil))
		}
	case rapid.Bool().Draw(e.rt, "destroy"):
		e.must("DestroyGroup", h.DestroyGroup(name), m.DestroyGroup(name, nil))
	default:
		got, _ := h.DeleteConsumer(name, []byte("c"))
		want, _ := m.DeleteConsumer(name, []byte("c"), nil)
		e.must("DeleteConsumer", got, want)
	}
}
