package datafile

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
//     (File.prove): with a damaged list bbolt would overwrite pages in use.
//   - While the log is replayed, the branch pages, about a hundredth of the file, are read
//     (boltfile.Prove). This proves that they lead to no free page, and to no page that is also
//     elsewhere in a tree. So a look-up never ends in an old copy of a page. If a branch page is
//     damaged, the start fails.
//   - The buckets meta, slots and garbage are read whole at the start. Every entry has a checksum,
//     and the start fails if one is damaged: these buckets say what data the file must have.
//   - The checksum of a record proves the record that a look-up finds. If a look-up finds no
//     record, that proves nothing before the slot is verified: all its pages are sound, all its
//     records verify, and their number and digest are those of the slot's entry. A slot is verified
//     once: before the first time that a missing record is believed, and before its first record is
//     written. Otherwise bbolt could write a record into the wrong page, if pages are damaged, and
//     a look-up would find an older record instead.
//   - Reads of a range (elements of a value, a stretch of keys, ttl) check its pages
//     in the same way (Each).
//   - The end of a checkpoint is committed twice before the log lets its segments go, so
//     that both meta pages lead to it.

// prove checks the data file before bbolt opens it. One damaged meta page is no error: the other
// one is as good, because the last transaction of each checkpoint is committed twice.
func (f *File) prove(path string) error {
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
			f.o.Logger.Warn(
				"a meta page of the data file is damaged, the other one is used", "file",
				path, "error", m.Err)
		}
	}
	pages, err := boltfile.Open(file, info.Size(), format.PageSize)
	if err == nil {
		_, err = pages.FreeList()
	}
	return f.damaged(path, err)
}

// damaged adds the file's path and the useful tools to an error of reading the data file.
func (f *File) damaged(path string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, format.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", format.ErrCorrupt, err)
	}
	return fmt.Errorf(
		"%w; the file is %s; `keyp check` reports more, `keyp repair` saves what is intact", err,
		path)
}

// ProveTree proves the shape of all trees of the data file while nobody writes it.
func (f *File) ProveTree() error {
	return f.View(func(tx *bolt.Tx) error {
		f.o.Progress.Expect(tx.Size())
		pages, err := boltfile.Open(f.o.Progress.Reader(mapped(tx)), tx.Size(),
			format.PageSize)
		if err == nil {
			_, err = pages.Prove()
		}
		return f.damaged(f.mu.db.Path(), err)
	})
}

// memory is bbolt's mapping of the data file, valid during a transaction. A read may fault, so it
// is for transactions that recoverFault runs.
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

// Each calls fn for the entries of a bucket from a key on, as they were before the transaction
// changed any. It trusts no page: the first damaged one is format.ErrCorrupt, so that no entry is
// skipped silently. With bad it reports each damaged page and continues.
func Each(tx *bolt.Tx, bucket, from []byte, bad func(error), fn func(k, v []byte) error) error {
	f := boltfile.At(mapped(tx), format.PageSize, uint64(tx.Cursor().Bucket().Root()),
		uint64(tx.Size()/format.PageSize))
	tree, err := f.Bucket(bucket)
	if err == nil {
		var lenient func(*boltfile.Damage)
		if bad != nil {
			lenient = func(d *boltfile.Damage) {
				bad(fmt.Errorf("%w: bucket %s: %w", format.ErrCorrupt, bucket, d))
			}
		}
		err = tree.Each(from, lenient, fn)
	}
	var d *boltfile.Damage
	if errors.As(err, &d) || errors.Is(err, boltfile.ErrNoBucket) {
		err = fmt.Errorf("%w: bucket %s: %w", format.ErrCorrupt, bucket, err)
	}
	return err
}

// EachIn is Each for the entries whose keys have a prefix.
func EachIn(tx *bolt.Tx, bucket, prefix []byte, fn func(k, v []byte) error) error {
	err := Each(tx, bucket, prefix, nil, func(k, v []byte) error {
		if !bytes.HasPrefix(k, prefix) {
			return ErrEnough
		}
		return fn(k, v)
	})
	if err == ErrEnough {
		return nil
	}
	return err
}

// Find looks a record up. A missing record is believed if sure; otherwise Find verifies the slot
// first, and returns an error if the slot is damaged.
func Find(tx *bolt.Tx, at []byte, sure bool) (record []byte, err error) {
	if record = tx.Bucket(format.BucketValues).Get(at); record == nil && !sure {
		err = VerifySlot(tx, at[:6])
	}
	return record, err
}

// VerifySlot proves that the records of a slot agree with the slot's entry.
func VerifySlot(tx *bolt.Tx, slot []byte) error {
	var got format.SlotEntry
	err := EachIn(tx, format.BucketValues, slot, func(at, record []byte) error {
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
			format.ErrCorrupt, n.Slot, n.Space, got.Keys, got.Digest, want.Keys, want.Digest)
	}
	return nil
}
