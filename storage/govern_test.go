package storage

import (
	"testing"

	"keyp/ttl"
)

// A Governor is a feature that decides on keys' deadlines. slider is one that moves the deadline of
// each key by an hour when it is read.
type slider struct {
	Governor
	reads int
}

func (g *slider) Read(t *Txn, k Key, item Item) {
	g.reads++
	t.MoveDeadline(k, ttl.In(item.Deadline()+3_600_000))
}

func (g *slider) Decide(_ *Txn, _ Key, deadline ttl.Deadline, _ bool) ttl.Deadline {
	return deadline
}

// TestReadsAskNoGovernor: the governor is called for a read only if it moves deadlines.
func TestReadsAskNoGovernor(t *testing.T) {
	h := newHarness(t)
	k := h.s.Key(0, []byte("k"))
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(x.Now()+1000), Event{}) }, k)
	for _, reads := range []bool{false, true} {
		g := &slider{}
		h.s.SetGovernor(g, reads)
		h.do(func(x *Txn) { x.Get(k) }, k)
		if (g.reads > 0) != reads {
			t.Errorf("with a governor of reads: %v, a read asks %d times", reads, g.reads)
		}
	}
}

// TestSlideOnFullDisk: while the disk is full deadlines are not moved, and reads go on.
func TestSlideOnFullDisk(t *testing.T) {
	h := newHarness(t)
	k := h.s.Key(0, []byte("k"))
	h.s.SetGovernor(&slider{}, true)
	h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(x.Now()+1000), Event{}) }, k)
	for _, full := range []bool{true, false} {
		h.s.house.lowSpace.Store(full)
		h.do(func(x *Txn) {
			was := x.Now() + 1000
			item, ok := x.Get(k)
			if value, err := item.String(); !ok || err != nil || string(value) != "v" {
				t.Errorf("%q, %v, %v", value, ok, err)
			}
			item, _ = x.Peek(k)
			if moved := item.Deadline() != was; moved == full {
				t.Errorf("full: %v, the deadline moves: %v", full, moved)
			}
		}, k)
	}
}
