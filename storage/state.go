package storage

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/wal"
)

const lockFile = "keyp.lock"

// OwnFile reports whether a name in the data directory is one that a store uses.
func OwnFile(name string) bool {
	return name == lockFile || name == format.LogDir || name == format.DataName ||
		strings.HasPrefix(name, format.DataName+".")
}

// fileOptions returns the options of the store's data file.
func (s *Store) fileOptions() datafile.Options {
	o := datafile.Options{Dir: s.options.Dir, FS: s.options.FS, ReadOnly: s.options.ReadOnly,
		Member: s.options.Member, InitialMmap: s.options.InitialMmap, Logger: s.options.Logger,
		Progress: s.options.Progress, Fail: s.fail,
		OnStep: s.options.Testing.step, OnFile: s.options.Testing.OnData}
	if !s.options.NoBackground {
		o.Pause = s.pause
	}
	return o
}

// pause waits so that clients can use the disk. It ends early when ctx or the store ends.
func (s *Store) pause(ctx context.Context, wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	case <-s.quit.Done():
	}
}

// openFile opens or makes the data file, of any format version, before anybody uses the store.
func (s *Store) openFile() (st format.State, err error) {
	if err := s.prepareFile(); err != nil {
		return st, err
	}
	meta, err := s.file.Open()
	if err != nil {
		return st, err
	}
	s.seed, s.checkpointer.mu.ttlDoubtful = meta.Seed, meta.Doubtful
	if err := s.options.belongs(&meta.State); err != nil {
		return st, err
	}
	if !s.options.ReadOnly {
		if err := s.file.Secure(); err != nil {
			return st, err
		}
	}
	if err := s.file.Upgrade(); err != nil {
		return st, err
	}
	return meta.State, s.file.View(func(tx *bolt.Tx) error {
		s.checkpointer.mu.pending = datafile.PendingBytes(tx)
		return nil
	})
}

// prepareFile makes a data file if there is none. It refuses to do so if the log continues from a
// data file: only a log with its first segment contains all data.
func (s *Store) prepareFile() error {
	if s.options.ReadOnly {
		return nil
	}
	if exists, err := s.file.Tidy(); exists || err != nil {
		return err
	}
	lowest, err := wal.Lowest(s.options.FS, filepath.Join(s.options.Dir, format.LogDir))
	if err != nil {
		return err
	}
	if lowest > 1 {
		return fmt.Errorf("storage: the data file %s is missing, and the log beside it goes on from there: put the file back, "+
			"or a backup of the directory; `keyp repair` saves what the log has", s.file.Path())
	}
	st := format.State{Member: s.options.Member, Shards: s.options.Shards,
		NextSpace: uint32(s.options.Databases + 1)}
	for i := range s.options.Databases {
		st.Spaces = append(st.Spaces, uint32(i+1))
	}
	return s.file.Make(format.Seed{s.options.Random(), s.options.Random()}, st)
}

// updateFile runs fn in a write transaction of the data file, as datafile.File.Update does. A
// failed store writes nothing more, because its view of the file in memory may be wrong.
func (s *Store) updateFile(fn func(*bolt.Tx) error) error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return s.file.Update(fn)
}

// commitAgain commits the last transaction's state a second time: then both meta pages of the data
// file lead to it, so damage to either does no harm.
func (s *Store) commitAgain() error { return s.updateFile(func(*bolt.Tx) error { return nil }) }

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
	size, unused := s.file.Use()
	grows := written - unused
	if s.partials.Load() == 0 {
		batch := min(written, int64(s.bounds.batchBytes))
		grows = min(grows, max(batch-unused, memory+memory/4+batch-(size-unused)))
	}
	return max(grows, 0)
}
