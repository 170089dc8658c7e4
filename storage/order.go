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
	bucket.FillPercent = fillPercent
	for _, at := range inOrder(b.entries) {
		var err error
		if at.c.rec == nil {
			err = bucket.Delete(at.c.at)
		} else {
			err = bucket.Put(at.c.at, at.c.rec)
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
	i        int    // among all changes, as they came
	c        *element
}

// inOrder sorts the changes of elements by key, and those of one key as they came. Most
// comparisons need no more than what a turn has of the key. There may be hundreds of
// thousands, so none is copied: while the runtime copies a slice of many megabytes to a
// larger one it can't be interrupted, and a collection that begins has everybody wait.
func inOrder(entries []entry) []turn {
	n := 0
	for i := range entries {
		n += len(entries[i].elements)
	}
	turns := make([]turn, 0, n)
	for i := range entries {
		for j := range entries[i].elements {
			c := &entries[i].elements[j]
			var key [16]byte
			copy(key[:], c.at)
			turns = append(turns, turn{binary.BigEndian.Uint64(key[:]), binary.BigEndian.Uint64(key[8:]), len(turns), c})
		}
	}
	slices.SortFunc(turns, func(x, y turn) int {
		if c := cmp.Compare(x.id, y.id); c != 0 {
			return c
		}
		if c := cmp.Compare(x.head, y.head); c != 0 {
			return c
		}
		if c := bytes.Compare(x.c.at, y.c.at); c != 0 {
			return c
		}
		return cmp.Compare(x.i, y.i)
	})
	return turns
}
