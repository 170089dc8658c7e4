package storage

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/ttl"
)

// This file lists keys in the order of their deadlines, page by page. The list is by own deadlines,
// or by next deadlines. A key's next deadline is its own or the first one of its elements,
// whichever is earlier.
//
// Keys with the same deadline are in the order of their slots, and within a slot in the order of
// the hashes of their names. The bucket ttl of the data file is in this order. In memory the
// expiration index is, too, except within a slot, where a page sorts keys with the same deadline
// itself. So a DueCursor is enough to continue the list: the server keeps no state between two
// pages, and keys may move between memory and disk.
//
// The expiration index and ttl are by next deadlines. If a key's next deadline is that of an
// element, another index has its own deadline: ownDeadlines for keys in memory, laterDeadlines for
// keys that are only on disk.
//
// A page looks at memory first, and then at the disk. A key that moves between the two meanwhile is
// found in at least one of them, and one that is found in both is listed once. An entry of ttl may
// be outdated, so it is compared with the key in memory, or with the key's record if the key is
// only on disk. A key whose deadline changes meanwhile may be missing, or be listed at a later
// place.

// DueCursor is a place in the order in which keys are due.
type DueCursor struct {
	Deadline int64
	Slot     uint16
	Hash     uint64 // of the key
}

// DueEnd is after all keys, including those of the last instant.
var DueEnd = DueCursor{Deadline: math.MaxInt64, Slot: Slots}

func (a DueCursor) compare(b DueCursor) int {
	return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.Slot, b.Slot),
		cmp.Compare(a.Hash, b.Hash))
}

// Before reports whether a place is before another one.
func (a DueCursor) Before(b DueCursor) bool { return a.compare(b) < 0 }

// behindSlot returns the first place after all keys of a slot that have this deadline.
func behindSlot(deadline int64, slot uint16) DueCursor {
	if slot+1 < Slots || deadline == math.MaxInt64 {
		return DueCursor{Deadline: deadline, Slot: slot + 1}
	}
	return DueCursor{Deadline: deadline + 1}
}

const (
	// groupMost is how many keys of one slot with one deadline are taken from the index. If there
	// are more, they are taken from the slot's table: then each deadline needs a look at all keys
	// of the table.
	groupMost = 2 * dueStep
	// coverMost bounds how many entries of ttl a page reads that are before its beginning. Such an
	// entry may be for an element, and the key's own deadline may be later, on the page.
	coverMost = 64 << 10
)

// pageBounds contains the bounds of the work for one page.
type pageBounds struct {
	looks int // entries of each shard
	disk  int // entries of ttl, in addition to the number that the page may have
	cover int // entries of ttl before the page's begin
}

// withinMost is how many entries a page within a transaction may have. The transaction has all
// shards locked, so the bounds of such a page keep it to a few milliseconds.
const withinMost = 500

var boundsWithin = pageBounds{looks: 256, disk: 512, cover: 2048}

// Expiring lists the keys of a database by their own deadlines, in the order of their places, from
// from on and before until. It lists about count keys at most: those with matching names, and with
// the type typ ("": any). If more is true, the next page begins at next; a page may be empty even
// then. Due keys are not listed. The error is about the data file, or ErrClosed. While match runs,
// only the shards of a transaction are locked.
//
// It leaves out keys that are due. They never become visible again, provided that the log is
// durable up to the end that it has when Expiring returns.
func (v View) Expiring(db int, from, until DueCursor, count int, match func(name []byte) bool,
	typ string) (list []DueKey, next DueCursor, more bool, err error) {
	l := expiring{View: v, db: db, count: count, match: match, typ: typ, from: from}
	return l.run(until)
}

// NextDue lists the first keys of a database by their next deadlines, from from on and before until
// (Unix ms). It lists about count keys at most, those with matching names. The list has all keys
// that are due before through. It has no due keys. A key whose deadline changes meanwhile is listed
// once, at the later deadline, or not at all. If a global transaction has a shard for too long, the
// error is errTaken.
func (s *Store) NextDue(db int, from, until int64, count int,
	match func(name []byte) bool) (list []DueKey, through int64, err error) {
	l := expiring{View: s.patient(), db: db, count: count, match: match, next: true,
		from: DueCursor{Deadline: from}}
	end := DueCursor{Deadline: until}
	if until == math.MaxInt64 {
		end = DueEnd
	}
	list, next, more, err := l.run(end)
	if !more {
		next.Deadline = until
	}
	last := map[string]int{}
	for i, k := range list {
		last[string(k.Name)] = i
	}
	i := -1
	return slices.DeleteFunc(list, func(k DueKey) bool {
		i++
		return last[string(k.Name)] != i
	}), next.Deadline, err
}

// run makes the page, which ends before until.
func (l *expiring) run(until DueCursor) (list []DueKey, next DueCursor, more bool, err error) {
	v, from := l.View, l.from
	v.applyPostponed(l.db)
	l.now, l.through = v.now(), until
	l.most = pageBounds{looks: dueLooks, disk: diskLooks, cover: v.s.bounds.cover}
	if v.t != nil {
		l.count, l.most = min(l.count, withinMost), boundsWithin
		l.most.cover = min(l.most.cover, v.s.bounds.cover)
	}
	if from.Deadline <= l.now {
		l.clipped, l.from = true, DueCursor{Deadline: l.now + 1}
	}
	begin := l.from
	for tries, same := 0, false; !same && err == nil; tries++ {
		if l.list, l.size, l.through = nil, 0, until; tries == swapTries {
			l.through = begin // the next call tries again
			break
		}
		if same, err = l.page(); tries > 0 || !same {
			l.hidden = true // what the other keyspace had was left out, perhaps
		}
	}
	if l.hidden && !v.passing {
		v.s.logTime()
	}
	if err != nil {
		return nil, from, false, err
	}
	l.trim()
	list = make([]DueKey, len(l.list))
	for i, k := range l.list {
		list[i] = DueKey{DB: l.db, Name: k.name, At: k.cursor.Deadline, Element: k.element}
	}
	return list, l.through, l.through.Before(until), nil
}

// swapTries is how often Expiring builds a page again because its database was emptied or swapped
// with another one meanwhile.
const swapTries = 10

// page fills the list. same is false if the database has been assigned another keyspace meanwhile.
func (l *expiring) page() (same bool, err error) {
	if l.space, err = l.keyspaceOf(l.db); err != nil {
		return false, err
	}
	l.s.later.watch(l)
	defer l.s.later.take(l)
	for _, sh := range l.s.shards {
		if err = l.inMemory(sh); err != nil {
			return false, err
		}
	}
	if l.from.Before(l.through) && l.s.partials.Load() > 0 {
		if err = l.onDisk(); err != nil {
			return false, err
		}
	}
	if err = l.arrived(); err != nil {
		return false, err
	}
	space, err := l.keyspaceOf(l.db)
	return space == l.space, err
}

// expiring is a page under way.
type expiring struct {
	View
	db    int
	now   int64
	count int
	match func(name []byte) bool
	typ   string
	next  bool // by next deadlines, and not by the keys' own

	from, through DueCursor // the list is complete from the one to the other
	clipped       bool      // the page was to begin before now
	hidden        bool      // it has left out keys that are due, or may have
	list          []expiringKey
	size          int // of the list's names

	ids   []ttl.Entry   // of a step
	step  []expiringKey // the same with names
	names []byte        // those of blocks
	cells []cell
	space spaceNow // the database's when the page began

	most pageBounds
}

// expiringKey is a key that was found. The hash in its place is set later, when no shard is locked
// except those of a transaction.
type expiringKey struct {
	cursor  DueCursor
	name    []byte
	typ     object.Type
	element bool // the deadline is that of an element
}

// trim sorts the list, removes duplicates, and cuts the list to the size of a page.
func (l *expiring) trim() {
	slices.SortFunc(l.list, func(a, b expiringKey) int {
		return cmp.Or(a.cursor.compare(b.cursor), bytes.Compare(a.name, b.name))
	})
	l.list = slices.CompactFunc(l.list, func(a, b expiringKey) bool {
		return a.cursor == b.cursor && bytes.Equal(a.name, b.name)
	})
	end := 0
	for l.size = 0; end < len(l.list) && l.list[end].cursor.Before(l.through); end++ {
		if n := len(l.list[end].name); end > 0 && (end >= l.count || l.size+n > listBytes) &&
			l.list[end].cursor != l.list[end-1].cursor {
			l.through = l.list[end].cursor
			break
		}
		l.size += len(l.list[end].name)
	}
	clear(l.list[end:])
	l.list = l.list[:end]
}

// take adds to the list the wanted keys of the step, from from on and before until. Only the shards
// of a transaction are locked.
func (l *expiring) take(from, until DueCursor) {
	for _, k := range l.step {
		if l.typ != "" && k.typ.String() != l.typ {
			continue
		}
		k.cursor.Hash = l.s.hash(k.name)
		if k.cursor.Before(from) || !k.cursor.Before(until) || !k.cursor.Before(l.through) ||
			!l.match(k.name) {
			continue
		}
		if len(k.name) <= maxSlabKey { // a longer one is an object's, and never changes
			k.name = bytes.Clone(k.name)
		}
		l.list = append(l.list, k)
		l.size += len(k.name)
	}
}

// inMemory adds the first keys of a shard.
func (l *expiring) inMemory(sh *shard) error {
	had, size, looks := len(l.list), l.size, 0
	for at, more := l.from, true; more; {
		if len(l.list)-had >= l.count || looks > max(l.most.looks, l.count) ||
			l.size-size > listBytes {
			l.through = at
			break
		}
		next, n, err := l.lookIn(sh, at)
		if err != nil {
			return err
		}
		l.take(at, next)
		looks, at = looks+max(n, 1), next
		more = at.Before(l.through)
	}
	l.trim()
	return nil
}

// lookIn adds the next keys of a shard to the step: those from the place at on, and before next.
func (l *expiring) lookIn(sh *shard, at DueCursor) (next DueCursor, looks int, err error) {
	if err := l.lockOpen(sh); err != nil {
		return at, 0, err
	}
	defer l.unlock(sh)
	l.step, l.names = l.step[:0], l.names[:0]
	if l.clipped && sh.expiredThrough(l.now) < l.now {
		l.hidden = true
	}
	p := sh.mu.parts[l.db]
	if p == nil {
		return l.through, 0, nil
	}
	next, looks, few := l.lookAtIndex(p, at)
	if !few {
		next, looks = l.lookAtSlot(p, at)
	}
	return next, looks, nil
}

// groupOf returns the first possible entry of an index with the slot and the deadline of an entry.
func groupOf(e ttl.Entry) ttl.Entry { return ttl.Entry{Deadline: e.Deadline, ID: e.ID >> 33 << 33} }

func cursorOf(e ttl.Entry) DueCursor {
	return DueCursor{Deadline: e.Deadline, Slot: uint16(e.ID >> 33)}
}

// lookAtIndex finds the keys of the next slots and deadlines in the indexes of a part. few is false
// if too many keys of the first slot have the same deadline.
func (l *expiring) lookAtIndex(p *part, at DueCursor) (next DueCursor, looks int, few bool) {
	start := ttl.Entry{Deadline: at.Deadline, ID: uint64(at.Slot) << 33}
	limit, cut := ttl.Entry{}, false // what is before the limit is found
	l.ids = l.ids[:0]
	gather := func(x *ttl.Index, elements bool) {
		n, inGroup, group := 0, 0, ttl.Entry{}
		x.WalkFrom(start, func(e ttl.Entry) bool {
			g := groupOf(e)
			if g != group {
				group, inGroup = g, 0
			}
			switch {
			case !cursorOf(e).Before(l.through), cut && !g.Before(limit):
				return false
			case inGroup == 0 && n >= walkNames, inGroup == l.s.bounds.group:
				limit, cut = g, true
				return false
			}
			n, inGroup, looks = n+1, inGroup+1, looks+1
			if l.next || !elements || !p.byElement(e) {
				l.ids = append(l.ids, e)
			}
			return true
		})
	}
	gather(p.index, true)
	if p.own.index != nil && !l.next {
		gather(p.own.index, false)
	}
	if cut && limit == start {
		return at, looks, false
	}
	slices.SortFunc(l.ids, func(a, b ttl.Entry) int {
		return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.ID, b.ID))
	})
	next = l.through
	if cut {
		next = cursorOf(limit)
	}
	for _, e := range l.ids {
		if cut && !e.Before(limit) {
			break
		}
		if len(l.names) >= walkBytes {
			return cursorOf(e), looks, groupOf(e) != start
		}
		l.add(p, hashtable.NewCell(0, uint32(e.ID), cell(e.ID)&hashtable.Obj), e.ID, cursorOf(e))
	}
	return next, looks, true
}

// lookAtSlot finds the next keys of one slot with one deadline in the slot's table.
func (l *expiring) lookAtSlot(p *part, at DueCursor) (next DueCursor, looks int) {
	sl := p.slot(Key{Slot: at.Slot})
	l.step, l.names, l.cells = l.step[:0], l.names[:0], l.cells[:0]
	after, done := sl.table.WalkBucket(uint32(at.Hash>>hashtable.HashShift), func(c *cell) {
		if looks++; exists(c) && l.deadline(p, *c) == at.Deadline {
			l.cells = append(l.cells, *c)
		}
	})
	slices.SortFunc(l.cells, func(a, b cell) int { return cmp.Compare(a.Prefix(), b.Prefix()) })
	for i, c := range l.cells {
		if i > 0 && (i >= walkNames || len(l.names) >= walkBytes) &&
			c.Prefix() != l.cells[i-1].Prefix() {
			return DueCursor{Deadline: at.Deadline, Slot: at.Slot,
				Hash: uint64(c.Prefix()) << hashtable.HashShift}, looks
		}
		l.add(p, c, p.id(sl, c), DueCursor{Deadline: at.Deadline, Slot: at.Slot})
	}
	if done {
		return behindSlot(at.Deadline, at.Slot), looks
	}
	return DueCursor{Deadline: at.Deadline, Slot: at.Slot,
		Hash: uint64(after) << hashtable.HashShift}, looks
}

// add adds a key in memory to the step, unless the key has expired at the time of the page.
func (l *expiring) add(p *part, c cell, id uint64, place DueCursor) {
	now := l.now
	if l.t != nil && l.t.late != 0 {
		_, at, _ := p.byID(id)
		now = l.nowFor(p, *at)
	}
	o := p.objectOf(c)
	if place.Deadline <= now || o != nil && o.elementDue(now) && o.val.LenAt(now) == 0 {
		l.hidden = true
		return
	}
	k := expiringKey{cursor: place, typ: object.TypeString,
		element: l.next && p.deadline(c) != place.Deadline}
	if o != nil { // its name never changes, so a long one is not copied while the shard is locked
		k.name, k.typ = o.name(), o.val.Type()
	} else {
		from := len(l.names)
		l.names = append(l.names, p.slabs.At(c.Ref()).Key()...)
		k.name = l.names[from:]
	}
	l.step = append(l.step, k)
}

// deadline returns the deadline by which a key in memory is listed.
func (l *expiring) deadline(p *part, c cell) int64 {
	if l.next {
		return p.due(c)
	}
	return p.deadline(c)
}

// nowFor returns the time that decides whether a key in memory is due.
func (l *expiring) nowFor(p *part, c cell) int64 {
	if l.t != nil && l.t.late != 0 && !l.t.hasWritten(p, c) {
		return l.t.lockedAt(p.shard.num, l.t.now)
	}
	return l.now
}
