package commands

import (
	"math"
	"math/rand/v2"

	"keyp/storage"
	"keyp/storage/object"
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
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), intArg("count").opt().since("2.6.0")},
		Tips: []string{tipRandom},
		Long: longRandom,
		Run:  runSRandMember,
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

// popRandom replies a random member of a set that has one, and takes it out.
func popRandom(c *Ctx, s *storage.Set, v *object.Set) {
	m, _ := v.At(rand.IntN(v.Len()))
	c.Out.Bulk(m)
	s.Drop(m)
}

// popCount is SPOP with a count.
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
	case left < n/popMostly:
		keepRandom(c, k, v, left)
	default:
		for range n {
			popRandom(c, &s, v)
		}
		c.Txn.Notify(k, eventSPop)
	}
	return nil
}

// popMostly is from which multiple of the members that stay on it is less work to store
// these anew than to take the others out one by one.
const popMostly = 5

// keepRandom replies all members of a set but some, which it keeps.
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
	c.Txn.Replace(k, kept, item.Deadline(), eventSPop)
}

// sample visits k of the numbers below n, 0 <= k <= n, each of them once and any choice
// of them as likely as any other.
func sample(n, k int, visit func(i int)) {
	if k > n/3 {
		for i := 0; k > 0; i++ {
			if rand.IntN(n-i) < k {
				visit(i)
				k--
			}
		}
		return
	}
	// Floyd's: whoever comes up again makes way for the highest number so far, which
	// cannot have come up yet.
	taken := make(map[int]struct{}, k)
	for high := n - k; high < n; high++ {
		i := rand.IntN(high + 1)
		if _, again := taken[i]; again {
			i = high
		}
		taken[i] = struct{}{}
		visit(i)
	}
}

func runSRandMember(c *Ctx) error {
	if len(c.Args) > 2 {
		return randomMembers(c)
	}
	s, err := c.readSet(c.Keys[0])
	if err != nil {
		return err
	}
	if s.Len() == 0 {
		c.Out.Null()
		return nil
	}
	m, _ := s.At(rand.IntN(s.Len()))
	c.Out.Bulk(m)
	return nil
}

// randomMembers is SRANDMEMBER with a count.
func randomMembers(c *Ctx) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	count, ok := ParseInt(c.Arg(2))
	if !ok {
		return ErrNotInteger
	}
	if count == math.MinInt64 {
		return errCountRange
	}
	s, err := c.readSet(c.Keys[0])
	if err != nil {
		return err
	}
	reply := func(i int) {
		m, _ := s.At(i)
		c.Out.Bulk(m)
	}
	if count < 0 && s.Len() > 0 {
		c.Out.Array(int(-count))
		drawAgain(c, s.Len(), -count, reply)
		return nil
	}
	n := int(max(0, min(count, int64(s.Len()))))
	c.Out.Array(n)
	sample(s.Len(), n, reply)
	return nil
}

const errCountRange Error = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"

// drawAgain replies count of n elements, each of them random and any as often as it comes
// up. It ends early when the reply is longer than a client may be sent.
func drawAgain(c *Ctx, n int, count int64, reply func(i int)) {
	for ; count > 0 && !c.Out.Full; count-- {
		reply(rand.IntN(n))
	}
}
