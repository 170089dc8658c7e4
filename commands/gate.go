package commands

import (
	"errors"
	"fmt"
	"time"

	"keyp/storage"
)

// How a member of a group handles a call depends on its role. The leader runs all calls. A follower
// runs calls that concern no key. It also runs calls that only read, if the client has sent
// READONLY. It redirects other calls to the leader (MOVED). While no leader is known, calls for
// the leader wait, but no longer than groupPatience after this member noticed that.
const (
	errReadOnlyReplica Error = "READONLY You can't write against a read only replica."
	errMasterDown      Error = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
	errLoadingData     Error = "LOADING Redis is loading the dataset in memory"
	errNoReplicas      Error = "NOREPLICAS Not enough good replicas to write."
	errForceUnblocked  Error = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
)

// errLedOnce ends the running script of a server that was deposed.
var errLedOnce = errors.New("the server does not lead its group any more")

// groupPatience is the time for which commands wait for a leader.
const groupPatience = time.Second

// decided reports whether the server that runs commands is known.
func (s *GroupStatus) decided() bool {
	switch s.Role {
	case Alone, Leader:
		return true
	case Rising, Resigning:
		return false
	}
	return s.leader() != nil
}

// leader returns the leader if it is another member. It returns nil if this member leads, or if the
// leader is not known.
func (s *GroupStatus) leader() *Member {
	if s.Leader == 0 || s.Leader == s.ID {
		return nil
	}
	return s.Member(s.Leader)
}

// Undecided returns the reading of Mono until which commands wait for the group, or 0 if they need
// not wait. Only the loop may call it.
func (e *Env) Undecided() time.Duration {
	st := e.groupStatus()
	switch {
	case st == nil:
		return 0
	case st.decided():
		e.undecided, _ = 0, e.lastLeader(st)
		return 0
	case e.undecided == 0:
		e.undecided = max(e.Clock.Mono(), 1)
	}
	return e.undecided + groupPatience
}

// patient reports whether commands still wait for the group.
func (e *Env) patient() bool { return e.Clock.Mono() < e.Undecided() }

// usesData reports whether a call reads or writes data, judged by its declaration. keyed says that
// the call has keys.
func (c *Ctx) usesData(keyed bool) bool {
	if keyed || c.Spec.Is(Write) {
		return true
	}
	if c.Spec.Is(execs) {
		q := c.Client.queue
		return q != nil && !q.failed && (q.wide || q.flags&(Write|ReadOnly|MayReplicate) != 0)
	}
	return !c.Spec.Is(Stale) && (c.Spec.Flags&(ReadOnly|MayReplicate) != 0 || c.scope().wide())
}

// gate decides how a member of a group handles a call. The call runs ("", false), is refused, or
// waits until it is known who leads the group. slot is the slot of the call's keys and shard
// channels, or -1 if it has none. write says that the call may change keys.
func (e *Env) gate(c *Ctx, st *GroupStatus, slot int, write bool) (refusal Error, wait bool) {
	keyed, leader := slot >= 0, st.leader()
	reads := !write && (c.Client.ReadOnly || c.Spec.Group == PubSub)
	c.Term = 0
	switch {
	case st.Role == Leader && st.Stalled && write:
		return errNoReplicas, false
	case st.Role == Leader:
		if c.usesData(keyed) {
			c.Term = st.Term
		}
		return "", false
	case !c.usesData(keyed):
		return e.stale(c, st), c.Spec.Is(namesLeader) && !st.decided() && e.patient()
	case keyed && !reads && leader != nil:
		return e.moved(c, leader, slot), false
	case st.Role == Rising, st.Role == Resigning, st.Role == Tentative, leader == nil &&
		(keyed && !reads || write):
		if e.patient() {
			return "", true
		}
		if st.Role == Follower && !keyed {
			return errReadOnlyReplica, false
		}
		return errClusterDown, false
	case write:
		return errReadOnlyReplica, false
	case st.Role != Follower && !c.Spec.Is(Loading):
		return errLoadingData, false // it has no data yet
	case st.Timeless && e.patient():
		return "", true // it would show keys by its own clock
	}
	return e.stale(c, st), false
}

// stale refuses a call if this member does not know how old its data is, unless stale data may be
// shown.
func (e *Env) stale(c *Ctx, st *GroupStatus) Error {
	if c.flags()&Stale != 0 || st.Role == Leader || st.decided() ||
		e.Config.Bool("replica-serve-stale-data") || e.patient() {
		return ""
	}
	return errMasterDown
}

// moved returns the error that redirects a client to the leader.
func (e *Env) moved(c *Ctx, leader *Member, slot int) Error {
	a := leader.address()
	return Error(fmt.Sprintf("MOVED %d %s:%d", slot, a.preferred(e), a.clientPort(c)))
}

// gateScripted is like gate, for a command that a script calls. slot is the slot of the command's
// keys, or -1 if it has none. The result "" means that the command may run.
func (e *Env) gateScripted(spec *Spec, slot int, readOnly bool) Error {
	st := e.groupStatus()
	switch {
	case st != nil && st.Role == Leader && st.Stalled && spec.Is(Write):
		return errNoReplicas
	case st == nil || st.Role == Leader:
		return ""
	case spec.Is(Write):
		return errReadOnlyReplica
	case slot >= 0 && !readOnly && spec.Group != PubSub:
		return errScriptSlot
	}
	return ""
}

// gateScript refuses a script without the flag no-writes if this member does not lead its group. If
// the script has keys and the leader is known, the client is redirected.
func (e *Env) gateScript(c *Ctx, keys [][]byte) error {
	st := e.groupStatus()
	if st == nil || st.Role == Leader {
		return nil
	}
	if leader := st.leader(); leader != nil && len(keys) > 0 {
		return e.moved(c, leader, int(storage.Slot(keys[0])))
	}
	return errReadOnlyReplica
}

// deposed reports whether a task must not begin, because it was accepted in a term that this server
// no longer leads.
func (c *Ctx) deposed() bool {
	if c.Term == 0 {
		return false
	}
	st := c.Env.groupStatus()
	return st == nil || st.Role != Leader || st.Term != c.Term
}

// refuseDeposed handles a task that has not begun to write when this server is deposed. It returns
// true if the task is to be dispatched again. A task that has taken the queued transaction of its
// client gets an error instead.
func (e *Env) refuseDeposed(c *Ctx) (again bool) {
	if c.Scope != Global || c.apart {
		return true
	}
	e.Stats.Errors.Add(1)
	c.Out.Error(string(errClusterDown))
	return false
}

// Leads reports whether this server still leads in a term. If so, a reply that was made in that
// term may be sent as the leader's reply.
func (e *Env) Leads(term uint64) bool {
	st := e.groupStatus()
	return st != nil && st.Term == term && st.Role.Leads()
}

// Deposed ends the running script, since this server does not lead its group any more: the script's
// writes cannot become part of the group's data.
func (e *Env) Deposed() {
	if r := e.Scripts.current.Load(); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.mu.killed == nil {
			r.mu.killed = errLedOnce
			r.Kill(errLedOnce)
		}
	}
}

// ForceUnblock replies with an error to a command that waits for the log or for other members,
// because that wait cannot succeed any more.
func (c *Ctx) ForceUnblock() {
	c.Env.Stats.Errors.Add(1)
	c.Out.Error(string(errForceUnblocked))
}
