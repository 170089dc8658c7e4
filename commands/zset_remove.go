package commands

import (
	"strings"

	"keyp/storage"
)

// zsetRemoveRangeCommands remove parts of sorted sets.
var zsetRemoveRangeCommands = []Spec{
	removeRangeCommand("ZREMRANGEBYRANK", "2.0.0",
		"Removes the members of a sorted set in a range of ranks.",
		parseRanks, intArg("start"), intArg("stop")),
	removeRangeCommand("ZREMRANGEBYSCORE", "1.2.0",
		"Removes the members of a sorted set with scores in a range.",
		parseScores, doubleArg("min"), doubleArg("max")),
	removeRangeCommand("ZREMRANGEBYLEX", "2.8.9",
		"Removes the members of a sorted set in a range of their bytes.",
		parseLex, stringArg("min"), stringArg("max")),
}

func removeRangeCommand(name, since, summary string, parse parseSpan, low, high Arg) Spec {
	return Spec{
		Name: name, Group: SortedSet, Since: since,
		Summary:    summary,
		Complexity: "O(M log N), M being the members to remove and N the size of the sorted set.",
		Arity:      4, Flags: Write,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), low, high},
		Run:  removeRange(parse, strings.ToLower(name)),
	}
}

func removeRange(parse parseSpan, event string) func(*Ctx) error {
	ev := storage.Event{Class: storage.EventZSet, Name: event}
	return func(c *Ctx) error {
		s, err := parse(c.Arg(2), c.Arg(3))
		if err != nil {
			return err
		}
		z, err := c.Txn.ZSet(c.Keys[0])
		if err != nil {
			return err
		}
		from, to := s.ranks(z.Value())
		n := max(to-from, 0)
		c.removeRanks(&z, from, n, ev)
		c.Out.Int(int64(n))
		return nil
	}
}

// removeRanks removes the n members from rank from on and raises the event. If these are all
// members, it deletes the key. That takes one log record in place of one for each member.
func (c *Ctx) removeRanks(z *storage.ZSet, from, n int, ev storage.Event) {
	if n == 0 {
		return
	}
	k := c.Keys[0]
	c.Txn.Notify(k, ev)
	if n == z.Value().Len() {
		c.Txn.Delete(k, storage.Deleted)
		return
	}
	z.RemoveRange(from, from+n)
}
