package wal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
)

// TestReadBack appends, rotates, reopens and releases, and reads batches back in any order.
func TestReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options(vfs.NewMem())
		o.NoBackground = true
		o.SegmentSize = rapid.SampledFrom([]int64{minSegmentSize, headerSize + 1500,
			3 * headerSize}).Draw(t, "segment size")
		o.FirstSize = rapid.SampledFrom([]int64{0, minSegmentSize}).Draw(t, "first size")
		if err := o.FS.MkdirAll(o.Dir); err != nil {
			t.Fatal(err)
		}
		l, err := Open(o, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		type place struct {
			after, lsn, segment uint64 // segment is 0 where it is not known
			batch               []byte
		}
		var places []place
		first, end, written := uint64(1), l.End(), 0
		rotations := []uint64{first}
		add := func(lsn, segment uint64, batch []byte) {
			places = append(places, place{end, lsn, segment, batch})
			end = lsn
		}
		read := func(r *Reader, i int, written int) {
			p := places[i]
			batch, lsn, err := r.After(p.after)
			number, numberErr := r.SegmentAfter(p.after)
			switch {
			case i >= written:
				if !errors.Is(err, ErrBeyondEnd) {
					t.Fatalf("batch %d of %d that were written: %v", i, written, err)
				}
			case err != nil && (!errors.Is(err, ErrReleased) || p.after >= l.segMu.live[0].start):
				t.Fatalf("batch %d: %v, while the log begins at %d", i, err, l.segMu.live[0].start)
			case err == nil && (lsn != p.lsn || !bytes.Equal(batch, p.batch) || numberErr != nil ||
				p.segment != 0 && number != p.segment):
				t.Fatalf("batch %d is %d bytes up to %d in segment %d (%v), want %d up to %d in %d",
					i, len(batch), lsn, number, numberErr, len(p.batch), p.lsn, p.segment)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 8).Draw(t, "step") {
			case 0, 1, 2:
				batch := bytes.Repeat([]byte{byte(len(places))},
					rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 20000)).Draw(t, "size"))
				add(l.Append(batch), 0, batch)
			case 3:
				batch := []byte{byte(len(places))}
				number, err := l.Rotate(batch)
				if err != nil {
					t.Fatal(err)
				}
				add(l.End(), number, batch)
				rotations = append(rotations, number)
			case 4:
				if err := l.Commit(); err != nil {
					t.Fatal(err)
				}
				written = len(places)
			case 5:
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if l, err = Open(o, first, nil); err != nil {
					t.Fatal(err)
				}
				written = len(places)
			case 6:
				if err := l.Commit(); err != nil {
					t.Fatal(err)
				}
				written = len(places)
				first = rapid.SampledFrom(rotations).Draw(t, "first")
				if err := l.Release(first); err != nil {
					t.Fatal(err)
				}
				rotations = rotations[slices.Index(rotations, first):]
			default:
				if len(places) == 0 {
					continue
				}
				r := l.Reader()
				for i := range 8 {
					if i == 4 && rapid.Bool().Draw(t, "commit") {
						if err := l.Commit(); err != nil {
							t.Fatal(err)
						}
						written = len(places)
					}
					read(r, rapid.IntRange(0, len(places)-1).Draw(t, "batch"), written)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReadBesideWriting reads while batches are written, and segments are released and used again.
// A read returns the batch as it was appended, or reports that it was released.
func TestReadBesideWriting(t *testing.T) {
	o := options(vfs.NewMem())
	o.SegmentSize = headerSize + 4096
	l, _ := opened(t, o, 0)
	batch := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 20+i%300) }
	type place struct {
		i     int
		after uint64
	}
	var newest atomic.Pointer[place]
	done := make(chan struct{})
	go func() {
		defer close(done)
		random := rand.New(rand.NewPCG(1, 1))
		for reads, places := 0, []place(nil); reads < 3000; {
			if p := newest.Load(); p != nil && (len(places) == 0 || places[len(places)-1] != *p) {
				places = append(places, *p)
			}
			if len(places) == 0 {
				continue
			}
			p := places[max(0, len(places)-1-random.IntN(20))]
			r := l.Reader()
			got, _, err := r.After(p.after)
			if err == nil && !bytes.Equal(got, batch(p.i)) {
				t.Errorf("batch %d is %d bytes %.20q", p.i, len(got), got)
				return
			}
			if err != nil && !errors.Is(err, ErrReleased) {
				t.Errorf("batch %d: %v", p.i, err)
				return
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			reads++
		}
	}()
	end := l.End()
	over := await.Over()
	for i := 0; ; i++ {
		after := end
		if i%40 == 0 {
			number, err := l.Rotate(batch(i))
			must(t, err)
			end = l.End()
			must(t, l.Commit())
			must(t, l.Release(number))
		} else {
			end = l.Append(batch(i))
			must(t, l.Commit())
		}
		newest.Store(&place{i, after})
		select {
		case <-done:
			must(t, l.Close())
			return
		case <-over:
			t.Fatal("no end")
		default:
		}
	}
}

// TestReadDamage flips bits of the data that is read.
func TestReadDamage(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.NoBackground = true
	l, _ := opened(t, o, 0)
	want := bytes.Repeat([]byte("batch"), 600) // in two segments
	after := l.End()
	l.Append(want)
	must(t, l.Commit())
	for _, f := range []string{segmentName(1), segmentName(2)} {
		damaged := 0
		for off := int64(headerSize); off < testSegment; off++ {
			must(t, mem.Corrupt(o.path(f), off, 1))
			r := l.Reader()
			got, _, err := r.After(after)
			var corrupt *CorruptError
			switch {
			case errors.As(err, &corrupt):
				damaged++
			case err != nil:
				t.Fatalf("%s at %d: %v", f, off, err)
			case !bytes.Equal(got, want):
				t.Fatalf("%s at %d: another batch is read", f, off)
			}
			must(t, r.Close())
			must(t, mem.Corrupt(o.path(f), off, 1))
		}
		if damaged < 1000 {
			t.Errorf("%s: damage is found in %d places", f, damaged)
		}
	}
	must(t, l.Close())
}
