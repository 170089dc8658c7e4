package server

import (
	"io"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// inside runs commands on a connection from within the process, and returns all replies.
func (ts *testServer) inside(addr, commands string) string {
	ts.t.Helper()
	conn, err := ts.Connect(addr)
	if err != nil {
		ts.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, commands); err != nil {
		ts.t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		ts.t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		ts.t.Fatal(err)
	}
	return string(text)
}

// TestConnect: a connection from within the process is a session like any other. All kinds of its
// commands run in order, and all replies are sent before it ends. It counts for maxclients, and has
// the address of its client.
func TestConnect(t *testing.T) {
	ts := start(t)
	members := strings.Repeat(
		"SADD set 0123456789012345678901234567890123456789 a b c d e f g h\r\n", 1) +
		"SCRIPT LOAD x\r\n"
	text := ts.inside("127.0.0.1:4711", "SET k v\r\nGET k\r\n"+members+
		"EVAL 'for i=1,100000 do redis.call(\"INCR\",\"n\") end return redis.call(\"GET\",\"n\")' 0\r\nCLIENT INFO\r\n")
	if !strings.HasPrefix(text, "+OK\r\n$1\r\nv\r\n:9\r\n") || !strings.Contains(text,
		"100000\r\n") || !strings.Contains(text, "addr=127.0.0.1:4711 laddr=http") {
		t.Errorf("%q", text)
	}
	if text := ts.inside("127.0.0.1:4711", "BLPOP nothing 0\r\nSET k w\r\n"); strings.Contains(text,
		"+OK") {
		t.Errorf("what waits does not end with its connection: %q", text)
	}
	await.Until(t, "the connections are gone", func() bool {
		left := make(chan int, 1)
		ts.Post(func() { left <- len(ts.env.Clients) })
		return await.For(t, "the loop", left) == 0
	})
	if text := ts.inside("127.0.0.1:4711",
		"CONFIG SET maxclients 1\r\nPING\r\n"); text != "+OK\r\n+PONG\r\n" {
		t.Errorf("%q", text)
	}
	first, err := ts.Connect("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := io.WriteString(first, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(first, make([]byte, len("+PONG\r\n"))); err != nil {
		t.Fatal(err)
	}
	second, err := ts.Connect("127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if text, err := io.ReadAll(second); err != nil ||
		!strings.HasPrefix(string(text), "-ERR max number of clients") {
		t.Errorf("beyond maxclients: %q %v", text, err)
	}
}

// TestConnectInPause: a connection from within the process may close its side during CLIENT PAUSE.
// Then its delayed commands do not run, and an error reply says so, whether it closes before or
// after the command waits.
func TestConnectInPause(t *testing.T) {
	ts := start(t)
	const refused = "-ERR CLIENT PAUSE delays this command; neither it nor any behind it was run\r\n"
	if text := ts.inside("", "CLIENT PAUSE 3600000 WRITE\r\n"); text != "+OK\r\n" {
		t.Fatalf("%q", text)
	}
	for commands, want := range map[string]string{
		"GET k\r\nSET k v\r\nECHO behind\r\n":                 "$-1\r\n" + refused,
		"MULTI\r\nSET k v\r\nEXEC\r\n":                        "+OK\r\n" + refused,
		"HELLO 3\r\nCLIENT REPLY OFF\r\nPING\r\nSET k v\r\n":  "",
		"EVAL 'return redis.call(\"SET\",\"k\",\"v\")' 0\r\n": refused,
		"*40001\r\n$4\r\nMSET\r\n" + strings.Repeat("$1\r\nk\r\n$1\r\nv\r\n", 20_000) +
			"PING\r\n": refused,
	} {
		text := ts.inside("", commands)
		if want == "" {
			if _, text, _ = strings.Cut(text, "modules\r\n*0\r\n"); text != "" {
				t.Errorf("%.40q with its replies off: %q", commands, text)
			}
		} else if text != want {
			t.Errorf("%.40q: %q, want %q", commands, text, want)
		}
	}
	conn, err := ts.Connect("127.0.0.1:4711")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "SET k v\r\n"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the command waits", func() (waits bool) {
		ts.onLoop(func(l *loop) {
			waits = slices.ContainsFunc(l.sessions, func(s *session) bool {
				return s != nil && s.state == forPause
			})
		})
		return waits
	})
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || string(text) != refused {
		t.Errorf("whose side ends while it waits: %q %v", text, err)
	}
	if text := ts.inside("", "CLIENT UNPAUSE\r\nEXISTS k\r\n"); text != "+OK\r\n:0\r\n" {
		t.Errorf("%q", text)
	}
}
