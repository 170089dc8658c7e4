package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/vfs"
)

type fataler interface{ Fatalf(string, ...any) }

// salvaged returns the batches and gaps that Salvage finds in a log.
func salvaged(t fataler, o Options, batches []entry) (got map[uint64]bool, gaps []Gap) {
	got = map[uint64]bool{}
	sound := map[entry]bool{}
	for _, b := range batches {
		sound[b] = true
	}
	last := uint64(0)
	report, err := Salvage(o, 0, func(lsn uint64, b []byte) error {
		if !sound[entry{lsn, string(b)}] || lsn <= last {
			t.Fatalf("after %d comes a batch at %d that was never appended: %.30q", last, lsn, b)
		}
		got[lsn], last = true, lsn
		return nil
	}, func(g Gap) error {
		if g.To < g.From || g.From < last {
			t.Fatalf("after %d comes the gap %+v", last, g)
		}
		gaps = append(gaps, g)
		return nil
	})
	if err != nil || report.Batches != len(got) || len(got) > 0 && report.End != last {
		t.Fatalf("%d batches up to %d, reported %+v, %v", len(got), last, report, err)
	}
	return got, gaps
}

// lostOf counts the missing batches. Each must begin in a gap, or be after the position that is
// claimed to be durable.
func lostOf(t fataler, batches []entry, claimed uint64, got map[uint64]bool,
	gaps []Gap) (lost int) {
	begin := uint64(firstLSN)
	for _, b := range batches {
		if !got[b.lsn] {
			lost++
			known := b.lsn > claimed
			for _, g := range gaps {
				known = known || !g.Whole && g.From <= begin && begin < g.To
			}
			if !known {
				t.Fatalf("the batch from %d to %d is missing, and the gaps are %+v",
					begin, b.lsn, gaps)
			}
		}
		begin = b.lsn
	}
	return lost
}

// TestSalvage: one flipped bit loses only the batch that it is in, and a damaged page only the
// batches that have bytes in it. A log that opens has no gaps.
func TestSalvage(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprintf("closed=%v", closed), func(t *testing.T) {
			base, o, batches, synced := corruptible(t, closed)
			names, err := base.List(o.Dir)
			must(t, err)
			whole, torn := 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				mem := base.Crash(rand.New(rand.NewPCG(0, 0)))
				o.FS = mem
				file := o.Dir + "/" + rapid.SampledFrom(names).Draw(rt, "file")
				offset := rapid.OneOf(rapid.IntRange(0, 63),
					rapid.IntRange(headerSize, testSegment-1)).Draw(rt, "offset")
				claimed := synced
				page := rapid.IntRange(0, 3).Draw(rt, "page") == 0
				if page {
					write(t, mem, file, int64(offset-offset%512), make([]byte, 512))
				} else {
					must(t, mem.Corrupt(file, int64(offset),
						1<<rapid.IntRange(0, 7).Draw(rt, "bit")))
				}
				got, gaps := salvaged(rt, o, batches)
				l, err := Open(o, 0, nil)
				if page && err == nil {
					claimed = 0 // what claimed the last batches was in that page
				}
				lost := lostOf(rt, batches, claimed, got, gaps)
				var corrupt *CorruptError
				switch {
				case err == nil:
					must(t, l.Close())
					if len(gaps) > 0 {
						rt.Fatalf("the log opens and has gaps: %+v", gaps)
					}
				case !errors.As(err, &corrupt):
					rt.Fatal(err)
				case !page && lost > 1:
					rt.Fatalf("a bit cost %d batches: %+v", lost, gaps)
				case lost == 0:
					whole++
				default:
					torn++
				}
			})
			if whole == 0 || torn == 0 {
				t.Errorf("%d damages cost nothing, %d something", whole, torn)
			}
		})
	}
}

// TestSalvageWithoutASegment: a missing file loses only the batches that it had.
func TestSalvageWithoutASegment(t *testing.T) {
	base, o, batches, claimed := corruptible(t, true)
	all := files(t, base, o.Dir)
	used := func(n uint64) bool {
		_, used, _ := parseHeader([]byte(all[segmentName(n)]), n)
		return used
	}
	for n := uint64(1); used(n + 1); n++ { // nothing says that there was a last one
		mem := base.Crash(rand.New(rand.NewPCG(0, 0)))
		o.FS = mem
		must(t, errors.Join(mem.Remove(path(n)), mem.SyncDir(o.Dir)))
		got, gaps := salvaged(t, o, batches)
		if lost := lostOf(t, batches, claimed, got, gaps); n > 1 && lost == 0 ||
			len(got)+lost != len(batches) {
			t.Errorf("without segment %d %d batches are lost, %d are left: %+v", n,
				lost, len(got), gaps)
		}
	}
}

// FuzzSalvage: whatever the files contain, Salvage returns. If the log opens, it reads the same
// batches as Open.
func FuzzSalvage(f *testing.F) {
	base, _, _, _ := corruptible(f, true)
	one, two := read(f, base, path(1)), read(f, base, path(2))
	f.Add(one, two, false)
	f.Add(one, two, true)
	f.Add(one[:5000], two, true)
	f.Add(one[:4720], one, true) // ends between the two batches of a group
	f.Add(two, one, true)
	f.Add([]byte{}, two, false)
	f.Fuzz(func(t *testing.T, one, two []byte, seal bool) {
		if seal {
			one, two = sealed(one), sealed(two)
		}
		mem := vfs.NewMem()
		o := options(mem)
		must(t, mem.MkdirAll(o.Dir))
		write(t, mem, path(1), 0, one)
		write(t, mem, path(2), 0, two)
		var got, want []string
		gaps := 0
		_, err := Salvage(o, 0, func(_ uint64, b []byte) error {
			got = append(got, string(b))
			return nil
		}, func(Gap) error { gaps++; return nil })
		if err != nil && !errors.Is(err, ErrVersion) {
			t.Fatal(err)
		}
		l, err := Open(o, 0, func(_ uint64, b []byte) error {
			want = append(want, string(b))
			return nil
		})
		if err != nil {
			return
		}
		must(t, l.Close())
		if gaps > 0 {
			t.Fatalf("the log opens and has %d gaps", gaps)
		}
		sameBatches(t, got, want...)
	})
}
