package commands

import (
	"keyp/storage/object"
)

var streamRangeCommands = []Spec{
	{
		Name: "XLEN", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Replies how many entries a stream has.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key")},
		Run:  runXLen,
	},
	streamRangeCommand("XRANGE", "Replies the entries of a stream in a range of IDs.", false,
		"start", "end"),
	streamRangeCommand("XREVRANGE",
		"Replies the entries of a stream in a range of IDs, the last one first.", true,
		"end", "start"),
}

func streamRangeCommand(name, summary string, reverse bool, first, second string) Spec {
	return Spec{
		Name: name, Group: StreamGroup, Since: "5.0.0",
		Summary:    summary,
		Complexity: "O(log(N)+M) for M entries replied of a stream of N.",
		History:    [][2]string{{"6.2.0", "Added exclusive ranges."}},
		Arity:      -4, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg(first), stringArg(second),
			intArg("count").after("COUNT").opt()},
		Run: func(c *Ctx) error { return streamRange(c, reverse) },
	}
}

func runXLen(c *Ctx) error {
	s, err := c.readStream(c.Keys[0])
	if err == nil {
		c.Out.Int(int64(s.Value().Entries()))
	}
	return err
}

// streamRange implements XRANGE and XREVRANGE. For a COUNT below 1 it replies with a null array,
// unless the key is missing.
func streamRange(c *Ctx, reverse bool) error {
	low, high := c.Arg(2), c.Arg(3)
	if reverse {
		low, high = high, low
	}
	from, err := streamStart(low)
	if err != nil {
		return err
	}
	to, err := streamEnd(high)
	if err != nil {
		return err
	}
	count := int64(-1)
	for a := c.Cursor(4); a.Len() > 0; {
		if a.Len() == 1 || !a.Word("COUNT") {
			return ErrSyntax
		}
		if count = max(a.Int(), 0); a.Err() != nil {
			return a.Err()
		}
	}
	s, err := c.readStream(c.Keys[0])
	switch v := s.Value(); {
	case err != nil:
		return err
	case !s.Exists():
		c.Out.Array(0)
	case count == 0:
		c.Out.NullArray()
	case c.offloads(entriesIn(v, from, to, count), largeCount):
		return errOffload
	default:
		if err := c.haveRange(&s, from, to, reverse, count); err != nil {
			return err
		}
		c.streamEntries(v, from, to, reverse, count)
	}
	return nil
}

// entriesIn returns about how many entries a range has, and stops soon after largeCount. It returns
// 0 if the stream has fewer than largeCount entries, or if count allows only fewer. A negative
// count means all.
func entriesIn(s *object.Stream, from, to object.StreamID, count int64) (n int) {
	if s.Entries() < largeCount || count >= 0 && count < largeCount || from.Compare(to) > 0 {
		return 0
	}
	return s.About(from, to, largeCount)
}

// streamEntries replies with the first count entries in a range, or with all if count is below 1.
func (c *Ctx) streamEntries(s *object.Stream, from, to object.StreamID, reverse bool, count int64) {
	mark, n := c.Out.ArrayLater(), 0
	if from.Compare(to) <= 0 {
		s.Range(from, to, reverse, func(e object.StreamEntry) bool {
			c.streamEntry(e)
			n++
			return int64(n) != count
		})
	}
	c.Out.SetLen(mark, n)
}
