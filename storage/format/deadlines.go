package format

import "encoding/binary"

// A record whose times fail their checksum does not say when its key is due. The bucket ttl has the key
// too, under the time when it is due. It is in order of time, so finding the key means reading all of ttl:
// a tenth of a microsecond for each entry, and only once, as the key is written again after it was loaded.
//
//   - One entry is what the key has, with what is pending of ttl made.
//   - None says that the key is never due, if all of ttl can be read.
//   - One for an element does not say when the key itself is due, which may be never. Then, where
//     there are several, or where ttl may have entries that belong to no key (MetaDoubt), the key
//     becomes persistent.

// Deadlines is what ttl says of some keys: the keys of Of, by their keys in values.
type Deadlines struct {
	Of    map[string][]Times
	Doubt bool // some entries may belong to no key
	Holes bool // part of ttl cannot be read
}

// Read takes in what the entries of ttl say of the keys. pending are the entries that ttl will have, or not
// have (nil), when what is pending is made; each calls fn for the entries of ttl.
func (d *Deadlines) Read(pending map[string][]byte, each func(fn func(at, v []byte))) {
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

func (d *Deadlines) add(at, v []byte) {
	e, ok := ParseTTL(at, v)
	if !ok {
		d.Holes = true
		return
	}
	found, wanted := d.Of[string(e.On)]
	switch {
	case !wanted:
	case e.Element:
		d.Of[string(e.On)] = append(found, Times{First: e.Due})
	default:
		d.Of[string(e.On)] = append(found, Times{Deadline: e.Due, Created: binary.BigEndian.Uint32(v[4:])})
	}
}

// Repair gives an image, whose key in values is at, the times that ttl has; false if ttl does not say.
func (d *Deadlines) Repair(at []byte, im *Image) bool {
	found, asked := d.Of[string(at)]
	switch {
	case !asked, d.Doubt, len(found) > 1:
		return false
	case len(found) == 0:
		return !d.Holes
	}
	im.Times = found[0]
	return im.Deadline != 0
}
