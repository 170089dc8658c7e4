package commands

import (
	"math"
)

// A command that reads much of large values (Spec.Offload) is a job of scope Pinned: its values are
// pinned and their shards unlocked, so the loop serves others meanwhile. A command that would
// change one of the values waits for the job's end. See storage.Pins.

const (
	// largeValue is from how many bytes on a value takes long to read.
	largeValue = 256 << 10
	// largeStore is from how many bytes on a value takes long to store.
	largeStore = 1 << 20
	// manyElements is from how many elements on a reply takes long to write, and the most keys that
	// are pinned for a job.
	manyElements = 10_000
	// largeCount is from how many of its elements on a value takes long to read.
	largeCount = 1000
	// maxOffloads is how often a call is a job that does nothing, as its keys change meanwhile,
	// before it runs inline.
	maxOffloads = 3
)

// largeValues is for commands that may read all of a value.
func largeValues(c *Ctx) bool { return c.Txn.Largest(c.Keys) >= largeValue }

// largeScan is for those that give about as many elements as COUNT says.
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

// largeRandom is for those that give as many random elements as the argument behind the key
// says.
func largeRandom(c *Ctx) bool {
	if len(c.Args) < 3 {
		return false
	}
	n, ok := ParseInt(c.Args[2])
	return ok && (n >= manyElements || n <= -manyElements && n > math.MinInt64) && c.Txn.Largest(c.Keys) > 0
}

// largeCopy is for COPY, whose second key is only replaced.
func largeCopy(c *Ctx) bool { return c.Txn.Largest(c.Keys[:1]) >= largeValue }

// largeSet is for SET, of a large value and without options.
func largeSet(c *Ctx) bool { return len(c.Args) == 3 && len(c.Args[2]) >= largeStore }

// largeProduct is for LCS, which compares all of the one string with all of the other.
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

// mayOffload reports whether the handler may end with errOffload: it is not part of a transaction,
// is no job yet, and does not run again for a session that is blocked, which has its place in
// lines.
func (c *Ctx) mayOffload() bool {
	return c.Scope == KeysOnly && !c.Nested && !c.Past.Waited && c.Past.Offloads < maxOffloads
}

// offloads reports whether a handler that has looked one key up to read it, and finds so many
// elements or bytes that they are most or more, is to end with errOffload: it can.
func (c *Ctx) offloads(many, most int) bool {
	return many >= most && c.Spec.Is(ReadOnly) && c.mayOffload()
}

// toOffload reports whether the call, whose keys are locked, is to be a job of scope Pinned.
func (c *Ctx) toOffload() bool {
	return c.Spec.Offload != nil && len(c.Keys) <= manyElements && c.Past.Offloads < maxOffloads && c.Spec.Offload(c)
}
