package storage

import (
	"fmt"
	"slices"

	"keyp/storage/format"
)

// Mirror applies a batch of another member, which the log has up to lsn. The prototype knows puts only.
func (s *Store) Mirror(t *Txn, batch []byte, lsn uint64) error {
	if len(batch) == 0 {
		return nil
	}
	var room [4]Key
	keys := room[:0]
	for f := (format.Fields{Rest: batch}); len(f.Rest) > 0 && !f.Bad; {
		if r := format.ReadRecord(&f); r.Tag == format.RecPut {
			keys = append(keys, s.mirrorKey(r.Space, r.Key))
		} else if r.Tag != format.RecCounts {
			return fmt.Errorf("the prototype does not apply record %d", r.Tag)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := s.BeginBeside(t, keys); err != nil {
		return err
	}
	n := 0
	for f := (format.Fields{Rest: batch}); len(f.Rest) > 0; {
		if f.Rest[0] != format.RecPut {
			format.ReadRecord(&f)
			continue
		}
		f.Rest = f.Rest[1:]
		f.Int()
		f.Bytes()
		deadline, created := f.Deadline()
		t.set(keys[n], f.Bytes(), deadline, created, accessNow)
		n++
	}
	t.mirrored = lsn
	t.End()
	t.mirrored = 0
	return nil
}

func (s *Store) mirrorKey(space uint32, name []byte) Key {
	return Key{DB: slices.Index(s.spaces.ids, space), Slot: Slot(name), Hash: s.hash(name), Name: name}
}
