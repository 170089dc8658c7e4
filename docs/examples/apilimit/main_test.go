package main

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestRun: of three requests on one day, the example admits two and refuses the third.
func TestRun(t *testing.T) {
	var out strings.Builder
	// The test uses the next day, so that midnight does not pass while it runs.
	if err := run(t.Context(), testkit.Keyp(t).Client(3), time.Now().Add(24*time.Hour),
		&out); err != nil {
		t.Fatal(err)
	}
	want := `request 1: allowed, 1 more today
request 2: allowed, 0 more today
request 3: refused by limit 2, 0 more today
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestKills: fifty clients ask at once while the server is killed again and again. No more requests
// are admitted than allowed. All requests with a positive reply still count after each restart.
func TestKills(t *testing.T) {
	const clients, rounds, perDay = 50, 4, 1000
	server := testkit.Keyp(t)
	tomorrow := time.Now().Add(24 * time.Hour)
	var admitted atomic.Int64
	for range rounds {
		limiter := Limiter{server.Client(3), perDay, 1_000_000, perDay}
		var answered atomic.Int64
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for {
					v, err := limiter.Allow(t.Context(), "c", tomorrow)
					if err != nil {
						return // killed
					}
					if !v.Allowed && v.Limit != 2 {
						t.Errorf("limit %d refuses", v.Limit)
					}
					if v.Allowed {
						admitted.Add(1)
					}
					answered.Add(1)
				}
			})
		}
		await.Until(t, "the clients are at work", func() bool { return answered.Load() >= 300 })
		server.Kill()
		wg.Wait()
		server.Start()
		// Requests that were admitted without a reply count, too.
		reply, err := server.Client(3).Do(t.Context(), "KEYP.LIMIT", "PEEK", "api:c", 1,
			"TOKENS", perDay, 1_000_000, 1000, "UNTIL", perDay,
			tomorrow.UTC().Truncate(24*time.Hour).Add(24*time.Hour).UnixMilli()).Slice()
		if err != nil {
			t.Fatal(err)
		}
		used := perDay - reply[3].([]any)[1].(int64)
		if n := admitted.Load(); n > perDay || n > used {
			t.Errorf("%d are admitted, %d count after a restart, %d are allowed", n, used, perDay)
		}
	}
	// After each kill, every client may lose the reply to its last request.
	if n := admitted.Load(); n < perDay-clients*rounds {
		t.Errorf("%d are admitted of the %d that are allowed", n, perDay)
	}
}
