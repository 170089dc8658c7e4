package main

import (
	"strings"
	"testing"
	"time"

	"keyp/storage/snapshotfile"
)

// TestPruneBesideTheClock: if all backups seem too old, none is removed, because the clock may be
// wrong. With force they are removed.
func TestPruneBesideTheClock(t *testing.T) {
	const day = 24 * time.Hour
	made := time.UnixMilli(1_700_000_000_000)
	of := func(days ...int) (list []backupFound) {
		for _, n := range days {
			list = append(list, backupFound{
				Header: snapshotfile.Header{Time: made.Add(time.Duration(n) * day).UnixMilli()}})
		}
		return list
	}
	for _, tt := range []struct {
		what    string
		days    int // since made
		keep    string
		force   bool
		of      map[string][]backupFound
		refused bool
	}{
		{"recent ones", 12, "5d", false, map[string][]backupFound{"a": of(1, 2, 10)}, false},
		{"all old", 400, "5d", false, map[string][]backupFound{"a": of(1, 2, 10)}, true},
		{"all old, and that is wanted", 400, "5d", true,
			map[string][]backupFound{"a": of(1, 2, 10)}, false},
		{"all old, by number", 400, "2", false, map[string][]backupFound{"a": of(1, 2, 10)}, false},
		{"one old", 400, "5d", false, map[string][]backupFound{"a": of(1)}, false},
		{"an old history beside another one", 400, "5d", false,
			map[string][]backupFound{"a": of(1, 2), "b": of(399)}, false},
		{"two old histories", 400, "5d", false, map[string][]backupFound{"a": of(1, 2), "b": of(3)},
			true},
		{"none", 400, "5d", false, nil, false},
	} {
		rule, err := parseRetention(tt.keep)
		if err != nil {
			t.Fatal(err)
		}
		p := &pruning{rule: rule, force: tt.force, now: made.Add(time.Duration(tt.days) * day)}
		if err := p.plausible(tt.of); (err != nil) != tt.refused ||
			err != nil && !strings.Contains(err.Error(), "--force") {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}
