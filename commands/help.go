package commands

// helpFor declares a container's HELP. lines are its synopses, each followed by its
// indented description.
func helpFor(container string, group Group, since string, flags Flags, lines ...string) Spec {
	return Spec{
		Name: "HELP", Group: group, Since: since, Arity: 2, Flags: flags, Scope: OnLoop,
		Summary: "Lists the subcommands.", Complexity: "O(1)",
		Run: func(c *Ctx) error {
			c.Out.Array(len(lines) + 3)
			c.Out.Simple(container + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
			for _, line := range lines {
				c.Out.Simple(line)
			}
			c.Out.Simple("HELP")
			c.Out.Simple("    Prints this help.")
			return nil
		},
	}
}
