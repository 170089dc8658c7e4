package commands

import (
	"bytes"
	"cmp"

	"keyp/internal/rdb"
)

const (
	errNoFunction     Error = "ERR Function not found"
	errNoLibrary      Error = "ERR Library not found"
	errFunctionKeys   Error = "ERR Bad number of keys provided"
	errLibraryArg     Error = "ERR library name argument was not given"
	errNoFunctionCode Error = "ERR Function code is missing"
	errFlushFunctions Error = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
	errRestorePolicy  Error = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
)

var functionCommands = []Spec{
	{
		Name: "FCALL", Group: Scripting, Since: "7.0.0",
		Summary:    "Calls a function.",
		Complexity: "Depends on the function that is executed.",
		Arity:      -3, Flags: evalFlags | MayReplicate, Scope: Global,
		Keys: evalKeys, Args: evalArgs("function"),
		Run: func(c *Ctx) error { return callFunction(c, false) },
	},
	{
		Name: "FCALL_RO", Group: Scripting, Since: "7.0.0",
		Summary:    "Calls a function that may not write.",
		Complexity: "Depends on the function that is executed.",
		Arity:      -3, Flags: evalFlags | ReadOnly, Scope: Global,
		Keys: evalROKeys, Args: evalArgs("function"),
		Run: func(c *Ctx) error { return callFunction(c, true) },
	},
	{
		Name: "FUNCTION", Group: Scripting, Since: "7.0.0",
		Summary: "Manages libraries of functions.", Complexity: "Depends on subcommand.", Arity: -2,
		Sub: functionSubcommands,
	},
}

var functionSubcommands = []Spec{
	{
		Name: "LOAD", Group: Scripting, Since: "7.0.0", Arity: -3,
		Flags: NoScript | Write | DenyOOM, Scope: Global,
		Summary:    "Loads a library and keeps it over restarts.",
		Complexity: "O(1) (considering compilation time is redundant)",
		Args:       []Arg{word("REPLACE").opt(), stringArg("function-code")},
		Tips:       []string{tipAllShards, tipAllSucceeded},
		Run:        functionLoad,
	},
	{
		Name: "DELETE", Group: Scripting, Since: "7.0.0", Arity: 3, Flags: NoScript | Write,
		Scope:   Global,
		Summary: "Deletes a library and its functions.", Complexity: "O(1)",
		Args: []Arg{stringArg("library-name")}, Tips: []string{tipAllShards, tipAllSucceeded},
		Run: functionDelete,
	},
	{
		Name: "LIST", Group: Scripting, Since: "7.0.0", Arity: -2, Flags: NoScript, Scope: OnLoop,
		Summary: "Lists the libraries.", Complexity: "O(N) where N is the number of functions",
		Args: []Arg{stringArg("library-name-pattern").after("LIBRARYNAME").opt(),
			word("WITHCODE").opt()}, Tips: []string{tipRandomOrder},
		Run: functionList,
	},
	{
		Name: "DUMP", Group: Scripting, Since: "7.0.0", Arity: 2, Flags: NoScript, Scope: OnLoop,
		Summary:    "Serializes all libraries for FUNCTION RESTORE, here or in Redis.",
		Complexity: "O(N) where N is the number of functions",
		Run:        functionDump,
	},
	{
		Name: "RESTORE", Group: Scripting, Since: "7.0.0", Arity: -3,
		Flags: NoScript | Write | DenyOOM, Scope: Global,
		Summary:    "Restores the libraries of a FUNCTION DUMP, from here or from Redis.",
		Complexity: "O(N) where N is the number of functions on the payload",
		Args: []Arg{stringArg("serialized-value"), oneOf("policy", word("FLUSH"), word("APPEND"),
			word("REPLACE")).opt()},
		Tips: []string{tipAllShards, tipAllSucceeded},
		Run:  functionRestore,
	},
	{
		Name: "FLUSH", Group: Scripting, Since: "7.0.0", Arity: -2, Flags: NoScript | Write,
		Scope:      Global,
		Summary:    "Deletes all libraries.",
		Complexity: "O(N) where N is the number of functions deleted",
		Args:       []Arg{oneOf("flush-type", word("ASYNC"), word("SYNC")).opt()},
		Tips:       []string{tipAllShards, tipAllSucceeded},
		Run:        functionFlush,
	},
	{
		Name: "STATS", Group: Scripting, Since: "7.0.0", Arity: 2, Flags: NoScript | AllowBusy,
		Scope:   OnLoop,
		Summary: "Reports the running function and the number of libraries.", Complexity: "O(1)",
		Tips: []string{tipRandom, tipAllShards, tipSpecialReply},
		Run:  functionStats,
	},
	{
		Name: "KILL", Group: Scripting, Since: "7.0.0", Arity: 2, Flags: NoScript | AllowBusy,
		Scope:   OnLoop,
		Summary: "Ends the running function if it has not written yet.", Complexity: "O(1)",
		Tips: []string{tipAllShards, "response_policy:one_succeeded"},
		Run:  func(c *Ctx) error { return killScript(c, true) },
	},
	helpFor("FUNCTION", Scripting, "7.0.0", Loading|Stale,
		"LOAD [REPLACE] <FUNCTION CODE>",
		"    Create a new library with the given library name and code.",
		"DELETE <LIBRARY NAME>", "    Delete the given library.",
		"LIST [LIBRARYNAME PATTERN] [WITHCODE]",
		"    Return general information on all the libraries.",
		"STATS", "    Return information about the current function running.",
		"KILL", "    Kill the current running function.",
		"FLUSH [ASYNC|SYNC]", "    Delete all the libraries.",
		"DUMP", "    Return a serialized payload representing the current libraries.",
		"RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
		"    Restore the libraries represented by the given payload."),
}

func callFunction(c *Ctx, ro bool) error {
	c.showMonitors()
	fn := c.Env.Scripts.functions.function(c.Args[1])
	if fn == nil {
		return errNoFunction
	}
	keys, err := numKeys(c, errFunctionKeys)
	if err != nil {
		return err
	}
	r, err := newScriptRun(c, fn.Name, keys, fn.flags, true, ro)
	if err != nil {
		return err
	}
	r.function = true
	r.run(errBusyFunction, func() {
		c.Env.Scripts.engine.Call(fn.library.loaded, fn.Function, &r.Run, c.Out)
	})
	return nil
}

// changeLibraries replaces the libraries, in the store and in memory. It returns errOOM if they do
// not fit into memory.
func changeLibraries(c *Ctx, next map[string]*library) error {
	functions := &c.Env.Scripts.functions
	more := -functions.totalBytes()
	for _, lib := range next {
		more += lib.bytes()
	}
	if more > 0 && !c.Env.programsFit(more) {
		return errOOM
	}
	for _, lib := range functions.list() {
		if next[lib.name] == nil {
			if err := c.forgetLibrary(lib); err != nil {
				return err
			}
		}
	}
	for name, lib := range next {
		if functions.library(name) != lib {
			if err := c.keepLibrary(lib); err != nil {
				return err
			}
		}
	}
	functions.set(next)
	return nil
}

func functionLoad(c *Ctx) error {
	a := c.Cursor(2)
	replace := false
	for a.Len() > 1 {
		if !a.Word("REPLACE") {
			return Error("ERR Unknown option given: " + clip(a.Bytes(), 128))
		}
		replace = true
	}
	source := a.Bytes()
	name, _, err := parseLibrary(string(source))
	if err != nil {
		return err
	}
	functions := &c.Env.Scripts.functions
	if functions.library(name) != nil && !replace {
		return Error("ERR Library '" + name + "' already exists")
	}
	lib, err := c.loadLibrary(string(source))
	if err != nil {
		return err
	}
	next, err := functions.with([]*library{lib}, replace)
	if err != nil {
		return err
	}
	if err := changeLibraries(c, next); err != nil {
		return err
	}
	c.Out.BulkString(lib.name)
	return nil
}

// loadLibrary loads a library from its source. A kill ends it with an error.
func (c *Ctx) loadLibrary(source string) (lib *library, err error) {
	r := newCompilation(c, true)
	killed := r.occupy(errBusyFunction, func() {
		lib, err = c.Env.Scripts.loadLibrary(source, &r.Run)
	})
	return lib, cmp.Or(err, killed)
}

func functionDelete(c *Ctx) error {
	functions := &c.Env.Scripts.functions
	name := string(c.Args[2])
	if functions.library(name) == nil {
		return errNoLibrary
	}
	next, err := functions.with(nil, false)
	if err != nil {
		return err
	}
	delete(next, name)
	if err := changeLibraries(c, next); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

func functionFlush(c *Ctx) error {
	if len(c.Args) > 3 {
		return errSubcommandArgs(c.Spec.parent.Name, c.Args[1])
	}
	if !flushMode(c) {
		return errFlushFunctions
	}
	_, gone, _ := c.Env.Scripts.functions.sizes()
	if err := changeLibraries(c, map[string]*library{}); err != nil {
		return err
	}
	if len(c.Args) == 3 && isWord(c.Args[2], "ASYNC") && gone >= lazyElements {
		c.Env.Stats.LazyFreed.Add(int64(gone) + 1) // and their interpreter
	}
	c.Out.OK()
	return nil
}

func functionList(c *Ctx) error {
	var pattern []byte
	named, code := false, false
	for a := c.Cursor(2); a.More(); {
		switch {
		case !code && a.Word("WITHCODE"):
			code = true
		case !named && a.Word("LIBRARYNAME"):
			if !a.More() {
				return errLibraryArg
			}
			named, pattern = true, bytes.ToLower(a.Bytes())
		default:
			return Error("ERR Unknown argument " + clip(a.Bytes(), 128))
		}
	}
	mark, n := c.Out.ArrayLater(), 0
	for _, lib := range c.Env.Scripts.functions.list() {
		if !named || c.matches(pattern, bytes.ToLower([]byte(lib.name))) {
			writeLibrary(c, lib, code)
			n++
		}
	}
	c.Out.SetLen(mark, n)
	c.shows()
	return nil
}

func writeLibrary(c *Ctx, lib *library, code bool) {
	out := c.Out
	fields := 3
	if code {
		fields++
	}
	out.Map(fields)
	out.BulkString("library_name")
	out.BulkString(lib.name)
	out.BulkString("engine")
	out.BulkString("LUA")
	out.BulkString("functions")
	out.Array(len(lib.loaded.Functions))
	for _, fn := range lib.loaded.Functions {
		out.Map(3)
		out.BulkString("name")
		out.BulkString(fn.Name)
		out.BulkString("description")
		if fn.Described {
			out.BulkString(fn.Description)
		} else {
			out.Null()
		}
		out.BulkString("flags")
		out.Set(len(fn.Flags))
		for _, flag := range fn.Flags {
			out.Simple(flag)
		}
	}
	if code {
		out.BulkString("library_code")
		out.BulkString(lib.source)
	}
}

func functionDump(c *Ctx) error {
	var sources []string
	for _, lib := range c.Env.Scripts.functions.list() {
		sources = append(sources, lib.source)
	}
	c.Out.Bulk(rdb.EncodeLibraries(sources))
	c.shows()
	return nil
}

func functionRestore(c *Ctx) error {
	if len(c.Args) > 4 {
		return errSubcommandArgs("FUNCTION", c.Args[1])
	}
	flush, replace := false, false
	if len(c.Args) == 4 {
		policy := c.Args[3]
		flush, replace = isWord(policy, "FLUSH"), isWord(policy, "REPLACE")
		if !flush && !replace && !isWord(policy, "APPEND") {
			return errRestorePolicy
		}
	}
	sources, problem, err := rdb.DecodeLibraries(c.Args[2])
	switch {
	case err != nil:
		return ErrPayload
	case problem != "":
		return Error("ERR " + problem)
	}
	var added []*library
	for _, source := range sources {
		lib, err := c.loadLibrary(source)
		if err != nil {
			return err
		}
		added = append(added, lib)
	}
	functions := &c.Env.Scripts.functions
	if flush {
		functions = &functionLibraries{}
	}
	next, err := functions.with(added, replace)
	if err != nil {
		return err
	}
	if err := changeLibraries(c, next); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

func functionStats(c *Ctx) error {
	r := c.Env.Scripts.current.Load()
	if r != nil && !r.function {
		return errBusyScript
	}
	out := c.Out
	out.Map(2)
	out.BulkString("running_script")
	if r == nil {
		out.Null()
	} else {
		out.Map(3)
		out.BulkString("name")
		out.BulkString(r.Name)
		out.BulkString("command")
		out.Array(len(r.command))
		for _, arg := range r.command {
			out.Bulk(arg)
		}
		out.BulkString("duration_ms")
		out.Int((c.Env.Clock.Mono() - r.began).Milliseconds())
	}
	libraries, functions, _ := c.Env.Scripts.functions.sizes()
	out.BulkString("engines")
	out.Map(1)
	out.BulkString("LUA")
	out.Map(2)
	out.BulkString("libraries_count")
	out.Int(int64(libraries))
	out.BulkString("functions_count")
	out.Int(int64(functions))
	return nil
}
