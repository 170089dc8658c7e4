package object

import (
	"bytes"
	"cmp"
	"math"
	"unsafe"
)

// StreamGroup is a group of consumers with its own position in the stream. It is valid until the
// stream changes.
type StreamGroup struct {
	LastID StreamID // the last entry that was delivered

	name   []byte
	read   int64 // entries read; -1: not known
	number uint32
	there  bool // its own element exists; otherwise only elements that refer to the group do

	consumers roster[StreamConsumer]
	seen      int // consumers whose element exists
	pending   sorted[pendingItem]
	byTime    sorted[timedItem]
	nacked    int
	allocated int // bytes of memory of the consumers
}

// StreamConsumer is a consumer of a group. It is valid until the stream changes.
type StreamConsumer struct {
	Seen   int64 // when it last asked for entries, Unix ms
	Active int64 // when it last got some, Unix ms; -1: never

	name    []byte
	number  uint32
	there   bool
	pending sorted[StreamID]
}

// PendingEntry is an entry that was delivered to a consumer and not acknowledged, whether or not
// the stream still has it.
type PendingEntry struct {
	ID        StreamID
	Consumer  *StreamConsumer // nil: it was given back (XNACK) and belongs to none
	Delivered int64           // Unix ms; 0 if it belongs to none
	Count     int64           // how often it was delivered
}

// pendingItem is a pending entry. If it has no consumer, delivered is its place in line, from 0.
type pendingItem struct {
	id        StreamID
	delivered int64
	count     int64
	consumer  uint32
}

func (p pendingItem) Compare(q pendingItem) int { return p.id.Compare(q.id) }

// timed returns the item's place in the order of time. Items without a consumer come first.
func (p pendingItem) timed() timedItem {
	if p.consumer == 0 {
		return timedItem{math.MinInt64 + p.delivered, p.id}
	}
	return timedItem{p.delivered, p.id}
}

type timedItem struct {
	at int64
	id StreamID
}

func (a timedItem) Compare(b timedItem) int {
	if c := cmp.Compare(a.at, b.at); c != 0 {
		return c
	}
	return a.id.Compare(b.id)
}

// Name returns the group's name.
func (g *StreamGroup) Name() []byte { return g.name }

// EntriesRead returns how many entries the group has read; -1 if that is not known.
func (g *StreamGroup) EntriesRead() int64 { return g.read }

// Consumers returns the number of consumers.
func (g *StreamGroup) Consumers() int { return g.seen }

// EachConsumer visits the consumers in the order of their names, until fn returns false.
func (g *StreamGroup) EachConsumer(fn func(*StreamConsumer) bool) {
	g.consumers.byName(nil, func(_ []byte, c *StreamConsumer) bool { return !c.there || fn(c) })
}

// Consumer returns a consumer by name; nil if there is none.
func (g *StreamGroup) Consumer(name []byte) (found *StreamConsumer) {
	g.consumers.byName(name, func(next []byte, c *StreamConsumer) bool {
		if !bytes.Equal(next, name) {
			return false
		}
		if c.there {
			found = c
		}
		return found == nil
	})
	return found
}

// Pending returns the number of pending entries.
func (g *StreamGroup) Pending() int { return g.pending.n }

// Nacked returns how many of the pending entries belong to no consumer.
func (g *StreamGroup) Nacked() int { return g.nacked }

// EachPending visits the pending entries with ids from from to to, both included, in the order of
// ids, until fn returns false.
func (g *StreamGroup) EachPending(from, to StreamID, fn func(PendingEntry) bool) {
	g.pending.each(pendingItem{id: from}, func(p pendingItem) bool {
		return p.id.Compare(to) <= 0 && fn(g.entry(p))
	})
}

// FirstPending returns the id of the first pending entry; false if there is none.
func (g *StreamGroup) FirstPending() (StreamID, bool) {
	p, ok := g.pending.first()
	return p.id, ok
}

// LastPending returns the id of the last pending entry; false if there is none.
func (g *StreamGroup) LastPending() (StreamID, bool) {
	p, ok := g.pending.last()
	return p.id, ok
}

// EachByTime visits the pending entries in the order in which they are to be delivered again, until
// fn returns false. Those that belong to no consumer come first, in the order in which they were
// given back. The others follow by time of delivery.
func (g *StreamGroup) EachByTime(fn func(PendingEntry) bool) {
	g.byTime.each(timedItem{at: math.MinInt64}, func(t timedItem) bool {
		p, _ := g.PendingEntry(t.id)
		return fn(p)
	})
}

// EachIdle does what EachByTime does, for the pending entries that the stream still has. The others
// are removed from that order, so that the next call does not meet them again. The value must not
// be pinned.
func (s *Stream) EachIdle(g *StreamGroup, fn func(PendingEntry) bool) {
	var gone []timedItem
	g.byTime.each(timedItem{at: math.MinInt64}, func(t timedItem) bool {
		if _, there := s.Get(t.id); !there {
			gone = append(gone, t)
			return true
		}
		p, _ := g.PendingEntry(t.id)
		return fn(p)
	})
	if len(gone) > 0 {
		s.groups.edit(g, func(g *StreamGroup) {
			for _, t := range gone {
				g.byTime.remove(t)
			}
		})
	}
}

// EachNacked visits the ids of the pending entries that belong to no consumer, in the order in
// which they were given back.
func (g *StreamGroup) EachNacked(fn func(StreamID)) {
	var line sorted[timedItem]
	g.pending.each(pendingItem{}, func(p pendingItem) bool {
		if p.consumer == 0 {
			line.put(p.timed())
		}
		return line.n < g.nacked
	})
	line.each(timedItem{at: math.MinInt64}, func(t timedItem) bool {
		fn(t.id)
		return true
	})
}

// order puts all pending entries in the order of time, also those that EachIdle has removed.
func (g *StreamGroup) order() {
	g.byTime = sorted[timedItem]{}
	g.pending.each(pendingItem{}, func(p pendingItem) bool {
		g.byTime.put(p.timed())
		return true
	})
}

// PendingEntry returns the pending entry with an id; false if there is none.
func (g *StreamGroup) PendingEntry(id StreamID) (PendingEntry, bool) {
	p, ok := g.pending.get(pendingItem{id: id})
	if !ok {
		return PendingEntry{}, false
	}
	return g.entry(p), true
}

func (g *StreamGroup) entry(p pendingItem) PendingEntry {
	e := PendingEntry{ID: p.id, Delivered: p.delivered, Count: p.count}
	if e.Consumer = g.consumers.of(p.consumer); e.Consumer == nil || !e.Consumer.there {
		e.Consumer, e.Delivered = nil, 0
	}
	return e
}

// Name returns the consumer's name.
func (c *StreamConsumer) Name() []byte { return c.name }

// Pending returns the number of the consumer's pending entries.
func (c *StreamConsumer) Pending() int { return c.pending.n }

// EachPending visits the ids of the consumer's pending entries from from to to, both included, in
// order, until fn returns false.
func (c *StreamConsumer) EachPending(from, to StreamID, fn func(StreamID) bool) {
	c.pending.each(from, func(id StreamID) bool { return id.Compare(to) <= 0 && fn(id) })
}

func (g *StreamGroup) bytes() int {
	return int(unsafe.Sizeof(*g)) + cap(g.name) + g.consumers.bytes() + g.pending.bytes() +
		g.byTime.bytes() + g.allocated
}

func (c *StreamConsumer) bytes() int {
	return int(unsafe.Sizeof(*c)) + cap(c.name) + c.pending.bytes()
}

// change calls fn, which changes a consumer, and updates the count of memory.
func (g *StreamGroup) change(c *StreamConsumer, fn func()) {
	g.allocated -= c.bytes()
	fn()
	g.allocated += c.bytes()
}

// set puts a pending entry in all its orders, or replaces it.
func (g *StreamGroup) set(p pendingItem) {
	old, ok := g.pending.get(p)
	if ok {
		g.unorder(old, old.consumer != p.consumer)
	}
	g.pending.put(p)
	g.byTime.put(p.timed())
	if p.consumer == 0 {
		g.nacked++
	} else if !ok || old.consumer != p.consumer {
		c := g.made(p.consumer, nil)
		g.change(c, func() { c.pending.put(p.id) })
	}
}

// unset removes a pending entry from all its orders.
func (g *StreamGroup) unset(id StreamID) bool {
	p, ok := g.pending.get(pendingItem{id: id})
	if ok {
		g.pending.remove(p)
		g.unorder(p, true)
	}
	return ok
}

// unorder removes a pending entry from the order of time. If owner is set, it also removes the
// entry from the pending entries of its consumer.
func (g *StreamGroup) unorder(p pendingItem, owner bool) {
	g.byTime.remove(p.timed())
	if p.consumer == 0 {
		g.nacked--
	} else if owner {
		c := g.consumers.of(p.consumer)
		g.change(c, func() { c.pending.remove(p.id) })
		g.forget(c)
	}
}

// made returns the consumer with a number, and creates it if needed. The name is empty if another
// element refers to the consumer before its own element comes.
func (g *StreamGroup) made(number uint32, name []byte) *StreamConsumer {
	c := g.consumers.of(number)
	if c == nil {
		c = &StreamConsumer{number: number, name: bytes.Clone(name)}
		g.consumers.add(c.name, number, c)
		g.allocated += c.bytes()
	}
	return c
}

// rename changes a consumer's name.
func (g *StreamGroup) rename(c *StreamConsumer, name []byte) {
	if !bytes.Equal(c.name, name) {
		name = bytes.Clone(name)
		g.consumers.rename(c.name, c.number, name)
		g.change(c, func() { c.name = name })
	}
}

// forget removes a consumer that has no element of its own and no pending entries.
func (g *StreamGroup) forget(c *StreamConsumer) {
	if !c.there && c.pending.n == 0 {
		g.allocated -= c.bytes()
		g.consumers.remove(c.name, c.number)
	}
}

// disown removes a consumer's pending entries and returns their ids.
func (g *StreamGroup) disown(c *StreamConsumer) (ids sorted[StreamID]) {
	g.change(c, func() { ids, c.pending = c.pending, ids })
	ids.each(StreamID{}, func(id StreamID) bool {
		p, _ := g.pending.get(pendingItem{id: id})
		g.pending.remove(p)
		g.byTime.remove(p.timed())
		return true
	})
	return ids
}

// line returns the place in line after all pending entries without a consumer.
func (g *StreamGroup) line() int64 {
	if g.nacked == 0 {
		return 0
	}
	at, i, _ := g.byTime.seek(timedItem{at: -1 << 62})
	if i == 0 {
		if at--; at < 0 {
			return 0 // those that are in line have no entries any more: see EachIdle
		}
		i = len(g.byTime.pieces[at])
	}
	return g.byTime.pieces[at][i-1].at - math.MinInt64 + 1
}

func (g *StreamGroup) clone() *StreamGroup {
	to := *g
	to.name = bytes.Clone(g.name)
	to.pending, to.byTime = g.pending.clone(), g.byTime.clone()
	to.consumers, to.allocated = roster[StreamConsumer]{}, 0
	g.consumers.byNumber(0, func(c *StreamConsumer) bool {
		copied := *c
		copied.name, copied.pending = bytes.Clone(c.name), c.pending.clone()
		to.consumers.add(copied.name, copied.number, &copied)
		to.allocated += copied.bytes()
		return true
	})
	return &to
}
