package member

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
)

// This file encodes and reads the entries of the Raft log. An entry has changes of the data, a part
// of a large change, or the description of a member.

const (
	batchesTag = 1 + iota
	partTag
	memberTag

	batchesHeader = 1 + 8
	partHeader    = 1 + 3*8

	// mostOfEntry is the most bytes of batches in one entry. A longer batch is cut into parts of
	// that length.
	mostOfEntry = 1 << 20
	// mostBatch bounds a batch: a value has 512 MiB at most, and a transaction several.
	mostBatch = 1 << 36
)

var le = binary.LittleEndian

// errEntry is the error for an entry that does not have this version's format.
var errEntry = errors.New("member: an entry does not parse")

// frameSize returns by how much a batch of a length advances the position.
func frameSize(length int) uint64 {
	var b [binary.MaxVarintLen64]byte
	return uint64(binary.PutUvarint(b[:], uint64(length)) + length)
}

// stream reads entries in their order, and puts together the batches in them.
type stream struct {
	position uint64 // where the last whole batch ends
	part     []byte // of the next one; nil: none has begun
	term     uint64 // of the entries of these parts
	length   uint64
}

// between reports whether the stream is not within a batch.
func (s *stream) between() bool { return s.part == nil }

// take reads an entry. It calls batch with each complete batch, and joins with each member that has
// joined or has another address.
func (s *stream) take(e *pb.Entry, batch func(lsn uint64, b []byte) error,
	joins func(commands.Member)) error {
	data := e.Data
	if e.GetTerm() != s.term { // parts of an earlier leader are void
		s.part = nil
	}
	if e.GetType() != pb.EntryNormal || len(data) == 0 {
		return nil
	}
	bad := func() error {
		return fmt.Errorf("%w: %d, of term %d", errEntry, e.GetIndex(), e.GetTerm())
	}
	switch {
	case data[0] == batchesTag && len(data) > batchesHeader && le.Uint64(data[1:]) == s.position:
		return s.batches(data[batchesHeader:], batch, bad)
	case data[0] == partTag && len(data) > partHeader && le.Uint64(data[1:]) == s.position:
		return s.take1(e.GetTerm(), data, batch, bad)
	case data[0] == memberTag:
		var m commands.Member
		if err := json.Unmarshal(data[1:], &m); err != nil || m.ID == 0 {
			return bad()
		}
		joins(m)
		return nil
	case data[0] == batchesTag || data[0] == partTag:
		return fmt.Errorf("%w: it is not at position %d", bad(), s.position)
	}
	return bad()
}

func (s *stream) batches(b []byte, batch func(uint64, []byte) error, bad func() error) error {
	s.part = nil
	for len(b) > 0 {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return bad()
		}
		end := n + int(length)
		s.position += uint64(end)
		if err := batch(s.position, b[n:end]); err != nil {
			return err
		}
		b = b[end:]
	}
	return nil
}

// take1 takes a part of a batch.
func (s *stream) take1(term uint64, data []byte, batch func(uint64, []byte) error,
	bad func() error) error {
	length, offset, bytes := le.Uint64(data[9:]), le.Uint64(data[17:]), data[partHeader:]
	if length > mostBatch || offset+uint64(len(bytes)) > length {
		return bad()
	}
	if offset == 0 {
		s.part, s.term, s.length = make([]byte, 0, min(length, 64<<20)), term, length
	}
	if s.part == nil || s.length != length || uint64(len(s.part)) != offset {
		return bad()
	}
	s.part = append(s.part, bytes...)
	if uint64(len(s.part)) < length {
		return nil
	}
	whole := s.part
	s.part = nil
	s.position += frameSize(len(whole))
	return batch(s.position, whole)
}

// memberEntry returns the data of an entry that describes a member.
func memberEntry(m *commands.Member) []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append([]byte{memberTag}, text...)
}
