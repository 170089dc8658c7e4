package commands

import (
	"keyp/storage"
)

var eventKeyMiss = storage.Event{Class: storage.EventMiss, Name: "keymiss"}

// read looks a key up for a command that reads: a hit or a miss is counted, a miss
// raises "keymiss", a hit marks the access. A missing or expired key gives false.
// Commands that write use c.Txn.Get, which does none of the counting.
func (c *Ctx) read(k storage.Key) (storage.Item, bool) {
	item, ok := c.Txn.Get(k)
	c.count(k, ok)
	return item, ok
}

// peek is read without marking the access.
func (c *Ctx) peek(k storage.Key) (storage.Item, bool) {
	item, ok := c.Txn.Peek(k)
	c.count(k, ok)
	return item, ok
}

func (c *Ctx) count(k storage.Key, hit bool) {
	if hit {
		c.hits++
		return
	}
	c.misses++
	c.Txn.Notify(k, eventKeyMiss)
}

// readString is read for a key that must hold a string or be missing: ok=false for a
// missing or expired key, storage.ErrWrongType for another type. The bytes are valid
// until the transaction changes something.
func (c *Ctx) readString(k storage.Key) (value []byte, ok bool, err error) {
	item, ok := c.read(k)
	if !ok {
		return nil, false, nil
	}
	value, err = item.String()
	return value, err == nil, err
}

// load makes sure that keys which a handler has found, beyond those that the call declares, are in
// memory. Where they are not, the handler ends with errNeedKeys, before it has changed or counted
// anything: it starts again when they are there. With c.final they are read at once. Any other
// error is of the data file.
func (c *Ctx) load(keys []storage.Key) error {
	var absent []storage.Key
	for _, k := range keys {
		switch {
		case c.Txn.Resident(k):
		case !c.final:
			absent = append(absent, k)
		default:
			if err := c.Txn.Load(k); err != nil {
				return err
			}
		}
	}
	if len(absent) > 0 {
		c.Keys = absent
		return errNeedKeys
	}
	return nil
}
