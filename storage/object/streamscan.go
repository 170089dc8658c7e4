package object

import (
	"encoding/binary"
	"math"
)

// bookmark is where a Scan continues among the pending entries, since their keys do not fit in a
// cursor. Only a checkpoint scans streams, so there is usually one scan at a time. If there are
// two, each makes the other visit the pending entries from their beginning again.
type bookmark struct {
	number uint64
	group  uint32
	id     StreamID
}

// The cursor of an element with a tag consists of the tag, and of the numbers in the key or the
// number of the bookmark. The cursor of an entry is its key, which is above all others.
const (
	cursorTag      = 60
	cursorConsumer = 28
)

// Scan visits about count elements from cursor on, in the order of their keys.
func (s *Stream) Scan(cursor uint64, count int,
	fn func(elem, val []byte, deadline int64)) (next uint64) {
	sc := streamScan{s: s, left: count, next: 0}
	w := streamWalk{fn: func(elem, val []byte, deadline int64) bool {
		if sc.left--; sc.left < 0 {
			sc.next = sc.cursor(elem)
			return false
		}
		fn(elem, val, deadline)
		return true
	}}
	if cursor > math.MaxInt64 {
		s.walkEntries(&w, ListNumber(binary.BigEndian.AppendUint64(nil, cursor))/NumberStep)
	} else if s.walkSmall(&w, cursor) {
		s.walkEntries(&w, 0)
	}
	return sc.next
}

type streamScan struct {
	s    *Stream
	left int
	next uint64
}

// cursor returns the cursor with which a scan continues at an element.
func (sc *streamScan) cursor(elem []byte) uint64 {
	if len(elem) == 8 {
		return binary.BigEndian.Uint64(elem)
	}
	e, _ := parseStreamKey(elem)
	at := uint64(e.tag) << cursorTag
	switch e.tag {
	case tagIID:
		at |= uint64(e.ordinal)
	case tagGroup:
		at |= uint64(e.group)
	case tagConsumer:
		at |= uint64(e.group)<<cursorConsumer | uint64(e.consumer)
	case tagPending:
		b := &sc.s.bm
		b.number, b.group, b.id = b.number%math.MaxUint32+1, e.group, e.pendingID
		at |= b.number
	}
	return at
}

// walkSmall visits the elements with a tag from a cursor on, until w returns false.
func (s *Stream) walkSmall(w *streamWalk, cursor uint64) bool {
	tag, rest := byte(cursor>>cursorTag), cursor&(1<<cursorTag-1)
	from := func(t byte) uint64 {
		if tag == t {
			return rest
		}
		return 0
	}
	if tag <= tagMeta && s.made {
		if w.val = s.meta.append(w.val[:0]); !w.fn(metaKey[:], w.val, 0) {
			return false
		}
	}
	return (tag > tagIID || s.walkIIDs(w, int64(from(tagIID)))) &&
		(tag > tagGroup || s.groups.walkGroups(w, uint32(from(tagGroup)))) &&
		(tag > tagConsumer || s.groups.walkConsumers(w, from(tagConsumer))) &&
		s.walkPending(w, from(tagPending))
}

func (s *Stream) walkIIDs(w *streamWalk, from int64) bool {
	if s.iids == nil {
		return true
	}
	return s.iids.order.each(iidOrdinal(from), func(n iidOrdinal) bool {
		key := n.key()
		val, _, _ := s.iids.all.Get(key[:])
		return w.fn(w.key.iid(int64(n)), val, 0)
	})
}

func (gs *streamGroups) walkGroups(w *streamWalk, from uint32) bool {
	return gs.all.byNumber(from, func(g *StreamGroup) bool {
		if !g.there {
			return true
		}
		w.val = g.append(w.val[:0])
		return w.fn(w.key.group(g.number), w.val, 0)
	})
}

func (gs *streamGroups) walkConsumers(w *streamWalk, from uint64) bool {
	group, first := uint32(from>>cursorConsumer), uint32(from&maxStreamNumber)
	return gs.all.byNumber(group, func(g *StreamGroup) bool {
		at := uint32(0)
		if g.number == group {
			at = first
		}
		return g.consumers.byNumber(at, func(c *StreamConsumer) bool {
			if !c.there {
				return true
			}
			w.val = c.append(w.val[:0])
			return w.fn(w.key.consumer(g.number, c.number), w.val, 0)
		})
	})
}

// walkPending visits the pending entries from the bookmark on if the bookmark has this number, and
// otherwise all.
func (s *Stream) walkPending(w *streamWalk, number uint64) bool {
	var group uint32
	var first StreamID
	if number != 0 && number == s.bm.number {
		group, first = s.bm.group, s.bm.id
	}
	return s.groups.all.byNumber(group, func(g *StreamGroup) bool {
		from := pendingItem{}
		if g.number == group {
			from.id = first
		}
		return g.pending.each(from, func(p pendingItem) bool {
			w.val = p.append(w.val[:0])
			return w.fn(w.key.pending(g.number, p.id), w.val, 0)
		})
	})
}
