package rdb

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestLibraries writes and reads payloads of FUNCTION DUMP, intact and damaged.
func TestLibraries(t *testing.T) {
	for _, sources := range [][]string{nil, {"#!lua name=a\nx"},
		{"#!lua name=a\n" + strings.Repeat("abc ", 5000), "#!lua name=b\n\x00\xff"}} {
		payload := EncodeLibraries(sources)
		got, problem, err := DecodeLibraries(payload)
		if err != nil || problem != "" || !slices.Equal(got, sources) {
			t.Errorf("%d libraries: got %d, %q, %v", len(sources), len(got), problem, err)
		}
		for i := range payload {
			damaged := slices.Clone(payload)
			damaged[i] ^= 0x10
			if _, _, err := DecodeLibraries(damaged); !errors.Is(err, ErrPayload) {
				t.Fatalf("with byte %d changed: %v", i, err)
			}
		}
	}
	for body, want := range map[string]string{
		"\x00\x01a":     "given type is not a function",
		"\xf6\x01a":     "Pre-GA function format not supported",
		"\xf5\x05a":     "failed loading the given functions payload",
		"\xf5\x01a\xf5": "failed loading the given functions payload",
	} {
		if _, problem, err := DecodeLibraries(seal([]byte(body), version7_0)); problem != want ||
			err != nil {
			t.Errorf("%q: %q, %v; want %q", body, problem, err, want)
		}
	}
}
