package wal

import (
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"keyp/internal/vfs"
)

// putOldGroup fills a group header as format 1 has it.
func putOldGroup(b []byte, g group) {
	le.PutUint64(b, g.mark)
	le.PutUint32(b[12:], uint32(g.length))
	le.PutUint64(b[16:], g.salt)
	le.PutUint64(b[24:], g.number)
	le.PutUint64(b[32:], g.lsn)
	le.PutUint64(b[40:], g.durable)
	le.PutUint32(b[8:], crc32.Checksum(b[12:oldGroupSize], castagnoli))
}

// oldLog makes a log of format 1, of one segment: a group for each batch, and the one that Close writes, which is
// the last thing that fits.
func oldLog(t *testing.T, batches ...string) (*vfs.Mem, []entry) {
	t.Helper()
	id := identity{number: 1, start: firstLSN, salt: 99, old: true}
	file := make([]byte, headerSize)
	putHeader(file, header{identity: id, mark: 77, durable: firstLSN})
	le.PutUint32(file[8:], oldVersion)
	le.PutUint32(file[12:], headerCRC(file))
	pos := func() uint64 { return id.start + uint64(len(file)-headerSize) }
	synced := pos()
	begin := func(length int) {
		head := make([]byte, oldGroupSize)
		putOldGroup(head, group{identity: id, mark: 77, length: length, lsn: pos(), durable: synced})
		file = append(file, head...)
	}
	var entries []entry
	for _, b := range batches {
		begin(frameHeaderSize + len(b))
		at := pos()
		frame := append(make([]byte, frameHeaderSize), b...)
		sealFrame(frame, flagFrame|flagFirst|flagLast, id.salt, at)
		file = append(file, frame...)
		entries, synced = append(entries, entry{pos(), b}), pos()
	}
	begin(0)
	mem := vfs.NewMem()
	must(t, errors.Join(mem.MkdirAll("/log"), mem.SyncDir("/")))
	write(t, mem, path(1), 0, file)
	return mem, entries
}

// TestOlderLog: a log of format 1 is read, goes on in a segment of the present format, and is read again with both.
func TestOlderLog(t *testing.T) {
	mem, _ := oldLog(t, "one", "two", "three")
	o := options(mem)
	before := read(t, mem, path(1))
	l, batches := opened(t, o, 1)
	sameBatches(t, batches, "one", "two", "three")
	l.Append([]byte("four"))
	must(t, l.Close())
	if now := read(t, mem, path(1)); string(now) != string(before) {
		t.Error("the segment of format 1 was changed")
	}
	if h, used, err := parseHeader(read(t, mem, path(2)), 2); !used || err != nil || h.old {
		t.Errorf("the log goes on in %+v, %t, %v", h, used, err)
	}
	sameBatches(t, reopened(t, o, 1), "one", "two", "three", "four")
	got, gaps := 0, 0
	_, err := Salvage(o, 1, func(uint64, []byte) error { got++; return nil }, func(Gap) error { gaps++; return nil })
	if err != nil || got != 4 || gaps != 0 {
		t.Errorf("Salvage: %d batches, %d gaps, %v", got, gaps, err)
	}
}

// TestOlderLogDamaged: a flipped bit in a log of format 1 is reported, costs one batch at most when it is repaired, and
// none if it is in a header.
func TestOlderLogDamaged(t *testing.T) {
	base, entries := oldLog(t, "one", "two", "three")
	end := int(entries[2].lsn - firstLSN) // of what is certainly durable
	for off := headerSize; off < headerSize+end; off++ {
		mem := base.Crash(rand.New(rand.NewPCG(0, 0)))
		must(t, mem.Corrupt(path(1), int64(off), 1<<(off%8)))
		o := options(mem)
		var corrupt *CorruptError
		if _, err := Open(o, 1, nil); !errors.As(err, &corrupt) {
			t.Fatalf("with a bit flipped at %d: %v", off, err)
		}
		got, gaps := salvaged(t, o, entries)
		pos, inHeader := off-headerSize, false
		for _, e := range entries {
			head := int(e.lsn-firstLSN) - len(e.batch) - frameHeaderSize - oldGroupSize
			inHeader = inHeader || pos >= head && pos < head+oldGroupSize
		}
		want := len(entries) - 1
		if inHeader {
			want++
		}
		if len(got) != want || len(gaps) != 1 || gaps[0].Whole != inHeader {
			t.Fatalf("with a bit flipped at %d: %d batches, gaps %+v", off, len(got), gaps)
		}
	}
}

// TestReplicatedLogIsRefused: groups that only a replicated log has are not passed over, and nothing is changed.
func TestReplicatedLogIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	l, _ := opened(t, o, 0)
	l.Append([]byte("one"))
	must(t, l.Close())
	file := read(t, mem, path(1))
	g, ok := parseGroup(file[headerSize:])
	if !ok || g.kind != kindAlone || g.raft != 0 || g.bodyCRC != 0 || g.term != 0 || g.index != 0 || g.commit != 0 {
		t.Fatalf("a server that is alone writes %+v, %t", g, ok)
	}
	g.kind = 1
	head := make([]byte, groupHeaderSize)
	putGroup(head, g)
	write(t, mem, path(1), headerSize, head)
	before := files(t, mem, o.Dir)
	if _, err := Open(o, 0, nil); !errors.Is(err, ErrVersion) {
		t.Errorf("Open: %v", err)
	}
	if _, err := Salvage(o, 0, func(uint64, []byte) error { return nil }, func(Gap) error { return nil }); !errors.Is(err, ErrVersion) {
		t.Errorf("Salvage: %v", err)
	}
	for name, content := range files(t, mem, o.Dir) {
		if before[name] != content {
			t.Errorf("%s was changed", name)
		}
	}
}
