package object

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// elementSource stands for the data file, from which a stream reads entries that are not in memory
// (RunSource). It has a stream's elements by key.
type elementSource struct {
	elements map[string]string
	reads    int
	bad      map[int64]bool // numbers that cannot be read
}

var errDamaged = errors.New("damaged")

func (f *elementSource) ReadRun(first, last int64, fn func(number int64, val []byte) error) error {
	f.reads++
	for number := first; number <= last; number += NumberStep {
		key := ListKey(number)
		if f.bad[number] {
			return errDamaged
		}
		if val, ok := f.elements[string(key[:])]; ok {
			if err := fn(number, []byte(val)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *elementSource) Wrong(err error) error { return errDamaged }

// leave removes from memory the runs that clean selects.
func leave(s *Stream, source RunSource, clean func(first, last int64) bool) {
	s.SetSource(source)
	for range 2 { // the first time some had been used
		for done := false; !done; {
			_, done = s.Leave(1<<40, clean)
		}
	}
}

func all(int64, int64) bool { return true }

// Leave removes some runs from memory.
func (sm *streamMachine) Leave(rt *rapid.T) {
	rng := rng(rt)
	leave(sm.s, &elementSource{elements: sm.replica}, func(int64, int64) bool {
		return rng.IntN(3) > 0
	})
}

// Load reads some of the absent runs, as a read beside others does.
func (sm *streamMachine) Load(rt *rapid.T) {
	from, to := sm.id(rt), sm.id(rt)
	runs := sm.s.Wanted(nil, from, to, rapid.Bool().Draw(rt, "reverse"),
		int64(rapid.IntRange(-1, 300).Draw(rt, "count")))
	runs = sm.s.WantedID(sm.s.WantedTrim(sm.s.WantedBefore(runs, from),
		rapid.IntRange(0, 500).Draw(rt, "n")), to)
	for _, first := range runs {
		r := sm.s.BeginRead(first)
		if r == nil {
			continue
		}
		if err := r.Read(); err != nil {
			rt.Fatal(err)
		}
		if !sm.s.EndRead(r) || sm.s.EndRead(r) {
			rt.Fatal("the run was not absent, or is so still")
		}
	}
}

// TestWantedRuns: if the runs that Wanted returns are in memory, a range, a look-up or a trimming
// reads none.
func TestWantedRuns(t *testing.T) {
	const n = 5000
	rapid.Check(t, func(rt *rapid.T) {
		s := &Stream{}
		shortEntries(s, 0, n)
		rng := rng(rt)
		ids := make([]StreamID, 0, n)
		s.Range(StreamID{}, MaxStreamID, false, func(e StreamEntry) bool {
			ids = append(ids, e.ID)
			return true
		})
		for range 2000 {
			s.Delete(ids[rng.IntN(n)], nil)
		}
		source := &elementSource{elements: elementsOf(s)}
		leave(s, source, all)
		load := func(runs []int64) {
			for _, first := range runs {
				if r := s.BeginRead(first); r == nil || r.Read() != nil || !s.EndRead(r) {
					rt.Fatal("a run that is wanted is not absent")
				}
			}
			source.reads = 0
		}
		from, to := ids[rng.IntN(n)], ids[rng.IntN(n)]
		reverse, count := rng.IntN(2) == 0, 1+rng.IntN(400)
		load(s.Wanted(nil, from, to, reverse, int64(count)))
		left := count
		s.Range(from, to, reverse, func(StreamEntry) bool {
			left--
			return left > 0
		})
		if source.reads > 0 {
			rt.Errorf("%d entries from %v to %v (reversed: %t) read %d runs more", count, from, to,
				reverse, source.reads)
		}
		load(s.WantedBefore(nil, to))
		if s.Before(to); source.reads > 0 {
			rt.Errorf("Before(%v) read a run more", to)
		}
		load(s.WantedID(nil, from))
		if s.Delete(from, nil); source.reads > 0 {
			rt.Errorf("Delete(%v) read a run more", from)
		}
		trim := rng.IntN(s.Entries())
		load(s.WantedTrim(nil, trim))
		if s.TrimFirst(trim, nil, nil); source.reads > 0 {
			rt.Errorf("TrimFirst(%d) read a run more", trim)
		}
		last, _ := s.LastEntry()
		load(s.WantedID(nil, last))
		if s.Delete(last, nil); source.reads > 0 {
			rt.Errorf("the removal of the last entry read a run more")
		}
	})
}

// TestSummaries: operations that need no entries read no runs.
func TestSummaries(t *testing.T) {
	const n = 10_000
	s := &Stream{}
	shortEntries(s, 0, n)
	source := &elementSource{elements: elementsOf(s)}
	leave(s, source, all)
	if s.Resident() != 1 {
		t.Fatalf("%d runs are in memory", s.Resident())
	}
	first, _ := s.First()
	shortEntries(s, n, n+10)
	s.Entries()
	s.LastEntry()
	s.WholeNodes(n / 2)
	s.TrimFirst(s.WholeNodes(n/2), nil, nil)
	s.Get(StreamID{1, 1})
	s.Before(first)
	s.About(first, MaxStreamID, 1000)
	s.SetAge(1000, KeepRefs, nil)
	s.Earliest()
	s.LenAt(1_700_000_000_000 + 1000 + n/20)
	before := s.Entries()
	if got := s.Expire(1_700_000_000_000+1000+n*3/4/20-1, 1<<40, nil,
		AgedLog{Seen: func(StreamEntry) {}}); got == 0 || s.Entries() != before-got {
		t.Errorf("%d entries were removed, and %d of %d are left", got, s.Entries(), before)
	}
	if source.reads > 1 { // of the run in which the age ends
		t.Errorf("%d runs were read", source.reads)
	}
	clone := s.Clone().(*Stream)
	if want := source.reads; clone.Entries() != s.Entries() || source.reads != want {
		t.Errorf("a clone has %d entries, %d runs were read", clone.Entries(), source.reads-want)
	}
}

// TestWalkKeepsNothing: a walk over all entries reads each run once and keeps none.
func TestWalkKeepsNothing(t *testing.T) {
	const n = 10_000
	s := &Stream{}
	shortEntries(s, 0, n)
	want := elementsOf(s)
	source := &elementSource{elements: want}
	leave(s, source, all)
	bytes := s.Bytes()
	if got := elementsOf(s); !maps.Equal(got, want) {
		t.Error("the walk gave other elements")
	}
	if absent := s.Nodes() - s.Resident(); source.reads != absent || s.Resident() != 1 ||
		s.Bytes() != bytes {
		t.Errorf("%d runs are absent, %d were read, %d are in memory, with %d bytes (before: %d)",
			absent, source.reads, s.Resident(), s.Bytes(), bytes)
	}
}

// TestDamagedRun: a run that cannot be read affects only itself. An operation that needs the run
// panics before it changes anything, and others work. The run expires as a whole. Counts of due
// entries leave the run out until all of it is due.
func TestDamagedRun(t *testing.T) {
	const n = 1000
	for name, spoil := range map[string]func(*elementSource, int64){
		"unreadable": func(f *elementSource, number int64) { f.bad = map[int64]bool{number: true} },
		"missing": func(f *elementSource, number int64) {
			key := ListKey(number)
			delete(f.elements, string(key[:]))
		},
		"wrong": func(f *elementSource, number int64) {
			key := ListKey(number)
			f.elements[string(key[:])] = string(AppendStreamEntry(nil, StreamID{5, 5}, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Stream{}
			shortEntries(s, 0, n)
			var ids []StreamID
			s.Range(StreamID{}, MaxStreamID, false, func(e StreamEntry) bool {
				ids = append(ids, e.ID)
				return true
			})
			before := s.Clone().(*Stream)
			source := &elementSource{elements: elementsOf(s)}
			leave(s, source, all)
			r := s.runs[2]
			spoil(source, (r.first+r.end())/2*NumberStep)
			inRun := ids[r.first+1]
			for what, fn := range map[string]func(){
				"Get":    func() { s.Get(inRun) },
				"Delete": func() { s.Delete(inRun, nil) },
				"Range": func() {
					s.Range(StreamID{}, MaxStreamID, false, func(StreamEntry) bool { return true })
				},
				"TrimFirst": func() { s.TrimFirst(int(r.first)+1, nil, nil) },
				"Walk":      func() { elementsOf(s) },
				"Whole":     func() { s.Clone().(*Stream).Whole() },
			} {
				if err := Reading(fn); err == nil {
					t.Errorf("%s gave no error", what)
				}
			}
			if s.Entries() != n || s.LastID() != before.LastID() ||
				s.MaxDeleted() != before.MaxDeleted() || s.Added() != n {
				t.Errorf("%d entries are left, last %v", s.Entries(), s.LastID())
			}
			for i, id := range ids {
				if at := int64(i); at >= r.first && at < r.end() {
					continue
				}
				if e, ok := s.Get(id); !ok || fmt.Sprint(e) == "" {
					t.Fatalf("entry %v is not there", id)
				}
			}
			shortEntries(s, n, n+1)
			s.SetAge(1, KeepRefs, nil)
			due := int64(inRun.Ms) + 1 // a part of the run is due
			if got, want := s.Expire(due, 1<<40, nil,
				AgedLog{Seen: func(StreamEntry) {}, All: true}), int(r.first); got != want {
				t.Errorf("%d entries expired, want %d", got, want)
			}
			if got := s.Expire(due, 1<<40, nil, AgedLog{}); got != 0 || s.LenAt(due) != s.Len() {
				t.Errorf("%d entries expired, of %d elements %d are not due", got,
					s.Len(), s.LenAt(due))
			}
			whole := int(r.live)
			if got := s.Expire(int64(r.last.Ms)+1, 10, nil, AgedLog{All: true}); got != whole {
				t.Errorf("%d entries expired, want %d", got, whole)
			}
			if first, _ := s.First(); first != ids[int(r.end())] {
				t.Errorf("the first entry is %v, want %v", first, ids[int(r.end())])
			}
		})
	}
}

// TestReadBesideChanges: a run that was read beside others is not put into the stream if the run
// has changed or is gone by then.
func TestReadBesideChanges(t *testing.T) {
	const n = 1000
	begin := func() (*Stream, *RunRead) {
		s := &Stream{}
		shortEntries(s, 0, n)
		leave(s, &elementSource{elements: elementsOf(s)}, all)
		r := s.BeginRead(s.runs[1].first)
		if err := r.Read(); err != nil {
			t.Fatal(err)
		}
		return s, r
	}
	s, r := begin()
	e, _ := s.Get(s.runs[1].low)
	id := e.ID
	s.Delete(id, nil)
	if s.EndRead(r) {
		t.Error("a run that has changed took what was read")
	}
	if _, ok := s.Get(id); ok {
		t.Error("a deleted entry is back")
	}
	s, r = begin()
	s.TrimFirst(int(s.runs[0].live+s.runs[1].live), nil, nil)
	if s.EndRead(r) {
		t.Error("a run that is gone took what was read")
	}
	if s, r = begin(); !s.EndRead(r) || s.runs[1].absent() {
		t.Error("the run is not in memory")
	}
	if got, want := s.Bytes(), s.measured(); got != want {
		t.Errorf("%d bytes, counted again %d", got, want)
	}
}
