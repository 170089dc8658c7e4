package commands

import (
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// These functions open the value of the command's first key for handlers that use only that value.
// open returns an empty value for a missing or expired key, and ErrWrongType for another type.

// reading returns a handler that calls reply, which writes the content of a value.
func reading[V any](open func(*Ctx, storage.Key) (V, error), reply func(*Ctx, V)) func(*Ctx) error {
	return func(c *Ctx) error {
		v, err := open(c, c.Keys[0])
		if err == nil {
			reply(c, v)
		}
		return err
	}
}

// changing returns a handler that calls change, which may change the value and writes the reply.
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

// length replies with the number of elements of a value.
func length[V interface{ Len() int }](c *Ctx, v V) { c.Out.Int(int64(v.Len())) }

// countChanges calls change for each of the arguments after the key. It replies with the number of
// reported changes, and raises the event if there are any.
func (c *Ctx) countChanges(change func(arg []byte) bool, ev storage.Event) error {
	c.Out.Int(c.notifyChanged(c.Args[2:], ev, change))
	return nil
}

// overwrite replaces the value of a key and removes its deadline. An empty value deletes the key.
func (c *Ctx) overwrite(k storage.Key, v object.Value, ev storage.Event) {
	if v.Len() > 0 {
		c.Txn.Overwriting(k, v.Type(), ttl.None)
	}
	c.Txn.Replace(k, v, ttl.Deadline{}, ev)
}

// set sets a key to a string, whatever its type was, without a deadline.
func (c *Ctx) set(k storage.Key, value []byte) {
	c.Txn.Overwriting(k, object.TypeString, ttl.None)
	c.Txn.SetString(k, value, ttl.Deadline{}, eventSet)
}

// bit replies with 1 or 0.
func (c *Ctx) bit(on bool) {
	if on {
		c.Out.Int(1)
	} else {
		c.Out.Int(0)
	}
}
