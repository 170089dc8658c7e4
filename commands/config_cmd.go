package commands

import (
	"errors"
	"slices"
	"strings"

	"keyp/internal/config"
)

const configFlags = Admin | NoScript | Loading | Stale

var configCommands = []Spec{{
	Name: "CONFIG", Group: ServerGroup, Since: "2.0.0", Arity: -2,
	Summary: "Reads and changes the configuration.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "GET", Group: ServerGroup, Since: "2.0.0", Arity: -3, Flags: configFlags,
			Scope:      OnLoop,
			Summary:    "Gives the options that match.",
			Complexity: "O(N) when N is the number of configuration parameters provided",
			History: [][2]string{{"7.0.0",
				"Added the ability to pass multiple pattern parameters in one call"}},
			Args: []Arg{stringArg("parameter").many()},
			Run:  configGet,
		},
		{
			Name: "SET", Group: ServerGroup, Since: "2.0.0", Arity: -4, Flags: configFlags,
			Scope:      OnLoop,
			Summary:    "Changes options, all or none.",
			Complexity: "O(N) when N is the number of configuration parameters provided",
			History: [][2]string{{"7.0.0",
				"Added the ability to set multiple parameters in one call."}},
			Args: []Arg{block("data", stringArg("parameter"), stringArg("value")).many()},
			Tips: []string{tipAllNodes, tipAllSucceeded},
			Run:  configSet,
		},
		{
			Name: "REWRITE", Group: ServerGroup, Since: "2.8.0", Arity: 2, Flags: configFlags,
			Scope:   Unlocked,
			Summary: "Puts the present options into the configuration file.", Complexity: "O(1)",
			Tips: []string{tipAllNodes, tipAllSucceeded},
			Run:  configRewrite,
		},
		{
			Name: "RESETSTAT", Group: ServerGroup, Since: "2.0.0", Arity: 2, Flags: configFlags,
			Scope:   OnLoop,
			Summary: "Zeroes the counters of INFO.", Complexity: "O(1)",
			Tips: []string{tipAllNodes, tipAllSucceeded},
			Run:  func(c *Ctx) error { c.Env.Stats.reset(); c.Out.OK(); return nil },
		},
		helpFor("CONFIG", ServerGroup, "5.0.0", Loading|Stale,
			"GET <pattern>", "    Options that match the glob-style pattern, with their values.",
			"SET <directive> <value>", "    Changes an option.",
			"RESETSTAT", "    Zeroes the counters of INFO.",
			"REWRITE", "    Puts the present options into the configuration file."),
	},
}}

// configGet replies with each option once, even if several patterns match it.
func configGet(c *Ctx) error {
	patterns := make([][]byte, 0, len(c.Args)-2)
	for _, arg := range c.Args[2:] {
		patterns = append(patterns, []byte(strings.ToLower(string(arg))))
	}
	found := c.Env.Config.Match(func(name string) bool {
		for _, p := range patterns {
			if c.matches(p, []byte(name)) {
				return true
			}
		}
		return false
	})
	c.Out.Map(len(found))
	for _, pair := range found {
		c.Out.BulkString(pair.Name)
		c.Out.BulkString(pair.Value)
	}
	return nil
}

func configSet(c *Ctx) error {
	if len(c.Args)%2 != 0 {
		return ErrSyntax
	}
	var pairs []config.Pair
	for args := c.Args[2:]; len(args) > 0; args = args[2:] {
		pairs = append(pairs, config.Pair{Name: string(args[0]), Value: string(args[1])})
	}
	password := slices.ContainsFunc(pairs, func(p config.Pair) bool {
		return strings.EqualFold(p.Name, "requirepass")
	})
	if password {
		if err := c.mayChangeUsers(); err != nil {
			return err
		}
	}
	if err := c.Env.Config.Set(pairs...); err != nil {
		return Error("ERR " + err.Error())
	}
	for _, remark := range c.Env.Config.Ineffective(pairs...) {
		c.Env.Log.Warn(remark)
	}
	if password {
		return c.keepUsers(func(c *Ctx) { c.Out.OK() })
	}
	c.Out.OK()
	return nil
}

func configRewrite(c *Ctx) error {
	switch err := c.Env.Config.Rewrite(c.Env.configUsers()); {
	case errors.Is(err, config.ErrNoFile):
		return Error("ERR " + err.Error())
	case err != nil:
		return Error("ERR Rewriting config file: " + err.Error())
	}
	c.Out.OK()
	return nil
}
