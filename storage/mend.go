package storage

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
)

// A record whose times fail their checksum does not say when its key is due. The bucket ttl has
// the key, too, at the time when it is due, and is the only one to ask then. It is in order of
// time, so all of it is read: a tenth of a microsecond for each entry, and that once, for the key
// is written anew when it is in memory.
//
//   - One entry is what the key has, with what is pending of ttl made.
//   - None says that the key is never due, if all of ttl can be read.
//   - One for an element does not say when the key itself is due, which may be never. Then, where
//     there are several, or where ttl may have entries that are no key's (metaDoubt), the key
//     becomes persistent.

// dues is what ttl says of some keys, by where they stand in values.
type dues struct {
	of    map[string][]times
	doubt bool // some entries may be no key's
	holes bool // part of ttl cannot be read
}

// read takes what the entries of ttl, and of what is pending of it, say of the keys.
func (d *dues) read(pending map[string][]byte, each func(fn func(at, v []byte))) {
	each(func(at, v []byte) {
		if _, changes := pending[string(at)]; !changes {
			d.add(at, v)
		}
	})
	for at, v := range pending {
		if v != nil {
			d.add([]byte(at), v)
		}
	}
}

func (d *dues) add(at, v []byte) {
	e, ok := parseTTL(at, v)
	if !ok {
		d.holes = true
		return
	}
	found, wanted := d.of[string(e.on)]
	switch {
	case !wanted:
	case e.element:
		d.of[string(e.on)] = append(found, times{first: e.due})
	default:
		d.of[string(e.on)] = append(found, times{deadline: e.due, created: binary.BigEndian.Uint32(v[4:])})
	}
}

// mend gives an image the times that ttl has; false if they are not known.
func (d *dues) mend(at []byte, im *image) bool {
	found, asked := d.of[string(at)]
	switch {
	case !asked, d.doubt, len(found) > 1:
		return false
	case len(found) == 0:
		return !d.holes
	}
	im.times = found[0]
	return im.deadline != 0
}

// mend gives an image of the data file whose times are damaged those that ttl has, or none, and
// logs and counts it.
func (s *Store) mend(tx *bolt.Tx, at []byte, im *image) {
	if !im.badTime {
		return
	}
	s.stats.BadDeadlines.Add(1)
	d := dues{of: map[string][]times{string(at): nil}, doubt: tx.Bucket(bucketMeta).Get(metaDoubt) != nil}
	pending, err := pendingEntries(tx)
	d.doubt = d.doubt || err != nil
	d.read(pending, func(fn func(at, v []byte)) {
		_ = each(tx, bucketTTL, nil, func(error) { d.holes = true }, func(at, v []byte) error { fn(at, v); return nil })
	})
	if d.mend(at, im) {
		s.options.Logger.Error("the deadline of a key is corrupt on disk; the index of deadlines has it", "key", clip(im.name), "deadline", im.deadline)
	} else {
		s.options.Logger.Error("the deadline of a key is corrupt on disk; the key is now persistent", "key", clip(im.name))
	}
}
