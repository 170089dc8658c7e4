package commands

import (
	"bytes"
	"math"

	"keyp/storage"
	"keyp/ttl"
)

// renameCommands are the commands that give a value another key: RENAME, RENAMENX, COPY and MOVE.
var renameCommands = []Spec{
	{
		Name: "RENAME", Group: Generic, Since: "1.0.0",
		Summary:    "Gives a key another name, with its time to live; a key of that name is replaced.",
		Complexity: "O(1)",
		Arity:      3, Flags: Write | restates,
		Keys: []KeySpec{Key(1, RW|Access|Delete), Key(2, OW|Update)},
		Args: []Arg{keyArg("key"), keyArg("newkey")},
		Run:  runRename,
	},
	{
		Name: "RENAMENX", Group: Generic, Since: "1.0.0",
		Summary:    "Gives a key another name unless a key of that name exists.",
		Complexity: "O(1)",
		History: [][2]string{{"3.2.0",
			"The command no longer returns an error when source and destination names are the same."}},
		Arity: 3, Flags: Write | restates | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Delete), Key(2, OW|Insert)},
		Args: []Arg{keyArg("key"), keyArg("newkey")},
		Run:  runRenameNX,
	},
	{
		Name: "COPY", Group: Generic, Since: "6.2.0",
		Summary:    "Copies a key's value and time to live to another key.",
		Complexity: "O(N) in the elements of a collection, O(1) for strings.",
		Arity:      -3, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, RO|Access), {Flags: OW | Update, Begin: 2, DB: copyTarget}},
		Args: []Arg{
			keyArg("source"), keyArg("destination"),
			intArg("destination-db").after("DB").opt(),
			word("REPLACE").opt(),
		},
		Offload: largeCopy,
		Run:     runCopy,
	},
	{
		Name: "MOVE", Group: Generic, Since: "1.0.0",
		Summary:    "Moves a key to another database unless it exists there.",
		Complexity: "O(1)",
		Arity:      3, Flags: Write | restates | Fast,
		Keys: []KeySpec{Key(1, RW|Access|Update), {Flags: OW | Insert, Begin: 1, DB: moveTarget}},
		Args: []Arg{keyArg("key"), intArg("db")},
		Run:  runMove,
	},
}

var (
	eventRenameFrom = storage.Event{Class: storage.EventGeneric, Name: "rename_from"}
	eventRenameTo   = storage.Event{Class: storage.EventGeneric, Name: "rename_to"}
	eventCopyTo     = storage.Event{Class: storage.EventGeneric, Name: "copy_to"}
	eventMoveFrom   = storage.Event{Class: storage.EventGeneric, Name: "move_from"}
	eventMoveTo     = storage.Event{Class: storage.EventGeneric, Name: "move_to"}
)

func runRename(c *Ctx) error {
	if err := rename(c); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

func runRenameNX(c *Ctx) error {
	if _, ok := c.Txn.Get(c.Keys[0]); !ok {
		return ErrNoSuchKey
	}
	if _, taken := c.Txn.Peek(c.Keys[1]); taken { // also when both names are the same
		c.Out.Int(0)
		return nil
	}
	if err := rename(c); err != nil {
		return err
	}
	c.Out.Int(1)
	return nil
}

// rename moves the command's first key to its second. It returns ErrNoSuchKey if the first is
// missing.
func rename(c *Ctx) error {
	from, to := c.Keys[0], c.Keys[1]
	if bytes.Equal(from.Name, to.Name) {
		if _, ok := c.Txn.Get(from); !ok {
			return ErrNoSuchKey
		}
		return nil
	}
	item, ok := c.Txn.Peek(from)
	if !ok {
		return ErrNoSuchKey
	}
	old, overwritten := c.Txn.Peek(to)
	was, is, deadline := old.Type(), item.Type(), item.Deadline()
	c.Txn.Rename(from, to)
	c.Txn.Notify(from, eventRenameFrom)
	c.notifyMoved(to, eventRenameTo, deadline)
	if overwritten {
		c.Txn.Overwrote(to, was, is)
	}
	return nil
}

// notifyMoved raises the event of a key that has got the value and the deadline of another key.
// deadline is the other key's deadline. If there was none, but a policy has given the key one,
// notifyMoved also raises the event of that.
func (c *Ctx) notifyMoved(to storage.Key, ev storage.Event, deadline int64) {
	c.Txn.Notify(to, ev)
	if is, _ := c.Txn.Deadline(to); deadline == ttl.None && is != ttl.None {
		c.Txn.Notify(to, storage.DeadlineSet)
	}
}

// copyOptions are the options after COPY's keys.
type copyOptions struct {
	db      int
	replace bool
}

// parseCopy reads COPY's options for a client in database db, of databases in all.
func parseCopy(a Cursor, db, databases int) (copyOptions, error) {
	o := copyOptions{db: db}
	for a.More() {
		switch {
		case a.Word("REPLACE"):
			o.replace = true
		case a.Word("DB"):
			if o.db = a.Int32(); o.db < 0 || o.db >= databases {
				a.Fail(ErrDBIndex)
			}
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o, a.Err()
}

// copyTarget returns the database of COPY's second key. The caller checks that the database exists.
func copyTarget(args [][]byte, current int) (int, bool) {
	o, err := parseCopy(Cursor{args: args[3:]}, current, math.MaxInt)
	return o.db, err == nil
}

func runCopy(c *Ctx) error {
	o, err := parseCopy(c.Cursor(3), c.Client.DB, c.Env.Store.Databases())
	if err != nil {
		return err
	}
	if o.db != 0 && c.Env.clustered() {
		return errCopyDB
	}
	from, to := c.Keys[0], c.Keys[1]
	if from.DB == to.DB && bytes.Equal(from.Name, to.Name) {
		return ErrSameObject
	}
	item, ok := c.read(from)
	if !ok {
		c.Out.Int(0)
		return nil
	}
	old, taken := c.Txn.Peek(to)
	if taken && !o.replace {
		c.Out.Int(0)
		return nil
	}
	was, is, deadline := old.Type(), item.Type(), item.Deadline()
	if !c.Txn.Copy(from, to) {
		return ErrInternal
	}
	c.notifyMoved(to, eventCopyTo, deadline)
	if taken {
		c.Txn.Overwrote(to, was, is)
	}
	c.Out.Int(1)
	return nil
}

// moveTarget returns the database to which MOVE moves the key.
func moveTarget(args [][]byte, _ int) (int, bool) {
	a := Cursor{args: args[2:]}
	db := a.Int32()
	return db, a.Err() == nil
}

func runMove(c *Ctx) error {
	if c.Env.clustered() {
		return errMoveDB
	}
	a := c.Cursor(2)
	db := a.Int32()
	if err := a.Err(); err != nil {
		return err
	}
	if !c.Env.database(db) {
		return ErrDBIndex
	}
	from, to := c.Keys[0], c.Keys[1]
	if from.DB == to.DB {
		return ErrSameObject
	}
	deadline, _ := c.Txn.Deadline(from)
	if _, taken := c.Txn.Peek(to); taken || !c.Txn.Rename(from, to) {
		c.Out.Int(0)
		return nil
	}
	c.Txn.Notify(from, eventMoveFrom)
	c.notifyMoved(to, eventMoveTo, deadline)
	c.Out.Int(1)
	return nil
}

// database reports whether there is a database with that number.
func (e *Env) database(n int) bool { return n >= 0 && n < e.Store.Databases() }
