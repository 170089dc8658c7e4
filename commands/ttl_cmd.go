package commands

import "keyp/ttl"

var ttlCommands = []Spec{
	{
		Name: "TTL", Group: Generic, Since: "1.0.0",
		Summary:    "Replies the time to live of a key, or of a member, in seconds, -1 without one, -2 where there is none.",
		Complexity: "O(1)",
		History:    ttlHistory,
		Arity:      -2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: keyOrMember,
		Tips: []string{tipRandom},
		Run:  tell(ttl.Manager.GetTTL),
	},
	{
		Name: "PTTL", Group: Generic, Since: "2.6.0",
		Summary:    "Replies the time to live of a key, or of a member, in milliseconds, -1 without one, -2 where there is none.",
		Complexity: "O(1)",
		History:    ttlHistory,
		Arity:      -2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: keyOrMember,
		Tips: []string{tipRandom},
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
		Summary:    "Takes away the deadline of a key, or of a member.",
		Complexity: "O(log N) in the keys or members with a deadline.",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: keyOrMember,
		Run:  runPersist,
	},
}

var (
	ttlHistory = [][2]string{{"2.8.0", "Added the -2 reply."}}
	// The member is not Redis's: KeyDB's commands take one.
	keyOrMember = []Arg{keyArg("key"), stringArg("member").opt()}
)

// named gives what the command is about, a key or one of its members, and the manager of
// its deadline.
func (c *Ctx) named() (ttl.Manager, []byte, error) {
	switch len(c.Args) {
	case 2:
		return c.deadlines(), c.Arg(1), nil
	case 3:
		return c.memberDeadlines(), c.Arg(2), nil
	default:
		return ttl.Manager{}, nil, errArity(c.Spec.full)
	}
}

// tell is TTL and its kin.
func tell(ask func(ttl.Manager, []byte) (int64, error)) func(*Ctx) error {
	return func(c *Ctx) error {
		m, name, err := c.named()
		if err != nil {
			return err
		}
		n, err := ask(m, name)
		if err != nil {
			return err
		}
		c.Out.Int(n)
		return nil
	}
}

// runPersist replies 1 when there was a deadline to take away.
func runPersist(c *Ctx) error {
	m, name, err := c.named()
	if err != nil {
		return err
	}
	done, err := m.Persist(name)
	if err != nil {
		return err
	}
	c.Out.Int(int64(done))
	return nil
}
