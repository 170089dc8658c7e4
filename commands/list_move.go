package commands

import "slices"

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
			oneOf("wherefrom", word("LEFT"), word("RIGHT")), oneOf("whereto", word("LEFT"), word("RIGHT")),
		},
		Run: runLMove,
	},
	multiPopCommand("LMPOP", ListGroup, "Takes elements from an end of the first list, of those named, that is not empty.",
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

// moveElement replies the element that it moved; nothing if the source is missing, and
// then the destination is not looked at.
func moveElement(c *Ctx, from, to *listEnd) (moved bool, err error) {
	src, err := c.Txn.List(c.Keys[0])
	if err != nil || !src.Exists() {
		return false, err
	}
	dst, err := c.Txn.List(c.Keys[1])
	if err != nil {
		return false, err
	}
	at := from.first(src.Value().Len(), 1)
	_, val := src.Value().At(at)
	val = slices.Clone(val)
	src.RemoveRange(at, at+1)
	to.push(&dst, val)
	c.Txn.Notify(c.Keys[1], to.pushed)
	c.Txn.Notify(c.Keys[0], from.took)
	c.Out.Bulk(val)
	return true, nil
}
