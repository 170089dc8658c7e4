package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"keyp/internal/clock"
)

// This file contains Group, which is one server's part in a Raft group. Its callers propose entries
// for the common log, and learn which server leads.

const (
	// tick is the time between a leader's heartbeats. Followers vote for another member after 8
	// ticks without one. The library makes a follower campaign after a random time of 8 to 15
	// ticks; the method campaigns may make it campaign earlier.
	tick          = 40 * time.Millisecond
	electionTicks = 8
	// recentTicks is how long a member counts as reachable after it was heard. A leader hears each
	// member at each tick.
	recentTicks = 2 * electionTicks
	// commitDelay is how long a commit index waits, at most, to be sent together with an entry.
	commitDelay = 2 * time.Millisecond
	// snapshotTicks is how long a sent snapshot may go without a sign of progress, before it counts
	// as lost.
	snapshotTicks = 50

	// MaxEntry bounds an entry, in bytes, so that a frame has room for one.
	MaxEntry = MaxFrame - 64<<10
	// MaxUncommitted bounds the entries that are proposed and not committed, in bytes, unless there
	// is only one.
	MaxUncommitted = 32 << 20

	maxMessage  = 1 << 20  // of entries in a message, unless it has only one
	maxInflight = 256      // messages with entries that a follower has not answered
	maxUnread   = 8 << 20  // bytes of entries, likewise
	maxApplying = 64 << 20 // bytes of entries that the machine has been given and has not applied
)

// Errors of refused calls.
var (
	ErrNotLeader = errors.New("consensus: another member leads, or none")
	ErrFull      = errors.New("consensus: too much is proposed and not committed")
	ErrEntry     = errors.New("consensus: an entry is empty or too long")
	ErrChange    = errors.New(
		"consensus: the members cannot be changed so, or another change is under way")
	ErrTarget = errors.New("consensus: leadership can only go to another member that votes")
	ErrClosed = errors.New("consensus: closed")
	// ErrForgot means that the log lacks entries that were on this member's disk, as the leader
	// knows from its answers. The leader counted on them, so acknowledged writes may be lost.
	ErrForgot = errors.New("consensus: this member has forgotten what it acknowledged: its directory is an older copy, or the disk has lost what was synced. Remove it from the group, and add it again without its directory")
)

// Options configure a Group.
type Options struct {
	ID      uint64 // this member's
	Group   uint64 // the number of the group
	Log     Log
	Applied Base // the last entry that the machine has already, and the members after it
	Machine Machine
	Network Network
	Clock   clock.Clock // clock.System if nil
	Time    Time        // the clock's if nil
	// After calls f once d has passed, unless it is stopped before; time.AfterFunc if nil.
	After  func(d time.Duration, f func()) (stop func())
	Logger *slog.Logger // slog.Default() if nil
}

// Group is this member's part of a group. Several goroutines may call its methods. A Machine's
// methods may call them, too, except for Close.
type Group struct {
	o     Options
	lease atomic.Int64 // the end of the lease, in ms since the machine started
	// leaseTerm is the term of the lease. It is set before the lease, and the lease is set to 0
	// when a term is over. So a reader reads leaseTerm, the lease, and leaseTerm again. If it finds
	// the same term both times, the lease is of that term.
	leaseTerm atomic.Uint64

	mu struct {
		sync.Mutex
		idle     sync.Cond // signaled when no goroutine is in Log.Sync or in the machine
		node     *raft.RawNode
		ended    error // why the group has ended; nil: it runs
		ticks    int   // since the start, up to electionTicks
		stop     func()
		role     role
		term     uint64
		leader   uint64 // 0: not known
		heard    uint64 // the leader that was heard last
		silent   int    // ticks since then
		commit   uint64
		last     uint64 // index of the last entry
		lastType pb.EntryType
		applied  uint64 // the last entry that the machine has been given
		conf     *pb.ConfState
		peers    map[uint64]*peer
		// The members heard lately, each with the ticks for which it still counts as reachable.
		recent  map[uint64]int
		delay   func() // stops the timer for held messages; nil: no timer runs
		promise promise

		appends []*pb.Message // to be appended, in order
		syncing bool
		events  []func() // for the machine, in order
		telling bool
	}
}

// role is the state of this member as the leader of a term.
type role struct {
	leading    bool
	first      uint64 // index of the term's first entry, which says that it leads
	transferee uint64 // the member to which it hands over; meanwhile it proposes nothing
	asked      int64  // the newest stamp that others were asked to confirm
	floor      int64  // stamps up to this one give no lease
}

// peer is the state of the messages to another member.
type peer struct {
	commit   uint64      // the newest commit index sent with entries
	held     *pb.Message // has nothing but a newer one, and waits for commitDelay
	snapshot int         // ticks until a snapshot that it was sent counts as lost; 0: none was
}

// Start makes this member take part in the group. It does not vote during its first 8 ticks: before
// its last end it may have promised a leader not to vote that long.
func Start(o Options) (*Group, error) {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Time == nil {
		o.Time = ownTime{o.Clock}
	}
	if o.After == nil {
		o.After = func(d time.Duration, f func()) func() {
			t := time.AfterFunc(d, f)
			return func() { t.Stop() }
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := align(o.Log, o.Applied); err != nil {
		return nil, err
	}
	base, s := o.Log.Base(), stored{o.Log, o.Applied.Index}
	hard, _, err := s.InitialState()
	if err != nil {
		return nil, err
	}
	// The library applies all entries after the base again, because they may change the members.
	// The machine gets only those after Applied.
	node, err := raft.NewRawNode(&raft.Config{
		ID: o.ID, ElectionTick: electionTicks, HeartbeatTick: 1, Storage: s, Applied: base.Index,
		AsyncStorageWrites: true,
		MaxSizePerMsg:      maxMessage, MaxCommittedSizePerReady: maxApplying,
		MaxUncommittedEntriesSize: MaxUncommitted,
		MaxInflightMsgs:           maxInflight, MaxInflightBytes: maxUnread,
		CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe,
		DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: logger{o.Logger.With("member", o.ID)},
	})
	if err != nil {
		return nil, fmt.Errorf("consensus: %w", err)
	}
	g := &Group{o: o}
	g.mu.idle.L = &g.mu.Mutex
	g.mu.node, g.mu.term, g.mu.commit, g.mu.last, g.mu.applied = node, hard.GetTerm(),
		hard.GetCommit(), o.Log.Last(), o.Applied.Index
	g.mu.conf, g.mu.peers, g.mu.recent = base.Conf, map[uint64]*peer{}, map[uint64]int{}
	g.mu.Lock()
	g.ready()
	g.mu.stop = o.After(tick, g.tick)
	g.mu.Unlock()
	g.proceed()
	return g, nil
}

// align makes a log begin at the machine's last applied entry, if the log lacks that entry. This
// happens if a crash comes after Machine.Restore, and before the log has the snapshot's base.
func align(l Log, applied Base) error {
	if base := l.Base(); applied.Index < base.Index {
		return fmt.Errorf(
			"consensus: entry %d is the last that is applied, and the log begins after %d",
			applied.Index, base.Index)
	}
	if term, err := l.Term(applied.Index); err != nil || term != applied.Term {
		l.Append(Write{Base: &applied})
	}
	return nil
}

// Proposed names proposed entries: their term, and the indexes of the first and the last.
type Proposed struct{ Term, First, Last uint64 }

// Propose appends copies of entries to the group's log, in this order. Each entry is appended whole
// or not at all. Only a leader can propose. Machine.Committed reports that entries are committed.
// After Machine.Deposed their outcome is unknown until Committed or Replaced reports it. If there
// is no room for all entries, Propose returns ErrFull and the entries that it has proposed. If
// there are none, Last is First-1.
func (g *Group) Propose(entries ...[]byte) (p Proposed, err error) {
	for _, e := range entries {
		if len(e) == 0 || len(e) > MaxEntry {
			return p, ErrEntry
		}
	}
	g.mu.Lock()
	switch {
	case g.mu.ended != nil:
		err = g.mu.ended
	case !g.mu.role.leading || g.mu.role.transferee != 0:
		err = ErrNotLeader
	}
	if err != nil {
		g.mu.Unlock()
		return p, err
	}
	p = Proposed{Term: g.mu.term, First: g.mu.last + 1, Last: g.mu.last}
	for _, e := range entries {
		if err = g.mu.node.Propose(e); err != nil { // which makes a copy of its exact size
			err = ErrFull
			break
		}
		p.Last++
	}
	g.ready()
	g.mu.Unlock()
	g.proceed()
	return p, err
}

// Receive takes messages that other members have sent, in the order in which they came.
func (g *Group) Receive(messages []*Message) {
	g.mu.Lock()
	for _, m := range messages {
		if g.mu.ended == nil && m.Group == g.o.Group && m.Raft.GetTo() == g.o.ID &&
			g.remembers(m.Raft) && g.admit(m) {
			_ = g.mu.node.Step(m.Raft) // it fails for answers of removed members
			g.mu.recent[m.Raft.GetFrom()] = recentTicks
			if g.fromLeader(m.Raft) {
				g.mu.heard, g.mu.silent = m.Raft.GetFrom(), 0
			}
		}
	}
	g.ready()
	g.mu.Unlock()
	g.proceed()
}

// remembers reports whether the log has all entries that this member has acknowledged to the leader
// of this term, as a heartbeat shows them. The heartbeat's commit index is never beyond these
// entries. If entries are missing, remembers ends the group. mu is locked.
func (g *Group) remembers(m *pb.Message) bool {
	if m.GetType() != pb.MsgHeartbeat || m.GetTerm() < g.mu.term || m.GetCommit() <= g.mu.last {
		return true
	}
	err := fmt.Errorf("%w (entry %d; the log ends with %d)", ErrForgot, m.GetCommit(), g.mu.last)
	g.end(err)
	g.notify(func() { g.o.Machine.Failed(err) })
	return false
}

// Unreachable tells the group that messages to a member were lost.
func (g *Group) Unreachable(id uint64) {
	g.mu.Lock()
	if g.mu.ended == nil {
		g.mu.node.ReportUnreachable(id)
		g.ready()
	}
	g.mu.Unlock()
	g.proceed()
}

// tick is called by the timer. It does not make up for missed ticks, because a process that was
// stopped has not heard other members either.
func (g *Group) tick() {
	g.o.Time.Tick()
	g.mu.Lock()
	if g.mu.ended == nil {
		g.mu.ticks = min(g.mu.ticks+1, electionTicks)
		g.mu.node.Tick()
		if g.mu.silent++; g.campaigns() {
			_ = g.mu.node.Campaign() // it fails for who may not be elected
		}
		for id, left := range g.mu.recent {
			if g.mu.recent[id] = left - 1; left == 1 {
				delete(g.mu.recent, id)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(g.mu.peers)) {
			if p := g.mu.peers[id]; p.snapshot > 0 {
				if p.snapshot--; p.snapshot == 0 {
					g.mu.node.ReportSnapshot(id, raft.SnapshotFailure)
				}
			}
		}
		g.renew()
		g.ready()
		g.mu.stop = g.o.After(tick, g.tick)
	}
	g.mu.Unlock()
	g.proceed()
}

// fromLeader reports whether only the leader of this member's term sends such a message. mu is
// locked.
func (g *Group) fromLeader(m *pb.Message) bool {
	switch m.GetType() {
	case pb.MsgHeartbeat, pb.MsgApp, pb.MsgSnap:
		return m.GetTerm() >= g.mu.term
	default:
		return false
	}
}

// campaigns reports whether this member must campaign at this tick. Clients retry about 400 ms
// after their leader has gone, so a follower does not wait for its random time. The first voter in
// the list campaigns after 9 ticks, and each further one two ticks later, unless its random time
// has passed before. mu is locked.
func (g *Group) campaigns() bool {
	if g.mu.heard == 0 || g.mu.role.leading || !g.mayVote() {
		return false
	}
	others := slices.DeleteFunc(slices.Clone(g.mu.conf.GetVoters()), func(id uint64) bool {
		return id == g.mu.heard
	})
	rank := slices.Index(others, g.o.ID)
	return rank >= 0 && g.mu.silent == electionTicks+1+2*rank
}

// Status is a member's view of the group.
type Status struct {
	Term, Leader uint64 // Leader 0: not known
	Leading      bool
	First        uint64 // of a leader: its proposals come after this entry
	Transferee   uint64 // of a leader: the member to which it hands over; 0: none
	Last         uint64 // index of the last entry, committed or not
	Committed    uint64
	Conf         *pb.ConfState // after the last entry that the machine has been given
	Silent       time.Duration // since the leader was heard, by ticks
	Ended        error         // a failure of the disk, or ErrClosed
}

// Status returns the present status.
func (g *Group) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.mu.role
	return Status{
		Term: g.mu.term, Leader: g.mu.leader, Leading: r.leading, First: r.first,
		Transferee: r.transferee,
		Last:       g.mu.last, Committed: g.mu.commit, Conf: g.mu.conf,
		Silent: time.Duration(g.mu.silent) * tick, Ended: g.mu.ended,
	}
}

// Peer is another member, as the leader knows it.
type Peer struct {
	ID      uint64
	Match   uint64 // it has all entries up to here on its disk
	Learner bool
	Active  bool // it was heard from in the last recentTicks
	Taking  bool // it is sent a snapshot
}

// Peers returns all members but this one, in the order of their IDs. It returns nil if this member
// does not lead.
func (g *Group) Peers() (list []Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.ended != nil || !g.mu.role.leading {
		return nil
	}
	g.mu.node.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id != g.o.ID {
			list = append(list, Peer{id, p.Match, kind == raft.ProgressTypeLearner,
				g.mu.recent[id] > 0, p.State == tracker.StateSnapshot})
		}
	})
	slices.SortFunc(list, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// SnapshotGoesOn tells the group that a member is still taking its snapshot, so that the snapshot
// does not count as lost.
func (g *Group) SnapshotGoesOn(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.mu.peers[id]; p != nil && p.snapshot > 0 {
		p.snapshot = snapshotTicks
	}
}

// SnapshotTaken tells the group that a member has its snapshot, or enough of it to continue after
// a restart.
func (g *Group) SnapshotTaken(id uint64) {
	g.mu.Lock()
	if p := g.mu.peers[id]; g.mu.ended == nil && p != nil && p.snapshot > 0 {
		p.snapshot = 0
		g.mu.node.ReportSnapshot(id, raft.SnapshotFinish)
		g.ready()
	}
	g.mu.Unlock()
	g.proceed()
}

// Campaign starts an election for this member, even if it has heard the leader lately. Another
// member votes for it only if that member has not.
func (g *Group) Campaign() {
	g.mu.Lock()
	if g.mu.ended == nil && g.mayVote() {
		_ = g.mu.node.Campaign() // it fails for who may not be elected
		g.ready()
	}
	g.mu.Unlock()
	g.proceed()
}

// Close ends this member's part. It returns when the group no longer uses the log and the machine.
// The log may still contain appended entries that are not synced.
func (g *Group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end(ErrClosed)
	for g.mu.syncing || g.mu.telling {
		g.mu.idle.Wait()
	}
}

// end stops the group; mu is locked.
func (g *Group) end(err error) {
	if g.mu.ended != nil {
		return
	}
	g.mu.ended = err
	g.lease.Store(0)
	g.mu.role, g.mu.events, g.mu.appends = role{}, nil, nil
	g.mu.stop()
	g.forget()
}
