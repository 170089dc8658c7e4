// Package progress shows the progress of long work: a start, a check, a repair, a compaction.
//
// The work reports how much there is to do and how much is done. A Sink shows it: as a bar on a
// terminal, as lines of a log, or to a service manager. Work that takes less than a second is not
// shown.
package progress

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
)

// quiet is how long work must last before it is shown.
const quiet = time.Second

// grain is how many bytes are done between two looks at the clock.
const grain = 256 << 10

// Report is the state of work at one time.
type Report struct {
	What    string
	Percent int           // 0 to 100
	Elapsed time.Duration // since it began
	// Remaining is an estimate of the time that is left; 0 means unknown.
	Remaining time.Duration
	Ended     bool
}

// Sink receives a report every Every, and one at the end if it has received one before. Show is
// never called by two goroutines at a time.
type Sink struct {
	Every time.Duration
	Show  func(Report)
}

// Meter measures one piece of work after another. Any goroutine may call its methods. On a nil
// Meter they do nothing.
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

// New returns a Meter that passes its reports to the sinks.
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

// Expect increases the amount of work by a number of bytes.
func (m *Meter) Expect(bytes int64) {
	if m != nil {
		m.total.Add(bytes)
	}
}

// Done increases the amount of work done by a number of bytes.
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

// Reader returns a reader of src that counts the bytes read as done.
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
