package group

import (
	"strings"
	"testing"

	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// TestAddBesideOneThatIsDown: a member can be added while another member is down. The command names
// that member, and does not wait for it.
func TestAddBesideOneThatIsDown(t *testing.T) {
	g := group{members.New(t, 3)}
	down := g.Follower()
	down.Kill()
	leader := g.Leader()
	await.Until(t, "the leader knows that it is down", func() bool {
		return members.Field(leader, "connected_slaves") == "1"
	})
	s := members.NewServer(t)
	out := g.Tool("add", leader.Addr(), s.Addr())
	if want := down.Addr() + " is a member, and does not answer\n"; strings.Count(out, want) != 1 {
		t.Errorf("the tool says\n%s, without %q", out, want)
	}
	if !strings.HasSuffix(out, "the group has 4 members, of which 3 vote and answer\n") {
		t.Errorf("the tool says\n%s", out)
	}
	down.Start()
	g.Servers = append(g.Servers, s)
	g.Agree()
	leader = g.Leader()
	await.Until(t, "the leader knows that all answer", func() bool {
		return members.Field(leader, "connected_slaves") == "3"
	})
	if out := g.Tool("add", leader.Addr(), s.Addr()); !strings.HasSuffix(out,
		"the group has 4 members, and all of them vote\n") {
		t.Errorf("again, the tool says\n%s", out)
	}
}
