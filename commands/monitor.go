package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	errMonitorNested Error = "ERR MONITOR isn't allowed for DENY BLOCKING client"
	errMonitorData   Error = "ERR Replica can't interact with the keyspace"
)

var monitorCommands = []Spec{{
	Name: "MONITOR", Group: ServerGroup, Since: "1.0.0", Arity: 1,
	Flags: Admin | NoScript | Loading | Stale, Scope: OnLoop,
	Summary: "Shows every command that the server runs, as it runs.", Complexity: "O(1)",
	Run: monitor,
}}

// monitor replies only once: a second MONITOR gets no reply, as in Redis.
func monitor(c *Ctx) error {
	if c.Nested {
		return errMonitorNested
	}
	if c.Client.Monitor {
		return nil
	}
	e := c.Env
	c.Client.Monitor = true
	e.monitors = append(e.monitors, c.Client)
	e.monitored.Store(true)
	c.Out.OK()
	return nil
}

// endMonitor ends what MONITOR began. Only the loop calls it.
func (e *Env) endMonitor(c *Client) {
	if c.Monitor {
		c.Monitor = false
		e.monitors = slices.DeleteFunc(e.monitors, func(other *Client) bool { return other == c })
		e.monitored.Store(len(e.monitors) > 0)
	}
}

// feedMonitors shows a command to the monitors, after its changes are durable: no monitor may see a
// command that a crash undid. Commands of administration are not shown.
func (e *Env) feedMonitors(c *Ctx) {
	if !c.Spec.Is(Admin) && !c.Spec.Is(SkipMonitor) {
		c.showMonitors()
	}
}

// showMonitors is feedMonitors for a command that calls it at a moment of its own. A script is
// shown before the commands that it calls.
func (c *Ctx) showMonitors() {
	e := c.Env
	if !e.monitored.Load() {
		return
	}
	line := monitorLine(c, e.Clock.Micros())
	c.Emit(len(line), func(lsn uint64) {
		for _, other := range e.monitors {
			if other.Conn != nil && other.Reply != ReplyOff {
				other.Conn.Push(lsn, line)
			}
		}
	})
}

// monitorLine returns the line that MONITOR shows for a command; now is in Unix microseconds.
func monitorLine(c *Ctx, now int64) []byte {
	from := c.Client.Addr
	if strings.HasPrefix(from, "/") {
		from = "unix:" + strings.TrimSuffix(from, ":0")
	}
	line := fmt.Appendf(nil, "+%d.%06d [%d %s]", now/1_000_000, now%1_000_000, c.Client.DB, from)
	size := 0
	for _, arg := range c.Args {
		size += len(" \"\"") + len(arg)
	}
	line = slices.Grow(line, size+len("\r\n"))
	for i, arg := range c.Args {
		line = append(line, ' ')
		if secret(c, i) {
			arg = []byte("(redacted)")
		}
		line = appendQuoted(line, arg)
	}
	return append(line, '\r', '\n')
}

// appendQuoted writes text as a C string in ASCII.
func appendQuoted(b, text []byte) []byte {
	const escapes = "\n\r\t\a\b"
	b = append(b, '"')
	plain := 0 // where those begin that stand for themselves
	for i, ch := range text {
		if ch >= ' ' && ch <= '~' && ch != '\\' && ch != '"' {
			continue
		}
		b = append(b, text[plain:i]...)
		plain = i + 1
		switch at := strings.IndexByte(escapes, ch); {
		case ch == '\\' || ch == '"':
			b = append(b, '\\', ch)
		case at >= 0:
			b = append(b, '\\', "nrtab"[at])
		default:
			b = append(b, '\\', 'x')
			if ch < 16 {
				b = append(b, '0')
			}
			b = strconv.AppendUint(b, uint64(ch), 16)
		}
	}
	return append(append(b, text[plain:]...), '"')
}
