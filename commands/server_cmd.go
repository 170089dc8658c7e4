package commands

import (
	"slices"
	"strings"

	"keyp/internal/config"
)

// serverCommands are the commands about the server itself.
var serverCommands = slices.Concat(
	infoCommands, replicaCommands, aclCommands, moduleCommands, saveCommands, shutdownCommands,
	debugCommands, memoryCommands, latencyCommands, slowlogCommands, hotKeysCommands,
	[]Spec{
		{
			Name: "TIME", Group: ServerGroup, Since: "2.6.0", Arity: 1,
			Flags: Loading | Stale | Fast, Scope: ArgsOnly,
			Summary: "Gives the server's time.", Complexity: "O(1)",
			Tips: []string{tipRandom},
			Run:  serverTime,
		},
		{
			Name: "LOLWUT", Group: ServerGroup, Since: "5.0.0", Arity: -1, Flags: ReadOnly | Fast,
			Scope:   OnLoop,
			Summary: "Draws something.", Complexity: "O(1)",
			Categories: []string{},
			Args:       []Arg{intArg("version").after("VERSION").opt()},
			Run:        lolwut,
		},
	},
)

// serverTime replies with the same time throughout a script or EXEC. Scripts that limit rates
// distinguish calls by the microseconds.
func serverTime(c *Ctx) error {
	now := c.Txn.Micros()
	c.Out.Array(2)
	c.Out.BulkInt(now / 1_000_000)
	c.Out.BulkInt(now % 1_000_000)
	return nil
}

// lolwut draws an hourglass. The sand in its upper half is what is left of the present minute.
func lolwut(c *Ctx) error {
	if a := c.Cursor(1); len(c.Args) >= 3 && a.Word("VERSION") {
		if a.Int(); a.Err() != nil {
			return a.Err()
		}
	}
	const rows = 6
	sand := int(c.Txn.Now() / 1000 % 60 * rows / 60) // rows that have run through
	var b strings.Builder
	b.WriteString("  " + strings.Repeat("_", 2*rows+1) + "\n")
	for row := range 2 * rows {
		// The upper half narrows downwards, the lower half is its mirror image.
		half, mark := row, byte('.')
		if row >= rows {
			half = 2*rows - 1 - row
		}
		full := row < rows && row >= sand || row >= 2*rows-sand
		if !full {
			mark = ' '
		}
		inside := strings.Repeat(string(mark), 2*(rows-half)-1)
		left, right := `\`, `/`
		if row >= rows {
			left, right = right, left
		}
		b.WriteString("  " + strings.Repeat(" ", half) + left + inside + right + "\n")
	}
	b.WriteString("  " + strings.Repeat("-", 2*rows+1) + "\n\nKeyp " + config.Version +
		", Redis ver. " + RedisVersion + "\n")
	c.Out.Verbatim("txt", b.String())
	return nil
}
