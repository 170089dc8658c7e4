package repair

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"keyp/internal/boltfile"
	"keyp/internal/progress"
	"keyp/storage/format"
	"keyp/storage/object"
	"os"
)

// dataReader reads a data file page by page. Any page may be damaged.
type dataReader struct {
	path  string
	file  *os.File
	f     *boltfile.File
	found func(Finding)
	meter *progress.Meter

	hash     func(name []byte) uint64 // nil if the seed is not known
	state    format.State
	pages    int64
	elements int64
	slots    map[string]format.SlotEntry // by the records
	due      map[string]format.Times     // entries that ttl must have
	garbage  map[string]bool
}

// readData reads and checks a data file. It returns an error only if the file cannot be read at
// all.
func readData(path string, meter *progress.Meter, found func(Finding)) (*dataReader, error) {
	r := &dataReader{path: path, found: found, meter: meter, slots: map[string]format.SlotEntry{},
		due: map[string]format.Times{}, garbage: map[string]bool{}}
	if err := r.open(); err != nil {
		return r, err
	}
	defer func() { _ = r.file.Close() }()
	if r.f == nil {
		return r, nil
	}
	if _, err := r.f.Prove(); err != nil {
		r.bad(err)
	}
	r.meta()
	r.each(format.BucketGarbage, func(item, sum []byte) {
		if _, ok := format.Unseal(item, sum); !ok {
			r.at(format.BucketGarbage, item, "it fails its checksum")
		}
		r.garbage[string(item)] = true
	})
	r.each(format.BucketValues, r.value)
	r.each(format.BucketElements, func(at, v []byte) {
		r.elements++
		if _, _, _, err := format.ParseElement(at, v); err != nil {
			r.at(format.BucketElements, at, "it fails its checksum")
		}
	})
	r.times()
	r.each(format.BucketSlots, r.slot)
	for at := range r.slots {
		r.at(format.BucketSlots, []byte(at), "the slot has records and no entry")
	}
	return r, nil
}

// open opens the newest state of the file that can be read. Without one, it leaves f nil.
func (r *dataReader) open() (err error) {
	if r.file, err = os.Open(r.path); err != nil {
		return err
	}
	info, err := r.file.Stat()
	if err != nil {
		return errors.Join(err, r.file.Close())
	}
	metas, err := boltfile.Metas(r.file, format.PageSize)
	if err != nil {
		return errors.Join(err, r.file.Close())
	}
	for _, m := range metas {
		if m.Err != nil {
			r.bad(m.Err)
		}
	}
	r.meter.Expect(2 * info.Size()) // trees are read as a whole first, then bucket by bucket
	f, err := boltfile.Open(r.meter.Reader(r.file), info.Size(), format.PageSize)
	if err != nil {
		if metas[0].Err == nil || metas[1].Err == nil {
			r.bad(err)
		}
		return nil
	}
	r.f, r.pages = f, int64(f.Pages())
	return nil
}

func (r *dataReader) bad(err error) {
	var d *boltfile.Damage
	if errors.As(err, &d) {
		r.found(Finding{Where: fmt.Sprintf("%s, page %d, offset %d", r.path, d.Page, d.Offset),
			What: d.Reason})
		return
	}
	r.found(Finding{Where: r.path, What: err.Error()})
}

func (r *dataReader) at(bucket, key []byte, format string, args ...any) {
	r.found(Finding{Where: fmt.Sprintf("%s, bucket %s, entry %.100q", r.path, bucket, key),
		What: fmt.Sprintf(format, args...)})
}

// each visits the entries of a bucket that can be read.
func (r *dataReader) each(bucket []byte, fn func(k, v []byte)) {
	tree, err := r.f.Bucket(bucket)
	if err != nil {
		r.bad(fmt.Errorf("bucket %s: %w", bucket, err))
		return
	}
	if err := tree.Each(nil, func(d *boltfile.Damage) { r.bad(d) }, func(k, v []byte) error {
		fn(k, v)
		return nil
	}); err != nil {
		r.bad(err)
	}
}

func (r *dataReader) meta() {
	meta := map[string][]byte{}
	r.each(format.BucketMeta, func(k, v []byte) { meta[string(k)] = bytes.Clone(v) })
	if v := meta[string(format.MetaFormat)]; !bytes.Equal(v, []byte{format.Version}) {
		r.at(format.BucketMeta, format.MetaFormat,
			"the file has format %v, and this version knows %d; a server makes an older one new when it starts",
			v, format.Version)
	}
	seed, ok := format.Unseal(format.MetaSeed, meta[string(format.MetaSeed)])
	if key, whole := format.ParseSeed(seed); ok && whole {
		r.hash = key.Hash
	} else {
		r.at(format.BucketMeta, format.MetaSeed, "it fails its checksum")
	}
	st, ok := format.Unseal(format.MetaState, meta[string(format.MetaState)])
	if ok {
		var err error
		if r.state, err = format.ParseState(st); err != nil {
			ok = false
		}
	}
	if !ok {
		r.at(format.BucketMeta, format.MetaState, "it fails its checksum")
	}
}

func (r *dataReader) value(at, record []byte) {
	im, err := format.ParseImage(at, record)
	if err != nil {
		r.at(format.BucketValues, at, "the record fails its checksum")
		return
	}
	if im.BadTime {
		r.at(format.BucketValues, at, "the deadline fails its checksum")
	}
	k := format.Key{Slot: format.Slot(im.Name), Name: im.Name}
	if r.hash != nil {
		if k.Hash = r.hash(im.Name); !bytes.Equal(format.DiskKey(nil, binary.BigEndian.Uint32(at),
			k), at) {
			r.at(format.BucketValues, at, "the key %.100q does not belong there", im.Name)
		}
	}
	if im.Inline && im.Type != object.TypeString {
		if first, err := format.FirstInline(&im); err != nil || first != im.First && !im.BadTime {
			r.at(format.BucketValues, at,
				"its elements do not parse, or have another first deadline than it says")
		}
	}
	d := r.slots[string(at[:6])]
	d.Add(record)
	r.slots[string(at[:6])] = d
	if due := im.Due(); due != 0 {
		r.due[string(format.TTLKey(nil, due, at))] = im.Times
	}
}

// times compares ttl and its pending changes with the records.
func (r *dataReader) times() {
	pending := r.pending()
	entry := func(at, v []byte) {
		if _, ok := format.ParseTTL(at, v); !ok {
			r.at(format.BucketTTL, at, "it fails its checksum")
			return
		}
		if want, ok := r.due[string(at)]; !ok || !bytes.Equal(v, want.Entry(at)) {
			r.at(format.BucketTTL, at, "no record has that deadline")
		}
		delete(r.due, string(at))
	}
	r.each(format.BucketTTL, func(at, v []byte) {
		if _, changes := pending[string(at)]; !changes {
			entry(at, v)
		} else if _, ok := format.ParseTTL(at, v); !ok {
			r.at(format.BucketTTL, at, "it fails its checksum")
		}
	})
	for at, v := range pending {
		if v != nil {
			entry([]byte(at), v)
		}
	}
	for at := range r.due {
		r.at(format.BucketValues, []byte(at)[8:], "its deadline %d is not in bucket ttl",
			binary.BigEndian.Uint64([]byte(at)))
	}
}

// pending returns the changes of ttl that are still to be made: the new entries, or nil for an
// entry that is to be removed.
func (r *dataReader) pending() map[string][]byte {
	var d format.Moves
	r.each(format.BucketPending, func(k, v []byte) {
		if !d.Add(v) {
			r.at(format.BucketPending, k, "it fails its checksum")
		}
	})
	d.Split()
	return d.Entries()
}

// slot compares a slot's entry with its records. In a keyspace that is being deleted, records are
// deleted before the entry, so there the two may differ.
func (r *dataReader) slot(at, v []byte) {
	n := format.ParseSlotKey(at)
	says, ok := format.ParseSlot(at, v)
	has := r.slots[string(at)]
	delete(r.slots, string(at))
	switch {
	case !n.OK || !ok:
		r.at(format.BucketSlots, at, "it fails its checksum")
	case has != says && !r.garbage[string(format.GarbageSpace(n.Space))]:
		r.at(format.BucketSlots, at,
			"slot %d of keyspace %d has %d sound keys with digest %x, and says %d with %x", n.Slot,
			n.Space, has.Keys, has.Digest, says.Keys, says.Digest)
	}
}
