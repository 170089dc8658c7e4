package server

import (
	"io"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// inside runs commands on a connection from within the process, and gives all that is replied to its end.
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

// A connection from within the process is a session like any other: its commands run in turn, whatever way they take, and
// all replies have left before it ends. It counts to maxclients, and has the address of its client.
func TestConnect(t *testing.T) {
	ts := start(t)
	members := strings.Repeat("SADD set 0123456789012345678901234567890123456789 a b c d e f g h\r\n", 1) + "SCRIPT LOAD x\r\n"
	text := ts.inside("127.0.0.1:4711", "SET k v\r\nGET k\r\n"+members+"EVAL 'for i=1,100000 do redis.call(\"INCR\",\"n\") end return redis.call(\"GET\",\"n\")' 0\r\nCLIENT INFO\r\n")
	if !strings.HasPrefix(text, "+OK\r\n$1\r\nv\r\n:9\r\n") || !strings.Contains(text, "100000\r\n") || !strings.Contains(text, "addr=127.0.0.1:4711 laddr=http") {
		t.Errorf("%q", text)
	}
	if text := ts.inside("127.0.0.1:4711", "BLPOP nothing 0\r\nSET k w\r\n"); strings.Contains(text, "+OK") {
		t.Errorf("what waits does not end with its connection: %q", text)
	}
	await.Until(t, "the connections are gone", func() bool {
		left := make(chan int, 1)
		ts.Post(func() { left <- len(ts.env.Clients) })
		return await.For(t, "the loop", left) == 0
	})
	if text := ts.inside("127.0.0.1:4711", "CONFIG SET maxclients 1\r\nPING\r\n"); text != "+OK\r\n+PONG\r\n" {
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
	if text, err := io.ReadAll(second); err != nil || !strings.HasPrefix(string(text), "-ERR max number of clients") {
		t.Errorf("beyond maxclients: %q %v", text, err)
	}
}
