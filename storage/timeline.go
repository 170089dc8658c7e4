package storage

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/ttl"
)

// A timeline counts the keys that are due in each of several equal spans of time. A key counts
// once, at its next deadline: its own or the first of an element, whichever is earlier.
//
// The deadlines in memory and those on disk (duedisk.go) are counted in bins: small spans of time
// with a known number of deadlines each (ttl.Bins). All bins that are wholly in a span give an
// exact number. If a bin is only partly in the span, its deadlines in memory are looked at one by
// one, unless there are very many. Its deadlines on disk are looked at only if few keys are due in
// all spans. Otherwise the number is estimated, between bounds that are certain.
//
// Most numbers are right for one instant: a shard is locked once to count its keys of a span, in
// memory and on disk. But counting takes long if it reads the data file or compares names. Then the
// shard is unlocked in between, keys may move between memory and disk, and the shard is counted
// again. If that happens too often, the bounds are widened by the number of keys that have moved.
//
// If an element of a key is due and has not been removed yet, the key's next deadline is a later
// one, which no index has. Such keys are looked at one by one. They are few, because the reaper
// removes due elements.

const (
	// exactMost is how many deadlines a timeline looks at one by one if it needs no names.
	exactMost = 100_000
	// timelineElements bounds the elements that are looked at for the next deadline each time a
	// shard is locked.
	timelineElements = 4096
	// timelineTries is how often a timeline counts again because keys have moved meanwhile.
	timelineTries = 3
)

// Instant is an instant for a timeline, in Unix ms. If it is Open, it means the present at the
// start of a timeline, and a time after the last deadline at the end.
type Instant struct {
	At   int64
	Open bool
}

// DueSpan is a span of time, from an instant in Unix ms up to the next one, and how many keys are
// due in it.
type DueSpan struct {
	From int64
	ttl.Span
}

// Timeline counts the keys of a database that are due at from or later, and before until. It
// divides this time into equal spans: as many as spans says, or one for each millisecond if there
// are fewer. Their lengths differ by at most one millisecond. There is no span if until is not
// after from. Keys that are due at the time of the call do not count. If match is not nil, only
// keys with matching names count, and Timeline looks at all names in the spans. The error is about
// the data file, or ErrClosed. While match runs, only the shards of a transaction are locked.
//
// Timeline leaves out due keys. These keys never return once the log is durable up to the end that
// it has when Timeline returns. That does not hold for Store.Monitoring.
func (v View) Timeline(db int, from, until Instant, spans int,
	match func(name []byte) bool) (list []DueSpan, err error) {
	v.applyPostponed(db)
	for try := 1; ; try++ {
		l := timeline{View: v, db: db, now: v.now(), match: match, exact: v.s.bounds.exact,
			first: max(from.At, math.MinInt64+1), last: until.At - 1}
		if l.space, err = v.keyspaceOf(db); err != nil {
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
		space, err := v.keyspaceOf(db)
		if err != nil {
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

// spaceNow is the keyspace that a database has at some time. If both fields are the same at two
// times, the database has had the keyspace all the time between them. The id alone does not show
// that: a second swap may bring a keyspace back.
type spaceNow struct {
	id    uint32
	swaps uint64 // an emptied database has a new id instead
}

// timeline is a timeline under way.
type timeline struct {
	View
	db    int
	now   int64
	match func(name []byte) bool
	exact int // how many entries are looked at one by one in memory, and on disk
	space spaceNow

	first, last int64   // through the last
	starts      []int64 // of spans
	hidden      bool    // it has left out keys that are due, or may have
	loose       bool    // keys that move between memory and disk may be counted twice or not at all
	parts       []*part // by shard, as they were at the beginning
	moves       []int64 // theirs

	memory, disk []ttl.Span // by span
	again        []dueAgain // keys with a deadline that has come, and another one
	unknown      int64      // keys that may have one
}

// dueAgain is a key that has a further deadline, after the one that has come.
type dueAgain struct {
	name []byte
	at   int64
	part *part     // nil: it is only on disk
	was  ttl.Entry // its entry in the part's index
}

func (l *timeline) run(open bool, spans int) error {
	if l.s.partials.Load() > 0 {
		if err := l.knowDisk(l.last, l.exact); err != nil {
			return err
		}
	}
	end, err := l.lookAtDue()
	if err != nil {
		return err
	}
	if open {
		l.last = end
		if l.unknown > 0 {
			// Keys whose next deadline may be later: the bounds of the last span include them.
			l.last = max(end, l.first, l.now+1)
		}
	}
	l.divide(spans)
	if len(l.starts) == 0 {
		return nil
	}
	if l.match != nil {
		return l.countNames()
	}
	most := l.exact
	for _, sh := range l.s.shards {
		if err := l.count(sh, &most); err != nil {
			return err
		}
	}
	low, cut := int64(0), false
	for i := range l.starts {
		low += l.memory[i].Low + l.disk[i].Low
		cut = cut || !l.disk[i].Exact()
	}
	if cut && low <= int64(l.exact) {
		// Perhaps no more are due, whatever the bins of the disk allow for.
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
}

// bounds returns the first and the last instant of a span.
func (l *timeline) bounds(i int) (from, through int64) {
	if i+1 < len(l.starts) {
		return l.starts[i], l.starts[i+1] - 1
	}
	return l.starts[i], l.last
}

// spanOf returns the number of the span that has an instant, -1 for none.
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

// dueIn returns the instant by which keys of a shard are due.
func (l *timeline) dueIn(sh *shard) int64 {
	if l.t != nil {
		return l.t.lockedAt(sh.num, l.t.now)
	}
	return l.now
}

// lookAtDue finds the keys whose next deadline has come, and that have another one. It returns an
// instant that is no earlier than the last deadline.
func (l *timeline) lookAtDue() (end int64, err error) {
	if end, err = l.lookAtDueInMemory(); err != nil {
		return 0, err
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

// lookAtDueInMemory is lookAtDue for keys in memory.
func (l *timeline) lookAtDueInMemory() (end int64, err error) {
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
	return end, nil
}

// keyspaceOf returns the present keyspace of a database.
func (v View) keyspaceOf(db int) (now spaceNow, err error) {
	err = v.locked(v.s.shards[0], func() {
		now = spaceNow{v.s.spaces.ids[db], v.s.spaces.swaps[db]}
	})
	return now, err
}

// begin notes a shard's state at the beginning, and returns its last deadline that has not come.
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
	if p.onDiskIn(0, due).High > 0 { // such a key may come into memory before it is looked for
		l.loose = true
	}
	if e, ok := p.index.Last(); ok && e.Deadline > due {
		last = e.Deadline
	}
	if p.disk != nil {
		if d, ok := p.disk.bins.Last(); ok && d > due {
			last = max(last, d)
		}
	}
	return last
}

// lookAtDueIn is a step of lookAtDue in a part.
func (l *timeline) lookAtDueIn(p *part, from ttl.Entry, due int64,
	looks int) (next ttl.Entry, more bool) {
	if p == nil {
		return next, false
	}
	if looks >= diskLooks {
		none := 0
		l.unknown += p.index.Count(from.Deadline, due, &none).High
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
		if cell(e.ID)&hashtable.Obj == 0 {
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

// lookAtDueOnDisk is lookAtDue for keys that are only on disk.
func (l *timeline) lookAtDueOnDisk() (end int64, err error) {
	end = math.MinInt64
	if place := l.s.lastDue(); place > l.now && !l.diskKnown() {
		end = place
	}
	looks, step := 0, min(l.s.bounds.dueStep, l.exact)
	for place := format.TTLKey(nil, 0, nil); place != nil; looks += step {
		if looks >= l.exact {
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
		err = l.s.file.View(func(tx *bolt.Tx) error {
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

// nextOnDisk finds the next deadline of a key on disk that has a due element.
func (l *timeline) nextOnDisk(tx *bolt.Tx, e diskDue) {
	im, err := format.ParseImage(e.on, tx.Bucket(format.BucketValues).Get(e.on))
	if err != nil || im.Due() != e.At {
		return
	}
	due := l.dueIn(l.s.shards[l.s.shardOf(e.key.Slot)])
	if im.Deadline != 0 && im.Deadline <= due {
		return
	}
	if n := int(im.Elements()); !im.Inline && n > timelineElements {
		l.unknown++
		return
	}
	got, err := readResident(tx, &im)
	if err != nil || got.object == nil {
		return
	}
	at, alive := nextElement(got.object.val, im.Deadline, due)
	if alive && at != 0 {
		l.again = append(l.again, dueAgain{name: e.Name, at: at})
	}
}

// nextElement returns the next deadline after due of a value or its key, whose own deadline is own.
// alive is false if no element is left at due.
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

// lastDue returns an instant that is no earlier than the last deadline on disk.
func (s *Store) lastDue() (at int64) {
	at = math.MinInt64
	_ = s.file.View(func(tx *bolt.Tx) error { // damage is reported where the entry is needed
		if k, _ := tx.Bucket(format.BucketTTL).Cursor().Last(); len(k) >= 8 {
			at = int64(binary.BigEndian.Uint64(k))
		}
		return nil
	})
	return at
}

// diskKnown reports whether the deadlines on disk of all parts were known at the beginning.
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
	return w.begun.Load() && !w.lost.Load() && w.turn.cursor == nil
}
