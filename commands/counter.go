package commands

import (
	"math"
	"strconv"

	"keyp/resp"
	"keyp/storage"
	"keyp/ttl"
)

var counterCommands = []Spec{
	counterCommand("INCR", "1.0.0",
		"Adds one to the integer that a key holds, 0 if the key is missing.",
		func(c *Ctx) error { return addInt(c, 1) }),
	counterCommand("INCRBY", "1.0.0",
		"Adds a number to the integer that a key holds, 0 if the key is missing.", runIncrBy,
		intArg("increment")),
	counterCommand("INCRBYFLOAT", "2.6.0",
		"Adds a floating point number to the number that a key holds, 0 if the key is missing.",
		runIncrByFloat, doubleArg("increment")),
	counterCommand("DECR", "1.0.0",
		"Takes one from the integer that a key holds, 0 if the key is missing.",
		func(c *Ctx) error { return addInt(c, -1) }),
	counterCommand("DECRBY", "1.0.0",
		"Takes a number from the integer that a key holds, 0 if the key is missing.", runDecrBy,
		intArg("decrement")),
}

// counterCommand declares a command with args after its key.
func counterCommand(name, since, summary string, run func(*Ctx) error, args ...Arg) Spec {
	return Spec{
		Name: name, Group: StringGroup, Since: since,
		Summary:    summary,
		Complexity: "O(1)",
		Arity:      2 + len(args), Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: append([]Arg{keyArg("key")}, args...),
		Run:  run,
	}
}

var (
	eventIncrBy      = storage.Event{Class: storage.EventString, Name: "incrby"}
	eventIncrByFloat = storage.Event{Class: storage.EventString, Name: "incrbyfloat"}
)

func runIncrBy(c *Ctx) error {
	by, ok := ParseInt(c.Arg(2))
	if !ok {
		return ErrNotInteger
	}
	return addInt(c, by)
}

func runDecrBy(c *Ctx) error {
	by, ok := ParseInt(c.Arg(2))
	if !ok {
		return ErrNotInteger
	}
	if by == math.MinInt64 { // has no opposite
		return ErrDecrOverflow
	}
	return addInt(c, -by)
}

// addInt adds by to the value of the command's key, which keeps its deadline. A missing key counts
// as 0.
func addInt(c *Ctx, by int64) error {
	k := c.Keys[0]
	var n, deadline int64
	if item, ok := c.Txn.Get(k); ok {
		value, err := item.String()
		if err != nil {
			return err
		}
		if n, ok = ParseInt(value); !ok {
			return ErrNotInteger
		}
		deadline = item.Deadline()
	}
	sum, err := addChecked(n, by)
	if err != nil {
		return err
	}
	var digits [20]byte
	c.Txn.SetString(k, strconv.AppendInt(digits[:0], sum, 10), ttl.At(deadline), eventIncrBy)
	c.Out.Int(sum)
	return nil
}

// addChecked returns the sum, or ErrOverflow.
func addChecked(n, by int64) (sum int64, err error) {
	sum = n + by
	if (sum > n) != (by > 0) && by != 0 {
		return 0, ErrOverflow
	}
	return sum, nil
}

// runIncrByFloat checks the key before the increment, as Redis does.
func runIncrByFloat(c *Ctx) error {
	k := c.Keys[0]
	var n resp.LongDouble
	var deadline int64
	if item, ok := c.Txn.Get(k); ok {
		value, err := item.String()
		if err != nil {
			return err
		}
		if n, ok = resp.ParseLongDouble(value); !ok {
			return ErrNotFloat
		}
		deadline = item.Deadline()
	}
	by, ok := resp.ParseLongDouble(c.Arg(2))
	if !ok {
		return ErrNotFloat
	}
	sum, ok := n.Add(by)
	if !ok {
		return ErrNaN
	}
	text := sum.Append(nil)
	c.Txn.SetString(k, text, ttl.At(deadline), eventIncrByFloat)
	c.Out.Bulk(text)
	return nil
}
