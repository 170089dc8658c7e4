package commands

import (
	"keyp/storage/object"
)

// The commands of sorted sets that wait while there is nothing to take. They are woken by
// whatever makes a sorted set of one of their keys.
var zsetBlockCommands = []Spec{
	{
		Name: "BZPOPMIN", Group: SortedSet, Since: "5.0.0",
		Summary:    "Takes the member with the lowest score from the first sorted set, of those named, that has any, or waits for one.",
		Complexity: "O(log N) in the size of the sorted set.",
		History:    [][2]string{{"6.0.0", "`timeout` is interpreted as a double instead of an integer."}},
		Arity:      -3, Flags: Write | Fast | Blocking,
		Keys: blockingKeys,
		Args: []Arg{keyArg("key").many(), doubleArg("timeout")},
		Run:  func(c *Ctx) error { return blockingZPop(c, popLowest) },
	},
	{
		Name: "BZPOPMAX", Group: SortedSet, Since: "5.0.0",
		Summary:    "Takes the member with the highest score from the first sorted set, of those named, that has any, or waits for one.",
		Complexity: "O(log N) in the size of the sorted set.",
		History:    [][2]string{{"6.0.0", "`timeout` is interpreted as a double instead of an integer."}},
		Arity:      -3, Flags: Write | Fast | Blocking,
		Keys: blockingKeys,
		Args: []Arg{keyArg("key").many(), doubleArg("timeout")},
		Run:  func(c *Ctx) error { return blockingZPop(c, popHighest) },
	},
	{
		Name: "BZMPOP", Group: SortedSet, Since: "7.0.0",
		Summary:    "Takes members from the first sorted set, of those named, that has any, or waits for some.",
		Complexity: "O(K + M log N), K being the keys, M the members to remove and N the size of the sorted set.",
		Arity:      -5, Flags: Write | Blocking,
		Keys: []KeySpec{NumKeys(2, RW|Access|Delete)},
		Args: []Arg{
			doubleArg("timeout"), intArg("numkeys"), keyArg("key").many(), oneOf("where", word("MIN"), word("MAX")),
			intArg("count").after("COUNT").opt(),
		},
		Run: runBZMPop,
	},
}

// blockingZPop replies the key that had a member, the member and its score; a null array
// when the time is up.
func blockingZPop(c *Ctx, end popEnd) error {
	timeout, err := c.lastTimeout()
	if err != nil {
		return err
	}
	for _, k := range c.Keys {
		z, err := c.Txn.ZSet(k)
		if err != nil {
			return err
		}
		if z.Exists() {
			c.Out.Array(3)
			c.Out.Bulk(k.Name)
			c.popMembers(k, &z, 1, end, false)
			return nil
		}
	}
	return c.block(c.Keys, object.TypeZSet, timeout)
}

func runBZMPop(c *Ctx) error {
	o, err := parseZMPop(c.Cursor(2))
	if err != nil {
		return err
	}
	timeout, err := c.firstTimeout()
	if err != nil {
		return err
	}
	found, err := c.popFirstZSet(o)
	if err != nil || found {
		return err
	}
	return c.block(c.Keys, object.TypeZSet, timeout)
}
