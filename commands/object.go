package commands

import (
	"keyp/storage"
)

var objectCommands = []Spec{
	{
		Name: "OBJECT", Group: Generic, Since: "2.2.3",
		Summary:    "Describes how a value is kept.",
		Complexity: "Depends on the subcommand.",
		Arity:      -2,
		Sub: []Spec{
			objectCommand("ENCODING", "2.2.3", "Replies the name of a value's encoding.",
				objectEncoding),
			objectCommand("FREQ", "4.0.0",
				"Replies how often a key is accessed, on a logarithmic scale.", objectFreq),
			helpFor("OBJECT", Generic, "6.2.0", Loading|Stale,
				"ENCODING <key>",
				"    Reply the name of the value's encoding.",
				"FREQ <key>",
				"    Reply how often the key is accessed, on a logarithmic scale.",
				"IDLETIME <key>",
				"    Reply for how many seconds the key has not been accessed.",
				"REFCOUNT <key>",
				"    Reply by how many keys the value is shared.",
			),
			objectCommand("IDLETIME", "2.2.3",
				"Replies for how many seconds a key has not been accessed.", objectIdle),
			objectCommand("REFCOUNT", "2.2.3",
				"Replies by how many keys a value is shared; here always 1.", objectRefs),
		},
	},
}

// objectCommand declares a subcommand that replies with a fact about a key, without marking it as
// accessed. For a missing or expired key it replies with null.
func objectCommand(name, since, summary string, reply func(*Ctx, storage.Item) error) Spec {
	return Spec{
		Name: name, Group: Generic, Since: since,
		Summary:    summary,
		Complexity: "O(1)",
		Arity:      3, Flags: ReadOnly,
		Keys: []KeySpec{Key(2, RO)},
		Args: []Arg{keyArg("key")},
		Tips: []string{tipRandom},
		Run: func(c *Ctx) error {
			item, ok := c.Txn.Peek(c.Keys[0])
			if !ok {
				c.Out.Null()
				return nil
			}
			return reply(c, item)
		},
	}
}

func objectEncoding(c *Ctx, item storage.Item) error {
	c.Out.BulkString(item.Encoding())
	return nil
}

func objectFreq(c *Ctx, item storage.Item) error {
	count, ok := c.Txn.Frequency(item)
	if !ok {
		return ErrNoLFU
	}
	c.Out.Int(int64(count))
	return nil
}

func objectIdle(c *Ctx, item storage.Item) error {
	if _, counted := c.Txn.Frequency(item); counted {
		return ErrLFU
	}
	c.Out.Int(max(c.Txn.Now()/1000-int64(item.Access()), 0))
	return nil
}

func objectRefs(c *Ctx, _ storage.Item) error {
	c.Out.Int(1)
	return nil
}
