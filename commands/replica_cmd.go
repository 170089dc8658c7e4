package commands

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// The commands of replication. As a member of a group, a server is a replica or has replicas.

const (
	errReplicaOfCluster Error = "ERR REPLICAOF not allowed in cluster mode."
	errWaitReplica      Error = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated."
	errWaitAOFReplica   Error = "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated."
	errNoReplication    Error = "ERR this server has no replication: it can't be a replica"
	errLocalRange       Error = "ERR value is out of range, must be between 0 and 1"
)

const replicaFlags = Admin | NoScript | Stale | NoAsyncLoading

var replicaArgs = []Arg{oneOf("args",
	block("host-port", stringArg("host"), intArg("port")),
	block("no-one", word("NO"), word("ONE")),
)}

var replicaCommands = []Spec{
	{
		Name: "ROLE", Group: ServerGroup, Since: "2.8.12", Arity: 1,
		Flags: NoScript | Loading | Stale | Fast | Dangerous, Scope: OnLoop,
		Summary: "Gives the server's part in replication.", Complexity: "O(1)",
		Categories: []string{"@admin"},
		Run:        role,
	},
	{
		Name: "REPLICAOF", Group: ServerGroup, Since: "5.0.0", Arity: 3, Flags: replicaFlags,
		Scope:      OnLoop,
		Summary:    "Accepts NO ONE, which the server follows anyway; members of a group are made by CLUSTER.",
		Complexity: "O(1)",
		Args:       replicaArgs,
		Run:        replicaOf,
	},
	{
		Name: "SLAVEOF", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: replicaFlags,
		Scope:   OnLoop,
		Summary: "An older name of REPLICAOF.", Complexity: "O(1)",
		Args: replicaArgs,
		Run:  replicaOf,
	},
	{
		Name: "WAIT", Group: Generic, Since: "3.0.0", Arity: 3, Flags: Blocking, Scope: OnLoop,
		Summary:    "Waits until so many other members of the group have the connection's writes on disk, and gives how many have. Alone: 0, at once.",
		Complexity: "O(1)",
		Categories: []string{"@connection"},
		Args:       []Arg{intArg("numreplicas"), intArg("timeout")},
		Tips:       []string{tipAllShards, tipMin},
		Run:        wait,
	},
	{
		Name: "WAITAOF", Group: Generic, Since: "7.2.0", Arity: 4, Flags: Blocking, Scope: OnLoop,
		Summary:    "Waits until the connection's writes are on disk here and at so many other members of the group, whatever appendfsync says.",
		Complexity: "O(1)",
		Categories: []string{"@connection"},
		Args:       []Arg{intArg("numlocal"), intArg("numreplicas"), intArg("timeout")},
		Tips:       []string{tipAllShards, tipMin},
		Run:        waitAOF,
	},
}

func role(c *Ctx) error {
	st := c.Env.groupStatus()
	if st == nil {
		c.Out.Array(3)
		c.Out.BulkString("master")
		c.Out.Int(0)
		c.Out.Array(0)
		return nil
	}
	progress := c.Env.group.Progress()
	if st.master() {
		replicas := st.replicas(&progress)
		c.Out.Array(3)
		c.Out.BulkString("master")
		c.Out.Int(int64(progress.EndLSN))
		c.Out.Array(len(replicas))
		for _, r := range replicas {
			a := r.address()
			c.Out.Array(3)
			c.Out.BulkString(a.ip)
			c.Out.BulkString(strconv.Itoa(a.clientPort(c)))
			c.Out.BulkString(strconv.FormatUint(r.offset, 10))
		}
		return nil
	}
	host, port, state := "", 0, "connect"
	if leader := st.Member(c.Env.lastLeader(st)); leader != nil {
		a := leader.address()
		host, port = a.ip, a.clientPort(c)
	}
	switch {
	case st.Role == Joining:
		state = "sync"
	case st.leader() != nil:
		state = "connected"
	}
	c.Out.Array(5)
	c.Out.BulkString("slave")
	c.Out.BulkString(host)
	c.Out.Int(int64(port))
	c.Out.BulkString(state)
	c.Out.Int(int64(progress.AppliedLSN))
	return nil
}

// master reports whether the member is a master in Redis's sense: it was elected.
func (s *GroupStatus) master() bool { return s.Role == Rising || s.Role.Leads() }

// replica is another member that is connected.
type replica struct {
	*Member
	offset  uint64
	contact time.Duration
	skew    string // for INFO; empty: it is not known
}

// replicas returns the other members that are connected.
func (s *GroupStatus) replicas(p *GroupProgress) (list []replica) {
	for i := range s.Members {
		m := &s.Members[i]
		if of := p.of(m.ID); m.ID != s.ID && of != nil && of.Connected {
			skew := ""
			if of.Skewed {
				skew = fmt.Sprintf(",clock-skew-ms=%d", of.Skew.Milliseconds())
			}
			list = append(list, replica{m, of.SyncedLSN, of.Contact, skew})
		}
	}
	return list
}

func replicaOf(c *Ctx) error {
	if c.Env.groupStatus() != nil {
		return errReplicaOfCluster
	}
	if !isWord(c.Arg(1), "NO") || !isWord(c.Arg(2), "ONE") {
		return errNoReplication
	}
	c.Out.OK()
	return nil
}

// timeout takes a timeout in milliseconds; 0 means without end.
func (a *Cursor) timeout() int64 {
	b := a.Bytes()
	if a.Err() != nil {
		return 0
	}
	ms, ok := ParseInt(b)
	switch {
	case !ok:
		a.Fail(errTimeout)
	case ms < 0:
		a.Fail(errTimeoutSign)
	}
	return ms
}

// wait waits until the given number of other members have the connection's writes on their disks. A
// server that is alone does not wait, because only the timeout could end the wait.
func wait(c *Ctx) error {
	a := c.Cursor(1)
	replicas := a.Int()
	ms := a.timeout()
	if a.Err() != nil {
		return a.Err()
	}
	st := c.Env.groupStatus()
	switch {
	case st == nil:
		c.Out.Int(0)
		return nil
	case !st.master():
		return errWaitReplica
	}
	m, lsn := c.Env.group, c.Client.Wrote
	synced := func(c *Ctx) { c.Out.Int(int64(m.Synced(lsn))) }
	if c.Nested || int64(m.Synced(lsn)) >= replicas {
		synced(c)
		return nil
	}
	return c.waitFor(BlockedOn{Begin: awaitSynced(m, lsn, replicas), Timeout: ms,
		End: synced, Leads: true})
}

// awaitSynced returns a BlockedOn.Begin that waits for other members.
func awaitSynced(m Membership, lsn uint64, members int64) func(done func(func(*Ctx))) func() {
	return func(done func(func(*Ctx))) func() {
		return m.AwaitSynced(lsn, int(min(members, math.MaxInt32)), func() { done(nil) })
	}
}

// waitAOF waits until the log is durable here and at other members. All earlier writes of the
// connection are in the log's buffer by now. Within EXEC or a script it does not wait.
func waitAOF(c *Ctx) error {
	a := c.Cursor(1)
	local := a.Int()
	if a.Err() == nil && (local < 0 || local > 1) {
		return errLocalRange
	}
	replicas := a.Int()
	if a.Err() == nil && replicas < 0 {
		return ErrIntPositive
	}
	ms := a.timeout()
	if a.Err() != nil {
		return a.Err()
	}
	st := c.Env.groupStatus()
	if st != nil && !st.master() {
		return errWaitAOFReplica
	}
	log := c.Env.Store.Log()
	lsn := log.End()
	settled := func() bool { return min(log.Synced(), log.Durable()) >= lsn }
	synced := func() int64 { return 0 }
	wait := BlockedOn{Timeout: ms, Leads: st != nil}
	if st != nil {
		m := c.Env.group
		synced = func() int64 { return int64(m.Synced(lsn)) }
		if synced() < replicas {
			wait.Begin = awaitSynced(m, lsn, replicas)
		}
	}
	wait.End = func(c *Ctx) {
		c.Out.Array(2)
		if settled() {
			c.Out.Int(1)
		} else {
			c.Out.Int(0)
		}
		c.Out.Int(synced())
	}
	if local > 0 && !settled() {
		wait.LSN = lsn
	}
	if !c.Nested && (wait.LSN > 0 || wait.Begin != nil) {
		return c.waitFor(wait)
	}
	wait.End(c)
	return nil
}
