package commands

import (
	"slices"

	"keyp/ttl"
)

// expireCommands are the commands that set, ask and clear deadlines.
var expireCommands = slices.Concat(deadlineCommands, ttlCommands, memberDeadlineCommands)

var deadlineCommands = []Spec{
	{
		Name: "EXPIRE", Group: Generic, Since: "1.0.0",
		Summary:    "Sets a key's time to live in seconds.",
		Complexity: "O(log N) in the keys with a deadline.",
		History:    expireHistory,
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), intArg("seconds"), expireConditions},
		Run:  expire(ttl.Seconds, ttl.FromNow),
	},
	{
		Name: "PEXPIRE", Group: Generic, Since: "2.6.0",
		Summary:    "Sets a key's time to live in milliseconds.",
		Complexity: "O(log N) in the keys with a deadline.",
		History:    expireHistory,
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), intArg("milliseconds"), expireConditions},
		Run:  expire(ttl.Milliseconds, ttl.FromNow),
	},
	{
		Name: "EXPIREAT", Group: Generic, Since: "1.2.0",
		Summary:    "Sets a key's deadline, as a Unix time in seconds.",
		Complexity: "O(log N) in the keys with a deadline.",
		History:    expireHistory,
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), unixArg("unix-time-seconds"), expireConditions},
		Run:  expire(ttl.Seconds, ttl.Absolute),
	},
	{
		Name: "PEXPIREAT", Group: Generic, Since: "2.6.0",
		Summary:    "Sets a key's deadline, as a Unix time in milliseconds.",
		Complexity: "O(log N) in the keys with a deadline.",
		History:    expireHistory,
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), unixArg("unix-time-milliseconds"), expireConditions},
		Run:  expire(ttl.Milliseconds, ttl.Absolute),
	},
}

var (
	expireHistory    = [][2]string{{"7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`."}}
	expireConditions = oneOf("condition", word("NX"), word("XX"), word("GT"), word("LT")).opt().since("7.0.0")
)

// parseCondition reads the options of the EXPIRE family. They may be repeated.
func parseCondition(a Cursor) (ttl.Condition, error) {
	var cond ttl.Condition
	for a.More() {
		switch {
		case a.Word("NX"):
			cond |= ttl.NX
		case a.Word("XX"):
			cond |= ttl.XX
		case a.Word("GT"):
			cond |= ttl.GT
		case a.Word("LT"):
			cond |= ttl.LT
		default:
			a.Fail(errOption(a.Bytes()))
		}
	}
	if err := a.Err(); err != nil {
		return 0, err
	}
	return cond, cond.Check()
}

// expire is EXPIRE and its kin. It replies 1 when the key has the deadline or, the
// deadline being past, is deleted; 0 when there is no key or the condition says no.
func expire(unit ttl.Unit, base ttl.Base) func(*Ctx) error {
	return func(c *Ctx) error {
		cond, err := parseCondition(c.Cursor(3))
		if err != nil {
			return err
		}
		n, ok := ParseInt(c.Arg(2))
		if !ok {
			return ErrNotInteger
		}
		deadline, err := ttl.Deadline(c.Txn.Now(), n, unit, base)
		if err != nil {
			return err
		}
		done, err := c.deadlines().Expire(c.Arg(1), deadline, cond)
		if err != nil {
			return err
		}
		c.Out.Int(int64(done))
		return nil
	}
}
