package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestSurvey: the survey of an append-only file finds the end of its last complete command or
// transaction, and counts the commands.
func TestSurvey(t *testing.T) {
	set, multi, exec := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nab\r\n", "*1\r\n$5\r\nMULTI\r\n",
		"*1\r\n$4\r\nEXEC\r\n"
	tests := []struct {
		name, text string
		valid      int // -1: an error
		commands   int
	}{
		{"nothing", "", 0, 0},
		{"commands", set + set, 2 * len(set), 2},
		{"annotation", "#TS:1\r\n" + set, 7 + len(set), 1},
		{"torn", set + set[:len(set)-1], len(set), 1},
		{"torn in a transaction", set + multi + set + exec[:5], len(set), 3},
		{"transaction without an end", set + multi + set, len(set), 3},
		{"transaction", multi + set + exec, len(multi + set + exec), 3},
		{"inline command", set + "PING\r\n", -1, 1},
		{"no argument", "*0\r\n", -1, 0},
		{"length that is none", "*1\r\n$x\r\n", -1, 0},
		{"negative length", "*1\r\n$-1\r\n", -1, 0},
		{"length above the file's", "*1\r\n$9223372036854775807\r\nx", 0, 0},
		{"zeros", set + strings.Repeat("\x00", 40), -1, 1},
	}
	for _, tt := range tests {
		got := 0
		valid, err := survey([]byte(tt.text), func([][]byte) { got++ })
		if err != nil {
			valid = -1
		}
		if valid != tt.valid || got != tt.commands {
			t.Errorf("%s: %d bytes and %d commands, want %d and %d (%v)", tt.name, valid, got,
				tt.valid, tt.commands, err)
		}
	}
	whole := set + "#TS:1\r\n" + set
	for n := range whole {
		want := 0
		if n >= len(set) {
			want = len(set)
		}
		if valid, err := survey([]byte(whole[:n]), func([][]byte) {}); valid != want || err != nil {
			t.Errorf("%d bytes: %d are whole, %v", n, valid, err)
		}
	}
}

func TestManifest(t *testing.T) {
	base, one, two := "file a.base.rdb seq 1 type b\n", "file \"a b\" seq 1 type i\n",
		"file c seq 2 type i\n"
	tests := []struct {
		text string
		want []string // nil: an error
	}{
		{base + "file old seq 1 type h\n" + one + two, []string{"a.base.rdb", "a b", "c"}},
		{"# comment\n" + one, []string{"a b"}},
		{"", nil}, {base + two + one, nil}, {one + base, nil}, {base + base, nil},
		{"file ../x seq 1 type i\n", nil},
		{"file .. seq 1 type i\n", nil}, {"file x seq y type i\n", nil}, {"file x seq 1\n", nil},
		{"file x seq 1 type q\n", nil}, {"file \"x seq 1 type i\n", nil},
	}
	for _, tt := range tests {
		if got, err := parseManifest([]byte(tt.text)); !slices.Equal(got, tt.want) ||
			(err == nil) != (tt.want != nil) {
			t.Errorf("%q: %q, %v", tt.text, got, err)
		}
	}
}

// TestRefusals: a report stays small, however many reasons there are.
func TestRefusals(t *testing.T) {
	var r Report
	for i := range 1000 {
		r.Refused.Add(fmt.Sprintf("reason %d", i), strings.Repeat("k", 1000))
	}
	total := int64(0)
	for _, one := range r.Refused {
		total += one.Count
		if len(one.First) > maxNames || len(one.First[0]) > maxName {
			t.Errorf("%+v", one)
		}
	}
	if len(r.Refused) != maxRefusals || total != 1000 ||
		r.Refused[maxRefusals-1].Reason != "other reasons" {
		t.Errorf("%d reasons of %d", len(r.Refused), total)
	}
}

func FuzzSurvey(f *testing.F) {
	f.Add([]byte(
		"#TS:1\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$4\r\nEXEC\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		valid, err := survey(b, func(args [][]byte) { selects(args) })
		if err != nil {
			return
		}
		if again, err := survey(b[:valid], func([][]byte) {}); again != valid || err != nil {
			t.Fatalf("of %d whole bytes %d are whole: %v", valid, again, err)
		}
	})
}
