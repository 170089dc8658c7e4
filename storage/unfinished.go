package storage

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/ttl"
)

// Unfinished is a key that an unfinished checkpoint left in the data file: with only a part of its
// value, or under the old and the new name of a RENAME.
type Unfinished struct {
	Space uint32
	Name  string
	// Gone: the value was deleted, because the remains of a string, or of some collections, are no
	// valid value.
	Gone bool
}

// unfinished is a record of the data file that endUnfinished looks at.
type unfinished struct {
	at    []byte
	id    uint64
	whole bool
}

// endUnfinished finds each value that an unfinished checkpoint wrote only in part and that the log
// did not complete. It replaces the value by a new one that consists of the parts that exist. It
// does the same if two records have one value, because a checkpoint ended between the two names of
// a renamed key.
func (s *Store) endUnfinished(stated func(space uint32, name string) bool,
	report func(Unfinished)) error {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	return s.file.View(func(tx *bolt.Tx) error {
		var parts []unfinished
		uses := map[uint64]int{}
		err := datafile.Each(tx, format.BucketValues, nil, nil, func(at, record []byte) error {
			im, err := format.ParseImage(at, record)
			if err != nil || im.Inline || !s.mayHave(at, &im) {
				return err
			}
			uses[im.ID]++
			whole, err := isWhole(tx, &im)
			parts = append(parts, unfinished{bytes.Clone(at), im.ID, whole})
			return err
		})
		for _, u := range parts {
			if err != nil {
				return err
			}
			if !u.whole || uses[u.id] > 1 {
				err = s.endOne(t, tx, u, uses[u.id] > 1, stated, report)
			}
		}
		return err
	})
}

// mayHave reports whether a record may have the present value of its key. It may if memory does not
// know the key, or has the same value.
func (s *Store) mayHave(at []byte, im *format.Image) bool {
	p, k := s.placeOf(at, im)
	if p == nil {
		return false
	}
	c := p.find(p.slot(k), k)
	return c == nil || p.valueOf(c, im.ID) != nil
}

// placeOf returns the key of a record and the part that the key belongs to; nil if no database has
// its keyspace.
func (s *Store) placeOf(at []byte, im *format.Image) (*part, Key) {
	k := Key{Slot: format.Slot(im.Name), Hash: s.hash(im.Name), Name: im.Name}
	space := binary.BigEndian.Uint32(at)
	if k.DB = s.dbOf(space); k.DB < 0 {
		return nil, k
	}
	return s.partOf(space, s.shards[s.shardOf(k.Slot)]), k
}

// isWhole reports whether the data file has all elements of the value that a record describes.
func isWhole(tx *bolt.Tx, im *format.Image) (bool, error) {
	n, short, first := 0, false, int64(0)
	err := datafile.EachElement(tx, im.ID, nil, func(_, val []byte, deadline int64) error {
		if short {
			n = -1 // a string's piece before the last one is not full
			return datafile.ErrEnough
		}
		n++
		short = im.Type == object.TypeString && len(val) < object.ChunkSize
		first = format.Earlier(first, deadline)
		return nil
	})
	return n == im.Elements() && first == im.First, err
}

// endOne replaces a value by one of the parts that exist, unless a record of the log has changed
// the value since. It reports the value, unless stated returns true for its key. twice: two records
// have it.
func (s *Store) endOne(t *Txn, tx *bolt.Tx, u unfinished, twice bool,
	stated func(space uint32, name string) bool, report func(Unfinished)) error {
	im, err := format.ParseImage(u.at, tx.Bucket(format.BucketValues).Get(u.at))
	if err != nil {
		return err
	}
	im.Name = bytes.Clone(im.Name)
	p, k := s.placeOf(u.at, &im)
	sl := p.slot(k)
	c := p.find(sl, k)
	found := Unfinished{Space: p.space, Name: string(k.Name)}
	if c != nil && c.Is(hashtable.Dirty) && !twice {
		if !stated(found.Space, found.Name) {
			report(found)
		}
		return nil
	}
	if c == nil {
		im.Partial = true
		got, err := readResident(tx, &im)
		if err != nil || im.Type == object.TypeString && !u.whole || got.object.val.Len() == 0 {
			p.tombstone(sl, k)
			found.Gone = true
			report(found)
			return nil
		}
		c = p.load(sl, k, got)
	}
	o := p.objectOf(*c)
	if o.val.Len() == 0 || im.Type == object.TypeString && !u.whole {
		p.unindex(sl, c)
		s.dropped(p, *c)
		p.retire(sl, c)
		found.Gone = true
	} else {
		t.Replace(k, o.val.Clone(), ttl.At(p.deadline(*c)), Event{})
	}
	report(found)
	return nil
}
