package commands

import (
	"errors"
	"math"

	"keyp/resp"
	"keyp/storage"
)

// A command that reads much of large values (Spec.Long) runs aside: it takes its keys, releases
// their shards, and then the loop serves others while it goes on. Whoever would change one of
// its values waits until it has ended. See storage.Holds.

const (
	// longValue is from how many bytes on a value takes long to read.
	longValue = 256 << 10
	// longStore is from how many bytes on a value takes long to store.
	longStore = 1 << 20
	// longCount is from how many elements on a reply takes long to write.
	longCount = 10_000
	// longElements is from how many of its elements on a value takes long to read.
	longElements = 1000
)

// longValues is for commands that may read all of a value.
func longValues(c *Ctx) bool { return c.Txn.Largest(c.Keys) >= longValue }

// longScan is for those that give about as many elements as COUNT says.
func longScan(c *Ctx) bool {
	if !longValues(c) {
		return false
	}
	for i := 3; i+1 < len(c.Args); i++ {
		if n, ok := ParseInt(c.Args[i+1]); ok && isWord(c.Args[i], "COUNT") && n >= longElements {
			return true
		}
	}
	return false
}

// longRandom is for those that give as many random elements as the argument behind the key
// says.
func longRandom(c *Ctx) bool {
	if len(c.Args) < 3 {
		return false
	}
	n, ok := ParseInt(c.Args[2])
	return ok && (n >= longCount || n <= -longCount && n > math.MinInt64) && c.Txn.Largest(c.Keys) > 0
}

// longCopy is for COPY, whose second key is only replaced.
func longCopy(c *Ctx) bool { return c.Txn.Largest(c.Keys[:1]) >= longValue }

// longSet is for SET, of a large value and without options.
func longSet(c *Ctx) bool { return len(c.Args) == 3 && len(c.Args[2]) >= longStore }

// longProduct is for LCS, which compares all of the one string with all of the other.
func longProduct(c *Ctx) bool {
	product := 1
	for _, k := range c.Keys {
		value, _, err := c.String(k)
		if err != nil {
			return false
		}
		product *= max(len(value), 1)
	}
	return product >= longValue
}

// errLong ends a handler that has found out only now that it is to run aside. It has replied
// and changed nothing.
var errLong = errors.New("commands: the command is to run aside")

// tooLong says that a command which has looked one key up, and comes upon so many elements or
// bytes that they are most or more, is to end with errLong: nothing is in the way of that.
func (c *Ctx) tooLong(many, most int) bool {
	if many < most || !c.Spec.Is(ReadOnly) || c.Nested || c.Txn.Aside() {
		return false
	}
	c.Server.Stats.Hits.Add(-1) // it is going to look the key up again
	return true
}

// runsAside says that a command, whose keys are held, is to run aside.
func (c *Ctx) runsAside() bool {
	return c.Spec.Long != nil && len(c.Keys) <= longCount && !c.Unlucky && c.Spec.Long(c)
}

// SetAside makes c the context of a command for which Dispatch has said NeedAside with from,
// and ends the transaction of that.
func (s *Server) SetAside(from, c *Ctx, client *Client, out *resp.Writer) {
	if from.Spec.Is(ReadOnly) {
		from.Txn.By = from.Client.ID // so that ran alone tells what has been due
		from.Txn.RemoveDue(from.Keys)
		s.Tracking.ran(from, true) // before whoever changes what it reads has its turn
	}
	*c = Ctx{
		Spec: from.Spec, Args: from.Args, Client: client, Server: s, Out: out, Txn: s.Store.NewTxn(),
		Keys: append([]storage.Key(nil), from.Keys...), emitted: from.emitted, emits: from.emits,
	}
	from.emitted = nil
	c.Txn.By = client.ID
	s.Holds.Take(from.Txn, c.Keys, c.Txn)
}

// RunAside runs a command that was set aside, on any goroutine. Then Settled is to be called on
// the loop, and RunEmitted. Again says that it has done nothing, since its keys were removed
// meanwhile or have other values: Dispatch is to run again.
func (s *Server) RunAside(c *Ctx) (again bool) {
	mark := c.Out.Len()
	s.handle(c)
	if c.Txn.Lost() {
		c.Out.Truncate(mark)
		clear(c.emitted)
		c.emitted, c.emits = c.emitted[:0], 0
		again = true
	} else if !c.Spec.Is(ReadOnly) {
		s.Tracking.ran(c, true)
	}
	c.LSN = max(c.LSN, c.Txn.End())
	return again
}

// Settled releases what a command aside has held.
func (s *Server) Settled(c *Ctx) { s.Holds.Release(c.Txn) }
