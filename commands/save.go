package commands

// Redis's commands for a snapshot start a checkpoint here: the changes in the log go to the data
// file. Durability does not depend on it.

const (
	errSaving    Error = "ERR Background save already in progress"
	errSaveFull  Error = "ERR the checkpoint found no room on disk; the log has everything"
	errRewriting Error = "ERR Background append only file rewriting already in progress"
)

var saveCommands = []Spec{
	{
		Name: "SAVE", Group: ServerGroup, Since: "1.0.0", Arity: 1,
		Flags: Admin | NoScript | NoAsyncLoading | NoMulti, Scope: Unlocked,
		Summary:    "Makes a checkpoint and waits for it.",
		Complexity: "O(N) where N is the number of keys changed since the last checkpoint",
		Run:        save,
	},
	{
		Name: "BGSAVE", Group: ServerGroup, Since: "1.0.0", Arity: -1,
		Flags: Admin | NoScript | NoAsyncLoading, Scope: OnLoop,
		Summary: "Starts a checkpoint.", Complexity: "O(1)",
		History: [][2]string{{"3.2.2", "Added the `SCHEDULE` option."}},
		Args:    []Arg{word("SCHEDULE").opt().since("3.2.2")},
		Run:     bgsave,
	},
	{
		Name: "BGREWRITEAOF", Group: ServerGroup, Since: "1.0.0", Arity: 1,
		Flags: Admin | NoScript | NoAsyncLoading, Scope: OnLoop,
		Summary: "Starts a checkpoint, which lets old log go.", Complexity: "O(1)",
		Run: bgrewriteaof,
	},
	{
		Name: "LASTSAVE", Group: ServerGroup, Since: "1.0.0", Arity: 1,
		Flags: Loading | Stale | Fast | Dangerous, Scope: OnLoop,
		Summary: "Gives the Unix time of the last checkpoint.", Complexity: "O(1)",
		Categories: []string{"@admin"},
		Tips:       []string{tipRandom},
		Run:        func(c *Ctx) error { c.Out.Int(c.Env.lastSave() / 1000); return nil },
	},
}

func save(c *Ctx) error {
	if err := c.Env.Store.Checkpoint(); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

func bgsave(c *Ctx) error {
	if len(c.Args) > 2 || len(c.Args) == 2 && !isWord(c.Arg(1), "SCHEDULE") {
		return ErrSyntax
	}
	if !c.Env.Store.StartCheckpoint() {
		return errSaving
	}
	c.Out.Simple("Background saving started")
	return nil
}

func bgrewriteaof(c *Ctx) error {
	if !c.Env.Store.StartCheckpoint() {
		return errRewriting
	}
	c.Out.Simple("Background append only file rewriting started")
	return nil
}

// lastSave returns the Unix ms of the last checkpoint, or of the start if there was none since.
func (e *Env) lastSave() int64 {
	at, _ := e.Store.LastCheckpoint()
	if at == 0 {
		return e.Started
	}
	return at
}

const errNoShutdown Error = "ERR No shutdown in progress."

var shutdownCommands = []Spec{{
	Name: "SHUTDOWN", Group: ServerGroup, Since: "1.0.0", Arity: -1,
	Flags: Admin | NoScript | Loading | Stale | NoMulti | AllowBusy | DuringPause, Scope: OnLoop,
	Summary:    "Stops the server.",
	Complexity: "O(N) when saving, where N is the number of keys changed since the last checkpoint, otherwise O(1)",
	History:    [][2]string{{"7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers."}},
	Args: []Arg{
		oneOf("save-selector", word("NOSAVE"), word("SAVE")).opt(),
		word("NOW").opt().since("7.0.0"), word("FORCE").opt().since("7.0.0"),
		word("ABORT").opt().since("7.0.0"),
	},
	Run: shutdown,
}}

// shutdown makes no reply: the end of the connection is the answer. NOW and FORCE change nothing.
// There are no replicas to wait for, and nothing is lost without a checkpoint. Because of this a
// stop is also too short to be aborted.
func shutdown(c *Ctx) error {
	var nosave, save, other, abort bool
	a := c.Cursor(1)
	for a.More() {
		switch {
		case a.Word("NOSAVE"):
			nosave = true
		case a.Word("SAVE"):
			save = true
		case a.Word("NOW"), a.Word("FORCE"):
			other = true
		case a.Word("ABORT"):
			abort = true
		default:
			return ErrSyntax
		}
	}
	if nosave && save || abort && (nosave || save || other) {
		return ErrSyntax
	}
	if abort {
		return errNoShutdown
	}
	c.Env.Log.Info("shutdown asked for by a client", "client", c.Client.ID,
		"address", c.Client.Addr)
	c.Env.Host.Shutdown(!nosave)
	return nil
}
