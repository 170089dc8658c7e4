package commands

import (
	"slices"

	"keyp/ttl"
)

var listMoveCommands = []Spec{
	{
		Name: "RPOPLPUSH", Group: ListGroup, Since: "1.2.0",
		Summary:    "Moves the last element of a list to the head of another, or of the same one.",
		Complexity: "O(1)",
		Arity:      3, Flags: Write | DenyOOM,
		Keys: moveKeys,
		Args: []Arg{keyArg("source"), keyArg("destination")},
		Run:  func(c *Ctx) error { return moveOrNull(c, tail, head) },
	},
	{
		Name: "LMOVE", Group: ListGroup, Since: "6.2.0",
		Summary:    "Moves an element from an end of a list to an end of another, or of the same one.",
		Complexity: "O(1)",
		Arity:      5, Flags: Write | DenyOOM,
		Keys: moveKeys,
		Args: []Arg{
			keyArg("source"), keyArg("destination"),
			oneOf("wherefrom", word("LEFT"), word("RIGHT")),
			oneOf("whereto", word("LEFT"), word("RIGHT")),
		},
		Run: runLMove,
	},
	{
		Name: "LMOVEM", Group: ListGroup, Since: "8.10.0",
		Summary:    "Moves elements from an end of a list to an end of another, or of the same one, one by one or as a block.",
		Complexity: "O(N) in the number of elements moved.",
		Arity:      -5, Flags: Write | DenyOOM,
		Keys: moveKeys,
		Args: []Arg{
			keyArg("source"), keyArg("destination"),
			oneOf("wherefrom", word("LEFT"), word("RIGHT")),
			oneOf("whereto", word("LEFT"), word("RIGHT")),
			howMany,
		},
		Run: runLMoveM,
	},
	multiPopCommand("LMPOP", ListGroup,
		"Takes elements from an end of the first list, of those named, that is not empty.",
		listPopComplexity, popFromFirst(readListEnd), word("LEFT"), word("RIGHT")),
}

var moveKeys = []KeySpec{Key(1, RW|Access|Delete), Key(2, RW|Insert)}

func runLMove(c *Ctx) error {
	a := c.Cursor(3)
	from, to := a.listEnd(), a.listEnd()
	if err := a.Err(); err != nil {
		return err
	}
	return moveOrNull(c, from, to)
}

func moveOrNull(c *Ctx, from, to *listEnd) error {
	moved, err := moveElement(c, from, to)
	if err == nil && !moved {
		c.Out.Null()
	}
	return err
}

// moveElement moves an element and replies with it. If the source is missing, it sends no reply,
// because BLMOVE then waits, and does not read the destination.
func moveElement(c *Ctx, from, to *listEnd) (moved bool, err error) {
	src, err := c.Txn.List(c.Keys[0])
	if err != nil || !src.Exists() {
		return false, err
	}
	dst, err := c.Txn.List(c.Keys[1])
	if err != nil {
		return false, err
	}
	if !dst.Exists() {
		c.Txn.MayWrite(c.Keys[1], ttl.None)
	}
	at := from.first(src.Value().Len(), 1)
	_, val := src.Value().At(at)
	val = slices.Clone(val)
	src.RemoveRange(at, at+1)
	c.Txn.Uncounted(func() { to.push(&dst, val) })
	c.Txn.Notify(c.Keys[1], to.pushed)
	c.Txn.Notify(c.Keys[0], from.took)
	c.Out.Bulk(val)
	return true, nil
}

var howMany = block("how-many",
	oneOf("selector", intArg("count").after("COUNT"), intArg("exactly").after("EXACTLY")),
	oneOf("ordering", word("OBO"), word("BULK")),
).opt()

// moveSize is the number of elements that LMOVEM moves, and how.
type moveSize struct {
	count    int64
	exactly  bool // or none
	oneByOne bool // each after the one that was moved before, so that a stack is turned over
}

// moveSize reads the options after the ends and the timeout. Without options one element moves.
func (a *Cursor) moveSize() moveSize {
	m := moveSize{count: 1}
	if !a.More() {
		return m
	}
	m.exactly = a.Word("EXACTLY")
	if !m.exactly && !a.Word("COUNT") {
		a.Fail(ErrSyntax)
	}
	m.count = a.IntFrom(1, errPopCount)
	m.oneByOne = a.Word("OBO")
	if !m.oneByOne && !a.Word("BULK") || a.More() {
		a.Fail(ErrSyntax)
	}
	return m
}

func runLMoveM(c *Ctx) error {
	a := c.Cursor(3)
	from, to, m := a.listEnd(), a.listEnd(), a.moveSize()
	if err := a.Err(); err != nil {
		return err
	}
	moved, err := moveElements(c, from, to, m)
	if err == nil && !moved {
		c.Out.NullArray()
	}
	return err
}

// moveElements moves elements and replies with them, in their order in the destination. If the
// source has too few, it replies with nothing and does not read the destination.
func moveElements(c *Ctx, from, to *listEnd, m moveSize) (moved bool, err error) {
	src, err := c.Txn.List(c.Keys[0])
	if err != nil || !src.Exists() {
		return false, err
	}
	length := src.Value().Len()
	if m.exactly && m.count > int64(length) {
		return false, nil
	}
	dst, err := c.Txn.List(c.Keys[1])
	if err != nil {
		return false, err
	}
	if !dst.Exists() {
		c.Txn.MayWrite(c.Keys[1], ttl.None)
	}
	n := int(min(m.count, int64(length)))
	at := from.first(length, n)
	block := make([][]byte, n)
	for i := range block {
		_, val := src.Value().At(at + i)
		block[i] = slices.Clone(val)
	}
	src.RemoveRange(at, at+n)
	if m.oneByOne && from == to {
		slices.Reverse(block)
	}
	c.Out.Array(n)
	c.Txn.Uncounted(func() {
		for i, val := range block {
			c.Out.Bulk(val)
			if to == head {
				val = block[n-1-i]
			}
			to.push(&dst, val)
		}
	})
	c.Txn.Notify(c.Keys[1], to.pushed)
	c.Txn.Notify(c.Keys[0], from.took)
	return true, nil
}
