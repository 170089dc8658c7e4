package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
	"keyp/internal/testkit/await"
)

func expiredMessage(key string) string {
	return fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(expiredChannel), expiredChannel, len(key), key)
}

// TestListenExpired: each key counts once, at its own deadline, and what is wrong is seen.
func TestListenExpired(t *testing.T) {
	deadlines := load.Deadlines{Keys: 3, From: clock.System.Now() - 1000, Over: 600}
	early := load.Deadlines{Keys: 3, From: clock.System.Now() + 100_000, Over: 600}
	all := expiredMessage(load.Key(load.TTLPrefix, 0)) + expiredMessage(load.Key(load.TTLPrefix, 1)) + expiredMessage(load.Key(load.TTLPrefix, 2))
	for _, tt := range []struct {
		name      string
		deadlines load.Deadlines
		sent      string
		wrong     int64
		says      string
	}{
		{"right", deadlines, expiredMessage("other") + all, 0, ""},
		{"twice", deadlines, expiredMessage(load.Key(load.TTLPrefix, 1)) + all, 1, "expired twice"},
		{"early", early, all, 3, "before its deadline"},
		{"no message", deadlines, "*1\r\n$4\r\nwhat\r\n" + all, 1, "is no message"},
	} {
		heard, err := listenExpired(listenerOf(t, tt.sent), tt.deadlines)
		if err != nil || heard.wrong != tt.wrong || heard.lateness.Count() != 3 || !strings.Contains(fmt.Sprint(heard.first), tt.says) {
			t.Errorf("%s: %v, %d wrong, the first %v, %d counted", tt.name, err, heard.wrong, heard.first, heard.lateness.Count())
		}
	}
	if _, err := listenExpired(listenerOf(t, expiredMessage(load.Key(load.TTLPrefix, 0))), deadlines); err == nil {
		t.Error("missing events are not missed")
	}
}

// listenerOf is a client of a server that says this and then ends.
func listenerOf(t *testing.T, says string) *wire.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, says) // a client that is gone needs nothing
			_ = conn.Close()
		}
		_ = listener.Close()
	}()
	client, err := wire.Dial(context.Background(), listener.Addr().String(), await.Bound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
