package commands

import "time"

// Membership is this server's part in a group of servers that have the same data. Commands and the
// event loop use it; package member implements it. A server without a group has no Membership, or
// one whose Role is Alone. Any goroutine may call all methods. Those that only read do no I/O;
// those that change the group, such as Found, may wait for disks and other members.
type Membership interface {
	// Status returns the leader and the members, as this member sees them. It takes no lock: each
	// change stores a new GroupStatus, and the old one does not change. After each change the
	// function of OnChange is called.
	Status() *GroupStatus
	// OnChange registers fn, which is called after each change of Status, from any goroutine,
	// without a lock.
	OnChange(fn func())
	// Progress returns the present progress of the group. It may take a lock for a few
	// instructions, so commands that run often do not call it.
	Progress() GroupProgress

	// Leased reports whether this member leads in a term, and no other member can have led since
	// that term began. In that case, data that was read here in that term before the call is the
	// group's present data. It takes no lock.
	Leased(term uint64) bool
	// Confirm asks a majority whether this member still leads in a term. Only answers from after
	// the call count. It calls done once.
	Confirm(term uint64, done func(leads bool))

	// Synced returns how many other members have the log on their disks up to an LSN. It counts
	// members without a vote too.
	Synced(lsn uint64) int
	// AwaitSynced calls done once: when Synced(lsn) has reached members, or when this member does
	// not lead any more. It does not call done if stop is called before.
	AwaitSynced(lsn uint64, members int, done func()) (stop func())

	// The actions. Each returns at once, and calls done once when it is done or has failed; the
	// error's text is for the client that asked. Nodes are named by Member.Node.

	// Found creates a group whose first member is this server, with the data that it has. The
	// server must be alone.
	Found(done func(error))
	// Meet contacts the server at an address, and remembers that server's group. bus is the
	// server's port for members. If bus is 0, it is port plus 10000.
	Meet(host string, port, bus int, done func(error))
	// Replicate makes this server a member of the group of a node. This server must be alone and
	// have no keys, and Meet must have been called for that group. done is called when the server
	// is a member; its data may come later.
	Replicate(node string, done func(error))
	// Forget removes another member from the group.
	Forget(node string, done func(error))
	// Failover makes a member the leader. At a follower that is the follower itself; at the leader,
	// any other member. With force the follower campaigns for election itself if the leader refuses
	// or does not answer.
	Failover(force bool, done func(error))
	// Reset removes this server from its group, and deletes all its data. Package member ignores
	// hard: the server becomes a new one with another id in both cases.
	Reset(hard bool, done func(error))
}

// Role is the role of a member in its group.
type Role uint8

// The roles.
const (
	Alone     Role = iota // it is no member of a group
	Follower              // it applies the batches of the leader
	Rising                // it was elected, and has yet to apply earlier entries
	Leader                // it runs commands
	Resigning             // it leads, and hands over: commands wait
	Tentative             // it led, and has to find out whether its last writes were committed
	// Some of its last writes were not committed, so its store is opened again.
	Rebuilding
	Joining // it has yet to get its first snapshot
)

var roleNames = [...]string{"alone", "follower", "rising", "leader", "resigning", "tentative",
	"rebuilding", "joining"}

func (r Role) String() string { return roleNames[r] }

// Leads reports whether this role is that of the group's leader. A leader that resigns still
// counts.
func (r Role) Leads() bool { return r == Leader || r == Resigning }

// GroupStatus is a member's knowledge of its group. It never changes.
type GroupStatus struct {
	Role   Role
	ID     uint64 // this member's
	Term   uint64
	Leader uint64 // the leader's ID; 0: not known
	Shard  string // the group's name as a shard of a cluster, 40 hexadecimal digits
	// Members are in the order of their Nodes. This member is among them, unless its Role is Alone.
	Members []Member
	// Stalled says that this member leads, and has had entries to commit for seconds without
	// committing any.
	Stalled bool
	// Timeless says that this member has just started, and has not heard the group's time from
	// anyone yet. A status that is Timeless has no leader either.
	Timeless bool
}

// Member is a member of a group.
type Member struct {
	ID      uint64
	Node    string // its id as a node of a cluster, 40 hexadecimal digits
	Learner bool   // does not vote
	// The address where clients and other members reach it, as the member itself announces it.
	IP, Hostname       string
	Port, TLSPort, Bus int // 0: there is none
}

// Me returns the entry of this member; nil if there is none.
func (s *GroupStatus) Me() *Member { return s.Member(s.ID) }

// Member returns the member with an ID; nil if there is none.
func (s *GroupStatus) Member(id uint64) *Member {
	for i := range s.Members {
		if s.Members[i].ID == id {
			return &s.Members[i]
		}
	}
	return nil
}

// GroupProgress is the progress of this member, and its knowledge of the progress of other members.
// LSNs are the same at all members.
type GroupProgress struct {
	// Indexes of entries: committed, applied to the store, and the log's last.
	Commit, Applied, Last uint64
	// CommitLSN is the end of the committed batches, AppliedLSN of those applied to the store,
	// EndLSN of those appended.
	CommitLSN, AppliedLSN, EndLSN uint64
	// Heard is the time since this member last heard from the leader. At the leader it is the time
	// since it last heard from a majority.
	Heard     time.Duration
	Elections int64 // that this member has seen, since the start
	// Skew is how far this machine's clock is ahead of the group's time.
	Skew     time.Duration
	Members  []MemberProgress
	Snapshot SnapshotProgress
}

// MemberProgress is the progress of another member. A follower only knows the leader's progress.
type MemberProgress struct {
	ID        uint64
	Connected bool          // messages reach it
	Contact   time.Duration // since it was last heard from; negative: never
	SyncedLSN uint64        // what it has on its disk; 0: not known
	Created   int64         // when the connection to it was made, Unix ms; 0: there is none
	Unsent    int64         // bytes that wait to be sent to it
	In, Out   int64         // messages, since the start
	// Skew is how far that member's clock is ahead of the group's time. Skewed says that Skew is
	// known, which is only so at the leader.
	Skew   time.Duration
	Skewed bool
}

// SnapshotProgress is the progress of a snapshot that this member sends or receives.
type SnapshotProgress struct {
	Member      uint64 // the receiver, or the sender; 0: none is under way
	Receiving   bool
	Done, Size  int64 // bytes
	Sent, Taken int64 // how many have been, since the start
}

// SetMembership makes the server part of a group, before commands run. Nothing calls it for a
// server that is alone.
func (e *Env) SetMembership(g Membership) {
	e.group = g
	g.OnChange(e.wake)
	e.followRules()
}

// Membership returns the Membership that SetMembership has set; nil if there is none.
func (e *Env) Membership() Membership { return e.group }

// groupStatus returns the status of the server's group; nil if the server is in no group.
func (e *Env) groupStatus() *GroupStatus {
	if e.group == nil {
		return nil
	}
	if s := e.group.Status(); s.Role != Alone {
		return s
	}
	return nil
}
