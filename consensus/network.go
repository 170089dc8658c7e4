package consensus

import pb "go.etcd.io/raft/v3/raftpb"

// Network carries messages to other members. It may lose, duplicate, delay and reorder them:
// Transport does so when connections break, and the network of a test does it on purpose. It passes
// received messages to Group.Receive.
type Network interface {
	// Send queues a message, and keeps nothing that it points to. It does not block, and is called
	// with the group's mutex locked. It returns false if the message is lost.
	Send(m *Message) bool
	// Flush sends the messages that Send has queued. It does not block.
	Flush()
}

// channelOf returns the channel on which a message is sent. Members send each other only messages
// of these types.
func channelOf(t pb.MessageType) (Channel, bool) {
	switch t {
	case pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgHeartbeat,
		pb.MsgHeartbeatResp, pb.MsgTimeoutNow:
		return Votes, true
	case pb.MsgApp, pb.MsgAppResp:
		return Entries, true
	case pb.MsgSnap:
		return Snapshots, true
	default:
		return 0, false
	}
}
