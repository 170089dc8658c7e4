package commands

import (
	"keyp/storage/object"
	"keyp/ttl"
)

// memberDeadlineCommands are commands of KeyDB. They set deadlines for members of sets and sorted
// sets, and fields of hashes. TTL, PTTL and PERSIST accept a member too.
var memberDeadlineCommands = []Spec{
	{
		Name: "EXPIREMEMBER", Group: Generic, Since: "5.1.0",
		Summary:    "Sets the time to live of a member of a set or sorted set, or of a field of a hash.",
		Complexity: "O(log N) in the members with a deadline.",
		Arity:      -4, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"), stringArg("member"), intArg("delay"),
			oneOf("unit", word("s"), word("ms")).opt(),
		},
		Run: runExpireMember,
	},
	expireMemberAtCommand("EXPIREMEMBERAT", "5.1.0",
		"Sets the deadline of a member of a set or sorted set, or of a field of a hash, as a Unix time in seconds.",
		&atSeconds),
	expireMemberAtCommand("PEXPIREMEMBERAT", "6.0.0",
		"Sets the deadline of a member of a set or sorted set, or of a field of a hash, as a Unix time in milliseconds.",
		&atMilliseconds),
}

func expireMemberAtCommand(name, since, summary string, form *timeForm) Spec {
	return Spec{
		Name: name, Group: Generic, Since: since,
		Summary:    summary,
		Complexity: "O(log N) in the members with a deadline.",
		Arity:      4, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), stringArg("member"), form.arg},
		Run:  func(c *Ctx) error { return expireMember(c, form) },
	}
}

// KeyDB's errors.
const (
	errMemberArgs Error = "ERR Invalid number of arguments"
	errMemberUnit Error = "ERR Invalid unit arg"
	errMemberType Error = "ERR object type is unsupported"
)

func runExpireMember(c *Ctx) error {
	if _, ok := ParseInt(c.Arg(3)); !ok {
		return ErrNotInteger
	}
	form := &inSeconds
	switch a := c.Cursor(4); {
	case a.Len() > 1:
		return errMemberArgs
	case a.Word("MS"):
		form = &inMilliseconds
	case a.Len() > 0 && !a.Word("S"):
		return errMemberUnit
	}
	return expireMember(c, form)
}

// expireMember replies with 1 if it has set the deadline of the member, or has removed the member
// because the deadline has passed. It replies 0 if there is no such member.
func expireMember(c *Ctx, form *timeForm) error {
	n, ok := ParseInt(c.Arg(3))
	if !ok {
		return ErrNotInteger
	}
	deadline, err := ttl.Resolve(c.Txn.Now(), n, form.unit, form.base)
	if err == nil && deadline.At > ttl.MaxField {
		err = ttl.ErrInvalidTTL
	}
	if err != nil {
		return err
	}
	done := int64(1)
	if !c.Txn.Members(c.Arg(2)).Expire(c.Keys[0], deadline, 0) {
		done = 0
		if item, ok := c.Txn.Peek(c.Keys[0]); ok && !object.HasMembers(item.Type()) {
			return errMemberType
		}
	}
	c.Out.Int(done)
	return nil
}
