package commands

import (
	"bytes"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// HIMPORT makes many hashes with the same fields. A client names the fields once, as a fieldset,
// and then sends only values. A fieldset belongs to its connection and ends with it.
var himportCommands = []Spec{{
	Name: "HIMPORT", Group: HashGroup, Since: "8.10.0", Arity: -2,
	Summary: "Makes hashes of fields that were named before.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "PREPARE", Group: HashGroup, Since: "8.10.0", Arity: -4, Flags: DenyOOM,
			Scope:      OwnClient,
			Summary:    "Names the fields of the hashes to come, for this connection.",
			Complexity: "O(N) in the number of fields.",
			Args:       []Arg{stringArg("fieldset-name"), stringArg("field").many()},
			Tips:       []string{tipAllShards},
			Run:        himportPrepare,
		},
		{
			Name: "SET", Group: HashGroup, Since: "8.10.0", Arity: -5, Flags: Write | DenyOOM,
			Summary:    "Makes a key a hash of the fields of a fieldset, with these values.",
			Complexity: "O(N) in the number of fields.",
			Keys:       []KeySpec{Key(2, OW|Update)},
			Args:       []Arg{keyArg("key"), stringArg("fieldset-name"), stringArg("value").many()},
			Run:        himportSet,
		},
		{
			Name: "DISCARD", Group: HashGroup, Since: "8.10.0", Arity: 3, Scope: OwnClient,
			Summary: "Removes a fieldset of this connection.", Complexity: "O(1)",
			Args: []Arg{stringArg("fieldset-name")},
			Tips: []string{tipAllShards},
			Run:  himportDiscard,
		},
		{
			Name: "DISCARDALL", Group: HashGroup, Since: "8.10.0", Arity: 2, Scope: OwnClient,
			Summary:    "Removes all fieldsets of this connection.",
			Complexity: "O(N) in the number of fieldsets.",
			Tips:       []string{tipAllShards},
			Run:        himportDiscardAll,
		},
	},
}}

const (
	errNoFieldset   Error = "ERR no such fieldset"
	errFieldTwice   Error = "ERR duplicate field name in the fieldset"
	errFieldsetSize Error = "ERR value count does not match the fieldset"
)

// fieldsets contains the fieldsets of one connection. Only code that runs its commands uses them.
type fieldsets struct {
	fields map[string][][]byte
	bytes  int // of the fieldsets
}

// fieldBytes is the memory that a field of a fieldset takes in addition to its name.
const fieldBytes = 32

func fieldsetBytes(name string, fields [][]byte) int {
	n := len(name) + 4*fieldBytes
	for _, f := range fields {
		n += len(f) + fieldBytes
	}
	return n
}

func (s *fieldsets) set(name string, fields [][]byte) {
	s.discard(name)
	if s.fields == nil {
		s.fields = map[string][][]byte{}
	}
	s.fields[name] = fields
	s.bytes += fieldsetBytes(name, fields)
}

func (s *fieldsets) discard(name string) bool {
	fields, ok := s.fields[name]
	if ok {
		s.bytes -= fieldsetBytes(name, fields)
		delete(s.fields, name)
	}
	return ok
}

func himportPrepare(c *Ctx) error {
	seen := map[string]bool{}
	fields := make([][]byte, 0, len(c.Args)-3)
	for _, f := range c.Args[3:] {
		if seen[string(f)] {
			return errFieldTwice
		}
		seen[string(f)] = true
		fields = append(fields, bytes.Clone(f))
	}
	c.Client.fieldsets.set(string(c.Arg(2)), fields)
	c.Out.OK()
	return nil
}

func himportSet(c *Ctx) error {
	fields, ok := c.Client.fieldsets.fields[string(c.Arg(3))]
	values := c.Args[4:]
	switch {
	case !ok:
		return errNoFieldset
	case len(values) != len(fields):
		return errFieldsetSize
	}
	h := &object.Hash{}
	h.Reserve(len(fields))
	for i, f := range fields {
		h.Set(f, values[i], ttl.None)
	}
	c.overwrite(c.Keys[0], h, storage.Event{})
	c.Txn.NotifyFields(c.Keys[0], eventHSet, fields...)
	c.Out.OK()
	return nil
}

func himportDiscard(c *Ctx) error {
	c.bit(c.Client.fieldsets.discard(string(c.Arg(2))))
	return nil
}

func himportDiscardAll(c *Ctx) error {
	c.Out.Int(int64(len(c.Client.fieldsets.fields)))
	c.Client.fieldsets = fieldsets{}
	return nil
}
