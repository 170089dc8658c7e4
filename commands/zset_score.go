package commands

import "keyp/storage/object"

// zsetScoreCommands reply with scores and counts.
var zsetScoreCommands = []Spec{
	{
		Name: "ZCARD", Group: SortedSet, Since: "1.2.0",
		Summary:    "Counts the members of a sorted set.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key")},
		Run:  reading((*Ctx).readZSet, length),
	},
	{
		Name: "ZSCORE", Group: SortedSet, Since: "1.2.0",
		Summary:    "Replies the score of a member of a sorted set.",
		Complexity: "O(1)",
		Arity:      3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("member")},
		Run: reading((*Ctx).readZSet, func(c *Ctx, z *object.ZSet) {
			c.score(z, c.Arg(2))
		}),
	},
	{
		Name: "ZMSCORE", Group: SortedSet, Since: "6.2.0",
		Summary:    "Replies the scores of members of a sorted set.",
		Complexity: "O(N) in the members asked for.",
		Arity:      -3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("member").many()},
		Run:  reading((*Ctx).readZSet, replyScores),
	},
	countCommand("ZCOUNT", "2.0.0", "Counts the members of a sorted set with scores in a range.",
		parseScores, doubleArg("min"), doubleArg("max")),
	countCommand("ZLEXCOUNT", "2.8.9",
		"Counts the members of a sorted set in a range of their bytes.", parseLex, stringArg("min"),
		stringArg("max")),
}

func countCommand(name, since, summary string, parse parseSpan, low, high Arg) Spec {
	return Spec{
		Name: name, Group: SortedSet, Since: since,
		Summary:    summary,
		Complexity: "O(log N) in the size of the sorted set.",
		Arity:      4, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), low, high},
		Run:  func(c *Ctx) error { return countSpan(c, parse) },
	}
}

// zsetRankCommands reply with the ranks of members.
var zsetRankCommands = []Spec{
	rankCommand("ZRANK", "Replies how many members of a sorted set come before one.", false),
	rankCommand("ZREVRANK", "Replies how many members of a sorted set come after one.", true),
}

func rankCommand(name, summary string, reverse bool) Spec {
	return Spec{
		Name: name, Group: SortedSet, Since: "2.0.0",
		Summary:    summary,
		Complexity: "O(log N) in the size of the sorted set.",
		History:    [][2]string{{"7.2.0", "Added the optional `WITHSCORE` argument."}},
		Arity:      -3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("member"), word("WITHSCORE").opt()},
		Run:  func(c *Ctx) error { return zrank(c, reverse) },
	}
}

func replyScores(c *Ctx, z *object.ZSet) {
	members := c.Args[2:]
	c.Out.Array(len(members))
	for _, member := range members {
		c.score(z, member)
	}
}

// score writes a member's score, or null if there is no such member.
func (c *Ctx) score(z *object.ZSet, member []byte) {
	if score, _, ok := z.Score(member); ok {
		c.Out.Double(score)
		return
	}
	c.Out.Null()
}

// countSpan replies with the number of members between argument 2 and argument 3.
func countSpan(c *Ctx, parse parseSpan) error {
	s, err := parse(c.Arg(2), c.Arg(3))
	if err != nil {
		return err
	}
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	from, to := s.ranks(z)
	c.Out.Int(int64(max(to-from, 0)))
	return nil
}

// zrank runs ZRANK, and with reverse ZREVRANK.
func zrank(c *Ctx, reverse bool) error {
	if len(c.Args) > 4 {
		return errArity(c.Spec.full)
	}
	a := c.Cursor(3)
	withScore := a.Word("WITHSCORE")
	if a.More() {
		return ErrSyntax
	}
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	rank, ok := z.Rank(c.Arg(2))
	switch {
	case !ok && withScore:
		c.Out.NullArray()
		return nil
	case !ok:
		c.Out.Null()
		return nil
	}
	if reverse {
		rank = z.Len() - 1 - rank
	}
	if withScore {
		c.Out.Array(2)
	}
	c.Out.Int(int64(rank))
	if withScore {
		c.score(z, c.Arg(2))
	}
	return nil
}
