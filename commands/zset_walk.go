package commands

import (
	"keyp/resp"
	"keyp/storage/object"
)

// zsetWalkCommands reply with random members, or with all members in steps.
var zsetWalkCommands = []Spec{
	{
		Name: "ZRANDMEMBER", Group: SortedSet, Since: "6.2.0",
		Summary:    "Replies members of a sorted set, chosen at random.",
		Complexity: "O(M log N), M being the members replied and N the size of the sorted set.",
		Arity:      -2, Flags: ReadOnly,
		Keys:    []KeySpec{Key(1, RO|Access)},
		Args:    []Arg{keyArg("key"), block("options", intArg("count"), withScores).opt()},
		Tips:    []string{tipRandom},
		Offload: largeRandom,
		Run:     runZRandMember,
	},
	scanElementsCommand("ZSCAN", SortedSet,
		"Goes on with a walk over the members and scores of a sorted set.",
		"O(1) for a call, O(N) in the number of members for a whole walk.",
		scanElements(object.TypeZSet, writeScore)),
}

// writeScore writes a score as ZSCAN does, as text in both protocols.
func writeScore(out *resp.Writer, val []byte) {
	var text [32]byte
	out.Bulk(resp.AppendDouble(text[:0], object.ScoreOf(val)))
}

func runZRandMember(c *Ctx) error {
	o, err := parseRandom(c.Cursor(2), "WITHSCORES")
	if err != nil {
		return err
	}
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	c.random(o, z.Len(), func(n int) { c.pairArray(n, o.paired) }, func(i int) {
		member, score, _ := z.At(i)
		c.member(member, score, o.paired)
	})
	return nil
}
