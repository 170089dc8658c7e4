package commands

import (
	"math"
	"strconv"
	"strings"
	"time"

	"keyp/internal/clock"
	"keyp/internal/rdb"
)

const (
	errDebug       Error = `ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.`
	errSleepTime   Error = "ERR value is not a valid float"
	errClockOffset Error = "ERR this clock can't be shifted"
)

const debugFlags = Admin | NoScript | Loading | Stale

var debugCommands = []Spec{{
	Name: "DEBUG", Group: ServerGroup, Since: "1.0.0", Arity: -2, Flags: debugFlags,
	Summary: "Helps to test the server and its clients.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "CLOCK-OFFSET", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags, Scope: OnLoop,
			Summary: "Steps the server's clock: how far it is ahead of the machine's.", Complexity: "O(1)",
			Args: []Arg{intArg("milliseconds")},
			Run:  debugging(debugClockOffset),
		},
		{
			// NoMulti: it waits for checkpoints, which wait for what a transaction has locked.
			Name: "COMPACT", Group: ServerGroup, Since: "1.0.0", Arity: 2, Flags: debugFlags | NoMulti, Scope: Unlocked,
			Summary: "Compacts the data file now, while others are served.", Complexity: "O(N) in the size of the data file",
			Run: debugging(debugCompact),
		},
		{
			Name: "SLEEP", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags, Scope: Unlocked, Escalate: sleepScope,
			Summary: "Holds this connection up; others go on.", Complexity: "O(1)",
			Args: []Arg{doubleArg("seconds")},
			Run:  debugging(debugSleep),
		},
		{
			Name: "SET-ACTIVE-EXPIRE", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags, Scope: OnLoop,
			Summary: "Turns the removal of expired keys off or on; they are not seen in either case.", Complexity: "O(1)",
			Args: []Arg{intArg("enabled")},
			Run:  debugging(debugActiveExpire),
		},
		{
			Name: "OBJECT", Group: ServerGroup, Since: "1.0.0", Arity: 3, Flags: debugFlags,
			Summary: "Describes how a key's value is kept.", Complexity: "O(1)",
			Keys: []KeySpec{Key(2, RO)},
			Args: []Arg{keyArg("key")},
			Run:  debugging(debugObject),
		},
		{
			Name: "PANIC", Group: ServerGroup, Since: "1.0.0", Arity: 2, Flags: debugFlags, Scope: OnLoop,
			Summary: "Fails within the command: an internal error, which only its client sees.", Complexity: "O(1)",
			Run: debugging(func(*Ctx) error { panic("asked for by DEBUG PANIC") }),
		},
		helpFor("DEBUG", ServerGroup, "1.0.0", debugFlags,
			"CLOCK-OFFSET <milliseconds>", "    Makes the server's clock differ by that from the machine's, at once.",
			"COMPACT", "    Compacts the data file now, as the server does when most of it is unused.",
			"OBJECT <key>", "    How the key's value is kept.",
			"PANIC", "    Fails within the command: its client gets an error, others notice nothing.",
			"SET-ACTIVE-EXPIRE <0|1>", "    Whether expired keys are removed by themselves. They are never seen.",
			"SLEEP <seconds>", "    Holds this connection up. Others go on, unlike with Redis."),
	},
}}

// debugging lets a handler run for those whom enable-debug-command allows.
func debugging(run func(*Ctx) error) func(*Ctx) error {
	return func(c *Ctx) error {
		switch c.Env.Config.String("enable-debug-command") {
		case "yes":
		case "local":
			if !c.Client.local() {
				return errDebug
			}
		default:
			return errDebug
		}
		return run(c)
	}
}

// local says whether the client's address is of this machine.
func (c *Client) local() bool {
	return strings.HasPrefix(c.Addr, "127.") || strings.HasPrefix(c.Addr, "[::1]:") || strings.HasPrefix(c.Addr, "/")
}

// maxClockOffset bounds DEBUG CLOCK-OFFSET, in ms: ten years, as for debug-clock-offset.
const maxClockOffset = 10 * 365 * 24 * 3600 * 1000

// maxSleep bounds DEBUG SLEEP.
const maxSleep = time.Hour

// sleepScope is that of DEBUG SLEEP, which its session waits for, but in a transaction the job.
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
		// The wall clock may jump, so it is looked at again after a second at most.
		reached, stop := clk.Until(clk.Now() + max(1, min(left, time.Second).Milliseconds()))
		<-reached
		stop()
	}
	c.Out.OK()
	return nil
}

// debugClockOffset steps the wall clock as an operator of the machine would, for tests of
// the whole server.
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
