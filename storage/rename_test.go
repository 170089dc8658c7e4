package storage

import (
	"math/rand/v2"
	"strings"
	"testing"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/ttl"
)

// TestRenameBeforeItIsCopied: a key has an old value on disk and a large new one in memory. A
// checkpoint is about to write the new value, and first deletes what an unfinished checkpoint may
// have left of it. At that moment the value is renamed. The old value must not come back under the
// old key.
func TestRenameBeforeItIsCopied(t *testing.T) {
	for moment := range 4 {
		again := moment%2 == 1 // the key has another such value then
		h := newHarness(t)
		t.Cleanup(func() { h.s.Close(false) })
		names := map[name]bool{{0, "from"}: true, {0, "to"}: true, {0, "other"}: true}
		from, to, other := h.s.Key(0, []byte("from")), h.s.Key(0, []byte("to")),
			h.s.Key(0, []byte("other"))
		set := func(k Key, v string) {
			h.do(func(x *Txn) { x.SetString(k, []byte(v), ttl.Deadline{}, Event{}) }, k)
			h.model[name{0, string(k.Name)}] = value{data: v}
		}
		rename := func(from, to Key) {
			h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
			h.model[name{0, string(to.Name)}] = h.model[name{0, string(from.Name)}]
			delete(h.model, name{0, string(from.Name)})
			h.commit()
		}
		set(from, "old")
		h.saved()
		set(from, strings.Repeat("v", format.InlineMax+1))
		set(other, strings.Repeat("w", format.InlineMax+1))
		h.commit()
		h.crash(rand.New(rand.NewPCG(1, 1)), names)
		renamed, steps := false, 0
		h.s.options.Testing.OnStep = func(at datafile.Step) error {
			if at != StepPortion {
				return nil
			}
			if steps++; steps == 1+moment/2 {
				renamed = true
				rename(from, to)
				if again {
					rename(other, from)
				}
			}
			return nil
		}
		h.saved()
		h.s.options.Testing.OnStep = nil
		if !renamed {
			t.Fatalf("the checkpoint copied %d portions", steps)
		}
		h.check()
		h.crash(rand.New(rand.NewPCG(1, 2)), names)
		h.verify(names)
		h.reopen()
		h.verify(names)
	}
}

// TestRenameDuringCheckpoint: a value that no checkpoint has seen is renamed to another key between
// a checkpoint's rotation of the log and its end. The records that made the value are in no log
// then. The records of the other key's old value are in the log that is replayed.
func TestRenameDuringCheckpoint(t *testing.T) {
	for _, size := range []int{500, 5000, format.InlineMax + 1} {
		h := newHarness(t)
		t.Cleanup(func() { h.s.Close(false) })
		names := map[name]bool{{0, "from"}: true, {0, "to"}: true}
		from, to := h.s.Key(0, []byte("from")), h.s.Key(0, []byte("to"))
		large := strings.Repeat("v", size)
		set := func(k Key, v string) {
			h.do(func(x *Txn) { x.SetString(k, []byte(v), ttl.Deadline{}, Event{}) }, k)
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
