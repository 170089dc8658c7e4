package datafile

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// Large deletions are done later, in steps: an entry of the bucket garbage names a deleted
// collection or an emptied database. GarbageStep bounds how many of its records one call of
// CollectSome deletes.
const GarbageStep = 5000

// IsGarbage reports whether a keyspace waits to be deleted. Its slots may then claim records that
// are deleted already.
func IsGarbage(tx *bolt.Tx, space uint32) bool {
	return hasKey(tx.Bucket(format.BucketGarbage), format.GarbageSpace(space))
}

// proveGarbage verifies the checksums of all items in the garbage bucket.
func proveGarbage(tx *bolt.Tx) error {
	return Each(tx, format.BucketGarbage, nil, nil, func(item, sum []byte) error {
		if _, ok := format.Unseal(item, sum); !ok {
			return fmt.Errorf("%w: entry %x of bucket garbage", format.ErrCorrupt, item)
		}
		return nil
	})
}

// PutGarbage writes an item with a checksum: data deleted by mistake would be lost.
func PutGarbage(tx *bolt.Tx, item []byte) error {
	return tx.Bucket(format.BucketGarbage).Put(item, format.Seal(item, nil))
}

// CollectSome deletes what an item of the garbage bucket names, or GarbageStep records of it, and
// returns whether there was one.
func CollectSome(tx *bolt.Tx) (more bool, err error) {
	g := tx.Bucket(format.BucketGarbage)
	item, _ := g.Cursor().First() // 'k' comes after 'e' and before 's', so it is looked up, not met
	if item != nil && item[0] == 'k' {
		item, _ = g.Cursor().Seek([]byte{'s'})
	}
	if item == nil {
		return false, nil
	}
	item = append([]byte(nil), item...)
	var left bool
	if item[0] == 's' {
		left, err = collectSpace(tx, item[1:])
	} else {
		left, err = DeleteRange(tx.Bucket(format.BucketElements), item[1:])
	}
	if err == nil && !left {
		err = g.Delete(item)
	}
	return true, err
}

// collectSpace deletes a keyspace's records with their elements and deadlines.
func collectSpace(tx *bolt.Tx, prefix []byte) (left bool, err error) {
	values, ttls, g := tx.Bucket(format.BucketValues), tx.Bucket(format.BucketTTL),
		tx.Bucket(format.BucketGarbage)
	var keys [][]byte
	c := values.Cursor()
	for at, record := c.Seek(prefix); bytes.HasPrefix(at, prefix); at, record = c.Next() {
		if len(keys) == GarbageStep {
			left = true
			break
		}
		at = append([]byte(nil), at...)
		keys = append(keys, at)
		im, err := format.ParseImage(at, record)
		if err != nil {
			continue // damaged: its contents cannot be trusted
		}
		if due := im.Due(); due != 0 {
			if err := ttls.Delete(format.TTLKey(nil, due, at)); err != nil {
				return false, err
			}
		}
		if id := im.Stored(); id != 0 &&
			!hasKey(g, format.GarbageKeep(binary.BigEndian.Uint32(prefix), id)) {
			if err := PutGarbage(tx, format.GarbageValue(id)); err != nil {
				return false, err
			}
		}
	}
	for _, at := range keys {
		if err := values.Delete(at); err != nil {
			return false, err
		}
	}
	if left {
		return true, nil
	}
	if left, err = DeleteRange(tx.Bucket(format.BucketSlots), prefix); left || err != nil {
		return left, err
	}
	return DeleteRange(g, append([]byte{'k'}, prefix...))
}

func hasKey(b *bolt.Bucket, key []byte) bool {
	k, _ := b.Cursor().Seek(key)
	return string(k) == string(key)
}

// DeleteRange deletes keys with a prefix, up to GarbageStep of them.
func DeleteRange(b *bolt.Bucket, prefix []byte) (left bool, err error) {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if len(keys) == GarbageStep {
			left = true
			break
		}
		keys = append(keys, append([]byte(nil), k...))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return false, err
		}
	}
	return left, nil
}
