// Command report runs go test with the arguments given and prints what go test prints, without
// the chatter of tests that pass. At the end it lists the slowest tests, and says what was
// skipped and why.
//
// A test that fails is run once more, alone, with the same seed. If it fails again, the run fails.
// If it passes, it is flaky: the run passes, and the last lines name the test with the seed and
// what it printed first. More than three failing tests are not run again: the run fails. If the
// process of a package crashes, the results of its remaining tests are unknown. So the package
// counts as one test, and is run once more as a whole. Nothing excuses a package that does not
// compile, a data race, or a process that exits with 0 although a test failed, did not end, or
// never began.
//
// The packages are the last arguments, those that begin with a dot.
package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"keyp/internal/childproc"
)

// maxFlaky is how many tests of a run may pass only when they are run once more.
const maxFlaky = 3

func main() {
	childproc.EndWithParent()
	status, err := run(os.Stdout, os.Args[1:], goTest)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	os.Exit(status)
}

// tester runs go test -json with arguments, hands its events to read, and returns its exit status.
type tester func(args []string, read func(io.Reader) error) (status int, err error)

func goTest(args []string, read func(io.Reader) error) (status int, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := childproc.Start(cmd); err != nil {
		return 1, err
	}
	err = read(events)
	_ = cmd.Wait() // its status says it
	return cmd.ProcessState.ExitCode(), err
}

// run returns the status to exit with.
func run(w io.Writer, args []string, test tester) (status int, err error) {
	seed, err := fixSeed()
	if err != nil {
		return 1, err
	}
	r := newReport(w)
	status, err = test(args, r.read)
	r.close()
	if err != nil {
		return max(status, 1), err
	}
	if status == 0 && r.sound() {
		return 0, nil
	}
	if status != 1 { // go test was killed, or a test process said 0 in spite of a failure
		fmt.Fprintf(w, "FAIL: go test ended with status %d, which does not go with its tests\n",
			status)
		return max(status, 1), nil
	}
	failures, again := r.failures()
	switch {
	case !again:
		return status, nil
	case len(failures) > maxFlaky:
		fmt.Fprintf(w, "%d tests failed, more than %d: none is run again\n",
			len(failures), maxFlaky)
		return status, nil
	}
	for _, f := range failures {
		fmt.Fprintf(w, "\nonce more, alone: %s\n", f)
		second := newReport(w)
		status, err := test(f.args(args), second.read)
		if err != nil {
			return 1, err
		}
		if status != 0 || !second.passed(f, r) {
			fmt.Fprintf(w, "FAIL %s: it failed twice, with KEYP_SEED=%s\n", f, seed)
			return 1, nil
		}
	}
	for _, f := range failures {
		fmt.Fprintf(w, "FLAKY %s: it failed with KEYP_SEED=%s, and passed when it ran once more.\n"+
			"At first it printed:\n%s", f, seed, indent(f.printed))
	}
	return 0, nil
}

// fixSeed returns the seed of the tests. A random seed is drawn here, so that all processes have
// the same one, and a test that runs once more has it again.
func fixSeed() (string, error) {
	switch seed := os.Getenv("KEYP_SEED"); seed {
	case "":
		return "1", nil // internal/testkit/setup
	case "random":
		seed = strconv.FormatUint(1+rand.Uint64N(1<<40), 10)
		return seed, os.Setenv("KEYP_SEED", seed)
	default:
		return seed, nil
	}
}

// failure is a test, or with an empty name a whole package, to be run once more.
type failure struct {
	pkg, test string
	printed   []string
}

func (f failure) String() string {
	if f.test == "" {
		return f.pkg
	}
	return f.pkg + "." + f.test
}

// args returns the arguments of go test that run only this failure. all are the arguments of the
// whole run.
func (f failure) args(all []string) []string {
	flags := all
	for len(flags) > 0 && strings.HasPrefix(flags[len(flags)-1], ".") {
		flags = flags[:len(flags)-1]
	}
	own := append(append([]string{}, flags...), "-count=1")
	if f.test != "" {
		own = append(own, "-run", "^"+f.test+"$")
	}
	return append(own, f.pkg)
}

// maxPrinted is how many lines of a flaky test's first output are shown at the end. The whole
// output is further up.
const maxPrinted = 40

func indent(lines []string) string {
	text := strings.Split(strings.TrimRight(strings.Join(lines, ""), "\n"), "\n")
	if len(text) > maxPrinted {
		text = append(text[:maxPrinted:maxPrinted], "…")
	}
	return "    " + strings.Join(text, "\n    ") + "\n"
}
