package commands

import (
	"bytes"
	"slices"
	"strings"
)

// The errors of COMMAND.
const (
	errBadCommand Error = "ERR Invalid command specified"
	errBadCount   Error = "ERR Invalid number of arguments specified for command"
	errBadArgs    Error = "ERR Invalid arguments specified for command"
	errNoKeyArgs  Error = "ERR The command has no key arguments"
)

var commandCommands = []Spec{{
	Name: "COMMAND", Group: ServerGroup, Since: "2.8.13", Arity: -1, Flags: Loading | Stale,
	Scope:   OnLoop,
	Summary: "Describes all commands.", Complexity: "O(N) where N is the total number of commands",
	Categories: []string{"@connection"},
	Tips:       []string{tipRandomOrder},
	Run:        func(c *Ctx) error { c.describeAll(); return nil },
	Sub: []Spec{
		{
			Name: "COUNT", Group: ServerGroup, Since: "2.8.13", Arity: 2, Flags: Loading | Stale,
			Scope:   OnLoop,
			Summary: "Counts the commands.", Complexity: "O(1)",
			Run: func(c *Ctx) error { c.Out.Int(int64(len(c.Env.Table.All()))); return nil },
		},
		{
			Name: "INFO", Group: ServerGroup, Since: "2.8.13", Arity: -2, Flags: Loading | Stale,
			Scope:      OnLoop,
			Summary:    "Describes commands.",
			Complexity: "O(N) where N is the number of commands to look up",
			History: [][2]string{{"7.0.0",
				"Allowed to be called with no argument to get info on all commands."}},
			Args: []Arg{stringArg("command-name").opt().many()},
			Tips: []string{tipRandomOrder},
			Run:  commandInfo,
		},
		{
			Name: "DOCS", Group: ServerGroup, Since: "7.0.0", Arity: -2, Flags: Loading | Stale,
			Scope:      OnLoop,
			Summary:    "Gives the documentation of commands.",
			Complexity: "O(N) where N is the number of commands to look up",
			Args:       []Arg{stringArg("command-name").opt().many()},
			Tips:       []string{tipRandomOrder},
			Run:        commandDocs,
		},
		{
			Name: "LIST", Group: ServerGroup, Since: "7.0.0", Arity: -2, Flags: Loading | Stale,
			Scope:      OnLoop,
			Summary:    "Lists the names of commands.",
			Complexity: "O(N) where N is the total number of commands",
			Args: []Arg{oneOf("filterby",
				stringArg("module-name").after("MODULE"), stringArg("category").after("ACLCAT"),
				patternArg("pattern").after("PATTERN"),
			).after("FILTERBY").opt()},
			Tips: []string{tipRandomOrder},
			Run:  commandList,
		},
		{
			Name: "GETKEYS", Group: ServerGroup, Since: "2.8.13", Arity: -3, Flags: Loading | Stale,
			Scope:      OnLoop,
			Summary:    "Finds the keys in a command.",
			Complexity: "O(N) where N is the number of arguments to the command",
			Args:       []Arg{stringArg("command"), stringArg("arg").opt().many()},
			Run:        func(c *Ctx) error { return commandGetKeys(c, false) },
		},
		{
			Name: "GETKEYSANDFLAGS", Group: ServerGroup, Since: "7.0.0", Arity: -3,
			Flags: Loading | Stale, Scope: OnLoop,
			Summary:    "Finds the keys in a command, and what it does with them.",
			Complexity: "O(N) where N is the number of arguments to the command",
			Args:       []Arg{stringArg("command"), stringArg("arg").opt().many()},
			Run:        func(c *Ctx) error { return commandGetKeys(c, true) },
		},
		helpFor("COMMAND", ServerGroup, "5.0.0", Loading|Stale,
			"(no subcommand)", "    Descriptions of all commands.",
			"COUNT", "    How many commands there are.",
			"DOCS [<command-name> ...]", "    Documentation of these commands (default: of all).",
			"GETKEYS <full-command>", "    The keys in a command.",
			"GETKEYSANDFLAGS <full-command>",
			"    The keys in a command, and what it does with them.",
			"INFO [<command-name> ...]", "    Descriptions of these commands (default: of all).",
			"LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
			"    The names of commands."),
	},
}}

func (c *Ctx) describeAll() {
	all := c.Env.Table.All()
	c.Out.Array(len(all))
	for _, spec := range all {
		c.describe(spec)
	}
}

// commandInfo replies with null for a name that is no command. The name of a subcommand is like
// "config|get".
func commandInfo(c *Ctx) error {
	if len(c.Args) == 2 {
		c.describeAll()
		return nil
	}
	c.Out.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		if spec := c.Env.Table.byFullName(name); spec != nil {
			c.describe(spec)
		} else {
			c.Out.Null()
		}
	}
	return nil
}

// byFullName returns the command with a name like "get" or "config|get", in any case; nil if there
// is none.
func (t *Table) byFullName(name []byte) *Spec {
	spec := t.Of(bytes.SplitN(name, []byte("|"), 2))
	if spec != nil && spec.parent == nil && bytes.IndexByte(name, '|') >= 0 {
		return nil
	}
	return spec
}

// describe writes a command as an element of the reply of COMMAND.
func (c *Ctx) describe(spec *Spec) {
	first, last, step := spec.keyRange()
	c.Out.Array(10)
	c.Out.BulkString(spec.full)
	c.Out.Int(int64(spec.Arity))
	c.statuses(spec.flagNames())
	c.Out.Int(int64(first))
	c.Out.Int(int64(last))
	c.Out.Int(int64(step))
	c.statuses(spec.categories())
	c.Out.Set(len(spec.Tips))
	c.bulkStrings(spec.Tips)
	keys := spec.shownKeys()
	c.Out.Set(len(keys))
	for _, ks := range keys {
		c.describeKeys(ks)
	}
	c.Out.Set(len(spec.Sub))
	for i := range spec.Sub {
		c.describe(&spec.Sub[i])
	}
}

// shownKeys returns the key specifications that COMMAND shows. A command like MOVE declares the
// same arguments twice, the second time in another database. The second specification is only for
// the locks, so shownKeys omits it.
func (s *Spec) shownKeys() []*KeySpec {
	var list []*KeySpec
	for i := range s.Keys {
		ks := &s.Keys[i]
		if ks.DB == nil || !slices.ContainsFunc(list, func(other *KeySpec) bool {
			return other.Begin == ks.Begin && other.Last == ks.Last
		}) {
			list = append(list, ks)
		}
	}
	return list
}

// statuses writes a set of status replies.
func (c *Ctx) statuses(words []string) {
	c.Out.Set(len(words))
	for _, word := range words {
		c.Out.Simple(word)
	}
}

func (c *Ctx) describeKeys(ks *KeySpec) {
	c.Out.Map(3)
	c.Out.BulkString("flags")
	c.statuses(ks.Flags.names())
	if ks.Find != nil && ks.Word == "" && ks.Begin == 0 {
		for _, part := range []string{"begin_search", "find_keys"} {
			c.Out.BulkString(part)
			c.Out.Map(2)
			c.textField("type", "unknown")
			c.Out.BulkString("spec")
			c.Out.Map(0)
		}
		return
	}
	c.Out.BulkString("begin_search")
	c.Out.Map(2)
	if ks.Word == "" {
		c.textField("type", "index")
		c.Out.BulkString("spec")
		c.Out.Map(1)
		c.intField("index", int64(ks.Begin))
	} else {
		c.textField("type", "keyword")
		c.Out.BulkString("spec")
		c.Out.Map(2)
		c.textField("keyword", ks.Word)
		c.intField("startfrom", int64(ks.Begin))
	}
	c.Out.BulkString("find_keys")
	c.Out.Map(2)
	c.Out.BulkString("type")
	find := []struct {
		name  string
		value int
	}{{"lastkey", ks.Last}, {"keystep", max(ks.Step, 1)}, {"limit", ks.Limit}}
	kind := "range"
	if ks.Num {
		kind = "keynum"
		find[0].name, find[0].value = "keynumidx", 0
		find[1].name, find[1].value = "firstkey", 1
		find[2].name, find[2].value = "keystep", max(ks.Step, 1)
	}
	c.Out.BulkString(kind)
	c.Out.BulkString("spec")
	c.Out.Map(len(find))
	for _, f := range find {
		c.intField(f.name, int64(f.value))
	}
}

// keyRange returns the positions of keys in COMMAND's older form: the first key, the last (if
// negative, counted from the end), and the step between keys. Several specifications count as one
// range if each begins directly after the one before. The older form cannot describe keys that
// follow their number.
func (s *Spec) keyRange() (first, last, step int) {
	for _, ks := range s.shownKeys() {
		if ks.Num || ks.Find != nil && (ks.Word != "" || ks.Begin == 0) {
			continue
		}
		end := ks.Begin + ks.Last
		if ks.Last < 0 {
			end = ks.Last
		}
		switch {
		case first == 0:
			first, last, step = ks.Begin, end, max(ks.Step, 1)
		case ks.Begin == last+1 && step == max(ks.Step, 1):
			last = end
		}
	}
	return first, last, step
}

// commandGetKeys replies with the keys of a command. It finds them by the command's declaration, as
// the code that locks keys does.
func commandGetKeys(c *Ctx, withFlags bool) error {
	args := c.Args[2:]
	spec := c.Env.Table.Of(args)
	if spec == nil {
		return errBadCommand
	}
	if len(spec.Keys) == 0 {
		return errNoKeyArgs
	}
	if !spec.takes(len(args)) {
		return errBadCount
	}
	start := c.Out.Len()
	mark, n := c.Out.ArrayLater(), 0
	for _, ks := range spec.named {
		first, last, step := ks.span(args)
		if !ks.counts(args) || ks.Num && last < first {
			if !spec.Is(NoMandatoryKeys) {
				return errBadArgs
			}
			c.Out.Truncate(start)
			c.Out.Array(0)
			return nil
		}
		for at := first; at <= last; at += step {
			n++
			if withFlags {
				c.Out.Array(2)
			}
			c.Out.Bulk(args[at])
			if withFlags {
				c.statuses(ks.flags(args).names())
			}
		}
	}
	if n == 0 && !spec.Is(NoMandatoryKeys) {
		return errBadArgs
	}
	c.Out.SetLen(mark, n)
	return nil
}

// NamedKey is a key that a call names.
type NamedKey struct {
	DB   int
	Name []byte
}

// KeysOf returns the keys that a call in the database db names. ok is false if args are no valid
// call of the command.
func (s *Spec) KeysOf(args [][]byte, db int) (keys []NamedKey, ok bool) {
	if !s.takes(len(args)) {
		return nil, false
	}
	for i := range s.Keys {
		ks := &s.Keys[i]
		if ks.Flags&NotKey != 0 {
			continue
		}
		of := db
		if ks.DB != nil {
			if of, ok = ks.DB(args, db); !ok {
				return nil, false
			}
		}
		if !ks.counts(args) {
			return nil, false
		}
		first, last, step := ks.span(args)
		for at := first; at <= last; at += step {
			keys = append(keys, NamedKey{of, args[at]})
		}
	}
	return keys, true
}

// commandList replies with the names of the commands and subcommands that pass the filter.
func commandList(c *Ctx) error {
	keep := func(*Spec) bool { return true }
	if len(c.Args) > 2 {
		if len(c.Args) != 5 || !isWord(c.Arg(2), "FILTERBY") {
			return ErrSyntax
		}
		value := []byte(strings.ToLower(string(c.Arg(4))))
		switch kind := c.Arg(3); {
		case isWord(kind, "MODULE"):
			keep = func(*Spec) bool { return false } // there are no modules
		case isWord(kind, "ACLCAT"):
			keep = func(spec *Spec) bool {
				return slices.Contains(spec.categories(), "@"+string(value))
			}
		case isWord(kind, "PATTERN"):
			keep = func(spec *Spec) bool { return c.matches(value, []byte(spec.full)) }
		default:
			return ErrSyntax
		}
	}
	c.listCommands(keep)
	return nil
}

// listCommands writes the names of the commands and subcommands to keep.
func (c *Ctx) listCommands(keep func(*Spec) bool) {
	mark, n := c.Out.ArrayLater(), 0
	for _, spec := range c.Env.Table.All() {
		if keep(spec) {
			n++
			c.Out.BulkString(spec.full)
		}
		for i := range spec.Sub {
			if sub := &spec.Sub[i]; keep(sub) {
				n++
				c.Out.BulkString(sub.full)
			}
		}
	}
	c.Out.SetLen(mark, n)
}
