package commands

import (
	"keyp/storage"
	"keyp/storage/object"
)

var zsetPopCommands = []Spec{
	zpopCommand("ZPOPMIN",
		"Removes and replies the members of a sorted set with the lowest scores.", lowest),
	zpopCommand("ZPOPMAX",
		"Removes and replies the members of a sorted set with the highest scores.", highest),
	multiPopCommand("ZMPOP", SortedSet,
		"Removes and replies members from the first of several sorted sets that has any.",
		zsetPopComplexity, popFromFirst(readZSetEnd), word("MIN"), word("MAX")),
}

func zpopCommand(name, summary string, end *zsetEnd) Spec {
	return Spec{
		Name: name, Group: SortedSet, Since: "5.0.0",
		Summary:    summary,
		Complexity: "O(M log N), M being the members to remove and N the size of the sorted set.",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete)},
		Args: []Arg{keyArg("key"), intArg("count").opt()},
		Run:  func(c *Ctx) error { return zpop(c, end) },
	}
}

// zsetEnd is an end of a sorted set.
type zsetEnd struct {
	highest bool
	event   storage.Event
}

var (
	lowest  = &zsetEnd{false, storage.Event{Class: storage.EventZSet, Name: "zpopmin"}}
	highest = &zsetEnd{true, storage.Event{Class: storage.EventZSet, Name: "zpopmax"}}
)

// readZSetEnd takes MIN or MAX; anything else is ErrSyntax.
func readZSetEnd(a *Cursor) popEnd {
	switch {
	case a.Word("MIN"):
		return lowest
	case a.Word("MAX"):
		return highest
	}
	a.Fail(ErrSyntax)
	return nil
}

func (end *zsetEnd) holds() object.Type { return object.TypeZSet }

// popOne replies with the key, the member and its score.
func (end *zsetEnd) popOne(c *Ctx, k storage.Key) (found bool, err error) {
	z, err := c.Txn.ZSet(k)
	if err != nil || !z.Exists() {
		return false, err
	}
	c.Out.Array(3)
	c.Out.Bulk(k.Name)
	c.popMembers(k, &z, 1, end, false)
	return true, nil
}

// popSome replies with the key and an array of pairs of members and scores.
func (end *zsetEnd) popSome(c *Ctx, k storage.Key, count int64) (found bool, err error) {
	z, err := c.Txn.ZSet(k)
	if err != nil || !z.Exists() {
		return false, err
	}
	n := int(min(count, int64(z.Value().Len())))
	c.Out.Array(2)
	c.Out.Bulk(k.Name)
	c.Out.Array(n)
	c.popMembers(k, &z, n, end, true)
	return true, nil
}

// zpop runs ZPOPMIN and ZPOPMAX. With a count, RESP3 clients get pairs. Otherwise the reply is a
// flat array.
func zpop(c *Ctx, end *zsetEnd) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	count, pairs := int64(1), false
	if len(c.Args) == 3 {
		a := c.Cursor(2)
		if count = a.IntFrom(0, ErrIntPositive); a.Err() != nil {
			return a.Err()
		}
		pairs = c.Out.Proto >= 3
	}
	z, err := c.Txn.ZSet(c.Keys[0])
	if err != nil {
		return err
	}
	n := int(min(count, int64(z.Value().Len())))
	if pairs {
		c.Out.Array(n)
	} else {
		c.Out.Array(2 * n)
	}
	c.popMembers(c.Keys[0], &z, n, end, pairs)
	return nil
}

// popMembers removes n members from an end and writes them, as pairs or one after another.
func (c *Ctx) popMembers(k storage.Key, z *storage.ZSet, n int, end *zsetEnd, pairs bool) {
	if n == 0 {
		return
	}
	from := 0
	if end.highest {
		from = z.Value().Len() - n
	}
	z.Value().Range(from, from+n, end.highest, func(member []byte, score float64, _ int64) bool {
		if pairs {
			c.Out.Array(2)
		}
		c.Out.Bulk(member)
		c.Out.Double(score)
		return true
	})
	z.RemoveRange(from, from+n)
	c.Txn.Notify(k, end.event)
}
