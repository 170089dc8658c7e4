package commands

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// The ACL has one user, default, who may do anything; requirepass is its password.

const (
	errGenpass     Error = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
	errDefaultUser Error = "ERR The 'default' user cannot be removed"
	errNoACLFile   Error = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."
	errOneUser     Error = "ERR there is no user but default, who may do anything: CONFIG SET requirepass sets the password"
)

// aclCategories are in the order in which Redis lists them. Those of types that are not
// there have no commands.
var aclCategories = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream",
	"pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
}

const (
	aclFlags      = NoScript | Loading | Stale
	aclAdminFlags = aclFlags | Admin
)

var aclCommands = []Spec{{
	Name: "ACL", Group: ServerGroup, Since: "6.0.0", Arity: -2,
	Summary: "Is about users, of whom there is one.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "CAT", Group: ServerGroup, Since: "6.0.0", Arity: -2, Flags: aclFlags,
			Summary: "Lists the categories, or the commands of one.", Complexity: "O(N) where N is the number of commands",
			Args: []Arg{stringArg("category").opt()},
			Run:  aclCat,
		},
		{
			Name: "DELUSER", Group: ServerGroup, Since: "6.0.0", Arity: -3, Flags: aclAdminFlags,
			Summary: "Removes no user: there is only default, who stays.", Complexity: "O(1)",
			Args: []Arg{stringArg("username").many()},
			Run:  aclDelUser,
		},
		{
			Name: "DRYRUN", Group: ServerGroup, Since: "7.0.0", Arity: -4, Flags: aclAdminFlags,
			Summary: "Says whether a user may run a command, without running it.", Complexity: "O(1)",
			Args: []Arg{stringArg("username"), stringArg("command"), stringArg("arg").opt().many()},
			Run:  aclDryRun,
		},
		{
			Name: "GENPASS", Group: ServerGroup, Since: "6.0.0", Arity: -2, Flags: aclFlags,
			Summary: "Makes a random password.", Complexity: "O(1)",
			Args: []Arg{intArg("bits").opt()},
			Run:  aclGenPass,
		},
		{
			Name: "GETUSER", Group: ServerGroup, Since: "6.0.0", Arity: 3, Flags: aclAdminFlags,
			Summary: "Gives a user's rules.", Complexity: "O(1)",
			History: [][2]string{
				{"6.2.0", "Added Pub/Sub channel patterns."},
				{"7.0.0", "Added selectors and changed the format of key and channel patterns from a list to their rule representation."},
			},
			Args: []Arg{stringArg("username")},
			Run:  aclGetUser,
		},
		{
			Name: "LIST", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Summary: "Gives all users' rules, as in an ACL file.", Complexity: "O(1)",
			Run: func(c *Ctx) error { c.Out.Array(1); c.Out.BulkString(c.Server.defaultUserRule()); return nil },
		},
		{
			Name: "LOAD", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Summary: "Fails: there is no ACL file.", Complexity: "O(1)",
			Run: func(*Ctx) error { return errNoACLFile },
		},
		{
			Name: "SAVE", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Summary: "Fails: there is no ACL file.", Complexity: "O(1)",
			Run: func(*Ctx) error { return errNoACLFile },
		},
		{
			Name: "SETUSER", Group: ServerGroup, Since: "6.0.0", Arity: -3, Flags: aclAdminFlags,
			Summary: "Fails: there is only the user default, with all rights.", Complexity: "O(1)",
			History: [][2]string{
				{"6.2.0", "Added Pub/Sub channel patterns."},
				{"7.0.0", "Added selectors and key based permissions."},
			},
			Args: []Arg{stringArg("username"), stringArg("rule").opt().many()},
			Run:  func(*Ctx) error { return errOneUser },
		},
		{
			Name: "USERS", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclAdminFlags,
			Summary: "Lists the users.", Complexity: "O(1)",
			Run: func(c *Ctx) error { c.Out.Array(1); c.Out.BulkString(defaultUser); return nil },
		},
		{
			Name: "WHOAMI", Group: ServerGroup, Since: "6.0.0", Arity: 2, Flags: aclFlags,
			Summary: "Gives the connection's user.", Complexity: "O(1)",
			Run: func(c *Ctx) error { c.Out.BulkString(defaultUser); return nil },
		},
		helpFor("ACL", ServerGroup, "6.0.0", Loading|Stale,
			"CAT [<category>]", "    The categories, or the commands of one.",
			"DELUSER <username> [<username> ...]", "    Removes no user: there is only default.",
			"DRYRUN <username> <command> [<arg> ...]", "    Whether the user may run the command.",
			"GENPASS [<bits>]", "    A random password of so many bits (default: 256).",
			"GETUSER <username>", "    The user's rules.",
			"LIST", "    All users' rules.",
			"LOAD", "    Fails: there is no ACL file.",
			"SAVE", "    Likewise.",
			"SETUSER <username> <rule> [<rule> ...]", "    Fails: there is only default.",
			"USERS", "    The users.",
			"WHOAMI", "    This connection's user."),
	},
}}

// aclCat lists a category's commands, subcommands included.
func aclCat(c *Ctx) error {
	if len(c.Args) == 2 {
		c.Out.Array(len(aclCategories))
		for _, category := range aclCategories {
			c.Out.BulkString(category)
		}
		return nil
	}
	if len(c.Args) > 3 {
		return errArity(c.Spec.full)
	}
	category := strings.ToLower(string(c.Arg(2)))
	if !slices.Contains(aclCategories, category) {
		return Error("ERR Unknown category '" + clip(c.Arg(2), 128) + "'")
	}
	c.listCommands(func(spec *Spec) bool { return slices.Contains(spec.categories(), "@"+category) })
	return nil
}

func aclDelUser(c *Ctx) error {
	for _, name := range c.Args[2:] {
		if string(name) == defaultUser {
			return errDefaultUser
		}
	}
	c.Out.Int(0)
	return nil
}

// aclDryRun is OK for any command that there is.
func aclDryRun(c *Ctx) error {
	if string(c.Arg(2)) != defaultUser {
		return Error("ERR User '" + clip(c.Arg(2), 128) + "' not found")
	}
	call := c.Args[3:]
	spec := c.Server.Table.Of(call)
	if spec == nil {
		return Error("ERR Command '" + clip(call[0], 128) + "' not found")
	}
	if !spec.takes(len(call)) {
		return errArity(spec.full)
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
		return errArity(c.Spec.full)
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

// passwordHash is how the ACL shows requirepass; false: it is not set.
func (s *Server) passwordHash() (string, bool) {
	sum := sha256.Sum256([]byte(s.Config.String("requirepass")))
	return hex.EncodeToString(sum[:]), !s.Open()
}

// defaultUserRule is the user's line in an ACL file.
func (s *Server) defaultUserRule() string {
	password := "nopass"
	if hash, set := s.passwordHash(); set {
		password = "#" + hash
	}
	return "user " + defaultUser + " on " + password + " sanitize-payload ~* &* +@all"
}

// aclGetUser is null for a user that there is not.
func aclGetUser(c *Ctx) error {
	if string(c.Arg(2)) != defaultUser {
		c.Out.Null()
		return nil
	}
	flags, passwords := []string{"on", "nopass", "sanitize-payload"}, []string(nil)
	if hash, set := c.Server.passwordHash(); set {
		flags, passwords = []string{"on", "sanitize-payload"}, []string{hash}
	}
	c.Out.Map(6)
	c.Out.BulkString("flags")
	c.Out.Set(len(flags))
	for _, flag := range flags {
		c.Out.BulkString(flag)
	}
	c.Out.BulkString("passwords")
	c.Out.Array(len(passwords))
	for _, password := range passwords {
		c.Out.BulkString(password)
	}
	for _, rule := range [][2]string{{"commands", "+@all"}, {"keys", "~*"}, {"channels", "&*"}} {
		c.Out.BulkString(rule[0])
		c.Out.BulkString(rule[1])
	}
	c.Out.BulkString("selectors")
	c.Out.Array(0)
	return nil
}
