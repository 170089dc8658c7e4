package commands

import "strings"

// The errors of connection commands.
const (
	errWrongPass  Error = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword Error = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errHelloAuth  Error = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errHelloProto Error = "ERR Protocol version is not an integer or out of range"
	errClientName Error = "ERR Client names cannot contain spaces, newlines or special characters."
)

const connectionFlags = NoScript | Loading | Stale | Fast | NoAuth | AllowBusy

var connectionCommands = []Spec{
	{
		Name: "PING", Group: Connection, Since: "1.0.0", Arity: -1, Flags: Fast | InSubscription,
		Scope:   OwnClient,
		Summary: "Answers PONG, or the message.", Complexity: "O(1)",
		Args: []Arg{stringArg("message").opt()},
		Tips: []string{tipAllShards, tipAllSucceeded},
		Run:  ping,
	},
	{
		Name: "ECHO", Group: Connection, Since: "1.0.0", Arity: 2, Flags: Loading | Stale | Fast,
		Scope:   ArgsOnly,
		Summary: "Answers the message.", Complexity: "O(1)",
		Args: []Arg{stringArg("message")},
		Run:  func(c *Ctx) error { c.Out.Bulk(c.Arg(1)); return nil },
	},
	{
		Name: "AUTH", Group: Connection, Since: "1.0.0", Arity: -2, Flags: connectionFlags,
		Scope:      OnLoop,
		Summary:    "Authenticates the connection.",
		Complexity: "O(N) where N is the number of passwords defined for the user",
		History:    [][2]string{{"6.0.0", "Added ACL style (username and password)."}},
		Args:       []Arg{stringArg("username").opt().since("6.0.0"), stringArg("password")},
		Run:        auth,
	},
	{
		Name: "HELLO", Group: Connection, Since: "6.0.0", Arity: -1, Flags: connectionFlags,
		Scope:   OnLoop,
		Summary: "Greets the server and chooses the protocol version.", Complexity: "O(1)",
		History: [][2]string{{"6.2.0",
			"`protover` made optional; when called without arguments the command reports the current connection's context."}},
		Args: []Arg{block("arguments",
			intArg("protover"),
			block("auth", stringArg("username"), stringArg("password")).after("AUTH").opt(),
			stringArg("clientname").after("SETNAME").opt(),
		).opt()},
		Run: hello,
	},
	{
		Name: "SELECT", Group: Connection, Since: "1.0.0", Arity: 2, Flags: Loading | Stale | Fast,
		Scope:   OwnClient,
		Summary: "Changes the connection's database.", Complexity: "O(1)",
		Args: []Arg{intArg("index")},
		Run:  selectDB,
	},
	{
		Name: "QUIT", Group: Connection, Since: "1.0.0", Arity: -1,
		Flags: connectionFlags | InSubscription | Unqueued, Scope: OnLoop,
		Summary: "Closes the connection.", Complexity: "O(1)",
		Run: func(c *Ctx) error { c.Client.Closing = true; c.Out.OK(); return nil },
	},
	{
		Name: "RESET", Group: Connection, Since: "6.2.0", Arity: 1,
		Flags: connectionFlags | InSubscription | Unqueued, Scope: OnLoop,
		Summary: "Puts the connection back to how it began.", Complexity: "O(1)",
		Run: reset,
	},
}

// ping replies with an array, in the form of a message, to a RESP2 client that has subscriptions.
func ping(c *Ctx) error {
	switch n := len(c.Args); {
	case n > 2:
		return errArity(c.Spec.full)
	case c.Client.Proto == 2 && c.Client.Subscribed():
		c.Out.Array(2)
		c.Out.BulkString("pong")
		if n == 2 {
			c.Out.Bulk(c.Arg(1))
		} else {
			c.Out.BulkString("")
		}
	case n == 1:
		c.Out.Simple("PONG")
	default:
		c.Out.Bulk(c.Arg(1))
	}
	return nil
}

func auth(c *Ctx) error {
	user, password := []byte(defaultUser), c.Arg(1)
	switch len(c.Args) {
	case 2:
		if c.Env.Open() {
			return errNoPassword
		}
	case 3:
		user, password = c.Arg(1), c.Arg(2)
	default:
		return ErrSyntax
	}
	if err := c.login(user, password); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

// login authenticates the connection as the named user.
func (c *Ctx) login(name, password []byte) error {
	u := c.Env.users.login(name, password)
	if u == nil {
		c.Env.logBadLogin(c, name)
		return errWrongPass
	}
	c.Env.Tracking.Broadcast()
	c.Client.user.become(u)
	c.Client.Authenticated = true
	return nil
}

// hello changes nothing unless all its arguments are valid. As in Redis, the reply is in the new
// protocol.
func hello(c *Ctx) error {
	proto := c.Client.Proto
	var user, password, name []byte
	authenticate, rename := false, false
	a := c.Cursor(1)
	if a.More() {
		n, ok := ParseInt(a.Bytes())
		if !ok {
			return errHelloProto
		}
		if n != 2 && n != 3 {
			return ErrNoProto
		}
		proto = int(n)
	}
	for a.More() {
		switch {
		case a.Len() >= 3 && a.Word("AUTH"):
			user, password, authenticate = a.Bytes(), a.Bytes(), true
		case a.Len() >= 2 && a.Word("SETNAME"):
			name, rename = a.Bytes(), true
			if !validAttribute(name) {
				return errClientName
			}
		default:
			return Error("ERR Syntax error in HELLO option '" + clip(a.Bytes(), 128) + "'")
		}
	}
	if authenticate {
		if err := c.login(user, password); err != nil {
			return err
		}
	}
	if c.Env.AuthRequired(c.Client) {
		return errHelloAuth
	}
	if rename {
		c.Client.Name = string(name)
	}
	c.Client.Proto, c.Out.Proto = proto, proto
	c.Out.Map(7)
	c.textField("server", "redis")
	c.textField("version", RedisVersion)
	c.intField("proto", int64(proto))
	c.intField("id", int64(c.Client.ID))
	c.textField("mode", c.Env.mode())
	c.textField("role", "master")
	c.Out.BulkString("modules")
	c.Out.Array(0)
	return nil
}

// validAttribute reports whether a client's name or a similar text can be in CLIENT LIST: no
// spaces, no control characters, ASCII only.
func validAttribute(b []byte) bool {
	for _, ch := range b {
		if ch < '!' || ch > '~' {
			return false
		}
	}
	return true
}

func selectDB(c *Ctx) error {
	a := c.Cursor(1)
	n := a.Int32()
	switch {
	case a.Err() != nil:
		return a.Err()
	case n != 0 && c.Env.clustered():
		return errSelectDB
	case !c.Env.database(n):
		return ErrDBIndex
	}
	c.Client.DB = n
	c.Out.OK()
	return nil
}

func reset(c *Ctx) error {
	c.Env.PubSub.gone(c.Client)
	c.Env.discard(c.Client)
	c.Env.endMonitor(c.Client)
	c.Env.Tracking.end(c.Client.ID)
	c.Env.Reset(c.Client)
	c.Out.Proto = c.Client.Proto
	c.Out.Simple("RESET")
	return nil
}

// onOff reads ON or OFF, which must be the last argument.
func (a *Cursor) onOff() bool {
	word := strings.ToUpper(string(a.Bytes()))
	if word != "ON" && word != "OFF" {
		a.Fail(ErrSyntax)
	}
	return word == "ON"
}
