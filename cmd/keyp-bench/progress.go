package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"keyp/internal/clock"
)

const (
	// progressTick is how often a terminal's line changes.
	progressTick = 200 * time.Millisecond
	// progressSparse is the least time between lines elsewhere.
	progressSparse = 10 * time.Second
)

// progress tells on stderr what runs: one line that changes on a terminal, a line
// now and then elsewhere.
type progress struct {
	out      io.Writer // nil: silent
	terminal bool
	total    int // steps of the whole run

	mu      sync.Mutex
	step    int
	doing   string
	shown   bool // a line stands on the terminal
	printed time.Duration
}

func newProgress(out io.Writer, quiet bool) *progress {
	p := &progress{}
	if quiet {
		return p
	}
	p.out = out
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// begin names the next step.
func (p *progress) begin(title string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step++
	p.doing = title
}

// title names what is done between two steps.
func (p *progress) title(title string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = title
}

// watch shows what the step does, and which part of that (0 to 1) is done where
// part is not nil, until the returned function is called.
func (p *progress) watch(doing string, part func() float64) (end func()) {
	if p.out == nil {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			p.show(doing, part)
			tick, release := clock.System.Until(clock.System.Now() + progressTick.Milliseconds())
			select {
			case <-tick:
			case <-quit:
				release()
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-ended
	})
}

func (p *progress) show(doing string, part func() float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := clock.System.Mono()
	if !p.terminal && p.printed > 0 && now-p.printed < progressSparse {
		return
	}
	p.printed = now
	line := fmt.Sprintf("[%d/%d] %s: %s", p.step, p.total, p.doing, doing)
	if part != nil {
		line += fmt.Sprintf(" %.0f%%", 100*min(max(part(), 0), 1))
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		p.shown = true
	} else {
		fmt.Fprintln(p.out, line)
	}
}

// clear takes the terminal's line away, for what is printed next.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
