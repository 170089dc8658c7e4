package commands

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Slowlog keeps the latest commands that took long. The zero value records nothing before configure
// is called.
type Slowlog struct {
	limit atomic.Int64 // slowlog-log-slower-than, in µs, plus 1; 0: not configured yet
	mu    struct {
		sync.Mutex
		max   int
		next  int64       // id of the next entry
		ring  []slowEntry // the oldest first
		bytes int         // that the entries take
	}
}

type slowEntry struct {
	id    int64
	at    int64 // Unix ms
	took  time.Duration
	args  []string
	addr  string
	name  string
	total int // arguments, those that were not kept included
	bytes int
}

const (
	slowlogArgs = 32  // arguments kept of a command
	slowlogText = 128 // bytes kept of an argument
	// slowlogMemory bounds the memory of the entries, whatever slowlog-max-len is.
	slowlogMemory = 64 << 20
)

// configure sets slowlog-log-slower-than (in µs; a negative value records nothing) and
// slowlog-max-len.
func (l *Slowlog) configure(slowerThan, maxLen int64) {
	l.limit.Store(max(slowerThan, -1) + 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.max = int(min(maxLen, math.MaxInt32))
	l.trim()
}

// threshold returns the shortest time that is recorded.
func (l *Slowlog) threshold() time.Duration {
	limit := l.limit.Load()
	if limit <= 0 || limit > int64(math.MaxInt64/time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(limit-1) * time.Microsecond
}

func (l *Slowlog) add(c *Ctx, took time.Duration, now int64) {
	e := slowEntry{at: now, took: took, args: slowArgs(c), addr: c.Client.Addr, name: c.Client.Name,
		total: len(c.Args)}
	e.bytes = int(unsafe.Sizeof(e)) + textBytes(e.addr) + textBytes(e.name)
	for _, arg := range e.args {
		e.bytes += textBytes(arg) + int(unsafe.Sizeof(arg))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.mu.next
	l.mu.next++
	l.mu.ring = append(l.mu.ring, e)
	l.mu.bytes += e.bytes
	l.trim()
}

// textBytes returns about the memory of a string, in bytes. The allocator rounds the size up to a
// multiple of 16. Sometimes several short strings share a block of 16 bytes, which textBytes
// ignores.
func textBytes(text string) int { return (len(text) + 15) &^ 15 }

// trim removes the oldest entries over the limits; mu is locked.
func (l *Slowlog) trim() {
	for len(l.mu.ring) > 0 && (len(l.mu.ring) > l.mu.max || l.mu.bytes > slowlogMemory) {
		l.mu.bytes -= l.mu.ring[0].bytes
		l.mu.ring[0] = slowEntry{} // the array behind the slice would keep the strings
		l.mu.ring = l.mu.ring[1:]
	}
}

// slowArgs returns copies of the arguments that the slow log keeps, without secrets.
func slowArgs(c *Ctx) []string {
	n := len(c.Args)
	kept := n
	if n > slowlogArgs {
		kept = slowlogArgs - 1
	}
	args := make([]string, 0, min(n, slowlogArgs))
	for i, arg := range c.Args[:kept] {
		switch {
		case secret(c, i):
			args = append(args, "(redacted)")
		case len(arg) > slowlogText:
			args = append(args, fmt.Sprintf("%s... (%d more bytes)", arg[:slowlogText],
				len(arg)-slowlogText))
		default:
			args = append(args, string(arg))
		}
	}
	if kept < n {
		args = append(args, fmt.Sprintf("... (%d more arguments)", n-kept))
	}
	return args
}

// secret reports whether argument i may be a password, or names a user in a command about users.
func secret(c *Ctx, i int) bool {
	begin := 0
	switch c.Spec.full {
	case "acl|dryrun":
		begin = 3
	case "command|getkeys", "command|getkeysandflags":
		begin = 2
	default:
		return c.Env.secret(c.Spec, c.Args, i)
	}
	if i < begin {
		return false
	}
	call := c.Args[begin:] // it is not run
	spec := c.Env.Table.Of(call)
	return c.Env.secret(spec, call, i-begin)
}

// secret reports the same as the function secret, for a call with the declaration spec. Passwords
// are all arguments of AUTH, the two arguments after AUTH in HELLO, and the value of a secret
// option. Each argument of an unknown command may be a password, too.
func (e *Env) secret(spec *Spec, args [][]byte, i int) bool {
	if spec == nil {
		return i >= 1
	}
	switch spec.full {
	case "auth":
		return i >= 1
	case "hello":
		return i >= 2 && isWord(args[i-1], "AUTH") || i >= 3 && isWord(args[i-2], "AUTH")
	case "migrate":
		options := min(i, 6)
		return i > 6 && (isWord(args[i-1], "AUTH") || isWord(args[i-1], "AUTH2") ||
			i > options+1 && isWord(args[i-2], "AUTH2")) &&
			!slices.ContainsFunc(args[options:i], func(arg []byte) bool {
				return isWord(arg, "KEYS")
			})
	case "acl|setuser", "acl|getuser", "acl|deluser", "acl|dryrun", "command|getkeys",
		"command|getkeysandflags":
		return i >= 2
	case "config|set":
		// If the number of arguments is odd, a name or a value is missing, so any argument may be a
		// value.
		return i >= 3 && (len(args)%2 == 1 || i%2 == 1 && e.Config.Secret(string(args[i-1])))
	}
	return false
}

// latest returns up to n entries, the newest first; n < 0 means all.
func (l *Slowlog) latest(n int64) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.mu.ring)) {
		n = int64(len(l.mu.ring))
	}
	list := make([]slowEntry, 0, n)
	for i := len(l.mu.ring) - 1; len(list) < int(n); i-- {
		list = append(list, l.mu.ring[i])
	}
	return list
}

func (l *Slowlog) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.ring)
}

func (l *Slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ring, l.mu.bytes = nil, 0
}

var slowlogCommands = []Spec{{
	Name: "SLOWLOG", Group: ServerGroup, Since: "2.2.12", Arity: -2,
	Summary: "Shows commands that took long.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "GET", Group: ServerGroup, Since: "2.2.12", Arity: -2,
			Flags: Admin | Loading | Stale, Scope: OnLoop,
			Summary:    "Gives the latest entries.",
			Complexity: "O(N) where N is the number of entries returned",
			History: [][2]string{
				{"4.0.0", "Added client IP address, port and name to the reply."},
				{"8.10.0", "Added the total number of arguments to the reply."},
			},
			Args: []Arg{intArg("count").opt()},
			Tips: []string{tipAllNodes, tipRandom},
			Run:  slowlogGet,
		},
		{
			Name: "LEN", Group: ServerGroup, Since: "2.2.12", Arity: 2,
			Flags: Admin | Loading | Stale, Scope: OnLoop,
			Summary: "Counts the entries.", Complexity: "O(1)",
			Tips: []string{tipAllNodes, tipSum, tipRandom},
			Run:  func(c *Ctx) error { c.Out.Int(int64(c.Env.Slowlog.length())); return nil },
		},
		{
			Name: "RESET", Group: ServerGroup, Since: "2.2.12", Arity: 2,
			Flags: Admin | Loading | Stale, Scope: OnLoop,
			Summary: "Removes all entries.", Complexity: "O(N) where N is the number of entries",
			Tips: []string{tipAllNodes, tipAllSucceeded},
			Run:  func(c *Ctx) error { c.Env.Slowlog.reset(); c.Out.OK(); return nil },
		},
		helpFor("SLOWLOG", ServerGroup, "6.2.0", Loading|Stale,
			"GET [<count>]",
			"    Entries of slow commands, the newest first (default: 10, -1: all). Each has",
			"    id, Unix time, duration in microseconds, arguments, client address and name,",
			"    and how many arguments there were.",
			"LEN", "    The number of entries.",
			"RESET", "    Removes all entries."),
	},
}}

func slowlogGet(c *Ctx) error {
	count := int64(10)
	if len(c.Args) > 3 {
		return errSubcommandArgs(c.Spec.parent.Name, c.Args[1])
	}
	if len(c.Args) == 3 {
		n, ok := ParseInt(c.Arg(2))
		if !ok || n < -1 {
			return Error("ERR count should be greater than or equal to -1")
		}
		count = n
	}
	entries := c.Env.Slowlog.latest(count)
	c.Out.Array(len(entries))
	for _, e := range entries {
		c.Out.Array(7)
		c.Out.Int(e.id)
		c.Out.Int(e.at / 1000)
		c.Out.Int(e.took.Microseconds())
		c.Out.Array(len(e.args))
		for _, arg := range e.args {
			c.Out.BulkString(arg)
		}
		c.Out.BulkString(e.addr)
		c.Out.BulkString(e.name)
		c.Out.Int(int64(e.total))
	}
	return nil
}
