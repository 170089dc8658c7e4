package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"keyp/internal/clock"
)

// TestReceiveExpired: each key counts once, at its own deadline, and wrong events are noticed.
func TestReceiveExpired(t *testing.T) {
	past := deadlines{keys: 3, from: clock.System.Now() - 1000, over: 600}
	early := deadlines{keys: 3, from: clock.System.Now() + 100_000, over: 600}
	key := func(n uint64) string { return keyName(ttlPrefix, n) }
	for _, tt := range []struct {
		name      string
		deadlines deadlines
		sent      []string
		wrong     int
		want      string
	}{
		{"right", past, []string{"other", key(3), key(0), key(1), key(2)}, 0, ""},
		{"twice", past, []string{key(1), key(0), key(1), key(2)}, 1, "expired twice"},
		{"early", early, []string{key(0), key(1), key(2)}, 3, "before its deadline"},
	} {
		got, err := receiveExpired(from(tt.sent), tt.deadlines)
		if err != nil || len(got.wrong) != tt.wrong || len(got.lateness) != 3 ||
			!strings.Contains(fmt.Sprint(got.wrong), tt.want) {
			t.Errorf("%s: %v, wrong: %v, %d counted", tt.name, err, got.wrong, len(got.lateness))
		}
	}
	if _, err := receiveExpired(from([]string{key(0)}), past); err == nil {
		t.Error("missing events are not noticed")
	}
}

// from returns one name after the other, then an error.
func from(names []string) func() (string, error) {
	return func() (string, error) {
		if len(names) == 0 {
			return "", io.EOF
		}
		name := names[0]
		names = names[1:]
		return name, nil
	}
}
