package commands

import (
	"keyp/storage"
	"keyp/storage/object"
)

var streamDeleteCommands = []Spec{
	{
		Name: "XDEL", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Removes entries of a stream and replies how many there were.",
		Complexity: "O(1) for each entry.",
		Arity:      -3, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), stringArg("id").many()},
		Run:  runXDel,
	},
	{
		Name: "XDELEX", Group: StreamGroup, Since: "8.2.0",
		Summary:    "Removes entries of a stream, as far as groups' pending entries allow it, and replies for each what became of it.",
		Complexity: "O(1) for each entry.",
		Arity:      -5, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), streamRefsArg.opt(), streamIDsArg},
		Run:  runXDelEx,
	},
	{
		Name: "XACKDEL", Group: StreamGroup, Since: "8.2.0",
		Summary:    "Acknowledges entries in a group and removes them from the stream, and replies for each what became of it.",
		Complexity: "O(1) for each entry.",
		Arity:      -6, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), stringArg("group"), streamRefsArg.opt(), streamIDsArg},
		Run:  runXAckDel,
	},
}

var (
	streamIDsArg = block("ids", intArg("numids"), stringArg("id").many()).after("IDS")
	eventXDel    = streamEvent("xdel")
)

// The errors of XDELEX and XACKDEL.
const (
	errNumIDs     Error = "ERR Number of IDs must be a positive integer"
	errNumIDsMore Error = "ERR The `numids` parameter must match the number of arguments"
	errNoIDs      Error = "ERR IDS option is required"
)

// The results for an entry.
const (
	notThere        = -1
	entryRemoved    = 1
	stillReferenced = 2
)

func runXDel(c *Ctx) error {
	k := c.Keys[0]
	s, err := c.Txn.Stream(k)
	if err != nil {
		return err
	}
	var n int64
	if s.Exists() {
		var few [fewIDs]object.StreamID
		ids, err := streamIDs(few[:0], c.Args[2:])
		if err != nil {
			return err
		}
		if err := c.haveIDs(&s, ids); err != nil {
			return err
		}
		for _, id := range ids {
			if s.Delete(id) {
				n++
			}
		}
	}
	if n > 0 {
		c.Txn.Notify(k, eventXDel)
	}
	c.Out.Int(n)
	return nil
}

// parseRemoval parses the arguments after the key or the group: the option for pending entries, and
// the IDs. It returns the IDs as text.
func parseRemoval(a Cursor) (refs streamRefs, ids [][]byte, err error) {
	for a.More() {
		switch {
		case refs.option(&a):
		case a.Len() > 1 && a.Word("IDS"):
			n := a.IntFrom(1, errNumIDs)
			switch {
			case a.Err() != nil:
			case n > int64(a.Len()):
				a.Fail(errNumIDsMore)
			default:
				ids = a.args[:n]
				a.Skip(n)
			}
		default:
			a.Fail(ErrSyntax)
		}
	}
	if a.Err() == nil && ids == nil {
		a.Fail(errNoIDs)
	}
	return refs, ids, a.Err()
}

// removeEntries replies with the result of remove for each ID. If found is false, there is nothing
// to remove.
func (c *Ctx) removeEntries(of *storage.Stream, found bool, args [][]byte,
	remove func(id object.StreamID) (what int64, removed bool)) error {
	if !found {
		c.Out.Array(len(args))
		for range args {
			c.Out.Int(notThere)
		}
		return nil
	}
	var few [fewIDs]object.StreamID
	ids, err := streamIDs(few[:0], args)
	if err != nil {
		return err
	}
	if len(ids)*of.Value().Groups() >= manyElements && c.mayOffload() {
		return errOffload
	}
	if err := c.haveIDs(of, ids); err != nil {
		return err
	}
	some := false
	c.Out.Array(len(ids))
	for _, id := range ids {
		what, removed := remove(id)
		some = some || removed
		c.Out.Int(what)
	}
	if some {
		c.Txn.Notify(c.Keys[0], eventXDel)
	}
	return nil
}

func runXDelEx(c *Ctx) error {
	s, err := c.Txn.Stream(c.Keys[0])
	if err != nil {
		return err
	}
	refs, ids, err := parseRemoval(c.Cursor(2))
	if err != nil {
		return err
	}
	return c.removeEntries(&s, s.Exists(), ids, func(id object.StreamID) (int64, bool) {
		switch {
		case !refs.release(&s, id):
			return stillReferenced, false
		case s.Delete(id):
			return entryRemoved, true
		}
		return notThere, false
	})
}

// runXAckDel replies that an entry is removed if it was pending but is not in the stream any more.
func runXAckDel(c *Ctx) error {
	s, err := c.readStream(c.Keys[0])
	if err != nil {
		return err
	}
	refs, ids, err := parseRemoval(c.Cursor(3))
	if err != nil {
		return err
	}
	group := c.Arg(2)
	return c.removeEntries(&s, s.Value().Group(group) != nil, ids,
		func(id object.StreamID) (int64, bool) {
			switch {
			case !s.Ack(group, id):
				return notThere, false
			case !refs.release(&s, id):
				return stillReferenced, false
			}
			return entryRemoved, s.Delete(id)
		})
}
