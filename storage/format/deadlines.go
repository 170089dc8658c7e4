package format

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// If the times of a record fail their checksum, the record does not say when its key is due. The
// bucket ttl does: it has entries in order of time, each with a key and the time when it is due.
// But finding a key there means reading all of ttl, at a tenth of a microsecond for each entry. It
// happens only once for a key, because the key is written again after it was loaded. Changes of ttl
// that are still pending are included.
//
// What is found decides:
//
//  - One entry, for the key itself: it gives the times of the key.
//  - No entry, and all of ttl can be read: the key is never due.
//  - Anything else, such as an entry for an element, several entries, a part of ttl that cannot be
//    read, or a ttl with entries of unknown keys (MetaDoubt): the record's own times are used, if
//    they can be corrected. A single damaged bit can, because the checksum shows which it is.
//  - If more bits are damaged, or if the corrected times contradict the only entry, the key
//    becomes persistent.

// Deadlines contains the times that ttl has for some keys. Of maps the place of each key in the
// bucket values to the times that were found for it.
type Deadlines struct {
	Of    map[string][]Times
	Doubt bool // some entries may belong to no key
	Holes bool // part of ttl cannot be read
}

// Read collects the times that the entries of ttl have for the keys. pending are the entries that
// ttl will have, or lack (nil), after the pending changes are applied. each calls fn for the
// entries of ttl.
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
		d.Of[string(e.On)] = append(found,
			Times{Deadline: e.Due, Created: binary.BigEndian.Uint32(v[4:])})
	}
}

// Repair sets the times of an image, whose place in values is at, from ttl or from its corrected
// record. It returns false if neither says when the key is due.
func (d *Deadlines) Repair(at []byte, im *Image) bool {
	found, asked := d.Of[string(at)]
	sound := asked && !d.Doubt && len(found) <= 1
	switch {
	case sound && len(found) == 0 && !d.Holes:
		return true
	case sound && len(found) == 1:
		if im.Times = found[0]; im.Deadline != 0 {
			return true
		}
	}
	if im.corrected == nil || sound && len(found) == 1 && !im.corrected.SameEntry(found[0]) {
		return false
	}
	im.Times = *im.corrected
	return true
}

// correct returns the right times for times that fail their check, if one bit of the times or of
// the check is wrong. Otherwise it returns nil. It returns nil for two to four wrong bits, too.
// With CRC-32C, valid times differ in six bits or more, if their checks are counted.
func correct(at, times []byte, check uint32) *Times {
	key := crc32.Checksum(at, castagnoli)
	times = bytes.Clone(times)
	right := bits.OnesCount32(crc32.Update(key, castagnoli, times)^check) == 1
	for bit := 0; bit < 8*len(times) && !right; bit++ {
		times[bit/8] ^= 1 << (bit % 8)
		if right = crc32.Update(key, castagnoli, times) == check; !right {
			times[bit/8] ^= 1 << (bit % 8)
		}
	}
	if !right {
		return nil
	}
	t := parseTimes(times)
	return &t
}
