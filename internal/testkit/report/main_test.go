package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestReport reads go test's output on packages that pass, fail and are skipped.
func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	err := r.read(strings.NewReader(`{"Action":"output","Package":"a","Test":"TestFine","Output":"=== RUN   TestFine\n"}
{"Action":"output","Package":"a","Test":"TestFine","Output":"    a_test.go:1: chatter\n"}
{"Action":"pass","Package":"a","Test":"TestFine","Elapsed":1.25}
{"Action":"output","Package":"a","Test":"TestNot","Output":"=== RUN   TestNot\n"}
{"Action":"output","Package":"a","Test":"TestNot","Output":"    a_test.go:9: SKIPPED: no redis-server\n"}
{"Action":"output","Package":"a","Test":"TestNot","Output":"--- SKIP: TestNot (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestNot"}
{"Action":"skip","Package":"a","Test":"TestSilent"}
{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}
{"Action":"pass","Package":"a"}
{"Action":"output","Package":"b","Test":"TestBad","Output":"    b_test.go:3: it is wrong\n"}
{"Action":"output","Package":"b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"b","Test":"TestBad"}
{"Action":"output","Package":"b","Test":"TestHangs","Output":"goroutine 1\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t0.2s\n"}
{"Action":"fail","Package":"b"}
{"Action":"output","Package":"c","Output":"?   \tc\t[no test files]\n"}
{"Action":"skip","Package":"c"}
go: what go says itself
{"Action":"build-output","ImportPath":"d","Output":"d.go:1: syntax error\n"}
`))
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	want := "ok  \ta\t0.1s\n" +
		"    b_test.go:3: it is wrong\n--- FAIL: TestBad (0.00s)\n" +
		"FAIL\tb\t0.2s\n" +
		"?   \tc\t[no test files]\n" +
		"go: what go says itself\n" +
		"d.go:1: syntax error\n" +
		"b TestHangs did not end, it printed:\ngoroutine 1\n" +
		"slowest:\n" +
		"     1.2 s  a TestFine\n" +
		"failed: b TestBad\n" +
		"skipped: 2 tests (1: no redis-server; 1: no reason given)\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNothingSkipped(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	r.close()
	if got := out.String(); got != "skipped: nothing\n" {
		t.Errorf("got %q", got)
	}
}

// fakeTests runs tests by name, as go test does. Each run of a test returns the next of its
// prepared events.
type fakeTests struct {
	runs   map[string][]string // events, by package or package.Test
	args   [][]string
	status int // one more than go test's, 0: what the events say
}

func (f *fakeTests) test(args []string, read func(io.Reader) error) (int, error) {
	f.args = append(f.args, args)
	key := "all"
	if at := slices.Index(args, "-run"); at >= 0 {
		key = args[at+2] + "." + strings.Trim(args[at+1], "^$")
	} else if len(f.args) > 1 {
		key = args[len(args)-1]
	}
	if len(f.runs[key]) == 0 {
		return 1, fmt.Errorf("%s is not to run", key)
	}
	events := f.runs[key][0]
	f.runs[key] = f.runs[key][1:]
	status := 0
	if strings.Contains(events, `"fail"`) {
		status = 1
	}
	if f.status != 0 {
		status = f.status - 1
	}
	return status, read(strings.NewReader(events))
}

// failing returns the events of a package whose tests fail.
func failing(tests ...string) string {
	var events strings.Builder
	for _, test := range tests {
		fmt.Fprintf(&events, `{"Action":"run","Package":"p","Test":%[1]q}
{"Action":"output","Package":"p","Test":%[1]q,"Output":"%[1]s is bad\n"}
{"Action":"fail","Package":"p","Test":%[1]q}
`, test)
	}
	return events.String() + `{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
`
}

const passing = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"pass","Package":"p"}
`

func TestOnceMore(t *testing.T) {
	unfinished := `{"Action":"run","Package":"p","Test":"TestHangs"}
{"Action":"fail","Package":"p"}
`
	unbuilt := `{"Action":"fail","Package":"p","FailedBuild":"p"}
`
	nothing := `{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"pass","Package":"p"}
`
	skipping := `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"pass","Package":"p"}
`
	race := `{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
` + failing("TestA")
	elsewhere := strings.Replace(race, "WARNING", "        WARNING", 1)
	late := strings.Replace(failing("TestA"), `{"Action":"fail","Package":"p"}`,
		`{"Action":"output","Package":"p","Output":"not all commands were sent\n"}
{"Action":"fail","Package":"p"}`, 1)
	forgotten := failing("TestA") + `{"Action":"start","Package":"q"}
`
	other := failing("TestA") + `{"Action":"output","Package":"q","Output":"FAIL\n"}
{"Action":"fail","Package":"q"}
`
	const flaky = "FLAKY p.TestA: it failed with KEYP_SEED=7, and passed when it ran once more.\n" +
		"At first it printed:\n    TestA is bad\n"
	for _, test := range []struct {
		name   string
		runs   map[string][]string
		status int
		says   string
		often  int
	}{
		{"all pass", map[string][]string{"all": {passing}}, 0, "skipped: nothing\n", 1},
		{"flaky", map[string][]string{"all": {failing("TestA")}, "p.TestA": {passing}}, 0, flaky,
			2},
		{"by a subtest", map[string][]string{"all": {failing("TestA/sub", "TestA")},
			"p.TestA": {passing}},
			0, "    TestA/sub is bad\n    TestA is bad\n", 2},
		{"fails twice", map[string][]string{"all": {failing("TestA")},
			"p.TestA": {failing("TestA")}},
			1, "FAIL p.TestA: it failed twice, with KEYP_SEED=7\n", 2},
		{"is not there", map[string][]string{"all": {failing("TestA")}, "p.TestA": {nothing}},
			1, "FAIL p.TestA: it failed twice, with KEYP_SEED=7\n", 2},
		{"too many", map[string][]string{"all": {failing("TestA", "TestB", "TestC", "TestD")}},
			1, "4 tests failed, more than 3: none is run again\n", 1},
		{"crash", map[string][]string{"all": {unfinished}, "p": {passing}},
			0, "FLAKY p: it failed with KEYP_SEED=7, and passed when it ran once more.\n" +
				"At first it printed:\n    p TestHangs did not end\n", 2},
		{"crashes twice", map[string][]string{"all": {unfinished}, "p": {unfinished}},
			1, "FAIL p: it failed twice, with KEYP_SEED=7\n", 2},
		{"skips the second time", map[string][]string{"all": {failing("TestA")},
			"p.TestA": {skipping}},
			1, "FAIL p.TestA: it failed twice, with KEYP_SEED=7\n", 2},
		{"data race", map[string][]string{"all": {race}}, 1, "skipped: nothing\n", 1},
		{"data race of another process", map[string][]string{"all": {elsewhere}}, 1,
			"skipped: nothing\n", 1},
		{"no tests", map[string][]string{"all": {`{"Action":"skip","Package":"p"}`}}, 0,
			"skipped: nothing\n", 1},
		{"says more after its tests", map[string][]string{"all": {late}, "p": {late}},
			1, "FAIL p: it failed twice, with KEYP_SEED=7\n", 2},
		{"a package did not end", map[string][]string{"all": {forgotten}}, 1, "skipped: nothing\n",
			1},
		{"a package fails without a test", map[string][]string{"all": {other}, "p.TestA": {passing},
			"q": {strings.ReplaceAll(late, `"p"`, `"q"`)}}, 1,
			"FAIL q: it failed twice, with KEYP_SEED=7\n", 2},
		{"not built", map[string][]string{"all": {unbuilt}}, 1, "skipped: nothing\n", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("KEYP_SEED", "7")
			var out strings.Builder
			fake := &fakeTests{runs: test.runs}
			status, err := run(&out, []string{"-parallel=4", "./a", "./..."}, fake.test)
			if err != nil || status != test.status || !strings.HasSuffix(out.String(), test.says) {
				t.Errorf("status %d, want %d; error %v; output\n%s\nwant at the end\n%s",
					status, test.status, err, out.String(), test.says)
			}
			if len(fake.args) != test.often {
				t.Errorf("go test ran %d times, want %d: %q", len(fake.args), test.often, fake.args)
			}
			for _, args := range fake.args[1:] {
				if args[0] != "-parallel=4" || slices.Contains(args, "./...") ||
					!slices.Contains(args, "-count=1") {
					t.Errorf("once more with %q", args)
				}
			}
		})
	}
}

// TestRandomSeed: with KEYP_SEED=random one seed is drawn for all processes of both runs.
func TestRandomSeed(t *testing.T) {
	t.Setenv("KEYP_SEED", "random")
	first, err := fixSeed()
	if err != nil || first == "random" || first == "" {
		t.Fatalf("got %q, %v", first, err)
	}
	if second, err := fixSeed(); err != nil || second != first {
		t.Errorf("got %q, then %q, %v", first, second, err)
	}
}

// TestStatus: a status that contradicts the tests' events is not believed.
func TestStatus(t *testing.T) {
	unended := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
`
	unbegun := `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	for name, test := range map[string]struct {
		events string
		status int
	}{
		"0 in spite of a failure": {failing("TestA"), 0},
		"0 in the middle":         {unended, 0},
		"0 before the first test": {unbegun, 0},
		"killed":                  {failing("TestA"), -1},
	} {
		fake := &fakeTests{runs: map[string][]string{"all": {test.events}}, status: test.status + 1}
		if test.status == -1 {
			fake.status = -1
		}
		var out strings.Builder
		if status, err := run(&out, []string{"./..."}, fake.test); err != nil || status != 1 ||
			len(fake.args) != 1 {
			t.Errorf("%s: status %d, %v, %q\n%s", name, status, err, fake.args, out.String())
		}
	}
}
