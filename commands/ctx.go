package commands

import (
	"context"

	"keyp/internal/glob"
	"keyp/resp"
	"keyp/storage"
)

// Ctx is the context in which a handler runs. A loop reuses one Ctx for all its commands.
type Ctx struct {
	Spec   *Spec
	Args   [][]byte // the whole command, name included; valid until the handler returns
	Client *Client
	Env    *Env
	Out    *resp.Writer
	Keys   []storage.Key // the declared keys, in the order of the arguments
	// Runs are the parts of streams that the caller must read if the outcome is Load.
	Runs []storage.Runs
	Txn  *storage.Txn // has Keys locked, or pinned; nil in a task of scope Unlocked
	// Scope says which data the call may touch. With the outcome Task, it is the scope of the task.
	Scope Scope
	// Nested says that the command is part of EXEC or of a script. It must not wait, and a blocking
	// command answers as if its time were up.
	Nested bool
	// Past counts the earlier attempts to run the same call.
	Past Past
	// With the outcome Wait, Reason is why the command waits. Wait describes the condition for
	// which a blocking command waits.
	Reason Reason
	Wait   BlockedOn
	// LSN is the position in the log on which the reply depends: the reply may be sent after the
	// log is durable up to there. It is set from Txn; a handler of scope Unlocked sets it itself.
	LSN uint64

	// Term is the group's term in which this server led when the call was dispatched. It is set if
	// the reply is right only as long as the server leads in that term. 0: the reply depends on no
	// term.
	Term uint64

	// final says that the call may not be dispatched again to load keys. Keys that are not in
	// memory are then read while other keys are locked.
	final   bool
	steps   glob.Steps // that patterns may take, of the outermost call
	costly  bool       // they took more; the reply is errPattern
	hits    int64      // keys that this run has looked up and found; see book
	misses  int64      // the same, and not found
	met     fate
	counted bool            // the error that is replied has been counted
	apart   bool            // as a task of scope Global it needs nothing but its keys
	writing bool            // a task that is counted as one that may write
	late    bool            // a task that was queued, and whose command has to wait by now
	work    context.Context // of a task that waits for another server; Cancel ends it
	cancel  context.CancelFunc
	queue   *queue            // what EXEC runs
	parent  *Ctx              // of a nested command
	child   *Ctx              // is used again for each nested command
	onLoop  func(func()) bool // of a global task
	emitted []func(lsn uint64)
	emits   int // bytes of what emitted and publications of nested commands hold
}

// Past counts what happened to a call that was dispatched before. The session of the call keeps it.
type Past struct {
	Loads    int  // how often its keys were loaded
	Offloads int  // how often it was a task that did nothing, since its keys changed meanwhile
	Waited   bool // it is blocked (ForUnblock) and runs once more: those who MONITOR have seen it
}

// fate says why a command did not run.
type fate uint8

const (
	refused fate = iota + 1 // by a check
	put                     // into the queue, for EXEC
)

// Cancel ends a task that waits for another server. The task ends soon, with an error. Any
// goroutine may call Cancel.
func (c *Ctx) Cancel() {
	if c.cancel != nil {
		c.cancel()
	}
}

// Arg returns argument i. Argument 0 is the name of the command.
func (c *Ctx) Arg(i int) []byte { return c.Args[i] }

// EachKey iterates over the declared keys and their indexes. It prefetches the memory that look-ups
// of the next keys read, for many keys at once.
func (c *Ctx) EachKey(yield func(int, storage.Key) bool) {
	for i, k := range c.Keys {
		if i%storage.PrefetchKeys == 0 && len(c.Keys) > 1 {
			c.Txn.Prefetch(c.Keys[i:])
		}
		if !yield(i, k) {
			return
		}
	}
}

// textField and intField write one field of a map whose header is already written.
func (c *Ctx) textField(name, value string) {
	c.Out.BulkString(name)
	c.Out.BulkString(value)
}

func (c *Ctx) intField(name string, n int64) {
	c.Out.BulkString(name)
	c.Out.Int(n)
}

// bulkStrings writes the elements of an array or set whose header is already written.
func (c *Ctx) bulkStrings(list []string) {
	for _, s := range list {
		c.Out.BulkString(s)
	}
}

// Cursor returns a Cursor that reads the arguments from index i on.
func (c *Ctx) Cursor(i int) Cursor { return Cursor{args: c.Args[i:]} }

// String returns the value of a declared key that must be a string or missing. The bytes are valid
// until the transaction changes something. For a missing or expired key ok is false; for another
// type err is ErrWrongType.
func (c *Ctx) String(k storage.Key) (value []byte, ok bool, err error) {
	item, ok := c.Txn.Get(k)
	if !ok {
		return nil, false, nil
	}
	value, err = item.String()
	return value, err == nil, err
}
