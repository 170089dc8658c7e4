package consensus

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/internal/clock"
)

// Time is the group's time, as far as this member knows it, in Unix ms. The group calls all methods
// except Tick with its mutex locked, so these take no lock of the store and do not block.
//
// A heartbeat has the leader's time. Votes and requests for votes have the time as their sender
// knows it. So a member that has just started and is elected has heard the time from the members
// that vote for it. The answer to a heartbeat has the wall clock of its sender, so the leader knows
// whose clock is wrong.
type Time interface {
	// Tick is called once a tick, before anything is sent, without the mutex: a leader reads the
	// clocks.
	Tick()
	// Now returns the group's time, or 0 if it is not known here. At the leader it is as of its
	// last reading of the clocks.
	Now() int64
	// Lead takes the time that the leader of this term has sent.
	Lead(at int64)
	// Advise takes the time of a member that need not be the leader.
	Advise(at int64)
	// Wall takes a reading of another member's wall clock.
	Wall(from uint64, at int64)
}

// ownTime is the Time of a group whose options have none.
type ownTime struct{ clock clock.Clock }

func (ownTime) Tick()              {}
func (t ownTime) Now() int64       { return t.clock.Now() }
func (ownTime) Lead(int64)         {}
func (ownTime) Advise(int64)       {}
func (ownTime) Wall(uint64, int64) {}

// timeOf returns the time that a message has. mu is locked.
func (g *Group) timeOf(m *pb.Message) int64 {
	switch m.GetType() {
	case pb.MsgHeartbeat, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgVote, pb.MsgVoteResp:
		return g.o.Time.Now()
	case pb.MsgHeartbeatResp:
		return g.o.Clock.Now()
	default:
		return 0
	}
}

// hear takes the time of a message. It must be called before the promise gets the message's stamp.
// It uses a heartbeat of the leader only if that is not older than an earlier one. mu is locked.
func (g *Group) hear(m *Message) {
	r, p := m.Raft, &g.mu.promise
	switch r.GetType() {
	case pb.MsgHeartbeat:
		switch {
		case r.GetTerm() < g.mu.term || m.Time == 0:
		case m.Stamp == 0:
			// The heartbeat asks for no lease. Heartbeats without a stamp have no order, so it may
			// not be the newest one.
			g.o.Time.Advise(m.Time)
		case !p.outlives(r.GetTerm(), int64(m.Stamp)):
			g.o.Time.Lead(m.Time)
		}
	case pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgVote, pb.MsgVoteResp:
		if m.Time != 0 {
			g.o.Time.Advise(m.Time)
		}
	case pb.MsgHeartbeatResp:
		g.o.Time.Wall(r.GetFrom(), m.Time)
	}
}
