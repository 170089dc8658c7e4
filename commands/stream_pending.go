package commands

import (
	"math"

	"keyp/storage/object"
)

var streamPendingCommands = []Spec{
	{
		Name: "XACK", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Acknowledges entries that are pending in a group, and replies how many there were.",
		Complexity: "O(log(N)) for each entry, N being those that are pending.",
		Arity:      -4, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), stringArg("group"), stringArg("id").many()},
		Run:  runXAck,
	},
	{
		Name: "XNACK", Group: StreamGroup, Since: "8.8.0",
		Summary:    "Gives entries that are pending at consumers back to their group, for others to claim.",
		Complexity: "O(log(N)) for each entry, N being those that are pending.",
		Arity:      -7, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"), stringArg("group"), oneOf("mode", word("SILENT"), word("FAIL"),
				word("FATAL")), streamIDsArg,
			intArg("count").after("RETRYCOUNT").opt(), word("FORCE").opt(),
		},
		Run: runXNack,
	},
	{
		Name: "XPENDING", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Replies how much is pending in a group, or the entries that are.",
		Complexity: "O(log(N)+M) for M entries replied of N that are pending; O(C) for C consumers without a range.",
		History: [][2]string{{"6.2.0",
			"Added the `IDLE` option and exclusive range intervals."}},
		Arity: -3, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{
			keyArg("key"), stringArg("group"),
			block("filters",
				intArg("min-idle-time").after("IDLE").opt().since("6.2.0"),
				stringArg("start"), stringArg("end"), intArg("count"),
				stringArg("consumer").opt()).opt(),
		},
		Tips: []string{tipRandom},
		Run:  runXPending,
	},
}

// The errors of XNACK.
const (
	errNackMode   Error = "ERR mode must be SILENT, FAIL, or FATAL"
	errNackNumIDs Error = "ERR numids must be a positive integer"
	errNackIDs    Error = "ERR number of IDs doesn't match numids"
	errNackRetry  Error = "ERR Invalid RETRYCOUNT value, must be >= 0"
	errNackNoIDs  Error = "ERR syntax error, expected IDS keyword"
)

// runXAck parses the IDs only if the group exists.
func runXAck(c *Ctx) error {
	s, err := c.readStream(c.Keys[0])
	if err != nil {
		return err
	}
	var n int64
	if group := c.Arg(2); s.Value().Group(group) != nil {
		var few [fewIDs]object.StreamID
		ids, err := streamIDs(few[:0], c.Args[3:])
		if err != nil {
			return err
		}
		for _, id := range ids {
			if s.Ack(group, id) {
				n++
			}
		}
	}
	c.Out.Int(n)
	return nil
}

// nack contains the arguments of XNACK.
type nack struct {
	undo, fatal bool  // SILENT and FATAL: what happens to the count of deliveries
	retries     int64 // RETRYCOUNT: what it is; -1: not given
	force       bool
	ids         [][]byte
}

func (o *nack) parse(a Cursor) error {
	o.retries = -1
	switch {
	case a.Word("SILENT"):
		o.undo = true
	case a.Word("FATAL"):
		o.fatal = true
	case !a.Word("FAIL"):
		return errNackMode
	}
	for a.More() {
		switch {
		case a.Len() > 1 && a.Word("IDS"):
			n := a.IntFrom(1, errNackNumIDs)
			switch {
			case a.Err() != nil:
			case n > math.MaxInt32:
				a.Fail(errNackNumIDs)
			case n > int64(a.Len()):
				a.Fail(errNackIDs)
			default:
				o.ids = a.args[:n]
				a.Skip(n)
			}
		case a.Word("FORCE"):
			o.force = true
		case a.Len() > 1 && a.Word("RETRYCOUNT"):
			if o.retries = a.Int(); a.Err() == nil && o.retries < 0 {
				a.Fail(errNackRetry)
			}
		default:
			a.Fail(Error("ERR Unrecognized XNACK option '" + string(upToNUL(a.args[0])) + "'"))
		}
	}
	if a.Err() == nil && o.ids == nil {
		a.Fail(errNackNoIDs)
	}
	return a.Err()
}

// count returns the number of deliveries of an entry after it was given back.
func (o *nack) count(delivered int64) int64 {
	switch {
	case o.retries >= 0:
		return o.retries
	case o.fatal:
		return math.MaxInt64
	case o.undo:
		return max(delivered-1, 0)
	}
	return delivered
}

// runXNack replies with the number of entries given back. With FORCE this includes entries that
// were not pending, if the stream has them.
func runXNack(c *Ctx) error {
	s, err := c.Txn.Stream(c.Keys[0])
	if err != nil {
		return err
	}
	group := c.Arg(2)
	if s.Value().Group(group) == nil {
		return errNoKeyGroup(c.Arg(1), group)
	}
	var o nack
	if err := o.parse(c.Cursor(3)); err != nil {
		return err
	}
	var few [fewIDs]object.StreamID
	ids, err := streamIDs(few[:0], o.ids)
	if err != nil {
		return err
	}
	if err := c.haveIDs(&s, ids); err != nil {
		return err
	}
	var n int64
	for _, id := range ids {
		e, pending := s.Value().Group(group).PendingEntry(id)
		if _, there := s.Value().Get(id); !pending && !(o.force && there) {
			continue
		}
		s.Deliver(group, nil, id, 0, o.count(e.Count))
		n++
	}
	if n > 0 {
		s.Signal() // those that wait with CLAIM may have them
	}
	c.Out.Int(n)
	return nil
}

// pendingRange contains the arguments of XPENDING after the group.
type pendingRange struct {
	idle, count int64
	from, to    object.StreamID
	consumer    []byte // nil: all
}

// parse parses the numbers before the IDs, as Redis does.
func (o *pendingRange) parse(args [][]byte) (err error) {
	a := Cursor{args: args}
	if a.Word("IDLE") {
		o.idle = a.Int()
		if a.Err() == nil && a.Len() < 3 {
			a.Fail(ErrSyntax)
		}
	}
	if a.Err() != nil {
		return a.Err()
	}
	start, end := a.Bytes(), a.Bytes()
	if o.count = a.Int(); a.Err() != nil {
		return a.Err()
	}
	if o.from, err = streamStart(start); err != nil {
		return err
	}
	if o.to, err = streamEnd(end); err != nil {
		return err
	}
	if a.Len() > 0 {
		o.consumer = a.Bytes()
	}
	return nil
}

func runXPending(c *Ctx) error {
	var o pendingRange
	ranged := len(c.Args) > 3
	if ranged {
		if len(c.Args) < 6 || len(c.Args) > 9 {
			return ErrSyntax
		}
		if err := o.parse(c.Args[3:]); err != nil {
			return err
		}
	}
	s, err := c.readStream(c.Keys[0])
	if err != nil {
		return err
	}
	g := s.Value().Group(c.Arg(2))
	switch {
	case g == nil:
		return errNoKeyGroup(c.Arg(1), c.Arg(2))
	case c.offloads(o.looks(g, ranged), largeCount):
		return errOffload
	case ranged:
		o.reply(c, g)
	default:
		pendingSummary(c, g)
	}
	return nil
}

// looks returns the maximum number of consumers or pending entries that the command looks at.
func (o *pendingRange) looks(g *object.StreamGroup, ranged bool) int {
	switch {
	case !ranged:
		return g.Consumers()
	case o.idle != 0:
		return g.Pending()
	}
	return int(min(o.count, int64(g.Pending())))
}

// pendingSummary replies with the number of pending entries, the first and the last of them, and
// the number at each consumer that has any.
func pendingSummary(c *Ctx, g *object.StreamGroup) {
	c.Out.Array(4)
	c.Out.Int(int64(g.Pending()))
	if g.Pending() == 0 {
		c.Out.Null()
		c.Out.Null()
		c.Out.NullArray()
		return
	}
	first, _ := g.FirstPending()
	last, _ := g.LastPending()
	c.streamID(first)
	c.streamID(last)
	mark, n := c.Out.ArrayLater(), 0
	g.EachConsumer(func(consumer *object.StreamConsumer) bool {
		if consumer.Pending() > 0 {
			c.Out.Array(2)
			c.Out.Bulk(consumer.Name())
			c.Out.BulkInt(int64(consumer.Pending()))
			n++
		}
		return true
	})
	c.Out.SetLen(mark, n)
}

// reply replies with the entries of the range: ID, consumer, the time since the last delivery in
// ms, and the number of deliveries. An entry without a consumer has an empty name and the time -1.
func (o *pendingRange) reply(c *Ctx, g *object.StreamGroup) {
	mark, n := c.Out.ArrayLater(), int64(0)
	now := c.Txn.Now()
	entry := func(e object.PendingEntry) bool {
		idle, name := int64(-1), []byte{}
		if e.Consumer != nil {
			if idle = now - e.Delivered; o.idle != 0 && idle < o.idle {
				return true
			}
			idle, name = max(idle, 0), e.Consumer.Name()
		}
		c.Out.Array(4)
		c.streamID(e.ID)
		c.Out.Bulk(name)
		c.Out.Int(idle)
		c.Out.Int(e.Count)
		n++
		return n < o.count
	}
	switch {
	case o.count <= 0:
	case o.consumer == nil:
		g.EachPending(o.from, o.to, entry)
	default:
		if consumer := g.Consumer(o.consumer); consumer != nil {
			consumer.EachPending(o.from, o.to, func(id object.StreamID) bool {
				e, _ := g.PendingEntry(id)
				return entry(e)
			})
		}
	}
	c.Out.SetLen(mark, int(n))
}
