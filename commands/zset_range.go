package commands

import (
	"keyp/storage"
	"keyp/storage/object"
)

var zrangeCommands = []Spec{
	{
		Name: "ZRANGE", Group: SortedSet, Since: "1.2.0",
		Summary:    "Replies the members of a sorted set in a range of ranks, scores or bytes.",
		Complexity: "O(log N + M), N being the size of the sorted set and M that of the reply.",
		History: [][2]string{{"6.2.0",
			"Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options."}},
		Arity: -4, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{
			keyArg("key"), stringArg("start"), stringArg("stop"),
			zrangeBy.since("6.2.0"), word("REV").opt().since("6.2.0"), zrangeLimit.since("6.2.0"),
			withScores,
		},
		Run: func(c *Ctx) error { return zrange(c, zrangeOptions{}) },
	},
	{
		Name: "ZRANGESTORE", Group: SortedSet, Since: "6.2.0",
		Summary:    "Stores the members of a sorted set in a range of ranks, scores or bytes under another key.",
		Complexity: "O(log N + M), N being the size of the sorted set and M the members stored.",
		Arity:      -5, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, OW|Update), Key(2, RO|Access)},
		Args: []Arg{keyArg("dst"), keyArg("src"), stringArg("min"), stringArg("max"), zrangeBy,
			word("REV").opt(), zrangeLimit},
		Offload: largeValues,
		Run:     runZRangeStore,
	},
}

// zrangeOldCommands are older commands for combinations of ZRANGE's options.
var zrangeOldCommands = []Spec{
	zrangeCommand("ZREVRANGE", "1.2.0",
		"Replies the members of a sorted set in a range of ranks, counted from the highest.", nil,
		zrangeOptions{by: byRank, reverse: true}, intArg("start"), intArg("stop"), withScores),
	zrangeCommand("ZRANGEBYSCORE", "1.0.5",
		"Replies the members of a sorted set with scores in a range.",
		[][2]string{{"2.0.0", "Added the `WITHSCORES` modifier."}},
		zrangeOptions{by: byScore}, doubleArg("min"), doubleArg("max"), withScores.since("2.0.0"),
		zrangeLimit),
	zrangeCommand("ZREVRANGEBYSCORE", "2.2.0",
		"Replies the members of a sorted set with scores in a range, the highest first.",
		[][2]string{{"2.1.6", "`min` and `max` can be exclusive."}},
		zrangeOptions{by: byScore, reverse: true}, doubleArg("max"), doubleArg("min"),
		withScores, zrangeLimit),
	zrangeCommand("ZRANGEBYLEX", "2.8.9",
		"Replies the members of a sorted set in a range of their bytes.", nil,
		zrangeOptions{by: byLex}, stringArg("min"), stringArg("max"), zrangeLimit),
	zrangeCommand("ZREVRANGEBYLEX", "2.8.9",
		"Replies the members of a sorted set in a range of their bytes, the highest first.", nil,
		zrangeOptions{by: byLex, reverse: true}, stringArg("max"), stringArg("min"), zrangeLimit),
}

func zrangeCommand(name, since, summary string, history [][2]string, o zrangeOptions,
	args ...Arg) Spec {
	o.fixed = true
	return Spec{
		Name: name, Group: SortedSet, Since: since,
		Summary:    summary,
		Complexity: "O(log N + M), N being the size of the sorted set and M that of the reply.",
		History:    history,
		Arity:      -4, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: append([]Arg{keyArg("key")}, args...),
		Run:  func(c *Ctx) error { return zrange(c, o) },
	}
}

var (
	zrangeBy    = oneOf("sortby", word("BYSCORE"), word("BYLEX")).opt()
	zrangeLimit = block("limit", intArg("offset"), intArg("count")).after("LIMIT").opt()
	withScores  = word("WITHSCORES").opt()

	eventZRangeStore = storage.Event{Class: storage.EventZSet, Name: "zrangestore"}
)

// The errors of ZRANGE and of the commands that do the same.
const (
	errRankLimit Error = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
	errLexScores Error = "ERR syntax error, WITHSCORES not supported in combination with BYLEX"
)

// zrangeOptions are the options after the range, or those that the command's name implies.
type zrangeOptions struct {
	by            zrangeKind
	fixed         bool // the name says all: BYSCORE, BYLEX and REV are no options
	store         bool // nor is WITHSCORES
	reverse       bool
	scores        bool
	offset, count int64
}

// zrangeKind is the kind of the ends of a range.
type zrangeKind uint8

const (
	byRank zrangeKind = iota
	byScore
	byLex
)

var zrangeParsers = [...]parseSpan{byRank: parseRanks, byScore: parseScores, byLex: parseLex}

func (o *zrangeOptions) parse(a Cursor) error {
	o.count = -1
	auto := !o.fixed
	for a.More() {
		switch {
		case !o.store && a.Word("WITHSCORES"):
			o.scores = true
		case a.Len() > 2 && a.Word("LIMIT"):
			o.offset, o.count = a.Int(), a.Int()
		case !o.fixed && !o.reverse && a.Word("REV"):
			o.reverse = true
		case auto && a.Word("BYLEX"):
			o.by, auto = byLex, false
		case auto && a.Word("BYSCORE"):
			o.by, auto = byScore, false
		default:
			a.Fail(ErrSyntax)
		}
	}
	switch {
	case a.Err() != nil:
		return a.Err()
	case o.count != -1 && o.by == byRank:
		return errRankLimit
	case o.scores && o.by == byLex:
		return errLexScores
	}
	if o.by == byRank {
		o.offset = 0 // LIMIT n -1 is let through, and means nothing
	}
	return nil
}

// span parses the range. In reverse, a range of scores or bytes begins with its upper end.
func (o *zrangeOptions) span(low, high []byte) (span, error) {
	if o.reverse && o.by != byRank {
		low, high = high, low
	}
	return zrangeParsers[o.by](low, high)
}

// ranks returns the ranks that the range and LIMIT select, counted from the lowest member.
func (o *zrangeOptions) ranks(s span, z *object.ZSet) (from, to int) {
	from, to = s.ranks(z)
	if o.reverse && o.by == byRank {
		from, to = z.Len()-to, z.Len()-from
	}
	n := int64(max(to-from, 0))
	if o.offset < 0 || o.offset >= n {
		return 0, 0
	}
	n -= o.offset
	if o.count >= 0 {
		n = min(n, o.count)
	}
	if o.reverse {
		to -= int(o.offset)
		return to - int(n), to
	}
	from += int(o.offset)
	return from, from + int(n)
}

func zrange(c *Ctx, o zrangeOptions) error {
	if err := o.parse(c.Cursor(4)); err != nil {
		return err
	}
	s, err := o.span(c.Arg(2), c.Arg(3))
	if err != nil {
		return err
	}
	z, err := c.readZSet(c.Keys[0])
	if err != nil {
		return err
	}
	from, to := o.ranks(s, z)
	if c.offloads(to-from, largeCount) {
		return errOffload
	}
	replyMembers(c, z, from, to, o.reverse, o.scores)
	return nil
}

// replyMembers replies with the members of the ranks in [from, to), in descending order with
// reverse. With scores it writes a flat array in RESP2, and pairs in RESP3.
func replyMembers(c *Ctx, z *object.ZSet, from, to int, reverse, scores bool) {
	c.pairArray(to-from, scores)
	z.Range(from, to, reverse, func(member []byte, score float64, _ int64) bool {
		c.member(member, score, scores)
		return true
	})
}

// pairArray begins an array of n elements. With paired each element is followed by its value or
// score. In RESP3 an element and its value form an array of their own, which beginPair begins.
func (c *Ctx) pairArray(n int, paired bool) {
	if paired && c.Out.Proto < 3 {
		n *= 2
	}
	c.Out.Array(n)
}

func (c *Ctx) beginPair(paired bool) {
	if paired && c.Out.Proto >= 3 {
		c.Out.Array(2)
	}
}

// member writes a member within an array that pairArray has begun.
func (c *Ctx) member(member []byte, score float64, scores bool) {
	c.beginPair(scores)
	c.Out.Bulk(member)
	if scores {
		c.Out.Double(score)
	}
}

func runZRangeStore(c *Ctx) error {
	o := zrangeOptions{store: true}
	if err := o.parse(c.Cursor(5)); err != nil {
		return err
	}
	s, err := o.span(c.Arg(3), c.Arg(4))
	if err != nil {
		return err
	}
	z, err := c.readZSet(c.Keys[1])
	if err != nil {
		return err
	}
	from, to := o.ranks(s, z)
	stored := &object.ZSet{}
	stored.Reserve(to-from, 0)
	z.Range(from, to, false, func(member []byte, score float64, _ int64) bool {
		stored.Set(member, score, 0)
		return true
	})
	c.storeZSet(stored, eventZRangeStore)
	return nil
}

// storeZSet stores a sorted set at the first key, or deletes the key if the set is empty. It
// replies with the size. Neither the key nor its members have a deadline then.
func (c *Ctx) storeZSet(z *object.ZSet, ev storage.Event) {
	n := z.Len()
	c.overwrite(c.Keys[0], z, ev)
	c.Out.Int(int64(n))
}
