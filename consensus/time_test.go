package consensus

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"keyp/internal/clock"
)

// Messages of a leader contain its clock's time, and a Group passes that on. heardTime records the
// times that it gets from a Group. It is also a Network that keeps the sent messages.
type heardTime struct {
	heard []string
	sent  []Message
}

func (h *heardTime) Tick()           {}
func (h *heardTime) Now() int64      { return 42 }
func (h *heardTime) Lead(at int64)   { h.heard = append(h.heard, fmt.Sprint("leader ", at)) }
func (h *heardTime) Advise(at int64) { h.heard = append(h.heard, fmt.Sprint("advice ", at)) }
func (h *heardTime) Wall(from uint64, at int64) {
	h.heard = append(h.heard, fmt.Sprintf("wall %d of %d", at, from))
}

func (h *heardTime) Send(m *Message) bool {
	h.sent = append(h.sent, *m)
	return true
}
func (h *heardTime) Flush() {}

// TestTimeOfMessages: the time of a leader's heartbeat counts, unless the heartbeat is older than
// an earlier one, is of an earlier term or has no stamp. Messages of elections contain the sender's
// view of the time. Answers to heartbeats contain its wall clock.
func TestTimeOfMessages(t *testing.T) {
	base := Base{Index: 1, Term: 1, Conf: &pb.ConfState{Voters: []uint64{1, 2, 3}}}
	h := &heardTime{}
	g, err := Start(Options{
		ID: 1, Group: 1, Log: newMemLog(base), Applied: base, Machine: &plainMachine{}, Network: h,
		Clock: clock.NewFake(7_000), Time: h,
		After: func(time.Duration, func()) func() {
			return func() {}
		}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	receive := func(kind pb.MessageType, from, term, stamp uint64, at int64) {
		g.Receive([]*Message{{Group: 1, Time: at, Stamp: stamp, Raft: &pb.Message{
			Type: kind.Enum(), From: proto.Uint64(from), To: proto.Uint64(1),
			Term: proto.Uint64(term),
		}}})
	}
	receive(pb.MsgHeartbeat, 2, 5, 100, 1000)
	receive(pb.MsgHeartbeat, 2, 5, 90, 2000)  // overtaken
	receive(pb.MsgHeartbeat, 2, 5, 100, 1001) // another one of the same question
	receive(pb.MsgHeartbeat, 3, 4, 900, 3000) // of who was deposed
	receive(pb.MsgHeartbeat, 2, 5, 0, 4000)
	receive(pb.MsgApp, 2, 5, 0, 5000)
	receive(pb.MsgHeartbeat, 3, 6, 20, 1010) // the next leader's machine has started later
	receive(pb.MsgPreVoteResp, 2, 7, 0, 1011)
	receive(pb.MsgPreVoteResp, 2, 7, 0, 0)
	receive(pb.MsgHeartbeatResp, 3, 6, 0, 9000)
	want := []string{"leader 1000", "leader 1001", "advice 4000", "leader 1010", "advice 1011",
		"wall 9000 of 3"}
	if !slices.Equal(h.heard, want) {
		t.Errorf("heard\n%q\nwant\n%q", h.heard, want)
	}
	answers := 0
	for _, m := range h.sent {
		switch m.Raft.GetType() {
		case pb.MsgHeartbeatResp:
			answers++
			if m.Time != 7_000 {
				t.Errorf("an answer to a heartbeat has the time %d, want the wall clock", m.Time)
			}
		default:
			if m.Time != 0 {
				t.Errorf("%v has the time %d", m.Raft.GetType(), m.Time)
			}
		}
	}
	if answers < 3 {
		t.Errorf("%d heartbeats were answered", answers)
	}
}
