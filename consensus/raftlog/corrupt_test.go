package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/consensus"
	"keyp/internal/testkit/setup"
	"keyp/internal/vfs"
	"keyp/storage/wal"
)

var testBase = Base{consensus.Base{Index: 1, Term: 1, Conf: &pb.ConfState{Voters: []uint64{2}}}, 77}

// created returns a new log that is open.
func created(t testing.TB, o wal.Options) (l *Log, first uint64) {
	t.Helper()
	first, err := Create(o, Identity{"cluster", 1, 2}, testBase)
	must(t, err)
	l, err = Open(o, first)
	must(t, err)
	return l, first
}

// headOf returns an encoded head with a change by the test.
func headOf(change func(r *record)) []byte {
	base := testBase
	r := record{head: true, id: Identity{"cluster", 1, 2}, hard: &hard{}, base: &base,
		last: 1, term: 1}
	if change != nil {
		change(&r)
	}
	return appendHead(nil, &r)
}

func writeOf(h *hard, base *Base, first uint64, terms ...uint64) []byte {
	b := appendWrite(nil, h, base, first, len(terms))
	for _, term := range terms {
		b = append(appendEntry(b, pb.EntryNormal, term, 1), 'x')
	}
	return b
}

// TestContradictions opens logs whose last record contradicts the records before it.
func TestContradictions(t *testing.T) {
	h := func(term, vote, commit uint64) *hard { return &hard{term, vote, commit} }
	at := func(index, term uint64) *Base {
		return &Base{Base: consensus.Base{Index: index, Term: term, Conf: &pb.ConfState{}}}
	}
	start := headOf(nil)
	some := writeOf(h(2, 2, 3), nil, 2, 2, 2, 2) // entries 2 to 4, of which 3 is committed
	after := func(change func(r *record)) []byte {
		return headOf(func(r *record) {
			*r.hard, r.last, r.term = *h(2, 2, 3), 4, 2
			if change != nil {
				change(r)
			}
		})
	}
	tests := []struct {
		name    string
		records [][]byte
		want    string // "": it is sound
	}{
		{"nothing wrong", [][]byte{start, some, writeOf(nil, nil, 4, 2), writeOf(nil, nil, 5, 2),
			headOf(func(r *record) { *r.hard, r.last, r.term = *h(2, 2, 4), 5, 2 })}, ""},
		{"no head", [][]byte{some}, "no head"},
		{"an empty record", [][]byte{start, {}}, "parse"},
		{"an unknown kind", [][]byte{start, {9}}, "parse"},
		{"an unknown flag", [][]byte{start, {kindWrite, 8, 0, 0}}, "parse"},
		{"an unknown type", [][]byte{start,
			append(appendEntry(appendWrite(nil, h(1, 0, 0), nil, 2, 1), 9, 1, 1), 'x')}, "parse"},
		{"something behind a record", [][]byte{start, append(writeOf(h(1, 0, 0), nil, 2, 1), 'x')},
			"parse"},
		{"more entries than there is room for",
			[][]byte{start, appendWrite(nil, nil, nil, 2, 1<<40)}, "parse"},
		{"an entry 0", [][]byte{start, writeOf(h(1, 0, 0), nil, 0, 1)}, "parse"},
		{"a later version", [][]byte{append([]byte{kindHead, version + 1}, start[2:]...)},
			"later version"},
		{"a gap", [][]byte{start, some, writeOf(nil, nil, 6, 2)}, "entry 6 follows entry 4"},
		{"a committed entry again", [][]byte{start, some, writeOf(h(3, 0, 3), nil, 3, 3)},
			"entry 3 comes again"},
		{"an entry of a snapshot again", [][]byte{start, writeOf(h(5, 0, 3), at(9, 4), 0),
			writeOf(nil, nil, 9, 5)}, "entry 9 comes again"},
		{"a term that goes back", [][]byte{start, some, writeOf(h(1, 2, 3), nil, 5)},
			"comes after term 2"},
		{"another vote in one term", [][]byte{start, some, writeOf(h(2, 3, 3), nil, 5)},
			"vote 3 comes after term 2 with vote 2"},
		{"a vote that is withdrawn", [][]byte{start, some, writeOf(h(2, 0, 3), nil, 5)},
			"vote 0 comes after term 2 with vote 2"},
		{"a commit index that goes back", [][]byte{start, some, writeOf(h(3, 2, 2), nil, 5)},
			"commit index 2 comes after 3"},
		{"terms of entries that go back", [][]byte{start, some, writeOf(h(3, 2, 3), nil, 5, 3, 2)},
			"entry 6 of term 2"},
		{"an entry of an earlier term", [][]byte{start, some, writeOf(h(3, 2, 3), nil, 5, 1)},
			"entry 5 of term 1"},
		{"an entry of a later term", [][]byte{start, some, writeOf(nil, nil, 5, 3)},
			"entry 5 of term 3"},
		{"a snapshot that is older", [][]byte{start, some, writeOf(nil, at(2, 2), 0)},
			"snapshot that ends with entry 2"},
		{"a snapshot that is older than another one", [][]byte{start, writeOf(h(5, 0, 0), at(9, 4),
			0), writeOf(nil, at(8, 4), 0)}, "snapshot that ends with entry 8"},
		{"a gap behind a snapshot", [][]byte{start, writeOf(h(5, 0, 3), at(9, 4), 11, 5)},
			"entry 11 follows entry 9"},
		{"entries before a snapshot", [][]byte{start, writeOf(h(5, 0, 3), at(9, 4), 9, 5)},
			"entry 9 comes with a snapshot"},
		{"an entry older than the snapshot", [][]byte{start, writeOf(h(5, 0, 3), at(9, 4), 10, 3)},
			"entry 10 of term 3"},
		{"another member", [][]byte{start, some, after(func(r *record) { r.id.Member = 3 })},
			"a head is that of"},
		{"another cluster", [][]byte{start, some, after(func(r *record) {
			r.id.Cluster = "other"
		})}, "a head is that of"},
		{"another group", [][]byte{start, some, after(func(r *record) { r.id.Group = 3 })},
			"a head is that of"},
		{"a head with another term", [][]byte{start, some, after(func(r *record) {
			r.hard.term = 3
		})}, "hard state"},
		{"a head with another vote", [][]byte{start, some, after(func(r *record) {
			r.hard.vote = 3
		})}, "hard state"},
		{"a head with an earlier commit", [][]byte{start, some, after(func(r *record) {
			r.hard.commit = 2
		})}, "hard state"},
		{"a head with fewer entries", [][]byte{start, some, after(func(r *record) { r.last = 3 })},
			"entries up to 3"},
		{"a head with another term of the last entry", [][]byte{start, some, after(func(r *record) {
			r.term = 1
		})}, "entry 4 of term 1"},
		{"a head with another term of the base", [][]byte{start, some, after(func(r *record) {
			r.base = at(3, 1)
		})}, "entry 3 of term 1"},
		{"a base beyond the end", [][]byte{start, some, after(func(r *record) {
			r.base = at(5, 2)
		})}, "the base 5, and entries up to 4"},
		{"no base", [][]byte{after(nil)}, "no head has a base"},
		{"a base whose term shows to be another one", [][]byte{after(func(r *record) {
			*r.hard, r.base = *h(2, 2, 1), at(3, 1)
		}), writeOf(nil, nil, 3, 2, 2)}, "it is of term 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options(vfs.NewMem())
			raw, err := wal.Open(o, 0, nil)
			must(t, err)
			for _, r := range tt.records {
				raw.Append(r)
			}
			must(t, raw.Close())
			l, err := Open(o, 1)
			if tt.want == "" {
				must(t, err)
				must(t, l.Close())
				return
			}
			if !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
	if _, err := Open(options(vfs.NewMem()), 0); !errors.Is(err, ErrLog) {
		t.Errorf("without a first segment: %v", err)
	}
	var corrupt *wal.CorruptError
	if _, err := Open(options(vfs.NewMem()), 1); !errors.As(err, &corrupt) {
		t.Errorf("without any file: %v", err)
	}
}

// fill returns a closed log with some segments, and its entries.
func fill(t testing.TB, mem *vfs.Mem, o wal.Options) (first uint64, entries []*pb.Entry) {
	l, first := created(t, o)
	random := rand.New(rand.NewPCG(3, 3))
	for i := uint64(2); i < 60; i += 2 {
		list := []*pb.Entry{entryOf(i, 2, fmt.Sprint(i)+strings.Repeat("-", random.IntN(1200))),
			entryOf(i+1, 2, "x")}
		l.Append(consensus.Write{Hard: &pb.HardState{Term: new(uint64(2)), Vote: new(uint64(2)),
			Commit: new(i - 1)}, Entries: list})
		entries = append(entries, list...)
		if i%20 == 0 {
			base := testBase
			base.Index, base.Term = i-1, 2
			_, err := l.Rotate(base)
			must(t, err)
		}
	}
	must(t, l.Close())
	return first, entries
}

// TestFlippedBits damages a closed and an open log. Reading it returns an error or the original
// entries.
func TestFlippedBits(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.NoBackground = true
	first, want := fill(t, mem, o)
	names, err := mem.List(o.Dir)
	must(t, err)
	random := rand.New(rand.NewPCG(setup.Seed, 6))
	failed, passed, readFailed := 0, 0, 0
	for range 3000 {
		mem := mem.Crash(random) // all is on disk, so it is a copy
		o.FS = mem
		name := o.Dir + "/" + names[random.IntN(len(names))]
		offset, mask := random.Int64N(8<<10), byte(1)<<random.IntN(8)
		open := random.IntN(2) == 0
		if !open {
			must(t, mem.Corrupt(name, offset, mask))
		}
		l, err := Open(o, first)
		if err != nil {
			var corrupt *wal.CorruptError
			if !errors.As(err, &corrupt) && !errors.Is(err, ErrLog) &&
				!errors.Is(err, wal.ErrVersion) {
				t.Fatalf("%s at %d: %v", name, offset, err)
			}
			failed++
			continue
		}
		if open {
			must(t, mem.Corrupt(name, offset, mask))
		}
		// Damage in the last group, or after it, may look like a torn write.
		if l.Last() < want[len(want)-2].GetIndex()-1 || !open && l.Hard().GetTerm() != 2 {
			t.Fatalf("%s at %d: entries up to %d are left", name, offset, l.Last())
		}
		for lo := uint64(2); lo <= l.Last(); {
			got, err := l.Entries(lo, l.Last()+1, 3000)
			if err != nil {
				var corrupt *wal.CorruptError
				if !errors.As(err, &corrupt) {
					t.Fatalf("%s at %d: %v", name, offset, err)
				}
				readFailed++
				break
			}
			if !equal(got, want[lo-2:lo-2+uint64(len(got))]) {
				t.Fatalf("%s at %d: other entries are read", name, offset)
			}
			lo += uint64(len(got))
		}
		passed++
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if failed < 300 || passed < 300 || readFailed < 300 {
		t.Errorf("%d logs do not open, %d do, %d reads fail", failed, passed, readFailed)
	}
}

// TestRecordsOtherThanPlaced: the log remembers the position of each record since it was opened. If
// another valid record is there, reading returns an error.
func TestRecordsOtherThanPlaced(t *testing.T) {
	mem := vfs.NewMem()
	o := options(mem)
	o.NoBackground = true
	first, _ := fill(t, mem, o)
	l, err := Open(o, first)
	must(t, err)
	for name, wrong := range map[string]func(){
		"a later place": func() {
			l.mu.table.blocks[0].more[3].place = l.mu.table.blocks[0].more[5].place
		},
		"an earlier place": func() {
			l.mu.table.blocks[0].more[3].place = l.mu.table.blocks[0].more[2].place
		},
		"another term": func() { l.mu.terms = []span{{2, 3}} },
		"the place of a head": func() {
			l.mu.table.blocks[0].more[3].place =
				uint32(l.mu.rotations[1].place - l.mu.table.blocks[0].place)
		},
		"a place within frames": func() { l.mu.table.blocks[0].more[3].place++ },
	} {
		t.Run(name, func(t *testing.T) {
			terms, block := l.mu.terms, *l.mu.table.blocks[0]
			wrong()
			_, err := l.Entries(8, 9, 0)
			var corrupt *wal.CorruptError
			if !errors.Is(err, ErrLog) && !errors.As(err, &corrupt) {
				t.Error(err)
			}
			l.mu.terms, *l.mu.table.blocks[0] = terms, block
		})
	}
	if _, err := l.Entries(8, 9, 0); err != nil {
		t.Error(err)
	}
	must(t, l.Close())
}

// FuzzRecord parses any bytes. A record that parses stays the same when it is encoded and parsed
// again.
func FuzzRecord(f *testing.F) {
	f.Add(headOf(nil))
	f.Add(writeOf(&hard{3, 2, 1}, nil, 7, 2, 3))
	f.Add(writeOf(nil, &testBase, 2, 1))
	f.Add(appendWrite(nil, nil, nil, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parse(b, nil)
		if err != nil {
			return
		}
		var again []byte
		if r.head {
			again = appendHead(nil, &r)
		} else {
			again = appendWrite(nil, r.hard, r.base, r.first, len(r.entries))
			for _, e := range r.entries {
				again = append(appendEntry(again, e.kind, e.term, len(e.data)), e.data...)
			}
		}
		second, err := parse(again, nil)
		if err != nil {
			t.Fatalf("%x parses, and %x does not: %v", b, again, err)
		}
		for _, x := range []*record{&r, &second} {
			if x.base != nil {
				// Protobuf keeps fields that it does not know, and nil and empty lists.
				x.base.Conf = nil
			}
		}
		if len(r.entries) == 0 {
			r.entries, second.entries = nil, nil
		}
		if !reflect.DeepEqual(r, second) {
			t.Fatalf("%+v, and then %+v", r, second)
		}
		s := state{}
		if s.apply(&r, 0) == nil && s.begin() == nil && s.base.Index > s.last {
			t.Fatalf("base %d, last %d", s.base.Index, s.last)
		}
	})
}
