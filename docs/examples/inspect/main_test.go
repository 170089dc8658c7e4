package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want := `keys: 5
session:* 2
blacklist:* 1
cache:* 1
rate:* 1
session:u1:a lives for 1h0m0s
session:u2:b lives for 2h0m0s
cache:profile:u1 lives for ever
session:u3:c does not exist
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestCountMany: a walk with many steps counts every key.
func TestCountMany(t *testing.T) {
	rdb := testkit.Keyp(t).Client(3)
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 5000 {
			p.Set(t.Context(), fmt.Sprint("session:", i), "", 0)
			p.Set(t.Context(), fmt.Sprint("cache:", i), "", 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Count(t.Context(), rdb, "session:*"); n != 5000 || err != nil {
		t.Errorf("%d keys, %v, want 5000", n, err)
	}
}
