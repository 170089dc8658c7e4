package storage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/ttl"
)

// dataFault makes a chosen operation on a data file fail.
type dataFault struct {
	h      *harness
	err    error
	how    string // see faults
	nth    int    // which one fails, counted from 1; 0: none
	count  int
	failed string // what failed
}

// faults lists the ways in which a write or a sync may fail: before any of it was done, half way,
// and after all of it. A sync that fails before has lost the data to be written. A sync that fails
// half way has done nothing, and the kernel still has the data.
var faults = []string{"before", "half way", "after"}

func (d *dataFault) hook(op vfs.Op, path string, off int64, n int) error {
	if op != vfs.OpWrite && op != vfs.OpSync {
		return nil
	}
	if d.count++; d.count != d.nth {
		return nil
	}
	d.failed = fmt.Sprintf("%v of %s at %d", op, filepath.Base(path), off)
	switch {
	case op == vfs.OpSync && d.how == "before":
		d.h.fs.FailSync(path, nil)
	case op == vfs.OpSync && d.how == "after":
		f, err := d.h.fs.Open(path)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		return errors.Join(d.err, err)
	case op == vfs.OpWrite && d.how == "half way":
		return &vfs.ShortWrite{N: n / 2, Err: d.err}
	case op == vfs.OpWrite && d.how == "after":
		return &vfs.ShortWrite{N: n, Err: d.err}
	}
	return d.err
}

// faulty is a store whose data file fails, and the state that the store must have.
type faulty struct {
	*harness
	fault dataFault
	names map[name]bool
	round int
}

func newFaulty(t *testing.T) *faulty {
	h := &faulty{names: map[name]bool{}}
	h.harness = closedHarness(t)
	h.fault.h = h.harness
	h.onData = h.fault.hook
	return h
}

// change sets and removes keys and commits these changes.
func (h *faulty) change() {
	h.round++
	for i := range 50 {
		n := name{i % 2, fmt.Sprint("key", i)}
		k := h.s.Key(n.db, []byte(n.key))
		h.names[n] = true
		switch (i + h.round) % 5 {
		case 0:
			delete(h.model, n)
			h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
		case 1:
		default:
			v := value{data: strings.Repeat(fmt.Sprint(h.round, "."), i*i/4)}
			if i%3 == 0 {
				v.deadline = h.clock.Now() + int64(i+h.round)*hour
			}
			h.model[n] = v
			h.do(func(x *Txn) { x.SetString(k, []byte(v.data), ttl.At(v.deadline), eventSet) }, k)
		}
	}
	if h.round%2 == 0 {
		for n := range h.model {
			if n.db == 1 {
				delete(h.model, n)
			}
		}
		h.doAll(func(x *Txn) { x.FlushDB(1) })
	}
	h.commit()
}

// end stops the store, as a kill or a power cut does, and starts it again.
func (h *faulty) end(powerCut bool, seed int) {
	h.t.Helper()
	h.stop(powerCut, seed)
	h.open()
}

// stop stops the store. It leaves the log as it is, since closing the log would write.
func (h *faulty) stop(powerCut bool, seed int) {
	h.t.Helper()
	if h.s != nil {
		if err := h.s.release(); err != nil {
			h.t.Fatal(err)
		}
		h.s = nil
	}
	if powerCut {
		h.fs = h.fs.Crash(rand.New(rand.NewPCG(uint64(seed), 1)))
	}
	var paths []string
	for _, name := range []string{format.DataName, datafile.NewName, datafile.CompactName,
		datafile.ReceivedName} {
		paths = append(paths, filepath.Join(h.dir, name))
	}
	if err := h.fs.Restore(paths...); err != nil {
		h.t.Fatal(err)
	}
}

// during injects the fault while do runs.
func (h *faulty) during(f dataFault, do func() error) error {
	f.h = h.harness
	h.fault = f
	err := do()
	h.fault.nth = 0
	return err
}

const firstStart = "first start"

// scenarios lists the activities during which a fault happens. Each returns the error of the
// operation that failed.
var scenarios = map[string]func(h *faulty, f dataFault) error{
	"checkpoint": func(h *faulty, f dataFault) error {
		return h.during(f, h.s.Checkpoint)
	},
	"compaction": func(h *faulty, f dataFault) error {
		return h.during(f, func() error {
			_, _, err := h.s.Compact()
			return err
		})
	},
	"start": func(h *faulty, f dataFault) error {
		h.stop(false, 0)
		err := h.during(f, h.tryOpen)
		if err != nil {
			h.end(f.nth%2 == 0, f.nth)
		}
		return err
	},
	firstStart: func(h *faulty, f dataFault) error {
		return h.during(f, h.tryOpen)
	},
	"kill": func(h *faulty, f dataFault) error {
		err := h.during(f, h.s.Checkpoint)
		h.end(false, 0)
		return err
	},
}

// TestDataFileFaults makes each write and each sync of the data file fail, in each way, in each of
// the scenarios. Then the store goes on if it did not end, is killed, or loses power, and starts
// again. Another power cut follows, perhaps after a checkpoint that relies on the state found.
// Acknowledged changes are always there. With KEYP_STRESS all writes and syncs fail in turn, else
// only some.
func TestDataFileFaults(t *testing.T) {
	t.Parallel()
	step, offset := 10, 0
	if testkit.Number(t, "KEYP_STRESS", 0) > 0 {
		step = 1
	}
	for _, what := range slices.Sorted(maps.Keys(scenarios)) {
		for _, failure := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EINTR} {
			for _, how := range faults {
				if failure == syscall.EINTR && how == "before" {
					continue // a signal loses nothing
				}
				t.Run(fmt.Sprintf("%s/%v/%s", what, failure, how), func(t *testing.T) {
					faulted := 0
					for nth := 1 + offset%step; faultAt(t, what,
						dataFault{err: failure, how: how, nth: nth}); nth += step {
						faulted++
					}
					if offset++; faulted == 0 && what != "start" {
						t.Error("the data file was not written")
					}
				})
			}
		}
	}
}

// faultAt runs a scenario, and reports whether the fault happened.
func faultAt(t *testing.T, what string, f dataFault) bool {
	h := newFaulty(t)
	var err error
	if what == firstStart {
		if err = scenarios[what](h, f); err != nil {
			h.end(f.nth%2 == 0, f.nth)
		}
	} else {
		h.open()
	}
	h.change()
	h.saved()
	h.change()
	if what != firstStart {
		err = scenarios[what](h, f)
	}
	failed := h.fault.failed
	bad := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s (operation %d): %s", failed, f.nth, fmt.Sprintf(format, args...))
	}
	switch {
	case failed == "":
		if err != nil {
			bad("without a fault: %v", err)
		}
	case f.err == syscall.EINTR:
		if err != nil || h.s.Err() != nil {
			bad("%v, %v", err, h.s.Err())
		}
	case what == "checkpoint" && err == nil:
		bad("the checkpoint does not say so")
	case what == "checkpoint" && f.err == syscall.EIO && h.s.Err() == nil:
		bad("the store goes on after %v", err)
	}
	if h.s.Err() != nil { // the server ends, and until then nobody may rely on what is in doubt
		if err := h.s.Checkpoint(); err == nil {
			bad("a store that has failed finishes a checkpoint")
		}
	}
	if h.s.Err() == nil {
		if failed != "" {
			h.verify(h.names)
		}
		if f.nth%2 == 0 {
			h.change()
		}
		if what != "kill" {
			if err := h.s.Checkpoint(); err != nil {
				bad("the next checkpoint: %v", err)
			}
		}
	}
	for i, powerCut := range []bool{what == "kill" || f.nth%4 < 2, true, true} {
		h.end(powerCut, f.nth+i)
		if got, want := h.state(h.names), h.model.live(h.clock.Now()); !same(got, want) {
			bad("after end %d (power cut %t) there is\n%v\nand must be\n%v", i, powerCut, got, want)
		}
		h.check()
		if (f.nth+i)%3 > 0 {
			h.change()
		}
		if (f.nth+i)%3 > 1 {
			h.saved()
		}
	}
	h.stop(false, 0)
	return failed != ""
}

// TestDirectoriesAreDurable: once a store is open, no power cut removes a directory that the store
// is in. This holds also if another process made the directory and was killed.
func TestDirectoriesAreDurable(t *testing.T) {
	for _, made := range []bool{false, true} {
		h := newFaulty(t)
		h.dir = filepath.Join(h.dir, "a", "b", "c")
		if made {
			if err := errors.Join(os.MkdirAll(h.dir, 0o700),
				h.fs.MkdirAll(filepath.Join(h.dir, format.LogDir))); err != nil {
				t.Fatal(err)
			}
		}
		h.open()
		h.change()
		for seed := range 20 {
			h.end(true, seed)
			h.verify(h.names)
			h.change()
		}
		h.stop(false, 0)
	}
}
