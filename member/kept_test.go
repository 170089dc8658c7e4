package member

import (
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// withoutOne kills a member and makes a checkpoint. It returns the leader with its process, and the
// killed member.
func withoutOne(r *ring) (leader, away *server, p *process, id uint64) {
	leader = r.leader()
	away = r.others(leader)[0]
	id = away.status().ID
	away.kill()
	r.fill("gone", 5)
	leader = r.leader()
	p = r.running(leader)
	r.checkpoint(leader)
	return leader, away, p, id
}

// leads skips the rest of a test if another member has become the leader, because its log is
// different.
func (r *ring) leads(p *process) {
	r.t.Helper()
	if st := p.m.group.Status(); !st.Leading {
		r.t.Skip("another member leads by now")
	}
}

// large writes some entries, each larger than a member's record, and then makes a checkpoint.
func (r *ring) large(s *server) {
	r.t.Helper()
	for range 3 {
		r.write("large", strings.Repeat("x", 100_000))
	}
	r.checkpoint(s)
}

// TestKeptForAbsent: the log that is kept for a missing member causes no checkpoint. It is released
// when it takes more than KeptLog.
func TestKeptForAbsent(t *testing.T) {
	r := newGroup(t, 3)
	leader, away, p, _ := withoutOne(r)
	first := p.m.journal.log.First()
	for range 3 {
		r.large(leader)
	}
	r.leads(p)
	if own, all := p.m.journal.Size(), p.m.journal.log.Size(); own >= 300_000 || all < 900_000 {
		t.Errorf("the log has %d bytes, and a start needs %d", all, own)
	}
	if r.leads(p); p.m.journal.log.First() != first {
		t.Error("the log of the absent member was released")
	}
	r.mu.Lock()
	r.keptLog = 1
	r.mu.Unlock()
	r.await("the log is released without a checkpoint", func() bool {
		r.leads(p)
		return p.m.journal.log.First() > first
	})
	away.start()
	r.agree()
}

// TestReleasedWhenBack: the log that was kept for a member is released when the member is back and
// has it.
func TestReleasedWhenBack(t *testing.T) {
	r := newGroup(t, 3)
	leader, away, p, _ := withoutOne(r)
	first := p.m.journal.log.First()
	for range 3 {
		r.large(leader)
	}
	away.start()
	r.await("the log is released", func() bool {
		r.leads(p)
		return p.m.journal.log.First() > first
	})
	r.agree()
}

// TestKeptAfterSnapshot: the log after a snapshot is kept until the member that got the snapshot
// has caught up. It may be larger than KeptLog then, up to the size of the snapshot.
func TestKeptAfterSnapshot(t *testing.T) {
	r := newGroup(t, 3)
	leader, away, p, id := withoutOne(r)
	r.mu.Lock()
	r.keptLog = 1
	r.mu.Unlock()
	keeps := func(what string, want bool) {
		t.Helper()
		first := p.m.journal.log.First()
		r.large(leader)
		r.leads(p)
		if kept := p.m.journal.log.First() == first; kept != want {
			t.Errorf("%s: the log is kept: %v", what, kept)
		}
	}
	keeps("before the snapshot", false)
	p.m.sends(id, p.m.journal.log.Begin().Index, 10<<20)
	keeps("while it is sent", true)
	p.m.sent(id, nil)
	keeps("after it", true)
	p.m.follows(id)
	keeps("when it has caught up", false)
	p.m.sends(id, p.m.journal.log.Begin().Index, 10)
	p.m.sent(id, nil)
	keeps("beyond its size", false)
	p.m.sends(id, p.m.journal.log.Begin().Index, 10<<20)
	p.m.sent(id, errNotLeader)
	keeps("after it has failed", false)
	away.start()
	r.agree()
}

// TestSameAddress: a server does not become a member while another member answers at its address.
func TestSameAddress(t *testing.T) {
	r := newGroup(t, 3)
	leader := r.leader()
	p := r.running(leader)
	o := *leader.status().Member(r.others(leader)[0].status().ID)
	r.await("the other member answers", func() bool { return p.m.isActive(o.ID) })
	o.ID, o.Node = 99, "another"
	got := make(chan error, 1)
	go func() { got <- p.m.admit(t.Context(), &request{Member: &o}) }()
	err := await.For(t, "an answer", got)
	r.leads(p)
	if err == nil || !strings.Contains(err.Error(), "answered a moment ago") {
		t.Errorf("%v", err)
	}
	if leader.status().Member(99) != nil {
		t.Error("it is a member")
	}
}
