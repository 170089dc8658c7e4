package main

import (
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
)

var noon = time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), noon, &out); err != nil {
		t.Fatal(err)
	}
	if want := "active today: 10, of them yesterday too: 5\n"; out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestSeen: after the server was killed, it still has the users, and the deadline that the first of
// them set.
func TestSeen(t *testing.T) {
	server := testkit.Keyp(t)
	days := Days{server.Client(3)}
	users := []int64{0, 7, 1000, 5_000_000}
	for _, user := range users {
		if err := days.Seen(t.Context(), user, noon); err != nil {
			t.Fatal(err)
		}
	}
	at := days.Redis.PExpireTime(t.Context(), key(noon)).Val()
	server.Kill()
	server.Start()
	for _, user := range users {
		if ok, err := days.Active(t.Context(), user, noon); !ok || err != nil {
			t.Errorf("user %d was active: %v, %v", user, ok, err)
		}
	}
	if ok, err := days.Active(t.Context(), 8, noon); ok || err != nil {
		t.Errorf("user 8 was active: %v, %v", ok, err)
	}
	if n, err := days.Count(t.Context(), noon); n != int64(len(users)) || err != nil {
		t.Errorf("%d users were active, %v", n, err)
	}
	if again := days.Redis.PExpireTime(t.Context(), key(noon)).Val(); again != at || at <= 0 {
		t.Errorf("the deadline moved from %v to %v", at, again)
	}
}
