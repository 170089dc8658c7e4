package commands

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
)

// This file has the commands of the ACL. acl_user.go describes the ACL.

const (
	errGenpass     Error = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
	errDefaultUser Error = "ERR The 'default' user cannot be removed"
	errNoACLFile   Error = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."
	errACLSave     Error = "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
	errUserName    Error = "ERR Usernames can't contain spaces or null characters"
)

// aclCategories are the categories in Redis's order, followed by Keyp's own.
var aclCategories = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap",
	"hyperloglog", "geo", "stream",
	"pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection",
	"transaction", "scripting",
	"keyp", "backup",
}

const (
	aclFlags      = NoScript | Loading | Stale
	aclAdminFlags = aclFlags | Admin
)

var aclCommands = []Spec{{
	Name: "ACL", Group: ServerGroup, Since: "6.0.0", Arity: -2,
	Summary: "Is about users and what they may do.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "CAT", Group: ServerGroup, Since: "6.0.0", Arity: -2,
			Flags: aclFlags, Scope: OnLoop,
			Summary:    "Lists the categories, or the commands of one.",
			Complexity: "O(N) where N is the number of commands",
			Args:       []Arg{stringArg("category").opt()},
			Run:        aclCat,
		},
		{
			Name: "DELUSER", Group: ServerGroup, Since: "6.0.0", Arity: -3, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Removes users and closes their connections.",
			Complexity: "O(1) amortized time considering the typical user.",
			Args:       []Arg{stringArg("username").many()},
			Tips:       []string{tipAllNodes, tipAllSucceeded},
			Run:        aclDelUser,
		},
		{
			Name: "DRYRUN", Group: ServerGroup, Since: "7.0.0", Arity: -4, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Says whether a user may run a command, without running it.",
			Complexity: "O(1)",
			Args: []Arg{stringArg("username"), stringArg("command"),
				stringArg("arg").opt().many()},
			Run: aclDryRun,
		},
		{
			Name: "GENPASS", Group: ServerGroup, Since: "6.0.0", Arity: -2,
			Flags: aclFlags, Scope: OnLoop,
			Summary: "Makes a random password.", Complexity: "O(1)",
			Args: []Arg{intArg("bits").opt()},
			Run:  aclGenPass,
		},
		{
			Name: "GETUSER", Group: ServerGroup, Since: "6.0.0", Arity: 3, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Gives a user's rules.",
			Complexity: "O(N). Where N is the number of password, command and pattern rules that the user has.",
			History: [][2]string{
				{"6.2.0", "Added Pub/Sub channel patterns."},
				{"7.0.0",
					"Added selectors and changed the format of key and channel patterns from a list to their rule representation."},
			},
			Args: []Arg{stringArg("username")},
			Run:  aclGetUser,
		},
		{
			Name: "LIST", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Gives all users' rules, as in an ACL file.",
			Complexity: "O(N). Where N is the number of configured users.",
			Run:        func(c *Ctx) error { return c.listUsers((*user).line) },
		},
		{
			Name: "LOAD", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Puts the users of the ACL file in the place of those who are there.",
			Complexity: "O(N). Where N is the number of configured users.",
			Run:        aclLoad,
		},
		{
			Name: "LOG", Group: ServerGroup, Since: "6.0.0", Arity: -2, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Shows what was refused of late, or forgets it.",
			Complexity: "O(N) with N being the number of entries shown.",
			History: [][2]string{{"7.2.0",
				"Added entry ID, timestamp created, and timestamp last updated."}},
			Args: []Arg{oneOf("operation", intArg("count"), word("RESET")).opt()},
			Run:  aclLog,
		},
		{
			Name: "SAVE", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Scope:      Unlocked,
			Summary:    "Writes all users to the ACL file.",
			Complexity: "O(N). Where N is the number of configured users.",
			Tips:       []string{tipAllNodes, tipAllSucceeded},
			Run:        aclSave,
		},
		{
			Name: "SETUSER", Group: ServerGroup, Since: "6.0.0", Arity: -3, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Makes a user, or changes its rules.",
			Complexity: "O(N). Where N is the number of rules provided.",
			History: [][2]string{
				{"6.2.0", "Added Pub/Sub channel patterns."},
				{"7.0.0", "Added selectors and key based permissions."},
			},
			Args: []Arg{stringArg("username"), stringArg("rule").opt().many()},
			Tips: []string{tipAllNodes, tipAllSucceeded},
			Run:  aclSetUser,
		},
		{
			Name: "USERS", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Scope:      OnLoop,
			Summary:    "Lists the users.",
			Complexity: "O(N). Where N is the number of configured users.",
			Run: func(c *Ctx) error {
				return c.listUsers(func(u *user) string { return u.name })
			},
		},
		{
			Name: "WHOAMI", Group: ServerGroup, Since: "6.0.0", Arity: 2,
			Flags: aclFlags, Scope: OnLoop,
			Summary: "Gives the connection's user.", Complexity: "O(1)",
			Run: func(c *Ctx) error { c.Out.BulkString(c.Client.user.name()); return nil },
		},
		helpFor("ACL", ServerGroup, "6.0.0", Loading|Stale,
			"CAT [<category>]", "    The categories, or the commands of one.",
			"DELUSER <username> [<username> ...]",
			"    Removes users and closes their connections.",
			"DRYRUN <username> <command> [<arg> ...]", "    Whether the user may run the command.",
			"GENPASS [<bits>]", "    A random password of so many bits (default: 256).",
			"GETUSER <username>", "    The user's rules.",
			"LIST", "    All users' rules, as in the ACL file.",
			"LOAD", "    Reads the ACL file again.",
			"LOG [<count> | RESET]", "    What was refused of late.",
			"SAVE", "    Writes all users to the ACL file.",
			"SETUSER <username> <attribute> [<attribute> ...]",
			"    Makes a user, or changes its rules.",
			"USERS", "    The names of all users.",
			"WHOAMI", "    This connection's user."),
	},
}}

// aclCat lists the categories, or the commands of one with their subcommands.
func aclCat(c *Ctx) error {
	if len(c.Args) == 2 {
		c.Out.Array(len(aclCategories))
		c.bulkStrings(aclCategories)
		return nil
	}
	if len(c.Args) > 3 {
		return errSubcommandArgs(c.Spec.parent.Name, c.Args[1])
	}
	category := strings.ToLower(string(c.Arg(2)))
	if !slices.Contains(aclCategories, category) {
		return Error("ERR Unknown category '" + clip(c.Arg(2), 128) + "'")
	}
	c.listCommands(func(spec *Spec) bool {
		return slices.Contains(spec.categories(), "@"+category)
	})
	return nil
}

// aclDelUser removes the named users, or none if the default user is among them. It closes their
// connections.
func aclDelUser(c *Ctx) error {
	for _, name := range c.Args[2:] {
		if string(name) == defaultUser {
			return errDefaultUser
		}
	}
	if err := c.mayChangeUsers(); err != nil {
		return err
	}
	c.Env.Tracking.Broadcast()
	removed := int64(0)
	for _, name := range c.Args[2:] {
		u := c.Env.users.remove(name)
		if u == nil {
			continue
		}
		removed++
		for _, other := range c.Env.clientsByID() {
			if other.user.is(u) {
				c.kill(other)
			}
		}
	}
	return c.keepUsers(func(c *Ctx) { c.Out.Int(removed) })
}

// aclSetUser applies all rules or, if one is invalid, none.
func aclSetUser(c *Ctx) error {
	name := string(c.Arg(2))
	if hasSpaces(name) {
		return errUserName
	}
	var rules []string
	for _, arg := range c.Args[3:] {
		rules = append(rules, string(arg))
	}
	rules, unmatched := mergeSelectors(rules)
	if unmatched != "" {
		return Error("ERR Unmatched parenthesis in acl selector starting at '" + shown(unmatched) +
			"'.")
	}
	if err := c.mayChangeUsers(); err != nil {
		return err
	}
	c.Env.Tracking.Broadcast()
	e := c.Env
	next, before := e.users.noPermissions(), (*permissions)(nil)
	if u := e.users.find(c.Arg(2)); u != nil {
		before = u.now.Load()
		next = before.clone()
	}
	for _, rule := range rules {
		if err := next.apply(&e.users, rule); err != nil {
			return Error("ERR Error in ACL SETUSER modifier '" + shown(rule) + "': " + err.Error())
		}
	}
	e.users.put(name, next)
	if before != nil {
		for _, other := range e.clientsByID() {
			if other.user.name() == name && e.mayNotListen(other, before, next) {
				c.kill(other)
			}
		}
	}
	return c.keepUsers(func(c *Ctx) { c.Out.OK() })
}

// mayNotListen reports whether a client is subscribed to channels that its user may no longer
// listen to. If the user has lost no channel, it returns false. The client may have subscribed as
// another user, whose permissions do not matter here.
func (e *Env) mayNotListen(c *Client, before, now *permissions) bool {
	if !c.Subscribed() {
		return false
	}
	var channels [][]byte
	for _, sel := range now.selectors {
		if sel.allTopics {
			return false
		}
		channels = append(channels, sel.channels...)
	}
	fewer := func(sel *selector) bool {
		return sel.allTopics || slices.ContainsFunc(sel.channels, func(p []byte) bool {
			return !channelAmong(channels, p, true)
		})
	}
	if !slices.ContainsFunc(before.selectors, fewer) {
		return false
	}
	for topic := range topics {
		for _, name := range e.PubSub.names(c, topic) {
			if !channelAmong(channels, []byte(name), topic == Pattern) {
				return true
			}
		}
	}
	return false
}

// aclDryRun replies with OK, or a bulk string that says why the user may not run the command. An
// unknown user or command is an error.
func aclDryRun(c *Ctx) error {
	u := c.Env.users.find(c.Arg(2))
	if u == nil {
		return Error("ERR User '" + clip(c.Arg(2), 128) + "' not found")
	}
	call := c.Args[3:]
	spec := c.Env.Table.Of(call)
	if spec == nil {
		return Error("ERR Command '" + clip(call[0], 128) + "' not found")
	}
	if !spec.takes(len(call)) {
		return errArity(spec.full)
	}
	if d, at := u.now.Load().check(spec, call); d != allowed {
		c.Out.BulkString(d.complaint(u.name, spec, call[at], true))
		return nil
	}
	c.Out.OK()
	return nil
}

func aclGenPass(c *Ctx) error {
	bits := int64(256)
	switch len(c.Args) {
	case 2:
	case 3:
		a := c.Cursor(2)
		bits = a.Int()
		if a.Err() != nil {
			return a.Err()
		}
	default:
		return errSubcommandArgs(c.Spec.parent.Name, c.Args[1])
	}
	if bits <= 0 || bits > 4096 {
		return errGenpass
	}
	digits := int(bits+3) / 4
	secret := make([]byte, (digits+1)/2)
	rand.Read(secret) // never fails
	c.Out.BulkString(hex.EncodeToString(secret)[:digits])
	return nil
}

func (c *Ctx) listUsers(text func(*user) string) error {
	list := c.Env.users.sorted()
	c.Out.Array(len(list))
	for _, u := range list {
		c.Out.BulkString(text(u))
	}
	return nil
}

// aclGetUser replies with null if there is no such user.
func aclGetUser(c *Ctx) error {
	u := c.Env.users.find(c.Arg(2))
	if u == nil {
		c.Out.Null()
		return nil
	}
	p := u.now.Load()
	flags, passwords := p.flags(), p.hashes()
	c.Out.Map(6)
	c.Out.BulkString("flags")
	c.Out.Set(len(flags))
	c.bulkStrings(flags)
	c.Out.BulkString("passwords")
	c.Out.Array(len(passwords))
	c.bulkStrings(passwords)
	c.describeSelector(p.selectors[0])
	c.Out.BulkString("selectors")
	c.Out.Array(len(p.selectors) - 1)
	for _, s := range p.selectors[1:] {
		c.Out.Map(3)
		c.describeSelector(s)
	}
	return nil
}

// describeSelector writes a selector as three pairs of a map.
func (c *Ctx) describeSelector(s *selector) {
	for _, part := range []struct {
		name  string
		rules []string
	}{{"commands", s.commandRules()}, {"keys", s.keyRules()}, {"channels", s.channelRules()}} {
		c.Out.BulkString(part.name)
		c.Out.BulkString(strings.Join(part.rules, " "))
	}
}
