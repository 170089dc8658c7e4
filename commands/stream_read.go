package commands

import (
	"math"

	"keyp/storage"
	"keyp/storage/object"
)

var streamReadCommands = []Spec{
	{
		Name: "XREAD", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Replies the entries of streams behind given IDs, or waits for some.",
		Complexity: "O(M) for each stream, M being the entries replied. An XADD takes O(N) for N clients that wait for the stream.",
		History:    [][2]string{{"8.10.0", "Added the `MAXCOUNT` and `MAXSIZE` options."}},
		Arity:      -4, Flags: ReadOnly | Blocking,
		Keys: []KeySpec{streamReadKeys(1)},
		Args: append(streamReadLimits, streamReadBlock, streamReadStreams),
		Run:  runXRead,
	},
	{
		Name: "XREADGROUP", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Delivers entries of streams to a consumer of a group, or waits for some, or replies what is pending at the consumer.",
		Complexity: "O(M) for each stream, M being the entries replied. An XADD takes O(N) for N clients that wait for the stream.",
		History: [][2]string{
			{"8.4.0", "Added the `CLAIM` option."},
			{"8.10.0", "Added the `MAXCOUNT` and `MAXSIZE` options."},
		},
		Arity: -7, Flags: Write | Blocking,
		Keys: []KeySpec{streamReadKeys(4)},
		Args: append(append([]Arg{block("group-block", stringArg("group"),
			stringArg("consumer")).after("GROUP")}, streamReadLimits...),
			streamReadBlock, intArg("min-idle-time").after("CLAIM").opt().since("8.4.0"),
			word("NOACK").opt(), streamReadStreams),
		Run: runXReadGroup,
	},
}

var (
	streamReadLimits = []Arg{
		intArg("count").after("COUNT").opt(),
		intArg("maxcount").after("MAXCOUNT").opt().since("8.10.0"),
		intArg("maxsize").after("MAXSIZE").opt().since("8.10.0"),
	}
	streamReadBlock   = intArg("milliseconds").after("BLOCK").opt()
	streamReadStreams = block("streams", keyArg("key").many(),
		stringArg("id").many()).after("STREAMS")
)

// The errors of XREAD and XREADGROUP.
const (
	errReadTimeout   Error = "ERR timeout is not an integer or out of range"
	errReadClaim     Error = "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead."
	errReadGroup     Error = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
	errReadNoAck     Error = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
	errReadNoGroup   Error = "ERR Missing GROUP option for XREADGROUP"
	errReadIdle      Error = "ERR min-idle-time is not an integer or out of range"
	errReadIdleSign  Error = "ERR min-idle-time must be a positive integer"
	errReadMaxCount  Error = "ERR MAXCOUNT must be a positive integer"
	errReadMaxSize   Error = "ERR MAXSIZE must be a positive integer"
	errReadUnpaired  Error = "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
	errGroupUnpaired Error = "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
	errReadNew       Error = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
	errGroupLatest   Error = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."
	errGroupLast     Error = "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set."
)

// streamReadKeys describes the keys, which are the first half of the arguments after STREAMS.
// STREAMS is at argument begin or later.
func streamReadKeys(begin int) KeySpec {
	return KeySpec{Flags: RO | Access, Begin: begin, Last: -1, Limit: 2, Find: findStreams,
		Word: "STREAMS"}
}

// findStreams finds the keys. There are none if the arguments are wrong.
func findStreams(args [][]byte) (first, last int) {
	for i := 1; i < len(args); i++ {
		switch {
		case isWord(args[i], "STREAMS"):
			n := len(args) - i - 1
			if n%2 == 1 {
				return noArgument(nil)
			}
			return i + 1, i + n/2
		case isWord(args[i], "GROUP"):
			i += 2
		case isWord(args[i], "COUNT"), isWord(args[i], "BLOCK"), isWord(args[i], "MAXCOUNT"),
			isWord(args[i], "MAXSIZE"), isWord(args[i], "CLAIM"):
			i++
		case !isWord(args[i], "NOACK"):
			return noArgument(nil)
		}
	}
	return noArgument(nil)
}

// streamRead contains the arguments of XREAD and XREADGROUP.
type streamRead struct {
	inGroup         bool // XREADGROUP
	group, consumer []byte
	count           int64 // of each stream; 0: all
	maxCount        int64 // of all streams; 0: no bound
	maxSize         int64 // bytes of the reply; 0: no bound
	block           bool
	timeout         int64
	claim           int64 // -1: not given
	noAck           bool
	ids             int // argument that is the first ID
}

// parse reads the arguments up to the keys.
func (r *streamRead) parse(c *Ctx) error {
	r.claim = -1
	a := c.Cursor(1)
	for a.More() && r.ids == 0 {
		more := a.Len() - 1
		switch {
		case more >= 1 && a.Word("CLAIM"):
			r.only(&a, errReadClaim)
			if r.claim = a.IntFrom(math.MinInt64, errReadIdle); r.claim < 0 {
				a.Fail(errReadIdleSign)
			}
		case more >= 1 && a.Word("BLOCK"):
			r.block, r.timeout = true, a.milliseconds(c.Txn.Now())
		case more >= 1 && a.Word("COUNT"):
			r.count = max(a.Int(), 0)
		case more >= 1 && a.Word("MAXCOUNT"):
			r.maxCount = a.IntFrom(1, errReadMaxCount)
		case more >= 1 && a.Word("MAXSIZE"):
			r.maxSize = a.IntFrom(1, errReadMaxSize)
		case more >= 1 && a.Word("STREAMS"):
			if n := a.Len(); n%2 == 0 {
				r.ids = len(c.Args) - n/2
			} else if r.inGroup {
				a.Fail(errGroupUnpaired)
			} else {
				a.Fail(errReadUnpaired)
			}
		case more >= 2 && a.Word("GROUP"):
			r.only(&a, errReadGroup)
			r.group, r.consumer = a.Bytes(), a.Bytes()
		case a.Word("NOACK"):
			r.only(&a, errReadNoAck)
			r.noAck = true
		default:
			a.Fail(ErrSyntax)
		}
	}
	switch {
	case a.Err() != nil:
		return a.Err()
	case r.ids == 0:
		return ErrSyntax
	case r.inGroup && r.group == nil:
		return errReadNoGroup
	}
	return nil
}

// only fails with err if the command is XREAD.
func (r *streamRead) only(a *Cursor, err error) {
	if !r.inGroup {
		a.Fail(err)
	}
}

// milliseconds takes a timeout in ms; 0 means for ever. A timeout whose end overflows Unix ms is an
// error. now is in Unix ms.
func (a *Cursor) milliseconds(now int64) int64 {
	ms := a.IntFrom(math.MinInt64, errReadTimeout)
	switch {
	case ms < 0:
		a.Fail(errTimeoutSign)
	case ms > math.MaxInt64-now:
		a.Fail(errTimeoutRange)
	}
	return ms
}

// large reports whether the command should be a task, because it may reply with or skip many
// entries.
func (r *streamRead) large(c *Ctx) bool {
	few := r.maxCount > 0 && r.maxCount < largeCount ||
		r.count > 0 && r.count < largeCount && r.count*int64(len(c.Keys)) < largeCount
	if few && r.claim < 0 || !c.mayOffload() {
		return false
	}
	n := 0
	for i, k := range c.Keys {
		if s, err := c.Txn.Stream(k); err == nil && n < largeCount {
			n += r.candidates(s.Value(), c.Arg(r.ids+i), c.Txn.Now())
		}
	}
	return n >= largeCount
}

// candidates counts the entries of a stream that the command looks at, and stops at largeCount. An
// invalid ID or a missing group counts as 0.
func (r *streamRead) candidates(s *object.Stream, id []byte, now int64) (n int) {
	most := int64(-1)
	if r.count > 0 {
		most = r.count
	}
	count := func(object.StreamID) bool {
		n++
		return n < largeCount && int64(n) != most
	}
	g, fresh := s.Group(r.group), string(upToNUL(id)) == ">"
	after, err := streamID(id)
	if fresh && g != nil {
		after, err = g.LastID, nil
	}
	from, ok := after.Next()
	switch {
	case err != nil || !ok || r.inGroup && g == nil:
	case !r.inGroup || fresh:
		if n = s.About(from, object.MaxStreamID, largeCount); most >= 0 {
			n = int(min(int64(n), most))
		}
	case g.Consumer(r.consumer) != nil:
		g.Consumer(r.consumer).EachPending(from, object.MaxStreamID, count)
	}
	if fresh && g != nil && r.claim >= 0 {
		n += idleIn(s, g, now-r.claim, most)
	}
	return n
}

// idleIn counts the pending entries that were delivered up to an instant. It stops when most of
// them are still in the stream (-1: no limit), or when the count is largeCount.
func idleIn(s *object.Stream, g *object.StreamGroup, until, most int64) (n int) {
	there := int64(0)
	g.EachByTime(func(e object.PendingEntry) bool {
		if e.Delivered > until || there == most {
			return false
		}
		if s.MayHave(e.ID) {
			there++
		}
		n++
		return n < largeCount
	})
	return n
}

// streamReply is an incomplete reply to XREAD or XREADGROUP: a map of the streams that have entries
// for it.
type streamReply struct {
	c       *Ctx
	r       *streamRead
	mark    int // where it begins
	streams int
	entries int64
	full    bool // MAXCOUNT or MAXSIZE is reached
}

// left returns how many entries of a stream may follow; math.MaxInt64 means no bound.
func (p *streamReply) left() int64 {
	n := int64(math.MaxInt64)
	if p.r.count > 0 {
		n = p.r.count
	}
	if p.r.maxCount > 0 {
		n = min(n, p.r.maxCount-p.entries)
	}
	return n
}

// stream replies with the entries of a key. It calls write, which must call entry for each of them.
// A key without entries is in the reply only if empty is set.
func (p *streamReply) stream(k storage.Key, empty bool, write func()) {
	out := p.c.Out
	if p.full {
		return
	}
	begin, before := out.Len(), p.entries
	if out.Proto < 3 {
		out.Array(2)
	}
	out.Bulk(k.Name)
	mark := out.ArrayLater()
	write()
	n := int(p.entries - before)
	p.full = p.full || p.r.maxCount > 0 && p.entries >= p.r.maxCount
	if n == 0 && !empty {
		out.Truncate(begin)
		return
	}
	out.SetLen(mark, n)
	p.streams++
}

// entry calls write for one entry. If the entry does not fit into the reply, it removes the entry
// and returns false, and nothing may follow.
func (p *streamReply) entry(write func()) bool {
	out := p.c.Out
	begin := out.Len()
	write()
	if p.r.maxSize > 0 && p.entries > 0 && int64(out.Len()-p.mark) > p.r.maxSize {
		out.Truncate(begin)
		p.full = true
		return false
	}
	p.entries++
	return true
}

// begin starts the reply. The function that it returns completes the reply. If no stream has
// entries, that function removes the reply and returns false.
func (p *streamReply) begin() func() bool {
	out := p.c.Out
	p.mark = out.Len()
	later := out.ArrayLater // of pairs
	if out.Proto >= 3 {
		later = out.MapLater
	}
	mark := later()
	return func() bool {
		if p.streams == 0 {
			out.Truncate(p.mark)
			return false
		}
		out.SetLen(mark, p.streams)
		return true
	}
}

// runXRead replies with null if no stream has entries for it.
func runXRead(c *Ctx) error {
	var r streamRead
	if err := r.parse(c); err != nil {
		return err
	}
	if r.large(c) {
		return errOffload
	}
	var few [fewIDs]object.StreamID
	ids, err := r.positions(c, few[:0])
	if err != nil {
		return err
	}
	p := streamReply{c: c, r: &r}
	for i, k := range c.Keys {
		s, err := c.Txn.Stream(k)
		if from, ok := ids[i].Next(); ok && err == nil && s.Cold() {
			c.wants(&s, s.Value().Wanted(nil, from, object.MaxStreamID, false, bound(p.left())))
		}
	}
	if err := c.haveRuns(); err != nil {
		return err
	}
	end := p.begin()
	for i, k := range c.Keys {
		s, err := c.readStream(k)
		if err != nil {
			return err
		}
		v := s.Value()
		if last, ok := v.LastEntry(); !ok || last.Compare(ids[i]) <= 0 {
			continue
		}
		p.stream(k, false, func() { p.read(v, ids[i]) })
	}
	switch {
	case end():
		return nil
	case !r.block:
		c.Out.NullArray()
		return nil
	}
	for i, id := range ids {
		if arg := &c.Args[r.ids+i]; !c.Nested && string(upToNUL(*arg)) == "$" {
			*arg = id.Append(nil) // the command runs again with what the last ID is now
		}
	}
	return c.block(c.Keys, object.TypeStream, r.timeout)
}

// read replies with the entries after an ID.
func (p *streamReply) read(s *object.Stream, id object.StreamID) {
	left := p.left()
	from, _ := id.Next()
	s.Range(from, object.MaxStreamID, false, func(e object.StreamEntry) bool {
		left--
		return p.entry(func() { p.c.streamEntry(e) }) && left > 0
	})
}

// positions parses XREAD's IDs. Of each stream only entries after its ID are in the reply.
func (r *streamRead) positions(c *Ctx, ids []object.StreamID) ([]object.StreamID, error) {
	for i, k := range c.Keys {
		s, err := c.readStream(k)
		if err != nil {
			return nil, err
		}
		var id object.StreamID
		switch arg := c.Arg(r.ids + i); string(upToNUL(arg)) {
		case "$":
			id = s.Value().LastID()
		case "+":
			last, _ := s.Value().LastEntry()
			id, _ = last.Prev()
		case ">":
			err = errReadNew
		default:
			id, err = streamID(arg)
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
