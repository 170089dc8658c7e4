package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzACLFile reads any text as an ACL file. Users from an accepted file are written and read again
// unchanged. A refused file changes nothing. Every command can be checked for the resulting users.
func FuzzACLFile(f *testing.F) {
	for _, text := range []string{
		"user default on nopass ~* &* +@all\n",
		"user alice on >secret ~a* %R~b* &ch* +@read -get +config|get (+set ~x) (~y +@all)\n",
		"user bob off\n\n user bob on", "user", "user a b", "x", "user a (+get",
		"user a #" + strings.Repeat("a1", 32) +
			" resetkeys allkeys resetchannels allchannels -@all +@all -@dangerous",
		"user a on nopass\r\nuser b +get|x", "user a %RW~x %~x %", "user a ()",
		"user a ( )", "user \x00 on",
		"user a +@all -config|set +config|set|x -config +config|get -config|get",
		"user a reset resetpass clearselectors sanitize-payload skip-sanitize-payload",
		"user a ~\\* ~[a ~ & +", "user a >a>b <a>b !x #x",
	} {
		f.Add(text)
	}
	h := newHarness(f)
	path := filepath.Join(f.TempDir(), "users.acl")
	f.Fuzz(func(t *testing.T, text string) {
		h.t = t
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(text)
		e := h.env
		e.users.init(e.Table)
		read := func() []string {
			next, err := e.readUsers(path)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "ERR ") ||
					strings.ContainsAny(err.Error(), "\n") && !strings.Contains(text, "\n") {
					t.Fatalf("the error is %q", err)
				}
				return nil
			}
			e.users.replace(next)
			var lines []string
			for _, u := range e.users.sorted() {
				lines = append(lines, u.line())
			}
			return lines
		}
		lines := read()
		if lines == nil {
			if got := e.users.sorted(); len(got) != 1 {
				t.Fatalf("a file that is refused leaves %d users", len(got))
			}
			return
		}
		write(strings.Join(lines, "\n") + "\n")
		if again := read(); !slices.Equal(again, lines) {
			t.Fatalf("%q\nis read as\n%q", lines, again)
		}
		for _, u := range e.users.sorted() {
			for _, spec := range runnable(e.Table) {
				call := strings.Split(spec.full, "|")
				for len(call) < max(spec.Arity, -spec.Arity) {
					call = append(call, "a")
				}
				args := make([][]byte, len(call))
				for i, arg := range call {
					args[i] = []byte(arg)
				}
				u.now.Load().check(spec, args)
			}
		}
	})
}
