package storage

import (
	"fmt"
	"slices"
	"testing"

	"keyp/ttl"
)

func anyName([]byte) bool { return true }

// TestWalkDue: WalkDue visits the keys that are due within a span of time, in memory and on disk,
// each once, or a sample of them. The caller can end the walk. The walk gives up if a transaction
// has locked the whole keyspace for long.
func TestWalkDue(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	const keys = 20 * walkNames
	for i := range keys { // half of them of one shard
		name := fmt.Appendf(nil, "k%d", i)
		if i%2 == 0 {
			name = fmt.Appendf(nil, "{same}%d", i)
		}
		k := h.s.Key(i%3, name)
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+1000+int64(i%4)), Event{}) }, k)
	}
	walk := func(from, until int64, every uint64) (found map[string]DueKey) {
		found = map[string]DueKey{}
		if !h.s.WalkDue(from, until, every, func(list []DueKey) bool {
			for _, k := range list {
				if _, twice := found[string(k.Name)]; twice || k.At < from ||
					k.At >= until || k.Element {
					t.Errorf("%s is visited at %+v, twice: %v", k.Name, k, twice)
				}
				found[string(k.Name)] = DueKey{DB: k.DB, At: k.At}
			}
			return true
		}) {
			t.Error("the walk is not whole")
		}
		return found
	}
	for _, place := range []string{"in memory", "on disk"} {
		found := walk(now, now+2000, 1)
		for i := range keys {
			name := fmt.Sprintf("k%d", i)
			if i%2 == 0 {
				name = fmt.Sprintf("{same}%d", i)
			}
			if k := found[name]; k.DB != i%3 || k.At != now+1000+int64(i%4) {
				t.Fatalf("%s: %s is %+v", place, name, k)
			}
		}
		if n := len(walk(now+1001, now+1003, 1)); n != keys/2 {
			t.Errorf("%s: %d keys in the middle, want %d", place, n, keys/2)
		}
		if n := len(walk(now, now+2000, 8)); n < keys/16 || n > keys/4 {
			t.Errorf("%s: a sample of one in 8 has %d of %d keys", place, n, keys)
		}
		if err := h.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		h.evict()
	}
	if h.s.WalkDue(now, now+2000, 1, func([]DueKey) bool { return false }) {
		t.Error("it was ended, and is whole")
	}
	global := h.s.NewTxn()
	h.s.BeginGlobal(global, nil)
	if h.s.WalkDue(now, now+2000, 1, func([]DueKey) bool { return true }) {
		t.Error("it visited what a global transaction has")
	}
	if _, _, err := h.s.NextDue(2, now, now+1000, 10, anyName); err != errTaken {
		t.Errorf("what a global transaction has is listed: %v", err)
	}
	global.End()
}

// A list has the first visible keys of its span, whether they are in memory or on disk, and reports
// the deadline up to which it is complete.
func TestNextDue(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	for i := range 300 {
		k := h.s.Key(1, fmt.Appendf(nil, "k%03d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+int64(i/3)*1000+1), Event{}) },
			k)
	}
	list := func(from, until int64, limit int,
		keep func([]byte) bool) (names []string, through int64) {
		found, through, err := h.s.NextDue(1, from, until, limit, keep)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range found {
			names = append(names, string(k.Name))
		}
		slices.Sort(names) // those of one instant have another order
		return names, through
	}
	odd := func(name []byte) bool { return name[len(name)-1]%2 == 1 }
	for _, place := range []string{"in memory", "on disk"} {
		if names, through := list(now+1000, now+3000, 100, anyName); !slices.Equal(names,
			[]string{"k003", "k004", "k005", "k006", "k007", "k008"}) || through != now+3000 {
			t.Errorf("%s: %v up to %d", place, names, through-now)
		}
		if names, through := list(now, now+300_000, 4, odd); !slices.Equal(names,
			[]string{"k001", "k003", "k005", "k007"}) || through != now+3001 {
			t.Errorf("%s: %v up to %d", place, names, through-now)
		}
		if names, through := list(now+900_000, now+999_000, 4, anyName); len(names) != 0 ||
			through != now+999_000 {
			t.Errorf("%s: %v up to %d", place, names, through-now)
		}
		if err := h.s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		h.evict()
	}
	if n := h.s.Stats().Resident; n != 0 {
		t.Errorf("%d keys are in memory", n)
	}
}

// verifyDue checks that listing the due keys neither misses a key nor finds a wrong one, whatever
// has just happened to the store.
func (h *harness) verifyDue() {
	h.t.Helper()
	if h.s.quit.Err() != nil {
		return // lists are refused
	}
	now := h.now()
	const until = int64(1) << 61
	for db := range h.databases {
		list, through, err := h.s.NextDue(db, now+1, until, 100_000, anyName)
		if err != nil || through != until {
			h.t.Fatalf("what is due is listed up to %d: %v", through, err)
		}
		got := map[string]int64{}
		for _, k := range list {
			if _, twice := got[string(k.Name)]; twice {
				h.t.Fatalf("key %q is listed twice", k.Name)
			}
			got[string(k.Name)] = k.At
		}
		for n, v := range h.model.live(now) {
			if n.db != db {
				continue
			}
			v.coll = h.model[n].coll
			due, certain := v.earliest(), true
			// Otherwise the store may still have to remove an element.
			v.coll.eachDeadline(func(_ string, at int64) { certain = certain && at > now })
			if at, listed := got[n.key]; certain && (at != due || listed != (due != 0)) {
				h.t.Fatalf("key %q of database %d is due at %d, and listed at %d (%v)", n.key, db,
					due, at, listed)
			}
			delete(got, n.key)
		}
		if len(got) > 0 {
			h.t.Fatalf("database %d: keys are listed that are not there: %v", db, got)
		}
	}
}

// A key whose deadline is raised while a list looks at its shard is listed once, at the later
// deadline.
func TestNextDueOnce(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	now := h.clock.Now()
	const keys = 3 * walkNames
	set := func(i int, at int64) {
		k := h.s.Key(1, fmt.Appendf(nil, "{same}k%03d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(at), Event{}) }, k)
	}
	for i := range keys {
		set(i, now+1000+int64(i))
	}
	raised := false
	list, _, err := h.s.NextDue(1, now, now+100_000, 10*keys, func([]byte) bool {
		if !raised {
			set(0, now+50_000)
		}
		raised = true
		return true
	})
	if first, last := string(list[0].Name), list[len(list)-1]; err != nil || len(list) != keys ||
		first != "{same}k001" || string(last.Name) != "{same}k000" || last.At != now+50_000 {
		t.Errorf("%d keys of %d, from %s to %s at %d (%v)", len(list), keys, first, last.Name,
			last.At-now, err)
	}
}

// TestNextDueMatchesUnlocked: names are matched while no shard is locked, whether keys are in
// memory or on disk, as matching may take long.
func TestNextDueMatchesUnlocked(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	h.s.bounds.group = groupMost // else a page has few keys
	now := h.clock.Now()
	for i := range 2 * walkNames {
		k := h.s.Key(1, fmt.Appendf(nil, "{same}k%03d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(now+int64(i/3)+1), Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		list, _, err := h.s.NextDue(1, now, now+1000, 1000, func(name []byte) bool {
			h.unlocked(place)
			return true
		})
		if err != nil || len(list) != 2*walkNames {
			t.Errorf("%s: %d keys, %v", place, len(list), err)
		}
		h.saved()
		h.evict()
	}
}
