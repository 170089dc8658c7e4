package commands

import (
	"math"
)

// A command that reads or stores large values (Spec.Offload) runs as a task of scope Pinned. The
// shards of its keys are unlocked meanwhile, so the event loop serves other clients. The values are
// pinned (storage.Pins): a command that would change one of them waits for the end of the task.

const (
	// largeValue is the size in bytes from which a value takes long to read.
	largeValue = 256 << 10
	// largeStore is the size in bytes from which a value takes long to store.
	largeStore = 1 << 20
	// manyElements is the number of elements from which a reply takes long to write. It is also the
	// most keys that are pinned for a task.
	manyElements = 10_000
	// largeCount is the number of elements from which reading them takes long.
	largeCount = 1000
	// If the keys of a call change while it runs as a task, its result is discarded, and the call
	// runs again. After maxOffloads such attempts it runs on the event loop.
	maxOffloads = 3
)

// largeValues is the Offload of commands that may read a whole value.
func largeValues(c *Ctx) bool { return c.Txn.Largest(c.Keys) >= largeValue }

// largeScan is the Offload of commands that return about as many elements as COUNT says.
func largeScan(c *Ctx) bool {
	if !largeValues(c) {
		return false
	}
	for i := 3; i+1 < len(c.Args); i++ {
		if n, ok := ParseInt(c.Args[i+1]); ok && isWord(c.Args[i], "COUNT") && n >= largeCount {
			return true
		}
	}
	return false
}

// largeRandom is the Offload of commands that return as many random elements as the argument after
// the key says.
func largeRandom(c *Ctx) bool {
	if len(c.Args) < 3 {
		return false
	}
	n, ok := ParseInt(c.Args[2])
	return ok && (n >= manyElements || n <= -manyElements && n > math.MinInt64) &&
		c.Txn.Largest(c.Keys) > 0
}

// largeCopy is the Offload of COPY, whose second key is only replaced.
func largeCopy(c *Ctx) bool { return c.Txn.Largest(c.Keys[:1]) >= largeValue }

// largeSet is the Offload of SET with a large value and without options.
func largeSet(c *Ctx) bool { return len(c.Args) == 3 && len(c.Args[2]) >= largeStore }

// largeProduct is the Offload of LCS, which compares the whole first string with the whole second
// one.
func largeProduct(c *Ctx) bool {
	product := 1
	for _, k := range c.Keys {
		value, _, err := c.String(k)
		if err != nil {
			return false
		}
		product *= max(len(value), 1)
	}
	return product >= largeValue
}

// mayOffload reports whether the handler may end with errOffload. It may not within a transaction,
// in a task, or when it runs again for a blocked session, which has its places in lines.
func (c *Ctx) mayOffload() bool {
	return c.Scope == KeysOnly && !c.Nested && !c.Past.Waited && c.Past.Offloads < maxOffloads
}

// offloads reports whether a handler should end with errOffload. The handler has looked up a key to
// read it, and has found many elements or bytes. most is the number that is too many.
func (c *Ctx) offloads(many, most int) bool {
	return many >= most && c.Spec.Is(ReadOnly) && c.mayOffload()
}

// toOffload reports whether the call, whose keys are locked, should be a task of scope Pinned.
func (c *Ctx) toOffload() bool {
	return c.Spec.Offload != nil && len(c.Keys) <= manyElements && c.Past.Offloads < maxOffloads &&
		c.Spec.Offload(c)
}
