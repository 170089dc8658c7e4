package commands

import (
	"math"
	"slices"

	"keyp/storage"
	"keyp/storage/object"
)

// zsetCommands are the commands of sorted sets. Each kind of command has a file. Replies contain
// scores as Writer.Double writes them.
var zsetCommands = slices.Concat(zsetMemberCommands, zsetScoreCommands, zsetRankCommands,
	zrangeCommands,
	zrangeOldCommands, zsetRemoveRangeCommands, zsetPopCommands, zsetBlockCommands,
	zsetWalkCommands, zsetCombineCommands)

var zsetMemberCommands = []Spec{
	{
		Name: "ZADD", Group: SortedSet, Since: "1.2.0",
		Summary:    "Gives members of a sorted set their scores, and adds those that are new.",
		Complexity: "O(log N) for each member, N being the size of the sorted set.",
		History: [][2]string{
			{"2.4.0", "Accepts multiple elements."},
			{"3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."},
			{"6.2.0", "Added the `GT` and `LT` options."},
		},
		Arity: -4, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"),
			oneOf("condition", word("NX"), word("XX")).opt().since("3.0.2"),
			oneOf("comparison", word("GT"), word("LT")).opt().since("6.2.0"),
			Arg{Name: "change", Type: ArgToken, Token: "CH"}.opt().since("3.0.2"),
			Arg{Name: "increment", Type: ArgToken, Token: "INCR"}.opt().since("3.0.2"),
			block("data", doubleArg("score"), stringArg("member")).many(),
		},
		Run: func(c *Ctx) error { return zadd(c, zaddOptions{}) },
	},
	{
		Name: "ZINCRBY", Group: SortedSet, Since: "1.2.0",
		Summary:    "Adds to the score of a member of a sorted set, 0 if it is missing.",
		Complexity: "O(log N) in the size of the sorted set.",
		Arity:      4, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{keyArg("key"), intArg("increment"), stringArg("member")},
		Run:  func(c *Ctx) error { return zadd(c, zaddOptions{incr: true}) },
	},
	{
		Name: "ZREM", Group: SortedSet, Since: "1.2.0",
		Summary:    "Removes members of a sorted set, and the key with the last.",
		Complexity: "O(M log N), M being the members to remove and N the size of the sorted set.",
		History:    [][2]string{{"2.4.0", "Accepts multiple elements."}},
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), stringArg("member").many()},
		Run: changing((*storage.Txn).ZSet, func(c *Ctx, z storage.ZSet) error {
			return c.countChanges(z.Remove, eventZRem)
		}),
	},
}

var (
	eventZAdd  = storage.Event{Class: storage.EventZSet, Name: "zadd"}
	eventZIncr = storage.Event{Class: storage.EventZSet, Name: "zincr"}
	eventZRem  = storage.Event{Class: storage.EventZSet, Name: "zrem"}
)

// The errors of ZADD.
const (
	errZAddNXXX Error = "ERR XX and NX options at the same time are not compatible"
	errZAddGTLT Error = "ERR GT, LT, and/or NX options at the same time are not compatible"
	errZAddIncr Error = "ERR INCR option supports a single increment-element pair"
	errScoreNaN Error = "ERR resulting score is not a number (NaN)"
)

// readZSet is read for a key that must hold a sorted set or be missing. It returns an empty one for
// a missing or expired key, and storage.ErrWrongType for another type. The sorted set is valid
// until the transaction changes something.
func (c *Ctx) readZSet(k storage.Key) (*object.ZSet, error) {
	z, err := c.Txn.ZSet(k)
	c.count(k, err != nil || z.Exists())
	return z.Value(), err
}

// zaddOptions are the words between ZADD's key and its scores.
type zaddOptions struct{ nx, xx, gt, lt, ch, incr bool }

// parse reads the options, if there are any.
func (o *zaddOptions) parse(a *Cursor) {
	for {
		switch {
		case a.Word("NX"):
			o.nx = true
		case a.Word("XX"):
			o.xx = true
		case a.Word("GT"):
			o.gt = true
		case a.Word("LT"):
			o.lt = true
		case a.Word("CH"):
			o.ch = true
		case a.Word("INCR"):
			o.incr = true
		default:
			return
		}
	}
}

// check returns an error if the options contradict each other, or do not fit the number of
// arguments after them.
func (o *zaddOptions) check(args int) error {
	switch {
	case args == 0 || args%2 != 0:
		return ErrSyntax
	case o.nx && o.xx:
		return errZAddNXXX
	case o.gt && o.nx, o.lt && o.nx, o.gt && o.lt:
		return errZAddGTLT
	case o.incr && args > 2:
		return errZAddIncr
	}
	return nil
}

// zadd runs ZADD and ZINCRBY, which also parses ZADD's options. It parses all scores before it
// changes anything.
func zadd(c *Ctx, o zaddOptions) error {
	a := c.Cursor(2)
	o.parse(&a)
	if err := o.check(a.Len()); err != nil {
		return err
	}
	var (
		room    [8]float64
		names   [8][]byte
		scores  = room[:0]
		members = names[:0]
	)
	for a.More() {
		scores, members = append(scores, a.Float()), append(members, a.Bytes())
	}
	if a.Err() != nil {
		return a.Err()
	}
	return o.putAll(c, members, scores)
}

// putAll sets the scores of members of the command's key, and replies.
func (o *zaddOptions) putAll(c *Ctx, members [][]byte, scores []float64) error {
	k := c.Keys[0]
	z, err := c.Txn.ZSet(k)
	if err != nil {
		return err
	}
	if len(scores) > 1 {
		switch {
		case z.Exists():
			z.Reserve(len(scores), 0)
		case !o.xx:
			z.Reserve(len(scores), len(members[0]))
		}
	}
	var added, updated int64
	var last zadded
	for i, score := range scores {
		if last, err = o.put(&z, members[i], score); err != nil {
			return err
		}
		switch {
		case last.created:
			added++
		case last.changed:
			updated++
		}
	}
	o.reply(c, added, updated, last)
	return nil
}

// zadded is the result for one member. score is its present score; left is true if the options kept
// it unchanged.
type zadded struct {
	score            float64
	left             bool
	created, changed bool
}

// put sets the score of one member, if the options allow it.
func (o *zaddOptions) put(z *storage.ZSet, member []byte, score float64) (zadded, error) {
	old, _, ok := z.Value().Score(member)
	switch {
	case !ok && o.xx, ok && o.nx:
		return zadded{left: true}, nil
	case !ok:
		z.Set(member, score)
		return zadded{score: score, created: true}, nil
	case o.incr:
		if score += old; math.IsNaN(score) {
			return zadded{}, errScoreNaN
		}
	}
	if o.lt && score >= old || o.gt && score <= old {
		return zadded{left: true}, nil
	}
	if score != old {
		z.Set(member, score)
	}
	return zadded{score: score, changed: score != old}, nil
}

func (o *zaddOptions) reply(c *Ctx, added, updated int64, last zadded) {
	switch {
	case o.incr && last.left:
		c.Out.Null()
	case o.incr:
		c.Out.Double(last.score)
	case o.ch:
		c.Out.Int(added + updated)
	default:
		c.Out.Int(added)
	}
	switch {
	case added+updated == 0:
	case o.incr:
		c.Txn.Notify(c.Keys[0], eventZIncr)
	default:
		c.Txn.Notify(c.Keys[0], eventZAdd)
	}
}
