package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), testkit.Keyp(t).Client(3), &out); err != nil {
		t.Fatal(err)
	}
	want :=
		"it would give 5 keys a deadline, and 1 an earlier one\nwithout a deadline: 3 carts, 5 users\n" +
			"9 keys have got another deadline\na new one ends in 90 days\nwithout a deadline: 0\n"
	if out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

// TestManyKeys: applying a rule to many keys reaches all of them, even if they are only on disk
// after a kill.
func TestManyKeys(t *testing.T) {
	server := testkit.Keyp(t)
	rdb := server.Client(3)
	const n = 5000
	var all []any
	for i := range n {
		all = append(all, fmt.Sprint("k:", i), "v")
	}
	if err := rdb.MSet(t.Context(), all...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Start()
	rule := Rule{rdb, "lifetime", "k:*", time.Hour}
	if err := rule.Enforce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if changed, err := rule.Apply(t.Context()); err != nil || changed != n {
		t.Errorf("%d deadlines changed, %v", changed, err)
	}
	if kinds, err := rule.Untimed(t.Context()); err != nil || len(kinds) != 0 {
		t.Errorf("without a deadline: %v, %v", kinds, err)
	}
}
