package commands

// commandDocs replies with the documentation of the named commands, or of all commands. It leaves
// out unknown names. A name may be that of a subcommand, such as "config|get".
func commandDocs(c *Ctx) error {
	specs := c.Env.Table.All()
	if len(c.Args) > 2 {
		specs = nil
		for _, name := range c.Args[2:] {
			if spec := c.Env.Table.byFullName(name); spec != nil {
				specs = append(specs, spec)
			}
		}
	}
	c.Out.Map(len(specs))
	for _, spec := range specs {
		c.document(spec)
	}
	return nil
}

// document writes a command's name and its documentation.
func (c *Ctx) document(spec *Spec) {
	c.Out.BulkString(spec.full)
	mark, n := c.Out.MapLater(), 0
	text := func(name, value string) {
		if value != "" {
			n++
			c.Out.BulkString(name)
			c.Out.BulkString(value)
		}
	}
	text("summary", spec.Summary)
	text("since", spec.Since)
	text("group", string(spec.Group))
	text("complexity", spec.Complexity)
	if len(spec.History) > 0 {
		n++
		c.Out.BulkString("history")
		c.Out.Set(len(spec.History))
		for _, h := range spec.History {
			c.Out.Array(2)
			c.Out.BulkString(h[0])
			c.Out.BulkString(h[1])
		}
	}
	if len(spec.Args) > 0 {
		n++
		c.Out.BulkString("arguments")
		keys := 0
		c.documentArgs(spec, spec.Args, &keys)
	}
	if len(spec.Sub) > 0 {
		n++
		c.Out.BulkString("subcommands")
		c.Out.Map(len(spec.Sub))
		for i := range spec.Sub {
			c.document(&spec.Sub[i])
		}
	}
	c.Out.SetLen(mark, n)
}

// documentArgs writes the documentation of arguments. The n-th argument that is a key belongs to
// the n-th key specification. Further ones belong to the last specification.
func (c *Ctx) documentArgs(spec *Spec, args []Arg, keys *int) {
	c.Out.Array(len(args))
	for i := range args {
		a := &args[i]
		mark, n := c.Out.MapLater(), 0
		text := func(name, value string) {
			if value != "" {
				n++
				c.Out.BulkString(name)
				c.Out.BulkString(value)
			}
		}
		text("name", a.Name)
		text("type", string(a.Type))
		if a.Type != ArgOneOf && a.Type != ArgBlock {
			text("display_text", a.Name)
		}
		if of := a.KeySpec; of > 0 || a.Type == ArgKey {
			if of == 0 {
				*keys++
				of = max(min(*keys, len(spec.Keys)), 1)
			}
			n++
			c.Out.BulkString("key_spec_index")
			c.Out.Int(int64(of - 1))
		}
		text("token", a.Token)
		text("since", a.Since)
		if flags := a.flagNames(); len(flags) > 0 {
			n++
			c.Out.BulkString("flags")
			c.statuses(flags)
		}
		if len(a.Args) > 0 {
			n++
			c.Out.BulkString("arguments")
			c.documentArgs(spec, a.Args, keys)
		}
		c.Out.SetLen(mark, n)
	}
}

func (a *Arg) flagNames() []string {
	var flags []string
	if a.Optional {
		flags = append(flags, "optional")
	}
	if a.Multiple {
		flags = append(flags, "multiple")
	}
	if a.Repeats {
		flags = append(flags, "multiple_token")
	}
	return flags
}
