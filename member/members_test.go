package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/commands"
	"keyp/consensus"
	"keyp/internal/testkit/await"
)

// TestMoved: members that restart at another address are found again, even if the group has no
// majority before that.
func TestMoved(t *testing.T) {
	r := newGroup(t, 3)
	r.fill("a", 3)
	for _, moves := range []int{1, 2} {
		leader := r.leader()
		for _, s := range r.servers {
			s.kill()
		}
		for _, s := range r.others(leader)[:moves] {
			s.door = newDoor(t)
		}
		for _, s := range r.servers {
			s.start()
		}
		r.fill(fmt.Sprint("moved", moves), 3)
		r.await("all know where all are", func() bool {
			for _, s := range r.servers {
				for _, other := range r.servers {
					if o := s.status().Member(other.status().ID); o == nil ||
						o.Bus != other.door.port() {
						return false
					}
				}
			}
			return true
		})
		r.fill(fmt.Sprint("known", moves), 3) // so that the addresses survive a crash
		r.agree()
	}
}

// TestRemovedMajority: a member that the others need for a majority cannot be removed or leave.
func TestRemovedMajority(t *testing.T) {
	r := newGroup(t, 3)
	leader := r.leader()
	dead, needed := r.others(leader)[0], r.others(leader)[1]
	id := dead.status().ID
	dead.kill()
	r.await("the leader does not hear the dead one", func() bool {
		if needed.role() == commands.Leader { // it was elected meanwhile
			leader, needed = needed, leader
		}
		silent := func(p consensus.Peer) bool { return p.ID == id && !p.Active }
		return leader.role() == commands.Leader &&
			slices.ContainsFunc(r.running(leader).m.group.Peers(), silent)
	})
	// Without a leader the action returns another error.
	refused := func(what string, s *server, action func(m *Member, done func(error))) {
		r.await(what+" is refused", func() bool {
			got := make(chan error, 1)
			action(r.running(s).m, func(err error) { got <- err })
			err := await.For(t, "an answer", got)
			fmt.Fprintf(&r.lines, "%s: %v\n", what, err)
			if err == nil {
				t.Error(what)
				return true
			}
			return strings.Contains(err.Error(), errMajority.Error())
		})
	}
	refused("one that is needed is removed", leader, func(m *Member, done func(error)) {
		m.Forget(needed.name, done)
	})
	refused("one that is needed leaves", needed, func(m *Member, done func(error)) {
		m.Reset(true, done)
	})
	r.fill("a", 3)
	for _, s := range []*server{dead, needed} {
		r.do("forget", leader, func(m *Member, done func(error)) { m.Forget(s.name, done) })
	}
	r.await("one is left", func() bool { return len(leader.status().Members) == 1 })
	r.fill("b", 3)
}

// TestLogIsKept: a member that was gone for a while continues from the log, even if there were
// checkpoints and an election meanwhile.
func TestLogIsKept(t *testing.T) {
	r := newGroup(t, 3)
	r.fill("all know each other", 3)
	r.agree()
	gone := r.leader()
	gone.kill()
	leader := r.leader()
	for i := range 3 {
		r.fill(fmt.Sprint("a", i), 3)
		r.checkpoint(leader)
	}
	gone.start()
	r.agree()
	if p := r.running(leader).m.Progress(); leader.role() == commands.Leader &&
		p.Snapshot.Sent > 0 {
		t.Error("it was sent a snapshot")
	}
}

// TestMembersAreRemembered: after a crash of all members, any majority of them continues, even if
// nothing was written since the members joined.
func TestMembersAreRemembered(t *testing.T) {
	r := newGroup(t, 3)
	for _, s := range r.servers {
		r.await("a member knows that all vote", func() bool {
			members := s.status().Members
			return len(members) == 3 && !slices.ContainsFunc(members, func(o commands.Member) bool {
				return o.Learner
			})
		})
		done := make(chan struct{})
		r.running(s).m.do(task{waits: true, run: func() { close(done) }})
		await.For(t, "what follows from that", done)
	}
	gone := r.leader()
	for _, s := range r.servers {
		s.kill()
	}
	for _, s := range r.others(gone) {
		s.start()
	}
	r.fill("a", 3)
	gone.start()
	r.agree()
}

// TestTransfersFail: if the message that tells a member to campaign is lost, the leader continues
// to lead, even if the next transfer starts at once. Later writes are acknowledged.
func TestTransfersFail(t *testing.T) {
	r := newGroup(t, 3)
	r.fill("a", 3)
	r.cut(func(m *consensus.Message) bool { return m.Raft.GetType() == pb.MsgTimeoutNow })
	for i := range 3 {
		s := r.others(r.leader())[0]
		got := make(chan error, 1)
		r.running(s).m.Failover(false, func(err error) { got <- err })
		// On a busy machine it may have been elected meanwhile.
		err := await.For(t, "an answer", got)
		if err == nil && s.role() == commands.Follower {
			t.Error("a transfer without an order is done")
		}
		if i == 1 {
			r.write("b", fmt.Sprint(err))
		}
	}
	r.write("c", "1")
	r.cut(nil)
	r.agree()
}

// TestLeaderless: if a removed member knows no leader, its error says that it was removed.
func TestLeaderless(t *testing.T) {
	for _, c := range []struct {
		role   commands.Role
		voters []uint64
		want   error
	}{
		{commands.Follower, []uint64{1, 2, 3}, errNoLeader},
		{commands.Follower, []uint64{2, 3}, errRemoved},
		{commands.Joining, []uint64{2, 3}, errNoLeader},
	} {
		m := &Member{id: &identity{ID: 1}}
		m.mu.role, m.mu.conf = c.role, &pb.ConfState{Voters: c.voters}
		if got := m.leaderless(); got != c.want {
			t.Errorf("as %v in a group of %v: %v", c.role, c.voters, got)
		}
	}
}
