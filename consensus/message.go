package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Message is a message of the Raft library on its way to another member.
type Message struct {
	Group uint64
	Time  int64  // Unix ms, see Time
	Stamp uint64 // see doc.go
	Raft  *pb.Message
}

// ErrMessage is the error for a frame whose body is not a valid message.
var ErrMessage = errors.New("consensus: a message does not parse")

// numbers is how many fields of a message are varints.
const numbers = 10

// AppendMessage appends a message as a frame. It copies the entries.
func AppendMessage(dst []byte, m *Message) ([]byte, error) {
	r := m.Raft
	at := len(dst)
	dst = beginFrame(dst, KindMessage, m.Group)
	dst = le.AppendUint64(dst, uint64(m.Time))
	dst = le.AppendUint64(dst, m.Stamp)
	reject := byte(0)
	if r.GetReject() {
		reject = 1
	}
	dst = append(dst, byte(r.GetType()), reject)
	var snapshot []byte
	if r.Snapshot != nil {
		var err error
		if snapshot, err = proto.Marshal(r.Snapshot); err != nil {
			return dst[:at], fmt.Errorf("consensus: %w", err)
		}
	}
	for _, v := range [numbers]uint64{
		r.GetTo(), r.GetFrom(), r.GetTerm(), r.GetLogTerm(), r.GetIndex(), r.GetCommit(),
		r.GetVote(), r.GetRejectHint(),
		uint64(len(r.Context)), uint64(len(snapshot)),
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = append(append(dst, r.Context...), snapshot...)
	for _, e := range r.Entries {
		dst = append(dst, byte(e.GetType()))
		dst = binary.AppendUvarint(dst, e.GetTerm())
		dst = binary.AppendUvarint(dst, e.GetIndex())
		dst = binary.AppendUvarint(dst, uint64(len(e.Data)))
		dst = append(dst, e.Data...)
	}
	if len(dst)-at > MaxFrame {
		return dst[:at], fmt.Errorf("consensus: a message of %d bytes is too long", len(dst)-at)
	}
	return sealFrame(dst, at), nil
}

// received is a message with all that its fields point to, so that it is one piece of memory.
type received struct {
	Message
	raft   pb.Message
	typ    pb.MessageType
	reject bool
	number [numbers]uint64
}

// receivedEntry is an entry with all that its fields point to.
type receivedEntry struct {
	e           pb.Entry
	typ         pb.EntryType
	term, index uint64
}

// ParseMessage reads the message of a frame, whose body it keeps.
func ParseMessage(f Frame) (*Message, error) {
	const fixed = 18
	b := f.Body
	if f.Kind != KindMessage || len(b) < fixed || b[17] > 1 {
		return nil, ErrMessage
	}
	r := &received{typ: pb.MessageType(b[16]), reject: b[17] == 1}
	if _, known := pb.MessageType_name[int32(r.typ)]; !known {
		return nil, ErrMessage
	}
	r.Group, r.Time, r.Stamp, r.Raft = f.Group, int64(le.Uint64(b)), le.Uint64(b[8:]), &r.raft
	in := input{rest: b[fixed:]}
	for i := range r.number {
		r.number[i] = in.int()
	}
	m := &r.raft
	m.Type, m.To, m.From, m.Term, m.LogTerm = &r.typ, &r.number[0], &r.number[1],
		&r.number[2], &r.number[3]
	m.Index, m.Commit, m.Vote, m.RejectHint = &r.number[4], &r.number[5], &r.number[6], &r.number[7]
	if r.reject {
		m.Reject = &r.reject
	}
	m.Context = in.bytes(r.number[8])
	if snapshot := in.bytes(r.number[9]); len(snapshot) > 0 {
		m.Snapshot = &pb.Snapshot{}
		if err := proto.Unmarshal(snapshot, m.Snapshot); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMessage, err)
		}
	}
	for len(in.rest) > 0 {
		m.Entries = append(m.Entries, in.entry())
	}
	if in.bad {
		return nil, ErrMessage
	}
	return &r.Message, nil
}

// input holds the bytes that are left to read. After the first bad field everything reads as zero,
// and bad is set.
type input struct {
	rest []byte
	bad  bool
}

func (in *input) int() uint64 {
	v, n := binary.Uvarint(in.rest)
	if n <= 0 {
		in.bad, in.rest = true, nil
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

// bytes returns the next n bytes, nil if n is 0.
func (in *input) bytes(n uint64) []byte {
	if n > uint64(len(in.rest)) {
		in.bad, in.rest = true, nil
		return nil
	}
	if n == 0 {
		return nil
	}
	b := in.rest[:n:n]
	in.rest = in.rest[n:]
	return b
}

func (in *input) entry() *pb.Entry {
	r := &receivedEntry{typ: pb.EntryType(in.rest[0])}
	if _, known := pb.EntryType_name[int32(r.typ)]; !known {
		in.bad = true
	}
	in.rest = in.rest[1:]
	r.term, r.index = in.int(), in.int()
	e := &r.e
	e.Type, e.Term, e.Index, e.Data = &r.typ, &r.term, &r.index, in.bytes(in.int())
	return e
}
