package progress

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// This file shows progress in two ways: as lines of a log, and as a bar on a terminal.

const (
	logEvery = 10 * time.Second
	barEvery = 100 * time.Millisecond
	// barWidth is the width of the bar alone. A terminal narrower than fewWidth shows no bar.
	barWidth = 30
	fewWidth = 70
)

// Log shows reports as lines of a log.
func Log(l *slog.Logger) Sink {
	return Sink{logEvery, func(r Report) {
		if r.Ended {
			l.Info(r.What+": done", "took", r.Elapsed.Round(time.Millisecond).String())
			return
		}
		l.Info(r.What, "percent", r.Percent, "remaining", remaining(r))
	}}
}

// remaining returns the remaining time of a report as text. It is rounded, because it is an
// estimate.
func remaining(r Report) string {
	switch {
	case r.Remaining == 0:
		return "unknown"
	case r.Remaining < time.Second:
		return "1s"
	case r.Remaining > time.Hour:
		return r.Remaining.Round(time.Minute).String()
	}
	return r.Remaining.Round(time.Second).String()
}

// Terminal is a terminal that may show a progress bar in its last line. Other output appears above
// the bar.
type Terminal struct {
	out   *os.File
	width func() int

	mu struct {
		sync.Mutex
		bar string // the one that is there
	}
}

// OnTerminal returns the Terminal for a file, or nil if the file is not a terminal.
func OnTerminal(f *os.File) *Terminal {
	width := func() int {
		size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return 0
		}
		return int(size.Col)
	}
	if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err != nil {
		return nil
	}
	return &Terminal{out: f, width: width}
}

// erase moves the cursor to the beginning of the line and clears the line.
const erase = "\r\x1b[K"

// Write writes lines, above the bar if there is one.
func (t *Terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.bar == "" {
		return t.out.Write(b)
	}
	if _, err := t.out.WriteString(erase + string(b) + t.mu.bar); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Bar shows reports as a bar. The last report removes the bar.
func (t *Terminal) Bar() Sink {
	return Sink{barEvery, func(r Report) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.mu.bar = ""
		if !r.Ended {
			t.mu.bar = t.draw(r)
		}
		_, _ = t.out.WriteString(erase + t.mu.bar) // a terminal that is gone shows nothing
	}}
}

func (t *Terminal) draw(r Report) string {
	text := fmt.Sprintf("%s %3d%%", r.What, r.Percent)
	width := t.width()
	if width == 0 || width >= fewWidth {
		full := barWidth * r.Percent / 100
		text = fmt.Sprintf("%s [%s%s] %3d%%", r.What, strings.Repeat("#", full),
			strings.Repeat(" ", barWidth-full), r.Percent)
		if r.Remaining > 0 {
			text += ", " + remaining(r) + " left"
		}
	}
	if width > 0 && len(text) >= width { // a line that wraps cannot be erased
		text = text[:width-1]
	}
	return text
}
