package object

import (
	"fmt"
	"reflect"
	"testing"
)

// longest returns the length of the longest slice that a value refers to, and the path to it. It
// ignores slices of bytes and of hashes.
func longest(v reflect.Value, path string) (n int, at string) {
	longer := func(v reflect.Value, path string) {
		if m, in := longest(v, path); m > n {
			n, at = m, in
		}
	}
	switch {
	case v.Type() == reflect.TypeFor[Hash](), v.Type() == reflect.TypeFor[[]byte]():
	case v.Kind() == reflect.Pointer && !v.IsNil():
		longer(v.Elem(), path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			longer(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice:
		n, at = v.Len(), path
		for i := range v.Len() {
			longer(v.Index(i), path+"[]")
		}
	}
	return n, at
}

// TestStreamHasNoLongSlices: however many items of a kind a stream has, changing one of them does
// not move all others.
func TestStreamHasNoLongSlices(t *testing.T) {
	const many = 20_000
	group := []byte("group")
	for what, add := range map[string]func(*Stream, int){
		"consumers": func(s *Stream, i int) {
			s.CreateConsumer(group, fmt.Append(nil, i*7%many), 1, nil)
		},
		"groups": func(s *Stream, i int) {
			s.CreateGroup(fmt.Append(nil, i*7%many), StreamID{}, 0, nil)
		},
		"producers": func(s *Stream, i int) {
			s.AddIdempotent(fmt.Append(nil, i*7%many), []byte("id"), StreamID{1, uint64(i)}, 1, nil)
		},
		"pending entries": func(s *Stream, i int) {
			s.CreateConsumer(group, group, 1, nil)
			s.Deliver(group, group, StreamID{1, uint64(i*7%many) + 1}, int64(i), 1, nil)
		},
		"entries": func(s *Stream, i int) {
			s.Add(StreamID{1, uint64(i) + 1}, [][]byte{group, group})
		},
	} {
		s := NewStream()
		s.CreateGroup(group, StreamID{}, 0, nil)
		for i := range many {
			add(s, i)
		}
		for _, v := range []*Stream{s, s.Clone().(*Stream)} {
			if n, at := longest(reflect.ValueOf(v), "stream"); n > many/50 {
				t.Errorf("%d %s: %s has %d elements", many, what, at, n)
			}
			if got, want := v.Bytes(), v.measured(); got != want {
				t.Errorf("%d %s take %d bytes, counted again %d", many, what, got, want)
			}
		}
	}
}

// TestStreamNumbersAreReused: when the highest number of a group or a consumer is in use, a new one
// gets an unused lower number. All elements can still be read.
func TestStreamNumbersAreReused(t *testing.T) {
	s := NewStream()
	var key elemKey
	put := func(elem, val []byte) {
		if err := s.Put(elem, val, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, number := range []uint32{1, 2, 4, maxStreamNumber} {
		name := fmt.Append(nil, "group", number)
		put(key.group(number), (&StreamGroup{name: name}).append(nil))
		put(key.consumer(2, number), (&StreamConsumer{name: name}).append(nil))
	}
	for i := range 300 {
		s.CreateGroup(fmt.Append(nil, "new", i), StreamID{}, 0, nil)
		s.CreateConsumer([]byte("group2"), fmt.Append(nil, "new", i), 1, nil)
	}
	again := &Stream{}
	s.Walk(func(elem, val []byte, _ int64) bool {
		if err := again.Put(elem, val, 0); err != nil {
			t.Fatalf("element %x: %v", elem, err)
		}
		return true
	})
	if n, consumers := again.Groups(), again.Group([]byte("group2")).Consumers(); n != 304 ||
		consumers != 304 {
		t.Errorf("there are %d groups, and %d consumers", n, consumers)
	}
	s.DestroyGroup([]byte("new7"), nil)
	was := s.groups.all.free()
	s.CreateGroup([]byte("newer"), StreamID{}, 0, nil)
	if got := s.Group([]byte("newer")).number; got != was || got > 304 {
		t.Errorf("the number of a group that is gone is %d, the next one's %d", was, got)
	}
}

// TestEachIdle: pending entries that were removed from the stream are skipped, and leave the order
// by time. They stay pending. Those that were given back keep their places in line. If an entry is
// added again, its pending entry is visited again.
func TestEachIdle(t *testing.T) {
	const many = 500
	g, c := []byte("group"), []byte("consumer")
	s := NewStream()
	s.CreateGroup(g, StreamID{}, 0, nil)
	s.CreateConsumer(g, c, 1, nil)
	for i := range many {
		id := StreamID{1, uint64(i) + 1}
		s.Add(id, [][]byte{g, g})
		if s.Deliver(g, c, id, 10, 1, nil); i%2 == 0 {
			s.Deliver(g, nil, id, 0, 1, nil)
		}
	}
	s.TrimFirst(many-2, nil, nil)
	visited := func() (ids []StreamID) {
		s.EachIdle(s.Group(g), func(p PendingEntry) bool {
			ids = append(ids, p.ID)
			return true
		})
		return ids
	}
	inOrder := func() (n int) {
		s.Group(g).EachByTime(func(PendingEntry) bool { n++; return true })
		return n
	}
	want := fmt.Sprint([]StreamID{{1, many - 1}, {1, many}})
	for range 2 {
		if got := fmt.Sprint(visited()); got != want || inOrder() != 2 {
			t.Errorf("visited %s, want %s; %d are left in the order", got, want, inOrder())
		}
	}
	if got, want := s.Bytes(), s.measured(); got != want {
		t.Errorf("%d bytes, counted again %d", got, want)
	}
	var line []uint64
	s.Group(g).EachNacked(func(id StreamID) { line = append(line, id.Seq) })
	for i, seq := range line {
		if seq != uint64(2*i+1) {
			t.Fatalf("in line are %v", line)
		}
	}
	if s.Group(g).Pending() != many || len(line) != many/2 {
		t.Errorf("%d pending, %d in line", s.Group(g).Pending(), len(line))
	}
	s.Deliver(g, nil, StreamID{1, 2}, 0, 1, nil) // behind one that is not in the order any more
	s.Delete(StreamID{1, many}, nil)
	s.Delete(StreamID{1, many - 1}, nil)
	s = s.Renumbered()
	s.SetID(StreamID{1, 1}, 1, StreamID{}, nil)
	s.Add(StreamID{1, 3}, [][]byte{g, g})
	if got := fmt.Sprint(visited()); got != fmt.Sprint([]StreamID{{1, 3}}) {
		t.Errorf("visited %s once the entry is back", got)
	}
}
