package commands

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"keyp/features/outbox"
	"keyp/internal/rdb"
	"keyp/storage"
	"keyp/storage/object"
)

const (
	errOutboxName     Error = "ERR an outbox's name has 1 to 128 bytes, in UTF-8 and without control characters"
	errOutboxPattern  Error = "ERR an outbox's pattern has 1 to 512 bytes"
	errOutboxNeeds    Error = "ERR an outbox needs PATTERN and STREAM"
	errOutboxElements Error = "ERR with ELEMENTS, TYPE is hash, set, zset, stream or limit: elements of other types have no deadlines"
	errOutboxLength   Error = "ERR MAXLEN is 1 or more"
	errOutboxValue    Error = "ERR VALUE is between 0 and 1048576 bytes"
	errOutboxes       Error = "ERR there are as many outboxes as there can be"
	errOutboxWaiting  Error = "ERR many entries of the outbox wait to be written to its stream: try again later"
	errOutboxRights   Error = "NOPERM an outbox needs the right to read the keys of its pattern"
	errOutboxOthers   Error = "NOPERM the outbox of that name needs the right to read the keys of its pattern, and to write its stream"
	errNoOutbox       Error = "ERR no such outbox"
)

const (
	outboxesMax    = 1000
	outboxValueMax = 1 << 20
)

// keypOutboxCommands manage the rules by which expiries are reported in streams
// (features/outbox).
var keypOutboxCommands = []Spec{{
	Name: "KEYP.OUTBOX", Group: KeypGroup, Since: "0.1.0", Arity: -2,
	Summary:    "Manages rules that report in a stream what expires.",
	Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "SET", Group: KeypGroup, Since: "0.1.0", Arity: -3,
			Flags: Write | Admin | DenyOOM, Scope: Global,
			Summary:    "Makes an outbox, or replaces the one of that name.",
			Complexity: "O(N) in the number of outboxes.",
			Keys: []KeySpec{{Flags: RW | Update, Begin: 3, Find: outboxStream,
				Word: "STREAM", DB: outboxDB}},
			Args: []Arg{
				stringArg("name"), patternArg("pattern").after("PATTERN"),
				intArg("db").after("DB").opt(),
				stringArg("type").after("TYPE").opt(), word("ELEMENTS").opt(),
				keyArg("key").after("STREAM"),
				intArg("length").after("MAXLEN").opt(), intArg("bytes").after("VALUE").opt(),
			},
			Run: setOutbox,
		},
		{
			Name: "GET", Group: KeypGroup, Since: "0.1.0", Arity: 3, Scope: OnLoop,
			Summary:    "Shows an outbox, and how many entries were written, wait or were lost.",
			Complexity: "O(N) in the number of outboxes.",
			Args:       []Arg{stringArg("name")},
			Run: func(c *Ctx) error {
				if r, ok := c.Env.outbox(c.Arg(2)); ok && c.takesRule(r.Pattern, mayRead, nil) {
					replyOutbox(c, &r)
				} else {
					c.Out.Null()
				}
				return nil
			},
		},
		{
			Name: "DEL", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: Write | Admin,
			Scope:      Global,
			Summary:    "Deletes an outbox; its stream stays.",
			Complexity: "O(N) in the number of its entries that wait.",
			Args:       []Arg{stringArg("name")},
			Run:        deleteOutbox,
		},
		{
			Name: "LIST", Group: KeypGroup, Since: "0.1.0", Arity: 2, Scope: OnLoop,
			Summary:    "Shows all outboxes, by name, whose pattern the user may read.",
			Complexity: "O(N) in the number of outboxes.",
			Run: func(c *Ctx) error {
				list := slices.DeleteFunc(c.Env.Outboxes.List(), func(r outbox.State) bool {
					return !c.takesRule(r.Pattern, mayRead, nil)
				})
				c.Out.Array(len(list))
				for i := range list {
					replyOutbox(c, &list[i])
				}
				return nil
			},
		},
		{
			Name: "STREAMS", Group: KeypGroup, Since: "0.1.0", Arity: 3, Scope: OnLoop,
			Summary:    "Lists the keys of the streams that an outbox writes.",
			Complexity: "O(N) in the number of outboxes.",
			Args:       []Arg{stringArg("name")},
			Run: func(c *Ctx) error {
				r, ok := c.Env.outbox(c.Arg(2))
				if !ok || !c.takesRule(r.Pattern, mayRead, nil) {
					return errNoOutbox
				}
				c.Out.Array(1)
				c.Out.Bulk(r.Stream)
				return nil
			},
		},
		helpFor("KEYP.OUTBOX", KeypGroup, "0.1.0", Loading|Stale,
			"SET <name> PATTERN <pattern> [DB <n>] [TYPE <type>] [ELEMENTS] STREAM <key> [MAXLEN <n>] [VALUE <max-bytes>]",
			"    Make or replace an outbox: each key of the pattern that expires has an entry in the stream.",
			"GET <name>", "    Show an outbox, and what became of its entries.",
			"DEL <name>", "    Delete an outbox; its stream stays.",
			"LIST", "    Show all outboxes, by name.",
			"STREAMS <name>", "    List the keys of the streams that an outbox writes."),
	},
}}

// outboxOptions are the options with an argument.
var outboxOptions = []string{"PATTERN", "DB", "TYPE", "STREAM", "MAXLEN", "VALUE"}

// outboxOption returns the index of the argument of the last option of that name. It returns false
// if there is none.
func outboxOption(args [][]byte, option string) (at int, ok bool) {
	for i := 3; i+1 < len(args); i++ {
		if isWord(args[i], option) {
			at, ok = i+1, true
		}
		if slices.ContainsFunc(outboxOptions, func(word string) bool {
			return isWord(args[i], word)
		}) {
			i++
		}
	}
	return at, ok
}

// outboxStream finds the key after STREAM.
func outboxStream(args [][]byte) (first, last int) {
	if at, ok := outboxOption(args, "STREAM"); ok {
		return at, at
	}
	return noArgument(nil)
}

// outboxDB returns the database of the rule and its stream. It returns false if the argument of DB
// is invalid.
func outboxDB(args [][]byte, current int) (int, bool) {
	if at, ok := outboxOption(args, "DB"); ok {
		return parseDB(args[at])
	}
	return current, true
}

// parseOutbox parses the arguments of KEYP.OUTBOX SET from the name on. db is the client's
// database.
func (e *Env) parseOutbox(c Cursor, db int) (*outbox.Rule, error) {
	a := options{Cursor: c}
	r := &outbox.Rule{DB: db}
	r.Name = string(a.Bytes())
	for a.More() {
		switch {
		case a.option("PATTERN", 1):
			r.Pattern = bytes.Clone(a.Bytes())
		case a.option("DB", 1):
			r.DB = a.database(e)
		case a.option("TYPE", 1):
			r.Type = a.typeName()
		case a.option("ELEMENTS", 0):
			r.Elements = true
		case a.option("STREAM", 1):
			r.Stream = bytes.Clone(a.Bytes())
		case a.option("MAXLEN", 1):
			r.MaxLen = a.IntFrom(1, errOutboxLength)
		case a.option("VALUE", 1):
			n := a.IntFrom(0, errOutboxValue)
			if n > outboxValueMax {
				a.Fail(errOutboxValue)
			}
			r.MaxValue = int(n)
		default:
			a.end()
		}
	}
	switch err := a.Err(); {
	case err != nil:
		return nil, err
	case r.Name == "" || len(r.Name) > policyNameMax || !utf8.ValidString(r.Name) ||
		strings.ContainsFunc(r.Name, unicode.IsControl):
		return nil, errOutboxName // metrics have it as a label, and errors in their line
	case r.Pattern == nil || r.Stream == nil:
		return nil, errOutboxNeeds
	case len(r.Pattern) == 0 || len(r.Pattern) > policyPatternMax:
		return nil, errOutboxPattern
	case r.Elements && r.Type != object.None && r.Type != object.TypeStream &&
		!object.HasDeadlines(r.Type):
		return nil, errOutboxElements
	}
	return r, nil
}

func setOutbox(c *Ctx) error {
	r, err := c.Env.parseOutbox(c.Cursor(2), c.Client.DB)
	if err != nil {
		return err
	}
	if !c.takesRule(r.Pattern, mayRead, r.Stream) {
		return errOutboxRights
	}
	if !c.maySelect(r.DB) {
		return errRuleDatabase
	}
	switch old, ok := c.Env.outbox(c.Arg(2)); {
	case ok && !c.takesRule(old.Pattern, mayRead, old.Stream):
		return errOutboxOthers // what waits of it would go where the user can read it
	case !ok && len(c.Env.Outboxes.List()) >= outboxesMax:
		return errOutboxes
	}
	c.Txn.UseAll() // nothing may be removed by the rules before, and logged behind this one
	if err := c.Env.Outboxes.Set(c.Txn, r); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

func deleteOutbox(c *Ctx) error {
	r, ok := c.Env.outbox(c.Arg(2))
	if !ok {
		c.Out.Int(0)
		return nil
	}
	if !c.takesRule(r.Pattern, mayRead, r.Stream) {
		return errOutboxOthers
	}
	c.Txn.UseAll()
	there, err := c.Env.Outboxes.Delete(c.Txn, string(c.Arg(2)))
	if errors.Is(err, outbox.ErrWaiting) {
		return errOutboxWaiting
	}
	if err != nil {
		return err
	}
	c.bit(there)
	return nil
}

// outbox returns the rule with a name. It returns false if there is none.
func (e *Env) outbox(name []byte) (outbox.State, bool) {
	for _, r := range e.Outboxes.List() {
		if r.Name == string(name) {
			return r, true
		}
	}
	return outbox.State{}, false
}

// replyOutbox replies with a map of a rule and its state. Counters count since the start.
func replyOutbox(c *Ctx, r *outbox.State) {
	typ := "any"
	if r.Type != object.None {
		typ = r.Type.String()
	}
	c.Out.Map(14)
	c.textField("name", r.Name)
	c.textField("pattern", string(r.Pattern))
	c.intField("db", int64(r.DB))
	c.textField("type", typ)
	c.Out.BulkString("elements")
	c.bit(r.Elements)
	c.textField("stream", string(r.Stream))
	c.intField("maxlen", r.MaxLen)
	c.intField("value", int64(r.MaxValue))
	c.intField("written", r.Written)
	c.intField("waiting", r.Waiting)
	c.intField("oldest", r.Oldest)
	c.intField("lost", r.Lost)
	c.Out.BulkString("full")
	c.bit(r.Full)
	c.textField("error", r.Failure)
}

// outboxRefuses returns an error for a command that may grow a key of an outbox in which too many
// entries wait. KEYP.OUTBOX SET is always allowed: it grows no key, and may solve the problem.
func (e *Env) outboxRefuses(spec *Spec, args [][]byte, db int) (err error) {
	if !spec.Is(DenyOOM) || spec.full == "keyp.outbox|set" {
		return nil
	}
	for _, k := range e.keys(spec, args, db, nil) {
		if rule, full := e.Outboxes.Full(k); full {
			return Error("OUTBOX too many entries of the outbox '" + rule +
				"' wait to be written to its stream. Commands that may grow keys of its pattern are refused until they are written.")
		}
	}
	return nil
}

// outboxRefusesCall is outboxRefuses for a client's command. For EXEC it checks the queued
// commands.
func (e *Env) outboxRefusesCall(c *Ctx) (err error) {
	switch {
	case c.Client.queue == nil:
		return e.outboxRefuses(c.Spec, c.Args, c.Client.DB)
	case !c.Spec.Is(execs):
		return nil
	}
	e.eachQueued(c, func(spec *Spec, args [][]byte, db int) {
		if err == nil {
			err = e.outboxRefuses(spec, args, db)
		}
	})
	return err
}

// dump returns DUMP's reply for a value, or nil if the value cannot be dumped.
func dump(item storage.Item) []byte {
	v, err := dumped(item)
	if err != nil {
		return nil
	}
	return rdb.Encode(v)
}
