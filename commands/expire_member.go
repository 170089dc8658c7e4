package commands

import (
	"errors"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// memberDeadlineCommands are KeyDB's: members of sets and sorted sets have deadlines like
// fields of hashes. TTL, PTTL and PERSIST take a member too.
var memberDeadlineCommands = []Spec{
	{
		Name: "EXPIREMEMBER", Group: Generic, Since: "5.1.0",
		Summary:    "Sets the time to live of a member of a set or sorted set, or of a field of a hash.",
		Complexity: "O(log N) in the members with a deadline.",
		Arity:      -4, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"), stringArg("member"), intArg("delay"),
			oneOf("unit", word("s"), word("ms")).opt(),
		},
		Run: runExpireMember,
	},
	expireMemberAtCommand("EXPIREMEMBERAT", "5.1.0",
		"Sets the deadline of a member of a set or sorted set, or of a field of a hash, as a Unix time in seconds.", &atSeconds),
	expireMemberAtCommand("PEXPIREMEMBERAT", "6.0.0",
		"Sets the deadline of a member of a set or sorted set, or of a field of a hash, as a Unix time in milliseconds.", &atMilliseconds),
}

func expireMemberAtCommand(name, since, summary string, form *timeForm) Spec {
	return Spec{
		Name: name, Group: Generic, Since: since,
		Summary:    summary,
		Complexity: "O(log N) in the members with a deadline.",
		Arity:      4, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), stringArg("member"), form.arg},
		Run:  func(c *Ctx) error { return expireMember(c, form) },
	}
}

// KeyDB's errors.
const (
	errMemberArgs Error = "ERR Invalid number of arguments"
	errMemberUnit Error = "ERR Invalid unit arg"
	errMemberType Error = "ERR object type is unsupported"
)

func runExpireMember(c *Ctx) error {
	if _, ok := ParseInt(c.Arg(3)); !ok {
		return ErrNotInteger
	}
	form := &inSeconds
	switch a := c.Cursor(4); {
	case a.Len() > 1:
		return errMemberArgs
	case a.Word("MS"):
		form = &inMilliseconds
	case a.Len() > 0 && !a.Word("S"):
		return errMemberUnit
	}
	return expireMember(c, form)
}

// expireMember replies 1 when the member has the deadline or, the deadline being past, is
// gone; 0 when there is no such member.
func expireMember(c *Ctx, form *timeForm) error {
	n, ok := ParseInt(c.Arg(3))
	if !ok {
		return ErrNotInteger
	}
	deadline, err := ttl.Deadline(c.Txn.Now(), n, form.unit, form.base)
	if err == nil && deadline > ttl.MaxField {
		err = ttl.ErrInvalidTTL
	}
	if err != nil {
		return err
	}
	done, err := c.memberDeadlines().Expire(c.Arg(2), deadline, 0)
	if err != nil {
		return err
	}
	c.Out.Int(int64(done))
	return nil
}

// memberDeadlines is a command's transaction as ttl.Manager sees it when its names are the
// members of the command's first key. Nothing but a hash, set or sorted set has members.
type memberDeadlines Ctx

func (c *Ctx) memberDeadlines() ttl.Manager { return ttl.NewManager((*memberDeadlines)(c)) }

func (d *memberDeadlines) Now() int64 { return d.Txn.Now() }

func (d *memberDeadlines) Deadline(member []byte) (deadline int64, exists bool, err error) {
	item, ok := (*Ctx)(d).subject()
	if !ok {
		return ttl.None, false, nil
	}
	switch item.Type() {
	case object.TypeHash, object.TypeSet, object.TypeZSet:
		_, deadline, exists = item.Value().Element(member)
	}
	return deadline, exists, nil
}

// SetDeadline raises what taking the member out raises when its deadline has passed; a
// new deadline raises nothing, as in KeyDB.
func (d *memberDeadlines) SetDeadline(member []byte, deadline int64) (changed bool, err error) {
	k := d.Keys[0]
	old, exists, err := d.Deadline(member)
	if err != nil || deadline == ttl.None && old == ttl.None {
		return false, err
	}
	set, remove, removed, err := d.open(k)
	switch {
	case err != nil || set == nil:
		return false, err
	case !exists:
		return false, nil
	case deadline == ttl.None:
		d.Txn.Notify(k, eventPersist)
		return set(member, ttl.None), nil
	case ttl.Expired(deadline, d.Txn.Now()):
		d.Txn.Notify(k, removed)
		return remove(member), nil
	default:
		return set(member, deadline), nil
	}
}

// open gives what changes the members of a key: nothing for a missing key, errMemberType
// where it can have none.
func (d *memberDeadlines) open(k storage.Key) (set func([]byte, int64) bool, remove func([]byte) bool, removed storage.Event, err error) {
	item, ok := d.Txn.Get(k)
	if !ok {
		return nil, nil, storage.Event{}, nil
	}
	switch item.Type() {
	case object.TypeHash:
		h, err := d.Txn.Hash(k)
		return h.SetDeadline, h.Delete, eventHDel, err
	case object.TypeSet:
		s, err := d.Txn.Set(k)
		return s.SetDeadline, s.Remove, eventSRem, err
	case object.TypeZSet:
		z, err := d.Txn.ZSet(k)
		return z.SetDeadline, z.Remove, eventZRem, err
	default:
		return nil, nil, storage.Event{}, errMemberType
	}
}

// Reap and Restore are the store's, not a transaction's.
func (d *memberDeadlines) Reap(int64) (int, error) { return 0, errors.ErrUnsupported }

// Restore: see Reap.
func (d *memberDeadlines) Restore() (int, error) { return 0, errors.ErrUnsupported }
