package commands

import "keyp/ttl"

var ttlCommands = []Spec{
	ttlCommand("TTL", "1.0.0", "Replies the time to live of a key, or of a member, in seconds, -1 without one, -2 where there is none.",
		ttl.Manager.GetTTL),
	ttlCommand("PTTL", "2.6.0", "Replies the time to live of a key, or of a member, in milliseconds, -1 without one, -2 where there is none.",
		ttl.Manager.GetPTTL),
	expireTimeCommand("EXPIRETIME", "7.0.0", "Replies a key's deadline as a Unix time in seconds, -1 without one, -2 for a missing key.",
		ttl.Manager.GetExpireTime),
	expireTimeCommand("PEXPIRETIME", "7.0.0", "Replies a key's deadline as a Unix time in milliseconds, -1 without one, -2 for a missing key.",
		ttl.Manager.GetPExpireTime),
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

// expireTimeCommand declares a command that replies what ask says of its key.
func expireTimeCommand(name, since, summary string, ask func(ttl.Manager, []byte) (int64, error)) Spec {
	return Spec{
		Name: name, Group: Generic, Since: since,
		Summary:    summary,
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key")},
		Run:  replyTime(ask),
	}
}

// ttlCommand is expireTimeCommand for one that takes a member too.
func ttlCommand(name, since, summary string, ask func(ttl.Manager, []byte) (int64, error)) Spec {
	s := expireTimeCommand(name, since, summary, ask)
	s.Arity, s.Args = -2, keyOrMember
	s.History, s.Tips = [][2]string{{"2.8.0", "Added the -2 reply."}}, []string{tipRandom}
	return s
}

// The member is not Redis's: KeyDB's commands take one.
var keyOrMember = []Arg{keyArg("key"), stringArg("member").opt()}

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

// replyTime is TTL and the like.
func replyTime(ask func(ttl.Manager, []byte) (int64, error)) func(*Ctx) error {
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
