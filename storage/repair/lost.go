package repair

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/object"
)

// A value that is incomplete in the data file is found by its key's record, which is damaged or has
// more elements than are left. A value that was renamed may have no record: an unfinished
// checkpoint may have removed the record of the old name and not yet written that of the new one.
// Such a value is found by the rename in the log. A later record in the log may make up for the
// damage, because it sets or deletes the key. Repair names the keys whose values stay incomplete.
// If a piece of a string is missing, nothing of it is saved; otherwise zeros would replace the
// piece.

// lostValue is a value that the data file lacks, or has only in part.
type lostValue struct {
	at   spot   // of its record; the log may have renamed it since
	id   uint64 // 0 if its record is damaged
	what string
	left bool // some of its elements are left
}

// storedValue describes the elements of a value that the data file contains.
type storedValue struct {
	count   int
	first   int64 // when its first element is due, 0: never
	named   bool  // a record names it
	damaged bool  // an element fails its checksum
	// For a string: the number of its last piece, that piece's length, and how many pieces are
	// not full.
	last   uint64
	length int
	short  int
}

func (sv *salvage) value(id uint64) *storedValue {
	v := sv.values[id]
	if v == nil {
		v = &storedValue{}
		sv.values[id] = v
	}
	return v
}

func (v *storedValue) add(elem, val []byte, deadline int64) {
	v.count++
	if deadline != 0 {
		v.first = format.Earlier(v.first, deadline)
	}
	if len(elem) != 8 {
		return
	}
	if n := binary.BigEndian.Uint64(elem); n >= v.last {
		v.last, v.length = n, len(val)
	}
	if len(val) < object.ChunkSize {
		v.short++
	}
}

// isString reports whether the pieces of a string are complete: they follow each other up to one
// that is not full.
func (v *storedValue) isString() bool {
	return v.last+1 == uint64(v.count) && v.short == 1 && v.length < object.ChunkSize
}

// notWhole describes what is lost of the value of a record that is stored by element. It returns
// nil if nothing is lost.
func (sv *salvage) notWhole(im *format.Image) *lostValue {
	v, n := sv.values[im.ID], im.Elements()
	if !sv.damaged || v.count == n && (!v.damaged || im.Type == object.TypeString && v.isString()) {
		// A damaged element may have another value's id, but this string has all of its
		// pieces.
		return nil
	}
	l := &lostValue{id: im.ID, what: fmt.Sprintf("of %d the data file has %d left", n, v.count),
		left: true}
	if v.count == n {
		l.what = "one that is damaged may be of it"
	}
	if im.Type == object.TypeString || v.count == 0 {
		l.what, l.left = fmt.Sprintf("%d of its %d pieces are left", v.count, n), false
	}
	return l
}

// renamed describes what is lost of a value to which the log gives another key. It returns nil if
// the data file does not show a loss. If no record names the value, it is unknown how many elements
// it had.
func (sv *salvage) renamed(id uint64, typ object.Type) *lostValue {
	v := sv.values[id]
	if l := sv.partial[id]; l != nil || !sv.damaged || v != nil && v.named {
		return l
	}
	l := &lostValue{id: id, what: "no element of it is left"}
	switch {
	case v == nil || v.count == 0:
	case typ != object.TypeString:
		l.what, l.left = fmt.Sprintf("the data file has %d left, and may have had more", v.count),
			true
	case v.damaged || !v.isString():
		l.what = fmt.Sprintf("%d of its pieces are left", v.count)
	default:
		return nil
	}
	sv.partial[id] = l
	return l
}

// followLost reads the log to find out where lost values are at the end.
func (sv *salvage) followLost() error {
	for _, l := range sv.missing {
		sv.log.lost[l.at] = l
	}
	sv.log.renamed = sv.renamed
	if err := sv.log.survey(); err != nil {
		return err
	}
	for id, l := range sv.partial {
		if v := sv.values[id]; v != nil && v.count > 0 && !l.left {
			if err := sv.dropElements(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportLost reports the keys of lost values, except the keys that are stated (log.go).
func (sv *salvage) reportLost(s *storage.Store) {
	for _, at := range slices.SortedFunc(maps.Keys(sv.log.lost), spot.compare) {
		l := sv.log.lost[at]
		of := "key"
		if l.left {
			of = "elements of key"
			if r := s.Replayed(at.space, []byte(at.name)); r.Known && r.ID != l.id {
				continue
			}
		}
		sv.lost("%s %.100q of database %s: %s", of, at.name, sv.database(at.space), l.what)
	}
}

// dropElements deletes the saved elements of a value that is not to be used.
func (sv *salvage) dropElements(id uint64) error {
	if err := sv.flush(); err != nil {
		return err
	}
	v := sv.value(id)
	sv.elements -= int64(v.count)
	v.count = 0
	prefix := binary.BigEndian.AppendUint64(nil, id)
	return sv.db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket(format.BucketElements).Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Seek(prefix) {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}
