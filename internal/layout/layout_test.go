package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// rules lists, for each package, the packages of this and of other modules that its program code
// may import. Imports point one way: cmd → server → commands → storage → ttl, wal, object. A new
// package needs a rule as soon as it has a file. A rule that ends in /... is for all packages under
// a folder.
//
// Tests may also import what the imported packages import, and the packages in testsMayUse.
var rules = map[string][]string{
	// The binary connects the parts. No package imports it.
	"cmd/keyp": {"features/leases", "member", "github.com/redis/go-redis/v9", "server", "web",
		"commands", "storage", "storage/repair", "internal/clock", "internal/config",
		"internal/exporter", "internal/importer", "internal/progress", "internal/rdb",
		"internal/target", "internal/vfs", "golang.org/x/sys/unix", "storage/archive",
		"storage/backupfile", "storage/format", "storage/slab", "storage/snapshotfile"},
	// The bench tool measures servers from outside, so it imports nothing of this server.
	"cmd/keyp-bench": {"internal/clock", "internal/childproc", "github.com/redis/go-redis/v9",
		"github.com/tidwall/redcon", "golang.org/x/sys/unix"},

	// HTTP handlers read the same state as commands, and know neither the event loop nor sessions.
	"web": {"commands", "resp", "storage", "internal/clock", "internal/config",
		"internal/histogram", "github.com/prometheus/client_golang/prometheus",
		"github.com/prometheus/common/expfmt"},

	// The server manages sockets and goroutines. It leaves the meaning of commands to package
	// commands, and knows the log only as the store's Journal.
	"server": {"resp", "commands", "storage", "internal/clock", "internal/config",
		"golang.org/x/sys/unix"},

	// A group of members knows neither keys nor clients. Its entries are bytes that only the store
	// understands. Package consensus/raftlog stores them.
	"consensus": {"internal/clock", "go.etcd.io/raft/v3", "go.etcd.io/raft/v3/confchange",
		"go.etcd.io/raft/v3/raftpb", "go.etcd.io/raft/v3/tracker",
		"google.golang.org/protobuf/proto"},

	// A member's log is a log of storage/wal, whose batches are records in raftlog's own format.
	"consensus/raftlog": {"consensus", "storage/wal", "internal/histogram", "go.etcd.io/raft/v3",
		"go.etcd.io/raft/v3/raftpb", "google.golang.org/protobuf/proto"},

	// Package member makes a server a member of a group. It connects a store, a log and a group,
	// and shows commands the state of the group. It reaches the server through an interface.
	"member": {"commands", "consensus", "consensus/raftlog", "storage", "storage/format",
		"storage/snapshotfile", "storage/wal", "internal/clock", "internal/histogram",
		"internal/vfs", "go.etcd.io/raft/v3", "go.etcd.io/raft/v3/raftpb",
		"google.golang.org/protobuf/proto"},

	// The protocol knows neither commands nor sessions, so any package that reads or writes replies
	// may import it.
	"resp": {"internal/bigcopy", "github.com/tidwall/redcon"},

	// Only arithmetic.
	"scripting/cmath": {},
	// An interpreter for Lua that knows neither Redis nor a server.
	"scripting/lua": {"scripting/cmath"},

	// Lua with the environment that Redis gives scripts. It reaches commands and their permissions
	// through an interface, so it knows no keys.
	"scripting": {"scripting/lua", "resp"},

	// Commands reach keys only through the store's transactions. They never see the log, the files
	// or the sockets.
	"commands": {"features/leases", "features/outbox", "features/policies", "scripting",
		"scripting/cmath", "resp", "storage", "storage/object", "storage/procmem", "ttl",
		"internal/clock", "internal/config", "internal/histogram", "internal/glob",
		"internal/bigcopy", "internal/rdb", "github.com/zeebo/xxh3", "golang.org/x/sys/unix"},

	// Features on top of the store. They reach keys through transactions, and the store calls their
	// hooks.
	"features/outbox": {"storage", "storage/format", "storage/object", "ttl", "internal/clock",
		"internal/glob", "internal/histogram"},
	"features/leases":   {"storage", "storage/object", "ttl", "internal/clock"},
	"features/policies": {"storage", "storage/object", "ttl", "internal/clock", "internal/glob"},

	// Only the store writes the data file and the log.
	"storage": {"storage/archive", "storage/clockguard", "storage/datafile", "storage/format",
		"storage/snapshotfile", "storage/wal",
		"storage/elementset", "storage/hashtable", "storage/object", "storage/procmem",
		"storage/slab", "ttl",
		"internal/boltfile",
		"internal/clock", "internal/glob", "internal/progress", "internal/histogram",
		"internal/bigcopy", "internal/vfs",
		"go.etcd.io/bbolt", "golang.org/x/sys/unix"},
	// The data file knows buckets and checksums, but no keys in memory.
	"storage/datafile": {"storage/format", "storage/object", "storage/snapshotfile", "internal/boltfile",
		"internal/clock", "internal/progress", "internal/vfs", "go.etcd.io/bbolt",
		"go.etcd.io/bbolt/errors"},
	// The encodings do not depend on a store, so that tools can read data that no store could open.
	"storage/format": {"storage/object", "github.com/dchest/siphash"},
	// Repair reads damaged data with its own code, because the store's code trusts its input more.
	// The store then replays and checks the result.
	"storage/repair": {"storage", "storage/format", "storage/object", "storage/wal",
		"internal/boltfile", "internal/progress", "internal/vfs", "go.etcd.io/bbolt"},
	// An archive knows the batches of the log, but not their contents.
	"storage/archive": {"storage/backupfile", "storage/snapshotfile", "storage/wal",
		"internal/clock", "internal/vfs"},
	// A backup file is compressed. The package does not know its contents.
	"storage/backupfile": {"github.com/klauspost/compress/zstd"},
	// The stream of a snapshot has pieces and records. The package does not know their contents.
	"storage/snapshotfile": {"internal/vfs"},
	// The log knows batches of bytes, but not their contents.
	"storage/wal": {"internal/clock", "internal/progress", "internal/histogram", "internal/vfs"},
	// The time of a store whose clock may be wrong. The package does not know the store.
	"storage/clockguard": {"internal/clock"},
	"storage/elementset": {"storage/format", "storage/object"},
	// The memory of small keys, and the table of keys in memory. These packages do not know the
	// store.
	"storage/hashtable": {},
	"storage/procmem":   {"storage/slab"},
	"storage/slab":      {"golang.org/x/sys/unix"},
	// Values know neither the log nor the data file.
	"storage/object": {"storage/hashtable", "internal/bigcopy"},

	// Deadlines and their order. The store has the values, files and connections, and the reaper
	// calls the store through an interface.
	"ttl": {"internal/clock", "github.com/google/btree"},

	// It reads the file's pages without bbolt, which does not check them.
	"internal/boltfile": {},
	// All packages import it, so it imports none of them. It asks the system for the time since the
	// machine started.
	"internal/clock": {"golang.org/x/sys/unix"},
	// It shows lines on a terminal or in a log, and does not know the work.
	"internal/progress": {"internal/clock", "golang.org/x/sys/unix"},
	// It builds the published files, and takes the version from the package config.
	"internal/release": {"internal/config"},
	// Hot paths of several packages count with it, so it imports no package.
	"internal/histogram": {},
	// Patterns of names, for commands and the store.
	"internal/glob": {},
	// Copies of large byte slices, for the packages that hold large values.
	"internal/bigcopy": {},
	// The place where backups are kept. It does not know what a backup contains.
	"internal/target": {"internal/clock", "internal/vfs", "github.com/minio/minio-go/v7",
		"github.com/minio/minio-go/v7/pkg/credentials"},
	// Files, with an interface so that tests can replace those of the system.
	"internal/vfs": {"golang.org/x/sys/unix"},
	// The packages that read an option know its meaning. Package resp splits lines as Redis does.
	"internal/config": {"resp"},
	// Payloads of DUMP are bytes here. Package commands turns them into values.
	"internal/rdb": {"resp"},
	// It reads files and speaks the protocol. Only the server knows what keys are.
	"internal/importer": {"resp", "internal/clock", "internal/glob", "internal/progress",
		"internal/rdb", "golang.org/x/sys/unix"},
	// It writes the contents of a store to files in other formats. It reads a store, or a server
	// through a connection.
	"internal/exporter": {"resp", "commands", "features/outbox", "storage", "storage/object",
		"internal/clock", "internal/importer", "internal/progress", "internal/rdb"},
	// It makes any child process end together with its parent.
	"internal/childproc": {},
	// Tests of all packages use it, so it uses a server only from outside.
	"internal/testkit": {"internal/childproc", "internal/testkit/await", "internal/testkit/setup",
		"github.com/redis/go-redis/v9", "golang.org/x/sys/unix"},
	// All tests wait with the same time limit.
	"internal/testkit/await": {},
	// A fake group for tests of the packages that show a group's state.
	"internal/testkit/fakegroup": {"commands", "internal/testkit/await"},
	"internal/testkit/fakes3": {"github.com/johannesboyne/gofakes3",
		"github.com/johannesboyne/gofakes3/backend/s3mem"},
	"internal/testkit/members": {"consensus", "internal/testkit", "internal/testkit/await",
		"github.com/redis/go-redis/v9"},
	// The setup of every test binary, whichever package it tests.
	"internal/testkit/setup": {"internal/childproc", "pgregory.net/rapid"},
	// It reads the output of tests.
	"internal/testkit/report": {"internal/childproc"},
	// It reads the packages as text, types and calls, and runs none of them.
	"internal/layout": {"golang.org/x/tools/go/callgraph", "golang.org/x/tools/go/callgraph/cha",
		"golang.org/x/tools/go/callgraph/vta", "golang.org/x/tools/go/packages",
		"golang.org/x/tools/go/ssa", "golang.org/x/tools/go/ssa/ssautil"},
	// Its script changes copies of the sources and runs the tests on them.
	"test/mutants": {},
	// It type-checks the code for other platforms.
	"internal/typecheck": {"golang.org/x/tools/go/packages"},
	// Tests from outside: they start the binary, and import no package of it.
	"internal/e2e/...": {},
	// Random histories of the store and of commands on simulated disks.
	"internal/torture": {"commands", "storage", "internal/clock", "internal/config",
		"internal/vfs"},

	// Code of Keyp's users: it imports a client library and no package of Keyp.
	"docs/examples/...": {"github.com/redis/go-redis/v9"},
}

// testsMayUse are packages that only tests and testkit may import.
var testsMayUse = []string{"internal/testkit", "internal/testkit/await",
	"internal/testkit/fakegroup", "internal/testkit/fakes3", "internal/testkit/members",
	"internal/testkit/setup", "internal/childproc", "github.com/redis/go-redis/v9",
	"github.com/redis/go-redis/v9/push", "pgregory.net/rapid", "go.etcd.io/bbolt",
	"github.com/tidwall/redcon", "github.com/anishathalye/porcupine",
	"github.com/chromedp/chromedp", "github.com/chromedp/chromedp/kb",
	"github.com/chromedp/cdproto/emulation", "github.com/chromedp/cdproto/input",
	"github.com/chromedp/cdproto/log", "github.com/chromedp/cdproto/runtime",
	"golang.org/x/sys/unix", "go.yaml.in/yaml/v2"}

// exceptions are single files that may break a rule, with the reason.
var exceptions = map[string]string{
	"storage/repair_init_test.go imports storage/repair": "tests damage directories by the store's inner steps, and then repair them",
	"consensus/files_test.go imports consensus/raftlog":  "the simulation runs with its logs, on files in memory",
	"consensus/files_test.go imports storage/wal":        "the same",
	"consensus/files_test.go imports internal/vfs":       "the same",
	"commands/env.go imports storage/wal":                "it translates appendfsync into the Policy that storage.Options take; the log itself it never touches",
}

// file is a Go file of the module.
type file struct {
	path   string // with slashes, from the module's root
	syntax *ast.File
	lines  *token.FileSet
	text   []string // by line
}

func (f file) dir() string { return strings.TrimSuffix(f.path, "/"+filepath.Base(f.path)) }
func (f file) test() bool  { return strings.HasSuffix(f.path, "_test.go") }

// TestImports checks every import against the rules.
func TestImports(t *testing.T) {
	used := map[string]bool{}
	for _, f := range module(t) {
		for _, problem := range importProblems(f) {
			if exceptions[problem] == "" {
				t.Error(problem)
			}
			used[problem] = true
		}
	}
	for problem := range exceptions {
		if !used[problem] {
			t.Errorf("nobody needs the exception any more: %s", problem)
		}
	}
}

// importProblems returns "FILE imports PACKAGE" for each import that no rule allows.
func importProblems(f file) (problems []string) {
	dir, found := ruleOf(f.dir())
	if !found {
		return []string{fmt.Sprintf("%s: there is no rule for this folder in internal/layout",
			f.path)}
	}
	allowed := rules[dir]
	if f.test() {
		allowed = slices.Concat(closure(dir), testsMayUse, []string{f.dir()})
	}
	for _, spec := range f.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return []string{fmt.Sprintf("%s: import %s: %v", f.path, spec.Path.Value, err)}
		}
		path, own := strings.CutPrefix(path, "keyp/")
		first, _, _ := strings.Cut(path, "/")
		standard := !own && !strings.Contains(first, ".")
		ok := slices.ContainsFunc(allowed, func(rule string) bool { return covers(rule, path) })
		if !standard && !ok {
			problems = append(problems, fmt.Sprintf("%s imports %s", f.path, path))
		}
	}
	return problems
}

// ruleOf returns the key of a folder's rule.
func ruleOf(dir string) (key string, found bool) {
	for key := range rules {
		if covers(key, dir) {
			return key, true
		}
	}
	return "", false
}

// covers reports whether a rule, which may end in /..., applies to a package.
func covers(rule, path string) bool {
	folder, tree := strings.CutSuffix(rule, "/...")
	return path == folder || tree && strings.HasPrefix(path, folder+"/")
}

// closure returns all packages that a package, or a package that it imports, may import.
func closure(rule string) []string {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(rule string) {
		if !seen[rule] {
			seen[rule] = true
			for _, next := range rules[rule] {
				walk(next)
			}
		}
	}
	walk(rule)
	return slices.Collect(maps.Keys(seen))
}

// TestRulesPointDown checks that the rules have no cycle.
func TestRulesPointDown(t *testing.T) {
	for rule, imports := range rules {
		for _, next := range imports {
			if next != rule && slices.Contains(closure(next), rule) {
				t.Errorf("%s and %s may import each other", rule, next)
			}
		}
	}
}

// mayReadTime are the folders whose program code may ask the system for the time: the clock itself,
// code that runs real processes for tests, and commands that a person waits for.
var mayReadTime = []string{"internal/clock", "internal/testkit/...", "cmd/...", "docs/examples/..."}

// TestTime finds code outside internal/clock that asks the system for the time, because the tests'
// clock could not control it. Pacing with time.After or time.NewTicker does not count: no decision
// depends on it.
func TestTime(t *testing.T) {
	for _, f := range module(t) {
		if f.test() || slices.ContainsFunc(mayReadTime, func(rule string) bool {
			return covers(rule, f.dir())
		}) {
			continue
		}
		for _, problem := range timeProblems(f) {
			t.Error(problem)
		}
	}
}

func timeProblems(f file) (problems []string) {
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			pkg, ok := selector.X.(*ast.Ident)
			if ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"},
				selector.Sel.Name) {
				problems = append(problems,
					fmt.Sprintf("%v: time.%s; take the time from internal/clock",
						f.lines.Position(selector.Pos()), selector.Sel.Name))
			}
		}
		return true
	})
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value == `"time"` && spec.Name != nil {
			problems = append(problems,
				fmt.Sprintf("%s: time is imported under another name", f.path))
		}
	}
	return problems
}

// TestOneSearchForRedis finds tests that look for Redis's programs themselves. They would be
// skipped even if KEYP_REQUIRE_REDIS forbids to skip such tests.
func TestOneSearchForRedis(t *testing.T) {
	for _, f := range module(t) {
		if f.test() || f.dir() == "internal/testkit" && f.path != "internal/testkit/server.go" {
			for _, at := range searches(f) {
				t.Errorf("%v: use testkit.Program or testkit.Find", at)
			}
		}
	}
}

// searches returns the positions at which a file looks for programs.
func searches(f file) (found []token.Position) {
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && selector.Sel.Name == "LookPath" {
			found = append(found, f.lines.Position(selector.Pos()))
		}
		return true
	})
	return found
}

// TestDocumented finds packages without a package comment.
func TestDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range module(t) {
		if !f.test() {
			documented[f.dir()] = documented[f.dir()] || f.syntax.Doc != nil
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// TestRulesBite checks that each check finds a violation.
func TestRulesBite(t *testing.T) {
	tests := []struct {
		path, source string
		imports      int // import problems
		times        int
		waits        int
	}{
		{"ttl/a.go", `import ("fmt"; "keyp/internal/clock"; "github.com/google/btree")`, 0, 0, 0},
		{"ttl/a.go", `import "keyp/storage"`, 1, 0, 0},
		{"ttl/a_test.go", `import ("keyp/storage"; "keyp/internal/clock"; "pgregory.net/rapid")`, 1,
			0, 0},
		{"commands/a.go", `import "keyp/storage/wal"`, 1, 0, 0},
		{"commands/a_test.go", `import ("keyp/storage/wal"; "keyp/commands")`, 0, 0, 0},
		{"storage/a.go", `import ("keyp/commands"; "keyp/internal/testkit")`, 2, 0, 0},
		{"storage/a_test.go", `import ("keyp/server"; "keyp/internal/testkit")`, 1, 0, 0},
		{"cmd/keyp-bench/a.go", `import ("keyp/internal/clock"; "keyp/storage")`, 1, 0, 0},
		{"docs/examples/x/a.go", `import ("github.com/redis/go-redis/v9"; "keyp/storage")`, 1, 0,
			0},
		{"elsewhere/a.go", ``, 1, 0, 0},
		{"server/a.go", `import "go.etcd.io/bbolt"`, 1, 0, 0},
		{"storage/a.go",
			`import "time"; var a = time.Now(); var b = time.Since(a); var c = time.After(time.Second)`,
			0, 2, 0},
		{"storage/a.go", `import t "time"; var a = t.Now()`, 0, 1, 0},
		{"storage/a_test.go",
			`import "time"; func f() { time.Sleep(1); <-time.After(1); time.AfterFunc(1, nil) }`, 0,
			0, 2},
		{"storage/a_test.go",
			`import "context"; func f() { context.WithTimeout(nil, 1); context.WithCancel(nil) }`,
			0, 0, 1},
		{"server/a_test.go", `import "github.com/redis/go-redis/v9"; var c = redis.NewClient(nil)`,
			0, 0, 1},
		{"server/a_test.go",
			`import "testing"; func f(t *testing.T, c chan int) { <-c; go func() { <-c }(); select { case <-c: default: } }`,
			0, 0, 1},
		{"server/a_test.go",
			`import ("net"; "time"); func f(c net.Conn) { c.SetDeadline(time.Now().Add(1)); c.SetDeadline(at) }`,
			0, 0, 1},
	}
	for _, tt := range tests {
		lines := token.NewFileSet()
		syntax, err := parser.ParseFile(lines, tt.path, "package p; "+tt.source,
			parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		f := file{tt.path, syntax, lines, nil}
		if got := importProblems(f); len(got) != tt.imports {
			t.Errorf("%s with %s: %q, want %d", tt.path, tt.source, got, tt.imports)
		}
		if got := timeProblems(f); !f.test() && len(got) != tt.times {
			t.Errorf("%s with %s: %q, want %d", tt.path, tt.source, got, tt.times)
		}
		if got := waitProblems(f); f.test() && len(got) != tt.waits {
			t.Errorf("%s with %s: %q, want %d", tt.path, tt.source, got, tt.waits)
		}
	}
	lines := token.NewFileSet()
	syntax, err := parser.ParseFile(lines, "a_test.go",
		`package p; import "os/exec"; var a, b = exec.LookPath("redis-server")`, 0)
	if err != nil || len(searches(file{"a_test.go", syntax, lines, nil})) != 1 {
		t.Error("a search for a program is not found", err)
	}
}

// module returns every Go file of the module, for all platforms.
func module(t *testing.T) []file {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d files found", len(files))
	}
	return files
}

// parsed parses the files once for all tests.
var parsed = sync.OnceValues(func() (files []file, err error) {
	root := os.DirFS("../..")
	lines := token.NewFileSet()
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != "." && (strings.HasPrefix(name, ".") || name == "testdata" ||
			name == "bin") {
			return fs.SkipDir
		}
		if entry.IsDir() && path != "." {
			if _, err := fs.Stat(root, path+"/go.mod"); err == nil { // another module
				return fs.SkipDir
			}
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		source, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(lines, path, source, parser.ParseComments)
		files = append(files, file{path, syntax, lines, strings.Split(string(source), "\n")})
		return err
	})
	return files, err
})
