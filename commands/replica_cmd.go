package commands

// The commands of replication, for a server that neither has replicas nor is one.

const (
	errNoReplication Error = "ERR this server has no replication: it can't be a replica"
	errLocalRange    Error = "ERR value is out of range, must be between 0 and 1"
)

const replicaFlags = Admin | NoScript | Stale | NoAsyncLoading

var replicaArgs = []Arg{oneOf("args",
	block("host-port", stringArg("host"), intArg("port")),
	block("no-one", word("NO"), word("ONE")),
)}

var replicaCommands = []Spec{
	{
		Name: "ROLE", Group: ServerGroup, Since: "2.8.12", Arity: 1, Flags: NoScript | Loading | Stale | Fast | Dangerous, Scope: OnLoop,
		Summary: "Gives the server's part in replication.", Complexity: "O(1)",
		Categories: []string{"@admin"},
		Run:        role,
	},
	{
		Name: "REPLICAOF", Group: ServerGroup, Since: "5.0.0", Arity: 3, Flags: replicaFlags, Scope: OnLoop,
		Summary: "Accepts NO ONE, which the server follows anyway; there is no replication.", Complexity: "O(1)",
		Args: replicaArgs,
		Run:  replicaOf,
	},
	{
		Name: "SLAVEOF", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: replicaFlags, Scope: OnLoop,
		Summary: "An older name of REPLICAOF.", Complexity: "O(1)",
		Args: replicaArgs,
		Run:  replicaOf,
	},
	{
		Name: "WAIT", Group: Generic, Since: "3.0.0", Arity: 3, Flags: Blocking, Scope: OnLoop,
		Summary: "Gives the number of replicas that have the connection's writes: 0, at once.", Complexity: "O(1)",
		Categories: []string{"@connection"},
		Args:       []Arg{intArg("numreplicas"), intArg("timeout")},
		Tips:       []string{tipAllShards, tipMin},
		Run:        wait,
	},
	{
		Name: "WAITAOF", Group: Generic, Since: "7.2.0", Arity: 4, Flags: Blocking, Scope: OwnClient,
		Summary: "Waits until the connection's writes are on disk, whatever appendfsync says; no replica has them.", Complexity: "O(1)",
		Categories: []string{"@connection"},
		Args:       []Arg{intArg("numlocal"), intArg("numreplicas"), intArg("timeout")},
		Tips:       []string{tipAllShards, tipMin},
		Run:        waitAOF,
	},
}

func role(c *Ctx) error {
	c.Out.Array(3)
	c.Out.BulkString("master")
	c.Out.Int(0)
	c.Out.Array(0)
	return nil
}

func replicaOf(c *Ctx) error {
	if !isWord(c.Arg(1), "NO") || !isWord(c.Arg(2), "ONE") {
		return errNoReplication
	}
	c.Out.OK()
	return nil
}

// timeout reads how long a command waits, in milliseconds; 0 is without end.
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

// wait does not wait: without replicas only the timeout could end it.
func wait(c *Ctx) error {
	a := c.Cursor(1)
	a.Int()
	a.timeout()
	if a.Err() != nil {
		return a.Err()
	}
	c.Out.Int(0)
	return nil
}

// waitAOF waits until the log has settled: there are no replicas. All that the connection wrote before
// is in the log's buffer by now. Within EXEC or a script it does not wait.
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
	log := c.Env.Store.Log()
	lsn := log.End()
	settled := func() bool { return min(log.Synced(), log.Durable()) >= lsn }
	numbers := func(c *Ctx) {
		c.Out.Array(2)
		if settled() {
			c.Out.Int(1)
		} else {
			c.Out.Int(0)
		}
		c.Out.Int(0)
	}
	if local > 0 && !c.Nested && !settled() {
		return c.waitFor(BlockedOn{LSN: lsn, Timeout: ms, End: numbers})
	}
	numbers(c)
	return nil
}
