package commands

import (
	"strings"
	"unsafe"

	"keyp/internal/bigcopy"
	"keyp/storage"
)

// The errors of transactions.
const (
	errNestedMulti    Error = "ERR MULTI calls can not be nested"
	errExecNoMulti    Error = "ERR EXEC without MULTI"
	errDiscardNoMulti Error = "ERR DISCARD without MULTI"
	errWatchInMulti   Error = "ERR WATCH inside MULTI is not allowed"
	errNotInMulti     Error = "ERR Command not allowed inside a transaction"
	errExecAbort      Error = "EXECABORT Transaction discarded because of previous errors."
)

var multiCommands = []Spec{
	{
		Name: "MULTI", Group: Transactions, Since: "1.2.0",
		Summary:    "Begins a transaction: the commands that follow are queued.",
		Complexity: "O(1)",
		Arity:      1, Flags: NoScript | Loading | Stale | Fast | AllowBusy | Unqueued,
		Scope: OnLoop,
		Run:   runMulti,
	},
	{
		Name: "EXEC", Group: Transactions, Since: "1.2.0",
		Summary:    "Runs the commands of the transaction, all of them or, if a watched key has changed, none.",
		Complexity: "Depends on the commands of the transaction.",
		Arity:      1, Flags: NoScript | Loading | Stale | SkipSlowlog | Unqueued | execs,
		Scope: KeysOnly, Escalate: execScope,
		Run: runExec,
	},
	{
		Name: "DISCARD", Group: Transactions, Since: "2.0.0",
		Summary:    "Drops the transaction, and forgets the watched keys.",
		Complexity: "O(N) in the number of queued commands.",
		Arity:      1, Flags: NoScript | Loading | Stale | Fast | AllowBusy | Unqueued,
		Scope: OnLoop,
		Run:   runDiscard,
	},
}

// queue holds the commands that a client has sent since MULTI. Only the loop adds commands to it.
// While EXEC runs, its client has no queue.
type queue struct {
	commands []queued
	bytes    int   // of all of it
	flags    Flags // of all commands together
	wide     bool  // a command touches more than its keys
	failed   bool  // a command was refused: EXEC runs none
}

type queued struct {
	spec *Spec
	args [][]byte
}

// Queued returns the size of the commands that wait for EXEC, in bytes.
func (c *Client) Queued() int {
	if c.queue == nil {
		return 0
	}
	return c.queue.bytes
}

// enqueue keeps a command for EXEC, unless EXEC will run none.
func (e *Env) enqueue(c *Ctx) {
	c.met = put
	if _, changed := e.Changes.watches(c.Client); !changed && !c.Client.queue.failed {
		c.Client.queue.add(c.Spec, c.Args, c.scope())
	}
}

// add queues a command, with arguments of its own.
func (q *queue) add(spec *Spec, args [][]byte, scope Scope) {
	q.bytes += ArgsMemory(args) + int(unsafe.Sizeof(queued{}))
	q.commands = append(q.commands, queued{spec, CopyArgs(args)})
	q.flags |= spec.Flags
	q.wide = q.wide || scope.wide()
}

func argBytes(args [][]byte) (n int) {
	for _, arg := range args {
		n += len(arg)
	}
	return n
}

// ArgsMemory returns the memory of a copy of arguments, in bytes.
func ArgsMemory(args [][]byte) int { return argBytes(args) + len(args)*int(unsafe.Sizeof(args[0])) }

// CopyArgs copies arguments into memory of their own. Each large argument gets separate memory, so
// that a reference to a key's name does not keep the memory of its value.
func CopyArgs(args [][]byte) [][]byte {
	const large = 4 << 10
	n := 0
	for _, arg := range args {
		if len(arg) < large {
			n += len(arg)
		}
	}
	all := make([]byte, 0, n)
	copied := make([][]byte, len(args))
	for i, arg := range args {
		if len(arg) >= large {
			copied[i] = bigcopy.Clone(arg)
			continue
		}
		at := len(all)
		all = append(all, arg...)
		copied[i] = all[at:len(all):len(all)]
	}
	return copied
}

// discard ends a client's transaction, if there is one, and its watches.
func (e *Env) discard(c *Client) {
	c.queue = nil
	e.Changes.unwatch(c)
}

// refuse replies with an error to a command that does not run. If a transaction is open, its EXEC
// will fail; if the command is EXEC itself, the transaction ends at once.
func (e *Env) refuse(c *Ctx, err Error) Outcome {
	e.Stats.Errors.Add(1)
	c.met = refused
	if c.Client.queue != nil {
		c.Client.queue.failed = true
	}
	if c.Spec != nil && c.Spec.Is(execs) {
		e.discard(c.Client)
		err = Error("EXECABORT Transaction discarded because of: " +
			strings.TrimPrefix(string(err), "ERR "))
	}
	c.Out.Error(string(err))
	return Done
}

// refuseRoute is refuse for a call that another node may run. The reply is the unchanged error, for
// EXEC too.
func (e *Env) refuseRoute(c *Ctx, err Error) Outcome {
	mark := c.Out.Len()
	e.refuse(c, err)
	c.Out.Truncate(mark)
	c.Out.Error(string(err))
	return Done
}

// keysOfQueue appends the keys of the queued commands and the watched keys.
func (e *Env) keysOfQueue(c *Ctx, keys []storage.Key) []storage.Key {
	if q := c.Client.queue; q == nil || q.failed {
		return keys
	}
	e.eachQueued(c, func(spec *Spec, args [][]byte, db int) {
		if spec.Keys != nil {
			keys = e.keys(spec, args, db, keys)
		}
	})
	return e.Changes.watchedBy(c.Client, keys)
}

// eachQueued calls visit with each queued command and the database in which it will run. It follows
// SELECT.
func (e *Env) eachQueued(c *Ctx, visit func(spec *Spec, args [][]byte, db int)) {
	db := c.Client.DB
	for i := range c.Client.queue.commands {
		spec, args := c.Client.queue.commands[i].spec, c.Client.queue.commands[i].args
		if spec.Name == "SELECT" && spec.parent == nil {
			if n, ok := parseDB(args[1]); ok && e.database(n) {
				db = n
			}
		}
		visit(spec, args, db)
	}
}

// execScope returns the scope of EXEC: the keys of the queued commands, unless one of them touches
// more.
func execScope(c *Ctx) Scope {
	switch q := c.Client.queue; {
	case q == nil || q.failed:
		return OwnClient
	case q.wide:
		return Global
	}
	return KeysOnly
}

func runMulti(c *Ctx) error {
	if c.Client.queue != nil {
		return errNestedMulti
	}
	c.Client.queue = &queue{}
	c.Out.OK()
	return nil
}

func runDiscard(c *Ctx) error {
	if c.Client.queue == nil {
		return errDiscardNoMulti
	}
	c.Env.discard(c.Client)
	c.Out.OK()
	return nil
}

// runExec runs the queued commands. Errors of the commands are among the replies, and the other
// commands still run. The exception is a command with the flag guards that has failed for any
// reason: the commands after it do not run.
func runExec(c *Ctx) error {
	q := c.queue
	if q == nil {
		return errExecNoMulti
	}
	if q.failed {
		c.Env.Changes.unwatch(c.Client)
		return errExecAbort // no key is locked, not even those that were watched
	}
	same, err := c.Env.Changes.unchanged(c.Client, c.Txn)
	c.Env.Changes.unwatch(c.Client)
	switch {
	case err != nil:
		return err
	case !same:
		c.Out.NullArray()
		return nil
	}
	ended := false
	c.Out.Array(len(q.commands))
	for i := range q.commands {
		spec, args := q.commands[i].spec, q.commands[i].args
		q.commands[i] = queued{} // what it sets need not be there twice
		err := c.permitQueued(spec, args)
		if ended {
			err = errBehindNotHeld
		}
		if err == nil && spec.Is(DenyOOM) && c.batchTooLarge() {
			err = errOOM
		}
		mark := c.Out.Len()
		if err != nil {
			c.refuseQueued(err.(Error))
		} else {
			c.Call(spec, c.Client, args, c.Out)
		}
		ended = ended || spec.Is(guards) && c.failedAt(mark)
	}
	return nil
}

// batchTooLarge reports whether the transaction has written more than maxmemory. These changes
// cannot leave memory before the end of the transaction.
func (c *Ctx) batchTooLarge() bool { return c.Env.tooLarge(c.Txn.BatchBytes()) }

// tooLarge reports whether bytes, the size of data that cannot leave memory, is more than
// maxmemory.
func (e *Env) tooLarge(bytes int) bool {
	const small = 1 << 20 // is allowed under any maxmemory
	if bytes <= small {
		return false
	}
	limit := e.Config.Int("maxmemory")
	return limit > 0 && int64(bytes) > limit
}

// refuseQueued replies with an error to a command of the transaction that does not run.
func (c *Ctx) refuseQueued(err Error) {
	e := c.Env
	e.Stats.Errors.Add(1)
	e.Stats.PerError.add([]byte(err))
	c.Out.Error(string(err))
}
