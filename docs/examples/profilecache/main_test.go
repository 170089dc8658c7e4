package main

import (
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestRun(t *testing.T) {
	rdb := testkit.Keyp(t).Client(3)
	var out strings.Builder
	if err := run(t.Context(), rdb, &out); err != nil {
		t.Fatal(err)
	}
	want := `the database is asked for u1
山田 太郎 taro@example.com
山田 太郎 taro@example.com
the database is asked for u1
山田 太郎 yamada@example.com
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
	if ttl := rdb.TTL(t.Context(), "cache:profile:u1").Val(); ttl > 5*time.Minute ||
		ttl < 4*time.Minute {
		t.Errorf("the cached profile ends in %v, want 5m", ttl)
	}
}

// TestStaleEnds: if the database changes without the cache, the cache returns the new value after
// the time Fresh.
func TestStaleEnds(t *testing.T) {
	var out strings.Builder
	db := memory{map[string]Profile{"u1": {UserID: "u1", Email: "old"}}, &out}
	profiles := Profiles{testkit.Keyp(t).Client(3), db, 50 * time.Millisecond}
	if p, err := profiles.Get(t.Context(), "u1"); err != nil || p.Email != "old" {
		t.Fatalf("%+v, %v", p, err)
	}
	db.profiles["u1"] = Profile{UserID: "u1", Email: "new"}
	await.Until(t, "the new profile shows", func() bool {
		p, err := profiles.Get(t.Context(), "u1")
		return err == nil && p.Email == "new"
	})
}
