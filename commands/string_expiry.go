package commands

import (
	"keyp/storage"
	"keyp/ttl"
)

// The options of SET and GETEX that say when the key ends.
var expiryOptions = [...]struct {
	word string
	unit ttl.Unit
	base ttl.Base
}{
	{"EX", ttl.Seconds, ttl.FromNow},
	{"PX", ttl.Milliseconds, ttl.FromNow},
	{"EXAT", ttl.Seconds, ttl.Absolute},
	{"PXAT", ttl.Milliseconds, ttl.Absolute},
}

// expiryArgs is their grammar, with whatever else excludes them.
func expiryArgs(other Arg, since ...string) Arg {
	args := []Arg{
		intArg("seconds").after("EX"),
		intArg("milliseconds").after("PX"),
		unixArg("unix-time-seconds").after("EXAT"),
		unixArg("unix-time-milliseconds").after("PXAT"),
	}
	for i := range since {
		args[i].Since = since[i]
	}
	return oneOf("expiration", append(args, other)...).opt()
}

// expiry is one of these options as it was given; the zero value is none. The number
// is read only when it is used, because a syntax error further on comes first.
type expiry struct {
	set   bool
	arg   []byte
	unit  ttl.Unit
	base  ttl.Base
	other bool // the word that excludes them is there: KEEPTTL, or PERSIST
}

// option takes an expiry option from a, or the word that excludes them, if the next argument
// is one. An option may be repeated, and then the last one counts; two different ones are a
// syntax error, and so is any beside that word.
func (e *expiry) option(a *Cursor, other string) bool {
	if a.Word(other) {
		e.other = true
		if e.set {
			a.Fail(ErrSyntax)
		}
		return true
	}
	for i := range expiryOptions {
		o := &expiryOptions[i]
		if !a.Word(o.word) {
			continue
		}
		if e.other || e.set && (e.unit != o.unit || e.base != o.base) {
			a.Fail(ErrSyntax)
		}
		e.set, e.arg, e.unit, e.base = true, a.Bytes(), o.unit, o.base
		return true
	}
	return false
}

// deadline is the instant that the option means, ttl.None without one.
func (e *expiry) deadline(now int64) (int64, error) {
	if !e.set {
		return ttl.None, nil
	}
	n, ok := ParseInt(e.arg)
	if !ok {
		return ttl.None, ErrNotInteger
	}
	return ttl.FutureDeadline(now, n, e.unit, e.base)
}

var eventSet = storage.Event{Class: storage.EventString, Name: "set"}

// store makes k a string with a new deadline or none. A deadline that has passed
// already stores nothing: what was there goes, and listeners hear what they would
// have heard if the key had lived for no time at all.
func (c *Ctx) store(k storage.Key, value []byte, deadline int64) {
	if ttl.Expired(deadline, c.Txn.Now()) {
		if _, exists := c.Txn.Peek(k); !exists {
			c.Txn.Notify(k, storage.New)
		}
		c.Txn.Notify(k, eventSet)
		c.Txn.Notify(k, eventExpire)
		if !c.Txn.Delete(k, storage.Expired) {
			c.Txn.Notify(k, storage.Expired)
		}
		return
	}
	c.Txn.SetString(k, value, deadline, eventSet)
	if deadline != ttl.None {
		c.Txn.Notify(k, eventExpire)
	}
}

// storeKeeping is store, but with keep an existing key's deadline stays.
func (c *Ctx) storeKeeping(k storage.Key, value []byte, deadline int64, keep bool) {
	if item, exists := c.Txn.Peek(k); keep && exists {
		c.Txn.SetString(k, value, item.Deadline(), eventSet)
		return
	}
	c.store(k, value, deadline)
}
