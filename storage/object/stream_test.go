package object

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// streamModel is a plain implementation of a stream. The real one must show the same content.
type streamModel struct {
	entries    []modelEntry
	last       StreamID
	maxDeleted StreamID
	added      uint64
	groups     map[string]*modelGroup
	iids       []modelIID
	duration   int64
	iidsAdded  int64
	duplicates int64
	aging      modelAge
}

type modelEntry struct {
	id     StreamID
	fields string // names and values, joined
}

type modelGroup struct {
	last      StreamID
	read      int64
	consumers map[string][2]int64 // seen, active
	pending   map[StreamID]modelPending
	line      []StreamID // given back, in order
}

type modelPending struct {
	consumer         string // "": none
	delivered, count int64
}

type modelIID struct {
	pid, iid string
	id       StreamID
}

// elementsOf returns a stream's elements by key.
func elementsOf(v Value) map[string]string {
	all := map[string]string{}
	v.Walk(func(elem, val []byte, deadline int64) bool {
		all[string(elem)] = string(val)
		return true
	})
	return all
}

// streamMachine makes the same changes to a stream and to its model. It also keeps a replica, made
// from the elements that the stream reports as changed.
type streamMachine struct {
	s       *Stream
	m       streamModel
	replica map[string]string
	gone    map[string]bool // elements that were removed since it was emptied
}

func newStreamMachine() *streamMachine {
	sm := &streamMachine{s: &Stream{}, replica: map[string]string{}, gone: map[string]bool{}}
	sm.m.groups = map[string]*modelGroup{}
	sm.s.Create(sm.changed)
	return sm
}

func (sm *streamMachine) changed(elem []byte) {
	if val, _, ok := sm.s.Element(elem); ok {
		sm.replica[string(elem)] = string(val)
	} else {
		delete(sm.replica, string(elem))
		sm.gone[string(elem)] = true
	}
}

var (
	someNames  = [][]string{{"a", "b"}, {"a", "b"}, {"a", "b"}, {"a", "c"}, {""}, {"a", "b", "c"}}
	someValues = []string{"", "v", "12", "-7", strings.Repeat("x", 70), strings.Repeat("y", 5000)}
)

// rng returns the source of random numbers for a batch of changes.
func rng(rt *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
}

func (sm *streamMachine) Add(rt *rapid.T) {
	n, rng := rapid.SampledFrom([]int{1, 3, 110}).Draw(rt, "entries"), rng(rt)
	for range n {
		id := sm.m.last
		switch rng.IntN(4) {
		case 0:
			id, _ = id.Next()
		case 1:
			id = StreamID{id.Ms + 1, 0}
		default:
			id = StreamID{id.Ms + 1 + rng.Uint64N(1<<20), rng.Uint64N(300)}
		}
		var fields [][]byte
		for _, name := range someNames[rng.IntN(len(someNames))] {
			fields = append(fields, []byte(name), []byte(someValues[rng.IntN(len(someValues))]))
		}
		key := ListKey(sm.s.Add(id, fields))
		sm.changed(key[:])
		sm.m.entries = append(sm.m.entries, modelEntry{id, joined(fields)})
		sm.m.last = id
		sm.m.added++
	}
}

func joined(fields [][]byte) string { return string(bytes.Join(fields, []byte{0xff})) }

func (sm *streamMachine) Delete(rt *rapid.T) {
	for range rapid.IntRange(1, 40).Draw(rt, "times") {
		if len(sm.m.entries) == 0 {
			return
		}
		at := rapid.OneOf(rapid.IntRange(0, len(sm.m.entries)-1), rapid.Just(len(sm.m.entries)-1),
			rapid.Just(0)).Draw(rt, "at")
		id := sm.m.entries[at].id
		if !sm.s.Delete(id, sm.changed) {
			rt.Fatalf("%v is not there", id)
		}
		if sm.s.Delete(id, sm.changed) {
			rt.Fatalf("%v is there twice", id)
		}
		sm.m.entries = slices.Delete(sm.m.entries, at, at+1)
		if id.Compare(sm.m.maxDeleted) > 0 {
			sm.m.maxDeleted = id
		}
	}
}

func (sm *streamMachine) Trim(rt *rapid.T) {
	n := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 300), rapid.Just(math.MaxInt)).Draw(rt,
		"n")
	n = min(n, len(sm.m.entries))
	gone := map[int64]bool{}
	before := elementsOf(sm.s)
	first, last := sm.s.TrimFirst(n, sm.changed, func(first int64, n int) {
		for ; n > 0; n-- {
			gone[first] = true
			first += NumberStep
		}
	})
	sm.m.entries = slices.Clone(sm.m.entries[n:])
	after := elementsOf(sm.s)
	for key := range before {
		if _, ok := after[key]; len(key) == 8 && !ok {
			number := ListNumber([]byte(key))
			if !gone[number] || number < first || number > last {
				rt.Fatalf("trim did not name %d", number)
			}
			delete(sm.replica, key)
		} else if len(key) == 8 && number8(key) >= first && number8(key) <= last {
			rt.Fatalf("trim named %d, which is there", number8(key))
		}
	}
}

func number8(key string) int64 { return ListNumber([]byte(key)) }

func (sm *streamMachine) SetID(rt *rapid.T) {
	id := StreamID{sm.m.last.Ms + uint64(rapid.IntRange(0, 5).Draw(rt, "ms")), sm.m.last.Seq}
	sm.m.last, sm.m.added, sm.m.maxDeleted = id, uint64(rapid.IntRange(0, 1<<40).Draw(rt, "added")),
		id
	sm.s.SetID(id, sm.m.added, id, sm.changed)
}

func (sm *streamMachine) id(rt *rapid.T) StreamID { return sm.drawID(rng(rt)) }

func (sm *streamMachine) drawID(rng *rand.Rand) StreamID {
	if len(sm.m.entries) > 0 && rng.IntN(2) == 0 {
		return sm.m.entries[rng.IntN(len(sm.m.entries))].id
	}
	return StreamID{rng.Uint64N(50), 1}
}

func (sm *streamMachine) Group(rt *rapid.T) {
	name := rapid.SampledFrom([]string{"", "g1", "g2", strings.Repeat("g", 300)}).Draw(rt, "group")
	last, read := sm.id(rt), int64(rapid.IntRange(-1, 9).Draw(rt, "read"))
	g := sm.m.groups[name]
	switch {
	case g == nil:
		sm.s.CreateGroup([]byte(name), last, read, sm.changed)
		sm.m.groups[name] = &modelGroup{last: last, read: read, consumers: map[string][2]int64{},
			pending: map[StreamID]modelPending{}}
	case rapid.IntRange(0, 9).Draw(rt, "destroy") == 0:
		if !sm.s.DestroyGroup([]byte(name), sm.changed) {
			rt.Fatal("no group to destroy")
		}
		delete(sm.m.groups, name)
	default:
		sm.s.SetGroup([]byte(name), last, read, sm.changed)
		g.last, g.read = last, read
	}
}

// group draws a group.
func (sm *streamMachine) group(rt *rapid.T) (string, *modelGroup) {
	if len(sm.m.groups) == 0 {
		rt.Skip("no groups")
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(sm.m.groups))).Draw(rt, "group")
	return name, sm.m.groups[name]
}

func (sm *streamMachine) Consumer(rt *rapid.T) {
	group, g := sm.group(rt)
	name := rapid.SampledFrom([]string{"", "alice", "bob"}).Draw(rt, "consumer")
	_, there := g.consumers[name]
	now := int64(rapid.IntRange(0, 1000).Draw(rt, "now"))
	switch {
	case !there:
		if !sm.s.CreateConsumer([]byte(group), []byte(name), now, sm.changed) {
			rt.Fatal("the consumer was there")
		}
		g.consumers[name] = [2]int64{now, -1}
	case rapid.IntRange(0, 5).Draw(rt, "delete") == 0:
		n, ok := sm.s.DeleteConsumer([]byte(group), []byte(name), sm.changed)
		want := 0
		for id, p := range g.pending {
			if p.consumer == name+"!" {
				want++
				delete(g.pending, id)
			}
		}
		delete(g.consumers, name)
		if !ok || n != want {
			rt.Fatalf("deleted a consumer with %d pending (%t), want %d", n, ok, want)
		}
	default:
		sm.s.Touch([]byte(group), []byte(name), now, now-1, sm.changed)
		g.consumers[name] = [2]int64{now, now - 1}
	}
}

func (sm *streamMachine) Deliver(rt *rapid.T) {
	group, g := sm.group(rt)
	n, rng := rapid.SampledFrom([]int{1, 20, 140}).Draw(rt, "times"), rng(rt)
	for range n {
		id := sm.drawID(rng)
		delivered, count := rng.Int64N(6), rng.Int64N(4)
		g.line = slices.DeleteFunc(g.line, func(other StreamID) bool { return other == id })
		names := slices.Sorted(maps.Keys(g.consumers))
		if i := rng.IntN(len(names)+1) - 1; i >= 0 {
			sm.s.Deliver([]byte(group), []byte(names[i]), id, delivered, count, sm.changed)
			g.pending[id] = modelPending{names[i] + "!", delivered, count}
		} else {
			sm.s.Deliver([]byte(group), nil, id, delivered, count, sm.changed)
			g.pending[id] = modelPending{"", 0, count}
			g.line = append(g.line, id)
		}
	}
}

func (sm *streamMachine) Ack(rt *rapid.T) {
	group, g := sm.group(rt)
	n, rng := rapid.SampledFrom([]int{1, 100}).Draw(rt, "times"), rng(rt)
	for range n {
		id := sm.drawID(rng)
		_, want := g.pending[id]
		if got := sm.s.Ack([]byte(group), id, sm.changed); got != want {
			rt.Fatalf("Ack of %v gave %t", id, got)
		}
		delete(g.pending, id)
		g.line = slices.DeleteFunc(g.line, func(other StreamID) bool { return other == id })
	}
}

func (sm *streamMachine) Idempotence(rt *rapid.T) {
	m := &sm.m
	switch rapid.IntRange(0, 8).Draw(rt, "op") {
	case 0:
		d := int64(rapid.IntRange(1, 2).Draw(rt, "duration"))
		sm.s.SetIdempotence(d, 3, sm.changed)
		if d != m.duration {
			m.iids, m.duration = nil, d
		}
	case 1:
		sm.s.Duplicate(sm.changed)
		m.duplicates++
	case 2:
		before := int64(rapid.IntRange(0, 50).Draw(rt, "before"))
		n := sm.s.ForgetIdempotent(before, 2, sm.changed)
		for want := 0; want < n; want++ {
			if m.iids[0].id.Ms >= uint64(before) {
				rt.Fatal("forgot an id that is not due")
			}
			m.iids = m.iids[1:]
		}
		if n < 2 && len(m.iids) > 0 && m.iids[0].id.Ms < uint64(before) {
			rt.Fatal("did not forget an id")
		}
	default:
		x := modelIID{rapid.SampledFrom([]string{"p", "pp", strings.Repeat("p", 200)}).Draw(rt,
			"pid"), fmt.Sprint("i", m.iidsAdded), sm.id(rt)}
		sm.s.AddIdempotent([]byte(x.pid), []byte(x.iid), x.id, 3, sm.changed)
		m.iidsAdded++
		m.iids = append(m.iids, x)
		of := 0
		for _, y := range m.iids {
			if y.pid == x.pid {
				of++
			}
		}
		m.iids = slices.DeleteFunc(m.iids, func(y modelIID) bool {
			if y.pid != x.pid || of <= 3 {
				return false
			}
			of--
			return true
		})
	}
}

// Reload makes the stream again from its elements, in their order or in another order.
func (sm *streamMachine) Reload(rt *rapid.T) {
	keys := slices.Sorted(maps.Keys(sm.replica))
	s := &Stream{}
	if rapid.Bool().Draw(rt, "shuffled") {
		keys = rapid.Permutation(keys).Draw(rt, "order")
	}
	for _, key := range keys {
		if err := s.Put([]byte(key), []byte(sm.replica[key]), 0); err != nil {
			rt.Fatalf("element %x: %v", key, err)
		}
	}
	sm.s = s
}

// Rewind removes elements and puts them again, like a replay of the log over newer data.
func (sm *streamMachine) Rewind(rt *rapid.T) {
	keys := slices.Sorted(maps.Keys(sm.replica))
	some := rapid.SliceOfN(rapid.IntRange(0, len(keys)-1), 0, 60).Draw(rt, "elements")
	for _, i := range some {
		sm.s.Remove([]byte(keys[i]))
		if _, _, ok := sm.s.Element([]byte(keys[i])); ok {
			rt.Fatalf("element %x is there though removed", keys[i])
		}
	}
	for _, i := range some {
		if err := sm.s.Put([]byte(keys[i]), []byte(sm.replica[keys[i]]), 0); err != nil {
			rt.Fatalf("element %x: %v", keys[i], err)
		}
	}
	if val, ok := sm.replica[string(metaKey[:])]; ok { // the log sets the metadata again
		sm.s.SetAge(rapid.SampledFrom([]int64{0, 7, 1000}).Draw(rt, "age"),
			rapid.SampledFrom([]StreamRefs{KeepRefs, AckedRefs}).Draw(rt, "refs"), nil)
		if err := sm.s.Put(metaKey[:], []byte(val), 0); err != nil {
			rt.Fatal(err)
		}
	}
}

func (sm *streamMachine) Clone(rt *rapid.T) {
	old := sm.s
	before := elementsOf(old)
	sm.s = old.Clone().(*Stream)
	old.Whole() // its elements are about to be the clone's
	sm.Add(rt)
	sm.Delete(rt)
	if len(sm.m.groups) > 0 {
		sm.Deliver(rt)
	}
	if !maps.Equal(before, elementsOf(old)) {
		rt.Fatal("a clone's change changed the original")
	}
}

func (sm *streamMachine) Scan(rt *rapid.T) {
	seen := map[string]int{}
	before := elementsOf(sm.s)
	clear(sm.gone)
	count := rapid.SampledFrom([]int{1, 7, 50}).Draw(rt, "count")
	for cursor, steps := uint64(0), 0; ; steps++ {
		cursor = sm.s.Scan(cursor, count, func(elem, val []byte, _ int64) { seen[string(elem)]++ })
		if cursor == 0 {
			break
		}
		switch {
		case steps > 3:
		case rapid.Bool().Draw(rt, "add"):
			sm.Add(rt)
		case len(sm.m.groups) > 0:
			sm.Deliver(rt)
			sm.Ack(rt)
		}
	}
	for elem := range before {
		if !sm.gone[elem] && seen[elem] != 1 {
			rt.Fatalf("element %x was visited %d times", elem, seen[elem])
		}
	}
}

// Check compares the stream with the model and with its replica.
func (sm *streamMachine) Check(rt *rapid.T) {
	s, m := sm.s, &sm.m
	all := elementsOf(s)
	if !maps.Equal(all, sm.replica) || s.Len() != len(all) {
		rt.Fatalf("the stream has %d elements (Len %d), %d were named", len(all), s.Len(),
			len(sm.replica))
	}
	for elem, val := range all {
		if !TypeStream.Names([]byte(elem)) {
			rt.Fatalf("an element has the name %x", elem)
		}
		if got, _, ok := s.Element([]byte(elem)); !ok || string(got) != val {
			rt.Fatalf("element %x is %x, want %x", elem, got, val)
		}
	}
	if s.LastID() != m.last || s.MaxDeleted() != m.maxDeleted || s.Added() != m.added ||
		s.Entries() != len(m.entries) {
		rt.Fatalf("last %v, deleted %v, added %d, %d entries; want %v, %v, %d, %d", s.LastID(),
			s.MaxDeleted(), s.Added(), s.Entries(), m.last, m.maxDeleted, m.added, len(m.entries))
	}
	if s.IdempotentsAdded() != m.iidsAdded || s.Duplicates() != m.duplicates ||
		s.Idempotents() != len(m.iids) {
		rt.Fatalf("%d idempotent ids, %d added, want %d, %d", s.Idempotents(), s.IdempotentsAdded(),
			len(m.iids), m.iidsAdded)
	}
	for _, x := range m.iids {
		if id, ok := s.Idempotent([]byte(x.pid), []byte(x.iid)); !ok || id != x.id {
			rt.Fatalf("idempotent id %q of %q is %v (%t), want %v", x.iid, x.pid, id, ok, x.id)
		}
	}
	sm.checkEntries(rt)
	sm.checkAges(rt)
	if s.Groups() != len(m.groups) {
		rt.Fatalf("%d groups, want %d", s.Groups(), len(m.groups))
	}
	for name, g := range m.groups {
		sm.checkGroup(rt, s.Group([]byte(name)), g)
	}
	if got := s.measured(); got != s.Bytes() {
		rt.Fatalf("Bytes gives %d, %d counted", s.Bytes(), got)
	}
}

func (sm *streamMachine) checkEntries(rt *rapid.T) {
	s, want := sm.s, sm.m.entries
	from, to := StreamID{}, MaxStreamID
	if len(want) > 0 {
		a, b := rapid.IntRange(0, len(want)-1).Draw(rt, "from"),
			rapid.IntRange(0, len(want)-1).Draw(rt, "to")
		if e, ok := s.Get(want[a].id); !ok || joined(e.append(nil)) != want[a].fields {
			rt.Fatalf("entry %v is %q", want[a].id, joined(e.append(nil)))
		}
		if n := s.Before(want[a].id); n != a {
			rt.Fatalf("%d entries before the one with index %d", n, a)
		}
		if a <= b {
			from, to, want = want[a].id, want[b].id, want[a:b+1]
		}
	}
	for _, reverse := range []bool{false, true} {
		var got []modelEntry
		s.Range(from, to, reverse, func(e StreamEntry) bool {
			got = append(got, modelEntry{e.ID, joined(e.append(nil))})
			return true
		})
		if reverse {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("a range of %d entries gave %d others (reverse %t)", len(want),
				len(got), reverse)
		}
	}
}

func (sm *streamMachine) checkGroup(rt *rapid.T, g *StreamGroup, want *modelGroup) {
	if g == nil || g.LastID != want.last || g.EntriesRead() != want.read ||
		g.Consumers() != len(want.consumers) || g.Pending() != len(want.pending) ||
		g.Nacked() != len(want.line) {
		rt.Fatalf("the group is %+v, want %+v", g, want)
	}
	got := map[StreamID]modelPending{}
	by := map[string]int{}
	name := func(p PendingEntry) string {
		if p.Consumer == nil {
			return ""
		}
		return string(p.Consumer.Name()) + "!"
	}
	g.EachPending(StreamID{}, MaxStreamID, func(p PendingEntry) bool {
		got[p.ID] = modelPending{name(p), p.Delivered, p.Count}
		by[name(p)]++
		return true
	})
	if !maps.Equal(got, want.pending) {
		rt.Fatalf("pending are %v, want %v", got, want.pending)
	}
	var line []StreamID
	last := int64(-1)
	g.EachByTime(func(p PendingEntry) bool {
		if p.Consumer == nil && last < 0 {
			line = append(line, p.ID)
		} else if p.Delivered < last {
			rt.Fatalf("an entry delivered at %d comes after %d", p.Delivered, last)
		} else {
			last = p.Delivered
		}
		delete(got, p.ID)
		return true
	})
	if !slices.Equal(line, want.line) || len(got) > 0 {
		rt.Fatalf("the line is %v, want %v; %d are missing", line, want.line, len(got))
	}
	for name, times := range want.consumers {
		c := g.Consumer([]byte(name))
		if c == nil || c.Seen != times[0] || c.Active != times[1] || c.Pending() != by[name+"!"] {
			rt.Fatalf("consumer %q is %+v, want %v with %d pending", name, c, times, by[name+"!"])
		}
		c.EachPending(StreamID{}, MaxStreamID, func(id StreamID) bool {
			if want.pending[id].consumer != name+"!" {
				rt.Fatalf("%v is not pending at %q", id, name)
			}
			return true
		})
	}
}

// measured computes Bytes anew.
func (s *Stream) measured() int {
	c := *s
	c.allocated = 0
	for _, r := range c.runs {
		c.allocated += r.bytes()
	}
	c.groups.allocated = 0
	c.groups.all.byNumber(0, func(g *StreamGroup) bool {
		copied := *g
		copied.allocated = 0
		g.consumers.byNumber(0, func(consumer *StreamConsumer) bool {
			copied.allocated += consumer.bytes()
			return true
		})
		c.groups.allocated += copied.bytes()
		return true
	})
	if c.iids != nil {
		x := *c.iids
		x.allocated = 0
		x.producers.each(namedItem[producer]{}, func(item namedItem[producer]) bool {
			x.allocated += item.it.bytes()
			return true
		})
		c.iids = &x
	}
	return c.Bytes()
}

// TestStreamModel: whatever operations are done, a stream shows the same as its model. Putting its
// reported elements, in any order, gives the same stream. Clones are independent. A scan visits
// each element that stays once.
func TestStreamModel(t *testing.T) {
	t.Cleanup(func() { SetThresholds(DefaultThresholds) })
	rapid.Check(t, func(rt *rapid.T) {
		l := DefaultThresholds
		l.StreamEntries = rapid.SampledFrom([]int{0, 1, 5, 100}).Draw(rt, "entries")
		l.StreamBytes = rapid.SampledFrom([]int{0, 1, 300, 4096}).Draw(rt, "bytes")
		SetThresholds(l)
		sm := newStreamMachine()
		rt.Repeat(map[string]func(*rapid.T){
			"add": sm.Add, "add more": sm.Add, "delete": sm.Delete, "trim": sm.Trim,
			"setid": sm.SetID,
			"group": sm.Group, "consumer": sm.Consumer, "deliver": sm.Deliver, "ack": sm.Ack,
			"idempotence": sm.Idempotence, "reload": sm.Reload, "rewind": sm.Rewind,
			"clone": sm.Clone,
			"scan":  sm.Scan, "leave": sm.Leave, "load": sm.Load, "age": sm.Age,
			"expire":   sm.Expire,
			"renumber": sm.Renumber, "": sm.Check,
		})
	})
}

// TestStreamExtremes: everything that a stream accepts it can also load again, including the
// largest numbers and numbers that have overflowed.
func TestStreamExtremes(t *testing.T) {
	s := NewStream()
	s.Add(StreamID{5, 0}, [][]byte{[]byte("f"), []byte("v")})
	s.SetID(MaxStreamID, math.MaxUint64, MaxStreamID, nil)
	reads := map[string]int64{"none": -1, "some": 7, "most": math.MaxInt64,
		"overflown": math.MinInt64}
	for name, read := range reads {
		s.CreateGroup([]byte(name), MaxStreamID, read, nil)
		s.CreateGroup([]byte("set-"+name), StreamID{}, 0, nil)
		s.SetGroup([]byte("set-"+name), MaxStreamID, read, nil)
	}
	group, consumer := []byte("most"), []byte("c")
	s.CreateConsumer(group, consumer, 1, nil)
	s.Touch(group, consumer, math.MaxInt64, math.MaxInt64, nil)
	s.Deliver(group, consumer, MaxStreamID, math.MaxInt64, math.MaxInt64, nil)
	s.SetIdempotence(math.MaxInt64, math.MaxInt64, nil)
	s.SetIdempotentCounts(0, math.MaxInt64, nil)
	s.Duplicate(nil)

	to := &Stream{}
	s.Walk(func(elem, val []byte, deadline int64) bool {
		if err := to.Put(elem, val, deadline); err != nil {
			t.Errorf("element %x of %x: %v", elem, val, err)
		}
		return true
	})
	if got, want := elementsOf(to), elementsOf(s); !maps.Equal(got, want) {
		t.Errorf("loaded %x, want %x", got, want)
	}
	for name, read := range reads {
		for _, g := range []*StreamGroup{to.Group([]byte(name)), to.Group([]byte("set-" + name))} {
			if got, want := g.EntriesRead(), max(read, -1); got != want {
				t.Errorf("group %s has read %d, want %d", name, got, want)
			}
		}
	}
	if c := to.Group(group).Consumer(consumer); c.Active != math.MaxInt64 {
		t.Errorf("active at %d", c.Active)
	}
}
