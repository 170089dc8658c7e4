package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// Elements by their deadlines, for pages of Expiring that have them.
//
// The expiration index and ttl have a key by its next deadline; the deadlines of further elements are only in its value. So from
// the first page on that asks for elements a part has places (elementPlaces): for each deadline that an element of a key has, the
// deadline, the slot and the leading 32 bits of the key's hash. They are never too few, but may be too many:
//
//   - a place is added when an element gets the deadline, by whichever command;
//   - those of values that are in memory, or come there as a whole, are added by pages, some at a time, as are those of values
//     that are only on disk, which ttl leads to (laterDeadlines.elements is how far). A value that leaves memory before its
//     turn is noted, and read from the disk (laterDeadlines.left);
//   - none is removed when elements go. A page that finds nothing at a place removes it, and those of the past go.
//
// So a place does not depend on where its key is, which may come into memory and leave it. A page looks for the key of a place
// in memory, and then on disk if it may be there. A key that is only on disk, and whose elements are stored by themselves, is
// loaded.
//
// An element has as its place that of its key, and one more than a hash. That is the store's, which is the same after a restart;
// but where very many elements of a key have one deadline, it is the one by which the value finds its elements, from byIndex on.
// A walk that is among the elements of a key keeps to one of them.
//
// An element that is due when its key
// is, or later, is not listed: it goes with the key.

const (
	// leftMost bounds how many values that have left memory before their turn a page reads, loadsMost how many keys it loads.
	leftMost  = 4096
	loadsMost = 64
	// leftKept bounds how many values that have left memory before their turn are noted: of more, ttl is read again from its begin,
	// which leads to all that are only on disk.
	leftKept = 64 << 10
	// placesSpare is how many places a part may have at least before they are made again, since most of them may be of the past
	// or of elements that are gone. placesKept is for how long they are kept after a page, in ms.
	placesSpare = 1 << 16
	placesKept  = 10 * 60_000
	// placesStep is how many places are added each time a shard is locked.
	placesStep = 512
	// byIndex is the Element of a place behind which the hashes are those of the value's index. growMost is how many times the
	// bound of what is looked at together the elements of a key with one deadline may be when they were fewer before.
	byIndex  = 1 << 32
	growMost = 4
)

// elementPlaces are the places of a part at which elements may be due.
type elementPlaces struct {
	index *ttl.Index // by placeID
	next  int        // the object that is to be noted next; of those before all have their places, but for those in todo
	todo  []uint32   // objects that came since, as long as they are stateUnnoted
	large *Object    // the one whose deadlines have been noted up to upTo only
	upTo  int64
	limit int   // of the index's length, 0 while the places are being made
	used  int64 // when a page asked
}

func placeID(slot uint16, hash uint64) uint64 { return uint64(slot)<<32 | hash>>32 }

// placeOfID is the place of keys with the leading bits of a hash that an entry has.
func placeOfID(e ttl.Entry) DuePlace {
	return DuePlace{Deadline: e.Deadline, Slot: uint16(e.ID >> 32), Hash: e.ID << 32}
}

// timed is a value whose elements may have deadlines.
type timed interface {
	object.Value
	Deadlines(after int64, visit func(deadline int64) bool)
	CountAt(deadline int64) int
	DueAt(deadline int64, from uint32, most int, hash func(elem []byte) uint32, visit func(elem []byte, hash uint32) bool) (next uint32, more bool)
}

// timedValue is the object's value if an element of it has a deadline, else nil.
func (o *Object) timedValue() timed {
	if v, ok := o.val.(timed); ok && v.Earliest() != 0 {
		return v
	}
	return nil
}

// elementDue notes that an element of a key has got a deadline.
func (p *part) elementDue(k Key, deadline, now int64) {
	e := p.places
	if e == nil || deadline == 0 {
		return
	}
	if e.add(deadline, placeID(k.Slot, k.Hash)); e.limit != 0 && e.index.Len() > e.limit || now-e.used > placesKept {
		p.places = nil // the next page makes them again
	}
}

func (e *elementPlaces) add(deadline int64, id uint64) {
	if !e.index.Has(id, deadline) {
		e.index.Set(id, 0, deadline)
	}
}

// arrived notes that a key has come into memory, or got a value as a whole.
func (p *part) arrived(c cell) {
	e := p.places
	if e == nil || !c.is(cellObj) || int(c.ref()) >= e.next {
		return
	}
	if o := p.objects.at(c.ref()); o.timedValue() != nil {
		if o.state |= stateUnnoted; len(e.todo) >= placesSpare {
			p.places = nil
		} else {
			e.todo = append(e.todo, c.ref())
		}
	}
}

// unnoted reports whether a key may have elements whose places are not there yet.
func (p *part) unnoted(c cell) bool {
	return p.places != nil && c.is(cellObj) && (int(c.ref()) >= p.places.next || p.objects.at(c.ref()).is(stateUnnoted)) &&
		p.objects.at(c.ref()).timedValue() != nil
}

// readyPlaces makes a part's places of what is in memory, a step at a time, and reports whether they are all there. The shard
// is locked.
func (l *expiring) readyPlaces(p *part) bool {
	e := p.places
	left := placesStep
	for n := 0; e.next < len(p.objects.list); n, e.next = n+1, e.next+1 {
		if n == ownStep || !l.notePlaces(p, p.objects.list[e.next], &left) {
			return false
		}
	}
	for n := 0; len(e.todo) > 0; n, e.todo = n+1, e.todo[1:] {
		var o *Object
		if ref := int(e.todo[0]); ref < len(p.objects.list) {
			o = p.objects.list[ref]
		}
		if n == ownStep || o != nil && o.is(stateUnnoted) && !l.notePlaces(p, o, &left) {
			return false
		}
	}
	e.todo = nil
	if e.limit == 0 {
		e.limit = 2*e.index.Len() + placesSpare
	}
	return true
}

// notePlaces adds the places of an object's elements, of left deadlines at most; false if there are more.
func (l *expiring) notePlaces(p *part, o *Object, left *int) bool {
	if o == nil {
		return true
	}
	v := o.timedValue()
	if v == nil {
		o.state &^= stateUnnoted
		return true
	}
	e := p.places
	if e.large != o {
		e.large, e.upTo = o, 0
	}
	id, all := placeID(Slot(o.name()), l.s.hash(o.name())), true
	v.Deadlines(max(e.upTo, l.now), func(deadline int64) bool {
		if *left <= 0 && deadline > e.upTo && e.upTo != 0 {
			all = false
			return false
		}
		if *left--; deadline > l.now {
			e.add(deadline, id)
		}
		e.upTo = max(e.upTo, deadline)
		return true
	})
	if all {
		e.large = nil
		o.state &^= stateUnnoted
	}
	return all
}

// usePlaces has the part's places be there for the page; a part's first ones are empty. The shard is locked.
func (l *expiring) usePlaces(p *part) {
	if p.places == nil {
		p.places = &elementPlaces{index: ttl.NewIndex()}
		l.s.later.restart(p.space)
	}
	p.places.used = l.now
	l.places[p.shard.num] = p.places
}

// addElements adds the elements of the page, whose keys it has.
func (l *expiring) addElements() error {
	for _, sh := range l.s.shards {
		if err := l.elementsIn(sh); err != nil {
			return err
		}
	}
	if _, round := l.s.later.elementsKnown(l.space); l.lost || round != l.began || l.s.later.anyLeft(l.space) {
		l.through = l.from // the next call begins again
	}
	return nil
}

// elementsIn adds the first elements of a shard.
func (l *expiring) elementsIn(sh *shard) error {
	had, size, looks := len(l.list), l.size, 0
	for at := l.from; at.Before(l.through) && !l.lost; {
		if len(l.list)-had >= l.count || looks > max(l.most.looks, l.count) || l.size-size > listBytes || l.builds > l.most.builds {
			l.through = at
			break
		}
		next, n, err := l.lookAtPlaces(sh, at)
		if err == nil {
			next, err = l.elementsOnDisk(at, next)
		}
		if err != nil {
			return err
		}
		l.take(at, next)
		if looks += max(n, 1); n == 0 && next == at {
			l.builds++
		}
		at = next
	}
	l.trim()
	return nil
}

// onDiskPlace is a place whose keys may be on disk.
type onDiskPlace struct {
	DuePlace
	known [][]byte // the keys that memory knows
}

// lookAtPlaces finds the elements in memory at the next places of a shard, up to the place next, and which of the places may have
// keys on disk.
func (l *expiring) lookAtPlaces(sh *shard, at DuePlace) (next DuePlace, looks int, err error) {
	if err := l.lockOpen(sh); err != nil {
		return at, 0, err
	}
	defer l.unlock(sh)
	l.step, l.names, l.unknown = l.step[:0], l.names[:0], l.unknown[:0]
	p, e := sh.mu.parts[l.db], l.places[sh.num]
	if p == nil || e == nil || p.places != e || p.space != l.space {
		// There was none when the page began, or it is not the same any more.
		l.lost = e != nil || p != nil && p.space != l.space
		return l.through, 0, nil
	}
	if !l.readyPlaces(p) {
		return at, 0, nil
	}
	for n := 0; n < ownStep; n++ {
		if _, past := e.index.PopDue(l.now); !past {
			break
		}
	}
	next = l.through
	var none []ttl.Entry
	e.index.WalkFrom(ttl.Entry{Deadline: at.Deadline, ID: placeID(at.Slot, at.Hash)}, func(x ttl.Entry) bool {
		place := placeOfID(x)
		if !place.Before(l.through) {
			return false
		}
		if looks == walkNames || len(l.names) >= walkBytes || len(l.step) >= groupMost {
			next = place
			return false
		}
		looks++
		found, until := l.elementsAt(p, place, at)
		if !found {
			none = append(none, x)
		}
		if until != (DuePlace{}) {
			next = until
			return false
		}
		return true
	})
	for _, x := range none {
		e.index.Set(x.ID, x.Deadline, 0)
	}
	return next, looks, nil
}

// elementsAt adds the elements at a place, from another place on, to the step. found is false if there are none, and none can
// be on disk; until is how far they go if there are more.
func (l *expiring) elementsAt(p *part, place, from DuePlace) (found bool, until DuePlace) {
	key := Key{Slot: place.Slot}
	if !p.hasSlot(key) {
		return false, until
	}
	sl := p.slot(key)
	l.cells = l.cells[:0]
	sl.table.find(place.Hash, func(c cell) bool {
		if l.s.hash(p.name(c))>>32 == place.Hash>>32 {
			l.cells = append(l.cells, c)
		}
		return false
	})
	if len(l.cells) > 1 {
		slices.SortFunc(l.cells, func(a, b cell) int { return cmp.Compare(l.s.hash(p.name(a)), l.s.hash(p.name(b))) })
	}
	var known [][]byte
	for _, c := range l.cells {
		if sl.partial {
			known = append(known, bytes.Clone(p.name(c)))
		}
		o := p.objectOf(c)
		if c.is(cellTomb) || o == nil {
			continue
		}
		v := o.timedValue()
		if v == nil {
			continue
		}
		found = true
		at := DuePlace{Deadline: place.Deadline, Slot: place.Slot, Hash: l.s.hash(o.name())}
		if place.Deadline <= l.nowFor(p, c) {
			l.hidden = true
			continue
		}
		if until = l.elementsOf(v, o.name(), o.deadline, at, from); until != (DuePlace{}) {
			break
		}
	}
	if sl.partial {
		l.unknown = append(l.unknown, onDiskPlace{place, known})
		found = true
	}
	return found, until
}

// elementsOf adds a value's elements at the place of its key, from a place on, to the step; until is how far they go if there are more.
func (l *expiring) elementsOf(v timed, name []byte, own int64, at, from DuePlace) (until DuePlace) {
	if own != 0 && own <= at.Deadline {
		return until
	}
	key, position := from, uint64(0)
	switch key.Element = 0; {
	case key == at:
		position = from.Element
	case at.Before(key):
		return until
	}
	hash, base, most := func(elem []byte) uint32 { return uint32(l.s.hash(elem) >> 32) }, uint64(0), l.s.bounds.group
	if n := v.CountAt(at.Deadline); position > byIndex || n > most && position == 0 || n > growMost*most {
		hash, base = nil, byIndex
	}
	first := uint32(max(position, base+1) - base - 1)
	n, last := 0, uint32(0)
	next, more := v.DueAt(at.Deadline, first, most, hash, func(elem []byte, hash uint32) bool {
		if n > 0 && hash != last && (n >= walkNames || len(l.names) >= walkBytes) {
			return false
		}
		n, last = n+1, hash
		begin := len(l.names)
		l.names = append(l.names, elem...)
		k := expiringKey{place: at, name: name, typ: v.Type(), elem: l.names[begin:len(l.names):len(l.names)]}
		k.place.Element = base + 1 + uint64(hash)
		l.step = append(l.step, k)
		return true
	})
	if more {
		until = at
		until.Element = base + 1 + uint64(next)
	}
	return until
}

// elementsOnDisk adds the elements of the step's places that are only on disk, up to next or to the place that it returns. There a
// key had to be loaded, and is to be looked for in memory.
func (l *expiring) elementsOnDisk(at, next DuePlace) (DuePlace, error) {
	if len(l.unknown) == 0 {
		return next, nil
	}
	var large Key
	err := l.s.file.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(format.BucketValues).Cursor()
		for _, place := range l.unknown {
			prefix := diskPlace(l.space, place.DuePlace)[8:]
			for on, record := c.Seek(prefix); bytes.HasPrefix(on, prefix); on, record = c.Next() {
				im, err := format.ParseImage(on, record)
				if err != nil || im.BadTime || im.First == 0 || l.damaged[string(im.Name)] ||
					slices.ContainsFunc(place.known, func(name []byte) bool { return bytes.Equal(name, im.Name) }) {
					continue // a command that reads a damaged key reports it
				}
				key := DuePlace{Deadline: place.Deadline, Slot: place.Slot, Hash: l.s.hash(im.Name)}
				if place.Deadline <= l.onDiskAt(expiringOnDisk{key: Key{Slot: place.Slot}}) {
					l.hidden = true
					continue
				}
				if !im.Inline {
					if im.Deadline == 0 || im.Deadline > place.Deadline {
						if next.Before(key) {
							continue
						}
						large = Key{DB: l.db, Slot: key.Slot, Hash: key.Hash, Name: bytes.Clone(im.Name)}
						if next = key; next.Before(at) {
							next = at
						}
						return nil
					}
					continue
				}
				v, err := readValue(tx, &im)
				if err != nil {
					continue
				}
				if v, ok := v.(timed); ok {
					l.inline(v, &im, key, at)
				}
			}
		}
		return nil
	})
	if err != nil || large.Name == nil {
		return next, err
	}
	if l.loads++; l.loads > l.most.loads {
		l.through = next
		return next, nil
	}
	if l.t != nil {
		err = l.t.Load(large)
	} else {
		err = l.s.loads.loadKey(large)
	}
	if err != nil && l.s.quit.Err() == nil {
		if l.damaged == nil {
			l.damaged = map[string]bool{}
		}
		l.damaged[string(large.Name)], err = true, nil // as above
	}
	return next, err
}

// inline adds the elements of a value that stands in its record.
func (l *expiring) inline(v timed, im *format.Image, key, from DuePlace) {
	name := bytes.Clone(im.Name)
	for until := from; ; {
		if until = l.elementsOf(v, name, im.Deadline, key, until); until == (DuePlace{}) {
			return
		}
	}
}

// foundBytes is what a foundElement counts for what is read at once.
const foundBytes = 24

// foundElement is a deadline of an element that is on disk.
type foundElement struct {
	deadline int64
	slot     uint16
	id       uint64
}

// largeOnDisk is a value on disk whose elements are to be read.
type largeOnDisk struct {
	on  []byte
	id  uint64
	typ object.Type
}

// see collects the deadlines of the elements of a record.
func (l *expiring) see(im *format.Image, on []byte) {
	if im.First == 0 {
		return
	}
	if !im.Inline {
		l.large = append(l.large, largeOnDisk{bytes.Clone(on), im.ID, im.Type})
		return
	}
	var ages object.StreamAges
	_ = format.EachInline(im.Payload, func(elem, val []byte, deadline int64) error { // what is damaged is left out
		if im.Type == object.TypeStream {
			deadline = ages.Deadline(elem, val)
		}
		l.seen(deadline, on)
		return nil
	})
}

func (l *expiring) seen(deadline int64, on []byte) {
	if deadline <= l.now {
		return
	}
	at := placeOnDisk(deadline, on)
	one := foundElement{deadline, at.Slot, placeID(at.Slot, at.Hash)}
	if n := len(l.found); n == 0 || l.found[n-1] != one {
		l.found = append(l.found, one)
	}
}

// notePlacesOnDisk adds the places that see has collected, and those of large values, which it reads.
func (l *expiring) notePlacesOnDisk() error {
	if err := l.addFound(); err != nil {
		return err
	}
	for _, v := range l.large {
		var from []byte
		var ages object.StreamAges
		for more := true; more; {
			more = false
			n, began := 0, l.s.clock.Mono()
			err := l.s.file.view(func(tx *bolt.Tx) error {
				return eachElement(tx, v.id, from, func(elem, val []byte, deadline int64) error {
					if n++; n > l.s.bounds.stretch && l.s.clock.Mono()-began >= l.s.bounds.stretchTime {
						from, more = bytes.Clone(elem), true
						return errEnough
					}
					if v.typ == object.TypeStream {
						deadline = ages.Deadline(elem, val)
					}
					l.seen(deadline, v.on)
					return nil
				})
			})
			if err != nil {
				break // it is damaged, or gone meanwhile
			}
			if err := l.addFound(); err != nil {
				return err
			}
		}
	}
	l.large = l.large[:0]
	return nil
}

// addFound adds what seen has collected to the parts.
func (l *expiring) addFound() error {
	shardOf := func(e foundElement) int { return l.s.shardOf(e.slot) }
	slices.SortFunc(l.found, func(a, b foundElement) int {
		return cmp.Or(cmp.Compare(shardOf(a), shardOf(b)), cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.id, b.id))
	})
	for list := slices.Compact(l.found); len(list) > 0; {
		sh, n := l.s.shards[shardOf(list[0])], 1
		for n < min(len(list), placesStep) && shardOf(list[n]) == sh.num {
			n++
		}
		if err := l.lockOpen(sh); err != nil {
			return err
		}
		if p := sh.mu.parts[l.db]; p != nil && p.space == l.space && p.places != nil {
			for _, e := range list[:n] {
				p.places.add(e.deadline, e.id)
			}
		}
		l.unlock(sh)
		list = list[n:]
	}
	l.found = l.found[:0]
	return nil
}

// readLeft adds the places of values that have left memory before their turn; false if there are too many for a page.
func (l *expiring) readLeft() (all bool, err error) {
	left := l.s.later.someLeft(l.space, leftMost)
	if len(left) == 0 {
		return true, nil
	}
	err = l.s.file.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketValues)
		for on := range left {
			if im, err := format.ParseImage([]byte(on), b.Get([]byte(on))); err == nil && !im.BadTime {
				l.see(&im, []byte(on))
			}
		}
		return nil
	})
	if err == nil {
		err = l.notePlacesOnDisk()
	}
	if err != nil {
		return false, err
	}
	return l.s.later.doneLeft(l.space, left), nil
}

// restart has what ttl has of a keyspace's elements be read again. A shard is locked.
func (d *laterDeadlines) restart(space uint32) {
	d.begin(space)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.of[space].readAgain()
}

// readAgain has what ttl has of the elements be read again. The lock of laterDeadlines is held.
func (of *laterOf) readAgain() { of.elements, of.round = DuePlace{}, of.round+1 }

// leaves notes a value that leaves memory before its elements' places are there, most of them at most.
func (d *laterDeadlines) leaves(on []byte, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.mu.of[binary.BigEndian.Uint32(on)]; of != nil {
		if len(of.left) >= most {
			of.left = nil
			of.readAgain()
			return
		}
		if of.left == nil {
			of.left = map[string]uint64{}
		}
		of.turn++
		of.left[string(on)] = of.turn
	}
}

// someLeft gives those that leaves has noted, most of them.
func (d *laterDeadlines) someLeft(space uint32, most int) map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := map[string]uint64{}
	if of := d.mu.of[space]; of != nil {
		for on, turn := range of.left {
			if len(list) == most {
				break
			}
			list[on] = turn
		}
	}
	return list
}

// doneLeft removes those whose places are there by now, unless they have been noted again, and reports whether none is left.
func (d *laterDeadlines) doneLeft(space uint32, list map[string]uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.mu.of[space]
	if of == nil {
		return true
	}
	for on, turn := range list {
		if of.left[on] == turn {
			delete(of.left, on)
		}
	}
	return len(of.left) == 0
}

func (d *laterDeadlines) anyLeft(space uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.mu.of[space]
	return of != nil && len(of.left) > 0
}

// elementsKnown gives how far the elements of a keyspace that ttl leads to have their places, in which round.
func (d *laterDeadlines) elementsKnown(space uint32) (through DuePlace, round int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.mu.of[space]; of != nil {
		return of.elements, of.round
	}
	return DuePlace{Deadline: math.MinInt64}, 0
}

// knownElements notes that the elements which ttl leads to from one place on and before another have their places.
func (d *laterDeadlines) knownElements(space uint32, from, until DuePlace, round int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.mu.of[space]; of != nil && of.round == round && !of.elements.Before(from) && of.elements.Before(until) {
		of.elements = until
	}
}
