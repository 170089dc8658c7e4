package storage

import (
	"fmt"
	"testing"

	"keyp/storage/format"
	"keyp/storage/object"
)

func (h *harness) stream(k Key, fn func(*Txn, *Stream)) {
	h.t.Helper()
	h.do(func(t *Txn) {
		v, err := t.Stream(k)
		if err != nil {
			h.t.Fatalf("Stream: %v", err)
		}
		fn(t, &v)
	}, k)
}

func streamID(ms int) object.StreamID { return object.StreamID{Ms: uint64(ms), Seq: 1} }

func addEntries(v *Stream, from, to int) {
	for i := from; i < to; i++ {
		v.Add(streamID(i), [][]byte{[]byte("field"), fmt.Append(nil, "value ", i), []byte("other"),
			fmt.Append(nil, i)})
	}
}

// stream changes a stream, or creates it if the key does not exist.
func (b *soundBuilder) stream(x *Txn, k Key, entries int) {
	v, err := x.Stream(k)
	if err != nil {
		return
	}
	group, consumer := []byte("group"), []byte("consumer")
	from := int(v.Value().LastID().Ms) + 1
	addEntries(&v, from, from+entries)
	if v.Value().Group(group) == nil {
		v.CreateGroup(group, streamID(0), 0)
		v.CreateConsumer(group, consumer, 1)
	}
	for i := range entries {
		v.Deliver(group, consumer, streamID(from+i), int64(i), 1)
	}
	v.Ack(group, streamID(from))
	v.Delete(streamID(from + b.rng.IntN(entries)))
	v.TrimFirst(entries / 4)
	v.AddIdempotent([]byte("producer"), fmt.Append(nil, from), streamID(from), 5)
}

// records returns the tags of the records in a batch, except for those of counts.
func records(batch []byte) (tags []byte) {
	f := format.Fields{Rest: batch}
	for len(f.Rest) > 0 {
		if r := format.ReadRecord(&f); r.Tag != format.RecPopulation {
			tags = append(tags, r.Tag)
		}
	}
	return tags
}

// logged runs a command on a stream and returns its batch.
func (h *harness) logged(k Key, fn func(*Stream)) (batch []byte) {
	h.s.Begin(h.txn, []Key{k})
	v, err := h.txn.Stream(k)
	if err != nil {
		h.t.Fatal(err)
	}
	fn(&v)
	h.txn.FlushValues()
	batch = append(batch, h.txn.buf...)
	h.txn.End()
	h.commit()
	return batch
}

// TestStreamLogs: a command on a large stream logs only its changes.
func TestStreamLogs(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	h.stream(k, func(_ *Txn, v *Stream) {
		addEntries(v, 1, 10_000)
		v.CreateGroup([]byte("g"), streamID(0), 0)
		v.CreateConsumer([]byte("g"), []byte("c"), 1)
	})
	for _, c := range []struct {
		what string
		run  func(*Stream)
		want []byte
		size int
	}{
		{"XADD", func(v *Stream) { addEntries(v, 10_000, 10_001) }, []byte{format.RecElement}, 70},
		{"XTRIM", func(v *Stream) { v.TrimFirst(5000) }, []byte{format.RecTrim}, 40},
		{"XTRIM of one", func(v *Stream) { v.TrimFirst(1) }, []byte{format.RecRemove}, 40},
		{"XDEL", func(v *Stream) {
			v.Delete(streamID(6000))
		}, []byte{format.RecRemove, format.RecMore}, 60},
		{"XDEL below", func(v *Stream) { v.Delete(streamID(5999)) }, []byte{format.RecRemove}, 40},
		{"delivery", func(v *Stream) {
			v.SetGroup([]byte("g"), streamID(7000), 5)
			v.Deliver([]byte("g"), []byte("c"), streamID(7000), 5, 1)
		}, []byte{format.RecElement, format.RecMore}, 80},
		{"XACK", func(v *Stream) { v.Ack([]byte("g"), streamID(7000)) }, []byte{format.RecRemove},
			50},
		{"XTRIM of all", func(v *Stream) {
			v.TrimFirst(1 << 40)
		}, []byte{format.RecElement, format.RecTrim}, 80},
		{"XADD of the next", func(v *Stream) {
			addEntries(v, 20_000, 20_001)
		}, []byte{format.RecElement}, 70},
	} {
		batch := h.logged(k, c.run)
		if got := records(batch); string(got) != string(c.want) || len(batch) > c.size {
			t.Errorf("%s logs records %v in %d bytes, want %v in %d", c.what, got,
				len(batch), c.want, c.size)
		}
	}
	h.reopen()
	h.stream(k, func(_ *Txn, v *Stream) {
		s := v.Value()
		if s.Entries() != 1 || s.Added() != 10_001 || s.LastID() != streamID(20_000) ||
			s.MaxDeleted() != streamID(6000) {
			t.Fatalf("%d entries, %d added, last %v, deleted %v", s.Entries(), s.Added(),
				s.LastID(), s.MaxDeleted())
		}
	})
	h.check()
}

// TestStreamCheckpointsChanges: a checkpoint of a large stream writes only the changed elements.
func TestStreamCheckpointsChanges(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	h.stream(k, func(_ *Txn, v *Stream) {
		addEntries(v, 1, 3000)
		v.CreateGroup([]byte("g"), streamID(0), 0)
		v.CreateConsumer([]byte("g"), []byte("c"), 1)
	})
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	var o *Object
	h.stream(k, func(_ *Txn, v *Stream) {
		addEntries(v, 3000, 3100)
		v.TrimFirst(500)
		v.Deliver([]byte("g"), []byte("c"), streamID(2000), 5, 1)
		o = v.object()
	})
	if n := o.side.changed.Count(); n != 601 || o.side.rest {
		t.Fatalf("%d entries and other elements are to be written, rest %t", n, o.side.rest)
	}
	h.check()
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	h.check()
	h.reopen()
	h.stream(k, func(_ *Txn, v *Stream) {
		if n := v.Value().Entries(); n != 2599 {
			t.Fatalf("%d entries", n)
		}
	})
	h.check()
}

// TestStreamWithoutEntries: a stream without entries stays until its key is deleted.
func TestStreamWithoutEntries(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.s.Key(0, []byte("k"))
	h.stream(k, func(_ *Txn, v *Stream) { v.Create() })
	h.stream(k, func(_ *Txn, v *Stream) {
		if !v.Exists() {
			t.Fatal("the empty stream is gone")
		}
		addEntries(v, 1, 3)
		v.TrimFirst(2)
	})
	h.commit()
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	h.reopen()
	h.stream(k, func(_ *Txn, v *Stream) {
		if !v.Exists() || v.Value().LastID() != streamID(2) || v.Value().Added() != 2 {
			t.Fatalf("the trimmed stream has last id %v, %d added", v.Value().LastID(),
				v.Value().Added())
		}
		v.SetID(streamID(1), 1, streamID(0))
		addEntries(v, 2, 3)
	})
	h.commit()
	h.reopen()
	h.stream(k, func(_ *Txn, v *Stream) {
		if v.Value().Added() != 2 || v.Value().Entries() != 1 {
			t.Fatalf("%d added, %d entries", v.Value().Added(), v.Value().Entries())
		}
	})
	h.check()
}

func BenchmarkStreamAdd(b *testing.B) {
	h := newHarness(b)
	defer func() { _ = h.s.Close(false) }()
	keys := []Key{h.s.Key(0, []byte("stream"))}
	fields := [][]byte{[]byte("user"), []byte("1000000"), []byte("event"), []byte("clicked")}
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		h.s.Begin(h.txn, keys)
		v, _ := h.txn.Stream(keys[0])
		v.Add(streamID(i), fields)
		h.txn.FlushValues()
		h.txn.End()
	}
}

// BenchmarkStreamDeliver runs XREADGROUP of one entry, and XACK.
func BenchmarkStreamDeliver(b *testing.B) {
	h := newHarness(b)
	defer func() { _ = h.s.Close(false) }()
	keys := []Key{h.s.Key(0, []byte("stream"))}
	group, consumer := []byte("g"), []byte("c")
	h.stream(keys[0], func(_ *Txn, v *Stream) {
		v.CreateGroup(group, streamID(0), 0)
		v.CreateConsumer(group, consumer, 1)
	})
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		h.s.Begin(h.txn, keys)
		v, _ := h.txn.Stream(keys[0])
		v.SetGroup(group, streamID(i), int64(i))
		v.Touch(group, consumer, int64(i), int64(i))
		v.Deliver(group, consumer, streamID(i), int64(i), 1)
		h.txn.FlushValues()
		h.txn.End()
		h.s.Begin(h.txn, keys)
		v, _ = h.txn.Stream(keys[0])
		v.Ack(group, streamID(i))
		h.txn.FlushValues()
		h.txn.End()
	}
}
