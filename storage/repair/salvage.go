package repair

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/boltfile"
	"keyp/internal/vfs"
	"keyp/storage"
	"keyp/storage/format"
	"keyp/storage/object"
)

// salvage makes a data file from the sound entries of a damaged one.
type salvage struct {
	old    *dataReader
	log    *oldLog
	report func(Loss)

	state format.State
	seed  format.Seed
	// seedKnown: the old file's seed is readable and is used again, so that names on disk stay
	// the same.
	seedKnown bool
	db        *bolt.DB
	put       []saved
	size      int
	elements  int64
	values    map[uint64]*storedValue     // by id
	slots     map[string]format.SlotEntry // of the new file
	// missing and partial describe keys whose records are damaged or whose values are incomplete.
	// missing has all of them, by the keys of their entries in the bucket values.
	missing map[string]*lostValue
	partial map[uint64]*lostValue // those whose value ids are known, by these ids
	due     format.Deadlines      // of records whose times are damaged
	notes   int                   // that were reported
	garbage map[uint32]bool       // keyspaces that are being deleted
	damaged bool                  // some elements may be missing
}

// batchBytes bounds a transaction that writes the new file, in bytes.
const batchBytes = 32 << 20

// saved is an entry on its way to the new file.
type saved struct{ bucket, key, value []byte }

func newSalvage(dir string, report func(Loss)) *salvage {
	path := filepath.Join(dir, format.DataName)
	return &salvage{
		old: &dataReader{path: path, slots: map[string]format.SlotEntry{},
			due: map[string]format.Times{}, garbage: map[string]bool{}},
		log: newOldLog(filepath.Join(dir, format.LogDir)), report: report,
		values: map[uint64]*storedValue{}, slots: map[string]format.SlotEntry{},
		missing: map[string]*lostValue{}, partial: map[uint64]*lostValue{},
		garbage: map[uint32]bool{}, due: format.Deadlines{Of: map[string][]format.Times{}},
	}
}

// lost reports data that is not saved; note reports damage.
func (sv *salvage) lost(format string, args ...any) {
	sv.report(Loss{What: fmt.Sprintf(format, args...)})
}

func (sv *salvage) note(format string, args ...any) {
	sv.notes++
	sv.report(Loss{What: "data file: " + fmt.Sprintf(format, args...), Kind: Note})
}

// run writes the new file. It takes from o the settings that the old file does not contain.
func (sv *salvage) run(path string, o *storage.Options) (err error) {
	old := sv.old
	old.found = func(f Finding) { sv.note("%v", f) }
	old.meter, sv.log.meter = o.Progress, o.Progress
	o.Progress.Begin("saving the data file")
	if err := old.open(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if old.file != nil {
		defer func() { _ = old.file.Close() }()
	}
	if sv.db, err = bolt.Open(path, 0o600, &bolt.Options{PageSize: format.PageSize,
		NoSync: true}); err != nil {
		return err
	}
	for _, name := range format.Buckets {
		if err := sv.db.Update(func(tx *bolt.Tx) error {
			_, err := tx.CreateBucket(name)
			return err
		}); err != nil {
			return errors.Join(err, sv.db.Close())
		}
	}
	err = sv.save(o)
	return errors.Join(err, vfs.Uninterrupted(sv.db.Sync), sv.db.Close())
}

func (sv *salvage) save(o *storage.Options) error {
	if sv.old.f == nil {
		sv.lost("all of the data file: it has no meta page that can be used")
		return errors.Join(sv.meta(o), sv.finish(o))
	}
	if err := sv.chooseMeta(); err != nil {
		return err
	}
	if err := sv.meta(o); err != nil {
		return err
	}
	notes := sv.old.f.Begin()
	if notes.Blind != nil {
		sv.note(
			"the list of free pages is damaged, so pages that are cut off look like old ones: %v",
			notes.Blind)
	}
	if err := sv.dues(); err != nil {
		return err
	}
	// Records come after elements, which show whether a record's value is whole. The pages that
	// are cut off are known only after all trees were walked.
	for _, name := range format.Buckets {
		pass := func(_, _ []byte) error { return nil }
		if bytes.Equal(name, format.BucketElements) {
			pass = sv.element
		}
		if err := sv.eachOf(name, sv.bad(name), pass); err != nil {
			return err
		}
	}
	if err := notes.Rest(sv.cutOff(false)); err != nil {
		return err
	}
	if err := sv.eachOf(format.BucketValues, quiet, sv.record); err != nil {
		return err
	}
	if err := notes.Rest(sv.cutOff(true)); err != nil {
		return err
	}
	return sv.finish(o)
}

// chooseMeta uses the other meta page if the newest one does not lead to a readable bucket meta.
func (sv *salvage) chooseMeta() error {
	old := sv.old
	if _, err := old.f.Bucket(format.BucketMeta); err == nil {
		return nil
	}
	metas, err := boltfile.Metas(old.file, format.PageSize)
	if err != nil {
		return err
	}
	info, err := old.file.Stat()
	if err != nil {
		return err
	}
	for _, m := range metas {
		if m.Err != nil {
			continue
		}
		f, err := boltfile.OpenAt(old.file, info.Size(), format.PageSize, m)
		if err != nil {
			continue
		}
		if _, err := f.Bucket(format.BucketMeta); err == nil {
			old.f = f
			sv.note(
				"the tree of buckets is damaged, and the one before the last transaction is used")
			return nil
		}
	}
	return nil
}

// meta reads the bucket meta of the old file.
func (sv *salvage) meta(o *storage.Options) error {
	all := map[string][]byte{}
	if sv.old.f != nil {
		sv.old.each(format.BucketMeta, func(k, v []byte) { all[string(k)] = bytes.Clone(v) })
	}
	if v := all[string(format.MetaFormat)]; len(v) == 1 && v[0] < format.Version {
		return fmt.Errorf("%w: %d, and this version repairs %d; `keyp check` of the version that wrote it may help",
			format.ErrFormat, v[0], format.Version)
	}
	seed, ok := format.Unseal(format.MetaSeed, all[string(format.MetaSeed)])
	known, whole := format.ParseSeed(seed)
	if sv.seed, sv.seedKnown = known, ok && whole; !sv.seedKnown {
		sv.seed = format.Seed{o.Random(), o.Random()}
	}
	st, ok := format.Unseal(format.MetaState, all[string(format.MetaState)])
	if ok {
		var err error
		sv.state, err = format.ParseState(st)
		ok = err == nil
	}
	if !ok {
		sv.state = format.State{Shards: o.Shards, NextSpace: 1, First: lowestSegment(sv.log.dir)}
		sv.lost("what the data file says of the last checkpoint: which database a key belongs to is a guess, and the log is applied from its lowest segment on")
	}
	sv.log.since(sv.state, !ok)
	_, sv.due.Doubt = all[string(format.MetaDoubt)]
	return nil
}

// eachOf visits the entries of a bucket of the old file that can be read.
func (sv *salvage) eachOf(bucket []byte, bad func(error), fn func(k, v []byte) error) error {
	tree, err := sv.old.f.Bucket(bucket)
	if err != nil {
		bad(err)
		return nil
	}
	return tree.Each(nil, func(d *boltfile.Damage) { bad(d) }, fn)
}

// quiet ignores damage. It is for a walk over a bucket whose damage another walk reports.
func quiet(error) {}

// bad returns a function that reports damage of a bucket.
func (sv *salvage) bad(bucket []byte) func(error) {
	return func(err error) {
		sv.damaged = sv.damaged || bytes.Equal(bucket, format.BucketElements)
		if bytes.Equal(bucket, format.BucketSlots) {
			sv.lost(
				"how many keys some slots had, so that nobody can say what is missing of them: %v",
				err)
			return
		}
		sv.note("bucket %s: %v", bucket, err)
	}
}

// cutOff returns a function that saves the records, or else the elements, of pages to which no tree
// leads.
func (sv *salvage) cutOff(records bool) func(page uint64, k, v []byte) error {
	last := uint64(0)
	return func(page uint64, k, v []byte) error {
		if page != last && !records {
			last = page
			sv.note("page %d is cut off; what is sound of it is saved", page)
		}
		if _, err := format.ParseImage(k, v); err == nil {
			if records {
				return sv.record(k, v)
			}
			return nil
		}
		if _, _, _, err := format.ParseElement(k, v); err == nil && !records {
			return sv.element(k, v)
		}
		return nil
	}
}

func (sv *salvage) element(at, v []byte) error {
	elem, deadline, val, err := format.ParseElement(at, v)
	if err != nil {
		sv.damaged = true
		sv.note("an element of the value %x fails its checksum", at[:min(len(at), 8)])
		if len(at) >= 8 {
			sv.value(binary.BigEndian.Uint64(at)).damaged = true
		}
		return nil
	}
	id := binary.BigEndian.Uint64(at)
	sv.value(id).add(elem, val, deadline)
	sv.sawID(id)
	sv.elements++
	return sv.write(format.BucketElements, bytes.Clone(at), bytes.Clone(v))
}

// dues finds, in the bucket ttl, the times of the records whose own times are damaged.
func (sv *salvage) dues() error {
	err := sv.eachOf(format.BucketValues, quiet, func(at, v []byte) error {
		if im, err := format.ParseImage(at, v); err == nil && im.BadTime {
			sv.due.Of[string(at)] = nil
		}
		return nil
	})
	if err != nil || len(sv.due.Of) == 0 {
		return err
	}
	was := sv.notes
	pending := sv.old.pending()
	sv.due.Doubt = sv.due.Doubt || sv.notes > was
	sv.due.Read(pending, func(fn func(at, v []byte)) {
		err = sv.eachOf(format.BucketTTL, func(error) {
			sv.due.Holes = true
		}, func(at, v []byte) error { fn(at, v); return nil })
	})
	return err
}

// repairTimes restores a record's times from ttl and from its elements.
func (sv *salvage) repairTimes(at []byte, im *format.Image) {
	switch {
	case !sv.due.Repair(at, im):
		sv.lost("the deadline of key %.100q of database %s: it is persistent now", im.Name,
			sv.database(binary.BigEndian.Uint32(at)))
	case im.Deadline == 0:
		sv.note("the deadline of key %.100q fails its checksum; it had none", im.Name)
	default:
		sv.note("the deadline of key %.100q fails its checksum; it was repaired", im.Name)
	}
	im.First = 0
	if v := sv.values[im.ID]; v != nil && !im.Inline {
		im.First = v.first
	}
	if im.Inline {
		if im.Type != object.TypeString {
			im.First, _ = format.FirstInline(im)
		}
	}
}

// nameOf returns the name of a key from the key of its entry in the bucket values. ok is false if
// the entry's key is damaged or has only a digest of the name.
func (sv *salvage) nameOf(at []byte) (name string, ok bool) {
	if len(at) <= format.PrefixLen || at[format.PrefixLen] != 0 {
		return "", false
	}
	k := format.Key{Name: at[format.PrefixLen+1:]}
	k.Slot = format.Slot(k.Name)
	prefix := bytes.Clone(at[6:format.PrefixLen])
	if k.Hash = binary.BigEndian.Uint64(append(prefix, 0, 0, 0, 0)); sv.seedKnown {
		k.Hash = sv.seed.Hash(k.Name)
	}
	return string(k.Name), bytes.Equal(format.DiskKey(nil, binary.BigEndian.Uint32(at), k), at)
}

// sawID records that the data file has elements or the record of a value.
func (sv *salvage) sawID(id uint64) {
	sv.log.onDisk(id)
	sv.state.Generation = max(sv.state.Generation, id)
}

// record saves a record and its entry in ttl.
func (sv *salvage) record(at, v []byte) error {
	im, err := format.ParseImage(at, v)
	if err != nil {
		if name, ok := sv.nameOf(at); ok {
			sv.missing[string(at)] = &lostValue{at: spot{binary.BigEndian.Uint32(at), name},
				what: "its record fails its checksum"}
		} else {
			sv.note("an entry of bucket values, %.100q, fails its checksum, and does not say of which key it is",
				at)
		}
		return nil
	}
	space := binary.BigEndian.Uint32(at)
	name := bytes.Clone(im.Name)
	if im.BadTime {
		sv.repairTimes(at, &im)
	}
	if !im.Inline {
		sv.value(im.ID).named = true
		if l := sv.notWhole(&im); l != nil {
			l.at = spot{space, string(name)}
			sv.missing[string(at)], sv.partial[im.ID] = l, l
			if !l.left {
				return sv.dropElements(im.ID)
			}
			im.Payload = binary.AppendUvarint(nil, uint64(sv.values[im.ID].count))
			im.First = sv.values[im.ID].first
		}
	}
	sv.sawID(im.ID)
	sv.state.NextSpace = max(sv.state.NextSpace, space+1)
	k := format.Key{Slot: format.Slot(name), Name: name}
	k.Hash = sv.seed.Hash(name)
	at = format.DiskKey(nil, space, k)
	v = im.Append(nil, at)
	d := sv.slots[string(at[:6])]
	d.Add(v)
	sv.slots[string(at[:6])] = d
	if due := im.Due(); due != 0 {
		entry := format.TTLKey(nil, due, at)
		if err := sv.write(format.BucketTTL, entry, im.Entry(entry)); err != nil {
			return err
		}
	}
	return sv.write(format.BucketValues, at, v)
}

// finish writes everything that depends on the records, and bucket meta.
func (sv *salvage) finish(o *storage.Options) error {
	if sv.old.f != nil {
		err := sv.eachOf(format.BucketGarbage, quiet, func(item, sum []byte) error {
			if _, ok := format.Unseal(item, sum); !ok {
				sv.note("entry %x of bucket garbage: some space stays in use for nothing", item)
				return nil
			}
			if len(item) == 5 && item[0] == 's' {
				sv.garbage[binary.BigEndian.Uint32(item[1:])] = true
			}
			return sv.write(format.BucketGarbage, bytes.Clone(item), format.Seal(item, nil))
		})
		if err == nil {
			err = sv.eachOf(format.BucketSlots, quiet, sv.compareSlot)
		}
		if err != nil {
			return err
		}
	}
	for at, d := range sv.slots {
		if space := format.ParseSlotKey([]byte(at)).Space; !sv.garbage[space] {
			sv.log.meet(space)
		}
		if err := sv.write(format.BucketSlots, []byte(at), d.Seal([]byte(at))); err != nil {
			return err
		}
	}
	if err := sv.followLost(); err != nil {
		return err
	}
	sv.databases(o)
	// The state in the data file names the first segment of the log.
	var err error
	to := filepath.Join(filepath.Dir(sv.db.Path()), format.LogDir)
	if sv.state.First, err = sv.log.copyTo(to, o); err != nil {
		return err
	}
	sv.put = append(sv.put, saved{format.BucketMeta, format.MetaFormat, []byte{format.Version}},
		saved{format.BucketMeta, format.MetaSeed,
			format.Seal(format.MetaSeed, sv.seed.Append(nil))},
		saved{format.BucketMeta, format.MetaState,
			format.Seal(format.MetaState, sv.state.Append(nil))})
	return sv.flush()
}

// databases assigns each stray keyspace (oldLog.strays) to a database. If the state is known, the
// strays become additional databases. If it is a guess, databases assumes the keyspaces of a new
// directory: 1, 2 … for the databases 0, 1 …. Other strays then get the databases that are free.
func (sv *salvage) databases(o *storage.Options) {
	st, strays := &sv.state, sv.log.strays()
	for _, id := range strays {
		st.NextSpace = max(st.NextSpace, id+1)
	}
	if !sv.log.guess {
		sv.log.emptied = len(strays)
		st.Spaces = append(st.Spaces, strays...)
		return
	}
	first := func(id uint32) bool { return int(id) <= o.Databases }
	for _, id := range strays {
		for first(id) && len(st.Spaces) < int(id) {
			st.Spaces = append(st.Spaces, 0)
		}
		if first(id) {
			st.Spaces[id-1] = id
		}
	}
	for _, id := range slices.DeleteFunc(strays, first) {
		if free := slices.Index(st.Spaces, 0); free >= 0 {
			st.Spaces[free] = id
		} else {
			st.Spaces = append(st.Spaces, id)
		}
	}
	for i, id := range st.Spaces {
		if id == 0 {
			st.Spaces[i] = st.NextSpace
			st.NextSpace++
		}
	}
}

// compareSlot reports how many keys of a slot are missing although their names are not known.
func (sv *salvage) compareSlot(at, v []byte) error {
	n := format.ParseSlotKey(at)
	says, ok := format.ParseSlot(at, v)
	has := sv.slots[string(at)]
	if known := has.Keys + sv.knownMissing(at); n.OK && ok && known < says.Keys {
		sv.lost("%d of %d keys of slot %d of database %s, whose names are not known, unless the log has them",
			says.Keys-known, says.Keys, n.Slot, sv.database(n.Space))
	}
	return nil
}

func (sv *salvage) knownMissing(slot []byte) (n int64) {
	for at := range sv.missing {
		if bytes.HasPrefix([]byte(at), slot) {
			n++
		}
	}
	return n
}

// database returns the name of a keyspace's database, for reports.
func (sv *salvage) database(space uint32) string {
	if space == format.SystemSpace {
		return "of the server itself"
	}
	if db := slices.Index(sv.state.Spaces, space); db >= 0 {
		return fmt.Sprint(db)
	}
	return fmt.Sprintf("(keyspace %d)", space)
}

// write adds an entry to the new file. Transactions have a bounded size.
func (sv *salvage) write(bucket, key, value []byte) error {
	sv.put = append(sv.put, saved{bucket, key, value})
	if sv.size += len(key) + len(value); sv.size < batchBytes {
		return nil
	}
	return sv.flush()
}

func (sv *salvage) flush() error {
	err := sv.db.Update(func(tx *bolt.Tx) error {
		for _, e := range sv.put {
			if err := tx.Bucket(e.bucket).Put(e.key, e.value); err != nil {
				return err
			}
		}
		return nil
	})
	sv.put, sv.size = sv.put[:0], 0
	return err
}
