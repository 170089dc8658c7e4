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

// rules say what the packages import, of this module and of others, in program code.
// Imports point one way: cmd → server → commands → storage → ttl, wal, object. A package
// that is not here gets its rule with its first file; one under a folder that ends in
// /... has the folder's.
//
// Tests may also import what the imported packages import, and what testsMayUse says.
var rules = map[string][]string{
	// The binary puts the parts together; nothing imports it.
	"cmd/keyp": {"features/leases", "member", "github.com/redis/go-redis/v9", "server", "web",
		"commands", "storage", "storage/repair", "internal/clock", "internal/config",
		"internal/exporter", "internal/importer", "internal/progress", "internal/rdb",
		"internal/target", "internal/vfs", "golang.org/x/sys/unix", "storage/archive",
		"storage/backupfile", "storage/format", "storage/slab", "storage/snapshotfile"},
	// The bench tool measures servers from outside, so it knows nothing of this one.
	"cmd/keyp-bench": {"internal/clock", "internal/childproc", "github.com/redis/go-redis/v9",
		"github.com/tidwall/redcon", "golang.org/x/sys/unix"},

	// What is served over HTTP reads what the commands read, and knows neither loop nor sessions.
	"web": {"commands", "resp", "storage", "internal/clock", "internal/config",
		"internal/histogram", "github.com/prometheus/client_golang/prometheus",
		"github.com/prometheus/common/expfmt"},

	// Sockets and goroutines: which command does what it leaves to commands, and it knows the log
	// as the store's Journal.
	"server": {"resp", "commands", "storage", "internal/clock", "internal/config",
		"golang.org/x/sys/unix"},

	// A group of members knows neither keys nor clients: entries are bytes, whose meaning the store
	// knows; how they are stored is consensus/raftlog's.
	"consensus": {"internal/clock", "go.etcd.io/raft/v3", "go.etcd.io/raft/v3/confchange",
		"go.etcd.io/raft/v3/raftpb", "go.etcd.io/raft/v3/tracker",
		"google.golang.org/protobuf/proto"},

	// A member's log is a log of storage/wal, whose batches are records of its own.
	"consensus/raftlog": {"consensus", "storage/wal", "internal/histogram", "go.etcd.io/raft/v3",
		"go.etcd.io/raft/v3/raftpb", "google.golang.org/protobuf/proto"},

	// It makes a server a member of a group: a store, a log and a group, and what commands see of
	// that. The server it reaches through an interface.
	"member": {"commands", "consensus", "consensus/raftlog", "storage", "storage/format",
		"storage/snapshotfile", "storage/wal", "internal/clock", "internal/histogram",
		"internal/vfs", "go.etcd.io/raft/v3", "go.etcd.io/raft/v3/raftpb",
		"google.golang.org/protobuf/proto"},

	// The protocol knows neither commands nor sessions, so all that reads or writes replies may
	// import it.
	"resp": {"internal/bigcopy", "github.com/tidwall/redcon"},

	// Arithmetic alone.
	"scripting/cmath": {},
	// An interpreter of Lua, which knows neither Redis nor a server.
	"scripting/lua": {"scripting/cmath"},

	// Lua as Redis has it. Commands and their permissions it reaches through an interface, so it
	// knows no keys.
	"scripting": {"scripting/lua", "resp"},

	// Commands see keys through the store's transactions, and never the log, the files or the
	// sockets.
	"commands": {"features/leases", "features/outbox", "features/policies", "scripting",
		"scripting/cmath", "resp", "storage", "storage/object", "storage/procmem", "ttl",
		"internal/clock", "internal/config", "internal/histogram", "internal/glob",
		"internal/bigcopy", "internal/rdb", "github.com/zeebo/xxh3", "golang.org/x/sys/unix"},

	// Features on the store: they see keys through transactions, and are called by hooks.
	"features/outbox": {"storage", "storage/format", "storage/object", "ttl", "internal/clock",
		"internal/glob", "internal/histogram"},
	"features/leases":   {"storage", "storage/object", "ttl", "internal/clock"},
	"features/policies": {"storage", "storage/object", "ttl", "internal/clock", "internal/glob"},

	// The store alone writes the data file and the log.
	"storage": {"storage/archive", "storage/clockguard", "storage/datafile", "storage/format",
		"storage/snapshotfile", "storage/wal",
		"storage/elementset", "storage/hashtable", "storage/object", "storage/procmem",
		"storage/slab", "ttl",
		"internal/boltfile",
		"internal/clock", "internal/glob", "internal/progress", "internal/histogram",
		"internal/bigcopy", "internal/vfs",
		"go.etcd.io/bbolt", "golang.org/x/sys/unix"},
	// The data file knows buckets and checksums, and no keys in memory.
	"storage/datafile": {"storage/format", "storage/object", "storage/snapshotfile", "internal/boltfile",
		"internal/clock", "internal/progress", "internal/vfs", "go.etcd.io/bbolt",
		"go.etcd.io/bbolt/errors"},
	// How things are encoded depends on no store, so tools read what no store could open.
	"storage/format": {"storage/object", "github.com/dchest/siphash"},
	// What is damaged is read by other code than the store's, which trusts more; the store replays
	// and checks the result.
	"storage/repair": {"storage", "storage/format", "storage/object", "storage/wal",
		"internal/boltfile", "internal/progress", "internal/vfs", "go.etcd.io/bbolt"},
	// Of the log an archive knows batches, and not what is in them.
	"storage/archive": {"storage/backupfile", "storage/snapshotfile", "storage/wal",
		"internal/clock", "internal/vfs"},
	// A backup's file is compressed, and does not know what is in it.
	"storage/backupfile": {"github.com/klauspost/compress/zstd"},
	// A snapshot's stream has pieces and records, and does not know what is in them.
	"storage/snapshotfile": {"internal/vfs"},
	// The log knows batches of bytes, and not what is in them.
	"storage/wal": {"internal/clock", "internal/progress", "internal/histogram", "internal/vfs"},
	// The time of a store whose clock may be wrong knows no store.
	"storage/clockguard": {"internal/clock"},
	"storage/elementset": {"storage/format", "storage/object"},
	// The memory of small keys, and where keys are in memory: they know no store.
	"storage/hashtable": {},
	"storage/procmem":   {"storage/slab"},
	"storage/slab":      {"golang.org/x/sys/unix"},
	// Values know neither log nor file.
	"storage/object": {"storage/hashtable", "internal/bigcopy"},

	// Deadlines and their order: values, files and connections are the store's, which the reaper
	// calls through an interface.
	"ttl": {"internal/clock", "github.com/google/btree"},

	// It reads pages without bbolt, which trusts them.
	"internal/boltfile": {},
	// All packages import it, so it imports none; the time since the machine started is the
	// system's.
	"internal/clock": {"golang.org/x/sys/unix"},
	// It shows lines on a terminal or in a log, and knows nothing of the work.
	"internal/progress": {"internal/clock", "golang.org/x/sys/unix"},
	// It builds what is published, and has the version from the configuration's package.
	"internal/release": {"internal/config"},
	// Hot paths of several packages count with it, so it imports none.
	"internal/histogram": {},
	// Patterns of names, which commands and the store have.
	"internal/glob": {},
	// Copies of bytes, below everything that is large.
	"internal/bigcopy": {},
	// Where backups are kept: what they are it does not know.
	"internal/target": {"internal/clock", "internal/vfs", "github.com/minio/minio-go/v7",
		"github.com/minio/minio-go/v7/pkg/credentials"},
	// Files, so that tests can replace the system's.
	"internal/vfs": {"golang.org/x/sys/unix"},
	// What options mean is known to those that read them; resp splits lines as Redis does.
	"internal/config": {"resp"},
	// Payloads of DUMP are bytes; commands make values of them.
	"internal/rdb": {"resp"},
	// It reads files and speaks the protocol: what keys are the server knows.
	"internal/importer": {"resp", "internal/clock", "internal/glob", "internal/progress",
		"internal/rdb", "golang.org/x/sys/unix"},
	// What a store has, as files of others: from a store, or through a connection to a server.
	"internal/exporter": {"resp", "commands", "features/outbox", "storage", "storage/object",
		"internal/clock", "internal/importer", "internal/progress", "internal/rdb"},
	// It ends processes with the one that started them, whichever these are.
	"internal/childproc": {},
	// Tests of all packages use it, so it sees a server only from outside.
	"internal/testkit": {"internal/childproc", "internal/testkit/await", "internal/testkit/setup",
		"github.com/redis/go-redis/v9", "golang.org/x/sys/unix"},
	// Waiting has one bound for all tests.
	"internal/testkit/await": {},
	// A group for tests of those that show one.
	"internal/testkit/fakegroup": {"commands", "internal/testkit/await"},
	"internal/testkit/fakes3": {"github.com/johannesboyne/gofakes3",
		"github.com/johannesboyne/gofakes3/backend/s3mem"},
	"internal/testkit/members": {"consensus", "internal/testkit", "internal/testkit/await",
		"github.com/redis/go-redis/v9"},
	// What each test binary does first, whichever package it tests.
	"internal/testkit/setup": {"internal/childproc", "pgregory.net/rapid"},
	// It reads what tests print.
	"internal/testkit/report": {"internal/childproc"},
	// It reads the packages as text, types and calls, and runs none.
	"internal/layout": {"golang.org/x/tools/go/callgraph", "golang.org/x/tools/go/callgraph/cha",
		"golang.org/x/tools/go/callgraph/vta", "golang.org/x/tools/go/packages",
		"golang.org/x/tools/go/ssa", "golang.org/x/tools/go/ssa/ssautil"},
	// Its script changes copies of sources and runs the tests on them.
	"test/mutants": {},
	// Types for other platforms.
	"internal/typecheck": {"golang.org/x/tools/go/packages"},
	// Tests from outside: they start the binary, and import nothing of it.
	"internal/e2e/...": {},
	// Random histories of the store and of commands on simulated disks.
	"internal/torture": {"commands", "storage", "internal/clock", "internal/config",
		"internal/vfs"},

	// What a user of Keyp writes: a client library and nothing of ours.
	"docs/examples/...": {"github.com/redis/go-redis/v9"},
}

// testsMayUse is for tests alone, testkit included.
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

// TestImports holds every import against the rules.
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

// importProblems gives "FILE imports PACKAGE" for each import that no rule allows.
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

// ruleOf gives the key of a folder's rule.
func ruleOf(dir string) (key string, found bool) {
	for key := range rules {
		if covers(key, dir) {
			return key, true
		}
	}
	return "", false
}

// covers reports whether a rule, which may end in /..., is about a package.
func covers(rule, path string) bool {
	folder, tree := strings.CutSuffix(rule, "/...")
	return path == folder || tree && strings.HasPrefix(path, folder+"/")
}

// closure is all that may be imported by a package or by what it imports.
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

// TestRulesPointDown proves that the rules themselves have no cycle.
func TestRulesPointDown(t *testing.T) {
	for rule, imports := range rules {
		for _, next := range imports {
			if next != rule && slices.Contains(closure(next), rule) {
				t.Errorf("%s and %s may import each other", rule, next)
			}
		}
	}
}

// mayReadTime are the folders whose program code may ask the system for the time: the
// clock itself, what runs real processes for tests, and commands that a person waits for.
var mayReadTime = []string{"internal/clock", "internal/testkit/...", "cmd/...", "docs/examples/..."}

// TestTime finds code that asks the system for the time beside internal/clock, so that
// the tests' clock would not rule it. Pacing by time.After or time.NewTicker is no
// reading: nothing is decided by it.
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

// TestOneSearchForRedis finds tests that look for Redis's programs by themselves: they would be
// skipped where KEYP_REQUIRE_REDIS says that nothing of that kind may be.
func TestOneSearchForRedis(t *testing.T) {
	for _, f := range module(t) {
		if f.test() || f.dir() == "internal/testkit" && f.path != "internal/testkit/server.go" {
			for _, at := range searches(f) {
				t.Errorf("%v: use testkit.Program or testkit.Find", at)
			}
		}
	}
}

// searches gives where a file looks for programs.
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

// TestRulesBite gives each check something to find.
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

// module gives every Go file of the module, for all platforms.
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

// parsed parses them, once for all tests.
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
