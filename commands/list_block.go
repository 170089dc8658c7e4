package commands

import (
	"keyp/storage/object"
)

// listBlockCommands wait while there is nothing to take. Any command that makes a list at one of
// their keys wakes them.
var listBlockCommands = []Spec{
	blockingPopCommand(Spec{
		Name: "BLPOP", Group: ListGroup, Since: "2.0.0", Flags: Write | Blocking,
		Summary:    "Takes the first element of the first list, of those named, that is not empty, or waits for one.",
		Complexity: "O(N) in the number of keys.",
	}, head),
	blockingPopCommand(Spec{
		Name: "BRPOP", Group: ListGroup, Since: "2.0.0", Flags: Write | Blocking,
		Summary:    "Takes the last element of the first list, of those named, that is not empty, or waits for one.",
		Complexity: "O(N) in the number of keys.",
	}, tail),
	{
		Name: "BRPOPLPUSH", Group: ListGroup, Since: "2.2.0",
		Summary:    "Moves the last element of a list to the head of another, or waits for one.",
		Complexity: "O(1)",
		History:    timeoutHistory,
		Arity:      4, Flags: Write | DenyOOM | Blocking,
		Keys: moveKeys,
		Args: []Arg{keyArg("source"), keyArg("destination"), doubleArg("timeout")},
		Run:  func(c *Ctx) error { return blockingMove(c, tail, head) },
	},
	{
		Name: "BLMOVE", Group: ListGroup, Since: "6.2.0",
		Summary:    "Moves an element from an end of a list to an end of another, or waits for one.",
		Complexity: "O(1)",
		Arity:      6, Flags: Write | DenyOOM | Blocking,
		Keys: moveKeys,
		Args: []Arg{
			keyArg("source"), keyArg("destination"),
			oneOf("wherefrom", word("LEFT"), word("RIGHT")),
			oneOf("whereto", word("LEFT"), word("RIGHT")),
			doubleArg("timeout"),
		},
		Run: runBLMove,
	},
	{
		Name: "BLMOVEM", Group: ListGroup, Since: "8.10.0",
		Summary:    "Moves elements from an end of a list to an end of another, or waits until there are enough of them.",
		Complexity: "O(N) in the number of elements moved.",
		Arity:      -6, Flags: Write | DenyOOM | Blocking,
		Keys: moveKeys,
		Args: []Arg{
			keyArg("source"), keyArg("destination"),
			oneOf("wherefrom", word("LEFT"), word("RIGHT")),
			oneOf("whereto", word("LEFT"), word("RIGHT")),
			doubleArg("timeout"), howMany,
		},
		Run: runBLMoveM,
	},
	blockingForm(multiPopCommand("BLMPOP", ListGroup,
		"Takes elements from an end of the first list, of those named, that is not empty, or waits for some.",
		listPopComplexity, blockingPopFromFirst(readListEnd), word("LEFT"), word("RIGHT"))),
}

func runBLMove(c *Ctx) error {
	a := c.Cursor(3)
	from, to := a.listEnd(), a.listEnd()
	if err := a.Err(); err != nil {
		return err
	}
	return blockingMove(c, from, to)
}

// blockingMove is moveElement, but waits if the source does not exist.
func blockingMove(c *Ctx, from, to *listEnd) error {
	timeout, err := c.lastTimeout()
	if err != nil {
		return err
	}
	moved, err := moveElement(c, from, to)
	switch {
	case err != nil || moved:
		return err
	case c.Nested:
		c.Out.Null()
		return nil
	}
	return c.block(c.Keys[:1], object.TypeList, timeout)
}

func runBLMoveM(c *Ctx) error {
	a := c.Cursor(3)
	from, to := a.listEnd(), a.listEnd()
	timeout := a.seconds(c.Txn.Now())
	m := a.moveSize()
	if err := a.Err(); err != nil {
		return err
	}
	if moved, err := moveElements(c, from, to, m); err != nil || moved {
		return err
	}
	return c.block(c.Keys[:1], object.TypeList, timeout)
}
