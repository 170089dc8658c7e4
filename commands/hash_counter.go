package commands

import (
	"strconv"

	"keyp/resp"
	"keyp/ttl"
)

var hashCounterCommands = []Spec{
	{
		Name: "HINCRBY", Group: HashGroup, Since: "2.0.0",
		Summary:    "Adds a number to the integer in a field of a hash, 0 if the field is missing.",
		Complexity: "O(1)",
		Arity:      4, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{keyArg("key"), stringArg("field"), intArg("increment")},
		Run:  runHIncrBy,
	},
	{
		Name: "HINCRBYFLOAT", Group: HashGroup, Since: "2.6.0",
		Summary:    "Adds a floating point number to the number in a field of a hash, 0 if the field is missing.",
		Complexity: "O(1)",
		Arity:      4, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{keyArg("key"), stringArg("field"), doubleArg("increment")},
		Run:  runHIncrByFloat,
	},
}

const (
	errHashInteger Error = "ERR hash value is not an integer"
	errHashFloat   Error = "ERR hash value is not a float"
	errNotFinite   Error = "ERR value is NaN or Infinity"
)

var (
	eventHIncrBy      = hashEvent("hincrby")
	eventHIncrByFloat = hashEvent("hincrbyfloat")
)

// runHIncrBy checks the increment before it reads the key, and keeps the field's deadline.
func runHIncrBy(c *Ctx) error {
	by, ok := ParseInt(c.Arg(3))
	if !ok {
		return ErrNotInteger
	}
	k := c.Keys[0]
	h, err := c.Txn.Hash(k)
	if err != nil {
		return err
	}
	var n int64
	val, deadline, found := h.Value().Get(c.Arg(2))
	if found {
		if n, ok = ParseInt(val); !ok {
			return errHashInteger
		}
	}
	sum, err := addChecked(n, by)
	if err != nil {
		return err
	}
	var digits [20]byte
	h.Set(c.Arg(2), strconv.AppendInt(digits[:0], sum, 10), ttl.At(deadline))
	c.Txn.NotifyFields(k, eventHIncrBy, c.Arg(2))
	c.Out.Int(sum)
	return nil
}

// runHIncrByFloat is runHIncrBy for floating point numbers.
func runHIncrByFloat(c *Ctx) error {
	by, ok := resp.ParseLongDouble(c.Arg(3))
	switch {
	case !ok:
		return ErrNotFloat
	case by.IsInf():
		return errNotFinite
	}
	k := c.Keys[0]
	h, err := c.Txn.Hash(k)
	if err != nil {
		return err
	}
	var n resp.LongDouble
	val, deadline, found := h.Value().Get(c.Arg(2))
	if found {
		if n, ok = resp.ParseLongDouble(val); !ok {
			return errHashFloat
		}
	}
	sum, ok := n.Add(by)
	if !ok {
		return ErrNaN
	}
	text := sum.Append(nil)
	h.Set(c.Arg(2), text, ttl.At(deadline))
	c.Txn.NotifyFields(k, eventHIncrByFloat, c.Arg(2))
	c.Out.Bulk(text)
	return nil
}
