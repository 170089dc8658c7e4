package commands

import "keyp/ttl"

var ttlCommands = []Spec{
	{
		Name: "TTL", Group: Generic, Since: "1.0.0",
		Summary:    "Replies a key's time to live in seconds, -1 without one, -2 for a missing key.",
		Complexity: "O(1)",
		History:    ttlHistory,
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key")},
		Run:  tell(ttl.Manager.GetTTL),
	},
	{
		Name: "PTTL", Group: Generic, Since: "2.6.0",
		Summary:    "Replies a key's time to live in milliseconds, -1 without one, -2 for a missing key.",
		Complexity: "O(1)",
		History:    ttlHistory,
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key")},
		Run:  tell(ttl.Manager.GetPTTL),
	},
	{
		Name: "EXPIRETIME", Group: Generic, Since: "7.0.0",
		Summary:    "Replies a key's deadline as a Unix time in seconds, -1 without one, -2 for a missing key.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key")},
		Run:  tell(ttl.Manager.GetExpireTime),
	},
	{
		Name: "PEXPIRETIME", Group: Generic, Since: "7.0.0",
		Summary:    "Replies a key's deadline as a Unix time in milliseconds, -1 without one, -2 for a missing key.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key")},
		Run:  tell(ttl.Manager.GetPExpireTime),
	},
	{
		Name: "PERSIST", Group: Generic, Since: "2.2.0",
		Summary:    "Takes away a key's deadline.",
		Complexity: "O(log N) in the keys with a deadline.",
		Arity:      2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key")},
		Run:  runPersist,
	},
}

var ttlHistory = [][2]string{{"2.8.0", "Added the -2 reply."}}

// tell is TTL and its kin.
func tell(ask func(ttl.Manager, []byte) (int64, error)) func(*Ctx) error {
	return func(c *Ctx) error {
		n, err := ask(c.deadlines(), c.Arg(1))
		if err != nil {
			return err
		}
		c.Out.Int(n)
		return nil
	}
}

// runPersist replies 1 when there was a deadline to take away.
func runPersist(c *Ctx) error {
	done, err := c.deadlines().Persist(c.Arg(1))
	if err != nil {
		return err
	}
	c.Out.Int(int64(done))
	return nil
}
