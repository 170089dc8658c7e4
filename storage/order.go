package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// putElements applies changes in key order, which is how bbolt likes them, and those of
// one element as they came.
func putElements(bucket *bolt.Bucket, b *cpBatch) error {
	var changes []element
	for i := range b.entries {
		changes = append(changes, b.entries[i].elements...)
	}
	bucket.FillPercent = fillPercent
	for _, at := range inOrder(changes) {
		c, err := &changes[at.i], error(nil)
		if c.rec == nil {
			err = bucket.Delete(c.at)
		} else {
			err = bucket.Put(c.at, c.rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turn is where a change stands in key order, and which one it is.
type turn struct {
	id, head uint64 // the first 16 bytes of the key
	i        int
}

// inOrder sorts changes by key, and those of one key as they came. Most comparisons need
// no more than what a turn has of the key.
func inOrder(changes []element) []turn {
	turns := make([]turn, len(changes))
	for i := range changes {
		var key [16]byte
		copy(key[:], changes[i].at)
		turns[i] = turn{binary.BigEndian.Uint64(key[:]), binary.BigEndian.Uint64(key[8:]), i}
	}
	slices.SortFunc(turns, func(x, y turn) int {
		if c := cmp.Compare(x.id, y.id); c != 0 {
			return c
		}
		if c := cmp.Compare(x.head, y.head); c != 0 {
			return c
		}
		if c := bytes.Compare(changes[x.i].at, changes[y.i].at); c != 0 {
			return c
		}
		return cmp.Compare(x.i, y.i)
	})
	return turns
}
