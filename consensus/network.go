package consensus

import pb "go.etcd.io/raft/v3/raftpb"

// Network carries messages to other members. It may lose, double, delay and reorder them: Transport
// does so when connections break, and a test's does it on purpose. It gives those that it receives
// to Group.Receive.
type Network interface {
	// Send takes a message along, and keeps nothing that it points to. It waits for nobody, and is
	// called with the group's mutex locked. False says that the message is lost.
	Send(m *Message) bool
	// Flush sends what Send has taken. It waits for nobody.
	Flush()
}

// channelOf gives the connection that a message travels on. Others than these no member sends
// another one.
func channelOf(t pb.MessageType) (Channel, bool) {
	switch t {
	case pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow:
		return Votes, true
	case pb.MsgApp, pb.MsgAppResp:
		return Entries, true
	case pb.MsgSnap:
		return Snapshots, true
	default:
		return 0, false
	}
}
