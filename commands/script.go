package commands

import (
	"cmp"
	"crypto/sha1"

	"keyp/scripting"
)

// This file contains the commands for Lua scripts: EVAL and its variants, and SCRIPT.

const evalFlags = NoScript | Stale | SkipMonitor | NoMandatoryKeys

var (
	evalArgs = func(script string) []Arg {
		return []Arg{stringArg(script), intArg("numkeys"), keyArg("key").opt().many(),
			stringArg("arg").opt().many()}
	}
	evalKeys   = []KeySpec{NumKeys(2, RW|Access|Update)}
	evalROKeys = []KeySpec{NumKeys(2, RO|Access)}
)

var scriptCommands = []Spec{
	{
		Name: "EVAL", Group: Scripting, Since: "2.6.0",
		Summary:    "Runs a Lua script.",
		Complexity: "Depends on the script that is executed.",
		Arity:      -3, Flags: evalFlags | MayReplicate, Scope: Global,
		Keys: evalKeys, Args: evalArgs("script"),
		Run: func(c *Ctx) error { return eval(c, false) },
	},
	{
		Name: "EVALSHA", Group: Scripting, Since: "2.6.0",
		Summary:    "Runs a cached Lua script by its SHA1 digest.",
		Complexity: "Depends on the script that is executed.",
		Arity:      -3, Flags: evalFlags | MayReplicate, Scope: Global,
		Keys: evalKeys, Args: evalArgs("sha1"),
		Run: func(c *Ctx) error { return evalSHA(c, false) },
	},
	{
		Name: "EVAL_RO", Group: Scripting, Since: "7.0.0",
		Summary:    "Runs a Lua script that may not write.",
		Complexity: "Depends on the script that is executed.",
		Arity:      -3, Flags: evalFlags | ReadOnly, Scope: Global,
		Keys: evalROKeys, Args: evalArgs("script"),
		Run: func(c *Ctx) error { return eval(c, true) },
	},
	{
		Name: "EVALSHA_RO", Group: Scripting, Since: "7.0.0",
		Summary:    "Runs a cached Lua script that may not write, by its SHA1 digest.",
		Complexity: "Depends on the script that is executed.",
		Arity:      -3, Flags: evalFlags | ReadOnly, Scope: Global,
		Keys: evalROKeys, Args: evalArgs("sha1"),
		Run: func(c *Ctx) error { return evalSHA(c, true) },
	},
	{
		Name: "SCRIPT", Group: Scripting, Since: "2.6.0",
		Summary: "Manages the script cache.", Complexity: "Depends on subcommand.", Arity: -2,
		Sub: []Spec{
			{
				// A task, since compiling may take long.
				Name: "LOAD", Group: Scripting, Since: "2.6.0", Arity: 3, Flags: NoScript | Stale,
				Scope:      Global,
				Summary:    "Compiles a script and caches it for EVALSHA.",
				Complexity: "O(N) with N being the length in bytes of the script body.",
				Args:       []Arg{stringArg("script")},
				Tips:       []string{tipAllNodes, tipAllSucceeded},
				Run:        scriptLoad,
			},
			{
				Name: "EXISTS", Group: Scripting, Since: "2.6.0", Arity: -3,
				Flags: NoScript, Scope: OnLoop,
				Summary:    "Reports which scripts are cached.",
				Complexity: "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
				Args:       []Arg{stringArg("sha1").many()},
				Tips:       []string{tipAllShards, "response_policy:agg_logical_and"},
				Run:        scriptExists,
			},
			{
				Name: "FLUSH", Group: Scripting, Since: "2.6.0", Arity: -2,
				Flags: NoScript, Scope: OnLoop,
				Summary:    "Empties the script cache.",
				Complexity: "O(N) with N being the number of scripts in cache",
				History: [][2]string{{"6.2.0",
					"Added the `ASYNC` and `SYNC` flushing mode modifiers."}},
				Args: flushModeArgs, Tips: []string{tipAllNodes, tipAllSucceeded},
				Run: scriptFlush,
			},
			{
				Name: "KILL", Group: Scripting, Since: "2.6.0", Arity: 2,
				Flags: NoScript | AllowBusy, Scope: OnLoop,
				Summary: "Ends the running script if it has not written yet.", Complexity: "O(1)",
				Tips: []string{tipAllShards, "response_policy:one_succeeded"},
				Run:  func(c *Ctx) error { return killScript(c, false) },
			},
			{
				Name: "DEBUG", Group: Scripting, Since: "3.2.0", Arity: 3,
				Flags: NoScript, Scope: OnLoop,
				Summary:    "Sets the debug mode of scripts; only NO is supported.",
				Complexity: "O(1)",
				Args:       []Arg{oneOf("mode", word("YES"), word("SYNC"), word("NO"))},
				Run:        scriptDebug,
			},
			helpFor("SCRIPT", Scripting, "5.0.0", Loading|Stale,
				"DEBUG (YES|SYNC|NO)", "    Set the debug mode for subsequent scripts executed.",
				"EXISTS <sha1> [<sha1> ...]",
				"    Return information about the existence of the scripts in the script cache.",
				"FLUSH [ASYNC|SYNC]",
				"    Flush the Lua scripts cache. Very dangerous on replicas.",
				"KILL", "    Kill the currently executing Lua script.",
				"LOAD <script>", "    Load a script into the scripts cache without executing it."),
		},
	},
}

var flushModeArgs = []Arg{oneOf("flush-type", word("ASYNC"), word("SYNC")).opt().since("6.2.0")}

func eval(c *Ctx, ro bool) error {
	c.showMonitors()
	keys, err := numKeys(c, ErrNotInteger)
	if err != nil {
		return err
	}
	script, err := c.script(c.Args[1], false)
	if err != nil {
		return err
	}
	return runScript(c, script, keys, ro)
}

func evalSHA(c *Ctx, ro bool) error {
	c.showMonitors()
	if len(c.Args[1]) != 2*sha1.Size {
		return errNoScript
	}
	keys, err := numKeys(c, ErrNotInteger)
	if err != nil {
		return err
	}
	script := c.Env.Scripts.find(c.Args[1])
	if script == nil {
		return errNoScript
	}
	return runScript(c, script, keys, ro)
}

func runScript(c *Ctx, script *script, keys int, ro bool) error {
	r, err := newScriptRun(c, script.sha, keys, script.flags, script.strict, ro)
	if err != nil {
		return err
	}
	r.run(errBusyScript, func() { c.Env.Scripts.engine.Eval(script.compiled, &r.Run, c.Out) })
	return nil
}

// script returns the script of a source, and compiles it if it is new. With loaded it is kept until
// SCRIPT FLUSH.
func (c *Ctx) script(source []byte, loaded bool) (found *script, err error) {
	s := &c.Env.Scripts
	sha := scriptDigest(source)
	if found = s.find(sha[:]); found == nil {
		r := newCompilation(c, false)
		killed := r.occupy(errBusyScript, func() {
			found, err = s.compile(string(sha[:]), string(source), &r.Run)
		})
		err = cmp.Or(err, killed)
	}
	switch {
	case err != nil:
		return nil, err
	case loaded && !s.isLoaded(found) && !c.Env.programsFit(found.bytes()):
		return nil, errOOM
	}
	s.keep(found, loaded)
	return found, nil
}

func scriptLoad(c *Ctx) error {
	script, err := c.script(c.Args[2], true)
	if err != nil {
		return err
	}
	c.Out.BulkString(script.sha)
	return nil
}

func scriptExists(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	for _, sha := range c.Args[2:] {
		known := int64(0)
		if c.Env.Scripts.find(sha) != nil {
			known = 1
		}
		c.Out.Int(known)
	}
	return nil
}

func scriptFlush(c *Ctx) error {
	if !flushMode(c) {
		return Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	c.Env.Scripts.flush()
	c.Out.OK()
	return nil
}

// flushMode accepts SYNC, ASYNC or nothing after a subcommand; they mean the same.
func flushMode(c *Ctx) bool {
	switch len(c.Args) {
	case 2:
		return true
	case 3:
		return isWord(c.Args[2], "SYNC") || isWord(c.Args[2], "ASYNC")
	}
	return false
}

func scriptDebug(c *Ctx) error {
	switch mode := c.Args[2]; {
	case isWord(mode, "NO"):
		c.Out.OK()
		return nil
	case isWord(mode, "YES"), isWord(mode, "SYNC"):
		return Error("ERR scripts cannot be debugged here")
	}
	return Error("ERR Use SCRIPT DEBUG YES/SYNC/NO")
}

// newEngine returns the interpreter of a server's scripts.
func (e *Env) newEngine() *scripting.Engine {
	return scripting.New(scripting.Options{Version: RedisVersion, Log: e.Log, CPU: e.Clock.Mono})
}
