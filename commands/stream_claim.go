package commands

import (
	"math"

	"keyp/storage"
	"keyp/storage/object"
)

var streamClaimCommands = []Spec{
	{
		Name: "XCLAIM", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Makes pending entries of a group a consumer's, as if they had been delivered to it.",
		Complexity: "O(log N) for each entry, N being those that are pending.",
		Arity:      -6, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"), stringArg("group"), stringArg("consumer"), stringArg("min-idle-time"),
			stringArg("id").many(),
			intArg("ms").after("IDLE").opt(),
			unixArg("unix-time-milliseconds").after("TIME").opt(),
			intArg("count").after("RETRYCOUNT").opt(),
			word("FORCE").opt(), word("JUSTID").opt(),
			stringArg("lastid").after("LASTID").opt(),
		},
		Tips: []string{tipRandom},
		Run:  runXClaim,
	},
	{
		Name: "XAUTOCLAIM", Group: StreamGroup, Since: "6.2.0",
		Summary:    "Makes entries of a group that are pending for long a consumer's, from an ID on.",
		Complexity: "O(1) if COUNT is small.",
		History: [][2]string{{"7.0.0",
			"Added an element to the reply array, containing deleted entries the command cleared from the PEL"}},
		Arity: -6, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{
			keyArg("key"), stringArg("group"), stringArg("consumer"), stringArg("min-idle-time"),
			stringArg("start"),
			intArg("count").after("COUNT").opt(), word("JUSTID").opt(),
		},
		Tips: []string{tipRandom},
		Run:  runXAutoClaim,
	},
}

// The errors of XCLAIM and XAUTOCLAIM.
const (
	errClaimMinIdle     Error = "ERR Invalid min-idle-time argument for XCLAIM"
	errClaimIdle        Error = "ERR Invalid IDLE option argument for XCLAIM"
	errClaimTime        Error = "ERR Invalid TIME option argument for XCLAIM"
	errClaimRetry       Error = "ERR Invalid RETRYCOUNT option argument for XCLAIM"
	errAutoClaimMinIdle Error = "ERR Invalid min-idle-time argument for XAUTOCLAIM"
	errAutoClaimCount   Error = "ERR COUNT must be > 0"
)

// claim claims entries for XCLAIM and XAUTOCLAIM.
type claim struct {
	c               *Ctx
	s               storage.Stream
	group, consumer []byte
	minIdle         int64
	at              int64 // the new time of delivery of a claimed entry
	retries         int64 // its new count of deliveries; -1: one more, or the same with justID
	justID          bool
	claimed         int
}

// openClaim prepares claims of the command's consumer in the command's stream, whose group must
// exist.
func openClaim(c *Ctx, s storage.Stream, err error) (claim, error) {
	m := claim{c: c, s: s, group: c.Arg(2), consumer: c.Arg(3), at: c.Txn.Now(), retries: -1}
	if err == nil && s.Value().Group(m.group) == nil {
		err = errNoKeyGroup(c.Arg(1), c.Arg(2))
	}
	return m, err
}

// take gives a pending entry to the consumer and replies with it. It does neither if the entry was
// not pending for long enough.
func (m *claim) take(e object.StreamEntry, pending object.PendingEntry) bool {
	c := m.c
	if pending.Consumer != nil && m.minIdle > 0 && c.Txn.Now()-pending.Delivered < m.minIdle {
		return false
	}
	if m.justID {
		c.streamID(e.ID)
	} else {
		c.streamEntry(e)
	}
	count := pending.Count
	switch {
	case m.retries >= 0:
		count = m.retries
	case !m.justID:
		count = oneMore(count)
	}
	m.s.Deliver(m.group, m.consumer, e.ID, m.at, count)
	m.claimed++
	return true
}

// begin creates the consumer if it is missing.
func (m *claim) begin() { m.c.consumer(&m.s, m.c.Keys[0], m.group, m.consumer) }

// end records when the consumer asked, and when it got entries.
func (m *claim) end() {
	now := m.c.Txn.Now()
	active := m.s.Value().Group(m.group).Consumer(m.consumer).Active
	if m.claimed > 0 {
		active = now
	}
	m.s.Touch(m.group, m.consumer, now, active)
}

// claimOptions are the options after XCLAIM's IDs.
type claimOptions struct {
	force  bool
	lastID object.StreamID
}

// options reads the options after the IDs. An impossible time of delivery counts as the present
// one.
func (m *claim) options(a Cursor) (o claimOptions, err error) {
	now := m.at
	at := int64(-1)
	for a.More() {
		switch {
		case a.Word("FORCE"):
			o.force = true
		case a.Word("JUSTID"):
			m.justID = true
		case a.Len() > 1 && a.Word("IDLE"):
			at = now - a.IntFrom(math.MinInt64, errClaimIdle)
		case a.Len() > 1 && a.Word("TIME"):
			at = a.IntFrom(math.MinInt64, errClaimTime)
		case a.Len() > 1 && a.Word("RETRYCOUNT"):
			m.retries = a.IntFrom(math.MinInt64, errClaimRetry)
		case a.Len() > 1 && a.Word("LASTID"):
			o.lastID = a.StreamID()
		default:
			a.Fail(Error("ERR Unrecognized XCLAIM option '" + string(upToNUL(a.args[0])) + "'"))
		}
	}
	if at >= 0 && at <= now {
		m.at = at
	}
	return o, a.Err()
}

// runXClaim replies with the entries that are the consumer's now. Entries that the stream does not
// have any more are no longer pending.
func runXClaim(c *Ctx) error {
	s, err := c.readStream(c.Keys[0])
	m, err := openClaim(c, s, err)
	if err != nil {
		return err
	}
	a := c.Cursor(4)
	if m.minIdle = a.IntFrom(math.MinInt64, errClaimMinIdle); a.Err() != nil {
		return a.Err()
	}
	var few [fewIDs]object.StreamID
	ids := few[:0]
	for a.More() {
		id, ok := parseStreamID(a.args[0], 0)
		if !ok {
			break
		}
		a.Bytes()
		ids = append(ids, id)
	}
	o, err := m.options(a)
	if err != nil {
		return err
	}
	if err := c.haveIDs(&m.s, ids); err != nil {
		return err
	}
	if g := m.s.Value().Group(m.group); o.lastID.Compare(g.LastID) > 0 {
		m.s.SetGroup(m.group, o.lastID, g.EntriesRead())
	}
	m.begin()
	mark := c.Out.ArrayLater()
	for _, id := range ids {
		pending, found := m.s.Value().Group(m.group).PendingEntry(id)
		e, there := m.s.Value().Get(id)
		switch {
		case !there && found:
			m.s.Ack(m.group, id)
		case there && (found || o.force):
			if !found {
				pending = object.PendingEntry{Count: 1}
			}
			m.take(e, pending)
		}
	}
	c.Out.SetLen(mark, m.claimed)
	m.end()
	return nil
}

// Bounds of XAUTOCLAIM: the default of COUNT, its largest value, and how many entries are looked at
// for each.
const (
	autoClaimCount    = 100
	maxAutoClaimCount = math.MaxInt64 / 16
	autoClaimLooks    = 10
)

// runXAutoClaim replies with the start of the next call, the entries that are the consumer's now,
// and the IDs of missing entries. A missing entry was pending, but is no longer in the stream. It
// is not pending any more.
func runXAutoClaim(c *Ctx) error {
	s, wrong := c.readStream(c.Keys[0])
	a := c.Cursor(4)
	minIdle := a.IntFrom(math.MinInt64, errAutoClaimMinIdle)
	if a.Err() != nil {
		return a.Err()
	}
	from, err := streamStart(a.Bytes())
	if err != nil {
		return err
	}
	count, justID := int64(autoClaimCount), false
	for a.More() {
		switch {
		case a.Len() > 1 && a.Word("COUNT"):
			if count = a.IntFrom(1, errAutoClaimCount); count > maxAutoClaimCount {
				a.Fail(errAutoClaimCount)
			}
		case a.Word("JUSTID"):
			justID = true
		default:
			a.Fail(ErrSyntax)
		}
	}
	if a.Err() != nil {
		return a.Err()
	}
	m, err := openClaim(c, s, wrong)
	if err != nil {
		return err
	}
	if min(count, int64(s.Value().Group(m.group).Pending())) >= largeCount && c.mayOffload() {
		return errOffload
	}
	m.minIdle, m.justID = minIdle, justID
	if err := m.haveAuto(from, count); err != nil {
		return err
	}
	m.begin()
	m.auto(from, count)
	m.end()
	return nil
}

// autoClaimBound returns the maximum number of entries that XAUTOCLAIM looks at.
func autoClaimBound(count int64) int64 {
	return min(count, math.MaxInt64/autoClaimLooks) * autoClaimLooks
}

// haveAuto makes sure that the entries that auto looks at are in memory.
func (m *claim) haveAuto(from object.StreamID, count int64) error {
	if m.s.Cold() {
		m.c.wantPending(&m.s, autoClaimBound(count), func(visit func(object.StreamID) bool) {
			m.s.Value().Group(m.group).EachPending(from, object.MaxStreamID,
				func(e object.PendingEntry) bool { return visit(e.ID) })
		})
	}
	return m.c.haveRuns()
}

// auto claims up to count entries, from an ID on.
func (m *claim) auto(from object.StreamID, count int64) {
	c, now := m.c, m.c.Txn.Now()
	looks := autoClaimBound(count)
	var taken []object.PendingEntry // or to be removed
	var next object.StreamID
	v := m.s.Value()
	v.Group(m.group).EachPending(from, object.MaxStreamID, func(e object.PendingEntry) bool {
		if looks == 0 || count == 0 {
			next = e.ID
			return false
		}
		looks--
		if _, there := v.Get(e.ID); !there || e.Consumer == nil || m.minIdle <= 0 ||
			now-e.Delivered >= m.minIdle {
			taken = append(taken, e)
			count--
		}
		return true
	})
	c.Out.Array(3)
	c.streamID(next)
	mark := c.Out.ArrayLater()
	var gone []object.StreamID
	for _, pending := range taken {
		if e, there := m.s.Value().Get(pending.ID); there {
			m.take(e, pending)
		} else {
			m.s.Ack(m.group, pending.ID)
			gone = append(gone, pending.ID)
		}
	}
	c.Out.SetLen(mark, m.claimed)
	c.Out.Array(len(gone))
	for _, id := range gone {
		c.streamID(id)
	}
}
