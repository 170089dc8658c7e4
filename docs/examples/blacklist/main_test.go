package main

import (
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
)

// TestRun: the example revokes two tokens. Each one is on the list for its remaining life.
func TestRun(t *testing.T) {
	rdb := testkit.Keyp(t).Client(3)
	var out strings.Builder
	if err := run(t.Context(), rdb, &out); err != nil {
		t.Fatal(err)
	}
	if want :=
		"access token 7f3d9a1b revoked: true\naccess token 2c8e4f5a revoked: false\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
	for key, want := range map[string]time.Duration{
		"blacklist:access:7f3d9a1b":  15 * time.Minute,
		"blacklist:refresh:9b1d6e8c": 7 * 24 * time.Hour,
	} {
		if got := rdb.TTL(t.Context(), key).Val(); got > want || got < want-time.Minute {
			t.Errorf("%s ends in %v, want %v", key, got, want)
		}
	}
}

func TestRevokedUntilExpiry(t *testing.T) {
	list := Blacklist{testkit.Keyp(t).Client(3)}
	if err := list.Revoke(t.Context(), Access, "old", time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if revoked, err := list.Revoked(t.Context(), Access, "old"); revoked || err != nil {
		t.Errorf("a token that has expired is on the list: %v, %v", revoked, err)
	}
	expires := time.Now().Add(100 * time.Millisecond)
	if err := list.Revoke(t.Context(), Access, "id", expires); err != nil {
		t.Fatal(err)
	}
	for {
		asked := time.Now()
		revoked, err := list.Revoked(t.Context(), Access, "id")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		if !revoked {
			// The deadline is a whole number of milliseconds.
			if early := expires.Truncate(time.Millisecond).Sub(now); early > 0 {
				t.Errorf("the entry ended %v before its token", early)
			}
			break
		}
		if late := asked.Sub(expires); late > 0 {
			t.Fatalf("the entry is there %v after its token", late)
		}
	}
}
