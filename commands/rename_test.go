package commands

import (
	"strings"
	"testing"

	"keyp/internal/config"
)

// TestRenamedCommands: a renamed command can be called only by its new name, also from scripts. A
// command that is renamed to "" cannot be called at all. ACL rules and COMMAND still use the old
// name.
func TestRenamedCommands(t *testing.T) {
	h := newHarness(t)
	if err := h.env.Table.Rename([]config.Rename{{Old: "get", New: "Fetch"},
		{Old: "CONFIG", New: ""}, {Old: "fetch", New: "Bring"}}); err != nil {
		t.Fatal(err)
	}
	h.run(`
		SET k v -> +OK
		bring k -> "v"
		BRING k -> "v"
		EVAL "return redis.call('BRING', KEYS[1])" 1 k -> "v"
		COMMAND INFO CONFIG GET -> [nil, nil]
		COMMAND GETKEYS BRING k -> ["k"]
		ACL SETUSER u on nopass ~* +get -config -> +OK
		ACL DRYRUN u BRING k -> +OK
	`)
	for _, args := range [][]string{{"GET", "k"}, {"FETCH", "k"}, {"CONFIG", "GET", "*"}} {
		if got := h.do(args...); !strings.HasPrefix(got, "-ERR unknown command '"+args[0]+"'") {
			t.Errorf("%v: %s", args, got)
		}
	}
	if got := h.do("EVAL", "return redis.call('GET', KEYS[1])", "1", "k"); !strings.Contains(got,
		"Unknown Redis command called from script") {
		t.Error(got)
	}
	names := h.do("COMMAND", "LIST")
	if !strings.Contains(names, `"get"`) || strings.Contains(names, `"config"`) ||
		strings.Contains(names, `"config|get"`) {
		t.Error(names)
	}
	for _, tt := range []struct {
		renames []config.Rename
		want    string
	}{
		{[]config.Rename{{Old: "NOPE", New: "x", At: "f:1"}}, `f:1: there is no command "NOPE"`},
		{[]config.Rename{{Old: "GET", New: "set", At: "f:1"}},
			`f:1: another command is called "set"`},
		{[]config.Rename{{Old: "GET", New: ""}, {Old: "GET", New: "x", At: "f:1"}},
			`f:1: there is no command "GET"`},
		{[]config.Rename{{Old: "GET", New: "get"}, {Old: "SET", New: ""}, {Old: "GET", New: "SET"}},
			""},
	} {
		err := NewTable().Rename(tt.renames)
		if err == nil && tt.want != "" || err != nil && err.Error() != tt.want {
			t.Errorf("%v: %v, want %q", tt.renames, err, tt.want)
		}
	}
}
