package commands

import (
	"fmt"
	"time"
)

// caughtUp is the number of bytes of the log that a follower may lack and still count as ready.
const caughtUp = 16 << 20

// GroupReport contains the data of a group for monitoring.
type GroupReport struct {
	*GroupStatus
	Progress GroupProgress
	Leased   bool
	At       int64 // Unix ms
}

// GroupReport returns the report, or nil if the server is no member of a group. Any goroutine may
// call it.
func (e *Env) GroupReport() *GroupReport {
	st := e.groupStatus()
	if st == nil {
		return nil
	}
	return &GroupReport{GroupStatus: st, Progress: e.group.Progress(), Leased: st.Role == Leader &&
		e.group.Leased(st.Term), At: e.Clock.Now()}
}

// Waiting returns the reason why a member cannot serve in its role, if the reason is not a fault of
// the member. Otherwise it returns "".
func (r *GroupReport) Waiting() string {
	snapshot := &r.Progress.Snapshot
	switch lag := r.ApplyLag(); {
	case r.Role == Joining && snapshot.Receiving:
		return fmt.Sprintf("joins its group, and has %d of %d bytes of the snapshot",
			snapshot.Done, snapshot.Size)
	case r.Role == Joining:
		return "joins its group"
	case r.Role == Rebuilding:
		return "opens its store again, without writes that the group does not have"
	case !r.decided():
		return "knows nobody who leads its group"
	case r.Role == Follower && lag > caughtUp:
		return fmt.Sprintf("has yet to apply %d bytes of the group's log", lag)
	}
	return ""
}

// CommitLag and ApplyLag return how many bytes of the log are not committed, and how many are
// committed but not applied.
func (r *GroupReport) CommitLag() int64 { return r.Progress.commitLag() }
func (r *GroupReport) ApplyLag() int64  { return r.Progress.applyLag() }

// MemberReport is the state of a member for monitoring. A negative value is not known.
type MemberReport struct {
	Member
	Self, Leads bool
	Up, UpKnown bool  // messages reach it; whether that is known
	Lag         int64 // bytes of the log that it has yet to get on its disk
	Contact     time.Duration
	In, Out     int64 // messages
	Unsent      int64
	// Skew is how far its clock is ahead of the group's time, if Skewed says that it is known.
	Skew   time.Duration
	Skewed bool
}

// Reports returns the reports of all members.
func (r *GroupReport) Reports() []MemberReport {
	list := make([]MemberReport, 0, len(r.Members))
	for _, m := range r.Members {
		to := MemberReport{Member: m, Self: m.ID == r.ID, Leads: m.ID == r.Leader,
			Lag: -1, Contact: -1}
		if p := r.Progress.of(m.ID); p != nil {
			to.UpKnown = true
			to.Up, to.Contact, to.In, to.Out, to.Unsent = p.Connected, p.Contact,
				p.In, p.Out, p.Unsent
			to.Skew, to.Skewed = p.Skew, p.Skewed
			if p.SyncedLSN > 0 {
				to.Lag = int64(max(r.Progress.EndLSN, p.SyncedLSN) - p.SyncedLSN)
			}
		}
		if to.Self {
			to.Lag, to.Contact, to.Up, to.UpKnown = r.ApplyLag(), 0, true, true
		}
		list = append(list, to)
	}
	return list
}
