package repair_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/progress"
	_ "keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/repair"
	"keyp/ttl"
)

// ticking is a clock that advances by a minute at each reading.
type ticking struct {
	*clock.Fake
	looks atomic.Int64
}

func (c *ticking) Mono() time.Duration { return time.Duration(c.looks.Add(1)) * time.Minute }

// work is the progress that a meter's sink was shown for one task.
type work struct {
	what string
	top  int // the most percent before the end
}

// A start, a check, a compaction and a repair report their progress, which never goes back. They
// report a good part of it before the end.
func TestProgress(t *testing.T) {
	var seen []work
	meter := progress.New(&ticking{}, progress.Sink{Show: func(r progress.Report) {
		if len(seen) == 0 || seen[len(seen)-1].what != r.What {
			seen = append(seen, work{what: r.What})
		}
		if last := &seen[len(seen)-1]; !r.Ended {
			if r.Percent < last.top {
				t.Errorf("%s: %d%% after %d%%", r.What, r.Percent, last.top)
			}
			last.top = r.Percent
		}
	}})
	now := clock.NewFake(1_700_000_000_000)
	dir := filepath.Join(t.TempDir(), "data")
	o := storage.Options{Dir: dir, FS: vfs.OS, Clock: now, Logger: slog.New(slog.DiscardHandler),
		NoBackground: true, SegmentSize: 4 << 20, InitialMmap: 64 << 20, Progress: meter}
	open := func() *storage.Store {
		t.Helper()
		s, _, err := storage.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(list ...string) {
		t.Helper()
		var got []string
		for _, w := range seen {
			got = append(got, w.what)
			if w.top < 25 {
				t.Errorf("%s: the last report before the end has %d%%", w.what, w.top)
			}
		}
		if !slices.Equal(got, list) {
			t.Errorf("reports of %q, want %q", got, list)
		}
		seen = nil
	}
	s := open()
	seen = nil // there was nothing
	value := bytes.Repeat([]byte("v"), 3000)
	for i := range 3000 {
		k := s.Key(0, fmt.Append(nil, "k", i))
		txn := s.NewTxn()
		if !s.Begin(txn, []storage.Key{k}) {
			t.Fatal("the shard is locked")
		}
		txn.SetString(k, value, ttl.Deadline{}, storage.Event{})
		txn.End()
	}
	must(s.Log().Commit())
	must(s.Close(false))
	s = open()
	want("loading the data")
	must(s.Checkpoint())
	_, _, err := s.Compact()
	must(err)
	want("compacting the data file", "checking the compacted data file")
	must(s.Close(false))
	_, err = repair.Inspect(o, func(f repair.Finding) { t.Error(f) })
	must(err)
	want("checking the data file", "checking the log", "loading the data", "checking the keys")
	_, err = repair.Repair(o, dir+".repaired", func(l repair.Loss) { t.Error(l) })
	must(err)
	want("saving the data file", "reading the log", "copying the log", "loading the data",
		"checking the keys")
}
