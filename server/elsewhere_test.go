package server

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
)

// silentTarget is a server that accepts connections and never replies. It gives the beginning of a MIGRATE of the key k to it,
// with an hour of time.
func silentTarget(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "MIGRATE 127.0.0.1 " + port + " k 0 3600000\n"
}

// migrations waits until so many of the jobs that wait for other servers run.
func (ts *testServer) migrations(n int) {
	ts.t.Helper()
	await.Until(ts.t, fmt.Sprint(n, " jobs wait for another server"), func() (yes bool) {
		ts.onLoop(func(l *loop) { yes = len(l.jobs.places[commands.Elsewhere].running) == n })
		return yes
	})
}

// TestElsewhereTakesNoPlace: however many wait for a server that does not reply, what others need goes on, and each can be
// seen.
func TestElsewhereTakesNoPlace(t *testing.T) {
	ts := start(t)
	other := ts.dial()
	other.do("SET k v")
	migrate := silentTarget(t)
	for range maxUnlocked + 1 {
		ts.dial().send(migrate)
	}
	ts.migrations(maxUnlocked)
	for command, want := range map[string]string{
		"SCAN 0": "*2 0 *1 k", "KEYS *": "*1 k", "RANDOMKEY": "k", "SAVE": "+OK", "SET k w": "+OK", "CONFIG REWRITE": "-ERR The server is running without a config file",
	} {
		if got := other.do(command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
	if got := other.do("CLIENT LIST"); strings.Count(got, "cmd=migrate ") != maxUnlocked+1 {
		t.Errorf("CLIENT LIST: %s", got)
	}
}

// TestOperatorsHaveAPlace: what an operator needs begins although clients have all places of theirs.
func TestOperatorsHaveAPlace(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use, func(e *commands.Env) { e.Table.Lookup([]byte("SAVE")).Flags |= commands.Admin })
	g.fill(ts)
	defer close(g.gate)
	if got := ts.dial().do("DEBUG DIGEST"); got != "+"+strings.Repeat("0", 40) {
		t.Errorf("DEBUG DIGEST: %s", got)
	}
	ts.dial().send("SAVE\n")
	await.For(t, "SAVE runs", g.runs)
}

// TestElsewhereEndsWithItsClient: a command that waits for another server ends when its client has left, or is killed, and
// the one that waits for its place begins.
func TestElsewhereEndsWithItsClient(t *testing.T) {
	for name, leave := range map[string]func(ts *testServer, c *client){
		"closed": func(_ *testServer, c *client) { _ = c.Close() },
		"reset":  func(_ *testServer, c *client) { reset(c) },
		"killed": func(ts *testServer, c *client) { ts.dial().do("CLIENT KILL ADDR " + c.LocalAddr().String()) },
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t)
			other := ts.dial()
			other.do("SET k v")
			migrate := silentTarget(t)
			var clients []*client
			for range maxUnlocked + 2 {
				clients = append(clients, ts.dial())
				clients[len(clients)-1].send(migrate)
			}
			ts.migrations(maxUnlocked)
			for _, c := range clients {
				leave(ts, c)
			}
			ts.noJobRuns()
			if got := other.do("GET k"); got != "v" {
				t.Errorf("the key: %s", got)
			}
		})
	}
}

// TestElsewhereForHalfAConnection: a client that ends its side when it has sent MIGRATE is replied to by a target that replies.
func TestElsewhereForHalfAConnection(t *testing.T) {
	ts, target := start(t), start(t)
	_, port, _ := net.SplitHostPort(target.Addrs()[0])
	c := ts.dial()
	c.do("SET k v")
	c.send("MIGRATE 127.0.0.1 " + port + " k 0 3600000\n")
	shut(c)
	c.expect("+OK", "(eof)")
	if got := target.dial().do("GET k"); got != "v" {
		t.Errorf("there: %s", got)
	}
}

// TestPauseEndsElsewhere: CLIENT PAUSE does not wait for another server for longer than a moment, nor does the stop.
func TestPauseEndsElsewhere(t *testing.T) {
	ts := start(t)
	migrate := silentTarget(t)
	other, moves := ts.dial(), ts.dial()
	other.do("SET k v")
	const ended = "-IOERR ended before the target had replied, since its client has left, or CLIENT PAUSE or a stop waited for it: keys that are still here may be there, too"
	moves.send(migrate)
	ts.migrations(1)
	if got := other.do("CLIENT PAUSE 1000000 WRITE"); got != "+OK" {
		t.Error(got)
	}
	moves.expect(ended)
	if got := other.do("GET k"); got != "v" {
		t.Error(got)
	}
	other.do("CLIENT UNPAUSE")
	moves.send(migrate)
	ts.migrations(1)
	ts.onLoop(func(l *loop) {
		l.stop()
		l.hurry()
	})
	moves.expect(ended)
}
