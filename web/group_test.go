package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/commands"
	"keyp/internal/testkit/fakegroup"
)

// inGroup returns a harness that is the first member of a group of three.
func inGroup(t *testing.T) (*harness, *fakegroup.Group) {
	h := listen(t, "--cluster-enabled", "yes")
	g := fakegroup.New(1)
	h.group = g
	h.load()
	g.Join(7001, 7002, 7003)
	return h, g
}

// TestReadyInGroup: a member is ready when it serves according to its role. A member that waits for
// others is not ready, but healthy.
func TestReadyInGroup(t *testing.T) {
	h, g := inGroup(t)
	for _, step := range []struct {
		role   commands.Role
		leader uint64
		set    func(*commands.GroupProgress)
		status int
		text   string
	}{
		{commands.Alone, 0, nil, 200, "ready"},
		{commands.Leader, 1, nil, 200, "ready: leader"},
		{commands.Follower, 2, nil, 200, "ready: follower"},
		{commands.Follower, 2, func(p *commands.GroupProgress) {
			p.CommitLSN = 1 << 30
		}, 503, "waiting: this member has yet to apply 1073741824 bytes of the group's log"},
		{commands.Follower, 2, func(p *commands.GroupProgress) {
			p.AppliedLSN = 1 << 30
		}, 200, "ready: follower"},
		{commands.Follower, 0, nil, 503, "waiting: this member knows nobody who leads its group"},
		{commands.Tentative, 0, nil, 503, "waiting: this member knows nobody who leads its group"},
		{commands.Rising, 1, nil, 503, "waiting: this member knows nobody who leads its group"},
		{commands.Rebuilding, 2, nil, 503,
			"waiting: this member opens its store again, without writes that the group does not have"},
		{commands.Joining, 2, nil, 503, "waiting: this member joins its group"},
		{commands.Joining, 2, func(p *commands.GroupProgress) {
			p.Snapshot = commands.SnapshotProgress{Member: 2, Receiving: true, Done: 5, Size: 9}
		}, 503, "waiting: this member joins its group, and has 5 of 9 bytes of the snapshot"},
	} {
		if step.set != nil {
			g.Set(step.set)
		}
		g.Become(step.role, step.leader, 1)
		status, got := h.read("/readyz", "")
		if got = strings.TrimSpace(got); status != step.status || got != step.text {
			t.Errorf("%v: %d %q, want %d %q", step.role, status, got, step.status, step.text)
		}
	}
}

// TestReadyWithoutMajority: for a member without a majority, an uncommitted log is no defect. For
// the member with the lease it is one.
func TestReadyWithoutMajority(t *testing.T) {
	h, g := inGroup(t)
	g.Become(commands.Leader, 1, 1)
	if commits(h.env) {
		t.Error("a leader without a lease is to commit")
	}
	g.Lease.Store(1)
	if !commits(h.env) {
		t.Error("a leader with a lease need not commit")
	}
	g.Become(commands.Follower, 2, 2)
	if commits(h.env) {
		t.Error("a follower is to commit")
	}
	g.Become(commands.Alone, 0, 0)
	if !commits(h.env) {
		t.Error("a server that is alone need not commit")
	}
}

// TestGroupMetrics: a member of a group has each metric of the group. A server without a group has
// none.
func TestGroupMetrics(t *testing.T) {
	h, g := inGroup(t)
	g.Lease.Store(7)
	g.Become(commands.Leader, 1, 7)
	g.SyncTo(2, 900)
	g.Set(func(p *commands.GroupProgress) {
		p.Commit, p.CommitLSN, p.AppliedLSN, p.EndLSN, p.Elections, p.Skew = 11, 950, 940, 1000, 3,
			-20*time.Millisecond
		p.Members[0].Skew, p.Members[0].Skewed = 3*time.Second, true
		p.Snapshot = commands.SnapshotProgress{Member: 3, Done: 5, Size: 9, Sent: 2, Taken: 1}
		p.Members[1].Connected = false
	})
	_, text := h.read("/metrics", "")
	second, third := fakegroup.NodeID(2), fakegroup.NodeID(3)
	for _, want := range []string{
		`keyp_group_role{role="leader"} 1`, `keyp_group_role{role="follower"} 0`,
		"keyp_group_has_leader 1", "keyp_group_term 7", "keyp_group_elections_total 3",
		"keyp_group_lease 1",
		`keyp_group_members{kind="voter"} 3`, `keyp_group_members{kind="learner"} 0`,
		"keyp_group_commit_index 11", "keyp_group_commit_lag_bytes 50",
		"keyp_group_apply_lag_bytes 10",
		"keyp_group_leader_contact_seconds 0", "keyp_group_clock_skew_seconds -0.02",
		`keyp_group_snapshots_total{direction="sent"} 2`,
		`keyp_group_snapshots_total{direction="received"} 1`,
		"keyp_group_snapshot_bytes 5", "keyp_group_snapshot_size_bytes 9",
		`keyp_group_member_up{node="` + second + `"} 1`,
		`keyp_group_member_up{node="` + third + `"} 0`,
		`keyp_group_member_lag_bytes{node="` + second + `"} 100`,
		`keyp_group_member_contact_seconds{node="` + second + `"} 0`,
		`keyp_group_member_messages_total{direction="sent",node="` + second + `"} 4`,
		`keyp_group_member_clock_skew_seconds{node="` + second + `"} 3`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	for _, m := range metrics {
		if strings.HasPrefix(m.name, "keyp_group_") &&
			!strings.Contains(text, "# HELP "+m.name+" ") {
			t.Errorf("%s is not there", m.name)
		}
	}
	g.Become(commands.Alone, 0, 0)
	if _, text := h.read("/metrics", ""); strings.Contains(text, "keyp_group_") {
		t.Error("a server that is alone has metrics of a group")
	}
}

// TestGroupOfDashboard: the page gets the state of the group. A server without a group sends none.
func TestGroupOfDashboard(t *testing.T) {
	h, g := inGroup(t)
	g.Become(commands.Follower, 2, 7)
	g.Set(func(p *commands.GroupProgress) { p.Members = p.Members[:1] })
	text, err := json.Marshal(useOf(h.env.GroupReport()))
	if err != nil {
		t.Fatal(err)
	}
	var got groupUse
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Role != "follower" || got.Term != 7 || len(got.Members) != 3 || !got.Members[0].Self ||
		!got.Members[1].Leads || got.Members[1].At != "127.0.0.1:7002" ||
		got.Members[2].Contact != -1 || got.Members[2].Lag != -1 {
		t.Errorf("%s", text)
	}
	for _, role := range []commands.Role{commands.Leader, commands.Alone} {
		g.Become(role, 1, 8)
		want := fmt.Sprintf(`"group": %t`, role != commands.Alone)
		if _, got := h.read("/dashboard/session", ""); !strings.Contains(got, want) {
			t.Errorf("%v: %s", role, got)
		}
	}
	if useOf(h.env.GroupReport()) != nil {
		t.Error("a server that is alone has a group")
	}
}
