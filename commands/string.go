package commands

import (
	"slices"

	"keyp/ttl"
)

// stringCommands are the commands of strings. Each kind of command has a file.
var stringCommands = slices.Concat(setCommands, msetexCommands, getCommands, compareCommands,
	counterCommands, increxCommands, rangeCommands, lcsCommands)

var setCommands = []Spec{
	{
		Name: "SET", Group: StringGroup, Since: "1.0.0",
		Summary:    "Stores a string under a key, whatever the key held before, with conditions and a time to live if asked.",
		Complexity: "O(1); with `IFDEQ` and `IFDNE` O(N) in the length of the string.",
		History: [][2]string{
			{"2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."},
			{"6.0.0", "Added the `KEEPTTL` option."},
			{"6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."},
			{"7.0.0", "Allowed the `NX` and `GET` options to be used together."},
			{"8.4.0", "Added the `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE` options."},
		},
		Arity: -3, Flags: Write | DenyOOM,
		Keys:    []KeySpec{{Begin: 1, Flags: RW | Access | Update | VariableFlags, Vary: setFlags}},
		Offload: largeSet,
		Args: []Arg{
			keyArg("key"), stringArg("value"),
			oneOf("condition", compareArgs("8.4.0", word("NX"), word("XX"))...).opt().since(
				"2.6.12"),
			word("GET").opt().since("6.2.0"),
			expiryArgs(word("KEEPTTL").since("6.0.0"), "2.6.12", "2.6.12", "6.2.0", "6.2.0"),
		},
		Run: runSet,
	},
	{
		Name: "SETNX", Group: StringGroup, Since: "1.0.0",
		Summary:    "Stores a string under a key that does not exist yet.",
		Complexity: "O(1)",
		Arity:      3, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, OW|Insert)},
		Args: []Arg{keyArg("key"), stringArg("value")},
		Run:  runSetNX,
	},
	setForCommand("SETEX", "2.0.0", "Stores a string with a time to live in seconds.", &inSeconds),
	setForCommand("PSETEX", "2.6.0", "Stores a string with a time to live in milliseconds.",
		&inMilliseconds),
	{
		Name: "GETSET", Group: StringGroup, Since: "1.0.0",
		Summary:    "Stores a string, without a time to live, and replies what the key held.",
		Complexity: "O(1)",
		Arity:      3, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{keyArg("key"), stringArg("value")},
		Run:  runGetSet,
	},
	storeAllCommand("MSET", "Stores several strings at once.", OW|Update,
		[]string{tipMultiShard, tipAllSucceeded}, runMSet),
	storeAllCommand("MSETNX", "Stores several strings at once, if none of the keys exists.",
		OW|Insert, nil, runMSetNX),
}

// storeAllCommand declares a command that stores pairs.
func storeAllCommand(name, summary string, keys KeyFlags, tips []string,
	run func(*Ctx) error) Spec {
	return Spec{
		Name: name, Group: StringGroup, Since: "1.0.1",
		Summary:    summary,
		Complexity: "O(N) in the number of keys.",
		Arity:      -3, Flags: Write | DenyOOM,
		Keys: []KeySpec{KeysFrom(1, 2, keys)},
		Args: []Arg{block("data", keyArg("key"), stringArg("value")).many()},
		Tips: tips,
		Run: func(c *Ctx) error {
			if len(c.Args)%2 == 0 {
				return errArity(c.Spec.full)
			}
			return run(c)
		},
	}
}

// setOptions are the options after SET's value.
type setOptions struct {
	condition stringCondition
	get       bool
	expiry    expiry // or KEEPTTL
}

// parseSet reads SET's options. Repeating one is allowed, as in Redis.
func parseSet(a Cursor) (setOptions, error) {
	var o setOptions
	for a.More() {
		switch {
		case o.condition.option(&a):
		case a.Word("GET"):
			o.get = true
		case o.expiry.option(&a, "KEEPTTL"):
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o, a.Err()
}

// setFlags returns the flags of SET's key. SET reads the key if it replies with the value or
// depends on it.
func setFlags(args [][]byte) KeyFlags {
	for _, arg := range args[3:] {
		for _, word := range []string{"GET", "IFEQ", "IFNE", "IFDEQ", "IFDNE"} {
			if isWord(arg, word) {
				return RW | Access | Update
			}
		}
	}
	return OW | Update
}

func runSet(c *Ctx) error {
	if len(c.Args) == 3 {
		c.set(c.Keys[0], c.Arg(2))
		c.Out.OK()
		return nil
	}
	o, err := parseSet(c.Cursor(3))
	if err != nil {
		return err
	}
	deadline, err := o.expiry.deadline(c.Txn)
	if err != nil {
		return err
	}
	return setWith(c, &o, deadline)
}

// setWith runs SET with options. It reads the old value only if an option needs it, so only then
// another type is an error.
func setWith(c *Ctx, o *setOptions, deadline ttl.Deadline) error {
	k := c.Keys[0]
	look := c.Txn.Peek
	if o.get {
		look = c.read
	}
	item, exists := look(k)
	var old []byte
	if exists && (o.get || o.condition.comparing()) {
		var err error
		if old, err = item.String(); err != nil {
			return err
		}
	}
	holds, err := o.condition.holds(old, exists)
	if err != nil {
		return err
	}
	switch {
	case o.get && exists:
		c.Out.Bulk(old)
	case o.get || !holds:
		c.Out.Null()
	default:
		c.Out.OK()
	}
	if holds {
		c.storeKeeping(k, c.Arg(2), deadline, o.expiry.other)
	}
	return nil
}

func runSetNX(c *Ctx) error {
	_, exists := c.Txn.Peek(c.Keys[0])
	if !exists {
		c.set(c.Keys[0], c.Arg(2))
	}
	c.bit(!exists)
	return nil
}

func setForCommand(name, since, summary string, form *timeForm) Spec {
	return Spec{
		Name: name, Group: StringGroup, Since: since,
		Summary:    summary,
		Complexity: "O(1)",
		Arity:      4, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, OW|Update)},
		Args: []Arg{keyArg("key"), form.arg, stringArg("value")},
		Run:  setFor(form),
	}
}

// setFor returns the handler of SETEX or PSETEX.
func setFor(form *timeForm) func(*Ctx) error {
	return func(c *Ctx) error {
		e := expiry{form: form, arg: c.Arg(2)}
		deadline, err := e.deadline(c.Txn)
		if err != nil {
			return err
		}
		c.store(c.Keys[0], c.Arg(3), deadline)
		c.Out.OK()
		return nil
	}
}

func runGetSet(c *Ctx) error {
	if err := replyString(c); err != nil {
		return err
	}
	c.set(c.Keys[0], c.Arg(2))
	return nil
}

func runMSet(c *Ctx) error {
	storeAll(c)
	c.Out.OK()
	return nil
}

func runMSetNX(c *Ctx) error {
	for _, k := range c.EachKey {
		if _, exists := c.Txn.Peek(k); exists {
			c.Out.Int(0)
			return nil
		}
	}
	storeAll(c)
	c.Out.Int(1)
	return nil
}

// storeAll stores the pairs of MSET and MSETNX. A key that is named twice keeps its last value.
// The policies decide on every key before the first is stored.
func storeAll(c *Ctx) {
	for _, k := range c.Keys {
		c.Txn.MayWrite(k, ttl.None)
	}
	for i, k := range c.EachKey {
		c.set(k, c.Arg(2*i+2))
	}
}
