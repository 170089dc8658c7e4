package group

import (
	"os"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// TestDiskIsReplaced: a member whose directory is lost starts empty, and gets its old place when it
// is added.
func TestDiskIsReplaced(t *testing.T) {
	g := group{members.New(t, 3)}
	c := g.Client()
	fill(t, c, 0, 20)
	s := g.Follower()
	s.Kill()
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	leader := g.Leader()
	await.Until(t, "the leader knows that it is gone", func() bool {
		return members.Field(leader, "connected_slaves") == "1"
	})
	s.Start()
	if out := g.Tool("add", leader.Addr(), s.Addr()); !strings.Contains(out, "3 members") {
		t.Error(out)
	}
	fill(t, c, 20, 30)
	g.Agree()
}
