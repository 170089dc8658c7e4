package commands

import (
	"slices"

	"keyp/storage"
	"keyp/ttl"
)

// expireCommands are the commands that set, read and remove deadlines.
var expireCommands = slices.Concat(deadlineCommands, ttlCommands, memberDeadlineCommands)

var deadlineCommands = []Spec{
	expireCommand("EXPIRE", "1.0.0", "Sets a key's time to live in seconds.", &inSeconds),
	expireCommand("PEXPIRE", "2.6.0", "Sets a key's time to live in milliseconds.",
		&inMilliseconds),
	expireCommand("EXPIREAT", "1.2.0", "Sets a key's deadline, as a Unix time in seconds.",
		&atSeconds),
	expireCommand("PEXPIREAT", "2.6.0", "Sets a key's deadline, as a Unix time in milliseconds.",
		&atMilliseconds),
}

func expireCommand(name, since, summary string, form *timeForm) Spec {
	return Spec{
		Name: name, Group: Generic, Since: since,
		Summary:    summary,
		Complexity: "O(log N) in the keys with a deadline.",
		History:    [][2]string{{"7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`."}},
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), form.arg, expireConditions.since("7.0.0")},
		Run:  expire(form),
	}
}

var expireConditions = oneOf("condition", word("NX"), word("XX"), word("GT"), word("LT")).opt()

// timeForm is a form of a deadline: its unit, and the time from which it counts.
type timeForm struct {
	unit ttl.Unit
	base ttl.Base
	arg  Arg
}

var (
	inSeconds      = timeForm{ttl.Seconds, ttl.FromNow, intArg("seconds")}
	inMilliseconds = timeForm{ttl.Milliseconds, ttl.FromNow, intArg("milliseconds")}
	atSeconds      = timeForm{ttl.Seconds, ttl.Absolute, unixArg("unix-time-seconds")}
	atMilliseconds = timeForm{ttl.Milliseconds, ttl.Absolute, unixArg("unix-time-milliseconds")}
)

// condition adds the next argument to cond and returns true, if that is NX, XX, GT or LT.
func (a *Cursor) condition(cond *ttl.Condition) bool {
	switch {
	case a.Word("NX"):
		*cond |= ttl.NX
	case a.Word("XX"):
		*cond |= ttl.XX
	case a.Word("GT"):
		*cond |= ttl.GT
	case a.Word("LT"):
		*cond |= ttl.LT
	default:
		return false
	}
	return true
}

// parseCondition reads the options of the EXPIRE family. They may be repeated.
func parseCondition(a Cursor) (ttl.Condition, error) {
	var cond ttl.Condition
	for a.More() {
		if !a.condition(&cond) {
			a.Fail(errOption(a.Bytes()))
		}
	}
	if err := a.Err(); err != nil {
		return 0, err
	}
	return cond, cond.Check()
}

// expire returns the handler of EXPIRE in one of its forms. It replies 1 if it sets the deadline,
// or deletes the key because the deadline is past. It replies 0 if there is no key or the condition
// is not met.
func expire(form *timeForm) func(*Ctx) error {
	set := deadlines.SetExpire
	if form.base == ttl.Absolute {
		set = deadlines.SetExpireAt
	}
	return func(c *Ctx) error {
		cond, err := parseCondition(c.Cursor(3))
		if err != nil {
			return err
		}
		n, ok := ParseInt(c.Arg(2))
		if !ok {
			return ErrNotInteger
		}
		done, err := set(c.deadlines(), c.Keys[0], n, form.unit, cond)
		if err != nil {
			return err
		}
		c.Out.Int(int64(done))
		return nil
	}
}

// deadlines reads, changes and removes the deadlines of keys, or of one member of each key, within
// a command's transaction.
type deadlines = ttl.Manager[storage.Key]

func (c *Ctx) deadlines() deadlines { return ttl.NewManager[storage.Key](c.Txn) }

// memberDeadlines is like deadlines, for the member name of the command's key.
func (c *Ctx) memberDeadlines(name []byte) deadlines {
	return ttl.NewManager[storage.Key](c.Txn.Members(name))
}
