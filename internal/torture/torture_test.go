package torture

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/storage"
)

// This file contains the tests that run histories. A history is a random series of operations and
// crashes. The data is checked after each crash.

const (
	// perHistory is the number of crashes in a history.
	perHistory = 25
	// short is the time that the test runs by default.
	short = 2 * time.Second
)

func TestMain(m *testing.M) {
	storage.FixHashes()
	os.Exit(m.Run())
}

// TestTorture runs histories until KEYP_TORTURE (a duration) has passed. With KEYP_TORTURE_SEED it
// runs only that history. KEYP_TORTURE_TRACE prints the history's actions.
func TestTorture(t *testing.T) {
	budget := short
	if v := os.Getenv("KEYP_TORTURE"); v != "" {
		var err error
		if budget, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if v := os.Getenv("KEYP_TORTURE_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		h := torture(t, seed, all, perHistory, func() bool { return false })
		if os.Getenv("KEYP_TORTURE_TRACE") != "" {
			t.Log(strings.Join(h.trace, "\n"))
		}
		return
	}
	seed := testkit.Seed(t)
	up := func() bool { return time.Since(began) > budget }
	histories, crashes, recoveries, issued := 0, 0, 0, 0
	for ; !up() && !t.Failed(); seed++ {
		h := torture(t, seed, all, perHistory, up)
		histories++
		crashes, recoveries, issued = crashes+h.crashes, recoveries+h.recoveries, issued+h.issued
	}
	t.Logf("%d histories, %d operations, %d crashes, %d starts in %v, last seed %d", histories,
		issued, crashes, recoveries, time.Since(began).Round(time.Millisecond), seed-1)
}

// all are the commands that histories draw from.
var all = slices.Concat(templates, newer)

// torture runs the history of a seed with commands from a list. If the history fails, the test
// fails.
func torture(t *testing.T, seed uint64, list []template, crashes int,
	until func() bool) (h *history) {
	t.Helper()
	dir := testkit.MemoryDir(t)
	defer func() {
		if err := os.RemoveAll(dir); err != nil { // there are many
			t.Error(err)
		}
	}()
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		text := fmt.Sprint(p)
		f, ok := p.(failure)
		if ok {
			text = f.text
		}
		last := 30
		if os.Getenv("KEYP_TORTURE_TRACE") != "" {
			last = len(h.trace)
		}
		t.Errorf("seed %d, after %d crashes: %s\nbefore that:\n%s", seed, h.crashes, text,
			strings.Join(h.trace[max(0, len(h.trace)-last):], "\n"))
		if !ok {
			panic(p)
		}
	}()
	h = newHistory(seed, list, dir)
	h.run(crashes, until)
	if err := h.twin.store.Close(false); err != nil {
		h.fail("the twin: %v", err)
	}
	return h
}

// TestSeedsReproduce runs a history twice, with the same result.
func TestSeedsReproduce(t *testing.T) {
	never := func() bool { return false }
	a, b := torture(t, 1, all, 5, never), torture(t, 1, all, 5, never)
	if a.sum != b.sum || a.crashes != b.crashes {
		for i := range min(len(a.trace), len(b.trace)) {
			if a.trace[i] != b.trace[i] {
				t.Fatalf("step %d is %s, and then %s", i, a.trace[i], b.trace[i])
			}
		}
		t.Fatalf("%d crashes, %x; and then %d, %x", a.crashes, a.sum, b.crashes, b.sum)
	}
}

// TestFoundSeeds runs histories that have found a failure before.
func TestFoundSeeds(t *testing.T) {
	for _, found := range []struct {
		seed uint64
		list []template
	}{
		// A value came back. A key had been renamed over it, was removed by the reaper, and was
		// gone from the data file.
		{725777502, templates},
	} {
		torture(t, found.seed, found.list, perHistory, func() bool { return false })
	}
}
