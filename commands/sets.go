package commands

import (
	"slices"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// setTypeCommands are the commands of sets. Each kind of command has a file. The name setCommands
// means something else: the commands that set strings.
var setTypeCommands = slices.Concat(setMemberCommands, setRandomCommands, setAlgebraCommands)

var setMemberCommands = []Spec{
	{
		Name: "SADD", Group: SetGroup, Since: "1.0.0",
		Summary:    "Adds members to a set and counts those that are new. A member that is there keeps its deadline.",
		Complexity: "O(N) in the number of members given.",
		History:    severalMembers,
		Arity:      -3, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Insert)},
		Args: []Arg{keyArg("key"), stringArg("member").many()},
		Run:  changing((*storage.Txn).Set, addMembers),
	},
	{
		Name: "SREM", Group: SetGroup, Since: "1.0.0",
		Summary:    "Takes members out of a set and counts those that were there.",
		Complexity: "O(N) in the number of members given.",
		History:    severalMembers,
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), stringArg("member").many()},
		Run: changing((*storage.Txn).Set, func(c *Ctx, s storage.Set) error {
			return c.countChanges(s.Remove, eventSRem)
		}),
	},
	{
		Name: "SMOVE", Group: SetGroup, Since: "1.0.0",
		Summary:    "Moves a member from one set to another. It has no deadline there, unless the other set had it already.",
		Complexity: "O(1)",
		Arity:      4, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete), Key(2, RW|Insert)},
		Args: []Arg{keyArg("source"), keyArg("destination"), stringArg("member")},
		Run:  runSMove,
	},
	{
		Name: "SISMEMBER", Group: SetGroup, Since: "1.0.0",
		Summary:    "Replies whether a set has a member.",
		Complexity: "O(1)",
		Arity:      3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key"), stringArg("member")},
		Run: reading((*Ctx).readSet, func(c *Ctx, s *object.Set) {
			_, ok := s.Has(c.Arg(2))
			c.bit(ok)
		}),
	},
	{
		Name: "SMISMEMBER", Group: SetGroup, Since: "6.2.0",
		Summary:    "Replies for several members whether a set has them.",
		Complexity: "O(N) in the number of members given.",
		Arity:      -3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("member").many()},
		Run:  reading((*Ctx).readSet, replyHas),
	},
	{
		Name: "SCARD", Group: SetGroup, Since: "1.0.0",
		Summary:    "Replies how many members a set has.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key")},
		Run:  reading((*Ctx).readSet, length),
	},
	{
		Name: "SMEMBERS", Group: SetGroup, Since: "1.0.0",
		Summary:    "Replies all members of a set.",
		Complexity: "O(N) in the members of the set.",
		Arity:      2, Flags: ReadOnly,
		Keys:    []KeySpec{Key(1, RO|Access)},
		Args:    []Arg{keyArg("key")},
		Tips:    []string{tipRandomOrder},
		Offload: largeValues,
		Run:     reading((*Ctx).readSet, replyMembersOf),
	},
	scanElementsCommand("SSCAN", SetGroup, "Goes on with a walk over the members of a set.",
		"O(1) for a call, O(N) in the members of the set for a whole walk.",
		scanElements(object.TypeSet, nil)),
}

var severalMembers = [][2]string{{"2.4.0", "Accepts multiple `member` arguments."}}

var (
	eventSAdd = storage.Event{Class: storage.EventSet, Name: "sadd"}
	eventSRem = storage.Event{Class: storage.EventSet, Name: "srem"}
)

// readSet is read for a key that must hold a set or be missing. It returns an empty set for a
// missing or expired key, and storage.ErrWrongType for another type.
func (c *Ctx) readSet(k storage.Key) (*object.Set, error) {
	s, err := c.Txn.Set(k)
	c.count(k, err != nil || s.Exists())
	return s.Value(), err
}

func addMembers(c *Ctx, s storage.Set) error {
	members := c.Args[2:]
	if l := object.CurrentThresholds(); len(members) > min(l.SetEntries, l.SetInts) {
		s.Reserve(len(members), members[0])
	}
	return c.countChanges(s.Add, eventSAdd)
}

// runSMove checks the destination's type only if the source exists, as Redis does.
func runSMove(c *Ctx) error {
	from, to, member := c.Keys[0], c.Keys[1], c.Arg(3)
	source, err := c.Txn.Set(from)
	if err == nil && !source.Exists() {
		c.Out.Int(0)
		return nil
	}
	target, targetErr := c.Txn.Set(to)
	switch {
	case err != nil:
		return err
	case targetErr != nil:
		return targetErr
	case string(c.Arg(1)) == string(c.Arg(2)):
		_, ok := source.Value().Has(member)
		c.bit(ok)
		return nil
	}
	if _, ok := source.Value().Has(member); !ok {
		c.Out.Int(0)
		return nil
	}
	if !target.Exists() {
		c.Txn.MayWrite(to, ttl.None)
	}
	source.Drop(member)
	c.Txn.Notify(from, eventSRem)
	// This deletes an empty source before the event of the destination is raised.
	c.Txn.FlushValues()
	if target.Add(member) {
		c.Txn.Notify(to, eventSAdd)
	}
	c.Out.Int(1)
	return nil
}

func replyHas(c *Ctx, s *object.Set) {
	members := c.Args[2:]
	c.Out.Array(len(members))
	for _, m := range members {
		_, ok := s.Has(m)
		c.bit(ok)
	}
}

func replyMembersOf(c *Ctx, s *object.Set) {
	c.Out.Set(s.Len())
	for m := range membersOf(s) {
		c.Out.Bulk(m)
	}
}
