package object

import (
	"runtime"
	"strconv"
	"testing"
)

// shortEntries adds entries of two short fields, several in each millisecond.
func shortEntries(s *Stream, from, to int) {
	var room [16]byte
	fields := [][]byte{[]byte("user"), nil, []byte("event"), []byte("clicked")}
	for i := from; i < to; i++ {
		fields[1] = strconv.AppendInt(room[:0], int64(1_000_000+i%100_000), 10)
		s.Add(StreamID{1_700_000_000_000 + uint64(i/20), uint64(i % 20)}, fields)
	}
}

// TestStreamMemory: an entry of two short fields takes about 25 bytes. Bytes agrees with the heap,
// whether entries were added one by one or were trimmed and deleted, and with groups and pending
// entries.
func TestStreamMemory(t *testing.T) {
	const n = 300_000
	before := heap()
	s := NewStream()
	check := func(what string, most int) {
		t.Helper()
		used, says := int(heap()-before), s.Bytes()
		if used < says*95/100 || used > says*106/100 {
			t.Errorf("%s: Bytes gives %d, the heap has %d", what, says, used)
		}
		if used > most {
			t.Errorf("%s: %d bytes, at most %d", what, used, most)
		}
		t.Logf("%s: %d bytes", what, used)
	}
	shortEntries(s, 0, n)
	check("added", 28*n)
	s.CreateGroup([]byte("g"), MaxStreamID, n, nil)
	s.CreateConsumer([]byte("g"), []byte("c"), 1, nil)
	s.Range(StreamID{}, MaxStreamID, false, func(e StreamEntry) bool {
		s.Deliver([]byte("g"), []byte("c"), e.ID, int64(e.ID.Ms), 1, nil)
		return true
	})
	check("delivered", 120*n)
	first, _ := s.First()
	for id, i := first, 0; i < n/2; i++ {
		s.Ack([]byte("g"), id, nil)
		if i%3 == 0 {
			s.Delete(id, nil)
		}
		if id.Seq++; id.Seq == 20 {
			id = StreamID{id.Ms + 1, 0}
		}
	}
	check("half of it acknowledged", 80*n)
	s.TrimFirst(n*2/3, nil, nil)
	check("trimmed", 70*n)
	runtime.KeepAlive(s)
}

func BenchmarkStreamAdd(b *testing.B) {
	b.ReportAllocs()
	s := NewStream()
	shortEntries(s, 0, b.N)
	b.ReportMetric(float64(s.Bytes())/float64(b.N), "B/entry")
}

func BenchmarkStreamRange100(b *testing.B) {
	s := NewStream()
	const n = 1_000_000
	shortEntries(s, 0, n)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		left := 100
		from := StreamID{1_700_000_000_000 + uint64(i*7919%(n/20-10)), 0}
		s.Range(from, MaxStreamID, i%2 == 1, func(e StreamEntry) bool {
			e.EachField(func(field, val []byte) bool { return true })
			left--
			return left > 0
		})
	}
}

// BenchmarkStreamCapped runs XADD with MAXLEN 1000.
func BenchmarkStreamCapped(b *testing.B) {
	s := NewStream()
	for i := 0; b.Loop(); i++ {
		shortEntries(s, i, i+1)
		s.TrimFirst(s.Entries()-1000, nil, nil)
	}
}

// BenchmarkStreamDeliver delivers an entry and acknowledges it, with many others pending.
func BenchmarkStreamDeliver(b *testing.B) {
	s := NewStream()
	group, consumer := []byte("g"), []byte("c")
	s.CreateGroup(group, StreamID{}, 0, nil)
	s.CreateConsumer(group, consumer, 1, nil)
	const pending = 100_000
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		s.Deliver(group, consumer, StreamID{i + pending, 0}, int64(i), 1, nil)
		s.Ack(group, StreamID{i, 0}, nil)
	}
}
