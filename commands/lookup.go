package commands

import (
	"keyp/storage"
)

var eventKeyMiss = storage.Event{Class: storage.EventMiss, Name: "keymiss"}

// read looks a key up for a command that reads. It counts a hit or a miss, raises "keymiss" for a
// miss, and marks the access for a hit. It returns false for a missing or expired key. Commands
// that write use c.Txn.Get, which counts nothing.
func (c *Ctx) read(k storage.Key) (storage.Item, bool) {
	item, ok := c.Txn.Get(k)
	c.count(k, ok)
	return item, ok
}

// peek is read, but does not mark the access.
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

// readString is read for a key that must hold a string or be missing. It returns ok=false for a
// missing or expired key, and storage.ErrWrongType for another type. The bytes are valid until the
// transaction changes something.
func (c *Ctx) readString(k storage.Key) (value []byte, ok bool, err error) {
	item, ok := c.read(k)
	if !ok {
		return nil, false, nil
	}
	value, err = item.String()
	return value, err == nil, err
}

// load makes sure that keys are in memory. It is for keys that a handler has found in addition to
// those that the call declares. If some are not in memory, load returns errNeedKeys. The handler
// must then end before it has changed or counted anything. It starts again when the keys are in
// memory. With c.final, load reads them at once. Any other error is one of the data file.
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
