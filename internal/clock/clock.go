// Package clock is the only source of time in Keyp.
//
// Wall time is Unix milliseconds, the unit of every deadline; what shows the time has
// microseconds too. Durations (latency,
// pacing) come from Mono, which never jumps. Tests use Fake and advance it, so that
// nothing has to sleep to see a key expire.
package clock

import (
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Clock gives the wall time and wakes sleepers.
type Clock interface {
	// Now is the wall clock in Unix milliseconds. It may jump either way.
	Now() int64
	// Micros is the same instant in Unix microseconds.
	Micros() int64
	// Mono is a monotonic reading for durations; only differences mean something.
	Mono() time.Duration
	// Boot is the time since the machine started, in milliseconds, also that in which it slept.
	// Nobody sets it. What two readings differ by means something while BootID is the same.
	Boot() int64
	// BootID distinguishes one run of the machine from another; 0: it is not known.
	BootID() uint64
	// Until returns a channel that is closed once Now reaches ms (at once if it
	// has), and a function that releases it. The wall clock may jump, so the
	// caller looks at Now again when woken. A system clock wakes within a second
	// of a jump.
	Until(ms int64) (reached <-chan struct{}, stop func())
}

// System is the machine's clock.
var System Clock = &Machine{}

// Machine is the machine's clock plus an offset of its wall time, which is 0 unless a test
// of the whole server shifts it.
type Machine struct{ offset atomic.Int64 }

var start = time.Now()

// Shift makes the wall clock differ from the machine's by ms from now on: it steps, as an
// operator would have it do. Sleepers notice within a second.
func (m *Machine) Shift(ms int64) { m.offset.Store(ms) }

// Offset is what Shift was last given.
func (m *Machine) Offset() int64 { return m.offset.Load() }

// Now is the machine's wall clock plus the offset.
func (m *Machine) Now() int64 { return time.Now().UnixMilli() + m.offset.Load() }

// Micros is Now in microseconds.
func (m *Machine) Micros() int64 { return time.Now().UnixMicro() + m.offset.Load()*1000 }

// Mono is the time since the start of the process; no shift changes it.
func (m *Machine) Mono() time.Duration { return time.Since(start) }

// Boot is the machine's.
func (m *Machine) Boot() int64 { return bootTime() }

// BootID is made of what the system calls this run of the machine.
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

// sinceStart is Mono in milliseconds, for a system without a clock for Boot. Then a sleep of the
// machine looks as if the wall clock had stepped.
func sinceStart() int64 { return time.Since(start).Milliseconds() }

// maxSleep bounds a timer, because timers follow the monotonic clock while
// deadlines follow the wall clock: a forward step is seen within this time.
const maxSleep = time.Second

// Until is closed when ms has come, or after a second.
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

// Fake is a clock that moves only by Advance, Suspend, Set and Reboot. Its zero value stands at 0.
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

// NewFake returns a clock that stands at ms.
func NewFake(ms int64) *Fake {
	f := &Fake{}
	f.mu.micros = ms * 1000
	return f
}

// Now is where the clock stands.
func (f *Fake) Now() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.micros / 1000
}

// Micros is where the clock stands, in microseconds.
func (f *Fake) Micros() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.micros
}

// Mono is the sum of all forward moves.
func (f *Fake) Mono() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.mono
}

// Boot is the sum of all forward moves and of the time of sleep since the last Reboot.
func (f *Fake) Boot() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.boot.Milliseconds()
}

// BootID is another one after each Reboot.
func (f *Fake) BootID() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.boots + 1
}

// Until is closed by the Advance or Set that reaches ms.
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

// Advance moves the clock forward by d and wakes all who waited for that.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.mono += d
	f.mu.boot += d
	f.set(f.mu.micros + d.Microseconds())
}

// Suspend puts the machine to sleep for d: the wall clock goes on, and no timer of the process
// does.
func (f *Fake) Suspend(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.boot += d
	f.set(f.mu.micros + d.Microseconds())
}

// Reboot restarts the machine, which is off for d.
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
