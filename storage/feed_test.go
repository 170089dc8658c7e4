package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"keyp/storage/format"
	"keyp/storage/wal"
	"keyp/ttl"
)

// keysOfReplays returns two keys that a start replays in different goroutines, however many of
// these there are.
func keysOfReplays(t *testing.T, s *Store) (a, b Key) {
	a = s.Key(0, []byte("a"))
	for i := range 1000 {
		b = s.Key(0, fmt.Appendf(nil, "b%d", i))
		if s.shardOf(b.Slot)^s.shardOf(a.Slot) == 1 {
			return a, b
		}
	}
	t.Fatal("no key of the neighbouring shard")
	return a, b
}

// tooLarge returns a record that parses but cannot be applied. Only the goroutine that replays the
// key notices that.
func tooLarge(s *Store, k Key) []byte {
	rec := format.AppendBytes(format.AppendRecord(nil, format.RecPut, uint64(s.spaces.ids[0])),
		k.Name)
	rec = format.AppendDeadline(rec, 0, 0)
	return format.AppendBytes(rec, make([]byte, 1<<20))
}

// TestFirstBadRecordIsReported: the error is about the first record of the log that cannot be
// applied, however far the goroutines of the replay have come. This holds also if a later record
// makes all of them meet.
func TestFirstBadRecordIsReported(t *testing.T) {
	for _, meet := range []bool{false, true} {
		for _, order := range []string{"ab", "ba"} {
			t.Run(fmt.Sprintf("%s,meet=%t", order, meet), func(t *testing.T) {
				h := newHarness(t)
				var at []uint64
				for _, which := range order {
					for range 300 {
						h.do(func(x *Txn) {
							x.SetString(h.s.Key(0, []byte("x")), []byte("y"),
								ttl.Deadline{}, Event{})
						}, h.s.Key(0, []byte("x")))
					}
					a, b := keysOfReplays(t, h.s)
					if which == 'b' {
						a = b
					}
					at = append(at, h.s.Log().Append(tooLarge(h.s, a)))
					if meet {
						h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
						h.doAll(func(x *Txn) { x.FlushDB(2) })
					}
				}
				h.commit()
				if err := h.s.Close(false); err != nil {
					t.Fatal(err)
				}
				_, _, err := Open(Options{FS: h.fs, Dir: h.dir, Clock: h.clock,
					Logger:    slog.New(slog.DiscardHandler),
					Databases: 3, Shards: 4, Sync: wal.Always, SegmentSize: 64 << 10,
					InitialMmap: 1 << 22, NoBackground: true})
				if !errors.Is(err, format.ErrBadRecord) ||
					!strings.Contains(err.Error(), fmt.Sprintf("position %d:", at[0])) {
					t.Fatalf("opened with: %v; want the record before position %d", err, at[0])
				}
			})
		}
	}
}

// TestRecordsOfManyShards: records that move values between shards, or concern all shards, are
// applied in their order among the records of each shard.
func TestRecordsOfManyShards(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	a, b := keysOfReplays(t, h.s)
	large := strings.Repeat("v", format.InlineMax+1)
	set := func(k Key, v string) {
		h.do(func(x *Txn) { x.SetString(k, []byte(v), ttl.Deadline{}, Event{}) }, k)
	}
	for i := range 500 {
		n := string(binary.AppendUvarint(nil, uint64(i)))
		set(a, large+n)
		set(b, n)
		h.do(func(x *Txn) { x.Rename(a, b) }, a, b)
		if i%5 == 4 {
			h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
		}
		if i%7 == 6 {
			h.doAll(func(x *Txn) { x.FlushDB(0) })
		}
	}
	set(a, large)
	h.do(func(x *Txn) { x.Rename(a, b) }, a, b)
	h.commit()
	want := map[int]string{0: large}
	k := h.s.Key(1, b.Name)
	h.do(func(x *Txn) {
		if it, ok := x.Get(k); ok {
			v, err := it.String()
			if err != nil {
				t.Fatal(err)
			}
			want[1] = string(v)
		}
	}, k)
	if err := h.s.Close(false); err != nil {
		t.Fatal(err)
	}
	h.open()
	for db := range 2 {
		k := h.s.Key(db, b.Name)
		h.do(func(x *Txn) {
			it, ok := x.Get(k)
			if ok != (want[db] != "") {
				t.Errorf("database %d: key is there: %t", db, ok)
			} else if v, _ := it.String(); ok && string(v) != want[db] {
				t.Errorf("database %d has %d bytes, want %d", db, len(v), len(want[db]))
			}
		}, k)
	}
	h.check()
}
