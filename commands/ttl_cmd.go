package commands

import (
	"keyp/storage"
	"keyp/ttl"
)

var ttlCommands = []Spec{
	ttlCommand("TTL", "1.0.0",
		"Replies the time to live of a key, or of a member, in seconds, -1 without one, -2 where there is none.",
		deadlines.GetTTL),
	ttlCommand("PTTL", "2.6.0",
		"Replies the time to live of a key, or of a member, in milliseconds, -1 without one, -2 where there is none.",
		deadlines.GetPTTL),
	expireTimeCommand("EXPIRETIME", "7.0.0",
		"Replies a key's deadline as a Unix time in seconds, -1 without one, -2 for a missing key.",
		deadlines.GetExpireTime),
	expireTimeCommand("PEXPIRETIME", "7.0.0",
		"Replies a key's deadline as a Unix time in milliseconds, -1 without one, -2 for a missing key.",
		deadlines.GetPExpireTime),
	{
		Name: "PERSIST", Group: Generic, Since: "2.2.0",
		Summary:    "Removes the deadline of a key, or of a member.",
		Complexity: "O(log N) in the keys or members with a deadline.",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: keyOrMember,
		Run:  runPersist,
	},
}

// expireTimeCommand declares a command that replies with the result of ask for its key.
func expireTimeCommand(name, since, summary string, ask func(deadlines, storage.Key) int64) Spec {
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

// ttlCommand is expireTimeCommand for a command that also takes a member.
func ttlCommand(name, since, summary string, ask func(deadlines, storage.Key) int64) Spec {
	s := expireTimeCommand(name, since, summary, ask)
	s.Arity, s.Args = -2, keyOrMember
	s.History, s.Tips = [][2]string{{"2.8.0", "Added the -2 reply."}}, []string{tipRandom}
	return s
}

// Redis's commands take no member; those of KeyDB do.
var keyOrMember = []Arg{keyArg("key"), stringArg("member").opt()}

// subject returns the deadlines of the command's subject: its key, or one of the key's members.
func (c *Ctx) subject() (deadlines, error) {
	switch len(c.Args) {
	case 2:
		return c.deadlines(), nil
	case 3:
		return c.memberDeadlines(c.Arg(2)), nil
	default:
		return deadlines{}, errArity(c.Spec.full)
	}
}

// replyTime returns the handler of TTL and its like.
func replyTime(ask func(deadlines, storage.Key) int64) func(*Ctx) error {
	return func(c *Ctx) error {
		m, err := c.subject()
		if err != nil {
			return err
		}
		k := c.Keys[0]
		n := ask(m, k)
		exists := n != ttl.Missing
		if !exists && len(c.Args) == 3 { // the member may be missing, or the key
			_, exists = c.Txn.Peek(k)
		}
		c.count(k, exists)
		c.Out.Int(n)
		return nil
	}
}

// runPersist replies with 1 if there was a deadline to remove, and otherwise with 0.
func runPersist(c *Ctx) error {
	m, err := c.subject()
	if err != nil {
		return err
	}
	c.Out.Int(int64(m.Persist(c.Keys[0])))
	return nil
}
