package main

import (
	"errors"
	"slices"
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
	if want :=
		"first worker: issue 123\nsecond worker: issue 124\nthird worker: issue 0\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

// TestEachIssueOnce: no issue is given twice, however many agents ask at once. A lock is still
// there after the server was killed.
func TestEachIssueOnce(t *testing.T) {
	server := testkit.Keyp(t)
	locks := Locks{server.Client(3), Timeout}
	issues := []int{1, 2, 3, 4, 5}
	var mu sync.Mutex
	var assigned []int
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			issue, err := locks.Assign(t.Context(), issues, func(int) error { return nil })
			if err != nil {
				t.Error(err)
			}
			if issue != 0 {
				mu.Lock()
				defer mu.Unlock()
				assigned = append(assigned, issue)
			}
		})
	}
	wg.Wait()
	slices.Sort(assigned)
	if !slices.Equal(assigned, issues) {
		t.Errorf("20 agents were given %v, want each of %v once", assigned, issues)
	}
	server.Kill()
	server.Start()
	if ok, err := locks.Acquire(t.Context(), 1); ok || err != nil {
		t.Errorf("after a restart the lock is free: %v, %v", ok, err)
	}
	if value := locks.Redis.Get(t.Context(), "issue_lock_1").Val(); value != "locked" {
		t.Errorf("the lock's value is %q", value)
	}
	if ttl := locks.Redis.TTL(t.Context(), "issue_lock_1").Val(); ttl > Timeout ||
		ttl < Timeout-time.Minute {
		t.Errorf("the lock ends in %v, want %v", ttl, Timeout)
	}
}

func TestLockEnds(t *testing.T) {
	rdb := testkit.Keyp(t).Client(3)
	locks := Locks{rdb, Timeout}
	failed := errors.New("the label could not be set")
	if _, err := locks.Assign(t.Context(), []int{7}, func(int) error {
		return failed
	}); !errors.Is(err, failed) {
		t.Errorf("Assign: %v", err)
	}
	if ok, err := locks.Acquire(t.Context(), 7); !ok || err != nil {
		t.Errorf("after a failure the issue is still locked: %v, %v", ok, err)
	}
	brief := Locks{rdb, 50 * time.Millisecond} // its holder dies
	if ok, err := brief.Acquire(t.Context(), 8); !ok || err != nil {
		t.Fatal(ok, err)
	}
	await.Until(t, "the lock of a dead worker ends", func() bool {
		ok, err := locks.Acquire(t.Context(), 8)
		return ok && err == nil
	})
}
