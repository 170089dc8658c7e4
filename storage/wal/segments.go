package wal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"keyp/internal/vfs"
)

// This file creates, reuses and removes the segments, which are the files of the log. The next
// segment is prepared before it is needed.

const (
	// The log prepares new segments: it fills a file with zeros. On a full disk it tries again
	// every retryRoom, in ms.
	retryRoom = 100
	// fillPiece is how many bytes of zeros one write has. After each fillSync bytes the file is
	// synced, so that the log's other syncs stay short.
	fillPiece, fillSync = 64 << 10, 8 << 20
)

// liveSegment is a segment that recovery would read.
type liveSegment struct {
	identity
	size int64 // of the file
}

// takeReady returns the prepared segment, and waits until there is one. It does not wait for room
// once GiveUp was called.
func (l *Log) takeReady() (*openSegment, error) {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	for l.segMu.ready == nil {
		if err := l.Err(); err != nil {
			return nil, err
		}
		if (l.segMu.giveUp || l.o.NoBackground) && l.full.Load() {
			// What was removed from the tail is lost, so this log has failed.
			err := ErrNoRoom
			l.err.CompareAndSwap(nil, &err)
			l.moved.broadcast()
			return nil, err
		}
		if !l.segMu.waiting { // from now on it may have what KeepFree keeps
			l.segMu.waiting = true
			kick(l.kickPrepare)
		}
		l.segMu.room.Wait()
	}
	s := l.segMu.ready
	l.segMu.ready, l.segMu.waiting = nil, false
	kick(l.kickPrepare)
	return s, nil
}

// prepareLoop keeps the next segment ready.
func (l *Log) prepareLoop() {
	defer l.background.Done()
	for {
		retry, err := l.prepareNext(l.nextSize())
		if err != nil {
			if !errors.Is(err, ErrClosed) {
				l.fail(err)
			}
			return
		}
		var again <-chan struct{}
		stop := func() {}
		if retry {
			again, stop = l.o.Clock.Until(l.o.Clock.Now() + retryRoom)
		}
		quit := false
		select {
		case <-l.quit:
			quit = true
		case <-l.kickPrepare:
		case <-again:
		}
		stop()
		if quit {
			return
		}
	}
}

// prepareNow does what prepareLoop does, in a log without goroutines.
func (l *Log) prepareNow() error {
	if _, err := l.prepareNext(l.nextSize()); err != nil {
		return l.fail(err)
	}
	return nil
}

// nextSize returns the size of the segment that is to be prepared. It is decided when the segment
// before it begins.
func (l *Log) nextSize() int64 {
	l.segMu.Lock()
	next := l.segMu.next
	l.segMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	decided := l.mu.tail.sizes.decided
	maps.DeleteFunc(decided, func(number uint64, _ int64) bool {
		return number+1 < min(next, l.mu.tail.seg.number)
	})
	return decided[next]
}

// prepareNext makes the next segment ready unless one is; a new file gets size bytes. Lack of room
// makes the log Full and leads to another try; any other error is fatal.
//
// A segment leaves as many bytes free as KeepFree says. While the log is Full and its last segment
// more than half filled, the next segment leaves only half of these free, for records that are
// small or free space. A commit that waits may use all of them. The log stays Full until as many
// bytes as KeepFree says are free again.
func (l *Log) prepareNext(size int64) (retry bool, err error) {
	l.segMu.Lock()
	number, done, waiting := l.segMu.next, l.segMu.ready != nil, l.segMu.waiting
	l.segMu.Unlock()
	if l.Err() != nil || done && !l.full.Load() {
		return false, nil
	}
	l.fit()
	var next *openSegment
	lack := error(nil)
	for resized := true; !done && next == nil && resized; {
		f, err := l.makeSegment(number, size, l.leaves(waiting))
		switch {
		case err == nil:
			next = &openSegment{number: number, size: size, file: f}
		case noRoom(err):
			lack = err
			size, resized = l.resize(number, size)
		default:
			return false, fmt.Errorf("prepare %s: %w", segmentName(number), err)
		}
	}
	if done || next != nil {
		lack = l.room(l.keepFree())
	}
	switch full := l.full.Load(); {
	case lack != nil && !full:
		l.o.Logger.Warn("no room for the next log segment", "dir", l.o.Dir, "error", lack)
	case lack == nil && full:
		l.o.Logger.Info("room for the next log segment again", "dir", l.o.Dir)
	}
	l.segMu.Lock()
	defer l.segMu.Unlock()
	l.full.Store(lack != nil)
	if next != nil {
		l.segMu.ready, l.segMu.next = next, number+1
	}
	l.segMu.room.Broadcast()
	return lack != nil, nil
}

func (l *Log) keepFree() uint64 {
	if l.o.KeepFree == nil {
		return 0
	}
	return l.o.KeepFree()
}

// leaves returns how many bytes of the disk the next segment must leave free.
func (l *Log) leaves(waiting bool) uint64 {
	if waiting {
		return 0
	}
	keep := l.keepFree()
	if left, size := l.Room(); l.full.Load() && left < size/2 {
		return keep / 2
	}
	return keep
}

// room returns an error if the disk has fewer free bytes. noRoom is true for that error.
func (l *Log) room(bytes uint64) error {
	free, err := l.o.FS.Free(l.o.Dir)
	if err == nil && free < bytes {
		err = fmt.Errorf("%d bytes free, %d needed: %w", free, bytes, syscall.ENOSPC)
	}
	return err
}

// smallest is the size of the smallest segments, unless SegmentSize is less.
const smallest = 64 << 10

// fit finds the largest size of a segment for the present room on disk: a sixteenth of it. So
// the log takes the last of a disk in small parts, and a checkpoint can release them one by one.
func (l *Log) fit() (size int64) {
	size = l.o.SegmentSize
	free, err := l.o.FS.Free(l.o.Dir)
	for err == nil && size/2 >= smallest && uint64(size) > free/16 {
		size /= 2
	}
	l.fitting.Store(size)
	return size
}

// resize makes a segment smaller if there is no room for it, unless batches are already laid out
// for its present size. It returns the size, and whether the size has changed.
func (l *Log) resize(number uint64, size int64) (to int64, resized bool) {
	to = l.fit()
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.mu.tail; to >= size || t == nil || t.seg.number >= number {
		return size, false
	}
	l.mu.tail.sizes.decided[number] = to
	return to, true
}

// NextCost returns how many bytes of disk the segment after the present one will take: 0 if it
// exists already.
func (l *Log) NextCost() int64 {
	l.segMu.Lock()
	ready := l.segMu.ready != nil
	l.segMu.Unlock()
	if ready {
		return 0
	}
	return l.nextSize()
}

// makeSegment returns a file under its final name, both durable. It is a spare, or a new file of
// size bytes that leaves at least leave bytes of the disk free.
func (l *Log) makeSegment(number uint64, size int64, leave uint64) (vfs.File, error) {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	fsys, name := l.o.FS, l.o.path(segmentName(number))
	// An attempt without enough room would each time take the last of it from others, and wear
	// the disk.
	lack := l.room(uint64(size) + leave)
	if n := len(l.dirMu.spares); n > 0 && (lack != nil || size == l.o.SegmentSize) {
		f, err := fsys.Open(l.dirMu.spares[n-1])
		if err != nil {
			return nil, err
		}
		if err := fsys.Rename(l.dirMu.spares[n-1], name); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		l.dirMu.spares = l.dirMu.spares[:n-1]
		return l.named(f)
	}
	if lack != nil {
		return nil, lack
	}
	tmp := l.o.path(tmpName)
	f, err := fsys.Create(tmp)
	if err != nil {
		return nil, err
	}
	if err := l.fill(f, size); err != nil {
		// The file was never in use, so a failed sync of it loses nothing.
		return nil, errors.Join(err, f.Close(), fsys.Remove(tmp))
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l.named(f)
}

// named syncs the directory, so that f keeps its new name after a power failure. If the process has
// no file descriptor left for that, the error says so, and the caller may try again with another
// file. Any other error is final, because a failed sync must not be repeated. Of such an error
// named keeps only the text: after the error of a full disk the caller would try again.
func (l *Log) named(f vfs.File) (vfs.File, error) {
	err := l.o.FS.SyncDir(l.o.Dir)
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		err = fmt.Errorf("sync %s: %v", l.o.Dir, err) // no longer looks like a shortage
	}
	return nil, errors.Join(err, f.Close())
}

// fill writes zeros up to size and syncs them.
func (l *Log) fill(f vfs.File, size int64) error {
	block := make([]byte, min(fillPiece, size))
	for off := int64(0); off < size; {
		n := min(int64(len(block)), size-off)
		if _, err := f.WriteAt(block[:n], off); err != nil {
			return err
		}
		if off += n; off%fillSync == 0 && off < size {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		select {
		case <-l.quit:
			return ErrClosed
		default:
		}
	}
	return f.Sync()
}

// Release gives up the segments below first; the caller has made sure that a later Open does not
// need them. They become spares or are removed. Segments with bytes that are not synced yet stay
// until the next Release. Segments that are held stay until the next Release or the end of the
// hold. An error leaves the log usable and the other segments in place, for the next Release.
func (l *Log) Release(first uint64) error {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	l.segMu.Lock()
	l.segMu.needed = max(l.segMu.needed, first)
	first = l.unheld()
	l.segMu.released = max(l.segMu.released, first)
	l.segMu.Unlock()
	released := 0
	for {
		s, ok := l.releasable(first)
		if !ok {
			break
		}
		if err := l.retire(l.o.path(segmentName(s.number)), s.number, s.size); err != nil {
			return fmt.Errorf("wal: release %s: %w", segmentName(s.number), err)
		}
		l.segMu.Lock()
		l.segMu.live = l.segMu.live[1:]
		l.segMu.Unlock()
		released++
	}
	if released == 0 {
		return nil
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return fmt.Errorf("wal: release: %w", err)
	}
	kick(l.kickPrepare)
	return nil
}

// releasable returns the oldest live segment if it is below first, not the last, and synced to its
// end.
func (l *Log) releasable(first uint64) (liveSegment, bool) {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	if len(l.segMu.live) < 2 || l.segMu.live[0].number >= first ||
		l.segMu.live[1].start > l.synced.Load() {
		return liveSegment{}, false
	}
	for _, s := range l.segMu.unsynced {
		if s.number == l.segMu.live[0].number {
			return liveSegment{}, false // synced, and about to be closed
		}
	}
	return l.segMu.live[0], true
}

// retire makes the file a spare, or removes it when it has another size than wanted
// now or there are enough. dirMu is locked.
func (l *Log) retire(path string, number uint64, size int64) error {
	if size != l.o.SegmentSize || len(l.dirMu.spares) >= l.o.Spares {
		return l.o.FS.Remove(path)
	}
	spare := l.o.path(spareName(number))
	if err := l.o.FS.Rename(path, spare); err != nil {
		return err
	}
	l.dirMu.spares = append(l.dirMu.spares, spare)
	return nil
}

// DropSpares removes the spares, as others need the room on disk. What cannot be removed stays a
// spare. A crash may bring removed ones back, as spares.
func (l *Log) DropSpares() {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	l.dirMu.spares = slices.DeleteFunc(l.dirMu.spares, func(path string) bool {
		return l.o.FS.Remove(path) == nil
	})
}

// collectSpares adopts the files that recovery found in addition to the live segments: spares, and
// segments that are not needed any more.
func (l *Log) collectSpares(r *recovery) error {
	for _, s := range r.spares {
		if s.size != l.o.SegmentSize || len(l.dirMu.spares) >= l.o.Spares {
			if err := l.o.FS.Remove(s.path); err != nil {
				return fmt.Errorf("wal: %w", err)
			}
			continue
		}
		l.dirMu.spares = append(l.dirMu.spares, s.path)
	}
	for _, s := range r.stale {
		if err := l.retire(s.path, s.number, s.size); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}
