// Command report runs go test with the arguments given and prints what go test prints, without
// the chatter of tests that pass. Its last line says what was skipped and why, since go test
// shows that only with -v, and nobody reads that.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"keyp/internal/tether"
)

func main() {
	status, err := run(os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	os.Exit(status)
}

// run gives go test's exit status.
func run(w io.Writer, args []string) (status int, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := tether.Start(cmd); err != nil {
		return 1, err
	}
	tether.EndWithParent()
	r := newReport(w)
	err = r.read(events)
	_ = cmd.Wait() // its status says it
	r.close()
	return cmd.ProcessState.ExitCode(), err
}

// event is one of go test's, as `go doc test2json` has them.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// report follows the tests of all packages.
type report struct {
	w       io.Writer
	printed map[string][]string // what each running test, or its package, has printed
	skipped []skip
	failed  []string
}

type skip struct{ test, reason string }

func newReport(w io.Writer) *report { return &report{w: w, printed: map[string][]string{}} }

func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else {
				fmt.Fprint(r.w, string(line)) // go's own words
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// packageLine is go test's summary of a package.
var packageLine = regexp.MustCompile(`^(ok  |FAIL|\?   |---|panic:|exit status|coverage:)`)

func (r *report) take(e event) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if e.Test == "" && packageLine.MatchString(e.Output) {
			fmt.Fprint(r.w, e.Output)
			return
		}
		r.printed[id] = append(r.printed[id], e.Output)
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "fail":
		fmt.Fprint(r.w, strings.Join(r.printed[id], ""))
		if e.Test != "" {
			r.failed = append(r.failed, id)
		}
		delete(r.printed, id)
	case "skip":
		if e.Test != "" {
			r.skipped = append(r.skipped, skip{id, reasonIn(r.printed[id])})
		}
		delete(r.printed, id)
	case "pass":
		delete(r.printed, id)
	}
}

// reasonLine is what testing prints for Skip: the file, the line, and the reason.
var reasonLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n`)

func reasonIn(printed []string) string {
	for _, line := range slices.Backward(printed) {
		if m := reasonLine.FindStringSubmatch(line); m != nil {
			return strings.TrimPrefix(m[1], "SKIPPED: ")
		}
	}
	return "no reason given"
}

// close prints what a test had printed that never ended, and the closing lines.
func (r *report) close() {
	for id, lines := range r.printed {
		if !strings.HasSuffix(id, " ") {
			fmt.Fprintf(r.w, "%s did not end, it printed:\n%s", id, strings.Join(lines, ""))
		}
	}
	if len(r.failed) > 0 {
		fmt.Fprintf(r.w, "failed: %s\n", strings.Join(r.failed, ", "))
	}
	if len(r.skipped) == 0 {
		fmt.Fprintln(r.w, "skipped: nothing")
		return
	}
	count := map[string]int{}
	var reasons []string
	for _, s := range r.skipped {
		if count[s.reason]++; count[s.reason] == 1 {
			reasons = append(reasons, s.reason)
		}
	}
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d: %s", count[reason], reason)
	}
	tests := "tests"
	if len(r.skipped) == 1 {
		tests = "test"
	}
	fmt.Fprintf(r.w, "skipped: %d %s (%s)\n", len(r.skipped), tests, strings.Join(reasons, "; "))
}
