package commands

import (
	"bytes"
	"errors"
	"math"

	"keyp/internal/rdb"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

var dumpCommands = []Spec{
	{
		Name: "DUMP", Group: Generic, Since: "2.6.0",
		Summary:    "Replies a key's value as RESTORE takes it, here or in Redis.",
		Complexity: "O(N) in the size of the value.",
		Arity:      2, Flags: ReadOnly,
		Keys:    []KeySpec{Key(1, RO|Access)},
		Args:    []Arg{keyArg("key")},
		Tips:    []string{tipRandom},
		Offload: largeValues,
		Run:     runDump,
	},
	{
		Name: "RESTORE", Group: Generic, Since: "2.6.0",
		Summary:    "Creates a key from what DUMP replied, here or in Redis.",
		Complexity: "O(N) in the size of the value, O(N*log(N)) for sorted sets.",
		History: [][2]string{
			{"3.0.0", "Added the `REPLACE` modifier."},
			{"5.0.0", "Added the `ABSTTL` modifier."},
			{"5.0.0", "Added the `IDLETIME` and `FREQ` options."},
		},
		Arity: -4, Flags: Write | DenyOOM | Dangerous,
		Keys: []KeySpec{Key(1, OW|Update)},
		Args: []Arg{
			keyArg("key"), intArg("ttl"), stringArg("serialized-value"),
			word("REPLACE").opt().since("3.0.0"),
			word("ABSTTL").opt().since("5.0.0"),
			intArg("seconds").after("IDLETIME").opt().since("5.0.0"),
			intArg("frequency").after("FREQ").opt().since("5.0.0"),
		},
		Offload: largeRestore,
		Run:     runRestore,
	},
}

var eventRestore = storage.Event{Class: storage.EventGeneric, Name: "restore"}

// The errors of RESTORE's numbers.
const (
	errRestoreTTL  Error = "ERR Invalid TTL value, must be >= 0"
	errRestoreIdle Error = "ERR Invalid IDLETIME value, must be >= 0"
	errRestoreFreq Error = "ERR Invalid FREQ value, must be >= 0 and <= 255"
)

func runDump(c *Ctx) error {
	item, ok := c.read(c.Keys[0])
	if !ok {
		c.Out.Null()
		return nil
	}
	v, err := dumped(item)
	if err != nil {
		return err
	}
	c.Out.Bulk(rdb.Encode(v))
	return nil
}

// Export returns the payload with which DUMP replies for a value. aged reports that the value is a
// stream whose entries have a maximum age. The payload does not contain that age.
func Export(item storage.Item) (payload []byte, aged bool, err error) {
	v, err := dumped(item)
	if err != nil {
		return nil, false, err
	}
	if s, ok := item.Value().(*object.Stream); ok {
		ms, _ := s.Age()
		aged = ms > 0
	}
	err = object.Reading(func() { payload = rdb.Encode(v) })
	return payload, aged, err
}

// dumped converts a value to the form of package rdb, without a copy.
func dumped(item storage.Item) (rdb.Value, error) {
	v := rdb.Value{}
	switch of := item.Value().(type) {
	case *object.Hash:
		v.Type = rdb.Hash
		v.Elements = func(yield func(rdb.Element) bool) {
			of.Walk(func(field, val []byte, deadline int64) bool {
				return yield(rdb.Element{Name: field, Value: val, Deadline: deadline})
			})
		}
	case *object.Set:
		v.Type = rdb.Set
		v.Elements = func(yield func(rdb.Element) bool) {
			of.Walk(func(member, _ []byte, deadline int64) bool {
				return yield(rdb.Element{Name: member, Deadline: deadline})
			})
		}
	case *object.ZSet:
		v.Type = rdb.ZSet
		v.Elements = func(yield func(rdb.Element) bool) {
			of.Range(0, of.Len(), false, func(member []byte, score float64, deadline int64) bool {
				return yield(rdb.Element{Name: member, Score: score, Deadline: deadline})
			})
		}
	case *object.List:
		v.Type = rdb.List
		v.Elements = func(yield func(rdb.Element) bool) {
			of.Each(0, false, func(_ int, _ int64, val []byte) bool {
				return yield(rdb.Element{Name: val})
			})
		}
	case *object.Stream:
		v.Type, v.Stream = rdb.Stream, dumpedStream(of)
	case *object.Lease:
		v.Type, v.Lease = rdb.Lease, &rdb.LeaseValue{Owner: of.Owner, Token: of.Token,
			Delay: uint64(of.Delay)}
	case *object.Limit:
		v.Type = rdb.Limit
		v.Elements = func(yield func(rdb.Element) bool) {
			of.Walk(func(elem, val []byte, deadline int64) bool {
				return yield(rdb.Element{Name: elem, Value: val, Deadline: deadline})
			})
		}
	case *object.DelayQueue: // deliveries and due times come along, receipts do not
		v.Type = rdb.Delay
		v.Elements = func(yield func(rdb.Element) bool) {
			var val []byte
			of.From(object.JobPlace{}, func(j object.Job) bool {
				j.Receipt = 0
				val = j.Append(val[:0])
				return yield(rdb.Element{Name: j.ID, Value: val})
			})
		}
	default:
		var err error
		v.Type = rdb.String
		v.Str, err = item.String()
		return v, err
	}
	return v, nil
}

// restoreOptions are the options after RESTORE's payload. Options may be repeated.
type restoreOptions struct {
	replace, absolute bool
	idle, freq        int64 // -1: not given
}

func parseRestore(a Cursor) (restoreOptions, error) {
	o := restoreOptions{idle: -1, freq: -1}
	for a.More() {
		switch {
		case a.Word("REPLACE"):
			o.replace = true
		case a.Word("ABSTTL"):
			o.absolute = true
		case a.Len() > 1 && o.freq < 0 && a.Word("IDLETIME"):
			if o.idle = a.Int(); o.idle < 0 {
				a.Fail(errRestoreIdle)
			}
		case a.Len() > 1 && o.idle < 0 && a.Word("FREQ"):
			if o.freq = a.Int(); o.freq < 0 || o.freq > 255 {
				a.Fail(errRestoreFreq)
			}
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o, a.Err()
}

// deadline reads the time to live of RESTORE; 0 means none.
func (o *restoreOptions) deadline(arg []byte, now int64) (ttl.Deadline, error) {
	n, ok := ParseInt(arg)
	switch {
	case !ok:
		return ttl.Deadline{}, ErrNotInteger
	case n < 0:
		return ttl.Deadline{}, errRestoreTTL
	case n == 0:
		return ttl.Deadline{}, nil
	case o.absolute:
		return ttl.At(n), nil
	default:
		return ttl.Resolve(now, n, ttl.Milliseconds, ttl.FromNow)
	}
}

// largePayload is the length in bytes from which the payload of a collection takes long to restore.
const largePayload = 64 << 10

// largeRestore reports whether the payload of a RESTORE makes a large value.
func largeRestore(c *Ctx) bool {
	p := c.Arg(3)
	return len(p) >= largeStore || len(p) >= largePayload && !rdb.IsString(p)
}

// runRestore checks the key before it decodes the payload, as Redis does. If the deadline has
// passed it stores nothing, and removes the key that it replaces. It leaves out elements whose own
// deadline has passed.
func runRestore(c *Ctx) error {
	o, err := parseRestore(c.Cursor(4))
	if err != nil {
		return err
	}
	k, now := c.Keys[0], c.Txn.Now()
	old, replaced := c.Txn.Peek(k)
	was := old.Type()
	if replaced && !o.replace {
		return ErrBusyKey
	}
	deadline, err := o.deadline(c.Arg(2), now)
	if err != nil {
		return err
	}
	c.Txn.Exempt = true // what comes from elsewhere stays as it was there
	defer func() { c.Txn.Exempt = false }()
	v, err := rdb.Decode(c.Arg(3))
	if err == nil && v.Type == rdb.Lease && !builtLease(v.Lease).Valid() {
		err = rdb.ErrFormat
	}
	var made object.Value
	if err == nil {
		made, err = restored(v, now)
	}
	switch {
	case errors.Is(err, rdb.ErrPayload):
		return ErrPayload
	case err != nil:
		return ErrDataFormat
	case ttl.Expired(deadline.At, now):
		c.Txn.Replace(k, &object.List{}, ttl.Deadline{}, storage.Event{}) // the key goes
	case v.Type == rdb.String:
		if !c.Env.fits(0, int64(len(v.Str))) {
			return ErrTooLong
		}
		c.notifyReplaced(k, replaced)
		c.Txn.SetString(k, v.Str, deadline, eventRestore)
	default:
		c.notifyReplaced(k, replaced)
		c.Txn.Replace(k, made, deadline, eventRestore)
	}
	if c.Txn.Conflicted() {
		return nil
	}
	c.reportLeftOut(k, v, now)
	if ttl.Expired(deadline.At, now) {
		c.Txn.ReportPassed(k, deadline.At, made)
	}
	if is, ok := c.Txn.Peek(k); ok && replaced {
		c.Txn.Overwrote(k, was, is.Type())
	}
	if o.idle >= 0 {
		c.Txn.SetAccess(k, now/1000-o.idle)
	}
	if o.freq >= 0 {
		c.Txn.SetCount(k, int(o.freq))
	}
	c.Out.OK()
	return nil
}

// restored creates the value that a payload of DUMP contains. It fails if an element of a limit or
// of a delay queue is invalid.
func restored(v rdb.Value, now int64) (object.Value, error) {
	switch v.Type {
	case rdb.String:
		return &object.String{Data: v.Str}, nil
	case rdb.Limit:
		l := &object.Limit{}
		for e := range v.Elements {
			if ttl.Expired(e.Deadline, now) {
				continue
			}
			if err := l.Put(e.Name, e.Value, e.Deadline); err != nil {
				return nil, err
			}
			if !l.Bounded() {
				return nil, rdb.ErrFormat
			}
		}
		if l.FreshAt() <= now {
			return &object.Limit{}, nil // nothing counts any more: no key
		}
		return l, nil
	case rdb.Delay:
		q := object.NewDelayQueue()
		for e := range v.Elements {
			if err := q.Restore(e.Name, e.Value); err != nil {
				return nil, err
			}
		}
		return q, nil
	}
	return built(v, now), nil
}

// notifyReplaced raises the event of a new key if RESTORE has replaced a key. Redis treats that as
// a new key. For a key that did not exist, the transaction raises the event.
func (c *Ctx) notifyReplaced(k storage.Key, replaced bool) {
	if replaced {
		c.Txn.Notify(k, storage.New)
	}
}

// reportLeftOut reports the elements that RESTORE leaves out because their deadlines have passed.
func (c *Ctx) reportLeftOut(k storage.Key, v rdb.Value, now int64) {
	typ, ok := map[rdb.Type]object.Type{rdb.Hash: object.TypeHash, rdb.Set: object.TypeSet,
		rdb.ZSet: object.TypeZSet}[v.Type]
	if !ok {
		return
	}
	for e := range v.Elements {
		if !ttl.Expired(e.Deadline, now) {
			continue
		}
		if typ == object.TypeZSet {
			e.Value = object.AppendScore(nil, e.Score)
		}
		c.Txn.ReportPassedElement(k, typ, e.Name, e.Value, e.Deadline)
	}
}

// built creates the object for a collection. It leaves out the elements whose deadline is not after
// now.
func built(v rdb.Value, now int64) object.Value {
	var to object.Value
	var add func(e rdb.Element)
	switch v.Type {
	case rdb.Stream:
		return builtStream(v.Stream)
	case rdb.Lease:
		return builtLease(v.Lease)
	case rdb.Hash:
		h := &object.Hash{}
		to, add = h, func(e rdb.Element) { h.Set(e.Name, e.Value, e.Deadline) }
	case rdb.Set:
		s := &object.Set{}
		to, add = s, func(e rdb.Element) { s.Add(e.Name, e.Deadline) }
	case rdb.ZSet:
		z := &object.ZSet{}
		to, add = z, func(e rdb.Element) { z.Set(e.Name, e.Score, e.Deadline) }
	default:
		l := &object.List{}
		to, add = l, func(e rdb.Element) { l.PushBack(e.Name) }
	}
	for e := range v.Elements {
		if !ttl.Expired(e.Deadline, now) {
			add(e)
		}
	}
	return to
}

func builtLease(l *rdb.LeaseValue) *object.Lease {
	return &object.Lease{Owner: bytes.Clone(l.Owner), Token: l.Token,
		Delay: int64(min(l.Delay, math.MaxInt64))}
}
