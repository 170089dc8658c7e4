package commands

import "keyp/storage"

var getCommands = []Spec{
	{
		Name: "GET", Group: StringGroup, Since: "1.0.0",
		Summary:    "Replies the string that a key holds.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key")},
		Run:  replyString,
	},
	{
		Name: "GETDEL", Group: StringGroup, Since: "6.2.0",
		Summary:    "Replies the string that a key holds and deletes the key.",
		Complexity: "O(1)",
		Arity:      2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete)},
		Args: []Arg{keyArg("key")},
		Run:  runGetDel,
	},
	{
		Name: "GETEX", Group: StringGroup, Since: "6.2.0",
		Summary:    "Replies the string that a key holds and changes the key's time to live.",
		Complexity: "O(1)",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{keyArg("key"), expiryArgs(word("PERSIST"))},
		Run:  runGetEx,
	},
	{
		Name: "MGET", Group: StringGroup, Since: "1.0.0",
		Summary:    "Replies the strings that several keys hold.",
		Complexity: "O(N) in the number of keys.",
		Arity:      -2, Flags: ReadOnly | Fast,
		Keys:    []KeySpec{KeysFrom(1, 1, RO|Access)},
		Args:    []Arg{keyArg("key").many()},
		Tips:    []string{tipMultiShard},
		Offload: largeValues,
		Run:     runMGet,
	},
}

// replyString replies with the value of the command's key, or with null if the key is missing.
func replyString(c *Ctx) error {
	value, ok, err := c.readString(c.Keys[0])
	switch {
	case err != nil:
		return err
	case c.offloads(len(value), largeValue):
		return errOffload
	case ok:
		c.Out.Bulk(value)
	default:
		c.Out.Null()
	}
	return nil
}

func runGetDel(c *Ctx) error {
	if err := replyString(c); err != nil {
		return err
	}
	c.Txn.Delete(c.Keys[0], storage.Deleted)
	return nil
}

// parseGetEx reads the options after GETEX's key.
func parseGetEx(a Cursor) (expiry, error) {
	var e expiry
	for a.More() {
		if !e.option(&a, "PERSIST") {
			a.Fail(ErrSyntax)
		}
	}
	return e, a.Err()
}

func runGetEx(c *Ctx) error {
	e, err := parseGetEx(c.Cursor(2))
	if err != nil {
		return err
	}
	k := c.Keys[0]
	item, ok := c.read(k)
	if !ok { // before the option's number is looked at, as in Redis
		c.Out.Null()
		return nil
	}
	value, err := item.String()
	if err != nil {
		return err
	}
	deadline, err := e.deadline(c.Txn)
	if err != nil {
		return err
	}
	c.Out.Bulk(value)
	switch {
	case e.form != nil:
		c.Txn.Expire(k, deadline, 0)
	case e.other: // PERSIST
		c.deadlines().Persist(k)
	}
	return nil
}

// runMGet replies with null for a missing key and for one that holds another type.
func runMGet(c *Ctx) error {
	c.Out.Array(len(c.Keys))
	for _, k := range c.EachKey {
		if value, ok, err := c.readString(k); ok && err == nil {
			c.Out.Bulk(value)
		} else {
			c.Out.Null()
		}
	}
	return nil
}
