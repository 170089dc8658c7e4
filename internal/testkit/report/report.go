package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// slowest is the number of the slowest tests that are listed.
const slowest = 10

// event is an event of go test -json, which `go doc test2json` describes.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string
}

// report collects the results of the tests of all packages.
type report struct {
	w       io.Writer
	printed map[name][]string // what each running test, or its package, has printed
	running map[name]bool
	ended   map[name]bool
	skipped []skip
	failed  []failure
	tested  map[string]bool // packages whose tests all ran, and some failed
	crashed []string        // packages that ended before, or that failed for another reason
	broken  bool            // something failed that is no test, or that no second run excuses
	more    map[string]bool // packages that said something after their last test
	open    map[string]bool // packages that began and did not end
	good    map[string]bool // packages whose tests all ran, and none failed
	times   []timed
}

// name identifies a test, or a package if test is empty.
type name struct{ pkg, test string }

func (n name) String() string { return strings.TrimSuffix(n.pkg+" "+n.test, " ") }

type skip struct {
	test   name
	reason string
}

type timed struct {
	test    name
	seconds float64
}

func newReport(w io.Writer) *report {
	return &report{
		w: w, printed: map[name][]string{}, running: map[name]bool{}, ended: map[name]bool{},
		tested: map[string]bool{}, more: map[string]bool{}, open: map[string]bool{},
		good: map[string]bool{},
	}
}

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

// packageLine matches the lines of go test's summary of a package.
var packageLine = regexp.MustCompile(`^(ok  |FAIL|\?   |---|panic:|exit status|coverage:)`)

// lastLine matches the lines that go test prints for a package after its last test, if only tests
// failed.
var lastLine = regexp.MustCompile(`^(FAIL\n|FAIL\t|exit status 1\n|coverage: )`)

func (r *report) take(e event) {
	id := name{e.Package, e.Test}
	switch e.Action {
	case "start":
		r.open[e.Package] = true
	case "run":
		r.running[id] = true
	case "output":
		// A race depends on timing: a second run would perhaps pass. The output of another
		// process is indented in a test's message, so its races are found too.
		if strings.Contains(e.Output, "WARNING: DATA RACE") {
			r.broken = true
		}
		if e.Test == "" && r.tested[e.Package] && !lastLine.MatchString(e.Output) {
			r.more[e.Package] = true
		}
		if e.Test == "" && e.Output == "FAIL\n" { // what package testing prints after the last test
			r.tested[e.Package] = true
		}
		if e.Test == "" && strings.HasSuffix(e.Output, "PASS\n") {
			// package testing prints this line too, perhaps right after other output of
			// the tests.
			r.good[e.Package] = true
		}
		if e.Test == "" && packageLine.MatchString(e.Output) {
			fmt.Fprint(r.w, e.Output)
			return
		}
		r.printed[id] = append(r.printed[id], e.Output)
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "fail", "pass", "skip":
		r.end(e, id)
	}
}

func (r *report) end(e event, id name) {
	switch {
	case e.Action == "skip" && id.test != "":
		r.skipped = append(r.skipped, skip{id, reasonIn(r.printed[id])})
	case e.Action == "fail":
		fmt.Fprint(r.w, strings.Join(r.printed[id], ""))
		if id.test != "" {
			r.failed = append(r.failed, failure{id.pkg, id.test, r.printed[id]})
		}
	}
	if id.test == "" {
		delete(r.open, e.Package)
		switch {
		case e.Action == "fail":
			r.endPackage(e)
		case e.Action == "skip": // it has no tests
		case r.anyFailed(e.Package), r.anyRunning(e.Package), !r.good[e.Package]:
			// go test calls the package good, but a test failed or did not end, or PASS
			// is missing.
			r.broken = true
		}
	}
	if id.test != "" && !strings.Contains(id.test, "/") {
		r.times = append(r.times, timed{id, e.Elapsed})
	}
	delete(r.printed, id)
	delete(r.running, id)
	r.ended[id] = true
}

// endPackage notes a failed package, unless only its tests failed.
func (r *report) endPackage(e event) {
	switch {
	case e.FailedBuild != "":
		r.broken = true
	case !r.tested[e.Package], r.more[e.Package], !r.anyFailed(e.Package), r.anyRunning(e.Package):
		r.crashed = append(r.crashed, e.Package)
	}
}

func (r *report) anyFailed(pkg string) bool {
	return slices.ContainsFunc(r.failed, func(f failure) bool {
		return f.pkg == pkg && !strings.Contains(f.test, "/")
	})
}

func (r *report) anyRunning(pkg string) bool {
	for id := range r.running {
		if id.pkg == pkg {
			return true
		}
	}
	return false
}

// sound reports whether a run that go test calls good really was good. For go test a process also
// passes if it exits with 0 before its last test, or in spite of a failure.
func (r *report) sound() bool {
	return len(r.failed) == 0 && len(r.running) == 0 && len(r.open) == 0 && !r.broken
}

// failures returns the failures to run once more: the failed tests, without their subtests, and the
// crashed packages. It returns false if a second run cannot show anything.
func (r *report) failures() ([]failure, bool) {
	var all []failure
	for _, pkg := range r.crashed {
		all = append(all, failure{pkg: pkg, printed: r.printedBy(failure{pkg: pkg})})
	}
	for _, f := range r.failed {
		if !strings.Contains(f.test, "/") && !slices.Contains(r.crashed, f.pkg) {
			f.printed = r.printedBy(f)
			all = append(all, f)
		}
	}
	return all, len(all) > 0 && !r.broken && len(r.open) == 0
}

// printedBy returns the output of a failed test and its subtests. For a package it returns the
// output of all failed tests, and a line for each unfinished one.
func (r *report) printedBy(f failure) []string {
	var lines []string
	for _, other := range r.failed {
		own := other.test == f.test || strings.HasPrefix(other.test, f.test+"/")
		if other.pkg == f.pkg && (f.test == "" || own) {
			lines = append(lines, other.printed...)
		}
	}
	var unfinished []string
	for id := range r.running {
		if f.test == "" && id.pkg == f.pkg {
			unfinished = append(unfinished, fmt.Sprintf("%s did not end\n", id))
		}
	}
	slices.Sort(unfinished)
	return append(lines, unfinished...)
}

// passed reports whether f ran and passed in this run, and the run was complete: it skipped no test
// that the run before did not skip.
func (r *report) passed(f failure, before *report) bool {
	for _, s := range r.skipped {
		if !slices.ContainsFunc(before.skipped, func(b skip) bool { return b.test == s.test }) {
			return false
		}
	}
	return r.sound() && r.ended[name{f.pkg, f.test}]
}

// reasonLine matches the line that package testing prints for Skip: the file, the line, and the
// reason.
var reasonLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n`)

func reasonIn(printed []string) string {
	for _, line := range slices.Backward(printed) {
		if m := reasonLine.FindStringSubmatch(line); m != nil {
			return strings.TrimPrefix(m[1], "SKIPPED: ")
		}
	}
	return "no reason given"
}

// close prints the output of the tests that never ended, and the closing lines.
func (r *report) close() {
	byName := func(a, b name) int { return cmp.Compare(a.String(), b.String()) }
	for _, id := range slices.SortedFunc(maps.Keys(r.printed), byName) {
		if id.test != "" {
			fmt.Fprintf(r.w, "%s did not end, it printed:\n%s", id, strings.Join(r.printed[id], ""))
		}
	}
	r.closeTimes()
	if len(r.failed) > 0 {
		var failed []string
		for _, f := range r.failed {
			failed = append(failed, name{f.pkg, f.test}.String())
		}
		fmt.Fprintf(r.w, "failed: %s\n", strings.Join(failed, ", "))
	}
	r.closeSkipped()
}

func (r *report) closeTimes() {
	slices.SortStableFunc(r.times, func(a, b timed) int {
		return cmp.Compare(b.seconds, a.seconds)
	})
	var slow []string
	for _, t := range r.times[:min(slowest, len(r.times))] {
		if t.seconds >= 0.05 {
			slow = append(slow, fmt.Sprintf("  %6.1f s  %s\n", t.seconds, t.test))
		}
	}
	if len(slow) > 0 {
		fmt.Fprintf(r.w, "slowest:\n%s", strings.Join(slow, ""))
	}
}

func (r *report) closeSkipped() {
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
