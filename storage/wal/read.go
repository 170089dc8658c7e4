package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"

	"keyp/internal/vfs"
)

// ErrReleased is the error of a Reader for a batch whose segment is no longer part of the log.
var ErrReleased = errors.New("wal: the segment was released")

const (
	// maxKeptBatch bounds the memory that a reader keeps for the next linked batch.
	maxKeptBatch = 4 << 20
	// maxGrow bounds the room that is made at once for a batch: a longer one is copied as it
	// grows.
	maxGrow = 1 << 30
)

// Reader reads batches from an open log while the log is being written. It verifies each batch as
// recovery does. So it never returns an old batch of a file that the log uses again. Only one
// goroutine may use it.
type Reader struct {
	l    *Log
	upTo uint64 // what stands before this was written when a segment was entered
	seg  liveSegment
	file vfs.File // of seg; nil: none is open
	w    lookahead
	buf  []byte // a linked batch
}

// Reader returns a new reader. The caller must close it.
func (l *Log) Reader() *Reader { return &Reader{l: l, upTo: l.written.Load()} }

// Close closes the file that was read last.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// After returns the first batch after a position, and the LSN of that batch. The position is the
// LSN of a batch, or the position that End returned right after Open. The bytes are valid until the
// next call. The error is ErrBeyondEnd if the batch is not written yet. It is ErrReleased if the
// position is no longer in the log, and a *CorruptError if the bytes are damaged.
func (r *Reader) After(pos uint64) (batch []byte, lsn uint64, err error) {
	linked, total := false, uint64(0)
	if cap(r.buf) > maxKeptBatch {
		r.buf = nil
	}
	for {
		var data []byte
		if data, pos, err = r.skip(pos); err != nil {
			return nil, 0, err
		}
		if len(data) < frameHeaderSize {
			return nil, 0, r.damaged(pos)
		}
		if data, err = r.at(pos, frameHeaderSize+int(le.Uint32(data[4:])&0xffffff)); err != nil {
			return nil, 0, err
		}
		f, ok := parseFrame(data, r.seg.salt, pos)
		if !ok || f.first == linked || f.first && !f.last && len(f.payload) < linkSize {
			return nil, 0, r.damaged(pos)
		}
		pos += f.size()
		switch {
		case f.first && f.last:
			return f.payload, pos, nil
		case f.first:
			linked, total = true, le.Uint64(f.payload)
			r.buf = append(slices.Grow(r.buf[:0], int(min(total, maxGrow))),
				f.payload[linkSize:]...)
		default:
			r.buf = append(r.buf, f.payload...)
		}
		if have := uint64(len(r.buf)); have > total || f.last != (have == total) {
			return nil, 0, r.damaged(pos)
		}
		if f.last {
			return r.buf, pos, nil
		}
	}
}

// skip skips the group headers at a position. It returns the bytes after them, and their position.
func (r *Reader) skip(pos uint64) ([]byte, uint64, error) {
	for {
		data, err := r.at(pos, groupHeaderSize)
		if err != nil {
			return nil, pos, err
		}
		if g, ok := parseGroup(data); !ok || !r.isGroup(g, pos) {
			return data, pos, nil
		}
		pos += groupHeaderSize
	}
}

func (r *Reader) isGroup(g group, pos uint64) bool {
	return g.mark == r.l.mark && g.salt == r.seg.salt && g.number == r.seg.number && g.lsn == pos
}

// at returns n or more bytes that begin at a position. It returns fewer if the file or the written
// part of the log ends before.
func (r *Reader) at(pos uint64, n int) ([]byte, error) {
	if pos >= r.upTo {
		// The lookahead has none of what was written since then.
		if r.upTo = r.l.written.Load(); pos >= r.upTo {
			return nil, ErrBeyondEnd
		}
		if err := r.Close(); err != nil {
			return nil, fmt.Errorf("wal: %w", err)
		}
	}
	seg, end, ok := r.l.segmentAt(pos)
	if !ok {
		return nil, ErrReleased
	}
	if offset := seg.offset(pos); r.file == nil || seg.identity != r.seg.identity ||
		offset < r.w.start {
		if err := r.enter(seg, min(end, r.upTo)); err != nil {
			return nil, err
		}
	}
	data, err := r.w.at(seg.offset(pos), n)
	if err != nil {
		return nil, fmt.Errorf("wal: read %s: %w", segmentName(seg.number), err)
	}
	return data, nil
}

// enter opens a segment, to be read up to a position.
func (r *Reader) enter(seg liveSegment, end uint64) error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	f, err := r.l.o.FS.Open(r.l.o.path(segmentName(seg.number)))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			if r.l.released(seg) {
				return ErrReleased
			}
		}
		return fmt.Errorf("wal: %w", err)
	}
	r.seg, r.file = seg, f
	r.w = lookahead{file: f, size: min(seg.size, seg.offset(end)), bytes: r.w.bytes[:0]}
	return nil
}

// damaged returns the error for bytes that do not verify.
func (r *Reader) damaged(pos uint64) error {
	if r.l.released(r.seg) {
		return ErrReleased
	}
	return &CorruptError{File: r.l.o.path(segmentName(r.seg.number)), Offset: r.seg.offset(pos),
		LSN: pos, Reason: "what was written there does not verify"}
}

// released reports whether a segment is not part of the log any more, or soon will not be.
func (l *Log) released(seg liveSegment) bool {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	return seg.number < l.segMu.released
}

// segmentAt returns the segment of the byte at a position, and where the segment ends as far as
// that is known. A segment that is being released still counts.
func (l *Log) segmentAt(pos uint64) (seg liveSegment, end uint64, ok bool) {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	live := l.segMu.live
	n := sort.Search(len(live), func(i int) bool { return live[i].start > pos })
	if n == 0 {
		return liveSegment{}, 0, false
	}
	end = ^uint64(0)
	if n < len(live) {
		end = live[n].start
	}
	return live[n-1], end, true
}

// SegmentAfter returns the number of the segment in which the first batch after a position begins.
func (r *Reader) SegmentAfter(pos uint64) (number uint64, err error) {
	data, pos, err := r.skip(pos)
	if err == nil && len(data) < frameHeaderSize {
		err = r.damaged(pos)
	}
	return r.seg.number, err
}
