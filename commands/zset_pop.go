package commands

import "keyp/storage"

var zsetPopCommands = []Spec{
	{
		Name: "ZPOPMIN", Group: SortedSet, Since: "5.0.0",
		Summary:    "Removes and replies the members of a sorted set with the lowest scores.",
		Complexity: "O(M log N), M being the members to remove and N the size of the sorted set.",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete)},
		Args: []Arg{keyArg("key"), intArg("count").opt()},
		Run:  func(c *Ctx) error { return zpop(c, popLowest) },
	},
	{
		Name: "ZPOPMAX", Group: SortedSet, Since: "5.0.0",
		Summary:    "Removes and replies the members of a sorted set with the highest scores.",
		Complexity: "O(M log N), M being the members to remove and N the size of the sorted set.",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete)},
		Args: []Arg{keyArg("key"), intArg("count").opt()},
		Run:  func(c *Ctx) error { return zpop(c, popHighest) },
	},
	{
		Name: "ZMPOP", Group: SortedSet, Since: "7.0.0",
		Summary:    "Removes and replies members from the first of several sorted sets that has any.",
		Complexity: "O(K + M log N), K being the keys, M the members to remove and N the size of the sorted set.",
		Arity:      -4, Flags: Write,
		Keys: []KeySpec{NumKeys(1, RW|Access|Delete)},
		Args: []Arg{
			intArg("numkeys"), keyArg("key").many(), oneOf("where", word("MIN"), word("MAX")),
			intArg("count").after("COUNT").opt(),
		},
		Run: runZMPop,
	},
}

// popEnd is the end of a sorted set that members are taken from.
type popEnd struct {
	highest bool
	event   storage.Event
}

var (
	popLowest  = popEnd{false, storage.Event{Class: storage.EventZSet, Name: "zpopmin"}}
	popHighest = popEnd{true, storage.Event{Class: storage.EventZSet, Name: "zpopmax"}}
)

// zpop is ZPOPMIN and ZPOPMAX. With a count, RESP3 gets pairs; without, even one member
// is a flat array.
func zpop(c *Ctx, end popEnd) error {
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
func (c *Ctx) popMembers(k storage.Key, z *storage.ZSet, n int, end popEnd, pairs bool) {
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

// zmpopOptions is what stands around the keys of ZMPOP and BZMPOP.
type zmpopOptions struct {
	end   popEnd
	count int64
}

func parseZMPop(a Cursor) (zmpopOptions, error) {
	a.Skip(a.IntFrom(1, errNumKeys))
	o := zmpopOptions{end: popLowest, count: 1}
	switch {
	case a.Word("MIN"):
	case a.Word("MAX"):
		o.end = popHighest
	default:
		a.Fail(ErrSyntax)
	}
	for given := false; a.More(); given = true {
		if given || a.Len() == 1 || !a.Word("COUNT") {
			a.Fail(ErrSyntax)
		}
		o.count = a.IntFrom(1, errPopCount)
	}
	return o, a.Err()
}

// runZMPop replies the key that had members and what was taken, or null.
func runZMPop(c *Ctx) error {
	o, err := parseZMPop(c.Cursor(1))
	if err != nil {
		return err
	}
	found, err := c.popFirstZSet(o)
	if err == nil && !found {
		c.Out.NullArray()
	}
	return err
}

// popFirstZSet takes members from the first of the command's keys that has any, and
// replies the key and the members; nothing if none has.
func (c *Ctx) popFirstZSet(o zmpopOptions) (found bool, err error) {
	for _, k := range c.Keys {
		z, err := c.Txn.ZSet(k)
		if err != nil {
			return false, err
		}
		if !z.Exists() {
			continue
		}
		n := int(min(o.count, int64(z.Value().Len())))
		c.Out.Array(2)
		c.Out.Bulk(k.Name)
		c.Out.Array(n)
		c.popMembers(k, &z, n, o.end, true)
		return true, nil
	}
	return false, nil
}
