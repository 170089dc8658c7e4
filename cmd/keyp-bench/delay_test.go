package main

import (
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestDelayWork: jobs are done, and those that are due later all come, none before it is due.
func TestDelayWork(t *testing.T) {
	server := testkit.Keyp(t)
	tested := &target{addr: server.Addr()}
	client := tested.dial(await.Bound)
	defer client.Close()
	for _, size := range []int{1, delayBatch} {
		if rate, err := workOff(await.Context(t), line{duration: 50 * time.Millisecond}, tested, await.Bound, "work", size); err != nil || rate == 0 {
			t.Errorf("%d at a time: %v a second, %v", size, rate, err)
		}
	}
	late, err := awaitJobs(await.Context(t), line{duration: 50 * time.Millisecond}, tested, client, await.Bound, "due")
	if err != nil || len(late) == 0 {
		t.Errorf("%d jobs were due, %v", len(late), err)
	}
	if n, err := client.Do(await.Context(t), "KEYP.DELAY", "LEN", "due").Int64(); err != nil || n != 0 {
		t.Errorf("%d jobs are left, %v", n, err)
	}
}
