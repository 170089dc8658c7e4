package object

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// streamGroups are a stream's groups. One is there, without a name, from the first element on that refers to
// it, and is seen once its own element is there.
type streamGroups struct {
	all       []*StreamGroup // by name
	numbered  []*StreamGroup // by number
	seen      int            // groups whose element is there
	elements  int
	allocated int // bytes of memory behind the groups
}

func (gs *streamGroups) bytes() int { return (cap(gs.all)+cap(gs.numbered))*8 + gs.allocated }

func (gs *streamGroups) len() int { return gs.elements }

// named is where the first group of a name stands, or would.
func (gs *streamGroups) named(name []byte) int {
	return sort.Search(len(gs.all), func(i int) bool { return bytes.Compare(gs.all[i].name, name) >= 0 })
}

func (gs *streamGroups) numberedAt(number uint32) int {
	return sort.Search(len(gs.numbered), func(i int) bool { return gs.numbered[i].number >= number })
}

// of gives the group with a number, nil if there is none.
func (gs *streamGroups) of(number uint32) *StreamGroup {
	if i := gs.numberedAt(number); i < len(gs.numbered) && gs.numbered[i].number == number {
		return gs.numbered[i]
	}
	return nil
}

// change lets fn change a group, made if there is none with the number, and follows memory and the number
// of elements. A group that is empty then is forgotten.
func (gs *streamGroups) change(number uint32, fn func(*StreamGroup)) {
	g := gs.of(number)
	if g == nil {
		g = &StreamGroup{number: number, read: -1}
		gs.numbered = slices.Insert(gs.numbered, gs.numberedAt(number), g)
		gs.all = slices.Insert(gs.all, gs.named(nil), g)
	} else {
		gs.allocated -= g.bytes()
		gs.elements -= g.pending.n
	}
	fn(g)
	gs.elements += g.pending.n
	if g.there || len(g.numbered) > 0 || g.pending.n > 0 {
		gs.allocated += g.bytes()
		return
	}
	i := gs.numberedAt(number)
	gs.numbered = slices.Delete(gs.numbered, i, i+1)
	i = slices.Index(gs.all, g)
	gs.all = slices.Delete(gs.all, i, i+1)
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

// state gives a group its own element.
func (gs *streamGroups) state(g *StreamGroup, name []byte, last StreamID, read int64) {
	g.LastID, g.read = last, read
	if !bytes.Equal(g.name, name) {
		i := slices.Index(gs.all, g)
		gs.all = slices.Delete(gs.all, i, i+1)
		g.name = bytes.Clone(name)
		gs.all = slices.Insert(gs.all, gs.named(name), g)
	}
	if !g.there {
		g.there = true
		gs.seen++
		gs.elements++
	}
}

func (gs *streamGroups) group(number uint32) (val []byte, ok bool) {
	g := gs.of(number)
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
	if g := gs.of(number); g != nil && g.there {
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
	gs.change(group, func(g *StreamGroup) { gs.stateConsumer(g, number, name, seen, active) })
	return true
}

// stateConsumer gives a consumer its own element.
func (gs *streamGroups) stateConsumer(g *StreamGroup, number uint32, name []byte, seen, active int64) {
	c := g.made(number)
	g.rename(c, name)
	c.Seen, c.Active = seen, active
	if !c.there {
		c.there = true
		gs.elements++
	}
}

func (gs *streamGroups) consumer(group, number uint32) (val []byte, ok bool) {
	if g := gs.of(group); g != nil {
		if c := g.of(number); c != nil && c.there {
			return c.append(nil), true
		}
	}
	return nil, false
}

// append appends the value of the consumer's element.
func (c *StreamConsumer) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(appendBytes(dst, c.name), uint64(c.Seen)), uint64(c.Active+1))
}

func (gs *streamGroups) removeConsumer(group, number uint32) {
	if g := gs.of(group); g != nil {
		if c := g.of(number); c != nil && c.there {
			gs.change(group, func(g *StreamGroup) {
				c.there = false
				gs.elements--
				g.forget(c)
			})
		}
	}
}

// maxLine is above all places in line.
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
	if g := gs.of(group); g != nil {
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
	if gs.of(group) != nil {
		gs.change(group, func(g *StreamGroup) { g.unset(id) })
	}
}

func (gs *streamGroups) clone() streamGroups {
	to := *gs
	to.all, to.numbered, to.allocated = make([]*StreamGroup, 0, len(gs.all)), slices.Clone(gs.numbered), 0
	for _, g := range gs.all {
		copied := g.clone()
		to.all = append(to.all, copied)
		to.numbered[gs.numberedAt(g.number)] = copied
		to.allocated += copied.bytes()
	}
	return to
}

// Groups is the number of groups.
func (s *Stream) Groups() int { return s.groups.seen }

// EachGroup visits the groups in the order of their names, until fn returns false.
func (s *Stream) EachGroup(fn func(*StreamGroup) bool) {
	for _, g := range s.groups.all {
		if g.there && !fn(g) {
			return
		}
	}
}

// Group gives a group, nil if there is none of that name.
func (s *Stream) Group(name []byte) *StreamGroup {
	all := s.groups.all
	for i := s.groups.named(name); i < len(all) && bytes.Equal(all[i].name, name); i++ {
		if all[i].there {
			return all[i]
		}
	}
	return nil
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

// CreateGroup adds a group that has read entries entries, -1 if that is not known, the last of them last.
// There must be none of that name.
func (s *Stream) CreateGroup(name []byte, last StreamID, entries int64, changed Changed) {
	s.Create(changed)
	number := uint32(1)
	if n := len(s.groups.numbered); n > 0 {
		number = s.groups.numbered[n-1].number + 1
	}
	s.groups.change(number, func(g *StreamGroup) { s.groups.state(g, name, last, max(entries, -1)) })
	var key elemKey
	changed.call(key.group(number))
}

// SetGroup sets what CreateGroup set, of a group that must exist.
func (s *Stream) SetGroup(name []byte, last StreamID, entries int64, changed Changed) {
	g := s.Group(name)
	entries = max(entries, -1)
	if g.LastID == last && g.read == entries {
		return
	}
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
	var key elemKey
	for p, ok := g.pending.first(); ok; p, ok = g.pending.first() {
		s.groups.removePending(g.number, p.id)
		changed.call(key.pending(g.number, p.id))
	}
	for n := len(g.numbered); n > 0; n = len(g.numbered) {
		c := g.numbered[n-1]
		s.groups.removeConsumer(g.number, c.number)
		changed.call(key.consumer(g.number, c.number))
	}
	s.groups.removeGroup(g.number)
	changed.call(key.group(g.number))
	return true
}

// CreateConsumer adds a consumer, seen at now (Unix ms) and never active, to a group that must exist. It
// returns false if there was one of that name.
func (s *Stream) CreateConsumer(group, name []byte, now int64, changed Changed) bool {
	g := s.Group(group)
	if g.Consumer(name) != nil {
		return false
	}
	number := g.nextConsumer()
	s.groups.change(g.number, func(g *StreamGroup) { s.groups.stateConsumer(g, number, name, now, -1) })
	var key elemKey
	changed.call(key.consumer(g.number, number))
	return true
}

// DeleteConsumer removes a consumer with the entries that are pending at it, and returns how many those
// were; ok is false if there was none of that name. The group must exist.
func (s *Stream) DeleteConsumer(group, name []byte, changed Changed) (pending int, ok bool) {
	g := s.Group(group)
	c := g.Consumer(name)
	if c == nil {
		return 0, false
	}
	var key elemKey
	for id, more := c.pending.first(); more; id, more = c.pending.first() {
		s.groups.removePending(g.number, id)
		changed.call(key.pending(g.number, id))
		pending++
	}
	s.groups.removeConsumer(g.number, c.number)
	changed.call(key.consumer(g.number, c.number))
	return pending, true
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

// Deliver makes an entry pending at a consumer of a group, both of which must exist, or gives the pending
// entry to the consumer. A nil consumer gives it back to the group: it is the last in the line of those
// that belong to none. delivered is Unix milliseconds, and of no effect without a consumer.
func (s *Stream) Deliver(group, consumer []byte, id StreamID, delivered, count int64, changed Changed) {
	g := s.Group(group)
	p := pendingItem{id: id, delivered: max(delivered, 0), count: max(count, 0)}
	if consumer != nil {
		p.consumer = g.Consumer(consumer).number
	} else {
		p.delivered = g.line()
	}
	s.groups.change(g.number, func(g *StreamGroup) { g.set(p) })
	var key elemKey
	changed.call(key.pending(g.number, id))
}

// Ack removes a pending entry of a group, which must exist, and reports whether there was one.
func (s *Stream) Ack(group []byte, id StreamID, changed Changed) (ok bool) {
	g := s.Group(group)
	s.groups.change(g.number, func(g *StreamGroup) { ok = g.unset(id) })
	if ok {
		var key elemKey
		changed.call(key.pending(g.number, id))
	}
	return ok
}
