package progress

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	_ "keyp/internal/testkit/setup"
)

const epoch = 1_700_000_000_000

// TestMeter: a sink gets its first report after a second, and then reports at its own interval. A
// sink that got a report gets another one at the end.
func TestMeter(t *testing.T) {
	now := clock.NewFake(epoch)
	var got []string
	sink := func(name string, every time.Duration) Sink {
		return Sink{every, func(r Report) {
			got = append(got, fmt.Sprintf("%s %s %d%% %v %v %v", name, r.What, r.Percent, r.Elapsed,
				r.Remaining.Round(time.Millisecond), r.Ended))
		}}
	}
	m := New(now, sink("often", time.Second), sink("seldom", 10*time.Second))
	want := func(list ...string) {
		t.Helper()
		if strings.Join(got, "\n") != strings.Join(list, "\n") {
			t.Errorf("got %q\nwant %q", got, list)
		}
		got = nil
	}
	step := func(after time.Duration, units int64) {
		now.Advance(after)
		m.Done(units * grain)
	}
	m.Done(grain) // no work is under way
	m.Begin("short")
	m.Expect(10 * grain)
	step(900*time.Millisecond, 10)
	m.End()
	want()
	m.Begin("long")
	m.Expect(50 * grain)
	m.Expect(50 * grain)
	step(500*time.Millisecond, 10)
	want()
	step(500*time.Millisecond, 10)
	want("often long 20% 1s 4s false", "seldom long 20% 1s 4s false")
	m.Done(10) // too little to look at the clock
	step(500*time.Millisecond, 10)
	want()
	step(500*time.Millisecond, 10)
	want("often long 40% 2s 3s false")
	step(time.Second, 100)
	want("often long 100% 3s 0s false")
	m.Expect(1000 * grain)
	step(time.Second, 1)
	want("often long 100% 4s 0s false")
	m.Begin("next")
	want("often long 100% 4s 0s true", "seldom long 100% 4s 0s true")
	step(time.Second, 1)
	want("often next 0% 1s 0s false", "seldom next 0% 1s 0s false")
	m.End()
	m.End()
	want("often next 100% 1s 0s true", "seldom next 100% 1s 0s true")
	var none *Meter
	none.Begin("nothing")
	none.Expect(1)
	none.Done(1)
	none.End()
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	show := Log(slog.New(slog.NewTextHandler(&out,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))).Show
	show(Report{What: "loading the data", Percent: 41, Remaining: 12345 * time.Millisecond})
	show(Report{What: "loading the data", Percent: 1, Remaining: 2*time.Hour + 31*time.Second})
	show(Report{What: "loading the data", Percent: 99, Remaining: time.Millisecond})
	show(Report{What: "loading the data"})
	show(Report{What: "loading the data", Percent: 100, Elapsed: 3456789 * time.Microsecond,
		Ended: true})
	const line = `level=INFO msg="loading the data" percent=`
	if want := line + "41 remaining=12s\n" + line + "1 remaining=2h1m0s\n" + line +
		"99 remaining=1s\n" + line + "0 remaining=unknown\n" +
		"level=INFO msg=\"loading the data: done\" took=3.457s\n"; out.String() != want {
		t.Errorf("%s\nwant %s", &out, want)
	}
}

// TestTerminal: the progress bar is the last line of a terminal, and log lines appear above it.
func TestTerminal(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if OnTerminal(out) != nil {
		t.Error("a file is a terminal")
	}
	var from int64
	written := func() string { // since it was asked last
		text, err := io.ReadAll(io.NewSectionReader(out, from, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		from += int64(len(text))
		return string(text)
	}
	width := 0
	tty := &Terminal{out: out, width: func() int { return width }}
	bar := tty.Bar()
	want := func(text string) {
		t.Helper()
		if got := written(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	fmt.Fprintln(tty, "a line")
	want("a line\n")
	half := Report{What: "checking", Percent: 50, Remaining: 3 * time.Second}
	bar.Show(half)
	drawn := "checking [" + strings.Repeat("#", 15) + strings.Repeat(" ", 15) + "]  50%, 3s left"
	want(erase + drawn)
	fmt.Fprintln(tty, "a line")
	want(erase + "a line\n" + drawn)
	for width = 1; width < 100; width++ {
		bar.Show(half)
		if text := strings.TrimPrefix(written(), erase); len(text) >= width {
			t.Errorf("%d columns: %q", width, text)
		}
	}
	bar.Show(Report{What: "checking", Percent: 100, Ended: true})
	want(erase)
	fmt.Fprintln(tty, "a line")
	want("a line\n")
}
