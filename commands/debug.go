package commands

import (
	"math"
	"strconv"
	"strings"
	"time"

	"keyp/internal/clock"
	"keyp/internal/rdb"
)

// This file contains the subcommands of DEBUG. They are for tests, and fail unless the option
// enable-debug-command allows them.

const (
	errDebug       Error = `ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.`
	errSleepTime   Error = "ERR value is not a valid float"
	errClockOffset Error = "ERR this clock can't be shifted"
	errDebugRange  Error = "ERR Out of range database"
	errDebugText   Error = "ERR Not an sds encoded string."
)

const debugFlags = Admin | NoScript | Loading | Stale

var debugCommands = []Spec{{
	Name: "DEBUG", Group: ServerGroup, Since: "1.0.0", Arity: -2, Flags: debugFlags,
	Summary: "Helps to test the server and its clients.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "CLOCK-OFFSET", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Scope:      OnLoop,
			Summary:    "Steps the server's clock: how far it is ahead of the machine's.",
			Complexity: "O(1)",
			Args:       []Arg{intArg("milliseconds")},
			Run:        debugging(debugClockOffset),
		},
		{
			// NoMulti: the command waits for checkpoints, and these wait for the locks of a
			// transaction.
			Name: "COMPACT", Group: ServerGroup, Since: "1.0.0", Arity: 2,
			Flags: debugFlags | NoMulti, Scope: Unlocked,
			Summary:    "Compacts the data file now, while others are served.",
			Complexity: "O(N) in the size of the data file",
			Run:        debugging(debugCompact),
		},
		{
			Name: "SLEEP", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Scope: Unlocked, Escalate: sleepScope,
			Summary: "Holds this connection up; others go on.", Complexity: "O(1)",
			Args: []Arg{doubleArg("seconds")},
			Run:  debugging(debugSleep),
		},
		{
			Name: "SET-ACTIVE-EXPIRE", Group: ServerGroup, Since: "1.0.0", Arity: 3,
			Flags: debugFlags, Scope: OnLoop,
			Summary:    "Turns the removal of expired keys off or on; they are not seen in either case.",
			Complexity: "O(1)",
			Args:       []Arg{intArg("enabled")},
			Run:        debugging(debugActiveExpire),
		},
		{
			Name: "OBJECT", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Summary: "Describes how a key's value is kept.", Complexity: "O(1)",
			Keys: []KeySpec{Key(2, RO)},
			Args: []Arg{keyArg("key")},
			Run:  debugging(debugObject),
		},
		{
			Name: "PANIC", Group: ServerGroup, Since: "1.0.0", Arity: 2, Flags: debugFlags,
			Scope:      OnLoop,
			Summary:    "Fails within the command: an internal error, which only its client sees.",
			Complexity: "O(1)",
			Run:        debugging(func(*Ctx) error { panic("asked for by DEBUG PANIC") }),
		},
		{
			Name: "ERROR", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Scope:   OwnClient,
			Summary: "Replies an error of this text.", Complexity: "O(1)",
			Args: []Arg{stringArg("message")},
			Run:  debugging(func(c *Ctx) error { return Error(errorLine(c.Arg(2))) }),
		},
		{
			Name: "STRINGMATCH-LEN", Group: ServerGroup, Since: "1.0.0", Arity: 4,
			Flags: debugFlags, Scope: OwnClient,
			Summary:    "Matches a string with a pattern as KEYS does.",
			Complexity: "O(N) in the length of the string.",
			Args:       []Arg{patternArg("pattern"), stringArg("string")},
			Run:        debugging(debugMatch),
		},
		{
			Name: "PROTOCOL", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Scope:   OwnClient,
			Summary: "Replies a value of a type of the protocol.", Complexity: "O(1)",
			Args: []Arg{stringArg("type")},
			Run:  debugging(debugProtocol),
		},
		{
			Name: "DIGEST", Group: ServerGroup, Since: "1.0.0", Arity: 2,
			Flags: debugFlags | NoMulti, Scope: Unlocked,
			Summary: "Sums up all data, as Redis does.", Complexity: "O(N) in all data.",
			Run: debugging(debugDigest),
		},
		{
			Name: "DIGEST-VALUE", Group: ServerGroup, Since: "1.0.0", Arity: -2, Flags: debugFlags,
			Summary:    "Sums up the values of keys, as Redis does.",
			Complexity: "O(N) in the values.",
			Keys:       []KeySpec{KeysFrom(2, 1, RO)},
			Args:       []Arg{keyArg("key").opt().many()},
			Run:        debugging(debugDigestValue),
		},
		{
			Name: "RELOAD", Group: ServerGroup, Since: "1.0.0", Arity: -2,
			Flags: debugFlags | NoMulti, Scope: Unlocked,
			Summary:    "Makes a checkpoint, unless NOSAVE is given: what is read later is what is on disk.",
			Complexity: "O(N) in what has changed.",
			Args:       []Arg{word("MERGE").opt(), word("NOFLUSH").opt(), word("NOSAVE").opt()},
			Run:        debugging(debugReload),
		},
		{
			Name: "LOADAOF", Group: ServerGroup, Since: "1.0.0", Arity: 2,
			Flags: debugFlags | NoMulti, Scope: Unlocked,
			Summary: "Makes a checkpoint, as RELOAD does.", Complexity: "O(N) in what has changed.",
			Run: debugging(debugReload),
		},
		{
			Name: "HTSTATS", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Scope:      Counts,
			Summary:    "Counts the keys of a database, and those with a deadline.",
			Complexity: "O(1)",
			Args:       []Arg{intArg("database")},
			Run:        debugging(debugTables),
		},
		{
			Name: "SDSLEN", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Summary: "Says how long a key's name and its string are.", Complexity: "O(1)",
			Keys: []KeySpec{Key(2, RO)},
			Args: []Arg{keyArg("key")},
			Run:  debugging(debugLengths),
		},
		debugNothing("CHANGE-REPL-ID", "There is no replication, and nothing to change."),
		debugNothing("JMAP", "There is no other allocator to report to."),
		helpFor("DEBUG", ServerGroup, "1.0.0", debugFlags,
			"CHANGE-REPL-ID", "    Does nothing: there is no replication.",
			"CLOCK-OFFSET <milliseconds>",
			"    Makes the server's clock differ by that from the machine's, at once.",
			"COMPACT",
			"    Compacts the data file now, as the server does when most of it is unused.",
			"DIGEST", "    A sum of all data, the same as Redis gives.",
			"DIGEST-VALUE <key> [<key> ...]", "    Sums of the values of keys.",
			"ERROR <string>", "    An error of this text.",
			"HTSTATS <database>", "    How many keys there are, and how many with a deadline.",
			"JMAP", "    Does nothing.",
			"LOADAOF", "    Makes a checkpoint.",
			"OBJECT <key>", "    How the key's value is kept.",
			"PANIC",
			"    Fails within the command: its client gets an error, others notice nothing.",
			"PROTOCOL <type>",
			"    A value of a type: string, integer, double, bignum, null, array, set, map,",
			"    attrib, push, verbatim, true, false.",
			"RELOAD [option ...]", "    Makes a checkpoint, unless NOSAVE is given.",
			"SDSLEN <key>", "    How long the key's name and its string are.",
			"STRINGMATCH-LEN <pattern> <string>",
			"    1 where the string matches the pattern, else 0.",
			"SET-ACTIVE-EXPIRE <0|1>",
			"    Whether expired keys are removed by themselves. They are never seen.",
			"SLEEP <seconds>", "    Holds this connection up. Others go on, unlike with Redis."),
	},
}}

// debugging wraps a handler: it fails unless enable-debug-command allows the client DEBUG.
func debugging(run func(*Ctx) error) func(*Ctx) error {
	return func(c *Ctx) error {
		if err := c.Env.debugAllowed(c.Client); err != nil {
			return err
		}
		return run(c)
	}
}

// debugAllowed returns nil if enable-debug-command allows a client DEBUG, or else errDebug.
func (e *Env) debugAllowed(c *Client) error {
	setting := e.Config.String("enable-debug-command")
	if setting == "yes" || setting == "local" && c.local() {
		return nil
	}
	return errDebug
}

// local reports whether the client's address is one of this machine.
func (c *Client) local() bool {
	return strings.HasPrefix(c.Addr, "127.") || strings.HasPrefix(c.Addr, "[::1]:") ||
		strings.HasPrefix(c.Addr, "/")
}

// maxClockOffset bounds DEBUG CLOCK-OFFSET, in ms: ten years, as for debug-clock-offset.
const maxClockOffset = 10 * 365 * 24 * 3600 * 1000

// maxSleep bounds DEBUG SLEEP.
const maxSleep = time.Hour

// sleepScope returns the scope of DEBUG SLEEP. Outside a transaction the session waits; within one
// a task waits.
func sleepScope(c *Ctx) Scope {
	if c.Nested || c.Client.queue != nil {
		return Unlocked
	}
	return OwnClient
}

func debugSleep(c *Ctx) error {
	seconds, ok := ParseFloat(c.Arg(2))
	if !ok {
		return errSleepTime
	}
	length := maxSleep
	if seconds < maxSleep.Seconds() {
		length = time.Duration(math.Max(seconds, 0) * float64(time.Second))
	}
	if !c.Nested && length > 0 {
		ms := (length + time.Millisecond - 1).Milliseconds()
		return c.waitFor(BlockedOn{Timeout: ms, End: func(c *Ctx) { c.Out.OK() }, Works: true})
	}
	clk := c.Env.Clock
	for began := clk.Mono(); ; {
		left := length - (clk.Mono() - began)
		if left <= 0 {
			break
		}
		// Until waits for the wall clock, which may jump. So each wait lasts a second at
		// most.
		reached, stop := clk.Until(clk.Now() + max(1, min(left, time.Second).Milliseconds()))
		<-reached
		stop()
	}
	c.Out.OK()
	return nil
}

// debugClockOffset shifts the server's wall clock, as if an operator had set the machine's. It is
// for tests of the whole server.
func debugClockOffset(c *Ctx) error {
	ms, ok := ParseInt(c.Arg(2))
	if !ok || ms < -maxClockOffset || ms > maxClockOffset {
		return ErrNotInteger
	}
	machine, ok := c.Env.Clock.(*clock.Machine)
	if !ok {
		return errClockOffset
	}
	machine.Shift(ms)
	c.Out.OK()
	return nil
}

func debugCompact(c *Ctx) error {
	if _, _, err := c.Env.Store.Compact(); err != nil {
		return Error("ERR " + err.Error())
	}
	c.Out.OK()
	return nil
}

func debugActiveExpire(c *Ctx) error {
	n, ok := ParseInt(c.Arg(2))
	if !ok {
		return ErrNotInteger
	}
	c.Env.Store.SetActiveExpire(n != 0)
	c.Out.OK()
	return nil
}

func debugObject(c *Ctx) error {
	item, ok := c.Txn.Peek(c.Keys[0])
	if !ok {
		return ErrNoSuchKey
	}
	v, err := dumped(item)
	if err != nil {
		return err
	}
	idle := max(c.Txn.Now()/1000-int64(item.Access()), 0)
	c.Out.Simple("Value at:0x0 refcount:1 encoding:" + item.Encoding() +
		" serializedlength:" + strconv.Itoa(rdb.Length(v)) +
		" lru:" + strconv.FormatUint(uint64(item.Access())&(1<<24-1), 10) +
		" lru_seconds_idle:" + strconv.FormatInt(idle, 10))
	return nil
}

// debugNothing declares a subcommand that does nothing, and says why.
func debugNothing(name, why string) Spec {
	return Spec{
		Name: name, Group: ServerGroup, Since: "1.0.0", Arity: 2, Flags: debugFlags,
		Scope:   OwnClient,
		Summary: "Does nothing. " + why, Complexity: "O(1)",
		Run: debugging(func(c *Ctx) error { c.Out.OK(); return nil }),
	}
}

// errorLine returns the text in a form for an error, which is one line and not empty.
func errorLine(text []byte) string {
	if len(text) == 0 {
		return "ERR"
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(string(text))
}

func debugMatch(c *Ctx) error {
	c.bit(c.matches(c.Arg(2), c.Arg(3)))
	return nil
}

const (
	errDebugType   Error = "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
	errDebugPush   Error = "ERR RESP2 is not supported by this command"
	errDebugReload Error = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."
)

// debugProtocol replies with the same example of each type as Redis.
func debugProtocol(c *Ctx) error {
	three := func() {
		for i := range int64(3) {
			c.Out.Int(i)
		}
	}
	switch strings.ToLower(string(c.Arg(2))) {
	case "string":
		c.Out.BulkString("Hello World")
	case "integer":
		c.Out.Int(12345)
	case "double":
		c.Out.Double(3.141)
	case "bignum":
		c.Out.BigNumber("1234567999999999999999999999999999999")
	case "null":
		c.Out.Null()
	case "array":
		c.Out.Array(3)
		three()
	case "set":
		c.Out.Set(3)
		three()
	case "map":
		c.Out.Map(3)
		for i := range int64(3) {
			c.Out.Int(i)
			c.Out.Bool(i == 1)
		}
	case "attrib":
		if c.Out.Proto >= 3 {
			c.Out.Buf = append(c.Out.Buf, "|1\r\n"...)
			c.Out.BulkString("key-popularity")
			c.Out.Array(2)
			c.Out.BulkString("key:123")
			c.Out.Int(90)
		}
		c.Out.BulkString("Some real reply following the attribute")
	case "push":
		if c.Out.Proto < 3 {
			return errDebugPush
		}
		c.Out.Push(2)
		c.Out.BulkString("server-cpu-usage")
		c.Out.Int(42)
	case "verbatim":
		c.Out.Verbatim("txt", "This is a verbatim\nstring")
	case "true", "false":
		c.Out.Bool(strings.EqualFold(string(c.Arg(2)), "true"))
	default:
		return errDebugType
	}
	return nil
}

func debugReload(c *Ctx) error {
	saves := true
	a := c.Cursor(2)
	for a.More() {
		switch {
		case a.Word("MERGE"), a.Word("NOFLUSH"):
		case a.Word("NOSAVE"):
			saves = false
		default:
			a.Fail(errDebugReload)
		}
	}
	switch {
	case a.Err() != nil:
		return a.Err()
	case saves:
		return save(c)
	}
	c.Out.OK()
	return nil
}

// debugTables replies with the part of Redis's statistics that Keyp has.
func debugTables(c *Ctx) error {
	db, ok := ParseInt(c.Arg(2))
	switch {
	case !ok:
		return ErrNotInteger
	case db < 0 || !c.Env.database(int(min(db, math.MaxInt32))):
		return errDebugRange
	}
	keys, expires := c.view().Count(int(db))
	text := "[Dictionary HT]\n number of elements: " + strconv.FormatInt(keys, 10) +
		"\n[Expires HT]\n number of elements: " + strconv.FormatInt(expires, 10) + "\n"
	c.Out.Verbatim("txt", text)
	return nil
}

// debugLengths replies with the lengths in Redis's form. Names and strings have no spare room in
// Keyp.
func debugLengths(c *Ctx) error {
	item, ok := c.Txn.Peek(c.Keys[0])
	if !ok {
		return ErrNoSuchKey
	}
	value, err := item.String()
	if err != nil || item.Encoding() == "int" {
		return errDebugText
	}
	key, text := strconv.Itoa(len(c.Keys[0].Name)), strconv.Itoa(len(value))
	c.Out.Simple("key_sds_len:" + key + ", key_sds_avail:0, key_zmalloc: " + key +
		", val_sds_len:" + text + ", val_sds_avail:0, val_zmalloc: " + text)
	return nil
}
