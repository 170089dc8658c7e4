package commands

import (
	"keyp/resp"
	"keyp/storage/object"
)

var hashReadCommands = []Spec{
	{
		Name: "HGET", Group: HashGroup, Since: "2.0.0",
		Summary:    "Replies the value of a field of a hash.",
		Complexity: "O(1)",
		Arity:      3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: hashFieldArgs,
		Run: reading((*Ctx).readHash, func(c *Ctx, h *object.Hash) {
			replyField(c.Out, h, c.Arg(2))
		}),
	},
	{
		Name: "HMGET", Group: HashGroup, Since: "2.0.0",
		Summary:    "Replies the values of several fields of a hash.",
		Complexity: "O(N) in the number of fields named.",
		Arity:      -3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), stringArg("field").many()},
		Run:  reading((*Ctx).readHash, replyFields),
	},
	{
		Name: "HGETALL", Group: HashGroup, Since: "2.0.0",
		Summary:    "Replies all fields of a hash with their values.",
		Complexity: "O(N) in the number of fields.",
		Arity:      2, Flags: ReadOnly,
		Keys:    []KeySpec{Key(1, RO|Access)},
		Args:    []Arg{keyArg("key")},
		Tips:    []string{tipRandomOrder},
		Offload: largeValues,
		Run:     reading((*Ctx).readHash, replyHash),
	},
	listFieldsCommand("HKEYS", "Replies all fields of a hash.", func(field, _ []byte) []byte {
		return field
	}),
	listFieldsCommand("HVALS", "Replies the values of all fields of a hash.",
		func(_, val []byte) []byte { return val }),
	{
		Name: "HLEN", Group: HashGroup, Since: "2.0.0",
		Summary:    "Replies the number of fields of a hash.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key")},
		Run:  reading((*Ctx).readHash, length),
	},
	{
		Name: "HSTRLEN", Group: HashGroup, Since: "3.2.0",
		Summary:    "Replies how many bytes the value of a field of a hash has, 0 for a missing field.",
		Complexity: "O(1)",
		Arity:      3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: hashFieldArgs,
		Run: reading((*Ctx).readHash, func(c *Ctx, h *object.Hash) {
			val, _, _ := h.Get(c.Arg(2))
			c.Out.Int(int64(len(val)))
		}),
	},
	{
		Name: "HEXISTS", Group: HashGroup, Since: "2.0.0",
		Summary:    "Replies whether a hash has a field.",
		Complexity: "O(1)",
		Arity:      3, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: hashFieldArgs,
		Run: reading((*Ctx).readHash, func(c *Ctx, h *object.Hash) {
			_, _, ok := h.Get(c.Arg(2))
			c.bit(ok)
		}),
	},
	scanElementsCommand("HSCAN", HashGroup, "Goes on with a walk over the fields of a hash.",
		"O(1) for a call, O(N) in the number of fields for a whole walk.",
		scanElements(object.TypeHash, (*resp.Writer).Bulk), word("NOVALUES").opt()),
}

var hashFieldArgs = []Arg{keyArg("key"), stringArg("field")}

// replyField replies with a field's value, or with null and false if there is no such field.
func replyField(out *resp.Writer, h *object.Hash, field []byte) (ok bool) {
	val, _, ok := h.Get(field)
	if ok {
		out.Bulk(val)
	} else {
		out.Null()
	}
	return ok
}

func replyFields(c *Ctx, h *object.Hash) {
	c.Out.Array(len(c.Args) - 2)
	for _, field := range c.Args[2:] {
		replyField(c.Out, h, field)
	}
}

func replyHash(c *Ctx, h *object.Hash) {
	c.Out.Map(h.Len())
	h.Walk(func(field, val []byte, _ int64) bool {
		c.Out.Bulk(field)
		c.Out.Bulk(val)
		return true
	})
}

func listFieldsCommand(name, summary string, part func(field, val []byte) []byte) Spec {
	return Spec{
		Name: name, Group: HashGroup, Since: "2.0.0",
		Summary:    summary,
		Complexity: "O(N) in the number of fields.",
		Arity:      2, Flags: ReadOnly,
		Keys:    []KeySpec{Key(1, RO|Access)},
		Args:    []Arg{keyArg("key")},
		Tips:    []string{tipRandomOrder},
		Offload: largeValues,
		Run:     listFields(part),
	}
}

// listFields returns the handler of HKEYS or HVALS, which reply with a part of each field.
func listFields(part func(field, val []byte) []byte) func(*Ctx) error {
	return reading((*Ctx).readHash, func(c *Ctx, h *object.Hash) {
		c.Out.Array(h.Len())
		h.Walk(func(field, val []byte, _ int64) bool {
			c.Out.Bulk(part(field, val))
			return true
		})
	})
}
