package wal

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"keyp/internal/vfs"
)

// TestHold: a segment that somebody holds stays readable after its release. It is removed when the
// last one lets it go, and does not count in Size.
func TestHold(t *testing.T) {
	o := options(vfs.NewMem())
	o.NoBackground = true
	l, _ := opened(t, o, 0)
	var numbers, ends []uint64
	for i := range 6 {
		number, err := l.Rotate(nil)
		must(t, err)
		l.Append(fmt.Append(nil, "batch ", i))
		must(t, l.Commit())
		numbers, ends = append(numbers, number), append(ends, l.End())
	}
	early, late := l.Hold(numbers[1]), l.Hold(numbers[3])
	must(t, l.Release(numbers[5]))
	if size := l.Size(); size != int64(ends[5]-ends[4]) {
		t.Errorf("a recovery reads %d bytes, and the log says %d", ends[5]-ends[4], size)
	}
	expect := func(from int, what string) {
		t.Helper()
		if got := l.First(); got != numbers[from] {
			t.Errorf("%s: the first segment is %d, want %d", what, got, numbers[from])
		}
		if held, want := l.Held(), int64(ends[4]-ends[from-1]); held != want {
			t.Errorf("%s: %d bytes are held, want %d", what, held, want)
		}
		r := l.Reader()
		for i, number := range numbers {
			pos, ok := l.Start(number)
			if ok != (i >= from) {
				t.Errorf("%s: segment %d is there: %t", what, number, ok)
				continue
			}
			if !ok {
				continue
			}
			if pos != ends[i-1] {
				t.Errorf("%s: segment %d starts at %d, want %d", what, number, pos, ends[i-1])
			}
			for { // the head first
				batch, lsn, err := r.After(pos)
				must(t, err)
				if pos = lsn; len(batch) > 0 {
					if string(batch) != fmt.Sprint("batch ", i) {
						t.Errorf("%s: segment %d has %q", what, number, batch)
					}
					break
				}
			}
		}
		must(t, r.Close())
	}
	expect(1, "two holds")
	must(t, early.LetGo())
	expect(3, "one hold")
	must(t, late.Move(numbers[4]))
	expect(4, "it moved")
	must(t, late.LetGo())
	must(t, late.LetGo())
	expect(5, "no hold")
	if _, ok := l.Start(numbers[5] + 1); ok {
		t.Error("a segment that is not written yet has a start")
	}
	history := l.History()
	must(t, l.Close())
	l, batches := opened(t, o, numbers[5])
	sameBatches(t, batches, "", "batch 5")
	if l.History() != history {
		t.Errorf("the history was %q and is %q", history, l.History())
	}
	must(t, l.Close())
	other, _ := opened(t, options(vfs.NewMem()), 0)
	if other.History() == history {
		t.Error("another log has the same history")
	}
	must(t, other.Close())
}

// TestKeepFrom: opening a log keeps the segments that a hold kept, from a position on, and releases
// earlier ones. It does not keep segments that belong to another log, or that do not reach up to
// the first needed segment.
func TestKeepFrom(t *testing.T) {
	fsys := vfs.NewMem()
	o := options(fsys)
	o.NoBackground = true
	l, _ := opened(t, o, 0)
	var numbers, ends []uint64
	for i := range 6 {
		number, err := l.Rotate(nil)
		must(t, err)
		l.Append(fmt.Append(nil, "batch ", i))
		must(t, l.Commit())
		numbers, ends = append(numbers, number), append(ends, l.End())
	}
	l.Hold(0)
	must(t, l.Release(numbers[4]))
	must(t, l.Close())
	read := func(pos uint64) (texts []string) {
		r := l.Reader()
		for {
			batch, lsn, err := r.After(pos)
			if errors.Is(err, ErrBeyondEnd) {
				must(t, r.Close())
				return texts
			}
			must(t, err)
			if pos = lsn; len(batch) > 0 {
				texts = append(texts, string(batch))
			}
		}
	}
	for _, from := range []int{1, 2} {
		o.KeepFrom = ends[from]
		var replayed []string
		l, replayed = opened(t, o, numbers[4])
		if got := []string{"", "batch 4", "", "batch 5"}; !slices.Equal(replayed, got) {
			t.Errorf("from batch %d: %q are replayed, want %q", from, replayed, got)
		}
		hold := l.HoldFrom(ends[from])
		must(t, l.Release(numbers[4]))
		if got := l.First(); got != numbers[from] && got != numbers[from+1] {
			t.Errorf("from batch %d: the first segment is %d of %d", from, got, numbers)
		}
		want := []string{"batch 0", "batch 1", "batch 2", "batch 3", "batch 4", "batch 5"}[from+1:]
		if got := read(ends[from]); !slices.Equal(got, want) {
			t.Errorf("from batch %d: %q are there, want %q", from, got, want)
		}
		if from == 1 {
			must(t, hold.MoveTo(ends[2]))
			if got := l.First(); got != numbers[3] {
				t.Errorf("behind batch 2 segment %d is held, of %d", got, numbers)
			}
		}
		must(t, l.Close())
	}
	must(t, fsys.Remove(o.path(segmentName(numbers[4]-1)))) // what was before that is no use
	l, _ = opened(t, o, numbers[4])
	if got := l.First(); got != numbers[4] {
		t.Errorf("behind a segment that is missing: the first one is %d, want %d", got, numbers[4])
	}
	must(t, l.Close())
}
