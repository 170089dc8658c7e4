package storage

import (
	"keyp/storage/format"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRenameDuringCheckpoint: a value that no checkpoint had seen is renamed onto another
// key between a checkpoint's rotation and its end. What made it is in no log then, and
// what the other key held is in the log that replays.
func TestRenameDuringCheckpoint(t *testing.T) {
	for _, size := range []int{500, 5000, format.InlineMax + 1} {
		h := newHarness(t)
		t.Cleanup(func() { h.s.Close(false) })
		names := map[name]bool{{0, "from"}: true, {0, "to"}: true}
		from, to := h.s.Key(0, []byte("from")), h.s.Key(0, []byte("to"))
		large := strings.Repeat("v", size)
		set := func(k Key, v string) {
			h.do(func(x *Txn) { x.SetString(k, []byte(v), 0, Event{}) }, k)
			h.model[name{0, string(k.Name)}] = value{data: v}
		}
		set(from, large)
		moment, err := h.s.checkpointer.rotate()
		if err != nil {
			t.Fatal(err)
		}
		set(to, "old")
		h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
		delete(h.model, name{0, "from"})
		h.model[name{0, "to"}] = value{data: large}
		h.commit()
		if err := h.s.checkpointer.writeSince(moment); err != nil {
			t.Fatal(err)
		}
		h.check()
		h.crash(rand.New(rand.NewPCG(1, uint64(size))), names)
		h.verify(names)
		h.reopen()
		h.verify(names)
	}
}
