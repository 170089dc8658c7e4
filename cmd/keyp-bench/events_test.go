package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"keyp/internal/clock"
)

// TestReceiveExpired: the benchmark measures how late the events of expired keys arrive. It counts
// one event for each key, by the key's own deadline, and reports wrong events.
func TestReceiveExpired(t *testing.T) {
	past := deadlines{keys: 3, from: clock.System.Now() - 1000, over: 600}
	early := deadlines{keys: 3, from: clock.System.Now() + 100_000, over: 600}
	key := func(n uint64) string { return keyName(ttlPrefix, n) }
	for _, tt := range []struct {
		name      string
		deadlines deadlines
		sent      []string
		want      string
	}{
		{"right", past, []string{"other", key(3), key(0), key(1), key(2)}, ""},
		{"twice", past, []string{key(1), key(0), key(1), key(2)}, "expired twice"},
		{"early", early, []string{key(0), key(1), key(2)}, "before its deadline"},
	} {
		got, err := receiveExpired(from(tt.sent), tt.deadlines)
		if len(got) != 3 || errors.Is(err, errWrong) != (tt.want != "") ||
			!strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, %d counted", tt.name, err, len(got))
		}
	}
	if _, err := receiveExpired(from([]string{key(0)}), past); !errors.Is(err, io.EOF) {
		t.Error("missing events are not noticed")
	}
}

// from returns a function that returns the names one after another, and then an error.
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
