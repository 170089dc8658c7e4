package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
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
	want := `worker-1 writes: <nil>
worker-2 asks: the lease is taken
worker-2 writes: <nil>
worker-1 writes late: a later lease has written here
worker-1 renews: the lease is lost
worker-1 records: the lease is lost
worker-2 records: <nil>
the report: by worker-2
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestFence: some workers are slower than their leases, and the server is killed. The tokens of the
// writes that the resource accepts only rise, and each token belongs to one worker.
func TestFence(t *testing.T) {
	server := testkit.Keyp(t)
	r := &Resource{}
	owners := map[int64]string{}
	var mu sync.Mutex
	stale := 0
	for range 3 {
		var wg sync.WaitGroup
		for i := range 4 {
			rdb, owner := server.Client(3), fmt.Sprint("worker-", i)
			wg.Go(func() {
				for range 5 {
					l, err := Acquire(t.Context(), rdb, "l", owner, time.Millisecond, await.Bound/2)
					if err != nil {
						t.Error(err)
						return
					}
					await.Pass(time.Millisecond) // often it is over by now
					mu.Lock()
					if had, ok := owners[l.Token]; ok && had != owner {
						t.Errorf("token %d is of %s and of %s", l.Token, had, owner)
					}
					owners[l.Token] = owner
					if err := r.Write(l.Token, owner); errors.Is(err, ErrStale) {
						stale++
					} else if err != nil {
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		server.Kill()
		server.Start()
	}
	t.Logf("%d tokens, %d writes were too late", len(owners), stale)
	last := r.mu.token
	l, err := Acquire(t.Context(), server.Client(3), "l", "last", time.Minute, await.Bound/2)
	if err != nil || l.Token <= last {
		t.Fatalf("after a restart: %+v after %d, %v", l, last, err)
	}
	if again, err := Acquire(t.Context(), server.Client(3), "l", "last", time.Minute,
		0); err != nil || again.Token != l.Token {
		t.Errorf("after a lost reply: %+v, %v", again, err)
	}
	if err := errors.Join(l.Renew(t.Context(), time.Minute), l.Release(t.Context()),
		l.Release(t.Context())); err != nil {
		t.Error(err)
	}
	if err := l.Renew(t.Context(), time.Minute); !errors.Is(err, ErrLost) {
		t.Errorf("after its release it is renewed: %v", err)
	}
}
