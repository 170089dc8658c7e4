package datafile

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// Meta is the content of the meta bucket.
type Meta struct {
	Seed  format.Seed
	State format.State
	// Doubtful: a checkpoint was interrupted, and the bucket ttl may lack changes.
	Doubtful bool
}

// readMeta reads the meta bucket of any format version.
func readMeta(tx *bolt.Tx) (m Meta, err error) {
	meta := tx.Bucket(format.BucketMeta)
	if v := meta.Get(format.MetaFormat); len(v) != 1 || v[0] < 1 || v[0] > format.Version {
		return m, fmt.Errorf("%w: %v, this version reads up to %d", format.ErrFormat,
			v, format.Version)
	}
	text, state := meta.Get(format.MetaSeed), meta.Get(format.MetaState)
	if meta.Get(format.MetaFormat)[0] >= 3 {
		var ok, also bool
		text, ok = format.Unseal(format.MetaSeed, text)
		state, also = format.Unseal(format.MetaState, state)
		if !ok || !also {
			return m, fmt.Errorf("%w: the meta bucket", format.ErrCorrupt)
		}
	}
	var whole bool
	if m.Seed, whole = format.ParseSeed(text); !whole {
		return m, fmt.Errorf("%w: the meta bucket has no seed", format.ErrCorrupt)
	}
	m.Doubtful = meta.Get(format.MetaDoubt) != nil
	m.State, err = format.ParseState(state)
	return m, err
}

// fill makes the buckets and the meta data of a new data file, in its first transaction.
func fill(tx *bolt.Tx, seed format.Seed, st format.State) error {
	for _, name := range format.Buckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return errors.Join(tx.Bucket(format.BucketMeta).Put(format.MetaFormat, []byte{format.Version}),
		PutMeta(tx, format.MetaSeed, seed.Append(nil)),
		PutMeta(tx, format.MetaState, st.Append(nil)))
}

// Upgrade converts a file of an older format to the present one. It verifies the garbage bucket of
// a file of the present format.
func (f *File) Upgrade() error {
	version := byte(0)
	err := f.View(func(tx *bolt.Tx) error {
		if version = tx.Bucket(format.BucketMeta).Get(
			format.MetaFormat)[0]; version == format.Version {
			return proveGarbage(tx)
		}
		return nil
	})
	if err != nil || version == format.Version {
		return err
	}
	if f.o.ReadOnly {
		return fmt.Errorf("%w: %d; a server makes it %d when it starts, then it can be read",
			format.ErrFormat, version, format.Version)
	}
	if err := f.ProveTree(); err != nil {
		return err
	}
	return f.Update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(format.BucketPending); err != nil {
			return err
		}
		meta := tx.Bucket(format.BucketMeta)
		err := errors.Join(meta.Put(format.MetaFormat, []byte{format.Version}),
			PutMeta(tx, format.MetaSeed, meta.Get(format.MetaSeed)),
			PutMeta(tx, format.MetaState, meta.Get(format.MetaState)))
		for _, name := range [][]byte{format.BucketSlots, format.BucketGarbage} {
			err = errors.Join(err, sealAll(tx.Bucket(name)))
		}
		return err
	})
}

// PutMeta writes an entry of the meta bucket, with its checksum.
func PutMeta(tx *bolt.Tx, key, value []byte) error {
	return tx.Bucket(format.BucketMeta).Put(key, format.Seal(key, value))
}

// sealAll adds checksums to all entries of a bucket.
func sealAll(b *bolt.Bucket) error {
	sealed := map[string][]byte{}
	err := b.ForEach(func(k, v []byte) error {
		sealed[string(k)] = format.Seal(k, v)
		return nil
	})
	for k, v := range sealed {
		err = errors.Join(err, b.Put([]byte(k), v))
	}
	return err
}
