package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"keyp/internal/testkit"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want := "red: 68 m\nblue: 243 m\nreserved: \"red\"\nreserved: \"blue\"\nreserved: \"\"\n"
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestReserve: many users who reserve at once all get different bikes, also after the server was
// killed.
func TestReserve(t *testing.T) {
	server := testkit.Keyp(t)
	fleet := Fleet{server.Client(3)}
	const parked = 20
	for i := range parked {
		if err := fleet.Park(t.Context(), fmt.Sprint("bike ", i), 13.4+float64(i)/10_000,
			52.5); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	server.Start()
	var mu sync.Mutex
	reserved, none := map[string]int{}, 0
	var wg sync.WaitGroup
	for range parked + 5 {
		wg.Go(func() {
			bike, err := fleet.Reserve(t.Context(), 13.4, 52.5, 1000)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case bike == "":
				none++
			default:
				reserved[bike]++
			}
		})
	}
	wg.Wait()
	if len(reserved) != parked || none != 5 {
		t.Errorf("reserved are %v, %d got none", reserved, none)
	}
}
