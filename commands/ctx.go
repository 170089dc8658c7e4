package commands

import (
	"keyp/resp"
	"keyp/storage"
)

// Ctx is what a handler works with. One is reused for all commands of a loop.
type Ctx struct {
	Spec   *Spec
	Args   [][]byte // the whole command, name included; valid until the handler returns
	Client *Client
	Server *Server
	Out    *resp.Writer
	Keys   []storage.Key // the declared keys, in the order of the arguments
	Txn    *storage.Txn  // holds the locks of Keys; nil in Slow commands
	// Final says that the command can't be run again for the sake of keys that are not
	// in memory: they are read while the locks are held, also those that a handler comes upon.
	Final bool
	// Nested says that the command is part of EXEC or of a script: it must not wait, and a
	// blocking one answers as if its time were up.
	Nested bool
	// Alone says that the command is an exclusive job: its transaction holds the keyspace.
	Alone bool
	// Again says that the command has waited (Blocked) and runs once more: those who MONITOR
	// have seen it.
	Again bool
	// Beside says that an exclusive job runs.
	Beside bool
	// Crowded says that nothing more is to run aside at present.
	Crowded bool
	// Unlucky says that the command has run aside again and again in vain, as its keys changed:
	// now it is to run at once.
	Unlucky bool
	// Wait is what a command with the outcome Blocked waits for.
	Wait Wait
	// LSN is what the reply depends on: it may leave once the log is durable that
	// far. Set from Txn; a Slow handler sets it by itself.
	LSN uint64

	met     fate
	counted bool              // the error that is replied has been counted
	queue   *queue            // what EXEC runs
	parent  *Ctx              // of a nested command
	child   *Ctx              // is used again for each nested command
	onLoop  func(func()) bool // of an exclusive job
	emitted []func(lsn uint64)
	emits   int // bytes of what emitted and publications of nested commands hold
}

// fate is what became of a command that did not run.
type fate uint8

const (
	refused fate = iota + 1 // by a check
	put                     // into the queue, for EXEC
)

// Arg is argument i; the name is argument 0.
func (c *Ctx) Arg(i int) []byte { return c.Args[i] }

// EachKey gives the declared keys with their numbers, and has what look-ups of the next ones read
// be read for many at once.
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

// bulkStrings replies strings within an array or set that has been begun.
func (c *Ctx) bulkStrings(list []string) {
	for _, s := range list {
		c.Out.BulkString(s)
	}
}

// Cursor reads arguments from number i on.
func (c *Ctx) Cursor(i int) Cursor { return Cursor{args: c.Args[i:]} }

// String gives the value of a declared key that must be a string or missing: the
// bytes are valid until the transaction changes something. A missing or expired key
// gives ok=false, another type ErrWrongType.
func (c *Ctx) String(k storage.Key) (value []byte, ok bool, err error) {
	item, ok := c.Txn.Get(k)
	if !ok {
		return nil, false, nil
	}
	value, err = item.String()
	return value, err == nil, err
}
