package commands

import (
	"cmp"
	"slices"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// keypLimitCommands are the commands of rate limits, such as at most 100 calls in a minute. A
// client asks before each call, and the reply says whether the limits admit it
// (storage/object/limit.go).
var keypLimitCommands = []Spec{
	{
		Name: "KEYP.LIMIT", Group: KeypGroup, Since: "0.1.0", Arity: -2,
		Summary: "Admits or refuses by limits.", Complexity: "Depends on subcommand.",
		Sub: []Spec{
			{
				Name: "TAKE", Group: KeypGroup, Since: "0.1.0", Arity: -4,
				Flags:      Write | DenyOOM | Fast,
				Summary:    "Admits a cost if all limits have room for it, and says which one has not and when to try again.",
				Complexity: limitComplexity,
				Keys:       []KeySpec{Key(2, RW|Access|Update)},
				Args: []Arg{
					keyArg("key"), intArg("cost"), limitArg,
					block("reservation", stringArg("id"), intArg("ttl")).after("RESERVE").opt(),
				},
				Run: takeLimit,
			},
			{
				Name: "PEEK", Group: KeypGroup, Since: "0.1.0", Arity: -4, Flags: ReadOnly | Fast,
				Summary:    "Replies what TAKE would reply, and changes nothing.",
				Complexity: limitComplexity,
				Keys:       []KeySpec{Key(2, RO|Access)},
				Args:       []Arg{keyArg("key"), intArg("cost"), limitArg},
				Run:        peekLimit,
			},
			{
				Name: "CONFIRM", Group: KeypGroup, Since: "0.1.0", Arity: 4,
				Flags:      Write | DenyOOM | Fast,
				Summary:    "Ends a reservation whose cost was used, which then counts as admitted.",
				Complexity: "O(1)",
				Keys:       []KeySpec{Key(2, RW|Access|Update)},
				Args:       []Arg{keyArg("key"), stringArg("id")},
				Run:        endReservation((*storage.Limit).Confirm, eventLimitConfirm),
			},
			{
				Name: "RETURN", Group: KeypGroup, Since: "0.1.0", Arity: 4, Flags: Write | Fast,
				Summary:    "Ends a reservation and gives its cost back.",
				Complexity: "O(1)",
				Keys:       []KeySpec{Key(2, RW|Access|Update)},
				Args:       []Arg{keyArg("key"), stringArg("id")},
				Run:        endReservation((*storage.Limit).Return, eventLimitReturn),
			},
			{
				Name: "HELD", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: ReadOnly,
				Summary:    "Lists the reservations of a key, by deadline.",
				Complexity: "O(N*log(N)) in the number of reservations.",
				Keys:       []KeySpec{Key(2, RO|Access)},
				Args:       []Arg{keyArg("key")},
				Offload:    largeValues,
				Run:        heldLimit,
			},
			{
				Name: "RESET", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: Write | Fast,
				Summary:    "Forgets all that the limits of a key have admitted, and its reservations.",
				Complexity: "O(1)",
				Keys:       []KeySpec{Key(2, RM|Delete)},
				Args:       []Arg{keyArg("key")},
				Run:        resetLimit,
			},
			limitInfoCommand,
			helpFor("KEYP.LIMIT", KeypGroup, "0.1.0", Loading|Stale,
				"TAKE <key> <cost> <limit> [<limit> ...] [RESERVE <id> <ttl>]",
				"    Admit a cost if all limits have room for it. A limit is",
				"    TOKENS <burst> <rate> <per>: a bucket of burst tokens, rate of which come within per ms,",
				"    WINDOW <max> <ms> [APPROX]: max within any span of so many ms,",
				"    UNTIL <max> <unix-ms>: max until an instant.",
				"    The reply is 1 or 0, the number of the limit that refuses, in how many ms to try again (-1: never),",
				"    what is left of each limit, and in how many ms each is whole again.",
				"    RESERVE holds the cost for ttl ms, unless it is confirmed or returned.",
				"    per, ms and ttl may have a unit: 500ms, 30s, 10m, 2h, 7d.",
				"PEEK <key> <cost> <limit> [<limit> ...]", "    Say what TAKE would reply.",
				"CONFIRM <key> <id>", "    End a reservation whose cost was used.",
				"RETURN <key> <id>", "    End a reservation and give its cost back.",
				"HELD <key>", "    List the reservations, by deadline.",
				"INFO <key>", "    Show what the limits count, and the first reservations.",
				"RESET <key>", "    Forget all."),
		},
	},
	{
		Name: "CL.THROTTLE", Group: KeypGroup, Since: "0.1.0", Arity: -5,
		Flags:      Write | DenyOOM | Fast,
		Summary:    "Admits a quantity if a bucket of tokens has room for it, as redis-cell does.",
		Complexity: "O(1)",
		Keys:       []KeySpec{Key(1, RW|Access|Update)},
		Args: []Arg{
			keyArg("key"), intArg("max-burst"), intArg("count"), intArg("period"),
			intArg("quantity").opt(),
		},
		Run: throttle,
	},
}

const limitComplexity = "O(N) in the number of limits; where a WINDOW refuses, also in how many times of admissions must pass, and where there are reservations how many must end, up to 4096."

var limitArg = oneOf("limit",
	block("tokens", intArg("burst"), intArg("rate"), intArg("per")).after("TOKENS"),
	block("window", intArg("max"), intArg("ms"), word("APPROX").opt()).after("WINDOW"),
	block("until", intArg("max"), intArg("unix-ms")).after("UNTIL"),
).many()

var (
	eventLimitTake    = storage.Event{Class: storage.EventModule, Name: "limit.take"}
	eventLimitConfirm = storage.Event{Class: storage.EventModule, Name: "limit.confirm"}
	eventLimitReturn  = storage.Event{Class: storage.EventModule, Name: "limit.return"}
)

const (
	errLimitNumber Error = "ERR numbers of limits are between 1 and 1000000000000"
	errLimitCost   Error = "ERR cost is between 1 and 1000000000000"
	errLimitSpan   Error = "ERR times of limits are between 1 and 1000000000000 ms, or have a unit, such as 30s"
	errLimitFill   Error = "ERR an empty bucket must be full again within 1000000000000 ms"
	errLimitWindow Error = "ERR a WINDOW that is longer than 100000 ms has a max of at most 100000, unless it is APPROX"
	errLimits      Error = "ERR a call has at most 16 limits"
	errLimitNone   Error = "ERR a call needs a limit: TOKENS, WINDOW or UNTIL"
	errLimitUntil  Error = "ERR the instant of UNTIL is between 1 and 288230376151711743 in Unix milliseconds"
	errLimitOver   Error = "ERR the instant of UNTIL has passed"
	errLimitID     Error = "ERR the id of a reservation has 1 to 256 bytes"
	errLimitTTL    Error = "ERR the time of a reservation is between 1 and 1000000000000 ms, or has a unit, such as 30s"
)

// limitCall contains the arguments of TAKE and PEEK.
type limitCall struct {
	cost  int64
	room  [object.MaxLimits]object.LimitRule
	count int
	id    []byte // nil: no reservation
	ttl   int64
}

func (p *limitCall) rules() []object.LimitRule { return p.room[:p.count] }

// limitNumber takes a positive number. Costs, counts and spans share its upper bound.
func (a *Cursor) limitNumber(wrong error) int64 {
	n := a.IntFrom(1, wrong)
	if n > object.MaxLimitCount {
		a.Fail(wrong)
	}
	return n
}

// limitTime takes a time up to the bound of limitNumber, in ms.
func (a *Cursor) limitTime(wrong error) int64 {
	ms := a.Duration(1, wrong)
	if ms > object.MaxLimitCount {
		a.Fail(wrong)
	}
	return ms
}

// parse reads the arguments from the cost on. Only numbers follow a word, and RESERVE comes last.
// So no argument has two meanings.
func (p *limitCall) parse(c Cursor, reserve bool) error {
	a := options{Cursor: c}
	p.cost = a.limitNumber(errLimitCost)
	for a.More() {
		if reserve && a.option("RESERVE", 2) {
			p.id = a.Bytes()
			p.ttl = a.limitTime(errLimitTTL)
			if len(p.id) == 0 || len(p.id) > object.MaxLimitID {
				a.Fail(errLimitID)
			}
			break
		}
		if p.count == len(p.room) {
			a.Fail(errLimits)
			break
		}
		r := &p.room[p.count]
		p.count++
		switch {
		case a.part("TOKENS", 3):
			r.Kind = object.LimitTokens
			r.Count, r.Rate, r.Span = a.limitNumber(errLimitNumber), a.limitNumber(errLimitNumber),
				a.limitTime(errLimitSpan)
			if a.Err() == nil && !r.Valid() {
				a.Fail(errLimitFill)
			}
		case a.part("WINDOW", 2):
			r.Kind = object.LimitWindow
			r.Count, r.Span = a.limitNumber(errLimitNumber), a.limitTime(errLimitSpan)
			if a.Word("APPROX") {
				r.Kind = object.LimitApprox
			}
			if a.Err() == nil && !r.Valid() {
				a.Fail(errLimitWindow)
			}
		case a.part("UNTIL", 2):
			r.Kind = object.LimitUntil
			r.Count, r.Until = a.limitNumber(errLimitNumber), a.IntFrom(1, errLimitUntil)
			if a.Err() == nil && !r.Valid() {
				a.Fail(errLimitUntil)
			}
		default:
			a.end()
		}
	}
	a.end()
	if p.count == 0 {
		a.Fail(errLimitNone)
	}
	return a.Err()
}

func takeLimit(c *Ctx) error {
	var p limitCall
	if err := p.parse(c.Cursor(3), true); err != nil {
		return err
	}
	refuses, retry, l, err := c.admit(&p)
	if err == nil {
		c.replyLimits(&p, l.Value(), refuses, retry)
	}
	return err
}

// admit admits the cost of a call, or returns the limit that refuses, as object.Limit.Ask does. An
// existing reservation is admitted and stays unchanged. Policies do not apply, because limits have
// deadlines of their own.
func (c *Ctx) admit(p *limitCall) (refuses int, retry int64, l storage.Limit, err error) {
	t := c.Txn
	t.Exempt = true
	defer func() { t.Exempt = false }()
	if l, err = t.Limit(c.Keys[0]); err != nil {
		return 0, 0, l, err
	}
	v, now := l.Value(), t.Now()
	if p.id != nil && v.Held(p.id) {
		return 0, 0, l, nil
	}
	if v.Over(p.rules(), now) != 0 {
		return 0, 0, l, errLimitOver
	}
	if refuses, retry = v.Ask(p.rules(), now, p.cost); refuses != 0 || p.cost == 0 {
		return refuses, retry, l, nil
	}
	if p.id != nil {
		l.Hold(p.id, p.rules(), p.cost, now+p.ttl)
	} else {
		l.Admit(p.rules(), p.cost)
	}
	l.Finish()
	t.Notify(c.Keys[0], eventLimitTake)
	return 0, 0, l, nil
}

func peekLimit(c *Ctx) error {
	var p limitCall
	if err := p.parse(c.Cursor(3), false); err != nil {
		return err
	}
	v, err := c.peekLimits()
	if err != nil {
		return err
	}
	if v.Over(p.rules(), c.Txn.Now()) != 0 {
		return errLimitOver
	}
	refuses, retry := v.Ask(p.rules(), c.Txn.Now(), p.cost)
	c.replyLimits(&p, v, refuses, retry)
	return nil
}

// peekLimits returns the limits of the key, without marking an access. For a missing or expired key
// it returns no limits.
func (c *Ctx) peekLimits() (*object.Limit, error) {
	item, ok := c.peek(c.Keys[0])
	if !ok {
		return &object.Limit{}, nil
	}
	v, ok := item.Value().(*object.Limit)
	if !ok {
		return nil, storage.ErrWrongType
	}
	return v, nil
}

// replyLimits replies with five elements. The first is 1 if the call is admitted, and otherwise 0.
// Then come the number of the limit that refuses, and the time in ms until the next attempt. Then
// come two arrays: how much is left of each limit, and for how many ms the costs that were admitted
// still count.
func (c *Ctx) replyLimits(p *limitCall, v *object.Limit, refuses int, retry int64) {
	var reset [object.MaxLimits]int64
	c.Out.Array(5)
	c.bit(refuses == 0)
	c.Out.Int(int64(refuses))
	c.Out.Int(retry)
	c.Out.Array(p.count)
	for i := range p.rules() {
		var left int64
		left, reset[i] = v.Left(i, &p.room[i], c.Txn.Now())
		c.Out.Int(left)
	}
	c.Out.Array(p.count)
	for _, ms := range reset[:p.count] {
		c.Out.Int(ms)
	}
}

// endReservation returns the handler of CONFIRM or RETURN. They reply with 1, or with 0 if there is
// no such reservation any more.
func endReservation(end func(*storage.Limit, []byte) bool, ev storage.Event) func(*Ctx) error {
	return func(c *Ctx) error {
		t := c.Txn
		t.Exempt = true
		defer func() { t.Exempt = false }()
		l, err := t.Limit(c.Keys[0])
		if err != nil {
			return err
		}
		done := end(&l, c.Arg(3))
		if done {
			t.Notify(c.Keys[0], ev)
			l.Finish()
		}
		c.bit(done)
		return nil
	}
}

// heldLimit replies with an array of id, cost and deadline for each reservation.
func heldLimit(c *Ctx) error {
	v, err := c.peekLimits()
	if err != nil {
		return err
	}
	type held struct {
		id             []byte
		cost, deadline int64
	}
	list := make([]held, 0, v.HeldLen())
	v.EachHeld(func(id []byte, cost, deadline int64) {
		list = append(list, held{id, cost, deadline})
	})
	slices.SortFunc(list, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.deadline, b.deadline), slices.Compare(a.id, b.id))
	})
	c.Out.Array(len(list))
	for _, h := range list {
		c.Out.Array(3)
		c.Out.Bulk(h.id)
		c.Out.Int(h.cost)
		c.Out.Int(h.deadline)
	}
	return nil
}

func resetLimit(c *Ctx) error {
	item, ok := c.Txn.Peek(c.Keys[0])
	if ok && item.Type() != object.TypeLimit {
		return storage.ErrWrongType
	}
	c.bit(ok && c.Txn.Delete(c.Keys[0], storage.Deleted))
	return nil
}

// throttle replies with five integers, as redis-cell does. The first is 1 if the quantity is
// refused. Then come the number of tokens that the bucket can hold, and the number that is left.
// The fourth is the number of seconds until the next attempt; -1 means that the quantity is not
// refused, or is more than the bucket can hold. The last is the number of seconds until the bucket
// is full.
func throttle(c *Ctx) error {
	a := c.Cursor(2)
	p := limitCall{count: 1, cost: 1}
	r := &p.room[0]
	r.Kind = object.LimitTokens
	r.Count = a.IntFrom(0, errThrottle) + 1
	r.Rate = a.IntFrom(1, errThrottle)
	r.Span = a.IntFrom(1, errThrottle)
	if a.More() {
		p.cost = a.IntFrom(0, errThrottle)
	}
	if r.Span <= object.MaxLimitSpan/1000 {
		r.Span *= 1000
	} else {
		a.Fail(errThrottle)
	}
	switch {
	case a.Len() > 0:
		a.Fail(ErrSyntax)
	case p.cost >= object.MaxLimitCount || r.Count < 1 || r.Count > object.MaxLimitCount ||
		r.Rate > object.MaxLimitCount:
		a.Fail(errThrottle)
	case !r.Valid():
		a.Fail(errLimitFill)
	}
	if err := a.Err(); err != nil {
		return err
	}
	refuses, retry, l, err := c.admit(&p)
	if err != nil {
		return err
	}
	if refuses == 0 {
		retry = -1
	}
	left, reset := l.Value().Left(0, r, c.Txn.Now())
	c.Out.Array(5)
	c.bit(refuses != 0)
	c.Out.Int(r.Count)
	c.Out.Int(left)
	c.Out.Int(ttl.CeilSeconds(retry))
	c.Out.Int(ttl.CeilSeconds(reset))
	return nil
}

const errThrottle Error = "ERR max_burst and quantity are between 0 and 999999999999, count between 1 and 1000000000000, period between 1 and 1000000000 seconds"
