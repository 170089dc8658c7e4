package commands

import (
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// The options of SET and GETEX that set the key's deadline.
var expiryOptions = [...]struct {
	word string
	form *timeForm
}{{"EX", &inSeconds}, {"PX", &inMilliseconds}, {"EXAT", &atSeconds}, {"PXAT", &atMilliseconds}}

// expiryArgs returns the grammar of these options, with the word that excludes them.
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

// expiry is the given one of these options; the zero value means none. The number is parsed only
// when it is used, because a syntax error in a later argument comes first.
type expiry struct {
	form  *timeForm // nil: no such option
	arg   []byte
	other bool // the word that excludes them is there: KEEPTTL, or PERSIST
}

// option reads an expiry option, or the word that excludes all of them, if the next argument is
// one. If an option is repeated, the last one counts. Two different options are a syntax error. An
// option together with that word is a syntax error, too.
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

// deadline returns the deadline of the option, or none if no option was given.
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

// store sets k to a string, with a new deadline or none.
func (c *Ctx) store(k storage.Key, value []byte, deadline ttl.Deadline) {
	c.Txn.Overwriting(k, object.TypeString, deadline.At)
	c.storeUntil(k, value, deadline, eventSet)
}

// storeUntil is store with the event of another command than SET. If the deadline has passed, it
// deletes the key, and raises the events of a key that is set and expires at once.
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

// storeKeeping is store, but with keep an existing key keeps its deadline.
func (c *Ctx) storeKeeping(k storage.Key, value []byte, deadline ttl.Deadline, keep bool) {
	if item, exists := c.Txn.Peek(k); keep && exists {
		c.Txn.Overwriting(k, object.TypeString, item.Deadline())
		c.Txn.SetString(k, value, ttl.At(item.Deadline()), eventSet)
		return
	}
	c.store(k, value, deadline)
}
