package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
)

// TestRun: events stay in the stream beyond their maximum age until they are handled.
func TestRun(t *testing.T) {
	var out strings.Builder
	// The last event is an hour in the future, so its ten minutes do not end during the test.
	if err := run(t.Context(), testkit.Keyp(t).Client(3), time.Now().Add(time.Hour),
		&out); err != nil {
		t.Fatal(err)
	}
	want := `kept: three hours ago, two hours ago, now
handled: three hours ago
kept: two hours ago, now
handled: two hours ago
kept: now
handled: now
kept: now
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", out.String(), want)
	}
}

// TestKills: the server is killed between any two events. Afterwards every event that was not
// handled is still there, however old it is. Handled events that are too old are gone.
func TestKills(t *testing.T) {
	const count = 6
	server := testkit.Keyp(t)
	old, now := time.Now().Add(-24*time.Hour), time.Now()
	open := func() Events {
		e := Events{Redis: server.Client(3), Stream: "e", Group: "g", Age: time.Hour}
		if err := e.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	var want []string
	add := func(at time.Time, text string) {
		if _, err := e.Add(t.Context(), at, text); err != nil {
			t.Fatal(err)
		}
		want = append(want, text)
	}
	for i := range count {
		add(old, fmt.Sprint("old ", i))
	}
	add(now, "new")
	for i := range count {
		server.Kill()
		server.Start()
		e = open()
		if got, err := e.Recent(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Fatalf("after kill %d: %q, %v, want %q", i, got, err, want)
		}
		handled := ""
		if _, err := e.Handle(t.Context(), "w", func(text string) { handled = text }); err != nil ||
			handled != want[0] {
			t.Fatalf("handled %q, %v, want %q", handled, err, want[0])
		}
		want = want[1:]
	}
}
