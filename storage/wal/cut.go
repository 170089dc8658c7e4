package wal

import (
	"fmt"
	"math"
)

// cut makes the log end after its last whole batch, so that nothing after it is ever read as part
// of the log. It removes leftovers. It returns the segment that is prepared for the next number, if
// there is one. The store's data may name the first segment as the one to begin with. Then cut
// keeps it, even if no batch in it is whole: a start without it would be refused.
//
// The later segments are removed first, from the highest down. Each removal is synced before the
// next: at every moment the log reads as torn at the same place as before.
func (r *recovery) cut() (kept *segmentFile, err error) {
	keep := r.wholeIn + 1
	for i := len(r.files) - 1; i >= keep; i-- {
		f := &r.files[i]
		prepared := !f.used && !f.traces && f.size >= minSegmentSize && f.size <= r.o.SegmentSize ||
			r.wholeIn < 0 && r.known
		if i == keep && f.number == r.nextNumber() && prepared {
			kept = f
			continue
		}
		if err := r.remove(f.path); err != nil {
			return nil, err
		}
	}
	if r.tmp {
		if err := r.remove(r.o.path(tmpName)); err != nil {
			return nil, err
		}
	}
	if r.wholeIn < 0 {
		return kept, nil
	}
	end := r.seen
	if r.badIn != r.wholeIn {
		end = math.MaxUint64 // a batch continues from here into the next segment
	}
	return kept, r.clear(&r.files[r.wholeIn], r.whole, end)
}

func (r *recovery) remove(path string) error {
	if err := r.o.FS.Remove(path); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if err := r.o.FS.SyncDir(r.o.Dir); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	return nil
}

// clear overwrites f with zeros from position from to position to, and syncs it. It overwrites at
// least a block, but nothing after the end of the file.
func (r *recovery) clear(f *segmentFile, from, to uint64) error {
	if rest := uint64(max(f.size-f.offset(from), 0)); to < from || to-from > rest {
		to = from + rest
	} else {
		to = from + min(rest, max(to-from, headerSize))
	}
	block := make([]byte, fillPiece)
	return r.with(f.path, func(file file) error {
		for p := from; p < to; {
			n := min(to-p, uint64(len(block)))
			if _, err := file.WriteAt(block[:n], f.offset(p)); err != nil {
				return err
			}
			p += n
		}
		return file.Sync()
	})
}

// nextNumber returns the number of the segment that comes after the cut.
func (r *recovery) nextNumber() uint64 {
	if r.wholeIn < 0 {
		return r.need
	}
	return r.files[r.wholeIn].number + 1
}

// resume returns the segment and the position with which the log continues.
func (r *recovery) resume() (number, start uint64) { return r.nextNumber(), r.whole }

// keep returns the segments that stay although they are before the first one needed, and removes
// them from the stale ones. They are consecutive segments of this log that have the log from
// KeepFrom on.
func (r *recovery) keep() []liveSegment {
	if r.o.KeepFrom == 0 || r.wholeIn < 0 {
		return nil
	}
	next, first := r.files[0].identity, len(r.stale)
	for i := len(r.stale) - 1; i >= 0; i-- {
		f := &r.stale[i]
		if !f.used || f.mark != r.mark || f.number+1 != next.number || f.start >= next.start ||
			next.start <= r.o.KeepFrom {
			break
		}
		next, first = f.identity, i
	}
	kept := segmentsOf(r.stale[first:])
	r.stale = r.stale[:first]
	return kept
}

// live returns the segments that stay, from the first one needed on.
func (r *recovery) live() []liveSegment { return segmentsOf(r.files[:r.wholeIn+1]) }

func segmentsOf(files []segmentFile) (list []liveSegment) {
	for _, f := range files {
		list = append(list, liveSegment{identity: f.identity, size: f.size})
	}
	return list
}
