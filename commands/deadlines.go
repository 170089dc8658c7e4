package commands

import (
	"errors"

	"keyp/storage"
	"keyp/ttl"
)

// deadlines is a command's transaction as ttl.Manager sees it. The manager names its
// key, the transaction has it resolved and locked already: it is always the command's
// first one, and the name is not looked at.
type deadlines Ctx

// deadlines gives the manager for the command's first key; what it does is part of the
// command's transaction.
func (c *Ctx) deadlines() ttl.Manager { return ttl.NewManager((*deadlines)(c)) }

func (d *deadlines) Now() int64 { return d.Txn.Now() }

// subject looks the command's first key up: a command that asks for a deadline counts a
// hit or a miss and is no access, one that writes the other way round.
func (c *Ctx) subject() (storage.Item, bool) {
	if c.Spec.Is(Write) {
		return c.Txn.Get(c.Keys[0])
	}
	return c.peek(c.Keys[0])
}

func (d *deadlines) Deadline([]byte) (deadline int64, exists bool, err error) {
	item, ok := (*Ctx)(d).subject()
	if !ok {
		return ttl.None, false, nil
	}
	return item.Deadline(), true, nil
}

func (d *deadlines) SetDeadline(_ []byte, deadline int64) (changed bool, err error) {
	return (*Ctx)(d).setDeadline(d.Keys[0], deadline), nil
}

// Reap and Restore are the store's, not a transaction's.
func (d *deadlines) Reap(int64) (int, error) { return 0, errors.ErrUnsupported }

// Restore: see Reap.
func (d *deadlines) Restore() (int, error) { return 0, errors.ErrUnsupported }

var (
	eventExpire  = storage.Event{Class: storage.EventGeneric, Name: "expire"}
	eventPersist = storage.Event{Class: storage.EventGeneric, Name: "persist"}
)

// setDeadline gives an existing key a deadline, takes it away (ttl.None), or, where it
// has passed, deletes the key. It returns false for a missing or expired key, and when
// there was no deadline to take away.
func (c *Ctx) setDeadline(k storage.Key, deadline int64) bool {
	item, ok := c.Txn.Get(k)
	switch {
	case !ok, deadline == ttl.None && item.Deadline() == ttl.None:
		return false
	case deadline == ttl.None:
		return c.Txn.SetDeadline(k, ttl.None, eventPersist)
	case ttl.Expired(deadline, c.Txn.Now()):
		return c.Txn.Delete(k, storage.Deleted)
	default:
		return c.Txn.SetDeadline(k, deadline, eventExpire)
	}
}
