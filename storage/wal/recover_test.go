package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
)

// files returns the content of every file of the log.
func files(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	all := map[string]string{}
	for _, name := range names {
		all[name] = string(read(t, fsys, dir+"/"+name))
	}
	return all
}

func read(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	must(t, f.Close())
	return b
}

func write(t testing.TB, fsys vfs.FS, path string, off int64, b []byte) {
	t.Helper()
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(path)
	}
	must(t, err)
	_, err = f.WriteAt(b, off)
	must(t, errors.Join(err, f.Sync(), f.Close(), fsys.SyncDir("/log")))
}

// killed returns the files as a killed process leaves them: everything written is there, but no
// closing group. The log continues without them and is closed.
func killed(t testing.TB, l *Log, mem *vfs.Mem) *vfs.Mem {
	t.Helper()
	for i := uint64(0); ; i++ {
		after := mem.Crash(rand.New(rand.NewPCG(i, 0)))
		same := true
		want := files(t, mem, "/log")
		for name, content := range files(t, after, "/log") {
			same = same && content == want[name]
			delete(want, name)
		}
		if same && len(want) == 0 {
			must(t, l.Close())
			return after
		}
	}
}

func path(number uint64) string { return "/log/" + segmentName(number) }

// TestStaleFramesDoNotVerify cuts off a write right after its group header, in a recycled segment.
// The segment's earlier life had a frame of the same size at the same offset. The checksum and the
// layout of the old bytes are right, and only their position in the stream is wrong.
func TestStaleFramesDoNotVerify(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.Spares = 1
	l, _ := opened(t, o, 0)
	fill := func(round int) uint64 {
		n, err := l.Rotate(fmt.Appendf(nil, "round %04d%s", round, strings.Repeat("h", 400)))
		must(t, err)
		for range 3 {
			l.Append(fmt.Appendf(nil, "round %04d%s", round, strings.Repeat("b", 400)))
		}
		must(t, l.Settled(context.Background(), l.End()))
		return n
	}
	recycled := map[string]bool{}
	for round := range 12 {
		await.Until(t, "the next segment", l.prepared)
		before := files(t, mem, o.Dir)
		n := fill(round)
		await.Until(t, "the one after it", l.prepared) // files come and go until then
		old, now := before[segmentName(n)], files(t, mem, o.Dir)[segmentName(n)]
		if torn := headerSize + groupHeaderSize; strings.Contains(old, "round") {
			// Only the headers were written, and the bytes of the earlier life follow them.
			lost := mem.Crash(rand.New(rand.NewPCG(1, 1)))
			write(t, lost, path(n), 0, []byte(now[:torn]+old[torn:]))
			lo := o
			lo.FS = lost
			for _, b := range reopened(t, lo, n) {
				t.Fatalf("replayed %.10q from the segment's earlier life", b)
			}
			// Then two of the frames are written as well.
			write(t, lost, path(n), 0,
				[]byte(now[:torn+2*(frameHeaderSize+410)]+old[torn+2*(frameHeaderSize+410):]))
			recycled[segmentName(n)] = true
		}
		must(t, l.Release(n))
	}
	if len(recycled) < 5 {
		t.Fatalf("only %d segments were recycled", len(recycled))
	}
	must(t, l.Close())
}

// TestIncompleteBatchIsDropped: a batch is dropped if some of its segments were never made.
func TestIncompleteBatchIsDropped(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	l.Append([]byte("kept"))
	must(t, l.Commit())
	l.Append(make([]byte, 20*testSegment))
	must(t, l.Commit())
	must(t, l.Close())
	for keep := uint64(1); keep <= 20; keep++ {
		after := mem.Crash(rand.New(rand.NewPCG(0, 0)))
		for n := keep + 1; ; n++ {
			if err := after.Remove(path(n)); err != nil {
				break
			}
		}
		o.FS = after
		l, batches := opened(t, o, 0)
		sameBatches(t, batches, "kept")
		lsn := l.Append([]byte("new"))
		must(t, l.Commit())
		if l.Synced() != lsn {
			t.Fatal("not synced")
		}
		must(t, l.Close())
		sameBatches(t, reopened(t, o, 0), "kept", "new")
	}
}

// corruptible builds a log of several segments and groups. claimed is the highest position that the
// log itself marks as durable.
func corruptible(t testing.TB,
	closed bool) (mem *vfs.Mem, o Options, batches []entry, claimed uint64) {
	mem = vfs.NewMem()
	o = options(mem)
	l, _ := opened(t, o, 0)
	for i := range 20 {
		b := fmt.Sprintf("batch %d %s", i, strings.Repeat("z", i*40))
		if i == 12 {
			b = strings.Repeat("long", testSegment/2)
		}
		batches = append(batches, entry{l.Append([]byte(b)), b})
		if i%2 == 1 {
			claimed = l.Synced()
			must(t, l.Commit())
		}
	}
	if closed {
		claimed = l.Synced()
		must(t, l.Close())
	} else {
		mem = killed(t, l, mem)
	}
	o.FS = mem
	return mem, o, batches, claimed
}

// TestBitFlips: a changed bit in a part that is provably durable is reported, and no file is
// changed. Elsewhere it costs at most the last group. A damaged batch is never returned.
func TestBitFlips(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprintf("closed=%v", closed), func(t *testing.T) {
			base, o, batches, claimed := corruptible(t, closed)
			// A segment that is just being made may be missing after the crash.
			crashed := func() *vfs.Mem { return base.Crash(rand.New(rand.NewPCG(0, 0))) }
			names, err := crashed().List(o.Dir)
			must(t, err)
			reported := 0
			rapid.Check(t, func(rt *rapid.T) {
				mem := crashed()
				o.FS = mem
				name := rapid.SampledFrom(names).Draw(rt, "file")
				offset := rapid.OneOf(rapid.IntRange(0, 63),
					rapid.IntRange(headerSize, testSegment-1)).Draw(rt, "offset")
				must(t, mem.Corrupt(o.Dir+"/"+name, int64(offset),
					1<<rapid.IntRange(0, 7).Draw(rt, "bit")))
				if flipped(t, rt, o, batches, claimed) {
					reported++
				}
			})
			if reported == 0 {
				t.Error("no flip was reported")
			}
		})
	}
}

func flipped(t *testing.T, rt *rapid.T, o Options, batches []entry,
	claimed uint64) (reported bool) {
	before := files(t, o.FS, o.Dir)
	n := 0
	replay := func(lsn uint64, b []byte) error {
		if e := (entry{lsn, string(b)}); n >= len(batches) || e != batches[n] {
			rt.Fatalf("batch %d at %d was never appended: %.30q", n, lsn, b)
		}
		n++
		return nil
	}
	l, err := Open(o, 0, replay)
	if err == nil {
		must(t, l.Close())
		if n < len(batches) && batches[n].lsn <= claimed {
			rt.Fatalf("batch %d at %d is gone without a word; %d is claimed", n,
				batches[n].lsn, claimed)
		}
		return false
	}
	var corrupt *CorruptError
	if errors.Is(err, ErrVersion) {
		rt.Fatalf("a flipped bit passes for a version: %v", err)
	}
	if !errors.As(err, &corrupt) {
		rt.Fatal(err)
	}
	for _, part := range []string{corrupt.File, fmt.Sprint(corrupt.Offset), "keyp check",
		"keyp repair"} {
		if !strings.Contains(err.Error(), part) {
			rt.Fatalf("%q does not say %q", err, part)
		}
	}
	if before[strings.TrimPrefix(corrupt.File, o.Dir+"/")] == "" {
		rt.Fatalf("no such file: %s", corrupt.File)
	}
	for name, content := range files(t, o.FS, o.Dir) {
		if before[name] != content {
			rt.Fatalf("%s was modified", name)
		}
		delete(before, name)
	}
	if len(before) > 0 {
		rt.Fatalf("files are gone: %d", len(before))
	}
	intact := n
	report, err := Check(o, 0, nil)
	if !errors.As(err, &corrupt) || report.Batches != intact {
		rt.Fatalf("Check finds %d batches, Open found %d: %v", report.Batches, intact, err)
	}
	return true
}

func TestMissingSegmentIsCorruption(t *testing.T) {
	base, o, _, _ := corruptible(t, true)
	all := files(t, base, o.Dir)
	last := uint64(0)
	for n := uint64(1); all[segmentName(n)] != ""; n++ {
		if _, used, _ := parseHeader([]byte(all[segmentName(n)]), n); used {
			last = n
		}
	}
	for n := uint64(1); n < last; n++ {
		mem := base.Crash(rand.New(rand.NewPCG(0, 0)))
		o.FS = mem
		must(t, mem.Remove(path(n)))
		must(t, mem.SyncDir(o.Dir))
		var corrupt *CorruptError
		if _, err := Open(o, 0, nil); !errors.As(err, &corrupt) || corrupt.File != path(n) {
			t.Fatalf("without segment %d of %d: %v", n, last, err)
		}
	}
}

func TestFirstNeededMustBeThere(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	for _, make := range []bool{false, true} { // without a directory, and with an empty one
		var corrupt *CorruptError
		if _, err := Open(o, 5, nil); !errors.As(err, &corrupt) || corrupt.File != path(5) {
			t.Errorf("nothing there, directory %t: %v", make, err)
		}
		if report, err := Check(o, 5, nil); !errors.As(err, &corrupt) || report.Segments != 0 {
			t.Errorf("nothing there, directory %t: Check: %v", make, err)
		}
		gaps := 0
		if _, err := Salvage(o, 5, nil, func(Gap) error { gaps++; return nil }); err != nil ||
			gaps != 1 {
			t.Errorf("nothing there, directory %t: Salvage: %d gaps, %v", make, gaps, err)
		}
		must(t, mem.MkdirAll(o.Dir))
	}
	o.New = true
	l, _ := opened(t, o, 5)
	o.New = false
	if first := l.First(); first != 5 {
		t.Errorf("the first segment is %d, want 5", first)
	}
	if n, err := l.Rotate([]byte("h")); n != 5 || err != nil {
		t.Fatalf("first segment %d, %v", n, err)
	}
	must(t, l.Close())
	sameBatches(t, reopened(t, o, 5), "h")
	for _, first := range []uint64{1, 4, 6, 7} {
		var corrupt *CorruptError
		if _, err := Open(o, first, nil); !errors.As(err, &corrupt) {
			t.Errorf("first = %d: %v", first, err)
		}
	}
	sameBatches(t, reopened(t, o, 5), "h")
}

// TestOpenSyncs: everything that Open has replayed is on disk. Otherwise somebody could acknowledge
// data that a power cut can still take. Here the killed process has written and not synced.
func TestOpenSyncs(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.Policy, o.NoBackground = No, true
	l, _ := opened(t, o, 0)
	var want []string // over several segments: the last one is synced when its end is cleared
	for i := range 4 {
		want = append(want, strings.Repeat(fmt.Sprint(i), 1200))
	}
	for _, b := range want {
		l.Append([]byte(b))
	}
	must(t, l.Commit())
	if l.Synced() == l.Durable() {
		t.Fatal("the log has synced what this test is about")
	}
	l, got := opened(t, o, 0) // the first one is gone as if killed
	sameBatches(t, got, want...)
	if l.Synced() != l.End() {
		t.Errorf("the log calls %d of %d synced", l.Synced(), l.End())
	}
	for seed := range uint64(30) {
		cut := o
		cut.FS = mem.Crash(rand.New(rand.NewPCG(seed, 1)))
		sameBatches(t, reopened(t, cut, 0), want...)
	}
	must(t, l.Close())
}

// TestDirectoryIsDurable: acknowledged data is not lost with the log's directory. The log syncs the
// directory's name, as the process that made the directory may have been killed before that.
func TestDirectoryIsDurable(t *testing.T) {
	for _, made := range []bool{false, true} {
		mem := vfs.NewMem()
		o := options(mem)
		if made {
			must(t, mem.MkdirAll(o.Dir))
		}
		l, _ := opened(t, o, 0)
		l.Append([]byte("one"))
		must(t, l.Commit())
		for seed := range uint64(30) {
			cut := o
			cut.FS = mem.Crash(rand.New(rand.NewPCG(seed, 1)))
			sameBatches(t, reopened(t, cut, 0), "one")
		}
		must(t, l.Close())
	}
}

func TestTornTailAndGarbage(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	l.Append([]byte("one"))
	must(t, l.Commit())
	end := l.segMu.live[0].offset(l.End())
	l.Append([]byte("two"))
	l.Append([]byte("three"))
	must(t, l.Commit())
	mem = killed(t, l, mem)
	full := read(t, mem, path(1))
	for cut := end; cut < end+150; cut++ {
		for _, garbage := range []byte{0, 0xff, 0x5a} {
			torn := mem.Crash(rand.New(rand.NewPCG(0, 0)))
			write(t, torn, path(1), cut, bytes.Repeat([]byte{garbage}, len(full)-int(cut)))
			o.FS = torn
			l, batches := opened(t, o, 0)
			if len(batches) == 0 || len(batches) > 3 {
				t.Fatalf("cut at %d: %q", cut, batches)
			}
			sameBatches(t, batches, []string{"one", "two", "three"}[:len(batches)]...)
			l.Append([]byte("four"))
			must(t, l.Close())
			sameBatches(t, reopened(t, o, 0), append(batches, "four")...)
		}
	}
	// These are bytes after the end, and leftovers of a preparation.
	write(t, mem, path(1), int64(len(full)), bytes.Repeat([]byte{7}, 5000))
	write(t, mem, "/log/"+tmpName, 0, []byte("half"))
	write(t, mem, "/log/"+spareName(77), 0, []byte("wrong size"))
	o.FS = mem
	sameBatches(t, reopened(t, o, 0), "one", "two", "three")
	names, err := mem.List(o.Dir)
	must(t, err)
	if s := strings.Join(names, " "); strings.Contains(s, tmpName) ||
		strings.Contains(s, spareName(77)) {
		t.Errorf("leftovers stay: %s", s)
	}
}

func TestReplayErrorEndsOpen(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	l.Append([]byte("a"))
	must(t, l.Close())
	before := files(t, mem, o.Dir)
	boom := errors.New("boom")
	if _, err := Open(o, 0, func(uint64, []byte) error { return boom }); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	for name, content := range files(t, mem, o.Dir) {
		if before[name] != content {
			t.Errorf("%s was modified", name)
		}
	}
}

// TestClientBytesAreNoProof: bytes in a payload that look like a group must not make recovery
// report lost data, whoever sent them.
func TestClientBytesAreNoProof(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	l.Append([]byte("one"))
	must(t, l.Commit())
	forged := make([]byte, groupHeaderSize)
	for number := uint64(1); number < 4; number++ {
		putGroup(forged, group{identity: identity{number: number}, mark: 12345, lsn: 1 << 40,
			durable: 1 << 39})
		l.Append(forged)
	}
	must(t, l.Commit())
	mem = killed(t, l, mem)
	o.FS = mem
	must(t, mem.Corrupt(path(1), headerSize+groupHeaderSize+frameHeaderSize+3+groupHeaderSize, 1))
	sameBatches(t, reopened(t, o, 0), "one")
}

// sealed updates the checksums of the segment, so that fuzzing gets past them.
func sealed(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerSize {
		return b
	}
	copy(b, segmentMagic)
	le.PutUint32(b[8:], version)
	le.PutUint32(b[12:], headerCRC(b))
	start, salt := le.Uint64(b[24:]), le.Uint64(b[32:])
	at := func(off int) uint64 { return start + uint64(off-headerSize) }
	for off := headerSize; off+groupHeaderSize <= len(b); {
		copy(b[off:], b[40:48])
		copy(b[off+16:], b[32:40])
		copy(b[off+24:], b[16:24])
		le.PutUint64(b[off+32:], at(off))
		le.PutUint32(b[off+8:], crc32.Checksum(b[off+12:off+groupHeaderSize], castagnoli))
		end := off + groupHeaderSize + int(le.Uint32(b[off+12:]))
		off += groupHeaderSize
		for off+frameHeaderSize <= min(end, len(b)) {
			size := frameHeaderSize + int(le.Uint32(b[off+4:])&0xffffff)
			if off+size > min(end, len(b)) {
				break
			}
			sealFrame(b[off:off+size], b[off+7], salt, at(off))
			off += size
		}
		off = max(off, min(end, len(b)))
	}
	return b
}

// FuzzRecover opens arbitrary bytes as two segments. It must not panic, and a log that opens must
// open again with the same batches.
func FuzzRecover(f *testing.F) {
	base, _, _, _ := corruptible(f, true)
	one, two := read(f, base, path(1)), read(f, base, path(2))
	f.Add(one, two, false)
	f.Add(one, two, true)
	f.Add(one[:5000], []byte{}, true)
	f.Add(two, one, true)
	f.Add([]byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, one, two []byte, seal bool) {
		if seal {
			one, two = sealed(one), sealed(two)
		}
		mem := vfs.NewMem()
		o := options(mem)
		must(t, mem.MkdirAll(o.Dir))
		write(t, mem, path(1), 0, one)
		write(t, mem, path(2), 0, two)
		before := files(t, mem, o.Dir)
		var batches []string
		l, err := Open(o, 0, func(_ uint64, b []byte) error {
			batches = append(batches, string(b))
			return nil
		})
		if err != nil {
			for name, content := range files(t, mem, o.Dir) {
				if before[name] != content {
					t.Fatalf("%v, but %s was modified", err, name)
				}
			}
			return
		}
		l.Append([]byte("more"))
		must(t, l.Close())
		sameBatches(t, reopened(t, o, 0), append(batches, "more")...)
	})
}

// TestGroupsAcrossReads: a group's header is found at any offset within the pieces in which a file
// is read.
func TestGroupsAcrossReads(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/log"))
	want := []int64{headerSize}
	for i := range int64(groupHeaderSize + 2) { // each as much further into the next piece
		want = append(want, (i+1)*readAhead-groupHeaderSize+i)
	}
	want = append(want, want[len(want)-1]+readAhead/2)
	f, err := mem.Create("/log/x")
	must(t, err)
	for _, off := range want {
		b := make([]byte, groupHeaderSize)
		putGroup(b, group{mark: 77, identity: identity{number: 1}, lsn: uint64(off), durable: 1})
		_, err := f.WriteAt(b, off)
		must(t, err)
	}
	must(t, f.Close())
	o := options(mem)
	r := &recovery{o: &o, mark: 77}
	var got []int64
	must(t, r.groups(&segmentFile{path: "/log/x"}, 0, func(g group, off int64) {
		if g.lsn != uint64(off) {
			t.Errorf("the group of offset %d was found at %d", g.lsn, off)
		}
		got = append(got, off)
	}))
	if !slices.Equal(got, want) {
		t.Errorf("found groups at %v, want %v", got, want)
	}
}

// TestFirstNeededMustHaveItsSize: if a log is known to exist, its first segment has space for its
// header at least. A first segment of size 0 is damage, not a new log.
func TestFirstNeededMustHaveItsSize(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	first := l.First()
	l.Append([]byte("a"))
	must(t, l.Close())
	f, err := mem.Create(path(first))
	must(t, errors.Join(err, f.Close()))
	var corrupt *CorruptError
	if _, err := Open(o, first, nil); !errors.As(err, &corrupt) {
		t.Errorf("Open: %v", err)
	}
	if _, err := Check(o, first, nil); !errors.As(err, &corrupt) {
		t.Errorf("Check: %v", err)
	}
}

// TestFirstSegmentStays: a start of a log that has lost all of its content may be interrupted at
// any moment. The next start still finds the segment that was recorded as the first one needed.
func TestFirstSegmentStays(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	first := l.First()
	l.Append([]byte("lost"))
	must(t, l.Commit())
	mem = killed(t, l, mem)
	write(t, mem, path(first), 0, make([]byte, headerSize)) // what follows was written before it
	errEnd := errors.New("the end")
	for end, ended := 0, true; ended; end++ {
		left := mem.Crash(rand.New(rand.NewPCG(0, uint64(end))))
		var mu sync.Mutex
		steps := 0
		ended = false
		o.FS = vfs.Inject(left, func(vfs.Op, string, int64, int) error {
			mu.Lock()
			defer mu.Unlock()
			ended = ended || steps == end
			if steps++; ended {
				return errEnd
			}
			return nil
		})
		l, err := Open(o, first, nil)
		if err == nil {
			err = l.Close()
		}
		if err != nil && !errors.Is(err, errEnd) {
			t.Fatal(err)
		}
		o.FS = left.Crash(rand.New(rand.NewPCG(1, uint64(end))))
		sameBatches(t, reopened(t, o, first))
	}
}
