package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/boltfile"
	"keyp/internal/vfs"
	"keyp/storage/object"
	"keyp/storage/wal"
)

// Finding is something that is not as it must be in a data directory.
type Finding struct {
	Where string // file, page and offset, bucket and key
	What  string
	// Harmless: nothing is wrong with any key, but space is taken for nothing.
	Harmless bool
}

func (f Finding) String() string { return f.Where + ": " + f.What }

// Inspected is what Inspect has looked at.
type Inspected struct {
	Recovered
	Pages, Elements int64 // of the data file
	Log             wal.Report
}

// Inspect reads all of the data directory o.Dir, without changing anything, and tells found
// of all that is wrong. Of the data file it proves by itself: that its pages are sound,
// their trees and the list of free pages; every checksum; counts and digests of slots; that
// ttl, with what is pending, and records agree. Of the log: that it is whole up to its end.
// If all that is so it replays the log in memory and proves that data file, memory, counts
// and index agree, and looks for elements that belong to nobody. The error is one of reading:
// of what could not be looked at at all. No server may use the directory.
func Inspect(o Options, found func(Finding)) (got Inspected, err error) {
	if err := o.complete(); err != nil {
		return got, err
	}
	lock, err := o.lockForReading()
	if err != nil {
		return got, err
	}
	damaged := false
	told := func(f Finding) { damaged = damaged || !f.Harmless; found(f) }
	file, err := readData(filepath.Join(o.Dir, dataFile), told)
	if err == nil {
		got.Pages, got.Elements = file.pages, file.elements
		got.Log, err = inspectLog(o.Dir, file.state.first, told)
	}
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	if err != nil || damaged {
		return got, err
	}
	o.readOnly, o.NoBackground = true, true
	o.Databases = max(o.Databases, len(file.state.spaces))
	s, rec, err := Open(o)
	if err != nil {
		told(Finding{Where: o.Dir, What: err.Error()})
		return got, nil
	}
	got.Recovered = rec
	tell(s.Check(), func(err error) { told(Finding{Where: o.Dir, What: err.Error()}) })
	err = s.findOrphans(told)
	return got, errors.Join(err, s.Close(false))
}

// tell calls fn for each of joined errors.
func tell(err error, fn func(error)) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && !errors.Is(err, ErrCorrupt) {
		for _, e := range many.Unwrap() {
			tell(e, fn)
		}
		return
	}
	fn(err)
}

// inspectLog reads the log from a segment on.
func inspectLog(dir string, first uint64, found func(Finding)) (wal.Report, error) {
	o := wal.Options{FS: readOnlyFS{vfs.OS}, Dir: filepath.Join(dir, logDir)}
	report, err := wal.Check(o, first, nil)
	var bad *wal.CorruptError
	if !errors.As(err, &bad) {
		return report, err
	}
	gaps := 0
	_, err = wal.Salvage(o, first, func(uint64, []byte) error { return nil }, func(g wal.Gap) error {
		gaps++
		found(Finding{Where: fmt.Sprintf("%s, offset %d", g.File, g.Offset), What: g.Reason})
		return nil
	})
	if gaps == 0 {
		found(Finding{Where: fmt.Sprintf("%s, offset %d", bad.File, bad.Offset), What: bad.Reason})
	}
	return report, err
}

// dataReader reads a data file page by page, of which any may be damaged.
type dataReader struct {
	path  string
	file  *os.File
	f     *boltfile.File
	found func(Finding)

	hash     func(name []byte) uint64 // nil if the seed is not known
	state    state
	pages    int64
	elements int64
	slots    map[string]diskSlot // by the records
	due      map[string]times    // entries that ttl must have
	garbage  map[string]bool
}

// readData reads and checks a data file. The error says that it cannot be read at all.
func readData(path string, found func(Finding)) (*dataReader, error) {
	r := &dataReader{path: path, found: found, slots: map[string]diskSlot{}, due: map[string]times{}, garbage: map[string]bool{}}
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
	r.each(bucketGarbage, func(item, sum []byte) {
		if _, ok := unseal(item, sum); !ok {
			r.at(bucketGarbage, item, "it fails its checksum")
		}
		r.garbage[string(item)] = true
	})
	r.each(bucketValues, r.value)
	r.each(bucketElements, func(at, v []byte) {
		r.elements++
		if _, _, _, err := parseElement(at, v); err != nil {
			r.at(bucketElements, at, "it fails its checksum")
		}
	})
	r.times()
	r.each(bucketSlots, r.slot)
	for at := range r.slots {
		r.at(bucketSlots, []byte(at), "the slot has records and no entry")
	}
	return r, nil
}

// open finds the newest state of the file that can be read; f is nil if there is none.
func (r *dataReader) open() (err error) {
	if r.file, err = os.Open(r.path); err != nil {
		return err
	}
	info, err := r.file.Stat()
	if err != nil {
		return errors.Join(err, r.file.Close())
	}
	metas, err := boltfile.Metas(r.file, pageSize)
	if err != nil {
		return errors.Join(err, r.file.Close())
	}
	for _, m := range metas {
		if m.Err != nil {
			r.bad(m.Err)
		}
	}
	f, err := boltfile.Open(r.file, info.Size(), pageSize)
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
		r.found(Finding{Where: fmt.Sprintf("%s, page %d, offset %d", r.path, d.Page, d.Offset), What: d.Reason})
		return
	}
	r.found(Finding{Where: r.path, What: err.Error()})
}

func (r *dataReader) at(bucket, key []byte, format string, args ...any) {
	r.found(Finding{Where: fmt.Sprintf("%s, bucket %s, entry %.100q", r.path, bucket, key), What: fmt.Sprintf(format, args...)})
}

// each visits what can be read of a bucket.
func (r *dataReader) each(bucket []byte, fn func(k, v []byte)) {
	tree, err := r.f.Bucket(bucket)
	if err != nil {
		r.bad(fmt.Errorf("bucket %s: %w", bucket, err))
		return
	}
	if err := tree.Each(nil, func(d *boltfile.Damage) { r.bad(d) }, func(k, v []byte) error { fn(k, v); return nil }); err != nil {
		r.bad(err)
	}
}

func (r *dataReader) meta() {
	meta := map[string][]byte{}
	r.each(bucketMeta, func(k, v []byte) { meta[string(k)] = bytes.Clone(v) })
	if v := meta[string(metaFormat)]; !bytes.Equal(v, []byte{formatVersion}) {
		r.at(bucketMeta, metaFormat, "the file has format %v, and this version knows %d; a server makes an older one new when it starts", v, formatVersion)
	}
	seed, ok := unseal(metaSeed, meta[string(metaSeed)])
	if ok && len(seed) == 16 {
		s := Store{seed: [2]uint64{binary.BigEndian.Uint64(seed), binary.BigEndian.Uint64(seed[8:])}}
		r.hash = s.hash
	} else {
		r.at(bucketMeta, metaSeed, "it fails its checksum")
	}
	st, ok := unseal(metaState, meta[string(metaState)])
	if ok {
		var err error
		if r.state, err = parseState(st); err != nil {
			ok = false
		}
	}
	if !ok {
		r.at(bucketMeta, metaState, "it fails its checksum")
	}
}

func (r *dataReader) value(at, record []byte) {
	im, err := parseImage(at, record)
	if err != nil {
		r.at(bucketValues, at, "the record fails its checksum")
		return
	}
	if im.badTime {
		r.at(bucketValues, at, "the deadline fails its checksum")
	}
	k := Key{Slot: Slot(im.name), Name: im.name}
	if r.hash != nil {
		if k.Hash = r.hash(im.name); !bytes.Equal(diskKey(nil, binary.BigEndian.Uint32(at), k), at) {
			r.at(bucketValues, at, "the key %.100q does not belong there", im.name)
		}
	}
	if im.inline && im.typ != object.TypeString {
		if first, err := firstInline(&im); err != nil || first != im.first && !im.badTime {
			r.at(bucketValues, at, "its elements do not parse, or have another first deadline than it says")
		}
	}
	d := r.slots[string(at[:6])]
	r.slots[string(at[:6])] = diskSlot{d.keys + 1, d.digest ^ digestOf(record)}
	if due := im.due(); due != 0 {
		r.due[string(ttlKey(nil, due, at))] = im.times
	}
}

// firstInline is the first deadline of the elements of a value that stands in its record.
func firstInline(im *image) (int64, error) {
	v := object.New(im.typ)
	err := eachInline(im.payload, v.Put)
	return v.Earliest(), err
}

// times holds ttl and what is pending of it against the records.
func (r *dataReader) times() {
	pending := r.pending()
	entry := func(at, v []byte) {
		if _, ok := parseTTL(at, v); !ok {
			r.at(bucketTTL, at, "it fails its checksum")
			return
		}
		if want, ok := r.due[string(at)]; !ok || !bytes.Equal(v, want.entry(at)) {
			r.at(bucketTTL, at, "no record has that deadline")
		}
		delete(r.due, string(at))
	}
	r.each(bucketTTL, func(at, v []byte) {
		if _, changes := pending[string(at)]; !changes {
			entry(at, v)
		} else if _, ok := parseTTL(at, v); !ok {
			r.at(bucketTTL, at, "it fails its checksum")
		}
	})
	for at, v := range pending {
		if v != nil {
			entry([]byte(at), v)
		}
	}
	for at := range r.due {
		r.at(bucketValues, []byte(at)[8:], "its deadline %d is not in bucket ttl", binary.BigEndian.Uint64([]byte(at)))
	}
}

// pending are the entries of ttl that are still to be made, or removed (nil).
func (r *dataReader) pending() map[string][]byte {
	var d dueMoves
	r.each(bucketPending, func(k, v []byte) {
		if len(v) < 4 || crc32.Checksum(v[4:], castagnoli) != binary.LittleEndian.Uint32(v) || !whole(v[4:]) {
			r.at(bucketPending, k, "it fails its checksum")
			return
		}
		d.changes = append(d.changes, v[4:]...)
	})
	d.split()
	return d.entries()
}

// slot holds a slot's entry against its records. Those of a keyspace that is being deleted go
// before the entry does.
func (r *dataReader) slot(at, v []byte) {
	n := parseSlotKey(at)
	says, ok := parseSlot(at, v)
	has := r.slots[string(at)]
	delete(r.slots, string(at))
	switch {
	case !n.ok || !ok:
		r.at(bucketSlots, at, "it fails its checksum")
	case has != says && !r.garbage[string(garbageSpace(n.space))]:
		r.at(bucketSlots, at, "slot %d of keyspace %d has %d sound keys with digest %x, and says %d with %x", n.slot, n.space, has.keys, has.digest, says.keys, says.digest)
	}
}

// findOrphans tells of elements on disk that no record, no value in memory and no garbage
// names: an earlier version left those of a value that was renamed, and then deleted beside a
// checkpoint, before a crash. They harm nothing but take space.
func (s *Store) findOrphans(found func(Finding)) error {
	s.checkpointMu.Lock()
	defer s.checkpointMu.Unlock()
	named := map[uint64]bool{}
	s.eachObject(func(o *Object) { named[o.id] = true })
	garbage := func(item []byte) {
		if item[0] == 'e' && len(item) == 9 {
			named[binary.BigEndian.Uint64(item[1:])] = true
		}
	}
	for _, item := range s.garbage.items {
		garbage(item)
	}
	var last uint64
	var count, size int
	orphan := func() {
		if count > 0 && !named[last] {
			found(Finding{Where: fmt.Sprintf("bucket elements, value %d", last), Harmless: true,
				What: fmt.Sprintf("%d elements of %d bytes belong to no key", count, size)})
		}
		count, size = 0, 0
	}
	return s.view(func(tx *bolt.Tx) error {
		err := each(tx, bucketGarbage, nil, nil, func(item, _ []byte) error { garbage(item); return nil })
		if err == nil {
			err = each(tx, bucketValues, nil, nil, func(at, record []byte) error {
				im, err := parseImage(at, record)
				named[im.stored()] = true
				return err
			})
		}
		if err == nil {
			err = each(tx, bucketElements, nil, nil, func(at, v []byte) error {
				if id := binary.BigEndian.Uint64(at); id != last {
					orphan()
					last = id
				}
				count, size = count+1, size+len(at)+len(v)
				return nil
			})
		}
		orphan()
		return err
	})
}

// eachObject visits all values in memory that are Go objects.
func (s *Store) eachObject(fn func(*Object)) {
	t := s.NewTxn()
	s.BeginAll(t)
	defer t.End()
	for _, sh := range s.shards {
		for _, p := range sh.parts {
			if p == nil {
				continue
			}
			for _, o := range p.objects.list {
				if o != nil {
					fn(o)
				}
			}
		}
	}
}
