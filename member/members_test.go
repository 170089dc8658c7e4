package member

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"keyp/commands"
	"keyp/consensus"
	"keyp/internal/testkit/await"
)

// TestMoved: members that start at another address are found again, also where the group cannot agree on anything before.
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
					if o := s.status().Member(other.status().ID); o == nil || o.Bus != other.door.port() {
						return false
					}
				}
			}
			return true
		})
		r.fill(fmt.Sprint("known", moves), 3) // so that who knows it knows it also after a crash
		r.agree()
	}
}

// TestRemovedMajority: no member is removed, or leaves, whom the others need for a majority.
func TestRemovedMajority(t *testing.T) {
	r := newGroup(t, 3)
	leader := r.leader()
	dead, needed := r.others(leader)[0], r.others(leader)[1]
	id := dead.status().ID
	dead.kill()
	r.await("the leader does not hear the dead one", func() bool {
		return leader.role() == commands.Leader && slices.ContainsFunc(leader.process().m.group.Peers(), func(p consensus.Peer) bool { return p.ID == id && !p.Active })
	})
	got := make(chan error, 1)
	said := func(err error) { got <- err }
	leader.process().m.Forget(needed.name, said)
	if err := await.For(t, "an answer", got); !errors.Is(err, errMajority) {
		t.Errorf("one that is needed is removed: %v", err)
	}
	needed.process().m.Reset(true, said)
	if err := await.For(t, "an answer", got); !errors.Is(err, consensus.ErrCall) || !strings.Contains(err.Error(), errMajority.Error()) {
		t.Errorf("one that is needed leaves: %v", err)
	}
	r.fill("a", 3)
	for _, s := range []*server{dead, needed} {
		r.do("forget", leader, func(m *Member, done func(error)) { m.Forget(s.name, done) })
	}
	r.await("one is left", func() bool { return len(leader.status().Members) == 1 })
	r.fill("b", 3)
}

// TestLogIsKept: who was gone for a while goes on from the log, also where checkpoints have passed and the leader was elected meanwhile.
func TestLogIsKept(t *testing.T) {
	r := newGroup(t, 3)
	r.fill("all know each other", 3)
	r.agree()
	gone := r.leader()
	gone.kill()
	leader := r.leader()
	for i := range 3 {
		r.fill(fmt.Sprint("a", i), 3)
		if err := leader.process().store.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	gone.start()
	r.agree()
	if p := leader.process().m.Progress(); leader.role() == commands.Leader && p.Snapshot.Sent > 0 {
		t.Error("it was sent a snapshot")
	}
}

// TestMembersAreRemembered: a group in which nothing was written since it was made goes on after a crash of all with any majority.
func TestMembersAreRemembered(t *testing.T) {
	r := newGroup(t, 3)
	for _, s := range r.servers {
		r.await("a member knows that all vote", func() bool {
			members := s.status().Members
			return len(members) == 3 && !slices.ContainsFunc(members, func(o commands.Member) bool { return o.Learner })
		})
		done := make(chan struct{})
		s.process().m.do(task{waits: true, run: func() { close(done) }})
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
