package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"keyp/consensus"
)

// This file encodes and parses the records of the Raft log on disk. The format is described in
// doc.go.

const (
	kindHead  = 1
	kindWrite = 2

	version = 1

	hasHard = 1
	hasBase = 2

	// leastEntry is the least size of an entry in a record, in bytes.
	leastEntry = 3
)

var errRecord = errors.New("a record does not parse")

// Identity says whose log this is.
type Identity struct {
	Cluster       string
	Group, Member uint64
}

// Base is where a log begins: the entry before its first one, and the members after that entry.
// Position is where the next entry begins in the replicated data.
type Base struct {
	consensus.Base
	Position uint64
}

// hard is the state that a member must not forget besides entries.
type hard struct{ term, vote, commit uint64 }

// record is a batch of the log.
type record struct {
	head    bool
	id      Identity // of a head
	last    uint64   // of a head: index of the last entry before it
	term    uint64   // of a head: the term of that
	hard    *hard
	base    *Base
	first   uint64 // index of the first entry
	entries []entry
}

// entry is an entry in a record.
type entry struct {
	kind pb.EntryType
	term uint64
	data []byte
}

// appendHead appends a head.
func appendHead(b []byte, r *record) []byte {
	b = append(b, kindHead)
	b = binary.AppendUvarint(b, version)
	b = binary.AppendUvarint(b, uint64(len(r.id.Cluster)))
	b = append(b, r.id.Cluster...)
	b = binary.AppendUvarint(b, r.id.Group)
	b = binary.AppendUvarint(b, r.id.Member)
	b = appendHard(b, *r.hard)
	b = appendBase(b, *r.base)
	b = binary.AppendUvarint(b, r.last)
	return binary.AppendUvarint(b, r.term)
}

// appendWrite appends a write up to where its entries begin.
func appendWrite(b []byte, h *hard, base *Base, first uint64, entries int) []byte {
	flags := byte(0)
	if h != nil {
		flags |= hasHard
	}
	if base != nil {
		flags |= hasBase
	}
	b = append(b, kindWrite, flags)
	if h != nil {
		b = appendHard(b, *h)
	}
	if base != nil {
		b = appendBase(b, *base)
	}
	b = binary.AppendUvarint(b, first)
	return binary.AppendUvarint(b, uint64(entries))
}

// appendEntry appends the head of an entry, which precedes its data.
func appendEntry(b []byte, kind pb.EntryType, term uint64, size int) []byte {
	b = append(b, byte(kind))
	b = binary.AppendUvarint(b, term)
	return binary.AppendUvarint(b, uint64(size))
}

func appendHard(b []byte, h hard) []byte {
	for _, v := range [...]uint64{h.term, h.vote, h.commit} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func appendBase(b []byte, base Base) []byte {
	for _, v := range [...]uint64{base.Index, base.Term, base.Position} {
		b = binary.AppendUvarint(b, v)
	}
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(base.Conf)
	if err != nil {
		panic(fmt.Sprintf("raftlog: a ConfState: %v", err)) // it has numbers only
	}
	b = binary.AppendUvarint(b, uint64(len(conf)))
	return append(b, conf...)
}

// parse reads a record. The entries' data is a part of b; the list of them takes the memory of
// entries.
func parse(b []byte, entries []entry) (r record, err error) {
	p := parser{b: b}
	switch kind := p.byte(); kind {
	case kindHead:
		r.head = true
		if v := p.number(); !p.bad && v != version {
			return r,
				fmt.Errorf("written by a later version of Keyp (format %d, this one knows %d)", v,
					version)
		}
		r.id.Cluster = string(p.bytes())
		r.id.Group, r.id.Member = p.number(), p.number()
		r.hard, r.base = p.hard(), p.base()
		r.last, r.term = p.number(), p.number()
	case kindWrite:
		flags := p.byte()
		p.bad = p.bad || flags&^(hasHard|hasBase) != 0
		if flags&hasHard != 0 {
			r.hard = p.hard()
		}
		if flags&hasBase != 0 {
			r.base = p.base()
		}
		r.first = p.number()
		r.entries = p.entries(entries)
		if n := uint64(len(r.entries)); n > 0 && (r.first == 0 || r.first > math.MaxUint64-n) {
			p.bad = true
		}
	default:
		p.bad = true
	}
	if p.bad || len(p.b) > 0 {
		return record{}, errRecord
	}
	return r, nil
}

// parser parses a record. After the first error all values that it returns are empty.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) take(n uint64) []byte {
	if p.bad || n > uint64(len(p.b)) {
		p.b, p.bad = nil, true
		return nil
	}
	taken := p.b[:n:n]
	p.b = p.b[n:]
	return taken
}

func (p *parser) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) number() uint64 {
	v, n := binary.Uvarint(p.b)
	if p.take(uint64(max(n, 0))); n <= 0 {
		p.b, p.bad = nil, true
	}
	if p.bad {
		return 0
	}
	return v
}

func (p *parser) bytes() []byte { return p.take(p.number()) }

func (p *parser) hard() *hard {
	return &hard{term: p.number(), vote: p.number(), commit: p.number()}
}

func (p *parser) base() *Base {
	base := &Base{Base: consensus.Base{Index: p.number(), Term: p.number()}, Position: p.number()}
	base.Conf = &pb.ConfState{}
	if conf := p.bytes(); !p.bad && proto.Unmarshal(conf, base.Conf) != nil {
		p.bad = true
	}
	return base
}

func (p *parser) entries(list []entry) []entry {
	n := p.number()
	if n > uint64(len(p.b))/leastEntry {
		p.bad = true
	}
	list = list[:0]
	for i := uint64(0); i < n && !p.bad; i++ {
		e := entry{kind: pb.EntryType(p.byte()), term: p.number(), data: p.bytes()}
		if _, known := pb.EntryType_name[int32(e.kind)]; !known {
			p.bad = true
		}
		list = append(list, e)
	}
	return list
}
