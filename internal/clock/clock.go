// Package clock is the only source of time in Keyp.
//
// Wall time is in Unix milliseconds, the unit of every deadline. Replies that show the time have
// microseconds too. Durations (latency, pacing) come from Mono, which never jumps. Tests advance a
// Fake, so that no test sleeps until a key expires.
package clock

import (
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Clock reads the wall time and wakes sleepers.
type Clock interface {
	// Now returns the wall clock in Unix milliseconds. It may jump either way.
	Now() int64
	// Micros returns the wall clock in Unix microseconds.
	Micros() int64
	// Mono returns a monotonic time for durations. Only the difference of two readings has a
	// meaning.
	Mono() time.Duration
	// Boot returns the time since the machine started, in milliseconds, including sleep. Nobody
	// can set it. Readings can be compared while BootID is the same.
	Boot() int64
	// BootID returns a number that identifies this run of the machine; 0 if it is not known.
	BootID() uint64
	// Until returns a channel that is closed when Now reaches ms, and a function that releases
	// it. The channel may be closed too early: System closes it within a second, because the
	// wall clock may jump. So the caller checks Now again when it is woken.
	Until(ms int64) (reached <-chan struct{}, stop func())
}

// System is the machine's clock.
var System Clock = &Machine{}

// Machine is the machine's clock plus an offset of its wall time, which is 0 unless a test
// of the whole server shifts it.
type Machine struct{ offset atomic.Int64 }

var start = time.Now()

// Shift sets the offset of the wall clock to ms: the clock steps, as if an operator had set it.
// Sleepers notice the step within a second.
func (m *Machine) Shift(ms int64) { m.offset.Store(ms) }

// Offset returns the offset that Shift has set last, in milliseconds.
func (m *Machine) Offset() int64 { return m.offset.Load() }

// Now returns the machine's wall clock plus the offset, in Unix milliseconds.
func (m *Machine) Now() int64 { return time.Now().UnixMilli() + m.offset.Load() }

// Micros returns the machine's wall clock plus the offset, in Unix microseconds.
func (m *Machine) Micros() int64 { return time.Now().UnixMicro() + m.offset.Load()*1000 }

// Mono returns the time since the process started. Shift does not change it.
func (m *Machine) Mono() time.Duration { return time.Since(start) }

// Boot returns the time since the machine started, in milliseconds.
func (m *Machine) Boot() int64 { return bootTime() }

// BootID returns a hash of the system's id of this run of the machine; 0 if that is unknown.
func (m *Machine) BootID() uint64 { return machineBootID() }

var machineBootID = sync.OnceValue(func() uint64 {
	id := systemBootID()
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, id) // never fails
	return h.Sum64()
})

// sinceStart returns Mono in milliseconds, for a system without a clock for Boot. There a sleep of
// the machine looks like a step of the wall clock.
func sinceStart() int64 { return time.Since(start).Milliseconds() }

// maxSleep bounds a timer. Timers follow the monotonic clock and deadlines the wall clock, so a
// forward step is noticed within this time.
const maxSleep = time.Second

// Until closes the channel when ms has come, and after a second at the latest.
func (m *Machine) Until(ms int64) (<-chan struct{}, func()) {
	done := make(chan struct{})
	wait := time.Until(time.UnixMilli(ms - m.offset.Load()))
	if wait <= 0 {
		close(done)
		return done, func() {}
	}
	timer := time.AfterFunc(min(wait, maxSleep), func() { close(done) })
	return done, func() { timer.Stop() }
}

// Fake is a clock that moves only by Advance, Suspend, Set and Reboot. Its zero value shows 0.
type Fake struct {
	mu struct {
		sync.Mutex
		micros  int64
		mono    time.Duration
		boot    time.Duration
		boots   uint64 // how often the machine has restarted
		waiters map[*waiter]struct{}
	}
}

type waiter struct {
	at   int64
	done chan struct{}
}

// NewFake returns a clock that shows ms, in Unix milliseconds.
func NewFake(ms int64) *Fake {
	f := &Fake{}
	f.mu.micros = ms * 1000
	return f
}

// Now returns the clock's present time in Unix milliseconds.
func (f *Fake) Now() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.micros / 1000
}

// Micros returns the clock's present time in Unix microseconds.
func (f *Fake) Micros() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.micros
}

// Mono returns the sum of all Advances.
func (f *Fake) Mono() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.mono
}

// Boot returns the sum of all Advances and Suspends since the last Reboot, in milliseconds.
func (f *Fake) Boot() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.boot.Milliseconds()
}

// BootID returns another number after each Reboot.
func (f *Fake) BootID() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.boots + 1
}

// Until closes the channel in the call of Advance, Suspend, Reboot or Set that reaches ms.
func (f *Fake) Until(ms int64) (<-chan struct{}, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &waiter{at: ms, done: make(chan struct{})}
	if f.mu.micros/1000 >= ms {
		close(w.done)
		return w.done, func() {}
	}
	if f.mu.waiters == nil {
		f.mu.waiters = map[*waiter]struct{}{}
	}
	f.mu.waiters[w] = struct{}{}
	return w.done, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.mu.waiters, w)
	}
}

// Advance moves the clock forward by d and wakes the sleepers whose time has come.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.mono += d
	f.mu.boot += d
	f.set(f.mu.micros + d.Microseconds())
}

// Suspend puts the machine to sleep for d: the wall clock and Boot go on, and Mono does not.
func (f *Fake) Suspend(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.boot += d
	f.set(f.mu.micros + d.Microseconds())
}

// Reboot restarts the machine after it was off for d.
func (f *Fake) Reboot(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.boot = 0
	f.mu.boots++
	f.set(f.mu.micros + d.Microseconds())
}

// Set steps the wall clock to ms, forward or back, as an operator would.
func (f *Fake) Set(ms int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(ms * 1000)
}

func (f *Fake) set(micros int64) {
	f.mu.micros = micros
	for w := range f.mu.waiters {
		if f.mu.micros/1000 >= w.at {
			close(w.done)
			delete(f.mu.waiters, w)
		}
	}
}
