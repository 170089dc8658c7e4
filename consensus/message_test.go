package consensus

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
)

// drawMessage draws a message with any of the fields that the Raft library sends to other members.
func drawMessage(t *rapid.T) *Message {
	number := func(name string) *uint64 {
		return proto.Uint64(rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64()).Draw(t, name))
	}
	m := &pb.Message{
		Type: pb.MessageType(rapid.IntRange(0, len(pb.MessageType_name)-1).Draw(t, "type")).Enum(),
		To:   number("to"), From: number("from"), Term: number("term"), LogTerm: number("logTerm"),
		Index:  number("index"),
		Commit: number("commit"), Vote: number("vote"), RejectHint: number("rejectHint"),
		Context: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "context"),
	}
	if rapid.Bool().Draw(t, "reject") {
		m.Reject = proto.Bool(true)
	}
	if rapid.Bool().Draw(t, "has a snapshot") {
		m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			Index: number("snapshot's index"), Term: number("snapshot's term"),
			ConfState: &pb.ConfState{Voters: rapid.SliceOfN(rapid.Uint64(), 1,
				3).Draw(t, "voters")},
		}}
	}
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		m.Entries = append(m.Entries, &pb.Entry{
			Type: pb.EntryType(rapid.IntRange(0, 2).Draw(t, "entry type")).Enum(),
			Term: number("entry term"), Index: number("entry index"),
			Data: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"),
		})
	}
	return &Message{Group: *number("group"), Time: int64(*number("time")), Stamp: *number("stamp"),
		Raft: m}
}

// equal compares messages as the library sees them: a missing field is zero.
func equal(a, b *Message) bool {
	plain := func(m *pb.Message) *pb.Message {
		m = proto.Clone(m).(*pb.Message)
		m.Reject = proto.Bool(m.GetReject())
		if len(m.Context) == 0 {
			m.Context = nil
		}
		for _, e := range m.Entries {
			if len(e.Data) == 0 {
				e.Data = nil
			}
		}
		return m
	}
	return a.Group == b.Group && a.Time == b.Time && a.Stamp == b.Stamp &&
		proto.Equal(plain(a.Raft), plain(b.Raft))
}

// TestPropertyMessages: any sequence of messages is parsed as it was appended.
func TestPropertyMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent []*Message
		var wire []byte
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			m := drawMessage(t)
			sent = append(sent, m)
			var err error
			if wire, err = AppendMessage(wire, m); err != nil {
				t.Fatal(err)
			}
		}
		r := bufio.NewReader(bytes.NewReader(wire))
		for _, m := range sent {
			f, err := ReadFrame(r, MaxFrame)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseMessage(f)
			if err != nil {
				t.Fatal(err)
			}
			if !equal(m, got) {
				t.Fatalf("sent %v, got %v", m, got)
			}
		}
		if _, err := ReadFrame(r, MaxFrame); err != io.EOF {
			t.Fatalf("after the last frame: %v", err)
		}
	})
}

// TestPropertyDamage: a frame with a changed bit or a missing end is refused.
func TestPropertyDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wire, err := AppendMessage(nil, drawMessage(t))
		if err != nil {
			t.Fatal(err)
		}
		bit := rapid.IntRange(0, 8*len(wire)-1).Draw(t, "bit")
		wire[bit/8] ^= 1 << (bit % 8)
		if _, err := ReadFrame(bufio.NewReader(bytes.NewReader(wire)), MaxFrame); err == nil {
			t.Fatalf("bit %d is changed, and nothing is noticed", bit)
		}
		wire[bit/8] ^= 1 << (bit % 8)
		end := rapid.IntRange(1, len(wire)-1).Draw(t, "end")
		if _, err := ReadFrame(bufio.NewReader(bytes.NewReader(wire[:end])),
			MaxFrame); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("of %d bytes %d are there: %v", len(wire), end, err)
		}
	})
}

// FuzzMessage: a body is either refused, or its message stays the same when it is appended and
// parsed again.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	rapid.Check(f, func(t *rapid.T) {
		wire, err := AppendMessage(nil, drawMessage(t))
		if err != nil {
			t.Fatal(err)
		}
		f.Add(wire[frameHeader:])
	})
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := ParseMessage(Frame{Kind: KindMessage, Group: 1, Body: body})
		if err != nil {
			return
		}
		wire, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := ParseFrame(wire)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseMessage(frame)
		if err != nil || !equal(m, again) {
			t.Fatalf("%v became %v (%v)", m, again, err)
		}
	})
}

func TestFrameLimits(t *testing.T) {
	long := &Message{Raft: &pb.Message{Entries: []*pb.Entry{{Data: make([]byte, MaxFrame)}}}}
	before := []byte("before")
	if wire, err := AppendMessage(before, long); err == nil || string(wire) != "before" {
		t.Errorf("a message over MaxFrame: %d bytes, %v", len(wire), err)
	}
	for _, length := range []uint32{0, frameHeader - 1, MaxFrame + 1, 1<<32 - 1} {
		wire := le.AppendUint32(nil, length)
		if _, err := ReadFrame(bufio.NewReader(bytes.NewReader(wire)), MaxFrame); !errors.Is(err,
			ErrFrame) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

// TestWhole: Whole is true only for a frame that can be read from the buffer without waiting.
func TestWhole(t *testing.T) {
	wire := AppendFrame(nil, KindProof, 1, []byte("body"))
	for n := range len(wire) + 1 {
		r := bufio.NewReader(bytes.NewReader(wire[:n]))
		if n > 0 {
			if _, err := r.Peek(n); err != nil {
				t.Fatal(err)
			}
		}
		if got := Whole(r); got != (n == len(wire)) {
			t.Errorf("%d of %d bytes: %v", n, len(wire), got)
		}
	}
}

func BenchmarkMessage(b *testing.B) {
	m := &Message{Group: 1, Raft: &pb.Message{Type: pb.MsgApp.Enum(),
		Entries: []*pb.Entry{{Data: make([]byte, 4096)}}}}
	var wire []byte
	b.ReportAllocs()
	for b.Loop() {
		wire, _ = AppendMessage(wire[:0], m)
		f, err := ParseFrame(wire)
		if err == nil {
			_, err = ParseMessage(f)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
