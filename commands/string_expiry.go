package commands

import (
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// The options of SET and GETEX that say when the key ends.
var expiryOptions = [...]struct {
	word string
	form *timeForm
}{{"EX", &inSeconds}, {"PX", &inMilliseconds}, {"EXAT", &atSeconds}, {"PXAT", &atMilliseconds}}

// expiryArgs is their grammar, with whatever else excludes them.
func expiryArgs(other Arg, since ...string) Arg {
	var args []Arg
	for i, o := range expiryOptions {
		args = append(args, o.form.arg.after(o.word))
		if since != nil {
			args[i].Since = since[i]
		}
	}
	return oneOf("expiration", append(args, other)...).opt()
}

// expiry is one of these options as it was given; the zero value is none. The number
// is read only when it is used, because a syntax error further on comes first.
type expiry struct {
	form  *timeForm // nil: no such option
	arg   []byte
	other bool // the word that excludes them is there: KEEPTTL, or PERSIST
}

// option takes an expiry option from a, or the word that excludes them, if the next argument
// is one. An option may be repeated, and then the last one counts; two different ones are a
// syntax error, and so is any beside that word.
func (e *expiry) option(a *Cursor, other string) bool {
	if a.Word(other) {
		e.other = true
		if e.form != nil {
			a.Fail(ErrSyntax)
		}
		return true
	}
	for i := range expiryOptions {
		o := &expiryOptions[i]
		if !a.Word(o.word) {
			continue
		}
		if e.other || e.form != nil && e.form != o.form {
			a.Fail(ErrSyntax)
		}
		e.form, e.arg = o.form, a.Bytes()
		return true
	}
	return false
}

// deadline is the deadline that the option means, none without one.
func (e *expiry) deadline(t *storage.Txn) (ttl.Deadline, error) {
	if e.form == nil {
		return ttl.Deadline{}, nil
	}
	n, ok := ParseInt(e.arg)
	if !ok {
		return ttl.Deadline{}, ErrNotInteger
	}
	return ttl.FutureDeadline(t.Now(), n, e.form.unit, e.form.base)
}

var eventSet = storage.Event{Class: storage.EventString, Name: "set"}

// store makes k a string with a new deadline or none.
func (c *Ctx) store(k storage.Key, value []byte, deadline ttl.Deadline) {
	c.Txn.Overwriting(k, object.TypeString, deadline.At)
	c.storeUntil(k, value, deadline, eventSet)
}

// storeUntil is store with the event of another command than SET. A deadline that has passed
// already stores nothing: what was there goes, and listeners hear what they would
// have heard if the key had lived for no time at all.
func (c *Ctx) storeUntil(k storage.Key, value []byte, deadline ttl.Deadline, ev storage.Event) {
	if ttl.Expired(deadline.At, c.Txn.Now()) {
		if _, exists := c.Txn.Peek(k); !exists {
			c.Txn.Notify(k, storage.New)
		}
		c.Txn.Notify(k, ev)
		c.Txn.Notify(k, storage.DeadlineSet)
		c.Txn.ReportPassed(k, deadline.At, &object.String{Data: value})
		if !c.Txn.Delete(k, storage.Expired) {
			c.Txn.Notify(k, storage.Expired)
		}
		return
	}
	c.Txn.SetString(k, value, deadline, ev)
	if deadline.At != ttl.None {
		c.Txn.Notify(k, storage.DeadlineSet)
	}
}

// storeKeeping is store, but with keep an existing key's deadline stays.
func (c *Ctx) storeKeeping(k storage.Key, value []byte, deadline ttl.Deadline, keep bool) {
	if item, exists := c.Txn.Peek(k); keep && exists {
		c.Txn.Overwriting(k, object.TypeString, item.Deadline())
		c.Txn.SetString(k, value, ttl.At(item.Deadline()), eventSet)
		return
	}
	c.store(k, value, deadline)
}
