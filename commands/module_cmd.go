package commands

// Modules are libraries in C. A server in Go cannot load them, so it has none.

const (
	errLoadModule   Error = "ERR Error loading the extension. Please check the server logs."
	errUnloadModule Error = "ERR Error unloading module: no such module with that name"
)

const moduleFlags = Admin | NoScript

var moduleCommands = []Spec{{
	Name: "MODULE", Group: ServerGroup, Since: "4.0.0", Arity: -2,
	Summary: "Is about modules; there are none.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "LIST", Group: ServerGroup, Since: "4.0.0", Arity: 2, Flags: moduleFlags,
			Scope:   OnLoop,
			Summary: "Lists the modules: none.", Complexity: "O(1)",
			Tips: []string{tipRandomOrder},
			Run:  func(c *Ctx) error { c.Out.Array(0); return nil },
		},
		{
			Name: "LOAD", Group: ServerGroup, Since: "4.0.0", Arity: -3,
			Flags: moduleFlags | NoAsyncLoading, Scope: OnLoop,
			Summary: "Fails: modules can't be loaded.", Complexity: "O(1)",
			Args: []Arg{stringArg("path"), stringArg("arg").opt().many()},
			Run:  loadModule,
		},
		{
			Name: "LOADEX", Group: ServerGroup, Since: "7.0.0", Arity: -3,
			Flags: moduleFlags | NoAsyncLoading, Scope: OnLoop,
			Summary: "Fails: modules can't be loaded.", Complexity: "O(1)",
			Args: []Arg{
				stringArg("path"),
				block("configs", stringArg("name"),
					stringArg("value")).after("CONFIG").opt().manyTimes(),
				stringArg("args").after("ARGS").opt().many(),
			},
			Run: loadModule,
		},
		{
			Name: "UNLOAD", Group: ServerGroup, Since: "4.0.0", Arity: 3,
			Flags: moduleFlags | NoAsyncLoading, Scope: OnLoop,
			Summary: "Fails: there is no module.", Complexity: "O(1)",
			Args: []Arg{stringArg("name")},
			Run:  func(*Ctx) error { return errUnloadModule },
		},
		helpFor("MODULE", ServerGroup, "5.0.0", Loading|Stale,
			"LIST", "    The modules: none.",
			"LOAD <path> [<arg> ...]", "    Fails: modules can't be loaded.",
			"LOADEX <path> [[CONFIG <name> <value>] ...] [ARGS ...]", "    Likewise.",
			"UNLOAD <name>", "    Fails: there is no module."),
	},
}}

func loadModule(c *Ctx) error {
	c.Env.Log.Warn("modules can't be loaded", "path", clip(c.Arg(2), 128))
	return errLoadModule
}
