package main

import (
	"strings"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestReport follows what go test says of packages that pass, fail and are skipped.
func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	err := r.read(strings.NewReader(`{"Action":"output","Package":"a","Test":"TestFine","Output":"=== RUN   TestFine\n"}
{"Action":"output","Package":"a","Test":"TestFine","Output":"    a_test.go:1: chatter\n"}
{"Action":"pass","Package":"a","Test":"TestFine"}
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
