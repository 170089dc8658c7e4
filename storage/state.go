package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"keyp/internal/vfs"
	"keyp/storage/format"
	"keyp/storage/wal"
)

const (
	newFile  = format.DataName + ".new"
	lockFile = "keyp.lock"

	// openTimeout is how long to wait for another process that has the data file locked.
	openTimeout = 500 * time.Millisecond
)

// OwnFile reports whether a name in the data directory is one that a store uses.
func OwnFile(name string) bool {
	return name == lockFile || name == format.LogDir || name == format.DataName ||
		strings.HasPrefix(name, format.DataName+".")
}

// open opens or makes the data file.
func (df *dataFile) open() (st format.State, err error) {
	path := filepath.Join(df.s.options.Dir, format.DataName)
	if err := df.prepare(path); err != nil {
		return st, err
	}
	if err := df.prove(path); err != nil {
		return st, err
	}
	if df.mu.db, df.mu.out, err = df.openBolt(path); err != nil {
		return st, err
	}
	err = df.view(func(tx *bolt.Tx) error {
		for _, name := range format.Buckets[:len(format.Buckets)-1] { // format 1 has not the last
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: there is no bucket %s", ErrCorrupt, name)
			}
		}
		return df.readMeta(tx, &st)
	})
	if err == nil {
		err = df.s.options.belongs(&st)
	}
	if errors.Is(err, ErrCorrupt) {
		err = df.damaged(path, err)
	}
	if err == nil && !df.s.options.ReadOnly {
		err = vfs.Uninterrupted(func() error { return df.rewriteMeta(path) })
	}
	if err == nil {
		err = df.upgrade()
	}
	if err != nil {
		return st, errors.Join(err, df.mu.db.Close())
	}
	return st, nil
}

// prepare makes a data file at path if there is none. It refuses to do so if the log continues from
// a data file: only a log with its first segment contains all data.
func (df *dataFile) prepare(path string) error {
	if df.s.options.ReadOnly {
		return nil
	}
	// An interrupted compaction, creation or reception of the data file has left its file.
	for _, name := range []string{compactFile, newFile, receivedFile} {
		if err := removeFile(filepath.Join(df.s.options.Dir, name)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lowest, err := wal.Lowest(df.s.options.FS, filepath.Join(df.s.options.Dir, format.LogDir))
	if err != nil {
		return err
	}
	if lowest > 1 {
		return fmt.Errorf("storage: the data file %s is missing, and the log beside it goes on from there: put the file back, "+
			"or a backup of the directory; `keyp repair` saves what the log has", path)
	}
	if err := df.syncPath(); err != nil {
		return err
	}
	return df.make(path)
}

// freelistType is how bbolt keeps its list of free pages in memory. With this type it chooses pages
// at random; tests that need the same pages each time use another.
var freelistType = bolt.FreelistMapType

// mmapGrowth is how many times its length a data file may reach without a new mapping, if
// InitialMmap is not more.
const mmapGrowth = 4

// openBolt opens or makes a file of bbolt. If damage makes bbolt panic, the error is ErrCorrupt.
func (df *dataFile) openBolt(path string) (db *bolt.DB, data DataFile, err error) {
	s := df.s
	mmap := s.options.InitialMmap
	if info, err := os.Stat(path); err == nil {
		mmap = max(mmap, mmapGrowth*int(info.Size()))
	}
	var file *os.File
	open := func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	err = vfs.Uninterrupted(func() error {
		return recoverFault(func() (err error) {
			db, err = bolt.Open(path, 0o600, &bolt.Options{
				Timeout:         openTimeout,
				FreelistType:    freelistType,
				InitialMmapSize: mmap,
				PageSize:        format.PageSize,
				OpenFile:        open,
				ReadOnly:        s.options.ReadOnly,
			})
			return err
		})
	})
	if errors.Is(err, ErrCorrupt) { // it panicked, with the file open and locked
		return nil, nil, errors.Join(df.damaged(path, err), file.Close())
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("storage: %s: %w", path, err)
	}
	data = osData{file}
	if s.options.ReadOnly {
		return db, data, nil
	}
	if s.options.Testing.OnData != nil {
		data = s.options.Testing.OnData(path, data)
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

// readMeta sets the store's state from the meta bucket, of any format version, before anybody uses
// the store.
func (df *dataFile) readMeta(tx *bolt.Tx, st *format.State) (err error) {
	df.s.checkpointer.mu.ttlDoubtful = tx.Bucket(format.BucketMeta).Get(format.MetaDoubt) != nil
	df.s.seed, *st, err = parseMeta(tx)
	return err
}

// parseMeta reads the meta bucket of any format version.
func parseMeta(tx *bolt.Tx) (seed format.Seed, st format.State, err error) {
	meta := tx.Bucket(format.BucketMeta)
	if v := meta.Get(format.MetaFormat); len(v) != 1 || v[0] < 1 || v[0] > format.Version {
		return seed, st, fmt.Errorf("%w: %v, this version reads up to %d", ErrFormat,
			v, format.Version)
	}
	text, state := meta.Get(format.MetaSeed), meta.Get(format.MetaState)
	if meta.Get(format.MetaFormat)[0] >= 3 {
		var ok, also bool
		text, ok = format.Unseal(format.MetaSeed, text)
		state, also = format.Unseal(format.MetaState, state)
		if !ok || !also {
			return seed, st, fmt.Errorf("%w: the meta bucket", ErrCorrupt)
		}
	}
	var whole bool
	if seed, whole = format.ParseSeed(text); !whole {
		return seed, st, fmt.Errorf("%w: the meta bucket has no seed", ErrCorrupt)
	}
	st, err = format.ParseState(state)
	return seed, st, err
}

func putMeta(tx *bolt.Tx, key, value []byte) error {
	return tx.Bucket(format.BucketMeta).Put(key, format.Seal(key, value))
}

// upgrade converts a file of an older format to the present one, and notes its pending changes.
func (df *dataFile) upgrade() error {
	s := df.s
	version := byte(0)
	err := df.view(func(tx *bolt.Tx) error {
		if version = tx.Bucket(format.BucketMeta).Get(
			format.MetaFormat)[0]; version == format.Version {
			s.checkpointer.mu.pending = pendingIn(tx)
			return proveGarbage(tx)
		}
		return nil
	})
	if err != nil || version == format.Version {
		return err
	}
	if s.options.ReadOnly {
		return fmt.Errorf("%w: %d; a server makes it %d when it starts, then it can be read",
			ErrFormat, version, format.Version)
	}
	if err := df.proveTree(); err != nil {
		return err
	}
	return df.update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(format.BucketPending); err != nil {
			return err
		}
		s.checkpointer.mu.pending = pendingIn(tx)
		meta := tx.Bucket(format.BucketMeta)
		err := errors.Join(meta.Put(format.MetaFormat, []byte{format.Version}),
			putMeta(tx, format.MetaSeed, meta.Get(format.MetaSeed)),
			putMeta(tx, format.MetaState, meta.Get(format.MetaState)))
		for _, name := range [][]byte{format.BucketSlots, format.BucketGarbage} {
			err = errors.Join(err, sealAll(tx.Bucket(name)))
		}
		return err
	})
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

// make makes a new data file at path. It has another name until it is complete: a crash could
// otherwise leave an incomplete file, which looks like a damaged one.
func (df *dataFile) make(path string) (err error) {
	s := df.s
	made := filepath.Join(s.options.Dir, newFile)
	db, _, err := df.openBolt(made)
	if err != nil {
		return err
	}
	// Twice, so that both meta pages lead to it (see commitAgain).
	again := func(*bolt.Tx) error { return nil }
	if err := errors.Join(updateNew(db, df.makeBuckets), updateNew(db, again),
		db.Close()); err != nil {
		return err
	}
	if err := s.options.Testing.step(StepMade); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	if err := s.options.Testing.step(StepNamed); err != nil {
		return err
	}
	return df.syncDir()
}

// makeBuckets makes the buckets and the meta data of a new data file, in its first transaction.
func (df *dataFile) makeBuckets(tx *bolt.Tx) error {
	s := df.s
	for _, name := range format.Buckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	st := format.State{Member: s.options.Member, Shards: s.options.Shards,
		NextSpace: uint32(s.options.Databases + 1)}
	for i := range s.options.Databases {
		st.Spaces = append(st.Spaces, uint32(i+1))
	}
	seed := format.Seed{s.options.Random(), s.options.Random()}.Append(nil)
	return errors.Join(tx.Bucket(format.BucketMeta).Put(format.MetaFormat, []byte{format.Version}),
		putMeta(tx, format.MetaSeed, seed), putMeta(tx, format.MetaState, st.Append(nil)))
}

// current returns the state to record. All shards are locked.
func (s *Store) current() format.State {
	st := format.State{Member: s.options.Member, Generation: s.generation.Load(),
		NextSpace: s.spaces.next, Shards: len(s.shards),
		Spaces: append([]uint32(nil), s.spaces.ids[:s.options.Databases]...)}
	for _, sh := range s.shards {
		for _, p := range sh.mu.parts {
			if p != nil && p.keys|p.expires|p.timed != 0 {
				st.Counts = append(st.Counts, format.PartCounts{Space: p.space, Shard: sh.num,
					Keys: p.keys, Expires: p.expires, Timed: p.timed})
			}
		}
	}
	return st
}

// growth estimates how many bytes the data file grows by when a checkpoint writes written bytes to
// it. memory is the size of the keys in memory. If memory has all keys, the file has no more than
// these in the end: new records replace older ones, and each batch uses pages that earlier batches
// have freed.
func (s *Store) growth(written, memory int64) int64 {
	size, unused := s.file.use()
	grows := written - unused
	if s.partials.Load() == 0 {
		batch := min(written, int64(s.bounds.batchBytes))
		grows = min(grows, max(batch-unused, memory+memory/4+batch-(size-unused)))
	}
	return max(grows, 0)
}

// use returns the length of the data file (0 if it cannot be examined), and the unused part of it
// as of the last transaction.
func (df *dataFile) use() (size, unused int64) {
	df.mu.RLock()
	defer df.mu.RUnlock()
	if info, err := os.Stat(df.mu.db.Path()); err == nil {
		size = info.Size()
	}
	return size, int64(df.mu.db.Stats().FreeAlloc)
}
