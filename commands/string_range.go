package commands

import (
	"keyp/storage"

	"keyp/ttl"
)

var rangeCommands = []Spec{
	{
		Name: "APPEND", Group: StringGroup, Since: "2.0.0",
		Summary:    "Adds bytes to the end of a string; a missing key becomes a string of them.",
		Complexity: "O(M) in the bytes added for a large string; a small one is written whole.",
		Arity:      3, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Insert)},
		Args: []Arg{keyArg("key"), stringArg("value")},
		Run:  runAppend,
	},
	{
		Name: "STRLEN", Group: StringGroup, Since: "2.2.0",
		Summary:    "Replies the length of a string in bytes.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key")},
		Run:  runStrLen,
	},
	getRangeCommand("GETRANGE", "2.4.0",
		"Replies a part of a string; negative positions count from its end."),
	getRangeCommand("SUBSTR", "1.0.0", "The old name of GETRANGE."),
	{
		Name: "SETRANGE", Group: StringGroup, Since: "2.2.0",
		Summary:    "Overwrites a part of a string, which grows with zero bytes where it is too short.",
		Complexity: "O(M) in the bytes written and the zeros before them; a small string is written whole.",
		Arity:      4, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), intArg("offset"), stringArg("value")},
		Run:  runSetRange,
	},
}

func getRangeCommand(name, since, summary string) Spec {
	return Spec{
		Name: name, Group: StringGroup, Since: since,
		Summary:    summary,
		Complexity: "O(N) in the bytes replied.",
		Arity:      4, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), intArg("start"), intArg("end")},
		Run:  runGetRange,
	}
}

var (
	eventAppend   = storage.Event{Class: storage.EventString, Name: "append"}
	eventSetRange = storage.Event{Class: storage.EventString, Name: "setrange"}
)

// maxBulk returns the maximum length of a string, in bytes.
func (e *Env) maxBulk() int64 { return e.Config.Int("proto-max-bulk-len") }

// fits reports whether n bytes may be written at offset off of a string.
func (e *Env) fits(off, n int64) bool { return off <= e.maxBulk()-n }

func runAppend(c *Ctx) error {
	k, data := c.Keys[0], c.Arg(2)
	old, ok, err := c.String(k)
	if err != nil {
		return err
	}
	if !ok { // a new string, not an appended one: their OBJECT ENCODING differs
		c.Txn.SetString(k, data, ttl.Deadline{}, eventAppend)
		c.Out.Int(int64(len(data)))
		return nil
	}
	if !c.Env.fits(int64(len(old)), int64(len(data))) {
		return ErrTooLong
	}
	c.Out.Int(int64(c.Txn.WriteRange(k, len(old), data, eventAppend)))
	return nil
}

func runStrLen(c *Ctx) error {
	value, _, err := c.readString(c.Keys[0])
	if err != nil {
		return err
	}
	c.Out.Int(int64(len(value)))
	return nil
}

func runGetRange(c *Ctx) error {
	a := c.Cursor(2)
	start, end := a.Int(), a.Int()
	if err := a.Err(); err != nil {
		return err
	}
	value, _, err := c.readString(c.Keys[0])
	if err != nil {
		return err
	}
	part := slice(value, start, end)
	if c.offloads(len(part), largeValue) {
		return errOffload
	}
	c.Out.Bulk(part)
	return nil
}

// slice returns value[start..end], both included. Negative positions count from the end. The range
// is cut to the existing bytes.
func slice(value []byte, start, end int64) []byte {
	n := int64(len(value))
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end += n // before the first byte: nothing, as from Redis 8.0 on
	}
	end = min(end, n-1)
	if start > end {
		return nil
	}
	return value[start : end+1]
}

func runSetRange(c *Ctx) error {
	k, data := c.Keys[0], c.Arg(3)
	off, ok := ParseInt(c.Arg(2))
	switch {
	case !ok:
		return ErrNotInteger
	case off < 0:
		return ErrOffset
	}
	old, _, err := c.String(k)
	if err != nil {
		return err
	}
	if len(data) == 0 { // nothing to write: no zeros are added, no key is made
		c.Out.Int(int64(len(old)))
		return nil
	}
	if !c.Env.fits(off, int64(len(data))) {
		return ErrTooLong
	}
	c.Out.Int(int64(c.Txn.WriteRange(k, int(off), data, eventSetRange)))
	return nil
}
