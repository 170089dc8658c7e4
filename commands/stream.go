package commands

import (
	"slices"

	"keyp/storage"
	"keyp/storage/object"
)

// streamCommands are the commands of streams. Each kind of command has a file.
var streamCommands = slices.Concat(streamAddCommands, streamRangeCommands, streamReadCommands,
	streamDeleteCommands, streamSetCommands,
	streamGroupCommands, streamPendingCommands, streamClaimCommands, streamInfoCommands)

func streamEvent(name string) storage.Event {
	return storage.Event{Class: storage.EventStream, Name: name}
}

// readStream looks a key up as c.read does, and returns its stream. For a missing or expired key it
// returns an empty stream. For another type it returns storage.ErrWrongType.
func (c *Ctx) readStream(k storage.Key) (storage.Stream, error) {
	s, err := c.Txn.Stream(k)
	c.count(k, err != nil || s.Exists())
	return s, err
}

// streamID replies with an ID.
func (c *Ctx) streamID(id object.StreamID) {
	var text [41]byte
	c.Out.Bulk(id.Append(text[:0]))
}

// streamEntry replies with an entry: its ID, and its fields with their values.
func (c *Ctx) streamEntry(e object.StreamEntry) {
	c.Out.Array(2)
	c.entryParts(e)
}

// entryParts writes the two elements of an entry's array.
func (c *Ctx) entryParts(e object.StreamEntry) {
	c.streamID(e.ID)
	c.Out.Array(2 * e.Fields())
	e.EachField(func(field, val []byte) bool {
		c.Out.Bulk(field)
		c.Out.Bulk(val)
		return true
	})
}

// intOrNull replies with a number, or with null if it is below 0.
func (c *Ctx) intOrNull(n int64) {
	if n < 0 {
		c.Out.Null()
		return
	}
	c.Out.Int(n)
}
