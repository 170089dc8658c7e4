package object

import (
	"bytes"
	"encoding/binary"
)

// streamGroups are a stream's groups. While a stream is loaded, its elements come in any order, and
// an element of a group's consumer may come before that of the group. Then the group exists without
// a name, and is not visible until its own element comes.
type streamGroups struct {
	all       roster[StreamGroup]
	seen      int // groups whose element is there
	elements  int
	allocated int // bytes of memory behind the groups
}

func (gs *streamGroups) bytes() int { return gs.all.bytes() + gs.allocated }

func (gs *streamGroups) len() int { return gs.elements }

// change calls edit for the group with a number, which it creates if needed.
func (gs *streamGroups) change(number uint32, fn func(*StreamGroup)) {
	g := gs.all.of(number)
	if g == nil {
		g = &StreamGroup{number: number, read: -1}
		gs.all.add(nil, number, g)
		gs.allocated += g.bytes()
	}
	gs.edit(g, fn)
}

// edit calls fn, which changes a group, and updates the counts of memory and elements. If the group
// is empty then, edit removes it.
func (gs *streamGroups) edit(g *StreamGroup, fn func(*StreamGroup)) {
	gs.allocated -= g.bytes()
	gs.elements -= g.pending.n + g.seen
	fn(g)
	gs.elements += g.pending.n + g.seen
	if g.there || g.consumers.len() > 0 || g.pending.n > 0 {
		gs.allocated += g.bytes()
		return
	}
	gs.all.remove(g.name, g.number)
}

// drop removes a group whose element exists, with all its content.
func (gs *streamGroups) drop(g *StreamGroup) {
	gs.all.remove(g.name, g.number)
	gs.allocated -= g.bytes()
	gs.elements -= g.pending.n + g.seen + 1
	gs.seen--
}

func (gs *streamGroups) putGroup(number uint32, val []byte) bool {
	f := fieldsOf{rest: val}
	name, last, read := f.bytes(), f.id(), f.known()
	if !f.done() {
		return false
	}
	gs.change(number, func(g *StreamGroup) { gs.state(g, name, last, read) })
	return true
}

// state sets the content of a group's own element.
func (gs *streamGroups) state(g *StreamGroup, name []byte, last StreamID, read int64) {
	g.LastID, g.read = last, read
	if !bytes.Equal(g.name, name) {
		name = bytes.Clone(name)
		gs.all.rename(g.name, g.number, name)
		g.name = name
	}
	if !g.there {
		g.there = true
		gs.seen++
		gs.elements++
	}
}

func (gs *streamGroups) group(number uint32) (val []byte, ok bool) {
	g := gs.all.of(number)
	if g == nil || !g.there {
		return nil, false
	}
	return g.append(nil), true
}

// append appends the value of the group's element.
func (g *StreamGroup) append(dst []byte) []byte {
	return binary.AppendUvarint(appendID(appendBytes(dst, g.name), g.LastID), uint64(g.read+1))
}

func (gs *streamGroups) removeGroup(number uint32) {
	if g := gs.all.of(number); g != nil && g.there {
		gs.change(number, func(g *StreamGroup) {
			g.there = false
			gs.seen--
			gs.elements--
		})
	}
}

func (gs *streamGroups) putConsumer(group, number uint32, val []byte) bool {
	f := fieldsOf{rest: val}
	name, seen, active := f.bytes(), f.int(), f.known()
	if !f.done() {
		return false
	}
	gs.change(group, func(g *StreamGroup) { g.stateConsumer(number, name, seen, active) })
	return true
}

// stateConsumer sets the content of a consumer's own element.
func (g *StreamGroup) stateConsumer(number uint32, name []byte, seen, active int64) {
	c := g.made(number, name)
	g.rename(c, name)
	c.Seen, c.Active = seen, active
	if !c.there {
		c.there = true
		g.seen++
	}
}

func (gs *streamGroups) consumer(group, number uint32) (val []byte, ok bool) {
	if g := gs.all.of(group); g != nil {
		if c := g.consumers.of(number); c != nil && c.there {
			return c.append(nil), true
		}
	}
	return nil, false
}

// append appends the value of the consumer's element.
func (c *StreamConsumer) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(appendBytes(dst, c.name), uint64(c.Seen)),
		uint64(c.Active+1))
}

func (gs *streamGroups) removeConsumer(group, number uint32) {
	if g := gs.all.of(group); g != nil {
		if c := g.consumers.of(number); c != nil && c.there {
			gs.edit(g, func(g *StreamGroup) {
				c.there = false
				g.seen--
				g.forget(c)
			})
		}
	}
}

// maxLine is greater than the place in line of any pending entry. Only entries without a consumer
// have such a place.
const maxLine = 1 << 62

func (gs *streamGroups) putPending(group uint32, id StreamID, val []byte) bool {
	f := fieldsOf{rest: val}
	p := pendingItem{id: id, consumer: f.number(), delivered: f.int(), count: f.int()}
	if !f.done() || p.consumer == 0 && p.delivered >= maxLine {
		return false
	}
	gs.change(group, func(g *StreamGroup) { g.set(p) })
	return true
}

func (gs *streamGroups) pending(group uint32, id StreamID) (val []byte, ok bool) {
	if g := gs.all.of(group); g != nil {
		if p, ok := g.pending.get(pendingItem{id: id}); ok {
			return p.append(nil), true
		}
	}
	return nil, false
}

// append appends the value of the pending entry's element.
func (p pendingItem) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.consumer))
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(p.delivered)), uint64(p.count))
}

func (gs *streamGroups) removePending(group uint32, id StreamID) {
	if g := gs.all.of(group); g != nil {
		gs.edit(g, func(g *StreamGroup) { g.unset(id) })
	}
}

func (gs *streamGroups) clone() streamGroups {
	to := *gs
	to.all, to.allocated = roster[StreamGroup]{}, 0
	gs.all.byNumber(0, func(g *StreamGroup) bool {
		copied := g.clone()
		to.all.add(copied.name, copied.number, copied)
		to.allocated += copied.bytes()
		return true
	})
	return to
}

// Groups returns the number of groups.
func (s *Stream) Groups() int { return s.groups.seen }

// EachGroup visits the groups in the order of their names, until fn returns false.
func (s *Stream) EachGroup(fn func(*StreamGroup) bool) {
	s.groups.all.byName(nil, func(_ []byte, g *StreamGroup) bool { return !g.there || fn(g) })
}

// Group returns a group by name; nil if there is none.
func (s *Stream) Group(name []byte) (found *StreamGroup) {
	s.groups.all.byName(name, func(next []byte, g *StreamGroup) bool {
		if !bytes.Equal(next, name) {
			return false
		}
		if g.there {
			found = g
		}
		return found == nil
	})
	return found
}

// Referenced reports whether the entry is pending in any group.
func (s *Stream) Referenced(id StreamID) (found bool) {
	s.EachGroup(func(g *StreamGroup) bool {
		_, found = g.pending.get(pendingItem{id: id})
		return !found
	})
	return found
}

// AckedByAll reports whether the entry was delivered to every group and is pending in none; true if
// there are no groups.
func (s *Stream) AckedByAll(id StreamID) bool {
	acked := true
	s.EachGroup(func(g *StreamGroup) bool {
		acked = g.LastID.Compare(id) >= 0
		return acked
	})
	return acked && !s.Referenced(id)
}

// CreateGroup adds a group. entries is how many entries it has read, or -1 if that is not known.
// last is the id of the last entry that it has read. There must be no group of that name.
func (s *Stream) CreateGroup(name []byte, last StreamID, entries int64, changed Changed) {
	s.Create(changed)
	number := s.groups.all.free()
	s.groups.change(number, func(g *StreamGroup) {
		s.groups.state(g, name, last, max(entries, -1))
	})
	var key elemKey
	changed.call(key.group(number))
}

// SetGroup sets the last id and the number of entries read of a group, which must exist.
func (s *Stream) SetGroup(name []byte, last StreamID, entries int64, changed Changed) {
	g := s.Group(name)
	entries = max(entries, -1)
	if g.LastID == last && g.read == entries {
		return
	}
	s.reset(g.LastID) // a lower one frees no entry
	g.LastID, g.read = last, entries
	var key elemKey
	changed.call(key.group(g.number))
}

// DestroyGroup removes a group with all that it has, and reports whether there was one.
func (s *Stream) DestroyGroup(name []byte, changed Changed) bool {
	g := s.Group(name)
	if g == nil {
		return false
	}
	s.groups.drop(g)
	s.reset(StreamID{})
	var key elemKey
	g.pending.each(pendingItem{}, func(p pendingItem) bool {
		changed.call(key.pending(g.number, p.id))
		return true
	})
	g.consumers.byNumber(0, func(c *StreamConsumer) bool {
		changed.call(key.consumer(g.number, c.number))
		return true
	})
	changed.call(key.group(g.number))
	return true
}

// CreateConsumer adds a consumer, seen at now (Unix ms) and never active, to a group that must
// exist. It returns false if there was one of that name.
func (s *Stream) CreateConsumer(group, name []byte, now int64, changed Changed) bool {
	g := s.Group(group)
	if g.Consumer(name) != nil {
		return false
	}
	number := g.consumers.free()
	s.groups.edit(g, func(g *StreamGroup) { g.stateConsumer(number, name, now, -1) })
	var key elemKey
	changed.call(key.consumer(g.number, number))
	return true
}

// DeleteConsumer removes a consumer with its pending entries, and returns how many these were; ok
// is false if there was no consumer of that name. The group must exist.
func (s *Stream) DeleteConsumer(group, name []byte, changed Changed) (pending int, ok bool) {
	g := s.Group(group)
	c := g.Consumer(name)
	if c == nil {
		return 0, false
	}
	var ids sorted[StreamID]
	s.groups.edit(g, func(g *StreamGroup) { ids = g.disown(c) })
	s.groups.removeConsumer(g.number, c.number)
	s.reset(StreamID{})
	var key elemKey
	ids.each(StreamID{}, func(id StreamID) bool {
		changed.call(key.pending(g.number, id))
		return true
	})
	changed.call(key.consumer(g.number, c.number))
	return ids.n, true
}

// Touch sets when a consumer, which must exist, was seen and active (Unix ms; -1: never).
func (s *Stream) Touch(group, consumer []byte, seen, active int64, changed Changed) {
	g := s.Group(group)
	c := g.Consumer(consumer)
	if c.Seen == seen && c.Active == active {
		return
	}
	c.Seen, c.Active = seen, active
	var key elemKey
	changed.call(key.consumer(g.number, c.number))
}

// Deliver makes an entry pending at a consumer of a group, or gives the pending entry to that
// consumer. Group and consumer must exist. A nil consumer gives the entry back to the group, as the
// last of those that belong to no consumer. delivered is in Unix milliseconds, and is ignored
// without a consumer.
func (s *Stream) Deliver(group, consumer []byte, id StreamID, delivered, count int64,
	changed Changed) {
	g := s.Group(group)
	p := pendingItem{id: id, delivered: max(delivered, 0), count: max(count, 0)}
	if consumer != nil {
		p.consumer = g.Consumer(consumer).number
	} else {
		p.delivered = g.line()
	}
	s.groups.edit(g, func(g *StreamGroup) { g.set(p) })
	var key elemKey
	changed.call(key.pending(g.number, id))
}

// Ack removes a pending entry of a group, which must exist, and reports whether there was one.
func (s *Stream) Ack(group []byte, id StreamID, changed Changed) (ok bool) {
	g := s.Group(group)
	s.groups.edit(g, func(g *StreamGroup) { ok = g.unset(id) })
	if ok {
		s.released(id)
		var key elemKey
		changed.call(key.pending(g.number, id))
	}
	return ok
}

// Acked returns how many entries at the beginning all groups have acknowledged, but at most most.
// It stops at a run that it would have to read and cannot. Without groups it returns 0.
func (s *Stream) Acked(most int) (n int) {
	if s.Groups() == 0 || s.live == 0 {
		return 0
	}
	end := MaxStreamID // the first that must stay
	s.EachGroup(func(g *StreamGroup) bool {
		first, ok := g.LastID.Next()
		if !ok {
			first = MaxStreamID
		}
		if id, pending := g.FirstPending(); pending && id.Compare(first) < 0 {
			first = id
		}
		if first.Compare(end) < 0 {
			end = first
		}
		return true
	})
	for _, r := range s.runs {
		switch {
		case n >= most || r.low.Compare(end) >= 0:
			return min(n, most)
		case r.last.Compare(end) < 0:
			n += int(r.live)
		default:
			if in, ok := s.readable(r); ok {
				n += in.before(end)
			}
			return min(n, most)
		}
	}
	return min(n, most)
}
