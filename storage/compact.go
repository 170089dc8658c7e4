package storage

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"keyp/storage/datafile"
)

// A compaction makes the data file shorter: it copies the content to a new file
// (datafile/compact.go). It begins when no changes of deadlines wait to be written
// (datafile/pending.go). Checkpoints wait for it, because they write the file too
// (checkpointer.mu). Keys are read and written meanwhile. It gives up when the log or memory gets
// so full that writers would be slowed down.
const (
	// A running store checks every compactInterval whether a compaction of its data file is worth
	// its cost. It waits for compactBackoff after each attempt.
	compactInterval = time.Minute
	compactBackoff  = 10 * time.Minute
	compactMin      = 256 << 20
	// On a full disk it checks every roomInterval whether a compaction would free space. The data
	// file must have roomMin bytes for that.
	roomInterval = 2 * time.Second
	roomMin      = 1 << 20
	// staleBytes is how many bytes of changed keys in memory are worth a checkpoint. That applies
	// if the log grew by less than quietBytes since the last check, so that it will not cause one
	// soon. It also applies if these bytes are more than four times the size of the log.
	staleBytes = 32 << 20
	quietBytes = 1 << 20
)

// errCompactStopped wraps the reason why a compaction was given up. The data file is as it was.
var errCompactStopped = errors.New("storage: the compaction was given up")

// Compact makes the data file as short as its content allows. It returns the length in bytes before
// and after; both are equal if there was nothing to gain. Keys are served meanwhile; checkpoints
// wait.
//
// An error before or at the renaming leaves the old file in use. If the sync of the directory or
// the opening of the new file then fails, the store ends. An error of applying the pending changes
// is handled as one of a checkpoint (notWritten).
func (s *Store) Compact() (before, after int64, err error) {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	if err := s.Err(); err != nil {
		return 0, 0, err
	}
	if s.file.AnySnapshot() {
		return 0, 0, fmt.Errorf("%w: a snapshot of the data file is open", errCompactStopped)
	}
	if err := s.checkpointer.makePending(); err != nil {
		s.checkpointer.notWritten(err)
		return 0, 0, err
	}
	before, unused := s.file.Use()
	if room, err := s.options.FS.Free(s.options.Dir); err == nil && room < uint64(before-unused) {
		return before, before, fmt.Errorf("%w: the copy may take %d bytes, and the disk has %d: %w",
			errCompactStopped, before-unused, room, syscall.ENOSPC)
	}
	c := compaction{s: s, low: s.spaceIsLow(), began: workBegan()}
	if after, err = s.file.Compact(c.at); err != nil || after >= before {
		return before, before, errors.Join(err, s.file.RemoveCopy())
	}
	if err := s.file.Replace(); err != nil {
		return before, before, err
	}
	return before, after, nil
}

// compaction is the state of a compaction that is under way.
type compaction struct {
	s     *Store
	low   bool          // the disk was nearly full before
	began time.Duration // the present stretch of work
}

// at ends a stretch of work: it pauses for clients as a checkpoint does, and returns an error when
// the compaction must give up.
func (c *compaction) at(step datafile.Step) error {
	s := c.s
	s.checkpointer.pace(c.began)
	c.began = workBegan()
	if err := s.options.Testing.step(step); err != nil {
		return err
	}
	switch {
	case s.quit.Err() != nil:
		return fmt.Errorf("%w: %w", errCompactStopped, ErrClosed)
	case !c.low && s.checkpointer.hurry.Load():
		return fmt.Errorf("%w: checkpoints cannot wait", errCompactStopped)
	case !c.low && s.spaceIsLow():
		return fmt.Errorf("%w: the disk is nearly full: %w", errCompactStopped, syscall.ENOSPC)
	}
	return nil
}

// compactLoop keeps the data file of a running store in proportion to its content.
func (cp *checkpointer) compactLoop() {
	s := cp.s
	tick, lookForRoom := time.NewTicker(compactInterval), time.NewTicker(roomInterval)
	defer tick.Stop()
	defer lookForRoom.Stop()
	var tried time.Duration // when it last compacted for room, a reading of Mono
	for was := s.log.End(); ; {
		select {
		case <-lookForRoom.C:
			if now := s.clock.Mono(); s.Full() && (tried == 0 || now-tried > compactInterval) &&
				cp.compactingFrees() {
				tried = now
				cp.compactAndLog()
			}
			continue
		case <-tick.C:
		case <-s.quit.Done():
			return
		}
		end := s.log.End()
		cp.refresh(end - was)
		was = end
		if size, unused := s.file.Use(); cp.worthCompacting(size, unused) {
			cp.compactAndLog()
			tick.Reset(compactBackoff)
		} else {
			tick.Reset(compactInterval)
		}
	}
}

// refresh starts a checkpoint if memory is stale; grown is by how much the log grew since the
// last look.
func (cp *checkpointer) refresh(grown uint64) {
	if cp.stale(grown) && cp.mayStart() {
		cp.s.StartCheckpoint()
	}
}

// stale reports whether memory has many changes that the data file does not have, while the log
// grows too slowly to cause a checkpoint. Most expired keys add nothing to the log, and until a
// checkpoint they stay in the file, and as tombstones in memory.
func (cp *checkpointer) stale(grown uint64) bool {
	_, dirty := cp.s.measure()
	return dirty > staleBytes && (grown < quietBytes || dirty > 4*cp.s.log.Size())
}

// worthCompacting reports whether most of the data file is unused. There must also be room for the
// copy and for the log's growth until the next checkpoint, which has to wait for the compaction.
func (cp *checkpointer) worthCompacting(size, unused int64) bool {
	s := cp.s
	if size < compactMin || unused < size/2 {
		return false
	}
	room, err := s.options.FS.Free(s.options.Dir)
	return err == nil && room > uint64(size-unused)+uint64(2*s.options.CheckpointBytes)+
		s.diskReserve.Load()
}

// compactingFrees reports whether a compaction would free space on a full disk. That is so if most
// of the data file is unused, and there is room for the copy. The log hardly grows meanwhile.
func (cp *checkpointer) compactingFrees() bool {
	size, unused := cp.s.file.Use()
	used := size - unused
	room, err := cp.s.options.FS.Free(cp.s.options.Dir)
	return err == nil && size >= roomMin && unused > size/2 && room > uint64(used+used/4+roomMin)
}

func (cp *checkpointer) compactAndLog() {
	s := cp.s
	began := s.clock.Mono()
	before, after, err := s.Compact()
	took := (s.clock.Mono() - began).Round(time.Millisecond)
	switch {
	case errors.Is(err, errCompactStopped):
		s.options.Logger.Info("the data file was not compacted; it is as it was", "reason",
			err, "took", took)
	case err != nil:
		s.options.Logger.Error("the data file could not be compacted", "error", err, "took", took)
	default:
		s.options.Logger.Info("the data file was compacted", "before", before, "after",
			after, "took", took)
	}
}
