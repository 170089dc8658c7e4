package main

import (
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestRun: one session stays logged in, another one logs out, and an administrator ends two
// sessions.
func TestRun(t *testing.T) {
	server := testkit.Keyp(t)
	var out strings.Builder
	if err := run(t.Context(), server.Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want :=
		"sess-phone logged in: true\nsess-tablet logged in: false\nsessions ended by an administrator: 2\n"
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

func TestSessions(t *testing.T) {
	server := testkit.Keyp(t)
	rdb := server.Client(3)
	long, short := Sessions{rdb, time.Hour}, Sessions{rdb, 50 * time.Millisecond}
	mine := Session{UserID: "me", ID: "a", AccessToken: "token",
		CreatedAt: time.Now().UTC().Truncate(time.Second)}
	if err := long.Save(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if err := long.Save(t.Context(), Session{UserID: "you", ID: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := short.Save(t.Context(), Session{UserID: "me", ID: "brief"}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a session ends by itself", func() bool {
		_, ok, err := short.Get(t.Context(), "me", "brief")
		return err == nil && !ok
	})

	server.Kill() // as a power failure would
	server.Start()
	got, ok, err := long.Get(t.Context(), "me", "a")
	if err != nil || !ok || got != mine {
		t.Errorf("after a restart: %+v, %v, %v, want %+v", got, ok, err, mine)
	}
	if ttl := rdb.TTL(t.Context(), "session:me:a").Val(); ttl > time.Hour ||
		ttl < time.Hour-time.Minute {
		t.Errorf("after a restart the session ends in %v", ttl)
	}
	if n, err := long.EndAll(t.Context(), "me"); n != 1 || err != nil {
		t.Errorf("EndAll ends %d, %v, want 1", n, err)
	}
	if _, ok, err := long.Get(t.Context(), "you", "b"); !ok || err != nil {
		t.Errorf("somebody else's session: %v, %v", ok, err)
	}
}
