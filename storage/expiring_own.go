package storage

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"keyp/storage/format"
	"keyp/ttl"
)

// ownDeadlines contains the deadlines of some keys in memory: those that have an element with an
// earlier deadline. The expiration index has only that earlier one. The zero value has none.
type ownDeadlines struct {
	index *ttl.Index       // nil until there was one
	at    map[uint64]int64 // by id
}

// noteOwn notes the own deadline of an object. due is the deadline of its entry in the index, 0 for
// none.
func (p *part) noteOwn(id uint64, due int64) {
	own := int64(0)
	if due != 0 {
		if o := p.objects.at(uint32(id)); o.deadline != due {
			own = o.deadline
		}
	}
	was := p.own.at[id]
	if own == was {
		return
	}
	if p.own.index == nil {
		p.own = ownDeadlines{ttl.NewIndex(), map[uint64]int64{}}
	}
	p.own.index.Set(id, was, own)
	if p.own.at[id] = own; own == 0 {
		delete(p.own.at, id)
	}
}

// laterDeadlines are the own deadlines of keys that are only on disk and that ttl lists by an
// earlier deadline, that of an element. They are read from ttl once, as far as pages need them.
// From then on a key is added when it leaves memory, and removed when it is loaded or expires. The
// struct also holds the keys that are loaded while pages look at memory and at the disk.
type laterDeadlines struct {
	// Written while mu is locked, so that loads and evictions need no lock where there is nothing
	// to note.
	pages     atomic.Int32 // the number of pages under way
	keyspaces atomic.Int32 // the number of keyspaces in of

	mu struct {
		sync.Mutex
		of      map[uint32]*laterOf // by keyspace
		arrived map[*expiring][]expiringOnDisk
	}
}

// watch begins to note, for a page, the keys that come into memory; take ends that.
func (d *laterDeadlines) watch(l *expiring) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.arrived == nil {
		d.mu.arrived = map[*expiring][]expiringOnDisk{}
	}
	d.mu.arrived[l] = nil
	d.pages.Store(int32(len(d.mu.arrived)))
}

// take returns the keys that have come into memory since watch, and ends the watch.
func (d *laterDeadlines) take(l *expiring) []expiringOnDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	arrived := d.mu.arrived[l]
	delete(d.mu.arrived, l)
	d.pages.Store(int32(len(d.mu.arrived)))
	return arrived
}

// loaded notes a key that comes into memory with its own deadline and its next one. Its shard is
// locked.
func (d *laterDeadlines) loaded(p *part, k Key, own, next int64) {
	if next == 0 || d.pages.Load() == 0 && (own == next || d.keyspaces.Load() == 0) {
		return
	}
	on := format.DiskKey(nil, p.space, k)
	d.mu.Lock()
	defer d.mu.Unlock()
	for l, list := range d.mu.arrived {
		deadline := own
		if l.next {
			deadline = next
		}
		if deadline != 0 {
			d.mu.arrived[l] = append(list,
				expiringOnDisk{cursor: cursorOnDisk(deadline, on), on: on})
		}
	}
	d.remove(own, on)
}

// laterOf are the later deadlines of a keyspace.
type laterOf struct {
	index   *ttl.NamedIndex // by the keys in values
	through DueCursor       // the entries of ttl before it are known
}

// begin begins to note a keyspace's deadlines, and returns the place up to which the entries of ttl
// are known. A shard is locked, so that the keyspace is not emptied meanwhile.
func (d *laterDeadlines) begin(space uint32) (through DueCursor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.of == nil {
		d.mu.of = map[uint32]*laterOf{}
	}
	if d.mu.of[space] == nil {
		d.mu.of[space] = &laterOf{index: ttl.NewNamedIndex()}
		d.keyspaces.Store(int32(len(d.mu.of)))
	}
	return d.mu.of[space].through
}

// forget removes the deadlines of a keyspace that is emptied. All shards are locked.
func (d *laterDeadlines) forget(space uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.of, space)
	d.keyspaces.Store(int32(len(d.mu.of)))
}

// note adds a deadline of a key at a place in values.
func (d *laterDeadlines) note(deadline int64, on []byte) {
	if d.keyspaces.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.mu.of[binary.BigEndian.Uint32(on)]; of != nil &&
		!of.index.Has(string(on), deadline) {
		of.index.Set(string(on), 0, deadline)
	}
}

// drop removes a deadline of a key, if it is noted.
func (d *laterDeadlines) drop(deadline int64, on []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(deadline, on)
}

// remove is drop with mu locked.
func (d *laterDeadlines) remove(deadline int64, on []byte) {
	if of := d.mu.of[binary.BigEndian.Uint32(on)]; of != nil && of.index.Has(string(on), deadline) {
		of.index.Set(string(on), deadline, 0)
	}
}

// known notes that the entries of ttl from one place on and before another are known.
func (d *laterDeadlines) known(space uint32, from, until DueCursor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.mu.of[space]; of != nil && !of.through.Before(from) && of.through.Before(until) {
		of.through = until
	}
}

// between returns the later deadlines from one place on and before another, about walkNames at
// most. next is the place where they end.
func (d *laterDeadlines) between(space uint32, from,
	until DueCursor) (list []expiringOnDisk, next DueCursor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.mu.of[space]
	if of == nil { // the database was emptied meanwhile
		return nil, until
	}
	next = until
	start := ttl.NamedEntry{Deadline: from.Deadline, ID: string(diskCursor(space, from)[8:])}
	of.index.WalkFrom(start, func(e ttl.NamedEntry) bool {
		place := cursorOnDisk(e.Deadline, []byte(e.ID))
		if n := len(list); !place.Before(until) || n >= walkNames && place != list[n-1].cursor {
			next = place
			return false
		}
		list = append(list, expiringOnDisk{cursor: place, on: []byte(e.ID), later: true})
		return true
	})
	if until.Before(next) {
		next = until
	}
	return list, next
}
