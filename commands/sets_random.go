package commands

import (
	"math/rand/v2"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

var setRandomCommands = []Spec{
	{
		Name: "SPOP", Group: SetGroup, Since: "1.0.0",
		Summary:    "Takes random members out of a set and replies them.",
		Complexity: "O(N) in the number of members taken.",
		History:    [][2]string{{"3.2.0", "Added the `count` argument."}},
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete)},
		Args: []Arg{keyArg("key"), intArg("count").opt().since("3.2.0")},
		Tips: []string{tipRandom},
		Run:  runSPop,
	},
	{
		Name: "SRANDMEMBER", Group: SetGroup, Since: "1.0.0",
		Summary:    "Replies random members of a set: different ones, or with a negative count any.",
		Complexity: "O(N) in the number of members replied.",
		History:    [][2]string{{"2.6.0", "Added the optional `count` argument."}},
		Arity:      -2, Flags: ReadOnly,
		Keys:    []KeySpec{Key(1, RO|Access)},
		Args:    []Arg{keyArg("key"), intArg("count").opt().since("2.6.0")},
		Tips:    []string{tipRandom},
		Offload: largeRandom,
		Run:     runSRandMember,
	},
}

var eventSPop = storage.Event{Class: storage.EventSet, Name: "spop"}

func runSPop(c *Ctx) error {
	if len(c.Args) > 2 {
		return popCount(c)
	}
	s, err := c.Txn.Set(c.Keys[0])
	if err != nil {
		return err
	}
	v := s.Value()
	if v.Len() == 0 {
		c.Out.Null()
		return nil
	}
	popRandom(c, &s, v)
	c.Txn.Notify(c.Keys[0], eventSPop)
	return nil
}

// popRandom removes a random member of a set that is not empty, and replies with it.
func popRandom(c *Ctx, s *storage.Set, v *object.Set) {
	m, _ := v.At(rand.IntN(v.Len()))
	c.Out.Bulk(m)
	s.Drop(m)
}

// popCount runs SPOP with a count.
func popCount(c *Ctx) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	a := c.Cursor(2)
	count := a.IntFrom(0, ErrIntPositive)
	if err := a.Err(); err != nil {
		return err
	}
	k := c.Keys[0]
	s, err := c.Txn.Set(k)
	if err != nil {
		return err
	}
	v := s.Value()
	n := int(min(count, int64(v.Len())))
	c.Out.Set(n)
	if n == 0 {
		return nil
	}
	switch left := v.Len() - n; {
	case left == 0:
		for m := range membersOf(v) {
			c.Out.Bulk(m)
		}
		c.Txn.Notify(k, eventSPop)
		c.Txn.Delete(k, storage.Deleted)
	case left <= n/popMostly:
		keepRandom(c, k, v, left)
	default:
		for range n {
			popRandom(c, &s, v)
		}
		c.Txn.Notify(k, eventSPop)
	}
	return nil
}

// popMostly is the ratio of removed to remaining members from which it is less work to store the
// remaining ones as a new set.
const popMostly = 5

// keepRandom replies with all members of a set except for left random ones, which remain in the
// set.
func keepRandom(c *Ctx, k storage.Key, v *object.Set, left int) {
	keeps := make(map[int]struct{}, left)
	sample(v.Len(), left, func(i int) { keeps[i] = struct{}{} })
	kept := &object.Set{}
	for i := range v.Len() {
		m, deadline := v.At(i)
		if _, ok := keeps[i]; ok {
			kept.Add(m, deadline)
		} else {
			c.Out.Bulk(m)
		}
	}
	item, _ := c.Txn.Peek(k)
	c.Txn.Replace(k, kept, ttl.At(item.Deadline()), eventSPop)
}

func runSRandMember(c *Ctx) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	o, err := parseRandom(c.Cursor(2), "")
	if err != nil {
		return err
	}
	s, err := c.readSet(c.Keys[0])
	if err != nil {
		return err
	}
	c.random(o, s.Len(), c.Out.Array, func(i int) {
		m, _ := s.At(i)
		c.Out.Bulk(m)
	})
	return nil
}
