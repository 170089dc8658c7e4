package commands

import (
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// Handlers that work on the value of the command's first key alone share how they open it. open
// gives an empty value for a missing or expired key, and ErrWrongType for one of another type.

// reading makes a handler of reply, which writes the content of a value.
func reading[V any](open func(*Ctx, storage.Key) (V, error), reply func(*Ctx, V)) func(*Ctx) error {
	return func(c *Ctx) error {
		v, err := open(c, c.Keys[0])
		if err == nil {
			reply(c, v)
		}
		return err
	}
}

// changing makes a handler of change, which may change the value, and writes the reply.
func changing[V any](open func(*storage.Txn, storage.Key) (V, error),
	change func(*Ctx, V) error) func(*Ctx) error {
	return func(c *Ctx) error {
		v, err := open(c.Txn, c.Keys[0])
		if err != nil {
			return err
		}
		return change(c, v)
	}
}

// length replies how many elements a value has.
func length[V interface{ Len() int }](c *Ctx, v V) { c.Out.Int(int64(v.Len())) }

// countChanges calls change for each of the arguments after the key and replies for how many it
// reported a change; the event is raised if there are any.
func (c *Ctx) countChanges(change func(arg []byte) bool, ev storage.Event) error {
	c.Out.Int(c.notifyChanged(c.Args[2:], ev, change))
	return nil
}

// overwrite gives a key another value, as a whole and without a deadline; an empty one deletes it.
func (c *Ctx) overwrite(k storage.Key, v object.Value, ev storage.Event) {
	if v.Len() > 0 {
		c.Txn.Overwriting(k, v.Type(), ttl.None)
	}
	c.Txn.Replace(k, v, ttl.Deadline{}, ev)
}

// set gives a key a string, whatever it had, without a deadline.
func (c *Ctx) set(k storage.Key, value []byte) {
	c.Txn.Overwriting(k, object.TypeString, ttl.None)
	c.Txn.SetString(k, value, ttl.Deadline{}, eventSet)
}

// bit replies 1 or 0.
func (c *Ctx) bit(on bool) {
	if on {
		c.Out.Int(1)
	} else {
		c.Out.Int(0)
	}
}
