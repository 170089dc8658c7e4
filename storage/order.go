package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
)

// putElements applies changes in key order, which is fastest in bbolt, and the changes of one
// element in their own order.
func putElements(bucket *bolt.Bucket, b *cpBatch) error {
	bucket.FillPercent = datafile.FillPercent
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

// turn is a change's sort key and its index.
type turn struct {
	id, head uint64 // the first 16 bytes of the key
	i        int    // among all changes, as they came
	c        *element
}

// inOrder sorts the changes of elements by key; the changes of one key keep their order. Most
// comparisons need only a turn's part of the key. The changes are not copied, because there may be
// hundreds of thousands. The runtime cannot be interrupted while it copies a slice of many
// megabytes. If a garbage collection begins meanwhile, all goroutines wait.
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
			turns = append(turns, turn{binary.BigEndian.Uint64(key[:]),
				binary.BigEndian.Uint64(key[8:]), len(turns), c})
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
