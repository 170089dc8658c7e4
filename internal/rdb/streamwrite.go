package rdb

import (
	"encoding/binary"
	"math"
)

// The default sizes of a stream's node in Redis.
const (
	streamNodeBytes   = 4096
	streamNodeEntries = 100
)

// stream writes a stream and returns the version of its payload. It uses the version of Redis 7.0,
// which lacks the consumers' time of activity, unless the stream needs a later version.
func (w *writer) stream(s *StreamValue) (version uint16) {
	kind := byte(kindStream2)
	version = version7_0
	if s.Duration != 0 || s.MaxSize != 0 || len(s.Producers) > 0 || s.IIDs != 0 ||
		s.Duplicates != 0 {
		kind, version = kindStream4, version8_6
	}
	for i := range s.Groups {
		if len(s.Groups[i].Nacked) > 0 {
			kind, version = kindStream5, version8_8
		}
	}
	w.kind(kind)
	entries, first := w.streamNodes(s)
	w.length(uint64(entries))
	w.id(s.Last)
	w.id(first)
	w.id(s.MaxDeleted)
	w.length(s.Added)
	w.length(uint64(len(s.Groups)))
	for i := range s.Groups {
		w.group(&s.Groups[i], kind)
	}
	if kind >= kindStream4 {
		w.idempotence(s)
	}
	return version
}

func (w *writer) id(id StreamID) {
	w.length(id.Ms)
	w.length(id.Seq)
}

// packNode is a node that is being written.
type packNode struct {
	*packWriter
	base    StreamID
	names   [][]byte
	entries int
}

// streamNodes writes the nodes that Redis would have if the entries were added one by one.
func (w *writer) streamNodes(s *StreamValue) (entries int, first StreamID) {
	var nodes writer
	var n *packNode
	count := uint64(0)
	flush := func() {
		if n != nil {
			nodes.string(n.base.append(nil))
			n.b[packHead] = byte(n.entries) // below 128, so that it takes one byte
			nodes.string(n.end())
			count++
		}
	}
	for e := range s.Entries {
		if entries++; entries == 1 {
			first = e.ID
		}
		if n == nil || n.full(e) {
			flush()
			n = newNode(e)
		}
		n.entry(e)
	}
	flush()
	w.length(count)
	w.b = append(w.b, nodes.b...)
	return entries, first
}

func newNode(e StreamEntry) *packNode {
	n := &packNode{packWriter: newPack(), base: e.ID}
	for _, number := range []int{0, 0, len(e.Fields) / 2} {
		n.int(int64(number))
	}
	for i := 0; i < len(e.Fields); i += 2 {
		n.names = append(n.names, append([]byte(nil), e.Fields[i]...))
		n.add(e.Fields[i])
	}
	n.int(0)
	return n
}

func (n *packNode) int(v int64) {
	start := len(n.b)
	n.b = appendPackInt(n.b, v)
	n.b = backLength(n.b, len(n.b)-start)
	n.count++
}

// full reports whether Redis would begin another node for e.
func (n *packNode) full(e StreamEntry) bool {
	size := len(n.b) + 1
	for _, f := range e.Fields {
		size += len(f)
	}
	return size >= streamNodeBytes || n.entries >= streamNodeEntries
}

func (n *packNode) entry(e StreamEntry) {
	same := len(e.Fields) == 2*len(n.names)
	for i := 0; same && i < len(n.names); i++ {
		same = string(n.names[i]) == string(e.Fields[2*i])
	}
	flags, size := int64(0), 4+len(e.Fields)
	if same {
		flags, size = entrySameFields, 3+len(n.names)
	}
	n.int(flags)
	n.int(int64(e.ID.Ms - n.base.Ms))
	n.int(int64(e.ID.Seq - n.base.Seq))
	if !same {
		n.int(int64(len(e.Fields) / 2))
	}
	for i, f := range e.Fields {
		if !same || i%2 == 1 {
			n.add(f)
		}
	}
	n.int(int64(size))
	n.entries++
}

func (w *writer) ms(at int64) { w.b = binary.LittleEndian.AppendUint64(w.b, uint64(at)) }

func (w *writer) group(g *StreamGroup, kind byte) {
	w.string(g.Name)
	w.id(g.Last)
	read := uint64(g.Read)
	if g.Read < 0 {
		read = math.MaxUint64
	}
	w.length(read)
	w.length(uint64(len(g.Pending)))
	of := make([][]StreamID, len(g.Consumers))
	for _, p := range g.Pending {
		w.b = p.ID.append(w.b)
		w.ms(p.Delivered)
		w.length(uint64(p.Count))
		if p.Consumer >= 0 {
			of[p.Consumer] = append(of[p.Consumer], p.ID)
		}
	}
	w.length(uint64(len(g.Consumers)))
	for i, c := range g.Consumers {
		w.string(c.Name)
		w.ms(c.Seen)
		if kind >= kindStream3 {
			w.ms(c.Active)
		}
		w.ids(of[i])
	}
	if kind >= kindStream5 {
		w.ids(g.Nacked)
	}
}

func (w *writer) ids(ids []StreamID) {
	w.length(uint64(len(ids)))
	for _, id := range ids {
		w.b = id.append(w.b)
	}
}

func (w *writer) idempotence(s *StreamValue) {
	duration, size := s.Duration, s.MaxSize
	if duration == 0 {
		duration = defaultIIDs
	}
	if size == 0 {
		size = defaultIIDs
	}
	w.length(uint64(duration))
	w.length(uint64(size))
	w.length(uint64(len(s.Producers)))
	for _, p := range s.Producers {
		w.string(p.Name)
		w.length(uint64(len(p.IIDs)))
		for _, one := range p.IIDs {
			w.string(one.IID)
			w.id(one.ID)
		}
	}
	w.length(uint64(s.IIDs))
	w.length(uint64(s.Duplicates))
}

// defaultIIDs is Redis's default for both settings of idempotent ids: 100 seconds and 100 ids.
const defaultIIDs = 100
