package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/boltfile"
	"keyp/storage/format"
)

// One damaged bit of the data file must never make a key silently missing, nor let an old one
// return. bbolt verifies nothing. So:
//
//   - Before bbolt maps the file, its meta pages and its list of free pages are read
//     (dataFile.prove): with a damaged list bbolt would overwrite pages in use.
//   - While the log is replayed, the branch pages are read (boltfile.Prove). This proves that they
//     lead to no free page, and to no page that is also elsewhere in a tree. So a look-up never
//     ends in an old copy of a page. They are about a hundredth of the file. Damage ends the start.
//   - The buckets meta, slots and garbage are read whole at the start. Every entry has a checksum,
//     and damage ends the start: these buckets say what data the file must have.
//   - The checksum of a record proves the record that a look-up finds. A miss proves nothing before
//     the slot is verified: all its pages are sound, all its records verify, and their number and
//     digest are those of the slot's entry. A slot is verified once, before its first miss is
//     believed and before its first record is written. Otherwise a record that is put into a
//     damaged page could be in a place where the next look-up finds an older record.
//   - Reads of a range (elements of a value, a stretch of keys, ttl) check its pages
//     in the same way (each).
//   - The end of a checkpoint is committed twice before the log lets its segments go, so
//     that both meta pages lead to it.

// prove checks the data file before bbolt opens it. One damaged meta page is no error: the
// other one is as good (see commitAgain).
func (df *dataFile) prove(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	metas, err := boltfile.Metas(file, format.PageSize)
	if err != nil {
		return err
	}
	damaged := slices.DeleteFunc(metas[:], func(m boltfile.Meta) bool { return m.Err == nil })
	if len(damaged) < len(metas) { // otherwise Open says more
		for _, m := range damaged {
			df.s.options.Logger.Warn(
				"a meta page of the data file is damaged, the other one is used", "file",
				path, "error", m.Err)
		}
	}
	f, err := boltfile.Open(file, info.Size(), format.PageSize)
	if err == nil {
		_, err = f.FreeList()
	}
	return df.damaged(path, err)
}

// damaged adds the file's path and the useful tools to an error of reading the data file.
func (df *dataFile) damaged(path string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf(
		"%w; the file is %s; `keyp check` reports more, `keyp repair` saves what is intact", err,
		path)
}

// proveTree proves the shape of all trees of the data file while nobody writes it.
func (df *dataFile) proveTree() error {
	return df.view(func(tx *bolt.Tx) error {
		df.s.options.Progress.Expect(tx.Size())
		f, err := boltfile.Open(df.s.options.Progress.Reader(mapped(tx)), tx.Size(),
			format.PageSize)
		if err == nil {
			_, err = f.Prove()
		}
		return df.damaged(df.mu.db.Path(), err)
	})
}

// memory is bbolt's mapping of the data file, valid during a transaction. A read may fault, so it
// is for guarded transactions.
type memory []byte

func mapped(tx *bolt.Tx) memory {
	info := tx.DB().Info()
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&info.Data)), tx.Size())
}

func (m memory) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 || at > int64(len(m)) {
		return 0, io.EOF
	}
	if n := copy(b, m[at:]); n < len(b) {
		return n, io.EOF
	}
	return len(b), nil
}

// each calls fn for the entries of a bucket from a key on, as they were before the transaction
// changed any. It trusts no page: the first damaged one is ErrCorrupt, so that no entry is skipped
// silently. With bad it reports each damaged page and continues.
func each(tx *bolt.Tx, bucket, from []byte, bad func(error), fn func(k, v []byte) error) error {
	f := boltfile.At(mapped(tx), format.PageSize, uint64(tx.Cursor().Bucket().Root()),
		uint64(tx.Size()/format.PageSize))
	tree, err := f.Bucket(bucket)
	if err == nil {
		var lenient func(*boltfile.Damage)
		if bad != nil {
			lenient = func(d *boltfile.Damage) {
				bad(fmt.Errorf("%w: bucket %s: %w", ErrCorrupt, bucket, d))
			}
		}
		err = tree.Each(from, lenient, fn)
	}
	var d *boltfile.Damage
	if errors.As(err, &d) || errors.Is(err, boltfile.ErrNoBucket) {
		err = fmt.Errorf("%w: bucket %s: %w", ErrCorrupt, bucket, err)
	}
	return err
}

// eachIn is each for the entries whose keys have a prefix.
func eachIn(tx *bolt.Tx, bucket, prefix []byte, fn func(k, v []byte) error) error {
	err := each(tx, bucket, prefix, nil, func(k, v []byte) error {
		if !bytes.HasPrefix(k, prefix) {
			return errEnough
		}
		return fn(k, v)
	})
	if err == errEnough {
		return nil
	}
	return err
}

// find looks a record up. A missing record is believed if sure; otherwise find verifies the slot
// first, and returns an error if the slot is damaged.
func find(tx *bolt.Tx, at []byte, sure bool) (record []byte, err error) {
	if record = tx.Bucket(format.BucketValues).Get(at); record == nil && !sure {
		err = verifySlot(tx, at[:6])
	}
	return record, err
}

// verifySlot proves that the records of a slot agree with the slot's entry.
func verifySlot(tx *bolt.Tx, slot []byte) error {
	var got format.SlotEntry
	err := eachIn(tx, format.BucketValues, slot, func(at, record []byte) error {
		if _, err := format.ParseImage(at, record); err != nil {
			return fmt.Errorf("%w: record %q", err, at)
		}
		got.Add(record)
		return nil
	})
	if err != nil {
		return err
	}
	want, ok := format.ParseSlot(slot, tx.Bucket(format.BucketSlots).Get(slot))
	if !ok || got != want {
		n := format.ParseSlotKey(slot)
		return fmt.Errorf(
			"%w: slot %d of keyspace %d has %d keys with digest %x, expected %d with %x",
			ErrCorrupt, n.Slot, n.Space, got.Keys, got.Digest, want.Keys, want.Digest)
	}
	return nil
}

// verifyBatch verifies the slots that a batch will change, unless they are verified. A corrupt
// record is no error here: the batch may replace it.
func (cp *checkpointer) verifyBatch(b *cpBatch) error {
	for run := range b.runs {
		p, sl := run[0].p, run[0].sl
		p.shard.mu.Lock()
		sure := sl.verified || sl.onDisk == 0
		p.shard.mu.Unlock()
		if sure {
			continue
		}
		err := cp.s.file.view(func(tx *bolt.Tx) error {
			return verifySlot(tx, format.SlotKey(nil, p.space, sl.num))
		})
		if bad := (*boltfile.Damage)(nil); errors.As(err, &bad) {
			return err
		}
		p.shard.mu.Lock()
		sl.verified = err == nil
		p.shard.mu.Unlock()
	}
	return nil
}
