package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// state is what the meta bucket says of the moment the newest finished checkpoint
// rotated the log: replay starts from it with segment first.
type state struct {
	first      uint64 // log segment
	generation uint64
	nextSpace  uint32
	shards     int          // fixed when the data directory is made: the log's records name them
	spaces     []uint32     // by database number
	counts     []partCounts // of parts that are not empty
	time       int64        // as the log said it (recTime), Unix ms; 0: it did not, or the state is older than such records
}

type partCounts struct {
	space         uint32
	shard         int
	keys, expires int64
}

func (st *state) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, st.first)
	dst = binary.AppendUvarint(dst, st.generation)
	dst = binary.AppendUvarint(dst, uint64(st.nextSpace))
	dst = binary.AppendUvarint(dst, uint64(st.shards))
	dst = binary.AppendUvarint(dst, uint64(len(st.spaces)))
	for _, sp := range st.spaces {
		dst = binary.AppendUvarint(dst, uint64(sp))
	}
	dst = binary.AppendUvarint(dst, uint64(len(st.counts)))
	for _, c := range st.counts {
		for _, v := range []uint64{uint64(c.space), uint64(c.shard), uint64(c.keys), uint64(c.expires)} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return binary.AppendUvarint(dst, uint64(st.time))
}

func parseState(b []byte) (st state, err error) {
	f := fields{rest: b}
	st.first, st.generation, st.nextSpace, st.shards = f.int(), f.int(), uint32(f.int()), int(f.int())
	for n := f.int(); n > 0 && !f.bad; n-- {
		st.spaces = append(st.spaces, uint32(f.int()))
	}
	for n := f.int(); n > 0 && !f.bad; n-- {
		st.counts = append(st.counts, partCounts{uint32(f.int()), int(f.int()), int64(f.int()), int64(f.int())})
	}
	if len(f.rest) > 0 {
		st.time = int64(f.int())
	}
	if f.bad || !validShards(st.shards) {
		return st, fmt.Errorf("%w: the meta bucket's state does not parse", ErrCorrupt)
	}
	return st, nil
}

const (
	dataFile = "keyp.db"
	newFile  = dataFile + ".new"
	lockFile = "keyp.lock"
	logDir   = "wal"
)

// openData opens or makes the data file.
func (s *Store) openData() (st state, err error) {
	path := filepath.Join(s.options.Dir, dataFile)
	if err := s.prepareData(path); err != nil {
		return st, err
	}
	if err := s.proveFile(path); err != nil {
		return st, err
	}
	if s.db, s.data, err = s.openBolt(path); err != nil {
		return st, err
	}
	err = s.view(func(tx *bolt.Tx) error {
		for _, name := range buckets[:len(buckets)-1] { // format 1 has not the last
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: there is no bucket %s", ErrCorrupt, name)
			}
		}
		return s.readMeta(tx, &st)
	})
	if errors.Is(err, ErrCorrupt) {
		err = s.damaged(path, err)
	}
	if err == nil && !s.options.readOnly {
		err = uninterrupted(func() error { return s.settleData(path) })
	}
	if err == nil {
		err = s.upgradeData()
	}
	if err != nil {
		return st, errors.Join(err, s.db.Close())
	}
	return st, nil
}

var buckets = [][]byte{bucketValues, bucketElements, bucketTTL, bucketSlots, bucketMeta, bucketGarbage, bucketPending}

// prepareData makes a data file at path if there is none.
func (s *Store) prepareData(path string) error {
	if s.options.readOnly {
		return nil
	}
	// What was cut short leaves its file: a compaction, or the making of the data file.
	for _, name := range []string{compactFile, newFile} {
		if err := removeFile(filepath.Join(s.options.Dir, name)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.syncPath(); err != nil {
		return err
	}
	return s.makeData(path)
}

// freelistType is how bbolt keeps its list of free pages in memory. Which of them it takes is
// left to chance; a test that needs the same each time has it otherwise.
var freelistType = bolt.FreelistMapType

// openBolt opens or makes a file of bbolt. Damage that bbolt trips over is ErrCorrupt.
func (s *Store) openBolt(path string) (db *bolt.DB, data DataFile, err error) {
	var file *os.File
	open := func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	err = uninterrupted(func() error {
		return guard(func() (err error) {
			db, err = bolt.Open(path, 0o600, &bolt.Options{
				Timeout:         openTimeout,
				FreelistType:    freelistType,
				InitialMmapSize: s.options.InitialMmap,
				PageSize:        pageSize,
				OpenFile:        open,
				ReadOnly:        s.options.readOnly,
			})
			return err
		})
	})
	if errors.Is(err, ErrCorrupt) { // it panicked, with the file open and locked
		return nil, nil, errors.Join(s.damaged(path, err), file.Close())
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("storage: %s: %w", path, err)
	}
	data = osData{file}
	if s.options.readOnly {
		return db, data, nil
	}
	if s.options.OnData != nil {
		data = s.options.OnData(path, data)
		intercept(db, data)
	}
	// bbolt counts the unused pages when a writing transaction ends.
	tx, err := db.Begin(true)
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, data, nil
}

// readMeta reads what the meta bucket says, of any format.
func (s *Store) readMeta(tx *bolt.Tx, st *state) (err error) {
	meta := tx.Bucket(bucketMeta)
	if v := meta.Get(metaFormat); len(v) != 1 || v[0] < 1 || v[0] > formatVersion {
		return fmt.Errorf("%w: %v, this version reads up to %d", ErrFormat, v, formatVersion)
	}
	seed, state := meta.Get(metaSeed), meta.Get(metaState)
	if meta.Get(metaFormat)[0] >= 3 {
		var ok, also bool
		seed, ok = unseal(metaSeed, seed)
		state, also = unseal(metaState, state)
		if !ok || !also {
			return fmt.Errorf("%w: the meta bucket", ErrCorrupt)
		}
	}
	if len(seed) != 16 {
		return fmt.Errorf("%w: the meta bucket has no seed", ErrCorrupt)
	}
	s.seed = [2]uint64{binary.BigEndian.Uint64(seed), binary.BigEndian.Uint64(seed[8:])}
	s.ttlDoubtful = meta.Get(metaDoubt) != nil
	*st, err = parseState(state)
	return err
}

func putMeta(tx *bolt.Tx, key, value []byte) error {
	return tx.Bucket(bucketMeta).Put(key, seal(key, value))
}

// upgradeData makes a file of an older format one of this, and notes what is pending.
func (s *Store) upgradeData() error {
	format := byte(0)
	err := s.view(func(tx *bolt.Tx) error {
		if format = tx.Bucket(bucketMeta).Get(metaFormat)[0]; format == formatVersion {
			s.checkpointer.pending = pendingIn(tx)
			return proveGarbage(tx)
		}
		return nil
	})
	if err != nil || format == formatVersion {
		return err
	}
	if s.options.readOnly {
		return fmt.Errorf("%w: %d; a server makes it %d when it starts, then it can be read", ErrFormat, format, formatVersion)
	}
	if err := s.proveTree(); err != nil {
		return err
	}
	return s.update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(bucketPending); err != nil {
			return err
		}
		s.checkpointer.pending = pendingIn(tx)
		meta := tx.Bucket(bucketMeta)
		err := errors.Join(meta.Put(metaFormat, []byte{formatVersion}),
			putMeta(tx, metaSeed, meta.Get(metaSeed)), putMeta(tx, metaState, meta.Get(metaState)))
		for _, name := range [][]byte{bucketSlots, bucketGarbage} {
			err = errors.Join(err, sealAll(tx.Bucket(name)))
		}
		return err
	})
}

// sealAll gives all entries of a bucket their checksums.
func sealAll(b *bolt.Bucket) error {
	sealed := map[string][]byte{}
	err := b.ForEach(func(k, v []byte) error {
		sealed[string(k)] = seal(k, v)
		return nil
	})
	for k, v := range sealed {
		err = errors.Join(err, b.Put([]byte(k), v))
	}
	return err
}

// makeData makes a new data file at path. It has another name until it is whole: a crash
// would leave half of one, which is not told from a damaged one.
func (s *Store) makeData(path string) (err error) {
	made := filepath.Join(s.options.Dir, newFile)
	db, _, err := s.openBolt(made)
	if err != nil {
		return err
	}
	// Twice, so that both meta pages lead to it (see twice).
	again := func(*bolt.Tx) error { return nil }
	if err := errors.Join(updateNew(db, s.makeBuckets), updateNew(db, again), db.Close()); err != nil {
		return err
	}
	if err := s.step(StepMade); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	if err := s.step(StepNamed); err != nil {
		return err
	}
	return s.syncDir()
}

// makeBuckets is the first transaction of a data file.
func (s *Store) makeBuckets(tx *bolt.Tx) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	st := state{shards: s.options.Shards, nextSpace: uint32(s.options.Databases + 1)}
	for i := range s.options.Databases {
		st.spaces = append(st.spaces, uint32(i+1))
	}
	seed := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.options.Random()), s.options.Random())
	return errors.Join(tx.Bucket(bucketMeta).Put(metaFormat, []byte{formatVersion}), putMeta(tx, metaSeed, seed), putMeta(tx, metaState, st.append(nil)))
}

// current is the state as the held shards have it; all of them are held.
func (s *Store) current() state {
	st := state{generation: s.generation.Load(), nextSpace: s.nextSpace, shards: len(s.shards), spaces: append([]uint32(nil), s.spaces[:s.options.Databases]...)}
	for _, sh := range s.shards {
		for _, p := range sh.parts {
			if p != nil && p.keys|p.expires != 0 {
				st.counts = append(st.counts, partCounts{p.space, sh.num, p.keys, p.expires})
			}
		}
	}
	return st
}

// dataUse is the length of the data file (0 if it cannot be looked at), and how much of
// it is unused, as of the last transaction.
func (s *Store) dataUse() (size, unused int64) {
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if info, err := os.Stat(s.db.Path()); err == nil {
		size = info.Size()
	}
	return size, int64(s.db.Stats().FreeAlloc)
}
