package storage

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// How many keys are due in each of some equal spans of time. A key counts once, at its next deadline: its own or the first of
// an element, as the expiration index and ttl have it. The cells of the index and of the part's deadlines on disk (duedisk.go)
// give the number in a span but for those of the cells that its ends cut. In memory such a cell is counted, entry by
// entry, as long as the whole call may look at more of them; on disk entries are read where the whole span has few. What is
// not counted so is estimated, between bounds that are certain.
//
// What one shard has in a span, in memory and on disk, is counted while the shard is locked once. So it is true of that
// instant. Only where entries of ttl are read, or names are looked at, keys may move between memory and disk
// meanwhile: then it is counted again, and at last the bounds are wider by as many keys as have moved.
//
// Where the next deadline has come, of an element, and the key is still there, it has another one, which nothing is in
// the order of: such keys are looked at one by one. They are few, as the reaper removes what is due.

const (
	// exactMost is how many deadlines a timeline looks at one by one, and about how large a sample of names is.
	exactMost = 100_000
	// timelineElements bounds the elements that are looked at for the next deadline each time a shard is locked.
	timelineElements = 4096
	// timelineTries is how often a timeline counts again that keys have moved beside.
	timelineTries = 3
	// knownMost, namesMost and walkCost bound what a timeline does within a transaction, for which all others wait: the entries
	// of ttl that it reads each time that it needs some, the entries of which it looks at names, and how many entries of a
	// cell a search for the first one counts for.
	knownMost = 512
	namesMost = 8 << 10
	walkCost  = 32
)

// Instant is an instant for a timeline, in Unix ms, or an end of time: as the begin that is now, as the end it is behind the
// last deadline.
type Instant struct {
	At   int64
	Open bool
}

// DueSpan is a span of time, from an instant in Unix ms up to the next one, and how many keys are due in it.
type DueSpan struct {
	From int64
	ttl.Span
}

// Timeline counts the keys of a database that are due from one instant on and before another, in equal spans of time, spans
// of them or one for each millisecond. Equal are those whose lengths differ by at most one millisecond. There is none if the end is not behind the begin. Keys that are
// due at the time of the call do not count. With match, which may be nil, only keys whose names match do. Where not
// all of them are looked at, the bounds of a Span are those of an interval of 99.9 %; without match they are certain. The error is
// about the data file, or ErrClosed. While match runs no shard is locked, but for those of a transaction.
//
// Keys that it leaves out because they are due never return, once the log is durable up to its end when Timeline returns, but
// for Store.Monitoring.
func (v View) Timeline(db int, from, until Instant, spans int, match func(name []byte) bool) (list []DueSpan, err error) {
	v.settle(db)
	for try := 1; ; try++ {
		l := timeline{View: v, db: db, now: v.now(), match: match, exact: v.s.bounds.exact, known: v.s.bounds.known, first: max(from.At, math.MinInt64+1), last: until.At - 1}
		l.names, l.due, l.elements = min(l.exact, namesMost), dueStep, 2*timelineElements
		if v.t == nil {
			l.known, l.names, l.due, l.elements = l.exact, l.exact, diskLooks, math.MaxInt
		}
		if err := l.keyspaces(&l.space); err != nil {
			return nil, err
		}
		if from.Open {
			l.first = l.now
		}
		if until.Open {
			l.last = math.MaxInt64
		}
		if l.last < l.first || until.At == math.MinInt64 && !until.Open {
			l.last = l.first - 1 // of an empty span; what is due is looked for all the same
		}
		err = l.run(until.Open, spans)
		if l.hidden && !v.passing {
			v.s.logTime()
		}
		if err != nil {
			return nil, err
		}
		moved, err := l.moved()
		if err != nil {
			return nil, err
		}
		space := timelineSpace{}
		if err := l.keyspaces(&space); err != nil {
			return nil, err
		}
		swapped := space != l.space
		if swapped && try >= swapTries {
			for _, p := range v.s.Populations() {
				moved += p.Keys // any of them may be among those that were counted
			}
		}
		if (!swapped || try >= swapTries) && (moved == 0 || try >= timelineTries) || v.t != nil {
			return l.spans(moved), nil
		}
	}
}

// timelineSpace is the keyspace of a timeline's database. Two swaps bring that back, and count.
type timelineSpace struct {
	id    uint32
	swaps uint64
}

// timeline is one that is under way.
type timeline struct {
	View
	db           int
	now          int64
	match        func(name []byte) bool
	exact, known int // bounds: entries that are looked at in memory, and on disk
	names, due   int // those whose names are looked at, and those of a shard, or of the disk, that are due
	elements     int // those on disk that are looked at for the next deadline
	space        timelineSpace

	first, last int64   // through the last
	starts      []int64 // of spans
	hidden      bool    // it has left out keys that are due, or may have
	loose       bool    // it has looked at memory and at the disk at different times
	parts       []*part // by shard, as they were at the begin
	moves       []int64 // theirs

	memory, disk []ttl.Span // by span
	again        []dueAgain // keys with a deadline that has come, and another one
	unknown      int64      // keys that may have one
	seen         [2]sample  // in memory and on disk
}

// dueAgain is a key that has a further deadline, behind the one that has come.
type dueAgain struct {
	name []byte
	at   int64
	part *part     // nil: it is only on disk
	was  ttl.Entry // its entry in the part's index
}

func (l *timeline) run(open bool, spans int) error {
	if l.s.partials.Load() > 0 {
		if err := l.knowDisk(l.last, l.known); err != nil {
			return err
		}
	}
	end, err := l.lookAtDue()
	if err != nil {
		return err
	}
	if open {
		l.last = end
		if l.unknown > 0 { // keys whose next deadline may be later: the bounds of the last span include them
			l.last = max(end, l.first, l.now+1)
		}
	}
	l.divide(spans)
	if len(l.starts) == 0 {
		return nil
	}
	most := l.exact
	for _, sh := range l.s.shards {
		if err := l.count(sh, &most); err != nil {
			return err
		}
	}
	low, high, cut := int64(0), int64(0), false
	for i := range l.starts {
		low += l.memory[i].Low + l.disk[i].Low
		high += l.memory[i].High + l.disk[i].High
		cut = cut || !l.disk[i].Exact()
	}
	switch {
	case l.match != nil:
		return l.sample(high)
	case cut && low <= int64(l.exact): // perhaps no more are due, whatever the cells of the disk allow for
		return l.readDisk()
	}
	return nil
}

// divide makes the spans.
func (l *timeline) divide(spans int) {
	if l.last < l.first {
		return
	}
	size := uint64(l.last) - uint64(l.first) // less 1, so that it cannot overflow
	n := uint64(spans)
	if size < n {
		n = size + 1
	}
	if size != math.MaxUint64 {
		size++
	}
	for i := range n {
		high, low := bits.Mul64(i, size)
		at, _ := bits.Div64(high, low, n)
		l.starts = append(l.starts, l.first+int64(at))
	}
	l.memory, l.disk = make([]ttl.Span, n), make([]ttl.Span, n)
	for i := range l.seen {
		l.seen[i] = sample{make([]int64, n), make([]int64, n)}
	}
}

// bounds are the first and the last instant of a span.
func (l *timeline) bounds(i int) (from, through int64) {
	if i+1 < len(l.starts) {
		return l.starts[i], l.starts[i+1] - 1
	}
	return l.starts[i], l.last
}

// spanOf is the span that has an instant, -1 for none.
func (l *timeline) spanOf(at int64) int {
	if at < l.first || at > l.last {
		return -1
	}
	i, ok := slices.BinarySearch(l.starts, at)
	if ok {
		return i
	}
	return i - 1
}

// dueIn is the instant by which keys of a shard are due.
func (l *timeline) dueIn(sh *shard) int64 {
	if l.t != nil {
		return l.t.lockedAt(sh.num)
	}
	return l.now
}

// lookAtDue finds the keys whose next deadline has come, and that have another one. It returns an instant that is no
// earlier than the last deadline.
func (l *timeline) lookAtDue() (end int64, err error) {
	end = math.MinInt64
	for _, sh := range l.s.shards {
		at, looks := ttl.Entry{}, 0
		for more := true; more; looks += dueStep {
			err := l.locked(sh, func() {
				if looks == 0 {
					end = max(end, l.begin(sh))
				}
				at, more = l.lookAtDueIn(sh.mu.parts[l.db], at, l.dueIn(sh), looks)
			})
			if err != nil {
				return 0, err
			}
		}
	}
	if l.s.partials.Load() > 0 {
		on, err := l.lookAtDueOnDisk()
		if err != nil {
			return 0, err
		}
		end = max(end, on)
	}
	for _, k := range l.again {
		end = max(end, k.at)
	}
	return end, nil
}

// keyspaces gives the database's keyspace.
func (l *timeline) keyspaces(to *timelineSpace) error {
	return l.locked(l.s.shards[0], func() { *to = timelineSpace{l.s.spaces.ids[l.db], l.s.spaces.swaps} })
}

// begin notes how a shard is at the begin, and returns its last deadline that has not come.
func (l *timeline) begin(sh *shard) (last int64) {
	due := l.dueIn(sh)
	if sh.expiredThrough(due) < due {
		l.hidden = true
	}
	last = math.MinInt64
	p := sh.mu.parts[l.db]
	l.parts = append(l.parts, p)
	if p == nil {
		l.moves = append(l.moves, 0)
		return last
	}
	l.moves = append(l.moves, p.moves)
	if e, ok := p.index.Last(); ok && e.Deadline > due {
		last = e.Deadline
	}
	if p.disk != nil {
		if d, ok := p.disk.cells.Last(); ok && d > due {
			last = max(last, d)
		}
	}
	return last
}

// lookAtDueIn is a step of lookAtDue in a part.
func (l *timeline) lookAtDueIn(p *part, from ttl.Entry, due int64, looks int) (next ttl.Entry, more bool) {
	if p == nil {
		return next, false
	}
	if looks >= l.due {
		none := 0
		l.unknown += p.index.Count(from.Deadline, due, &none, 0).High
		return next, false
	}
	n, elements := 0, timelineElements
	p.index.WalkFrom(from, func(e ttl.Entry) bool {
		if e.Deadline > due {
			return false
		}
		if n++; n > dueStep || elements <= 0 {
			next, more = e, true
			return false
		}
		if cell(e.ID)&cellObj == 0 {
			return true
		}
		o := p.objects.at(uint32(e.ID))
		switch {
		case o.deadline != 0 && o.deadline <= due:
		case o.val.Len() > timelineElements:
			l.unknown++
		default:
			elements -= o.val.Len()
			at, alive := nextElement(o.val, o.deadline, due)
			if alive && at != 0 {
				l.again = append(l.again, dueAgain{name: o.name(), at: at, part: p, was: e})
			}
		}
		return true
	})
	return next, more
}

// lookAtDueOnDisk is lookAtDue of what is only on disk.
func (l *timeline) lookAtDueOnDisk() (end int64, err error) {
	end = math.MinInt64
	if place := l.s.lastDue(); place > l.now && !l.diskKnown() {
		end = place
	}
	looks, step := 0, min(l.s.bounds.dueStep, l.known)
	for place := format.TTLKey(nil, 0, nil); place != nil; looks += step {
		if looks >= l.known {
			most, err := l.onDiskThrough(l.now)
			l.unknown += most
			return end, err
		}
		var list []diskDue
		if list, place, err = l.s.readDue(place, l.now+1, step); err != nil {
			return end, err
		}
		list = slices.DeleteFunc(list, func(e diskDue) bool { return !e.Element })
		if list, err = l.onlyOn(list); err != nil {
			return end, err
		}
		if len(list) == 0 {
			continue
		}
		l.loose = true
		err = l.s.file.view(func(tx *bolt.Tx) error {
			for _, e := range list {
				l.nextOnDisk(tx, e)
			}
			return nil
		})
		if err != nil {
			return end, err
		}
	}
	return end, nil
}

// nextOnDisk finds the next deadline of a key on disk of which an element is due.
func (l *timeline) nextOnDisk(tx *bolt.Tx, e diskDue) {
	im, err := format.ParseImage(e.on, tx.Bucket(format.BucketValues).Get(e.on))
	if err != nil || im.Due() != e.At {
		return
	}
	due := l.dueIn(l.s.shards[l.s.shardOf(e.key.Slot)])
	if im.Deadline != 0 && im.Deadline <= due {
		return
	}
	if n := int(im.Elements()); !im.Inline && n > timelineElements || l.elements <= 0 {
		l.unknown++
		return
	}
	got, err := readResident(tx, &im)
	if err != nil || got.object == nil {
		return
	}
	l.elements -= got.object.val.Len()
	at, alive := nextElement(got.object.val, im.Deadline, due)
	if alive && at != 0 {
		l.again = append(l.again, dueAgain{name: e.Name, at: at})
	}
}

// nextElement is when a value is due next after due, with its key's own deadline; alive is false if none of its elements is left then.
func nextElement(v object.Value, own, due int64) (at int64, alive bool) {
	at = own
	if s, ok := v.(*object.Stream); ok {
		s.Deadlines(due, func(deadline int64) bool {
			at = format.Earlier(at, deadline)
			return false
		})
		return at, true
	}
	v.Walk(func(_, _ []byte, deadline int64) bool {
		if deadline == 0 || deadline > due {
			alive = true
			at = format.Earlier(at, deadline)
		}
		return true
	})
	return at, alive
}

// lastDue is no earlier than the last deadline on disk.
func (s *Store) lastDue() (at int64) {
	at = math.MinInt64
	_ = s.file.view(func(tx *bolt.Tx) error { // damage is reported where the entry is needed
		if k, _ := tx.Bucket(format.BucketTTL).Cursor().Last(); len(k) >= 8 {
			at = int64(binary.BigEndian.Uint64(k))
		}
		return nil
	})
	return at
}

// diskKnown reports whether the deadlines on disk of all parts were known at the begin.
func (l *timeline) diskKnown() bool {
	w := &l.s.diskWalk
	if l.t != nil {
		if !w.turn.TryLock() {
			return false
		}
	} else {
		w.turn.Lock()
	}
	defer w.turn.Unlock()
	return w.begun.Load() && !w.lost.Load() && w.turn.place == nil
}

// onDiskThrough is the most that can be due on disk by an instant.
func (l *timeline) onDiskThrough(at int64) (n int64, err error) {
	for _, sh := range l.s.shards {
		err := l.locked(sh, func() {
			if p := sh.mu.parts[l.db]; p != nil {
				n += p.onDiskIn(0, at).High
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// onDiskIn is how many deadlines of keys that are only on disk are in a span. The shard is locked.
func (p *part) onDiskIn(from, through int64) (s ttl.Span) {
	d := p.disk
	switch {
	case p.shard.store.partials.Load() == 0:
		return s
	case d == nil:
		return ttl.Span{High: max(p.keys-int64(p.index.Len()), 0)}
	}
	s = d.cells.Count(from, through, nil)
	if d.through != nil && through >= int64(binary.BigEndian.Uint64(d.through)) {
		s.High += max(p.keys-int64(p.index.Len()+d.cells.Len()), 0)
	}
	return s
}

// count counts what a shard has in each span.
func (l *timeline) count(sh *shard, most *int) error {
	for i := 0; i < len(l.starts); {
		if err := l.locked(sh, func() { i = l.countSome(sh, i, most) }); err != nil {
			return err
		}
	}
	return nil
}

// countSome counts what a shard has in some spans from one on, and returns the next.
func (l *timeline) countSome(sh *shard, i int, most *int) (next int) {
	p := sh.mu.parts[l.db]
	if p == nil {
		return len(l.starts)
	}
	due := l.dueIn(sh)
	cost, whole := 0, false
	if l.t != nil {
		if whole = i == 0 && l.walkWhole(p, max(l.first, due+1), most); !whole {
			cost = walkCost
		}
	}
	end := min(i+dueStep, len(l.starts))
	if whole {
		end = len(l.starts)
	}
	for had := *most; i < end && (whole || had-*most < 2*dueStep); i++ {
		from, through := l.bounds(i)
		if due > l.now && from <= due { // what the transaction has written itself may be there
			none := 0
			l.memory[i].High += p.index.Count(max(from, l.now+1), min(through, due), &none, 0).High
		}
		if from = max(from, due+1); from > through {
			continue
		}
		if !whole {
			l.memory[i].Add(p.index.Count(from, through, most, cost))
		}
		l.disk[i].Add(p.onDiskIn(from, through))
	}
	return i
}

// walkWhole counts all that a part has in memory in the spans, from an instant on, in one walk over the entries; false where they may
// be more than most.
func (l *timeline) walkWhole(p *part, from int64, most *int) bool {
	none := 0
	high := p.index.Count(from, l.last, &none, 0).High
	if high > int64(*most) {
		return false
	}
	*most -= int(high)
	i := 0
	p.index.Walk(from, func(e ttl.Entry) bool {
		if e.Deadline > l.last {
			return false
		}
		for i+1 < len(l.starts) && l.starts[i+1] <= e.Deadline {
			i++
		}
		l.memory[i].Add(ttl.Exactly(1))
		return true
	})
	return true
}

// onlyOn are those of the entries whose keys are only on disk, in the database.
func (l *timeline) onlyOn(list []diskDue) (only []diskDue, err error) {
	list = slices.DeleteFunc(list, func(e diskDue) bool { return e.At <= 0 })
	shardOf := func(e diskDue) int { return l.s.shardOf(e.key.Slot) }
	slices.SortStableFunc(list, func(a, b diskDue) int { return cmp.Compare(shardOf(a), shardOf(b)) })
	var doubtful []diskDue
	for len(list) > 0 {
		sh, n := l.s.shards[shardOf(list[0])], 1
		for n < len(list) && shardOf(list[n]) == sh.num {
			n++
		}
		err := l.locked(sh, func() {
			sure, unsure := sh.missing(list[:n])
			only, doubtful = append(only, sure...), append(doubtful, unsure...)
		})
		if err != nil {
			return nil, err
		}
		list = list[n:]
	}
	only, err = l.s.certain(only, doubtful)
	return slices.DeleteFunc(only, func(e diskDue) bool { return e.DB != l.db }), err
}

// walkDisk visits the keys that are only on disk and due in the spans, up to an instant: the last, or one before which
// there was more to read.
func (l *timeline) walkDisk(visit func(e diskDue, span int)) (through int64, err error) {
	l.loose = true
	looks, step, until := 0, min(l.s.bounds.dueStep, l.known), l.last
	if until < math.MaxInt64 {
		until++
	}
	for place := format.TTLKey(nil, max(l.first, l.now+1), nil); place != nil; looks += step {
		if looks >= 2*l.known {
			return int64(binary.BigEndian.Uint64(place)) - 1, nil
		}
		var list []diskDue
		if list, place, err = l.s.readDue(place, until, step); err != nil {
			return 0, err
		}
		if list, err = l.onlyOn(list); err != nil {
			return 0, err
		}
		for _, e := range list {
			if i := l.spanOf(e.At); i >= 0 && e.At > l.dueIn(l.s.shards[l.s.shardOf(e.key.Slot)]) {
				visit(e, i)
			}
		}
	}
	return l.last, nil
}

// readDisk counts the keys on disk by their entries in ttl.
func (l *timeline) readDisk() error {
	found := make([]int64, len(l.starts))
	through, err := l.walkDisk(func(_ diskDue, span int) { found[span]++ })
	if err != nil {
		return err
	}
	for i := range l.starts {
		if _, end := l.bounds(i); end <= through {
			l.disk[i] = ttl.Exactly(found[i])
		}
	}
	return nil
}

// moved is how many keys may have been counted twice or not at all: they have moved between memory and disk, or their elements that
// were due are gone.
func (l *timeline) moved() (n int64, err error) {
	if !l.loose && len(l.again) == 0 {
		return 0, nil
	}
	for i, sh := range l.s.shards {
		err := l.locked(sh, func() {
			p := sh.mu.parts[l.db]
			if p == nil || p != l.parts[i] {
				return // what it had is gone
			}
			if l.loose {
				n += p.moves - l.moves[i]
			}
			for _, k := range l.again {
				if k.part == p && !p.index.Has(k.was.ID, k.was.Deadline) {
					n++
				}
			}
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// spans gives the result, if so many keys have moved.
func (l *timeline) spans(moved int64) []DueSpan {
	list := make([]DueSpan, len(l.starts))
	for i, from := range l.starts {
		s := l.memory[i]
		s.Add(l.disk[i])
		if _, through := l.bounds(i); through > l.now {
			s.Low, s.High = max(s.Low-moved, 0), s.High+moved+l.unknown
		}
		list[i] = DueSpan{From: from, Span: s}
	}
	for _, k := range l.again {
		if i := l.spanOf(k.at); i >= 0 && (l.match == nil || l.match(k.name)) {
			list[i].Add(ttl.Exactly(1))
		}
	}
	return list
}

// sample is how many keys of each span were looked at, and how many of them match.
type sample struct{ looks, matches []int64 }

func (s *sample) see(span int, matches bool) {
	s.looks[span]++
	if matches {
		s.matches[span]++
	}
}

// sample has names looked at: those of all keys of the spans, if they are few, else of some.
func (l *timeline) sample(high int64) error {
	l.loose = true
	every, most := uint64(1), math.MaxInt
	if high > int64(l.names) {
		if every = max(uint64(high)/uint64(max(l.names, 1)), 1); l.t != nil {
			every, most = 1, l.names/len(l.s.shards)
		}
	}
	whole := true
	for _, sh := range l.s.shards {
		all, err := l.sampleIn(sh, every, most)
		if err != nil {
			return err
		}
		whole = whole && all
	}
	through, seen := l.last, &l.seen[1]
	if l.s.partials.Load() > 0 {
		var err error
		if through, err = l.walkDisk(func(e diskDue, span int) { seen.see(span, l.match(e.Name)) }); err != nil {
			return err
		}
	}
	for i := range l.starts {
		switch {
		case every == 1 && whole:
			l.memory[i] = ttl.Exactly(l.seen[0].matches[i])
		case whole:
			l.memory[i] = l.seen[0].infer(i, l.memory[i])
		default:
			l.memory[i] = l.seen[0].certain(i, l.memory[i])
		}
		if _, end := l.bounds(i); end <= through {
			l.disk[i] = ttl.Exactly(seen.matches[i])
		} else {
			l.disk[i] = seen.certain(i, l.disk[i])
		}
	}
	return nil
}

// sampleIn looks at names of a shard; false if there are more than most, about.
func (l *timeline) sampleIn(sh *shard, every uint64, most int) (whole bool, err error) {
	due := l.dueIn(sh)
	w := dueWalk{s: l.s, until: l.last, every: every}
	if w.until < math.MaxInt64 {
		w.until++
	}
	at := ttl.Entry{Deadline: max(l.first, due+1)}
	for more := true; more; {
		if w.looks > most {
			return false, nil
		}
		if err := l.locked(sh, func() { at, more = w.inMemory(sh.mu.parts[l.db], l.db, at) }); err != nil {
			return false, err
		}
		for _, k := range w.list {
			if i := l.spanOf(k.At); i >= 0 {
				l.seen[0].see(i, l.match(k.Name))
			}
		}
		w.list, w.names = w.list[:0], w.names[:0]
	}
	return true, nil
}

// certain is how many keys of a span match, if some of so many were looked at.
func (s *sample) certain(span int, all ttl.Span) ttl.Span {
	looks, matches := s.looks[span], s.matches[span]
	high := max(all.High-(looks-matches), matches)
	estimate := matches
	if looks > 0 {
		estimate = int64(float64(all.Estimate) * float64(matches) / float64(looks))
	}
	return ttl.Span{Low: matches, Estimate: min(max(estimate, matches), high), High: high}
}

// infer is how many keys of a span match, if some of so many were looked at that were chosen at random: the interval of
// Wilson with a confidence of 99.9 %.
func (s *sample) infer(span int, all ttl.Span) ttl.Span {
	sure := s.certain(span, all)
	if s.looks[span] == 0 {
		return sure
	}
	const z = 3.2905
	n := float64(s.looks[span])
	share := float64(s.matches[span]) / n
	center := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	low := max(sure.Low, int64(math.Floor(float64(all.Low)*(center-half))))
	high := max(min(sure.High, int64(math.Ceil(float64(all.High)*(center+half)))), low)
	return ttl.Span{Low: low, Estimate: min(max(sure.Estimate, low), high), High: high}
}
