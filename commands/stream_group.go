package commands

import (
	"keyp/storage"
	"keyp/storage/object"
)

var streamGroupCommands = []Spec{{
	Name: "XGROUP", Group: StreamGroup, Since: "5.0.0", Arity: -2,
	Summary: "Manages the groups of consumers of a stream.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "CREATE", Group: StreamGroup, Since: "5.0.0",
			Summary:    "Creates a group, which reads the entries behind an ID.",
			Complexity: "O(1)",
			History:    [][2]string{{"7.0.0", "Added the `entries_read` named argument."}},
			Arity:      -5, Flags: Write | DenyOOM,
			Keys: []KeySpec{Key(2, RW|Insert)},
			Args: []Arg{keyArg("key"), stringArg("group"), groupStartArg, word("MKSTREAM").opt(),
				groupReadArg},
			Run: runXGroupCreate,
		},
		{
			Name: "SETID", Group: StreamGroup, Since: "5.0.0",
			Summary:    "Has a group go on behind another ID.",
			Complexity: "O(1)",
			History:    [][2]string{{"7.0.0", "Added the optional `entries_read` argument."}},
			Arity:      -5, Flags: Write,
			Keys: []KeySpec{Key(2, RW|Update)},
			Args: []Arg{keyArg("key"), stringArg("group"), groupStartArg, groupReadArg},
			Run:  runXGroupSetID,
		},
		{
			Name: "DESTROY", Group: StreamGroup, Since: "5.0.0",
			Summary:    "Removes a group with its consumers and what is pending at them.",
			Complexity: "O(N) in the entries that are pending.",
			Arity:      4, Flags: Write,
			Keys: []KeySpec{Key(2, RW|Delete)},
			Args: []Arg{keyArg("key"), stringArg("group")},
			Run:  runXGroupDestroy,
		},
		{
			Name: "CREATECONSUMER", Group: StreamGroup, Since: "6.2.0",
			Summary:    "Creates a consumer in a group.",
			Complexity: "O(1)",
			Arity:      5, Flags: Write | DenyOOM,
			Keys: []KeySpec{Key(2, RW|Insert)},
			Args: []Arg{keyArg("key"), stringArg("group"), stringArg("consumer")},
			Run:  runXGroupCreateConsumer,
		},
		{
			Name: "DELCONSUMER", Group: StreamGroup, Since: "5.0.0",
			Summary:    "Removes a consumer from a group and replies how many entries were pending at it.",
			Complexity: "O(N) in the entries that are pending at it.",
			Arity:      5, Flags: Write,
			Keys: []KeySpec{Key(2, RW|Delete)},
			Args: []Arg{keyArg("key"), stringArg("group"), stringArg("consumer")},
			Run:  runXGroupDelConsumer,
		},
		helpFor("XGROUP", StreamGroup, "5.0.0", Loading|Stale,
			"CREATE <key> <groupname> <id|$> [option]",
			"    Create a group that reads the entries behind the ID. Options are:",
			"    * MKSTREAM",
			"      Create an empty stream if the key does not exist.",
			"    * ENTRIESREAD entries_read",
			"      Set how many entries the group has read.",
			"CREATECONSUMER <key> <groupname> <consumer>",
			"    Create a consumer in the group.",
			"DELCONSUMER <key> <groupname> <consumer>",
			"    Remove the consumer, and reply how many entries were pending at it.",
			"DESTROY <key> <groupname>",
			"    Remove the group.",
			"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
			"    Have the group go on behind the ID."),
	},
}}

var (
	groupStartArg = oneOf("id-selector", stringArg("id"),
		Arg{Name: "new-id", Type: ArgToken, Token: "$"})
	groupReadArg = intArg("entries-read").after("ENTRIESREAD").opt()

	eventGroupCreate    = streamEvent("xgroup-create")
	eventGroupSetID     = streamEvent("xgroup-setid")
	eventGroupDestroy   = streamEvent("xgroup-destroy")
	eventCreateConsumer = streamEvent("xgroup-createconsumer")
	eventDelConsumer    = streamEvent("xgroup-delconsumer")
)

// The errors of groups.
const (
	errGroupNoKey Error = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."
	errGroupRead  Error = "ERR value for ENTRIESREAD must be positive or -1"
	errGroupBusy  Error = "BUSYGROUP Consumer Group name already exists"
)

// errNoGroup returns the error for a key that has no such group.
func errNoGroup(key, group []byte) Error {
	return Error("NOGROUP No such consumer group '" + string(upToNUL(group)) + "' for key name '" +
		string(upToNUL(key)) + "'")
}

// errNoKeyGroup returns the error for a key that is missing or has no such group.
func errNoKeyGroup(key, group []byte) Error {
	return Error("NOGROUP No such key '" + string(upToNUL(key)) + "' or consumer group '" +
		string(upToNUL(group)) + "'")
}

func errNoReadGroup(key, group []byte) Error {
	return errNoKeyGroup(key, group) + " in XREADGROUP with GROUP option"
}

// groupOptions are the options after the ID of XGROUP CREATE and SETID.
type groupOptions struct {
	makes bool  // MKSTREAM
	read  int64 // ENTRIESREAD; -1: not known
}

func parseGroup(c *Ctx, mayMake bool) (groupOptions, error) {
	o := groupOptions{read: -1}
	a := c.Cursor(5)
	for a.More() {
		switch {
		case mayMake && a.Word("MKSTREAM"):
			o.makes = true
		case a.Len() > 1 && a.Word("ENTRIESREAD"):
			if o.read = a.Int(); a.Err() == nil && o.read < -1 {
				a.Fail(errGroupRead)
			}
		default:
			a.Fail(errSubcommandArgs("XGROUP", c.Arg(1)))
		}
	}
	return o, a.Err()
}

// groupStream opens the stream of a subcommand. Without makes the stream must exist.
func (c *Ctx) groupStream(makes bool) (storage.Stream, error) {
	s, err := c.Txn.Stream(c.Keys[0])
	if err == nil && !makes && !s.Exists() {
		err = errGroupNoKey
	}
	return s, err
}

// namedGroup opens the stream of a subcommand for a group that must exist.
func (c *Ctx) namedGroup() (storage.Stream, *object.StreamGroup, error) {
	s, err := c.groupStream(false)
	if err != nil {
		return s, nil, err
	}
	g := s.Value().Group(c.Arg(3))
	if g == nil {
		err = errNoGroup(c.Arg(2), c.Arg(3))
	}
	return s, g, err
}

func runXGroupCreate(c *Ctx) error {
	o, err := parseGroup(c, true)
	if err != nil {
		return err
	}
	s, err := c.groupStream(o.makes)
	if err != nil {
		return err
	}
	if len(c.Args) > 8 {
		return errSubcommandArgs("XGROUP", c.Arg(1))
	}
	id := s.Value().LastID()
	if arg := c.Arg(4); string(upToNUL(arg)) != "$" {
		if id, err = streamID(arg); err != nil {
			return err
		}
	}
	if !s.Exists() {
		s.Create()
	}
	v, name := s.Value(), c.Arg(3)
	if v.Group(name) != nil {
		return errGroupBusy
	}
	s.CreateGroup(name, id, min(o.read, int64(v.Added())))
	c.Txn.Notify(c.Keys[0], eventGroupCreate)
	c.Out.OK()
	return nil
}

func runXGroupSetID(c *Ctx) error {
	o, err := parseGroup(c, false)
	if err != nil {
		return err
	}
	s, _, err := c.namedGroup()
	if err != nil {
		return err
	}
	if len(c.Args) != 5 && len(c.Args) != 7 {
		return errSubcommandArgs("XGROUP", c.Arg(1))
	}
	id := s.Value().LastID()
	if arg := c.Arg(4); string(upToNUL(arg)) != "$" {
		var open bool
		if id, open, err = streamBound(arg, 0); err != nil || open {
			return errStreamID
		}
	}
	s.SetGroup(c.Arg(3), id, min(o.read, int64(s.Value().Added())))
	c.Txn.Notify(c.Keys[0], eventGroupSetID)
	c.Out.OK()
	return nil
}

func runXGroupDestroy(c *Ctx) error {
	s, err := c.groupStream(false)
	if err != nil {
		return err
	}
	name := c.Arg(3)
	g := s.Value().Group(name)
	there := g != nil
	if there {
		if g.Pending()+g.Consumers() >= manyElements && c.mayOffload() {
			return errOffload
		}
		s.DestroyGroup(name)
		s.Signal() // those that wait for the group have an answer
		c.Txn.Notify(c.Keys[0], eventGroupDestroy)
	}
	c.bit(there)
	return nil
}

func runXGroupCreateConsumer(c *Ctx) error {
	s, _, err := c.namedGroup()
	if err == nil {
		c.bit(c.consumer(&s, c.Keys[0], c.Arg(3), c.Arg(4)))
	}
	return err
}

func runXGroupDelConsumer(c *Ctx) error {
	s, g, err := c.namedGroup()
	if err != nil {
		return err
	}
	n := 0
	if consumer := g.Consumer(c.Arg(4)); consumer != nil {
		if n = consumer.Pending(); n >= manyElements && c.mayOffload() {
			return errOffload
		}
		s.DeleteConsumer(c.Arg(3), c.Arg(4))
		c.Txn.Notify(c.Keys[0], eventDelConsumer)
	}
	c.Out.Int(int64(n))
	return nil
}
