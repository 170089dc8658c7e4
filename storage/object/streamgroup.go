package object

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"
	"unsafe"
)

// StreamGroup is a group of consumers, with a place in the stream of its own. It is valid until the
// stream changes.
type StreamGroup struct {
	LastID StreamID // the last entry that was delivered

	name   []byte
	read   int64 // entries read; -1: not known
	number uint32
	there  bool // its element is; without it, elements that refer to the group are

	consumers []*StreamConsumer // by name
	numbered  []*StreamConsumer // by number
	pending   sorted[pendingItem]
	byTime    sorted[timedItem]
	nacked    int
	allocated int // bytes of memory behind the consumers
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

// PendingEntry is an entry that was delivered to a consumer and not acknowledged, whether or not the
// stream still has it.
type PendingEntry struct {
	ID        StreamID
	Consumer  *StreamConsumer // nil: it was given back (XNACK) and belongs to none
	Delivered int64           // Unix ms; 0 if it belongs to none
	Count     int64           // how often it was delivered
}

// pendingItem is a pending entry. One without a consumer has a place in line, from 0, instead of the time.
type pendingItem struct {
	id        StreamID
	delivered int64
	count     int64
	consumer  uint32
}

func (p pendingItem) Compare(q pendingItem) int { return p.id.Compare(q.id) }

// timed is the item's place in the order of time: those without a consumer come first.
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

// Name is the group's name.
func (g *StreamGroup) Name() []byte { return g.name }

// EntriesRead is how many entries the group has read, -1 if that is not known.
func (g *StreamGroup) EntriesRead() int64 { return g.read }

// Consumers is the number of consumers.
func (g *StreamGroup) Consumers() (n int) {
	g.EachConsumer(func(*StreamConsumer) bool { n++; return true })
	return n
}

// EachConsumer visits the consumers in the order of their names, until fn returns false.
func (g *StreamGroup) EachConsumer(fn func(*StreamConsumer) bool) {
	for _, c := range g.consumers {
		if c.there && !fn(c) {
			return
		}
	}
}

// Consumer gives a consumer, nil if there is none of that name.
func (g *StreamGroup) Consumer(name []byte) *StreamConsumer {
	for i := g.named(name); i < len(g.consumers) && bytes.Equal(g.consumers[i].name, name); i++ {
		if g.consumers[i].there {
			return g.consumers[i]
		}
	}
	return nil
}

// named is where the first consumer of a name stands, or would.
func (g *StreamGroup) named(name []byte) int {
	return sort.Search(len(g.consumers), func(i int) bool { return bytes.Compare(g.consumers[i].name, name) >= 0 })
}

// Pending is the number of pending entries, Nacked how many of them belong to no consumer.
func (g *StreamGroup) Pending() int { return g.pending.n }

// Nacked is how many of the pending entries belong to no consumer.
func (g *StreamGroup) Nacked() int { return g.nacked }

// EachPending visits the pending entries with ids from from to to, in their order, until fn returns
// false.
func (g *StreamGroup) EachPending(from, to StreamID, fn func(PendingEntry) bool) {
	g.pending.each(pendingItem{id: from}, func(p pendingItem) bool {
		return p.id.Compare(to) <= 0 && fn(g.entry(p))
	})
}

// FirstPending gives the id of the first pending entry; false if there is none.
func (g *StreamGroup) FirstPending() (StreamID, bool) {
	p, ok := g.pending.first()
	return p.id, ok
}

// LastPending gives the id of the last pending entry; false if there is none.
func (g *StreamGroup) LastPending() (StreamID, bool) {
	p, ok := g.pending.last()
	return p.id, ok
}

// EachByTime visits the pending entries in the order in which they are to be delivered again, until fn
// returns false: first those that belong to no consumer, as they were given back, then by time of delivery.
func (g *StreamGroup) EachByTime(fn func(PendingEntry) bool) {
	g.byTime.each(timedItem{at: math.MinInt64}, func(t timedItem) bool {
		p, _ := g.PendingEntry(t.id)
		return fn(p)
	})
}

// PendingEntry gives the pending entry with an id.
func (g *StreamGroup) PendingEntry(id StreamID) (PendingEntry, bool) {
	p, ok := g.pending.get(pendingItem{id: id})
	if !ok {
		return PendingEntry{}, false
	}
	return g.entry(p), true
}

func (g *StreamGroup) entry(p pendingItem) PendingEntry {
	e := PendingEntry{ID: p.id, Delivered: p.delivered, Count: p.count}
	if e.Consumer = g.of(p.consumer); e.Consumer == nil || !e.Consumer.there {
		e.Consumer, e.Delivered = nil, 0
	}
	return e
}

// of gives the consumer with a number, nil if there is none.
func (g *StreamGroup) of(number uint32) *StreamConsumer {
	if i := g.numberedAt(number); i < len(g.numbered) && g.numbered[i].number == number {
		return g.numbered[i]
	}
	return nil
}

func (g *StreamGroup) numberedAt(number uint32) int {
	if n := len(g.numbered); n > 0 && g.numbered[n-1].number < number {
		return n
	}
	return sort.Search(len(g.numbered), func(i int) bool { return g.numbered[i].number >= number })
}

// Name is the consumer's name.
func (c *StreamConsumer) Name() []byte { return c.name }

// Pending is the number of entries that are pending at the consumer.
func (c *StreamConsumer) Pending() int { return c.pending.n }

// EachPending visits the ids of the consumer's pending entries from from to to, in their order, until
// fn returns false.
func (c *StreamConsumer) EachPending(from, to StreamID, fn func(StreamID) bool) {
	c.pending.each(from, func(id StreamID) bool { return id.Compare(to) <= 0 && fn(id) })
}

func (g *StreamGroup) bytes() int {
	return int(unsafe.Sizeof(*g)) + cap(g.name) + (cap(g.consumers)+cap(g.numbered))*8 + g.pending.bytes() + g.byTime.bytes() + g.allocated
}

func (c *StreamConsumer) bytes() int { return int(unsafe.Sizeof(*c)) + cap(c.name) + c.pending.bytes() }

// change lets fn change a consumer and follows its memory.
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
		c := g.made(p.consumer)
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

// unorder removes a pending entry from the order of time and, if owner is set, from its consumer's.
func (g *StreamGroup) unorder(p pendingItem, owner bool) {
	g.byTime.remove(p.timed())
	if p.consumer == 0 {
		g.nacked--
	} else if owner {
		c := g.of(p.consumer)
		g.change(c, func() { c.pending.remove(p.id) })
		g.forget(c)
	}
}

// made gives the consumer with a number, and makes it if elements come before the one that it is.
func (g *StreamGroup) made(number uint32) *StreamConsumer {
	c := g.of(number)
	if c == nil {
		c = &StreamConsumer{number: number}
		g.numbered = slices.Insert(g.numbered, g.numberedAt(number), c)
		g.consumers = slices.Insert(g.consumers, g.named(nil), c)
		g.allocated += c.bytes()
	}
	return c
}

// rename gives a consumer its name.
func (g *StreamGroup) rename(c *StreamConsumer, name []byte) {
	if !bytes.Equal(c.name, name) {
		i := slices.Index(g.consumers, c)
		g.consumers = slices.Delete(g.consumers, i, i+1)
		g.change(c, func() { c.name = bytes.Clone(name) })
		g.consumers = slices.Insert(g.consumers, g.named(name), c)
	}
}

// forget forgets a consumer that nothing refers to and that has no element.
func (g *StreamGroup) forget(c *StreamConsumer) {
	if c.there || c.pending.n > 0 {
		return
	}
	g.allocated -= c.bytes()
	i := g.numberedAt(c.number)
	g.numbered = slices.Delete(g.numbered, i, i+1)
	i = g.named(c.name)
	for g.consumers[i] != c {
		i++
	}
	g.consumers = slices.Delete(g.consumers, i, i+1)
}

// nextConsumer is a number for a new consumer.
func (g *StreamGroup) nextConsumer() uint32 {
	if n := len(g.numbered); n > 0 {
		return g.numbered[n-1].number + 1
	}
	return 1
}

// line is the place in line behind all pending entries without a consumer.
func (g *StreamGroup) line() int64 {
	if g.nacked == 0 {
		return 0
	}
	at, i, _ := g.byTime.seek(timedItem{at: -1 << 62})
	if i == 0 {
		at--
		i = len(g.byTime.pieces[at])
	}
	return g.byTime.pieces[at][i-1].at - math.MinInt64 + 1
}

func (g *StreamGroup) clone() *StreamGroup {
	to := *g
	to.name = bytes.Clone(g.name)
	to.pending, to.byTime = g.pending.clone(), g.byTime.clone()
	to.consumers, to.numbered, to.allocated = make([]*StreamConsumer, 0, len(g.consumers)), slices.Clone(g.numbered), 0
	for _, c := range g.consumers {
		copied := *c
		copied.name, copied.pending = bytes.Clone(c.name), c.pending.clone()
		to.consumers = append(to.consumers, &copied)
		to.numbered[g.numberedAt(c.number)] = &copied
		to.allocated += copied.bytes()
	}
	return &to
}
