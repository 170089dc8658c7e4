package commands

var flushCommands = []Spec{
	{
		Name: "DBSIZE", Group: ServerGroup, Since: "1.0.0",
		Summary:    "Counts the keys of the database.",
		Complexity: "O(1)",
		Arity:      1, Flags: ReadOnly | Fast, Scope: Counts,
		Tips: []string{tipAllShards, tipSum},
		Run:  runDBSize,
	},
	flushCommand("FLUSHDB", "Deletes all keys of the database.", func(c *Ctx, async bool) {
		c.flushDB(c.Client.DB, async)
	}),
	flushCommand("FLUSHALL", "Deletes all keys of all databases.", func(c *Ctx, async bool) {
		for db := range c.Env.Store.Databases() {
			c.flushDB(db, async)
		}
	}),
	{
		Name: "SWAPDB", Group: ServerGroup, Since: "4.0.0",
		Summary:    "Swaps two databases, so that every client of one sees the other.",
		Complexity: "O(N) in the clients that watch or wait for keys of either.",
		Arity:      3, Flags: Write | Fast | Dangerous, Scope: AllKeys,
		Args: []Arg{intArg("index1"), intArg("index2")},
		Run:  runSwapDB,
	},
}

func flushCommand(name, summary string, flush func(c *Ctx, async bool)) Spec {
	return Spec{
		Name: name, Group: ServerGroup, Since: "1.0.0",
		Summary:    summary,
		Complexity: "O(1); memory and disk space are given back later.",
		History: [][2]string{
			{"4.0.0", "Added the `ASYNC` flushing mode modifier."},
			{"6.2.0", "Added the `SYNC` flushing mode modifier."},
		},
		Arity: -1, Flags: Write | Dangerous, Scope: AllKeys,
		Args: []Arg{oneOf("flush-type", word("ASYNC").since("4.0.0"),
			word("SYNC").since("6.2.0")).opt()},
		Tips: []string{tipAllShards, tipAllSucceeded},
		Run: func(c *Ctx) error {
			async, err := parseFlush(c.Cursor(1))
			if err != nil {
				return err
			}
			flush(c, async)
			c.Out.OK()
			return nil
		},
	}
}

func runDBSize(c *Ctx) error {
	keys, _ := c.view().Count(c.Client.DB)
	c.Out.Int(keys)
	c.shows()
	return nil
}

// parseFlush reads ASYNC or SYNC, if there is one. A flush visits no key, so both take equally
// long.
func parseFlush(a Cursor) (async bool, err error) {
	async = a.Word("ASYNC")
	if !async && a.More() && !a.Word("SYNC") || a.More() {
		return false, ErrSyntax
	}
	return async, nil
}

// flushDB empties a database. It counts the keys as freed lazily, as Redis does. Redis does so for
// SYNC too, unless the command is part of EXEC or of a script.
func (c *Ctx) flushDB(db int, async bool) {
	if async || !c.Nested {
		keys, _ := c.Txn.View().Count(db)
		c.Env.Stats.LazyFreed.Add(keys)
	}
	c.Txn.FlushDB(db)
}

func runSwapDB(c *Ctx) error {
	if c.Env.clustered() {
		return errSwapDB
	}
	a, ok := parseDB(c.Arg(1))
	if !ok {
		return ErrDBFirst
	}
	b, ok := parseDB(c.Arg(2))
	if !ok {
		return ErrDBSecond
	}
	if !c.Env.database(a) || !c.Env.database(b) {
		return ErrDBIndex
	}
	if a != b {
		if err := c.Env.Changes.swapping(c.Txn, a, b); err != nil {
			return err
		}
		c.Txn.SwapDB(a, b)
	}
	c.Out.OK()
	return nil
}

// parseDB reads a database number. It does not check that there is such a database.
func parseDB(arg []byte) (db int, ok bool) {
	a := Cursor{args: [][]byte{arg}}
	db = a.Int32()
	return db, a.Err() == nil
}
