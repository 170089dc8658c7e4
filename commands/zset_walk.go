package commands

import (
	"math"
	"math/rand/v2"

	"keyp/resp"
	"keyp/storage/object"
)

// zsetWalkCommands reply members at random, or all in steps.
var zsetWalkCommands = []Spec{
	{
		Name: "ZRANDMEMBER", Group: SortedSet, Since: "6.2.0",
		Summary:    "Replies members of a sorted set, chosen at random.",
		Complexity: "O(M log N), M being the members replied and N the size of the sorted set.",
		Arity:      -2, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), block("options", intArg("count"), withScores).opt()},
		Tips: []string{tipRandom},
		Long: longRandom,
		Run:  runZRandMember,
	},
	{
		Name: "ZSCAN", Group: SortedSet, Since: "2.8.0",
		Summary:    "Goes on with a walk over the members and scores of a sorted set.",
		Complexity: "O(1) for a call, O(N) in the number of members for a whole walk.",
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), intArg("cursor"), patternArg("pattern").after("MATCH").opt(), intArg("count").after("COUNT").opt()},
		Tips: []string{tipRandom},
		Long: longScan,
		Run:  scanElements(object.TypeZSet, writeScore),
	},
}

// writeScore writes a score as ZSCAN does, as text in both protocols.
func writeScore(out *resp.Writer, val []byte) {
	var text [32]byte
	out.Bulk(resp.AppendDouble(text[:0], object.ScoreOf(val)))
}

func runZRandMember(c *Ctx) error {
	if len(c.Args) > 2 {
		return randomScored(c)
	}
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	if z.Len() == 0 {
		c.Out.Null()
		return nil
	}
	member, _, _ := z.At(rand.IntN(z.Len()))
	c.Out.Bulk(member)
	return nil
}

// randomScored is ZRANDMEMBER with a count: different members, or with a negative count
// any as often as it comes up.
func randomScored(c *Ctx) error {
	count, ok := ParseInt(c.Arg(2))
	switch {
	case !ok:
		return ErrNotInteger
	case count == math.MinInt64:
		return errCountRange
	}
	a := c.Cursor(3)
	scores := a.Word("WITHSCORES")
	switch {
	case a.More():
		return ErrSyntax
	case scores && (count < -math.MaxInt64/2 || count > math.MaxInt64/2):
		return ErrIntRange
	}
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	reply := func(rank int) {
		member, score, _ := z.At(rank)
		c.member(member, score, scores)
	}
	if count < 0 && z.Len() > 0 {
		c.memberArray(int(-count), scores)
		drawAgain(c, z.Len(), -count, reply)
		return nil
	}
	n := int(max(0, min(count, int64(z.Len()))))
	c.memberArray(n, scores)
	sample(z.Len(), n, reply)
	return nil
}
