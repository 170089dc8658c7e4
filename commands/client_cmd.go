package commands

import (
	"strings"
	"time"
)

// The errors of CLIENT.
const (
	errNoClient      Error = "ERR No such client"
	errClientID      Error = "ERR client-id should be greater than 0"
	errListID        Error = "ERR Invalid client ID"
	errTimeout       Error = "ERR timeout is not an integer or out of range"
	errTimeoutSign   Error = "ERR timeout is negative"
	errPauseMode     Error = "ERR CLIENT PAUSE mode must be WRITE or ALL"
	errUnblockReason Error = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
)

const (
	clientFlags      = NoScript | Loading | Stale
	clientAdminFlags = Admin | clientFlags
)

var clientCommands = []Spec{{
	Name: "CLIENT", Group: Connection, Since: "2.4.0", Arity: -2,
	Summary: "Works on client connections.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "ID", Group: Connection, Since: "5.0.0", Arity: 2, Flags: clientFlags,
			Scope:   OwnClient,
			Summary: "Gives the connection's id.", Complexity: "O(1)",
			Run: func(c *Ctx) error { c.Out.Int(int64(c.Client.ID)); return nil },
		},
		{
			Name: "GETNAME", Group: Connection, Since: "2.6.9", Arity: 2, Flags: clientFlags,
			Scope:   OwnClient,
			Summary: "Gives the connection's name.", Complexity: "O(1)",
			Run: clientGetName,
		},
		{
			Name: "SETNAME", Group: Connection, Since: "2.6.9", Arity: 3, Flags: clientFlags,
			Scope:   OwnClient,
			Summary: "Names the connection.", Complexity: "O(1)",
			Args: []Arg{stringArg("connection-name")},
			Tips: []string{tipAllNodes, tipAllSucceeded},
			Run:  clientSetName,
		},
		{
			Name: "SETINFO", Group: Connection, Since: "7.2.0", Arity: 4, Flags: clientFlags,
			Scope:   OwnClient,
			Summary: "Sets the name or the version of the client library.", Complexity: "O(1)",
			Args: []Arg{oneOf("attr", stringArg("libname").after("LIB-NAME"),
				stringArg("libver").after("LIB-VER"))},
			Tips: []string{tipAllNodes, tipAllSucceeded},
			Run:  clientSetInfo,
		},
		{
			Name: "INFO", Group: Connection, Since: "6.2.0", Arity: 2, Flags: clientFlags,
			Scope:   OnLoop,
			Summary: "Describes the connection.", Complexity: "O(1)",
			Tips: []string{tipRandom},
			Run: func(c *Ctx) error {
				c.Out.Verbatim("txt", string(c.appendClient(nil, c.Client)))
				return nil
			},
		},
		{
			Name: "LIST", Group: Connection, Since: "2.4.0", Arity: -2, Flags: clientAdminFlags,
			Scope:      OnLoop,
			Summary:    "Describes all connections.",
			Complexity: "O(N) where N is the number of client connections",
			History: [][2]string{
				{"2.8.12", "Added unique client `id` field."},
				{"5.0.0", "Added optional `TYPE` filter."},
				{"6.0.0", "Added `user` field."},
				{"6.2.0",
					"Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter."},
				{"7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."},
				{"7.0.3", "Added `ssub` field."},
				{"7.2.0", "Added `lib-name` and `lib-ver` fields."},
				{"7.4.0", "Added `watch` field."},
				{"8.0.0", "Added `io-thread` field."},
			},
			Args: []Arg{clientTypeArg("client-type").after("TYPE").opt().since("5.0.0"),
				intArg("client-id").after("ID").opt().many().since("6.2.0")},
			Tips: []string{tipRandom},
			Run:  clientList,
		},
		{
			Name: "KILL", Group: Connection, Since: "2.4.0", Arity: -3, Flags: clientAdminFlags,
			Scope:      OnLoop,
			Summary:    "Closes connections.",
			Complexity: "O(N) where N is the number of client connections",
			History: [][2]string{
				{"2.8.12", "Added new filter format."},
				{"2.8.12", "`ID` option."},
				{"3.2.0", "Added `master` type in for `TYPE` option."},
				{"5.0.0",
					"Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward compatibility."},
				{"6.2.0", "`LADDR` option."},
				{"7.4.0", "`MAXAGE` option."},
			},
			Args: []Arg{oneOf("filter", stringArg("old-format"), oneOf("new-format",
				intArg("client-id").after("ID").opt().since("2.8.12"),
				clientTypeArg("client-type").after("TYPE").opt().since("2.8.12"),
				stringArg("username").after("USER").opt(),
				stringArg("addr").after("ADDR").opt(),
				stringArg("laddr").after("LADDR").opt().since("6.2.0"),
				oneOf("skipme", word("YES"), word("NO")).after("SKIPME").opt(),
				intArg("maxage").after("MAXAGE").opt().since("7.4.0"),
			).many())},
			Run: clientKill,
		},
		{
			Name: "REPLY", Group: Connection, Since: "3.2.0", Arity: 3, Flags: clientFlags,
			Scope:   OwnClient,
			Summary: "Turns replies on or off.", Complexity: "O(1)",
			Args: []Arg{oneOf("action", word("ON"), word("OFF"), word("SKIP"))},
			Run:  clientReply,
		},
		{
			Name: "PAUSE", Group: Connection, Since: "2.9.50", Arity: -3,
			Flags: clientAdminFlags | pauses, Scope: OnLoop,
			Summary: "Pauses commands for a time.", Complexity: "O(1)",
			History: [][2]string{{"6.2.0",
				"`CLIENT PAUSE WRITE` mode added along with the `mode` option."}},
			Args: []Arg{intArg("timeout"),
				oneOf("mode", word("WRITE"), word("ALL")).opt().since("6.2.0")},
			Run: clientPause,
		},
		{
			Name: "UNPAUSE", Group: Connection, Since: "6.2.0", Arity: 2,
			Flags: clientAdminFlags | DuringPause | unpauses, Scope: OnLoop,
			Summary:    "Ends CLIENT PAUSE.",
			Complexity: "O(N) Where N is the number of paused clients",
			Run:        func(c *Ctx) error { c.Env.Host.Unpause(); c.Out.OK(); return nil },
		},
		{
			Name: "NO-EVICT", Group: Connection, Since: "7.0.0", Arity: 3, Flags: clientAdminFlags,
			Scope:   OwnClient,
			Summary: "Marks the connection as one that is not evicted.", Complexity: "O(1)",
			Args: []Arg{oneOf("enabled", word("ON"), word("OFF"))},
			Run:  func(c *Ctx) error { return c.toggle(&c.Client.NoEvict) },
		},
		{
			Name: "NO-TOUCH", Group: Connection, Since: "7.2.0", Arity: 3, Flags: clientFlags,
			Scope:   OwnClient,
			Summary: "Leaves access times alone.", Complexity: "O(1)",
			Args: []Arg{oneOf("enabled", word("ON"), word("OFF"))},
			Run:  func(c *Ctx) error { return c.toggle(&c.Client.NoTouch) },
		},
		{
			Name: "UNBLOCK", Group: Connection, Since: "5.0.0", Arity: -3, Flags: clientAdminFlags,
			Scope:      OnLoop,
			Summary:    "Ends another connection's blocking command.",
			Complexity: "O(log N) where N is the number of client connections",
			Args: []Arg{intArg("client-id"),
				oneOf("unblock-type", word("TIMEOUT"), word("ERROR")).opt()},
			Run: clientUnblock,
		},
		{
			Name: "TRACKING", Group: Connection, Since: "6.0.0", Arity: -3, Flags: clientFlags,
			Scope:      OnLoop,
			Summary:    "Turns messages on or off about changes of keys that the connection has read.",
			Complexity: "O(1). Some options may introduce additional complexity.",
			Args: []Arg{
				oneOf("status", word("ON"), word("OFF")),
				intArg("client-id").after("REDIRECT").opt(),
				stringArg("prefix").after("PREFIX").opt().manyTimes(),
				word("BCAST").opt(), word("OPTIN").opt(), word("OPTOUT").opt(),
				word("NOLOOP").opt(),
			},
			Run: clientTracking,
		},
		{
			Name: "CACHING", Group: Connection, Since: "6.0.0", Arity: 3, Flags: clientFlags,
			Scope:      OnLoop,
			Summary:    "Says whether the keys that the next command reads are tracked.",
			Complexity: "O(1)",
			Args:       []Arg{oneOf("mode", word("YES"), word("NO"))},
			Run:        clientCaching,
		},
		{
			Name: "GETREDIR", Group: Connection, Since: "6.0.0", Arity: 2, Flags: clientFlags,
			Scope:      OnLoop,
			Summary:    "Gives the connection that invalidations go to: 0 its own, -1 without tracking.",
			Complexity: "O(1)",
			Run: func(c *Ctx) error {
				c.Out.Int(c.Env.Tracking.redirection(c.Client.ID))
				return nil
			},
		},
		{
			Name: "TRACKINGINFO", Group: Connection, Since: "6.2.0", Arity: 2, Flags: clientFlags,
			Scope:   OnLoop,
			Summary: "Describes the connection's tracking.", Complexity: "O(1)",
			Run: clientTrackingInfo,
		},
		helpFor("CLIENT", Connection, "5.0.0", Loading|Stale,
			"CACHING (YES|NO)",
			"    Whether the keys that the next command reads are tracked, with OPTIN or OPTOUT.",
			"GETNAME", "    The connection's name.",
			"GETREDIR",
			"    The id of the connection that invalidations go to; 0: its own, -1: tracking is off.",
			"ID", "    The connection's id.",
			"INFO", "    A description of the connection.",
			"KILL <ip:port>", "    Closes the connection from this address.",
			"KILL <option> <value> [<option> <value> [...]]",
			"    Closes the connections that fit all of",
			"    * ADDR (<ip:port>|<unixsocket>:0)", "    * LADDR (<ip:port>|<unixsocket>:0)",
			"    * IP <ip>",
			"    * ID <client-id> [...]", "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
			"    * USER <username>",
			"    * NAME <name>, LIB-NAME <name>, LIB-VER <version>, DB <index>",
			"    * FLAGS <letters>: all of them",
			"    * MAXAGE <seconds>: that old or older",
			"    * IDLE <seconds>: idle for that long or longer",
			"    * NOT-<option>, but not of the last two: those that do not fit it",
			"    * SKIPME (YES|NO): not the caller's own (default: yes)",
			"LIST [<option> <value> [<option> <value> [...]]]",
			"    Descriptions of connections, all or those that fit the options of KILL",
			"    (default: SKIPME NO).",
			"NO-EVICT (ON|OFF)", "    Marks the connection as one that is not evicted.",
			"NO-TOUCH (ON|OFF)", "    Leaves the keys' access times alone.",
			"PAUSE <timeout> [WRITE|ALL]",
			"    Pauses all commands, or those that write, for this many milliseconds.",
			"REPLY (ON|OFF|SKIP)", "    Turns replies on or off, or leaves out the next one.",
			"SETINFO <option> <value>", "    Sets LIB-NAME or LIB-VER.",
			"SETNAME <name>", "    Names the connection.",
			"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
			"         [OPTIN] [OPTOUT] [NOLOOP]",
			"    Informs the connection, or the one with this id, when keys change that it has read.",
			"TRACKINGINFO", "    How the connection tracks.",
			"UNBLOCK <clientid> [TIMEOUT|ERROR]", "    Ends a blocking command.",
			"UNPAUSE", "    Ends the pause."),
	},
}}

func clientTypeArg(name string) Arg {
	return oneOf(name, word("NORMAL"), word("MASTER"), word("REPLICA"), word("PUBSUB"))
}

func clientGetName(c *Ctx) error {
	if c.Client.Name == "" {
		c.Out.Null()
		return nil
	}
	c.Out.BulkString(c.Client.Name)
	return nil
}

func clientSetName(c *Ctx) error {
	if !validAttribute(c.Arg(2)) {
		return errClientName
	}
	c.Client.Name = string(c.Arg(2))
	c.Out.OK()
	return nil
}

func clientSetInfo(c *Ctx) error {
	var field *string
	name := strings.ToLower(clip(c.Arg(2), 128))
	switch name {
	case "lib-name":
		field = &c.Client.LibName
	case "lib-ver":
		field = &c.Client.LibVer
	default:
		return Error("ERR Unrecognized option '" + clip(c.Arg(2), 128) + "'")
	}
	if !validAttribute(c.Arg(3)) {
		return Error("ERR " + name + " cannot contain spaces, newlines or special characters.")
	}
	*field = string(c.Arg(3))
	c.Out.OK()
	return nil
}

// clientReply sets the reply mode. It replies only to ON, because OFF and SKIP also suppress their
// own reply.
func clientReply(c *Ctx) error {
	a := c.Cursor(2)
	switch {
	case a.Word("ON"):
		c.Client.Reply = ReplyOn
		c.Out.OK()
	case a.Word("OFF"):
		c.Client.Reply = ReplyOff
	case a.Word("SKIP"):
		if c.Client.Reply != ReplyOff {
			c.Client.Reply = ReplySkipNext
		}
	default:
		return ErrSyntax
	}
	return nil
}

// maxPause is the longest time of CLIENT PAUSE in milliseconds, 139 years. A longer one might
// overflow a duration.
const maxPause = 1 << 42

func clientPause(c *Ctx) error {
	if len(c.Args) > 4 {
		return ErrSyntax
	}
	all := true
	if len(c.Args) == 4 {
		switch {
		case isWord(c.Arg(3), "WRITE"):
			all = false
		case !isWord(c.Arg(3), "ALL"):
			return errPauseMode
		}
	}
	ms, ok := ParseInt(c.Arg(2))
	if !ok {
		return errTimeout
	}
	if ms < 0 {
		return errTimeoutSign
	}
	if c.Txn.Now()+ms < ms {
		return errTimeout
	}
	c.Env.Host.Pause(time.Duration(min(ms, maxPause))*time.Millisecond, all)
	c.Out.OK()
	return nil
}

// toggle reads the argument ON or OFF of CLIENT NO-EVICT and NO-TOUCH.
func (c *Ctx) toggle(setting *bool) error {
	a := c.Cursor(2)
	on := a.onOff()
	if a.Err() != nil {
		return a.Err()
	}
	*setting = on
	c.Out.OK()
	return nil
}

func clientUnblock(c *Ctx) error {
	withError := false
	if len(c.Args) > 4 {
		return errSubcommandArgs(c.Spec.parent.Name, c.Args[1])
	}
	if len(c.Args) == 4 {
		switch {
		case isWord(c.Arg(3), "ERROR"):
			withError = true
		case !isWord(c.Arg(3), "TIMEOUT"):
			return errUnblockReason
		}
	}
	id, ok := ParseInt(c.Arg(2))
	if !ok {
		return ErrNotInteger
	}
	other := c.Env.Clients[uint64(id)]
	if other != nil && other.Conn != nil && other.Conn.Blocked() && other.Conn.Unblock(withError) {
		c.Out.Int(1)
		return nil
	}
	c.Out.Int(0)
	return nil
}
