package datafile

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/progress"
	"keyp/storage/format"
)

// Keyspace is the content of a database in the data file, for a check. Records are those of the
// keys. Slots has for each hash slot the entry with the number and the checksum of its records.
type Keyspace struct {
	Records map[string]format.Image // by name on disk
	Slots   map[uint16]format.SlotEntry
}

// Verify reads the data file and checks it by itself: checksums, slot counts and digests, and that
// values agree with ttl and its pending changes.
func Verify(tx *bolt.Tx, meter *progress.Meter) (map[uint32]*Keyspace, []error) {
	var errs []error
	disk := map[uint32]*Keyspace{}
	of := func(space uint32) *Keyspace {
		if disk[space] == nil {
			disk[space] = &Keyspace{map[string]format.Image{}, map[uint16]format.SlotEntry{}}
		}
		return disk[space]
	}
	due := map[string]format.Times{}
	must := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	must(tx.Bucket(format.BucketValues).ForEach(func(at, record []byte) error {
		meter.Done(int64(len(at) + len(record)))
		im, err := format.ParseImage(at, record)
		if err != nil || im.BadTime {
			must(fmt.Errorf("%w: record %x", format.ErrCorrupt, at))
			return nil
		}
		whole := im
		whole.Partial = true // a checkpoint that did not finish may have left it behind
		if _, err := ReadValue(tx, &whole); err != nil {
			must(err)
		}
		n := format.ParseSlotKey(at[:6])
		f := of(n.Space)
		f.Records[string(at)] = im
		d := f.Slots[n.Slot]
		d.Add(record)
		f.Slots[n.Slot] = d
		if d := im.Due(); d != 0 {
			due[string(format.TTLKey(nil, d, at))] = im.Times
		}
		return nil
	}))
	entry := func(at, v []byte) {
		if want, ok := due[string(at)]; !ok || !bytes.Equal(v, want.Entry(at)) {
			must(fmt.Errorf("ttl entry %x has no record", at))
		}
		delete(due, string(at))
	}
	pending, err := pendingEntries(tx)
	must(err)
	must(tx.Bucket(format.BucketTTL).ForEach(func(at, v []byte) error {
		if _, ok := pending[string(at)]; !ok {
			entry(at, v)
		}
		return nil
	}))
	for at, v := range pending {
		if v != nil {
			entry([]byte(at), v)
		}
	}
	for at := range due {
		must(fmt.Errorf("record %x has no ttl entry", at[8:]))
	}
	entries := map[format.SlotName]bool{}
	must(tx.Bucket(format.BucketSlots).ForEach(func(at, v []byte) error {
		n := format.ParseSlotKey(at)
		entries[n] = true
		says, ok := format.ParseSlot(at, v)
		if f := of(n.Space); !ok || f.Slots[n.Slot] != says && !IsGarbage(tx, n.Space) {
			must(fmt.Errorf("slot %d of keyspace %d: says %+v, has %+v", n.Slot, n.Space, says,
				f.Slots[n.Slot]))
		}
		return nil
	}))
	for space, f := range disk {
		for slot := range f.Slots {
			if !entries[format.SlotName{Space: space, Slot: slot, OK: true}] {
				must(fmt.Errorf("slot %d of keyspace %d has records and no entry", slot, space))
			}
		}
	}
	return disk, errs
}

// pendingEntries returns the entries of ttl that the pending changes write or remove. The value is
// nil for an entry that they remove.
func pendingEntries(tx *bolt.Tx) (map[string][]byte, error) {
	var d Pending
	if err := d.Read(tx); err != nil {
		return nil, err
	}
	return d.Entries(), d.Damaged
}

// RepairTimes replaces the damaged times of an image. It takes them from ttl or the corrected
// record; without either the key has no deadline, and it returns false.
func RepairTimes(tx *bolt.Tx, at []byte, im *format.Image) bool {
	d := format.Deadlines{Of: map[string][]format.Times{string(at): nil},
		Doubt: tx.Bucket(format.BucketMeta).Get(format.MetaDoubt) != nil}
	pending, err := pendingEntries(tx)
	d.Doubt = d.Doubt || err != nil
	d.Read(pending, func(fn func(at, v []byte)) {
		_ = Each(tx, format.BucketTTL, nil, func(error) {
			d.Holes = true
		}, func(at, v []byte) error { fn(at, v); return nil })
	})
	return d.Repair(at, im)
}
