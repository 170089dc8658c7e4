package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/internal/testkit"
)

// TestRun: a worker takes an order and dies. Another worker completes this order and its own.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines[1:3]) // on a slow machine tea may be free before Bob asks
	want := []string{"Ann takes tea and dies", "Bob makes coffee", "Bob makes tea", "0 are pending"}
	if !slices.Equal(lines, want) {
		t.Errorf("it prints %q, want %q", lines, want)
	}
}

// TestNoOrderIsLost: workers end while they have an order, and the server is killed in between.
// Still every order is completed.
func TestNoOrderIsLost(t *testing.T) {
	const orders, workers = 100, 4
	server := testkit.Keyp(t)
	w := Work{Redis: server.Client(3), Stream: "orders", Group: "g", Idle: 10 * time.Millisecond,
		Tries: 1 << 30}
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Open(t.Context()); err != nil { // again
		t.Fatal(err)
	}
	var mu sync.Mutex
	done := map[string]bool{}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := w.Add(t.Context(), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		}
	}
	// work lets workers take orders until the given number is done. After dies rounds, a worker
	// ends without completing the order that it has taken.
	work := func(dies, until int) {
		var all sync.WaitGroup
		for id := range workers {
			all.Go(func() {
				for n := 0; ; n++ {
					mu.Lock()
					enough := len(done) >= until
					mu.Unlock()
					if enough {
						return
					}
					m, err := w.Next(t.Context(), fmt.Sprint("worker", id), 10*time.Millisecond)
					if err != nil {
						t.Error(err)
						return
					}
					if n == dies {
						return
					}
					if m == nil {
						continue
					}
					mu.Lock()
					done[m.Values["order"].(string)] = true
					mu.Unlock()
					if err := w.Done(t.Context(), m.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	add(0, orders/2)
	work(5, orders)
	server.Kill()
	server.Start()
	add(orders/2, orders)
	work(-1, orders)
	if len(done) != orders {
		t.Errorf("%d of %d orders are done", len(done), orders)
	}
}

// TestHopelessOrder: an order that nobody can complete is put aside.
func TestHopelessOrder(t *testing.T) {
	w := Work{Redis: testkit.Keyp(t).Client(3), Stream: "orders", Group: "g", Idle: 0, Tries: 2}
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(t.Context(), "poison"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if m, err := w.Next(t.Context(), "w", time.Minute); err != nil || m == nil {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if m, err := w.Next(t.Context(), "w", time.Millisecond); m != nil || err != nil {
		t.Errorf("%v, %v", m, err)
	}
	if failed, err := w.Redis.XRange(t.Context(), "orders:failed", "-", "+").Result(); err != nil ||
		len(failed) != 1 || failed[0].Values["order"] != "poison" {
		t.Errorf("%v, %v", failed, err)
	}
}
