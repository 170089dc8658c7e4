package commands

import (
	"strings"
	"testing"
)

// shown returns the text that a monitor got since the last call, without line ends.
func (f *fakeConn) shown() string {
	text := strings.ReplaceAll(strings.Join(f.pushed, ""), "\r\n", "\n")
	f.pushed = nil
	return strings.TrimSuffix(text, "\n")
}

func TestMonitor(t *testing.T) {
	h, _, _, other := hosted(t)
	run := func(line string, want ...string) {
		t.Helper()
		h.run(line)
		h.ctx.RunEmitted()
		if got := other.shown(); got != strings.Join(want, "\n") {
			t.Errorf("%s\n  shown %s\n  want  %s", line, got, strings.Join(want, "\n"))
		}
	}
	me := h.client
	as := func(c *Client) { h.client, h.ctx.Client = c, c }
	run("does SET before 1")
	as(h.env.Clients[2])
	run("MONITOR -> +OK", "")
	h.raw([]byte("monitor"))
	if len(h.ctx.Out.Buf) > 0 {
		t.Errorf("a second MONITOR answers %q", h.ctx.Out.Buf)
	}
	run("GET a -> -ERR Replica can't interact with the keyspace")
	run("SET a 1 -> -ERR Replica can't interact with the keyspace")
	run("MONITOR x -> -ERR wrong number of arguments for 'monitor' command")
	run("ECHO a -> \"a\"", `+1700000000.000000 [3 127.0.0.1:1002] "ECHO" "a"`)
	as(me)
	run("SET a 1 -> +OK", `+1700000000.000000 [0 127.0.0.1:1001] "SET" "a" "1"`)
	run("advance 1234ms")
	run("select 9")
	run(`GET "\x00\"\\\n\r\t\a\b ~\x7f\xff" -> nil`,
		`+1700000001.234000 [9 127.0.0.1:1001] "GET" "\x00\"\\\n\r\t\a\b ~\x7f\xff"`)
	run("SELECT 0 -> +OK", `+1700000001.234000 [0 127.0.0.1:1001] "SELECT" "0"`)
	run("LPUSH a x -> -WRONGTYPE Operation against a key holding the wrong kind of value",
		`+1700000001.234000 [0 127.0.0.1:1001] "LPUSH" "a" "x"`)
	run("AUTH secret -> -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
		`+1700000001.234000 [0 127.0.0.1:1001] "AUTH" "(redacted)"`)
	run("HELLO 2 AUTH a b SETNAME c -> -WRONGPASS invalid username-password pair or user is disabled.",
		`+1700000001.234000 [0 127.0.0.1:1001] "HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "c"`)
	// MONITOR does not show commands that did not run, or administrative commands.
	run("GET -> -ERR wrong number of arguments for 'get' command")
	run("CLIENT NONE -> -ERR unknown subcommand 'NONE'. Try CLIENT HELP.")
	run("does CONFIG GET save")
	run("does SLOWLOG LEN")
	run("does CLIENT LIST TYPE normal")
	run("does CLIENT ID", `+1700000001.234000 [0 127.0.0.1:1001] "CLIENT" "ID"`)
	h.client.Addr = "/run/keyp.sock:0"
	run("PING -> +PONG", `+1700000001.234000 [0 unix:/run/keyp.sock] "PING"`)
	if list := h.do("CLIENT", "LIST", "ID", "2"); !strings.Contains(list, " flags=O ") {
		t.Errorf("the monitor is %s", list)
	}
	h.env.Clients[2].Reply = ReplyOff
	run("PING -> +PONG")
	h.env.Clients[2].Reply = ReplyOn
	as(h.env.Clients[2])
	run("RESET -> +RESET")
	run("does SET a 2")
	run("MONITOR -> +OK")
	as(me)
	run("PING -> +PONG", `+1700000001.234000 [0 unix:/run/keyp.sock] "PING"`)
	// A transaction's commands are shown when they run, and EXEC after them.
	h.client.Addr = "127.0.0.1:1001"
	for _, line := range []string{"MULTI -> +OK", "SET a 3 -> +QUEUED", "MONITOR -> +QUEUED",
		"CONFIG GET save -> +QUEUED", "GET a -> +QUEUED"} {
		run(line,
			map[bool][]string{
				true: {`+1700000001.234000 [0 127.0.0.1:1001] "MULTI"`}}[strings.HasPrefix(line,
				"MULTI")]...)
	}
	run(`EXEC -> [+OK, -ERR MONITOR isn't allowed for DENY BLOCKING client, ["save", ""], "3"]`,
		`+1700000001.234000 [0 127.0.0.1:1001] "SET" "a" "3"`,
		`+1700000001.234000 [0 127.0.0.1:1001] "GET" "a"`,
		`+1700000001.234000 [0 127.0.0.1:1001] "EXEC"`)
	gone := h.env.Clients[2]
	h.env.Gone(gone)
	h.env.Gone(gone)
	run("PING -> +PONG")
	if h.env.monitored.Load() {
		t.Error("nobody monitors any more, and commands are still written out")
	}
}

func TestMonitorCostsNothingWithoutMonitors(t *testing.T) {
	h := newHarness(t)
	c := &h.ctx
	c.Args = [][]byte{[]byte("GET"), []byte("a")}
	c.Env, c.Spec = h.env, h.env.Table.Lookup(c.Args[0])
	if n := testing.AllocsPerRun(100, func() { h.env.feedMonitors(c) }); n != 0 ||
		len(c.emitted) > 0 {
		t.Errorf("%.0f allocations, %d messages", n, len(c.emitted))
	}
}
