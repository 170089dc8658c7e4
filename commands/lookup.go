package commands

import "keyp/storage"

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
		c.Server.Stats.Hits.Add(1)
		return
	}
	c.Server.Stats.Misses.Add(1)
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
