package commands

import (
	"bytes"
	"math"

	"keyp/features/leases"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// This file contains KEYP.LEASE. A lease is a lock that ends at a deadline. Its owner gets a token,
// which is a larger number than all earlier tokens.

const (
	errLeaseOwner Error = "ERR an owner has 1 to 512 bytes"
	errLeaseToken Error = "ERR a token is a number of 1 or more"
	errLeaseTime  Error = "ERR the time of a lease is a number of milliseconds, or has a unit, such as 30s"
	errLeaseWait  Error = "ERR WAIT is 0 or more milliseconds, or has a unit, such as 5s"
	errLeaseDelay Error = "ERR DELAY is between 0 and 31622400000 milliseconds, or has a unit, such as 5s"
	errNotHeld    Error = "LEASE the lease is not held with this token"
	// errBehindNotHeld is the reply of commands that do not run because a lease is not held.
	errBehindNotHeld Error = "LEASE not run: a lease that the transaction depends on is not held"
)

// leaseQueueShown is how many waiting clients KEYP.LEASE INFO shows.
const leaseQueueShown = 100

var (
	eventLeaseAcquire = storage.Event{Class: storage.EventModule, Name: "lease.acquire"}
	eventLeaseRenew   = storage.Event{Class: storage.EventModule, Name: "lease.renew"}
	eventLeaseRelease = storage.Event{Class: storage.EventModule, Name: "lease.release"}
)

// keypLeaseCommands grant leases with fencing tokens (features/leases). Clients that wait for a
// lease are in the line of Waiters for a missing key.
var keypLeaseCommands = []Spec{{
	Name: "KEYP.LEASE", Group: KeypGroup, Since: "0.1.0", Arity: -2,
	Summary: "Grants leases with fencing tokens.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "ACQUIRE", Group: KeypGroup, Since: "0.1.0", Arity: -5,
			Flags:      Write | DenyOOM | Blocking,
			Summary:    "Takes a lease, or waits for it; an owner that holds it keeps its token.",
			Complexity: "O(1)",
			Keys:       []KeySpec{Key(2, RW|Access|Update)},
			Args: []Arg{
				keyArg("key"), stringArg("owner"), intArg("milliseconds"),
				intArg("wait").after("WAIT").opt(), intArg("delay").after("DELAY").opt(),
			},
			Run: acquireLease,
		},
		{
			Name: "RENEW", Group: KeypGroup, Since: "0.1.0", Arity: 5, Flags: Write | Fast | guards,
			Summary: "Changes when a lease ends that is held with a token.", Complexity: "O(1)",
			Keys: []KeySpec{Key(2, RW|Access|Update)},
			Args: []Arg{keyArg("key"), intArg("token"), intArg("milliseconds")},
			Run:  renewLease,
		},
		{
			Name: "RELEASE", Group: KeypGroup, Since: "0.1.0", Arity: 4, Flags: Write | Fast,
			Summary: "Ends a lease that is held with a token.", Complexity: "O(1)",
			Keys: []KeySpec{Key(2, RW|Access|Delete)},
			Args: []Arg{keyArg("key"), intArg("token")},
			Run:  releaseLease,
		},
		{
			Name: "CHECK", Group: KeypGroup, Since: "0.1.0", Arity: 4,
			Flags:      ReadOnly | Fast | guards,
			Summary:    "Fails unless a lease is held with a token; in a transaction the commands after it then do not run.",
			Complexity: "O(1)",
			Keys:       []KeySpec{Key(2, RO|Access)},
			Args:       []Arg{keyArg("key"), intArg("token")},
			Run:        checkLease,
		},
		{
			Name: "INFO", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: ReadOnly,
			Summary:    "Shows who holds a lease, and who waits for it.",
			Complexity: "O(N) in the number of those who wait.",
			Keys:       []KeySpec{Key(2, RO|Access)},
			Args:       []Arg{keyArg("key")},
			Run:        leaseInfo,
		},
		helpFor("KEYP.LEASE", KeypGroup, "0.1.0", Loading|Stale,
			"ACQUIRE <key> <owner> <time> [WAIT <time>] [DELAY <time>]",
			"    Take a lease: token and deadline, or null if somebody else has it.",
			"    Times are milliseconds, or have a unit: 500ms, 30s, 10m, 2h.",
			"RENEW <key> <token> <time>", "    Have the lease end so long from now.",
			"RELEASE <key> <token>", "    End the lease.",
			"CHECK <key> <token>", "    Fail unless the lease is held with the token.",
			"INFO <key>", "    Show who holds the lease, and who waits for it."),
	},
}}

// leaseRequest contains the arguments of KEYP.LEASE ACQUIRE after the key.
type leaseRequest struct {
	owner       []byte
	deadline    int64 // Unix ms
	waits       bool
	wait, delay int64 // ms
}

func parseAcquire(c Cursor, now int64) (r leaseRequest, err error) {
	a := options{Cursor: c}
	if r.owner = a.Bytes(); len(r.owner) == 0 || len(r.owner) > object.MaxOwner {
		a.Fail(errLeaseOwner)
	}
	ms := a.Duration(math.MinInt64, errLeaseTime)
	for a.More() {
		switch {
		case a.option("WAIT", 1):
			r.waits, r.wait = true, a.Duration(0, errLeaseWait)
		case a.option("DELAY", 1):
			if r.delay = a.Duration(0, errLeaseDelay); r.delay > object.MaxDelay {
				a.Fail(errLeaseDelay)
			}
		default:
			a.end()
		}
	}
	if err := a.Err(); err != nil {
		return r, err
	}
	r.deadline, err = leaseDeadline(now, ms)
	return r, err
}

// leaseDeadline returns the deadline of a lease that lasts for ms, in Unix ms. It refuses a
// deadline that would overflow with the longest delay.
func leaseDeadline(now, ms int64) (int64, error) {
	deadline, err := ttl.FutureDeadline(now, ms, ttl.Milliseconds, ttl.FromNow)
	if err == nil && deadline.At > math.MaxInt64-object.MaxDelay {
		err = ttl.ErrInvalidTTL
	}
	return deadline.At, err
}

// acquireLease grants a free lease. If clients wait for it, only the first of them may have it. An
// owner that holds the lease gets its token again, because its first reply may have been lost. The
// deadline is then the later of the two.
func acquireLease(c *Ctx) error {
	k, now := c.Keys[0], c.Txn.Now()
	r, err := parseAcquire(c.Cursor(3), now)
	if err != nil {
		return err
	}
	l, there, err := leases.Find(c.Txn, k)
	switch {
	case err != nil:
		return err
	case !there && c.Env.lines.mayTake(k, object.None, c.Client):
		token := c.Env.leases.Grant(c.Txn, k, r.owner, r.deadline, r.delay, eventLeaseAcquire)
		c.replyLease(token, r.deadline)
		return nil
	case there && l.Held && bytes.Equal(l.Owner, r.owner):
		if l.Deadline != ttl.None && r.deadline > l.Deadline {
			l.Deadline = r.deadline
			leases.Extend(c.Txn, k, r.deadline, eventLeaseAcquire)
		}
		c.replyLease(l.Token, l.Deadline)
		return nil
	case !r.waits:
		c.Out.NullArray()
		return nil
	}
	err = c.block(c.Keys, object.None, r.wait)
	c.Wait.Who, c.Wait.Since = string(r.owner), now
	if free := l.FreeAt(); free != ttl.None && c.Env.lines.mayTake(k, object.None, c.Client) {
		c.Wait.Again = max(free-now, 1) // otherwise it waits for those before it
	}
	return err
}

func (c *Ctx) replyLease(token uint64, deadline int64) {
	c.Out.Array(2)
	c.Out.Int(int64(token))
	c.Out.Int(deadline)
}

// held returns the lease of the command's key, and whether it is held with token.
func (c *Ctx) held(token int64) (l leases.Lease, held bool, err error) {
	l, there, err := leases.Find(c.Txn, c.Keys[0])
	return l, there && l.Held && l.Token == uint64(token), err
}

func (a *Cursor) token() int64 { return a.IntFrom(1, errLeaseToken) }

func renewLease(c *Ctx) error {
	a := c.Cursor(3)
	token, ms := a.token(), a.Duration(math.MinInt64, errLeaseTime)
	if err := a.Err(); err != nil {
		return err
	}
	deadline, err := leaseDeadline(c.Txn.Now(), ms)
	if err != nil {
		return err
	}
	switch _, held, err := c.held(token); {
	case err != nil:
		return err
	case !held:
		return errNotHeld
	}
	leases.Extend(c.Txn, c.Keys[0], deadline, eventLeaseRenew)
	c.Out.Int(deadline)
	return nil
}

func releaseLease(c *Ctx) error {
	a := c.Cursor(3)
	token := a.token()
	if err := a.Err(); err != nil {
		return err
	}
	_, held, err := c.held(token)
	if err != nil {
		return err
	}
	if held {
		c.Txn.Notify(c.Keys[0], eventLeaseRelease)
		c.Txn.Delete(c.Keys[0], storage.Deleted)
	}
	c.bit(held)
	return nil
}

func checkLease(c *Ctx) error {
	a := c.Cursor(3)
	token := a.token()
	if err := a.Err(); err != nil {
		return err
	}
	switch _, held, err := c.held(token); {
	case err != nil:
		return err
	case !held:
		return errNotHeld
	}
	c.Out.OK()
	return nil
}

// leaseInfo replies with a map. It shows an expired lease until its delay has passed.
func leaseInfo(c *Ctx) error {
	l, there, err := leases.Find(c.Txn, c.Keys[0])
	if err != nil {
		return err
	}
	state := "free"
	switch {
	case there && l.Held:
		state = "held"
	case there:
		state = "delayed"
	}
	waiting, first := c.Env.lines.waitingFor(c.Keys[0], object.None, leaseQueueShown)
	c.Out.Map(7)
	c.textField("state", state)
	c.textField("owner", string(l.Owner))
	c.intField("token", int64(l.Token))
	c.intField("deadline", l.Deadline)
	c.intField("delay", l.Delay)
	c.intField("waiting", int64(waiting))
	c.Out.BulkString("queue")
	c.Out.Array(len(first))
	for _, w := range first {
		c.Out.Map(3)
		c.textField("owner", w.who)
		c.intField("client", int64(w.client))
		c.intField("since", w.since)
	}
	return nil
}
