package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/testkit"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want := `first takes "to Ann" and dies
second sends "to Bob"
second sends "to Eve"
first is back and returns 1
second sends "to Ann"
`
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

// TestNoJobIsLost: workers die and the server is killed while they work, but every job is done. A
// job whose worker did not die is done once.
func TestNoJobIsLost(t *testing.T) {
	const jobs, workers = 200, 5
	server := testkit.Keyp(t)
	q := Queue{server.Client(3), "jobs"}
	var mu sync.Mutex
	done := map[string]int{}
	work := func(dies int) {
		var all sync.WaitGroup
		var added atomic.Bool // on a busy machine a second may pass between two jobs
		for w := range workers {
			all.Go(func() {
				worker := fmt.Sprint("worker", w)
				if _, err := q.Return(t.Context(), worker); err != nil {
					t.Error(err)
					return
				}
				for n := 0; ; n++ {
					last := added.Load()
					job, ok, err := q.Take(t.Context(), worker, time.Second)
					if err != nil {
						t.Error(err)
						return
					}
					if !ok && !last {
						n--
						continue
					}
					if !ok || n == dies {
						return // with a job that it has taken, if there was one
					}
					mu.Lock()
					done[job]++
					mu.Unlock()
					if err := q.Done(t.Context(), worker, job); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range jobs / 2 {
			if err := q.Add(t.Context(), fmt.Sprint(dies, "/", i)); err != nil {
				t.Error(err)
			}
		}
		added.Store(true)
		all.Wait()
	}
	work(10)
	server.Kill()
	server.Start()
	work(-1)
	if len(done) != jobs {
		t.Errorf("%d of %d jobs are done", len(done), jobs)
	}
	for job, times := range done {
		if times != 1 {
			t.Errorf("%s is done %d times", job, times)
		}
	}
	if left := q.Redis.Keys(t.Context(), "*").Val(); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestOrder: jobs are taken in the order in which they were added, but returned jobs come first.
func TestOrder(t *testing.T) {
	q := Queue{testkit.Keyp(t).Client(3), "jobs"}
	ctx := context.Background()
	if err := q.Add(ctx, "1", "2", "3", "4"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "2", "back", "1", "2", "3", "4"} {
		if want == "back" {
			if n, err := q.Return(ctx, "w"); n != 2 || err != nil {
				t.Fatalf("%d are returned, %v", n, err)
			}
			continue
		}
		if job, ok, err := q.Take(ctx, "w", 0); job != want || !ok || err != nil {
			t.Errorf("took %s, %v, %v, want %s", job, ok, err, want)
		}
	}
	if _, ok, err := q.Take(ctx, "w", time.Second); ok || err != nil {
		t.Errorf("a job from nowhere: %v", err)
	}
}
