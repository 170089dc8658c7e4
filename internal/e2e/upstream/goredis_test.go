package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/childproc"
	"keyp/internal/testkit"
)

// This file compiles go-redis's own tests and runs them against Keyp. It compares the failed tests
// with the documented list of failures.

const (
	module = "github.com/redis/go-redis/v9"
	// go-redis's own tests are run here, against Keyp. They always expect the server at this port.
	port = 6379
	// limit is the time for all tests together. With Redis they take half a minute.
	limit = 8 * time.Minute
)

// The tests run once for each of these versions of Redis, and expect its behaviour.
var versions = []string{"7.4", "8.4", "8.6", "8.10"}

// Which tests run. The tests of modules are left out, and those that a single server without TLS
// cannot run.
const (
	focus = `Commands |ACL|PubSub|Tx|pipelining|ScanIterator`
	skip  = `RediSearch|Timeseries|TS.|JSON|Probabilistic|Vector|Array Commands|HOTKEYS|HotKeys|` +
		`Command Tips|Cluster|Ring|Sentinel|TLS|FT.HYBRID|AutoPipeline`
)

// spec is a test in ginkgo's report.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	NumAttempts             int // 0: it was not chosen
	Failure                 struct {
		Message        string
		ForwardedPanic string
		Location       struct {
			FileName   string
			LineNumber int
		}
	}
}

func (s spec) name() string {
	return strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " ")
}

// why returns the reason for a failure on one line.
func (s spec) why() string {
	text := strings.Join(strings.Fields(s.Failure.Message+" "+s.Failure.ForwardedPanic), " ")
	const most = 240
	if len(text) > most {
		text = text[:most] + "…"
	}
	return fmt.Sprintf("%s:%d: %s", filepath.Base(s.Failure.Location.FileName),
		s.Failure.Location.LineNumber, text)
}

func TestGoRedis(t *testing.T) {
	if os.Getenv("KEYP_UPSTREAM") != "1" {
		t.Skip("SKIPPED: it takes a minute and port 6379; make test-go-redis runs it")
	}
	root, err := testkit.Root()
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, "docs", "reference", "redis.md")
	binary, dir := compile(t, root)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			expected := readExpected(t, page, version)
			judge(t, runSuite(t, binary, dir, version), expected)
		})
	}
}

// compile builds the tests from the module cache, or from the module proxy if they are not there
// yet. It also returns the package's folder.
func compile(t *testing.T, root string) (binary, dir string) {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		var complaints strings.Builder
		cmd.Stderr = &complaints
		output, err := cmd.Output()
		if err != nil {
			t.Fatalf("go-redis's tests can't be compiled; they and what they import must be in the module "+
				"cache or to be had from GOPROXY.\ngo %s: %v\n%s", strings.Join(args, " "), err,
				complaints.String())
		}
		return strings.TrimSpace(string(output))
	}
	binary = filepath.Join(root, "bin", "testkit", "go-redis.test")
	run("test", "-c", "-o", binary, module)
	return binary, run("list", "-f", "{{.Dir}}", module)
}

// runSuite runs the tests against a fresh Keyp, in their own folder. It returns the report on the
// tests that ran.
func runSuite(t *testing.T, binary, dir, version string) []spec {
	t.Helper()
	config := filepath.Join(t.TempDir(), "keyp.conf") // for CONFIG REWRITE
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server := testkit.NewKeyp(t, testkit.Options{Port: port, Config: config})
	server.Start()

	report := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.Command(binary, "-test.run", "^TestGinkgoSuite$", "-test.timeout", limit.String(),
		"-ginkgo.focus", focus, "-ginkgo.skip", skip, "-ginkgo.no-color",
		"-ginkgo.flake-attempts", "3", "-ginkgo.json-report", report) // some are about milliseconds
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "RE_CLUSTER=true", "RCE_DOCKER=false", "REDIS_VERSION="+version)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := childproc.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	data, readErr := os.ReadFile(report)
	if readErr != nil {
		t.Fatalf("go-redis's tests left no report (%v; %v); they printed:\n%s", err, readErr,
			output.Bytes()[max(0, output.Len()-8<<10):])
	}
	server.Stop()

	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(data, &suites); err != nil {
		t.Fatal(err)
	}
	var ran []spec
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType == "It" && s.NumAttempts > 0 ||
				s.LeafNodeType != "It" && s.State != "passed" {
				ran = append(ran, s)
			}
		}
	}
	return ran
}

// expectation is a row of the list in docs/reference/redis.md. It names tests by their whole name,
// or by the beginning of the name followed by "…".
type expectation struct {
	test, reason string
	failed       int // how many did
}

func (e *expectation) covers(name string) bool {
	if begin, open := strings.CutSuffix(e.test, "…"); open {
		return strings.HasPrefix(name, begin)
	}
	return name == e.test
}

// row matches "| `Commands streams …` | 8.4, 8.10 | reason |".
var row = regexp.MustCompile("^\\| `([^`]+)` \\| ([0-9., ]+) \\| (.+) \\|$")

// readExpected reads the page's list of the tests that fail with a version.
func readExpected(t *testing.T, page, version string) (list []*expectation) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## go-redis's own tests\n")
	if !found {
		t.Fatalf("%s has no section about go-redis's own tests", page)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if m := row.FindStringSubmatch(strings.TrimSpace(line)); m != nil &&
			slices.Contains(strings.Split(m[2], ", "), version) {
			list = append(list, &expectation{test: m[1], reason: m[3]})
		}
	}
	return list
}

// judge prints the summary. It fails for a test that fails and is not in the list. It also fails
// for a test that did not run because something was missing, and for a row of the list without a
// failing test.
func judge(t *testing.T, ran []spec, expected []*expectation) {
	t.Helper()
	passed, skipped, listed := 0, 0, 0
	var failures, known []string
	for _, s := range ran {
		switch {
		case s.State == "passed":
			passed++
			if s.NumAttempts > 1 {
				t.Logf("passed when tried again: %s", s.name())
			}
		case s.State == "skipped" && !strings.Contains(s.Failure.Message, "unavailable"):
			skipped++
		default:
			i := slices.IndexFunc(expected, func(e *expectation) bool { return e.covers(s.name()) })
			if i < 0 {
				failures = append(failures,
					fmt.Sprintf("%s (%s)\n\t%s", s.name(), s.State, s.why()))
				continue
			}
			expected[i].failed++
			listed++
		}
	}
	for _, e := range expected {
		known = append(known, fmt.Sprintf("%3d  %s: %s", e.failed, e.test, e.reason))
		if e.failed == 0 {
			t.Errorf("docs/reference/redis.md says that this fails, and nothing of it does: %s",
				e.test)
		}
	}
	for _, failure := range failures {
		t.Errorf("FAILED %s", failure)
	}
	t.Logf("%d passed, %d failed, %d failed as docs/reference/redis.md says, %d are for other versions or call themselves flaky\n%s",
		passed, len(failures), listed, skipped, strings.Join(known, "\n"))
	if passed == 0 {
		t.Error("no test passed at all")
	}
}
