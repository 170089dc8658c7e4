package rdb

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strconv"
)

// StreamValue is the content of a value of type Stream.
type StreamValue struct {
	// Entries yields the entries in the order of their ids. It may be called more than once.
	Entries iter.Seq[StreamEntry]
	// Last is the highest id ever added. MaxDeleted is the highest id that was deleted
	// individually, not by trimming.
	Last, MaxDeleted StreamID
	Added            uint64 // entries ever added
	Groups           []StreamGroup
	// Duration (seconds) and MaxSize are the settings of idempotent ids; 0 means the server's
	// default.
	Duration, MaxSize int64
	Producers         []StreamProducer
	// IIDs is how many idempotent ids were ever added. Duplicates is how often an id was found
	// again.
	IIDs, Duplicates int64
}

// StreamID names an entry.
type StreamID struct{ Ms, Seq uint64 }

func (id StreamID) less(other StreamID) bool {
	return id.Ms < other.Ms || id.Ms == other.Ms && id.Seq < other.Seq
}

// StreamEntry is an entry, valid until the next one. Fields alternate names and values.
type StreamEntry struct {
	ID     StreamID
	Fields [][]byte
}

// StreamGroup is a group of consumers.
type StreamGroup struct {
	Name      []byte
	Last      StreamID // the last entry that was delivered
	Read      int64    // entries read; -1: not known
	Consumers []StreamConsumer
	Pending   []StreamPending // by id
	// Pending entries without a consumer, in the order in which they were given back.
	Nacked []StreamID
}

// StreamConsumer is a consumer, with Unix milliseconds; Active is -1 if it never was.
type StreamConsumer struct {
	Name         []byte
	Seen, Active int64
}

// StreamPending is a pending entry of a group.
type StreamPending struct {
	ID        StreamID
	Consumer  int   // its index; -1: none
	Delivered int64 // Unix ms
	Count     int64
}

// StreamProducer has idempotent ids, the oldest first.
type StreamProducer struct {
	Name []byte
	IIDs []StreamIID
}

// StreamIID is an idempotent id, and the entry that was added with it.
type StreamIID struct {
	IID []byte
	ID  StreamID
}

// The flags of an entry in a node.
const (
	entryDeleted = 1 << iota
	entrySameFields
)

// idBytes is the length of a raw id: two numbers of 8 bytes, most significant byte first.
const idBytes = 16

func (id StreamID) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, id.Ms), id.Seq)
}

func idOf(b []byte) StreamID {
	return StreamID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// rawID reads a raw id of idBytes.
func (c *cursor) rawID() StreamID {
	if b := c.take(idBytes); b != nil {
		return idOf(b)
	}
	return StreamID{}
}

// id reads an id that is written as two lengths.
func (c *cursor) id() StreamID { return StreamID{c.length(), c.length()} }

// positive reads a number that fits an int64.
func (c *cursor) positive() int64 {
	n := c.length()
	if n > math.MaxInt64 {
		c.fail()
		return 0
	}
	return int64(n)
}

// ms reads a time in Unix milliseconds. It accepts -1.
func (c *cursor) ms() int64 {
	if b := c.take(8); b != nil {
		if n := int64(binary.LittleEndian.Uint64(b)); n >= -1 {
			return n
		}
		c.fail()
	}
	return 0
}

// some reads a count as count does, but accepts 0.
func (c *cursor) some(min uint64) int {
	n := c.length()
	if n > uint64(len(c.rest))/min {
		c.fail()
		return 0
	}
	return int(n)
}

// name returns a copy of a string, which stays valid.
func (c *cursor) name() []byte {
	c.room = c.room[:0]
	return slices.Clone(c.string())
}

// decodeStream reads a stream and checks it.
func decodeStream(kind byte, body []byte) (Value, error) {
	c := cursor{rest: body}
	s := &StreamValue{}
	entries, first, last := 0, StreamID{}, StreamID{}
	c.walkNodes(func(e StreamEntry) bool {
		if entries++; entries == 1 {
			first = e.ID
		}
		last = e.ID
		return true
	})
	length := c.length()
	s.Last = c.id()
	s.Added = length
	if kind >= kindStream2 {
		c.id() // the first one's
		s.MaxDeleted, s.Added = c.id(), c.length()
	}
	if c.bad || length != uint64(entries) || s.Last.less(last) || s.Added < length ||
		s.Added > math.MaxInt64 {
		return Value{}, ErrFormat
	}
	for n := c.some(6); n > 0 && !c.bad; n-- {
		g := c.group(kind)
		if kind < kindStream2 {
			g.Read = readUpTo(g.Last, s, first, length)
		}
		s.Groups = append(s.Groups, g)
	}
	if kind >= kindStream4 {
		c.idempotence(s)
	}
	if c.bad || len(c.rest) > 0 || !unique(s.Groups, func(g StreamGroup) []byte {
		return g.Name
	}) ||
		!unique(s.Producers, func(p StreamProducer) []byte { return p.Name }) {
		return Value{}, ErrFormat
	}
	s.Entries = func(yield func(StreamEntry) bool) {
		again := cursor{rest: body}
		again.walkNodes(yield)
		if again.bad {
			panic("rdb: a payload changed while its value was used")
		}
	}
	return Value{Type: Stream, Len: entries, Stream: s}, nil
}

// unique reports whether all names differ.
func unique[T any](all []T, name func(T) []byte) bool {
	var seen members
	for _, one := range all {
		if !seen.add(name(one)) {
			return false
		}
	}
	return true
}

// readUpTo returns how many entries a group has read, for payloads without that number; -1 if it
// cannot be derived.
func readUpTo(last StreamID, s *StreamValue, first StreamID, length uint64) int64 {
	switch {
	case length == 0 || last.less(first):
		return 0
	case last == s.Last:
		return int64(length)
	case last == first:
		return 1
	default:
		return -1
	}
}

// walkNodes visits the entries of all nodes until visit returns false. It returns whether it
// visited all of them without an error.
func (c *cursor) walkNodes(visit func(StreamEntry) bool) bool {
	var last StreamID
	going := true
	for n := c.some(2); n > 0 && !c.bad && going; n-- {
		c.room = c.room[:0]
		key := c.string()
		if len(key) != idBytes {
			c.fail()
			break
		}
		base := idOf(key)
		node := streamNode{pack: openListpack(c), cursor: c, base: base}
		going = node.walk(func(e StreamEntry) bool {
			if !last.less(e.ID) {
				c.fail()
				return false
			}
			last = e.ID
			return visit(e)
		})
	}
	return going && !c.bad
}

// streamNode reads a node: a listpack of
//
//	entries, deleted ones, number of names, names, 0, and for each entry
//	flags, ms, seq, [number of fields], fields, number of its elements
//
// where ms and seq are differences to the node's id. An entry with the field names of the node
// contains only the values.
type streamNode struct {
	*cursor
	pack   entries
	base   StreamID
	fields [][]byte
}

// next returns an element, which must be there.
func (n *streamNode) next() []byte {
	if n.bad || !n.pack.more() {
		n.fail()
		return nil
	}
	return n.pack.next()
}

// number returns an element that is an integer.
func (n *streamNode) number() int64 {
	v, err := strconv.ParseInt(string(n.next()), 10, 64)
	if err != nil {
		n.fail()
		return 0
	}
	return v
}

// amount returns an element that counts something: an integer from 0 to MaxInt32.
func (n *streamNode) amount() int64 {
	v := n.number()
	if v < 0 || v > math.MaxInt32 {
		n.fail()
		return 0
	}
	return v
}

func (n *streamNode) walk(visit func(StreamEntry) bool) bool {
	live, deleted := n.amount(), n.amount()
	var names [][]byte
	for i := n.amount(); i > 0 && !n.bad; i-- {
		names = append(names, slices.Clone(n.next()))
		n.room = n.room[:0]
	}
	if n.number() != 0 {
		n.fail()
	}
	for !n.bad && live+deleted > 0 {
		n.room = n.room[:0]
		e, gone := n.entry(names)
		switch {
		case gone:
			deleted--
		case n.bad:
		case !visit(e):
			return false
		default:
			live--
		}
	}
	if !n.bad && (live != 0 || deleted != 0 || n.pack.more()) {
		n.fail()
	}
	return !n.bad
}

func (n *streamNode) entry(names [][]byte) (e StreamEntry, deleted bool) {
	flags, ms, seq := n.amount(), n.number(), n.number()
	e.ID = StreamID{n.base.Ms + uint64(ms), n.base.Seq + uint64(seq)}
	n.fields = n.fields[:0]
	size := int64(3)
	if flags&entrySameFields != 0 {
		for _, name := range names {
			n.fields = append(n.fields, name, n.next())
		}
		size += int64(len(names))
	} else {
		pairs := n.amount()
		for i := int64(0); i < pairs && !n.bad; i++ {
			n.fields = append(n.fields, n.next(), n.next())
		}
		size += 1 + 2*pairs
	}
	if n.number() != size || flags > entryDeleted|entrySameFields {
		n.fail()
	}
	e.Fields = n.fields
	return e, flags&entryDeleted != 0
}

// group reads a group: first its pending entries, then its consumers, which refer to them.
func (c *cursor) group(kind byte) StreamGroup {
	g := StreamGroup{Name: c.name(), Last: c.id()}
	if kind >= kindStream2 {
		n := c.length()
		g.Read = int64(n)
		if g.Read < -1 {
			c.fail()
		}
	}
	for n := c.some(idBytes + 9); n > 0 && !c.bad; n-- {
		p := StreamPending{ID: c.rawID(), Delivered: max(c.ms(), 0), Count: c.positive(),
			Consumer: -1}
		if last := len(g.Pending) - 1; last >= 0 && !g.Pending[last].ID.less(p.ID) {
			c.fail()
		}
		g.Pending = append(g.Pending, p)
	}
	owned := 0
	for n := c.some(10); n > 0 && !c.bad; n-- {
		consumer := StreamConsumer{Name: c.name(), Seen: max(c.ms(), 0)}
		if consumer.Active = consumer.Seen; kind >= kindStream3 {
			consumer.Active = c.ms()
		}
		for m := c.some(idBytes); m > 0 && !c.bad; m-- {
			if p := g.find(c.rawID()); p != nil && p.Consumer < 0 {
				p.Consumer = len(g.Consumers)
				owned++
			} else {
				c.fail()
			}
		}
		g.Consumers = append(g.Consumers, consumer)
	}
	if kind >= kindStream5 {
		owned += c.nacked(&g)
	}
	if owned != len(g.Pending) || !unique(g.Consumers, func(one StreamConsumer) []byte {
		return one.Name
	}) {
		c.fail()
	}
	return g
}

// nacked reads the pending entries that belong to no consumer.
func (c *cursor) nacked(g *StreamGroup) int {
	const none = -2
	for n := c.some(idBytes); n > 0 && !c.bad; n-- {
		id := c.rawID()
		if p := g.find(id); p != nil && p.Consumer == -1 {
			p.Consumer = none
			g.Nacked = append(g.Nacked, id)
		} else {
			c.fail()
		}
	}
	for _, id := range g.Nacked {
		g.find(id).Consumer = -1
	}
	return len(g.Nacked)
}

// find returns a pending entry by its id.
func (g *StreamGroup) find(id StreamID) *StreamPending {
	i, ok := slices.BinarySearchFunc(g.Pending, id, func(p StreamPending, id StreamID) int {
		switch {
		case p.ID.less(id):
			return -1
		case id.less(p.ID):
			return 1
		default:
			return 0
		}
	})
	if !ok {
		return nil
	}
	return &g.Pending[i]
}

// idempotence reads the settings, the producers with their idempotent ids, and the counts.
func (c *cursor) idempotence(s *StreamValue) {
	s.Duration, s.MaxSize = c.positive(), c.positive()
	kept := int64(0)
	for n := c.some(2); n > 0 && !c.bad; n-- {
		p := StreamProducer{Name: c.name()}
		for m := c.some(3); m > 0 && !c.bad; m-- {
			p.IIDs = append(p.IIDs, StreamIID{c.name(), c.id()})
			kept++
		}
		if len(p.IIDs) == 0 || !unique(p.IIDs, func(one StreamIID) []byte { return one.IID }) {
			c.fail()
		}
		s.Producers = append(s.Producers, p)
	}
	if s.IIDs, s.Duplicates = c.positive(), c.positive(); s.IIDs < kept || s.IIDs > maxIIDs {
		c.fail()
	}
}

// maxIIDs is more than any server can have added.
const maxIIDs = 1 << 45
