// Package progress shows how far work is that takes long: a start, a check, a repair, a compaction.
//
// The work reports how much there is and how much is done. A Sink shows it: a bar on a
// terminal, lines of a log, a service manager. Work that takes less than a second is not shown.
package progress

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
)

// quiet is how long work takes at least to be shown.
const quiet = time.Second

// grain is how much is done, in bytes, before the clock is looked at again.
const grain = 256 << 10

// Report is how far work is.
type Report struct {
	What    string
	Percent int           // 0 to 100
	Elapsed time.Duration // since it began
	// Remaining is how long it is likely to take yet; 0 is unknown.
	Remaining time.Duration
	Ended     bool
}

// Sink takes reports: one every so often, and one at the end if there was one before. Show is never
// called by two goroutines at a time.
type Sink struct {
	Every time.Duration
	Show  func(Report)
}

// Meter measures one piece of work after the other. Any goroutine may call its methods; those of a
// nil Meter do nothing.
type Meter struct {
	clock       clock.Clock
	done, total atomic.Int64

	mu struct {
		sync.Mutex
		what  string // empty: no work is under way
		began time.Duration
		part  float64 // the last one; more work may be found, which is not shown as going back
		sinks []sink
	}
}

type sink struct {
	Sink
	next  time.Duration // when it is shown the next report
	shown bool          // it was shown one of this work
}

// New returns a Meter whose reports the sinks are shown.
func New(clk clock.Clock, sinks ...Sink) *Meter {
	m := &Meter{clock: clk}
	for _, s := range sinks {
		m.mu.sinks = append(m.mu.sinks, sink{Sink: s})
	}
	return m
}

// Begin ends the work that was under way and begins other work.
func (m *Meter) Begin(what string) {
	if m == nil {
		return
	}
	m.End()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done.Store(0)
	m.total.Store(0)
	m.mu.what, m.mu.began, m.mu.part = what, m.clock.Mono(), 0
	for i := range m.mu.sinks {
		m.mu.sinks[i].next, m.mu.sinks[i].shown = m.mu.began+quiet, false
	}
}

// Expect adds to how much the work is, in bytes.
func (m *Meter) Expect(bytes int64) {
	if m != nil {
		m.total.Add(bytes)
	}
}

// Done adds to how much of it is done, in bytes.
func (m *Meter) Done(bytes int64) {
	if m == nil {
		return
	}
	if now := m.done.Add(bytes); now/grain != (now-bytes)/grain {
		m.show(false)
	}
}

// End ends the work.
func (m *Meter) End() {
	if m != nil {
		m.show(true)
	}
}

func (m *Meter) show(ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.what == "" {
		return
	}
	now := m.clock.Mono()
	r := Report{What: m.mu.what, Elapsed: now - m.mu.began, Ended: ended}
	if done, total := m.done.Load(), m.total.Load(); total > 0 {
		part := min(max(float64(done)/float64(total), m.mu.part), 1)
		m.mu.part = part
		r.Percent = int(100 * part)
		if part > 0 {
			r.Remaining = time.Duration(float64(r.Elapsed) * (1 - part) / part)
		}
	}
	if ended {
		r.Percent, r.Remaining = 100, 0
		m.mu.what = ""
	}
	for i := range m.mu.sinks {
		s := &m.mu.sinks[i]
		if ended && s.shown || !ended && now >= s.next {
			s.next, s.shown = now+s.Every, true
			s.Show(r)
		}
	}
}

// Reader counts the bytes that are read of src as done.
func (m *Meter) Reader(src io.ReaderAt) io.ReaderAt {
	if m == nil {
		return src
	}
	return reader{src, m}
}

type reader struct {
	io.ReaderAt
	m *Meter
}

func (r reader) ReadAt(b []byte, off int64) (n int, err error) {
	n, err = r.ReaderAt.ReadAt(b, off)
	r.m.Done(int64(n))
	return n, err
}
