package storage

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/storage/slab"
)

// resident is a key read from the data file, ready to be put into memory.
type resident struct {
	small    []byte  // the value, if it fits a slab block
	object   *Object // otherwise
	deadline int64
	created  uint32
	badTime  bool
}

// readResident converts an image to a key for memory. It copies the bytes out of the file.
func readResident(tx *bolt.Tx, m *format.Image) (resident, error) {
	got := resident{deadline: m.Deadline, created: m.Created, badTime: m.BadTime}
	if m.Type == object.TypeString && m.Inline && isSmall(m.Name, m.Payload) {
		got.small = append([]byte{}, m.Payload...)
		return got, nil
	}
	v, err := datafile.ReadValue(tx, m)
	if err == nil {
		got.object = objectFrom(m, v)
	}
	return got, err
}

// objectFrom makes a key's object of an image and its value.
func objectFrom(m *format.Image, v object.Value) *Object {
	o := &Object{key: string(m.Name), val: v, deadline: m.Deadline, id: m.ID, state: stateInline}
	if !m.Inline {
		o.state = stateStored
	}
	return o
}

// load puts a key of the data file into the table. The key is clean; if its deadline was damaged,
// it is dirty, so that it is written again.
func (p *part) load(sl *slot, k Key, got resident) *cell {
	var c cell
	if got.object == nil && !p.room(slab.Header+len(k.Name)+len(got.small)) {
		got.object = spilled(k.Name, got.small)
	}
	if got.object != nil {
		c = hashtable.NewCell(k.Hash, p.objects.add(got.object), hashtable.Obj)
		if got.object.elementDeadline() != 0 {
			got.object.state |= stateTimed // it counts already
		}
	} else {
		ref, b := p.slabs.Alloc(slab.Header + len(k.Name) + len(got.small))
		b.SetKey(k.Name)
		b.SetValue(got.small)
		c = hashtable.NewCell(k.Hash, ref, 0)
	}
	s := p.shard.store
	// While the store is opened, its time is not known.
	p.setHeader(c, got.deadline, got.created, s.firstAccess(max(s.now(), s.opened)))
	*p.flags(c) |= flagDisk
	at := p.insert(sl, k.Hash, c)
	due := p.due(*at)
	p.setIndex(p.id(sl, *at), 0, due)
	p.fromDisk(k, due)
	s.later.loaded(p, k, got.deadline, due)
	if got.badTime {
		p.markDirty(sl, at)
	}
	return at
}

// tombstone adds a tombstone for a key that memory does not know: the key is gone from the data
// file, or will be with the next checkpoint.
func (p *part) tombstone(sl *slot, k Key) {
	p.markDirty(sl, p.absent(sl, k, flagDisk))
}

// absent adds a tombstone for a key that memory does not know. With flags 0 the data file does not
// have the key either.
func (p *part) absent(sl *slot, k Key, flags byte) *cell {
	p.tombs++
	if len(k.Name) > maxSlabKey || !p.room(slab.Header+len(k.Name)) {
		ref := p.objects.add(&Object{key: string(k.Name), flags: flags})
		return p.insert(sl, k.Hash, hashtable.NewCell(k.Hash, ref, hashtable.Tomb|hashtable.Obj))
	}
	ref, b := p.slabs.Alloc(slab.Header + len(k.Name))
	b.SetKey(k.Name)
	b.SetValue(nil)
	*b.Flags() = flags
	return p.insert(sl, k.Hash, hashtable.NewCell(k.Hash, ref, hashtable.Tomb))
}

// byID finds the cell of an id in the index.
func (p *part) byID(id uint64) (*slot, *cell, Key) {
	c := hashtable.NewCell(0, uint32(id), cell(id)&hashtable.Obj)
	name := p.name(c)
	k := Key{Slot: uint16(id >> 33), Hash: p.shard.store.hash(name), Name: name}
	sl := p.slot(k)
	return sl, p.find(sl, k), k
}

// keyOnDisk returns the keyspace and the key of a name in the data file, without the database.
func (s *Store) keyOnDisk(tx *bolt.Tx, on []byte) (space uint32, k Key, err error) {
	space = binary.BigEndian.Uint32(on)
	k.Slot = binary.BigEndian.Uint16(on[4:])
	k.Name = on[format.PrefixLen+1:]
	if on[format.PrefixLen] == 1 {
		im, err := format.ParseImage(on, tx.Bucket(format.BucketValues).Get(on))
		if err != nil {
			return space, k, fmt.Errorf("%w: key with digest %x", err, on[format.PrefixLen+1:])
		}
		k.Name = im.Name
	}
	k.Name = append([]byte(nil), k.Name...)
	k.Hash = s.hash(k.Name)
	if k.Slot >= Slots {
		return space, k, ErrCorrupt
	}
	return space, k, nil
}

// Clip returns a key's name for a message, cut after 64 bytes.
func Clip(name []byte) string {
	if len(name) > 64 {
		return string(name[:64]) + "…"
	}
	return string(name)
}
