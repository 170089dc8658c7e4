package main

import (
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want := "before a request it lasts for 10m0s\nafter a request it lasts for 30m0s\n" +
		"a session without an end: POLICY the policy 'logins' requires a deadline\n"
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

// TestLongest: a session that is used all the time expires after its longest time.
func TestLongest(t *testing.T) {
	server := testkit.Keyp(t)
	sessions := Sessions{server.Client(3), 1500 * time.Millisecond, 3 * time.Second}
	if err := sessions.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sessions.Save(t.Context(), "a", "ada"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the session ends", func() bool {
		_, ok, err := sessions.User(t.Context(), "a")
		return err == nil && !ok
	})
}

// TestKilled: the policy and the remaining time of each session survive a crash.
func TestKilled(t *testing.T) {
	server := testkit.Keyp(t)
	sessions := Sessions{server.Client(3), time.Hour, 12 * time.Hour}
	if err := sessions.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sessions.Save(t.Context(), "a", "ada"); err != nil {
		t.Fatal(err)
	}
	if err := sessions.Redis.Expire(t.Context(), key("a"), time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Start()
	if left, err := sessions.Left(t.Context(), "a"); err != nil || left > time.Minute {
		t.Fatalf("%v are left, %v", left, err)
	}
	if user, ok, err := sessions.User(t.Context(), "a"); err != nil || !ok || user != "ada" {
		t.Fatalf("%q, %v, %v", user, ok, err)
	}
	if left, err := sessions.Left(t.Context(), "a"); err != nil || left < 55*time.Minute {
		t.Errorf("%v are left after a request, %v", left, err)
	}
}
