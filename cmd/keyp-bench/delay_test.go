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
		span := 50 * time.Millisecond // on a busy machine it may be over before a client begins
		await.Until(t, "jobs are done", func() bool {
			l := line{duration: span}
			rate, err := workOff(await.Context(t), l, tested, await.Bound, "work", size)
			if err != nil {
				t.Fatalf("%d at a time: %v", size, err)
			}
			span *= 2
			return rate > 0
		})
	}
	late, err := awaitJobs(await.Context(t), line{duration: 50 * time.Millisecond}, tested, client, await.Bound, "due")
	if err != nil || len(late) == 0 {
		t.Errorf("%d jobs were due, %v", len(late), err)
	}
	if n, err := client.Do(await.Context(t), "KEYP.DELAY", "LEN", "due").Int64(); err != nil || n != 0 {
		t.Errorf("%d jobs are left, %v", n, err)
	}
}
