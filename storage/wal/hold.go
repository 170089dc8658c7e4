package wal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Hold keeps segments that no recovery needs any more, for a reader.
type Hold struct {
	l     *Log
	first uint64
}

// Hold keeps the segments from first on, even when Release is called, until LetGo ends the hold.
// Size does not count these segments.
func (l *Log) Hold(first uint64) *Hold {
	h := &Hold{l, first}
	l.segMu.Lock()
	defer l.segMu.Unlock()
	if l.segMu.holds == nil {
		l.segMu.holds = map[*Hold]bool{}
	}
	l.segMu.holds[h] = true
	return h
}

// HoldFrom is Hold of the existing segments that have the log from a position on.
func (l *Log) HoldFrom(pos uint64) *Hold {
	seg, _, _ := l.segmentAt(pos)
	return l.Hold(seg.number)
}

// MoveTo is Move to the segments that have the log from a position on.
func (h *Hold) MoveTo(pos uint64) error {
	seg, _, _ := h.l.segmentAt(pos)
	return h.Move(seg.number)
}

// Move makes the hold keep only the segments from first on.
func (h *Hold) Move(first uint64) error {
	h.l.segMu.Lock()
	h.first = max(h.first, first)
	h.l.segMu.Unlock()
	return h.l.Release(0)
}

// LetGo ends the hold, and releases the segments that were kept only for it. A second call does
// nothing.
func (h *Hold) LetGo() error {
	h.l.segMu.Lock()
	held := h.l.segMu.holds[h]
	delete(h.l.segMu.holds, h)
	h.l.segMu.Unlock()
	if !held {
		return nil
	}
	return h.l.Release(0)
}

// Batches calls fn with each written batch that ends after the position after, and not after
// through. It ends with fn's error, or with ErrReleased if the log lacks some of these batches. The
// bytes are valid during the call.
func (h *Hold) Batches(after, through uint64, fn func(lsn uint64, batch []byte) error) (err error) {
	from := h.l.Reader()
	defer func() { err = errors.Join(err, from.Close()) }()
	for after < through {
		batch, lsn, err := from.After(after)
		if errors.Is(err, ErrBeyondEnd) || err == nil && lsn > through {
			return nil // no batch begins there, but for those that came later
		}
		if err == nil {
			after, err = lsn, fn(lsn, batch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Bytes returns Log.Held.
func (h *Hold) Bytes() int64 { return h.l.Held() }

// unheld returns the first segment that is needed or held. segMu is locked.
func (l *Log) unheld() uint64 {
	first := l.segMu.needed
	for h := range l.segMu.holds {
		first = min(first, h.first)
	}
	return first
}

// Held returns how many bytes of the log are kept for holds alone.
func (l *Log) Held() int64 {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	live := l.segMu.live
	for i := range live {
		if live[i].number >= l.segMu.needed || i == len(live)-1 {
			return int64(live[i].start - live[0].start)
		}
	}
	return 0
}

// Start returns the position at which the batches of a segment begin: After of a Reader continues
// from there. ok is false if nothing of the segment is written yet, or the segment was released.
func (l *Log) Start(segment uint64) (pos uint64, ok bool) {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	for _, s := range l.segMu.live {
		if s.number >= segment {
			return s.start, s.number == max(segment, 1)
		}
	}
	return 0, false
}

// Taken returns the bytes on disk of the segments from number from on and before number to.
func (l *Log) Taken(from, to uint64) (bytes int64) {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	for _, s := range l.segMu.live {
		if s.number >= from && s.number < to {
			bytes += s.size
		}
	}
	return bytes
}

// Begin returns the position at which the first batch of the log begins.
func (l *Log) Begin() uint64 {
	pos, ok := l.Start(l.First())
	if !ok {
		return l.End() // nothing is written yet
	}
	return pos
}

// History returns a name of the log. It depends on a secret that all its segments have in common.
// Another log has another name, even if it began with a copy of this one's batches.
func (l *Log) History() string { return historyOf(l.mark) }

func historyOf(mark uint64) string {
	sum := sha256.Sum256(le.AppendUint64([]byte("keyp history "), mark))
	return hex.EncodeToString(sum[:12])
}
