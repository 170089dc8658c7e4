package consensus

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// The lease
//
// A leader that has the lease knows that no other member can lead, so it may answer reads by
// itself.
//
// With each tick (40 ms) a leader asks the others whether it still leads (the library's ReadIndex).
// It records when it asked, as a stamp: the time since its computer started. When a majority has
// answered, the leader has the lease until 250 ms after the stamp. This is safe because a member
// that has answered does not vote for another one during the next 8 ticks. The first of these may
// be short, so they last 280 ms at least. By the clock of another computer that is more than 250
// ms, if the rates of the two clocks differ by less than a tenth.
//
// A process may be stopped for a while. A stopped voter counts fewer ticks, so it votes even later.
// A stopped leader measures its lease by a clock that does not stop.
//
// Two things would break that promise, and are prevented here. First, a member that has just
// started may not know what it promised before, so it does not vote during its first 8 ticks.
// Second, a transfer makes members vote at once, so the leader gives up its lease first, and asks
// for none while it hands over. But its order to campaign (MsgTimeoutNow) may arrive much later,
// when the transfer has been given up and the leader has a lease again. So the order has a stamp,
// and the requests for votes that follow from it repeat the stamp. A member that has confirmed a
// later question of that leader ignores older orders, and does not vote at once because of them.

// leaseTime is how long a lease lasts from its stamp on, in ms.
const leaseTime = 250

// promise records the leader that this member has confirmed, and an order to campaign that it got.
type promise struct {
	term  uint64 // of the leader
	stamp int64  // the newest that was confirmed to it

	ordered uint64 // the term of a leader that ordered this member to campaign
	order   int64  // and the stamp of that
}

// keep records that this member has confirmed a leader's question.
func (p *promise) keep(term uint64, stamp int64) {
	switch {
	case term > p.term:
		p.term, p.stamp = term, stamp
	case term == p.term:
		p.stamp = max(p.stamp, stamp)
	}
}

// outlives reports whether the leader of a term may have a lease again after a stamp.
func (p *promise) outlives(term uint64, stamp int64) bool {
	return p.term == term && p.stamp > stamp
}

// Leased reports whether this member has the lease, so that no other member leads or has led since
// this one began. So data that was read here before the call is current. It takes no lock.
func (g *Group) Leased() bool { return g.o.Clock.Boot() < g.lease.Load() }

// LeasedIn reports whether this member has the lease of a term.
func (g *Group) LeasedIn(term uint64) bool {
	return g.leaseTerm.Load() == term && g.Leased() && g.leaseTerm.Load() == term
}

// Ask asks the others at once whether this member still leads. It returns the stamp of the
// question, for Confirmed, or 0 if this member does not lead.
func (g *Group) Ask() (stamp int64) {
	g.mu.Lock()
	if g.mu.ended == nil && g.mu.role.leading {
		g.renew()
		g.ready()
		stamp = g.mu.role.asked
	}
	g.mu.Unlock()
	g.proceed()
	return stamp
}

// Confirmed reports whether a majority has confirmed a question of this term that was asked after a
// stamp.
func (g *Group) Confirmed(term uint64, stamp int64) bool {
	return g.leaseTerm.Load() == term && g.lease.Load()-leaseTime > stamp &&
		g.leaseTerm.Load() == term
}

// renew asks the others to confirm that this member leads. mu is locked.
func (g *Group) renew() {
	r := &g.mu.role
	if !r.leading {
		return
	}
	if r.transferee != 0 && g.mu.node.BasicStatus().LeadTransferee == 0 {
		r.transferee = 0 // it was not elected in time
	}
	if r.transferee != 0 || g.mu.commit < r.first {
		return
	}
	stamp := g.o.Clock.Boot()
	if stamp <= r.floor {
		return
	}
	r.asked = stamp
	g.mu.promise.keep(g.mu.term, stamp)
	g.mu.node.ReadIndex(le.AppendUint64(le.AppendUint64(nil, g.mu.term), uint64(stamp)))
}

// confirmed extends the lease after a majority has answered. mu is locked.
func (g *Group) confirmed(context []byte) {
	r := &g.mu.role
	term, stamp := le.Uint64(context), int64(le.Uint64(context[8:]))
	if r.leading && term == g.mu.term && stamp > r.floor {
		g.leaseTerm.Store(term)
		g.lease.Store(max(g.lease.Load(), stamp+leaseTime))
	}
}

// stamp returns the stamp of a message that is sent. mu is locked.
func (g *Group) stamp(m *pb.Message) uint64 {
	r, p := &g.mu.role, &g.mu.promise
	switch m.GetType() {
	case pb.MsgHeartbeat:
		if r.transferee == 0 {
			return uint64(r.asked)
		}
	case pb.MsgTimeoutNow:
		r.floor = max(r.floor, g.o.Clock.Boot())
		return uint64(r.floor)
	case pb.MsgVote:
		if p.ordered == m.GetTerm()-1 {
			return uint64(p.order)
		}
	}
	return 0
}

// admit reports whether the node may get a message. From a request for a vote that follows an
// outdated order, it removes the mark that makes members vote at once. mu is locked.
func (g *Group) admit(m *Message) bool {
	r, p, stamp := m.Raft, &g.mu.promise, int64(m.Stamp)
	if _, ok := channelOf(r.GetType()); !ok {
		return false
	}
	g.hear(m)
	switch r.GetType() {
	case pb.MsgHeartbeat:
		p.keep(r.GetTerm(), stamp)
	case pb.MsgTimeoutNow:
		if !g.mayVote() || p.outlives(r.GetTerm(), stamp) {
			return false
		}
		p.ordered, p.order = r.GetTerm(), stamp
	case pb.MsgPreVote:
		return g.mayVote()
	case pb.MsgVote:
		if p.outlives(r.GetTerm()-1, stamp) {
			r.Context = nil
		}
		return g.mayVote()
	}
	return true
}

// mayVote reports whether all promises from before the start have expired. mu is locked.
func (g *Group) mayVote() bool { return g.mu.ticks >= electionTicks }

// Transfer hands the lead to another member once that member has all entries. Until then, or until
// 8 ticks have passed, nothing can be proposed, and reads have no lease.
func (g *Group) Transfer(to uint64) error {
	g.mu.Lock()
	err := g.mu.ended
	switch {
	case err != nil:
	case !g.mu.role.leading || g.mu.role.transferee != 0:
		err = ErrNotLeader
	case to == g.o.ID || !slices.Contains(g.mu.conf.GetVoters(), to):
		err = ErrTarget
	default:
		g.lease.Store(0)
		g.mu.role.transferee = to
		g.mu.role.floor = max(g.mu.role.floor, g.o.Clock.Boot())
		g.mu.node.TransferLeader(to)
		g.ready()
	}
	g.mu.Unlock()
	g.proceed()
	return err
}
