package commands

import (
	"slices"

	"keyp/storage"
	"keyp/storage/object"
)

// listCommands are the commands of lists. Each kind of command has a file. Unless a command says
// otherwise, it treats a missing or expired key as an empty list. If the key has another type, it
// returns ErrWrongType.
var listCommands = slices.Concat(listEndCommands, listElementCommands, listRangeCommands,
	listMoveCommands, listBlockCommands)

var listEndCommands = []Spec{
	pushCommand("LPUSH", "1.0.0", "2.4.0",
		"Adds elements at the head of a list, one after another, so that the last comes first.",
		push(head, false)),
	pushCommand("RPUSH", "1.0.0", "2.4.0", "Adds elements at the tail of a list.",
		push(tail, false)),
	pushCommand("LPUSHX", "2.2.0", "4.0.0", "Adds elements at the head of a list that exists.",
		push(head, true)),
	pushCommand("RPUSHX", "2.2.0", "4.0.0", "Adds elements at the tail of a list that exists.",
		push(tail, true)),
	popCommand("LPOP", "Takes the first elements of a list, which is deleted with its last one.",
		head),
	popCommand("RPOP", "Takes the last elements of a list, which is deleted with its last one.",
		tail),
	{
		Name: "LLEN", Group: ListGroup, Since: "1.0.0",
		Summary:    "Replies how long a list is.",
		Complexity: "O(1)",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO)},
		Args: []Arg{keyArg("key")},
		Run:  reading((*Ctx).readList, length),
	},
}

// pushCommand declares a command that takes several elements since the version several.
func pushCommand(name, since, several, summary string, run func(*Ctx) error) Spec {
	return Spec{
		Name: name, Group: ListGroup, Since: since,
		Summary:    summary,
		Complexity: "O(N) in the number of elements added.",
		History:    [][2]string{{several, "Accepts multiple `element` arguments."}},
		Arity:      -3, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Insert)},
		Args: []Arg{keyArg("key"), stringArg("element").many()},
		Run:  run,
	}
}

func popCommand(name, summary string, end *listEnd) Spec {
	return Spec{
		Name: name, Group: ListGroup, Since: "1.0.0",
		Summary:    summary,
		Complexity: "O(N) in the number of elements taken.",
		History:    [][2]string{{"6.2.0", "Added the `count` argument."}},
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete)},
		Args: []Arg{keyArg("key"), intArg("count").opt().since("6.2.0")},
		Run:  pop(end),
	}
}

// listEnd is an end of a list, with its name and its operations.
type listEnd struct {
	word         string
	pushed, took storage.Event
	push         func(l *storage.List, val []byte)
	// first returns the index of the first of the n elements at this end of a list of that length.
	first func(length, n int) int
	// reverse says that elements are taken from the back.
	reverse bool
}

var (
	head = &listEnd{
		word:   "LEFT",
		pushed: listEvent("lpush"), took: listEvent("lpop"),
		push:  (*storage.List).PushFront,
		first: func(int, int) int { return 0 },
	}
	tail = &listEnd{
		word:   "RIGHT",
		pushed: listEvent("rpush"), took: listEvent("rpop"),
		push:    (*storage.List).PushBack,
		first:   func(length, n int) int { return length - n },
		reverse: true,
	}
)

func listEvent(name string) storage.Event {
	return storage.Event{Class: storage.EventList, Name: name}
}

// listEnd takes LEFT or RIGHT; anything else is ErrSyntax.
func (a *Cursor) listEnd() *listEnd {
	switch {
	case a.Word(head.word):
		return head
	case a.Word(tail.word):
		return tail
	}
	a.Fail(ErrSyntax)
	return nil
}

func readListEnd(a *Cursor) popEnd { return a.listEnd() }

func (end *listEnd) holds() object.Type { return object.TypeList }

func (end *listEnd) popOne(c *Ctx, k storage.Key) (found bool, err error) {
	l, err := c.Txn.List(k)
	if err != nil || !l.Exists() {
		return false, err
	}
	c.Out.Array(2)
	c.Out.Bulk(k.Name)
	c.takeOne(&l, k, end)
	return true, nil
}

func (end *listEnd) popSome(c *Ctx, k storage.Key, count int64) (found bool, err error) {
	l, err := c.Txn.List(k)
	if err != nil || !l.Exists() {
		return false, err
	}
	c.Out.Array(2)
	c.Out.Bulk(k.Name)
	c.take(&l, k, end, count)
	return true, nil
}

// readList opens a list for a command that reads; it is empty for a missing or expired
// key.
func (c *Ctx) readList(k storage.Key) (*object.List, error) {
	l, err := c.Txn.List(k)
	c.count(k, err != nil || l.Exists())
	return l.Value(), err
}

// push returns a handler that adds the arguments after the key. It replies with the new length of
// the list, or 0 for a missing key that must exist.
func push(end *listEnd, mustExist bool) func(*Ctx) error {
	return changing((*storage.Txn).List, func(c *Ctx, l storage.List) error {
		if mustExist && !l.Exists() {
			c.Out.Int(0)
			return nil
		}
		for _, val := range c.Args[2:] {
			end.push(&l, val)
		}
		c.Txn.Notify(c.Keys[0], end.pushed)
		c.Out.Int(int64(l.Value().Len()))
		return nil
	})
}

// pop returns a handler that replies with an element, or with a count an array of elements. For a
// missing key it replies with null.
func pop(end *listEnd) func(*Ctx) error {
	return func(c *Ctx) error {
		if len(c.Args) > 3 {
			return errArity(c.Spec.full)
		}
		one, count := len(c.Args) == 2, int64(1)
		if !one {
			a := c.Cursor(2)
			if count = a.IntFrom(0, ErrIntPositive); a.Err() != nil {
				return a.Err()
			}
		}
		l, err := c.Txn.List(c.Keys[0])
		switch {
		case err != nil:
			return err
		case one && !l.Exists():
			c.Out.Null()
		case one:
			c.takeOne(&l, c.Keys[0], end)
		case !l.Exists():
			c.Out.NullArray()
		default:
			c.take(&l, c.Keys[0], end, count)
		}
		return nil
	}
}

// takeOne removes the element at an end of the list in k, which is not empty, and replies with it.
func (c *Ctx) takeOne(l *storage.List, k storage.Key, end *listEnd) {
	at := end.first(l.Value().Len(), 1)
	_, val := l.Value().At(at)
	c.Out.Bulk(val)
	l.RemoveRange(at, at+1)
	c.Txn.Notify(k, end.took)
}

// take removes up to count elements from an end of the list in k. It replies with an array of them,
// in the order of removal.
func (c *Ctx) take(l *storage.List, k storage.Key, end *listEnd, count int64) {
	length := l.Value().Len()
	n := int(min(count, int64(length)))
	at := end.first(length, n)
	from := at
	if end.reverse {
		from = length - 1
	}
	c.elements(l.Value(), from, n, end.reverse)
	if n > 0 {
		l.RemoveRange(at, at+n)
		c.Txn.Notify(k, end.took)
	}
}

// elements replies with n elements of a list, from an index on. The list must have so many.
func (c *Ctx) elements(l *object.List, from, n int, reverse bool) {
	c.Out.Array(n)
	if n == 0 {
		return
	}
	l.Each(from, reverse, func(_ int, _ int64, val []byte) bool {
		c.Out.Bulk(val)
		n--
		return n > 0
	})
}
