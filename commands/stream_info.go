package commands

import (
	"math"

	"keyp/storage/object"
)

var streamInfoCommands = []Spec{{
	Name: "XINFO", Group: StreamGroup, Since: "5.0.0", Arity: -2,
	Summary: "Describes streams, groups and consumers.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "CONSUMERS", Group: StreamGroup, Since: "5.0.0",
			Summary:    "Describes the consumers of a group.",
			Complexity: "O(N) in the number of consumers.",
			History: [][2]string{{"7.2.0",
				"Added the `inactive` field, and changed the meaning of `idle`."}},
			Arity: 4, Flags: ReadOnly,
			Keys: []KeySpec{Key(2, RO|Access)},
			Args: []Arg{keyArg("key"), stringArg("group")},
			Tips: []string{tipRandom},
			Run:  runXInfoConsumers,
		},
		{
			Name: "GROUPS", Group: StreamGroup, Since: "5.0.0",
			Summary:    "Describes the groups of a stream.",
			Complexity: "O(N) in the number of groups.",
			History:    [][2]string{{"7.0.0", "Added the `entries-read` and `lag` fields"}},
			Arity:      3, Flags: ReadOnly,
			Keys: []KeySpec{Key(2, RO|Access)},
			Args: []Arg{keyArg("key")},
			Run:  runXInfoGroups,
		},
		{
			Name: "STREAM", Group: StreamGroup, Since: "5.0.0",
			Summary:    "Describes a stream; in full, with its entries, groups, consumers and what is pending.",
			Complexity: "O(1); with FULL, O(N) in what is replied.",
			History: [][2]string{
				{"6.0.0", "Added the `FULL` modifier."},
				{"7.0.0",
					"Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag` fields"},
				{"7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."},
			},
			Arity: -3, Flags: ReadOnly,
			Keys: []KeySpec{Key(2, RO|Access)},
			Args: []Arg{keyArg("key"),
				block("full-block", intArg("count").after("COUNT").opt()).after("FULL").opt()},
			Run: runXInfoStream,
		},
		helpFor("XINFO", StreamGroup, "5.0.0", Loading|Stale,
			"CONSUMERS <key> <groupname>",
			"    Describe the consumers of the group.",
			"GROUPS <key>",
			"    Describe the groups of the stream.",
			"STREAM <key> [FULL [COUNT <count>]",
			"    Describe the stream."),
	},
}}

// infoStream returns the stream of a subcommand, or ErrNoSuchKey if it does not exist.
func (c *Ctx) infoStream() (*object.Stream, error) {
	s, err := c.readStream(c.Keys[0])
	if err == nil && !s.Exists() {
		err = ErrNoSuchKey
	}
	return s.Value(), err
}

func runXInfoConsumers(c *Ctx) error {
	s, err := c.infoStream()
	if err != nil {
		return err
	}
	g := s.Group(c.Arg(3))
	switch {
	case g == nil:
		return errNoGroup(c.Arg(2), c.Arg(3))
	case c.offloads(g.Consumers(), largeCount):
		return errOffload
	}
	now := c.Txn.Now()
	c.Out.Array(g.Consumers())
	g.EachConsumer(func(consumer *object.StreamConsumer) bool {
		inactive := consumer.Active
		if inactive >= 0 {
			inactive = now - inactive
		}
		c.Out.Map(4)
		c.bulkField("name", consumer.Name())
		c.intField("pending", int64(consumer.Pending()))
		c.intField("idle", max(now-consumer.Seen, 0))
		c.intField("inactive", inactive)
		return true
	})
	return nil
}

func (c *Ctx) bulkField(name string, value []byte) {
	c.Out.BulkString(name)
	c.Out.Bulk(value)
}

func (c *Ctx) idField(name string, id object.StreamID) {
	c.Out.BulkString(name)
	c.streamID(id)
}

// groupProgress replies with the number of entries that a group has read, and the number that it
// has not read. It replies with null for an unknown number.
func (c *Ctx) groupProgress(s *object.Stream, g *object.StreamGroup) {
	c.Out.BulkString("entries-read")
	c.intOrNull(g.EntriesRead())
	c.Out.BulkString("lag")
	if lag, ok := groupLag(s, g); ok {
		c.Out.Int(lag)
	} else {
		c.Out.Null()
	}
}

func runXInfoGroups(c *Ctx) error {
	s, err := c.infoStream()
	switch {
	case err != nil:
		return err
	case c.offloads(s.Groups(), largeCount):
		return errOffload
	}
	c.Out.Array(s.Groups())
	s.EachGroup(func(g *object.StreamGroup) bool {
		c.Out.Map(6)
		c.bulkField("name", g.Name())
		c.intField("consumers", int64(g.Consumers()))
		c.intField("pending", int64(g.Pending()))
		c.idField("last-delivered-id", g.LastID)
		c.groupProgress(s, g)
		return true
	})
	return nil
}

// infoCount is the default COUNT of XINFO STREAM … FULL.
const infoCount = 10

// parseInfo parses the options after the key. count 0 means all.
func parseInfo(c *Ctx) (full bool, count int64, err error) {
	a := c.Cursor(3)
	switch n := a.Len(); {
	case n == 0:
		return false, 0, nil
	case n != 1 && n != 3, !a.Word("FULL"), n == 3 && !a.Word("COUNT"):
		return false, 0, errSubcommandArgs("XINFO", c.Arg(1))
	case n == 1:
		return true, infoCount, nil
	}
	if count = a.Int(); count < 0 {
		count = infoCount
	}
	return true, count, a.Err()
}

// runXInfoStream replies with fields about idempotence only for streams that use it.
func runXInfoStream(c *Ctx) error {
	s, err := c.infoStream()
	if err != nil {
		return err
	}
	full, count, err := parseInfo(c)
	if err != nil {
		return err
	}
	if full && c.offloads(infoParts(s, count), largeCount) {
		return errOffload
	}
	if err := c.haveInfo(full, count); err != nil {
		return err
	}
	fields := 10
	if full {
		fields--
	}
	duration, maxSize := s.Idempotence()
	idempotent := s.IdempotentsAdded() > 0 || duration > 0 || maxSize > 0
	if idempotent {
		fields += 6
	}
	age, refs := s.Age()
	if age > 0 {
		fields += 2
	}
	first, _ := s.First()
	c.Out.Map(fields)
	c.intField("length", int64(s.Entries()))
	c.intField("radix-tree-keys", int64(s.Nodes()))
	c.intField("radix-tree-nodes", int64(s.Nodes()+1))
	c.idField("last-generated-id", s.LastID())
	c.idField("max-deleted-entry-id", s.MaxDeleted())
	c.intField("entries-added", int64(s.Added()))
	c.idField("recorded-first-entry-id", first)
	if idempotent {
		duration, maxSize = idempotence(s)
		c.intField("idmp-duration", duration)
		c.intField("idmp-maxsize", maxSize)
		c.intField("pids-tracked", int64(s.Producers()))
		c.intField("iids-tracked", int64(s.Idempotents()))
		c.intField("iids-added", s.IdempotentsAdded())
		c.intField("iids-duplicates", s.Duplicates())
	}
	if age > 0 {
		c.intField("max-age", age)
		c.Out.BulkString("max-age-condition")
		c.Out.BulkString(refsName(refs))
	}
	if full {
		c.infoFull(s, count)
		return nil
	}
	c.intField("groups", int64(s.Groups()))
	c.infoEdge("first-entry", s, false)
	c.infoEdge("last-entry", s, true)
	return nil
}

// haveInfo makes sure that the entries of the reply to XINFO STREAM are in memory.
func (c *Ctx) haveInfo(full bool, count int64) error {
	s, err := c.Txn.Stream(c.Keys[0])
	if err != nil {
		return err
	}
	if !full && s.Cold() {
		count = 1
		c.wants(&s, s.Value().Wanted(nil, object.StreamID{}, object.MaxStreamID, true, count))
	}
	return c.haveRange(&s, object.StreamID{}, object.MaxStreamID, false, count)
}

// infoParts counts the parts of the reply to XINFO STREAM FULL. It may stop at largeCount.
func infoParts(s *object.Stream, count int64) (n int) {
	most := math.MaxInt
	if count > 0 {
		most = int(min(count, math.MaxInt))
	}
	n = min(s.Entries(), most)
	s.EachGroup(func(g *object.StreamGroup) bool {
		n += 1 + min(g.Pending(), most) + g.Consumers()
		g.EachConsumer(func(consumer *object.StreamConsumer) bool {
			n += min(consumer.Pending(), most)
			return n < largeCount
		})
		return n < largeCount
	})
	return n
}

// infoEdge replies with the first or the last entry, or with null if there is none.
func (c *Ctx) infoEdge(name string, s *object.Stream, last bool) {
	c.Out.BulkString(name)
	if s.Entries() == 0 {
		c.Out.Null()
		return
	}
	s.Range(object.StreamID{}, object.MaxStreamID, last, func(e object.StreamEntry) bool {
		c.streamEntry(e)
		return false
	})
}

// infoFull replies with entries and groups, up to count of each kind; 0 means all.
func (c *Ctx) infoFull(s *object.Stream, count int64) {
	c.Out.BulkString("entries")
	c.streamEntries(s, object.StreamID{}, object.MaxStreamID, false, count)
	c.Out.BulkString("groups")
	c.Out.Array(s.Groups())
	s.EachGroup(func(g *object.StreamGroup) bool {
		nacked := g.Nacked()
		fields := 7
		if nacked > 0 {
			fields++
		}
		c.Out.Map(fields)
		c.bulkField("name", g.Name())
		c.idField("last-delivered-id", g.LastID)
		c.groupProgress(s, g)
		c.intField("pel-count", int64(g.Pending()))
		if nacked > 0 {
			c.intField("nacked-count", int64(nacked))
		}
		c.Out.BulkString("pending")
		c.infoPending(g, count)
		c.Out.BulkString("consumers")
		c.Out.Array(g.Consumers())
		g.EachConsumer(func(consumer *object.StreamConsumer) bool {
			c.infoConsumer(g, consumer, count)
			return true
		})
		return true
	})
}

// infoPending replies with pending entries of a group: ID, consumer, time of the last delivery, and
// number of deliveries.
func (c *Ctx) infoPending(g *object.StreamGroup, count int64) {
	mark, n := c.Out.ArrayLater(), 0
	g.EachPending(object.StreamID{}, object.MaxStreamID, func(e object.PendingEntry) bool {
		name := []byte{}
		if e.Consumer != nil {
			name = e.Consumer.Name()
		}
		c.Out.Array(4)
		c.streamID(e.ID)
		c.Out.Bulk(name)
		c.Out.Int(e.Delivered)
		c.Out.Int(e.Count)
		n++
		return int64(n) != count
	})
	c.Out.SetLen(mark, n)
}

func (c *Ctx) infoConsumer(g *object.StreamGroup, consumer *object.StreamConsumer, count int64) {
	c.Out.Map(5)
	c.bulkField("name", consumer.Name())
	c.intField("seen-time", consumer.Seen)
	c.intField("active-time", consumer.Active)
	c.intField("pel-count", int64(consumer.Pending()))
	c.Out.BulkString("pending")
	mark, n := c.Out.ArrayLater(), 0
	consumer.EachPending(object.StreamID{}, object.MaxStreamID, func(id object.StreamID) bool {
		e, _ := g.PendingEntry(id)
		c.Out.Array(3)
		c.streamID(id)
		c.Out.Int(e.Delivered)
		c.Out.Int(e.Count)
		n++
		return int64(n) != count
	})
	c.Out.SetLen(mark, n)
}
