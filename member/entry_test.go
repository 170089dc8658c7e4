package member

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
)

// entryOf returns an entry with a term.
func entryOf(term uint64, data []byte) *pb.Entry {
	return &pb.Entry{Term: &term, Index: new(uint64(7)), Data: data}
}

// batchesEntry returns the data of an entry with batches.
func batchesEntry(position uint64, batches ...string) []byte {
	data := le.AppendUint64([]byte{batchesTag}, position)
	for _, b := range batches {
		data = append(binary.AppendUvarint(data, uint64(len(b))), b...)
	}
	return data
}

// partEntry returns the data of an entry with a part of a batch.
func partEntry(position uint64, length, offset int, part string) []byte {
	data := []byte{partTag}
	for _, n := range []uint64{position, uint64(length), uint64(offset)} {
		data = le.AppendUint64(data, n)
	}
	return append(data, part...)
}

// taken collects the batches and members of a stream.
type taken struct {
	stream
	batches []string
	members []commands.Member
}

func (k *taken) feed(e *pb.Entry) error {
	return k.take(e, func(lsn uint64, b []byte) error {
		k.batches = append(k.batches, fmt.Sprintf("%d:%s", lsn, b))
		return nil
	}, func(m commands.Member) { k.members = append(k.members, m) })
}

// TestStream: batches come complete and in order, however entries divide them. Unfinished parts of
// an earlier leader are ignored.
func TestStream(t *testing.T) {
	change := entryOf(1, []byte("a change"))
	change.Type = pb.EntryConfChangeV2.Enum()
	joins := entryOf(1, memberEntry(&commands.Member{ID: 5, Node: "n"}))
	for _, c := range []struct {
		name    string
		entries []*pb.Entry
		want    []string
		end     uint64
		between bool
	}{
		{"several in an entry", []*pb.Entry{entryOf(1, nil),
			entryOf(1, batchesEntry(0, "a", "bcd")), entryOf(1, batchesEntry(6, "e"))},
			[]string{"2:a", "6:bcd", "8:e"}, 8, true},
		{"parts", []*pb.Entry{entryOf(1, partEntry(0, 5, 0, "ab")),
			entryOf(1, partEntry(0, 5, 2, "cd")), entryOf(1, partEntry(0, 5, 4, "e"))},
			[]string{"6:abcde"}, 6, true},
		{"others between parts", []*pb.Entry{entryOf(1, partEntry(0, 3, 0, "ab")), change, joins,
			entryOf(1, nil), entryOf(1, partEntry(0, 3, 2, "c"))}, []string{"4:abc"}, 4, true},
		{"not all parts", []*pb.Entry{entryOf(1, partEntry(0, 3, 0, "ab"))}, nil, 0, false},
		{"a new leader after some parts", []*pb.Entry{entryOf(1, partEntry(0, 3, 0, "ab")),
			entryOf(2, nil)}, nil, 0, true},
		{"its batches", []*pb.Entry{entryOf(1, partEntry(0, 3, 0, "ab")), entryOf(2, nil),
			entryOf(2, batchesEntry(0, "x"))}, []string{"2:x"}, 2, true},
		{"its parts", []*pb.Entry{entryOf(1, partEntry(0, 3, 0, "ab")),
			entryOf(2, partEntry(0, 2, 0, "x")), entryOf(2, partEntry(0, 2, 1, "y"))},
			[]string{"3:xy"}, 3, true},
		{"parts once more, as after a start", []*pb.Entry{entryOf(1, partEntry(0, 3, 0, "ab")),
			entryOf(1, partEntry(0, 3, 0, "ab")), entryOf(1, partEntry(0, 3, 2, "c"))},
			[]string{"4:abc"}, 4, true},
	} {
		var k taken
		for i, e := range c.entries {
			if err := k.feed(e); err != nil {
				t.Errorf("%s: entry %d: %v", c.name, i, err)
			}
		}
		if !slices.Equal(k.batches, c.want) || k.position != c.end || k.between() != c.between {
			t.Errorf("%s: %q, at %d, between batches: %t", c.name, k.batches,
				k.position, k.between())
		}
	}
	var k taken
	if err := k.feed(joins); err != nil || len(k.members) != 1 || k.members[0].ID != 5 {
		t.Errorf("who joins is %+v: %v", k.members, err)
	}
}

// TestStreamWithin: the batches of an entry that end after a position and not after another one
// come, as for a backup whose moment is within an entry. The entry is taken as a whole.
func TestStreamWithin(t *testing.T) {
	for _, c := range []struct {
		from, through uint64
		want          []string
	}{
		{0, 8, []string{"2:a", "6:bcd", "8:e"}},
		{2, 6, []string{"6:bcd"}},
		{0, 2, []string{"2:a"}},
		{6, 7, nil},
	} {
		var s stream
		var got []string
		err := s.within(entryOf(1, batchesEntry(0, "a", "bcd", "e")), c.from, c.through,
			func(lsn uint64, batch []byte) error {
				got = append(got, fmt.Sprintf("%d:%s", lsn, batch))
				return nil
			})
		if err != nil || !slices.Equal(got, c.want) || s.position != 8 {
			t.Errorf("from %d through %d: %q, at %d, %v", c.from, c.through, got, s.position, err)
		}
	}
}

// TestStreamErrors: an entry that this version would not write causes an error, and returns no
// batch.
func TestStreamErrors(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []*pb.Entry // the last one is wrong
	}{
		{"another kind", []*pb.Entry{entryOf(1, []byte{9})}},
		{"no batches", []*pb.Entry{entryOf(1, batchesEntry(0))}},
		{"at another position", []*pb.Entry{entryOf(1, batchesEntry(1, "a"))}},
		{"a batch that is cut", []*pb.Entry{entryOf(1, batchesEntry(0, "abc")[:batchesHeader+3])}},
		{"a length without an end", []*pb.Entry{entryOf(1, append(batchesEntry(0), 0x80))}},
		{"a part at another position", []*pb.Entry{entryOf(1, partEntry(1, 2, 0, "a"))}},
		{"a part without bytes", []*pb.Entry{entryOf(1, partEntry(0, 2, 0, ""))}},
		{"a part that is too long", []*pb.Entry{entryOf(1, partEntry(0, 2, 0, "abc"))}},
		{"a part without those before", []*pb.Entry{entryOf(1, partEntry(0, 2, 1, "a"))}},
		{"a part of another leader", []*pb.Entry{entryOf(1, partEntry(0, 2, 0, "a")),
			entryOf(2, partEntry(0, 2, 1, "b"))}},
		{"a part of a batch of another length", []*pb.Entry{entryOf(1, partEntry(0, 3, 0, "a")),
			entryOf(1, partEntry(0, 2, 1, "b"))}},
		{"parts with a gap", []*pb.Entry{entryOf(1, partEntry(0, 4, 0, "a")),
			entryOf(1, partEntry(0, 4, 2, "b"))}},
		{"a batch beyond all limits", []*pb.Entry{entryOf(1, partEntry(0, mostBatch+1, 0, "a"))}},
		{"an offset that overflows", []*pb.Entry{entryOf(1, partEntry(0, 3, -2, "abc"))}},
		{"a member without an id", []*pb.Entry{entryOf(1, memberEntry(&commands.Member{}))}},
		{"a member that does not parse", []*pb.Entry{entryOf(1, []byte{memberTag, '{'})}},
	} {
		var k taken
		for i, e := range c.entries {
			err := k.feed(e)
			if last := i == len(c.entries)-1; errors.Is(err, errEntry) != last {
				t.Errorf("%s: entry %d: %v", c.name, i, err)
			}
		}
		if len(k.batches) > 0 || k.position != 0 || len(k.members) > 0 {
			t.Errorf("%s: %q, at %d", c.name, k.batches, k.position)
		}
	}
}

// FuzzStream: a stream never panics, whatever the bytes are. It never returns a batch with an LSN
// other than the position.
func FuzzStream(f *testing.F) {
	f.Add(batchesEntry(0, "a", "bcd"), partEntry(6, 3, 0, "ab"), partEntry(6, 3, 2, "c"), uint8(1))
	f.Add(partEntry(0, 3, 0, "ab"), memberEntry(&commands.Member{ID: 5}), partEntry(0, 3, 2, "c"),
		uint8(1))
	f.Add(partEntry(0, 3, 0, "ab"), []byte{}, batchesEntry(0, "x"), uint8(7))
	f.Fuzz(func(t *testing.T, a, b, c []byte, terms uint8) {
		var s stream
		end := uint64(0)
		for i, data := range [][]byte{a, b, c} {
			term := 1 + uint64(terms>>i&1)
			before := bytes.Clone(data)
			err := s.take(entryOf(term, data), func(lsn uint64, b []byte) error {
				if lsn != s.position || lsn < end+uint64(len(b))+1 {
					t.Fatalf("a batch of %d bytes after %d ends at %d, and the position is %d",
						len(b), end, lsn, s.position)
				}
				end = lsn
				return nil
			}, func(m commands.Member) {
				if m.ID == 0 {
					t.Fatal("a member without an id")
				}
			})
			if !bytes.Equal(data, before) {
				t.Fatal("the entry was changed")
			}
			if err != nil {
				if !errors.Is(err, errEntry) {
					t.Fatalf("%v", err)
				}
				return
			}
			if s.position != end {
				t.Fatalf("the position is %d, and the last batch ends at %d", s.position, end)
			}
		}
	})
}
