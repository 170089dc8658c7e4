package ttl

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
)

// Source is a part of the keyspace with deadlines of its own: a shard, or the
// keys that are only on disk.
type Source interface {
	// NextDeadline returns the earliest deadline; ok is false if there is none. The reaper
	// calls it often and without any lock, so it must be an atomic load.
	NextDeadline() (ms int64, ok bool)

	// ReapDue removes keys that are expired at now, in order, and takes about budget for that. It
	// takes its locks itself. now may be older than the source's present instant, never newer than
	// the clock. n is how many keys were removed. more reports that it removed some, and that there
	// were still due keys when budget ran out. A source that cannot remove any (if the disk is
	// full, for example) returns 0 and false, and is called again later.
	ReapDue(now int64, budget time.Duration) (n int, more bool)
}

// The reaper's times.
const (
	// batchTime is how long one batch may keep a shard locked.
	batchTime = 100 * time.Microsecond

	// A source that is due but cannot remove anything is called again after minBackoff, which
	// doubles each time up to maxBackoff. In milliseconds.
	minBackoff, maxBackoff int64 = 1, 128

	// The wall and the monotonic clock may differ by jumpLimit plus a thousandth of the time
	// between two looks before that counts as a jump. Clocks are slewed by up to half a thousandth.
	// In milliseconds.
	jumpLimit int64 = 500

	// Readings of both clocks that took longer than this prove no jump.
	maxLook = 100 * time.Millisecond
)

// Values of Reaper.target that are no deadline.
const (
	awake int64 = math.MinInt64 // the reaper looks at all sources before it sleeps
	never int64 = math.MaxInt64 // it sleeps until woken
)

// Reaper removes keys when they expire. It sleeps until the earliest deadline of all sources. Then
// it makes them remove due keys, one bounded batch after the other and each source in its turn, and
// sleeps again.
//
// No deadline is missed. A caller that sets a deadline first makes NextDeadline show it and then
// calls Wake. The reaper first publishes when its sleep will end and then reads every NextDeadline
// once more. One of the two sees the other.
type Reaper struct {
	clock   clock.Clock
	sources []Source
	onJump  func(ms int64)
	onBatch func(took time.Duration)
	ahead   func() int64

	target atomic.Int64  // when the present sleep ends in Unix milliseconds, or awake, or never
	wake   chan struct{} // one token: sleep no longer
	paused atomic.Bool

	// Only the goroutine in Run uses these.
	backoffs []backoff
	turn     int // the source that begins the next round
	lastWall int64
	lastMono time.Duration
}

// backoff delays the next batch of a source that could not remove anything.
type backoff struct{ until, length int64 }

// ReaperOptions are the optional settings of a reaper.
type ReaperOptions struct {
	OnJump func(ms int64) // called when the wall clock jumped: forward, or back (negative)
	// OnBatch is called with the duration of each batch.
	OnBatch func(took time.Duration)
	// Ahead returns by how many milliseconds the clock is ahead of the sources' time; nil: they
	// agree.
	Ahead func() int64
}

// NewReaper returns a reaper of sources; Run starts it. It keeps sources.
func NewReaper(c clock.Clock, sources []Source, o ReaperOptions) *Reaper {
	if o.Ahead == nil {
		o.Ahead = func() int64 { return 0 }
	}
	r := &Reaper{
		clock:    c,
		sources:  sources,
		onJump:   o.OnJump,
		onBatch:  o.OnBatch,
		ahead:    o.Ahead,
		wake:     make(chan struct{}, 1),
		backoffs: make([]backoff, len(sources)),
		lastWall: c.Now(),
		lastMono: c.Mono(),
	}
	r.target.Store(awake)
	return r
}

// Wake announces a deadline that a source has got and shows in NextDeadline. If it is not earlier
// than the end of the present sleep, this is one atomic load. It never blocks and may be called
// under a shard's lock.
func (r *Reaper) Wake(deadline int64) {
	for {
		target := r.target.Load()
		if deadline >= target {
			return
		}
		if r.target.CompareAndSwap(target, awake) { // one waker is enough
			r.interrupt()
			return
		}
	}
}

// Pause stops the removal of due keys, after the batch that may be running, or
// resumes it. Paused or not, an expired key does not exist for readers.
func (r *Reaper) Pause(paused bool) {
	r.paused.Store(paused)
	r.interrupt()
}

// Run removes due keys until ctx is done; it then returns after at most one
// batch. It must not be called twice.
func (r *Reaper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r.target.Store(awake)
		r.look()
		if !r.round(ctx, r.now()) {
			r.sleep(ctx)
		}
	}
}

// now returns the sources' time in Unix milliseconds.
func (r *Reaper) now() int64 { return r.clock.Now() - r.ahead() }

func (r *Reaper) interrupt() {
	select {
	case r.wake <- struct{}{}:
	default: // a token is there already
	}
}

// round calls ReapDue once for each source that is due at now, unless the reaper stops or pauses.
// It reports whether any source was due. Each round begins one source further on.
func (r *Reaper) round(ctx context.Context, now int64) (worked bool) {
	n := len(r.sources)
	for k := range n {
		i := (r.turn + k) % n
		if r.due(i) > now {
			continue
		}
		if ctx.Err() != nil || r.paused.Load() {
			break
		}
		worked = true
		r.batch(i)
		runtime.Gosched() // let goroutines run that wait for the lock or a processor
	}
	r.turn++
	return worked
}

// batch makes source i remove due keys. The clock is read again for each source, since a round over
// many sources takes milliseconds.
func (r *Reaper) batch(i int) {
	now, began := r.now(), r.clock.Mono()
	n, more := r.sources[i].ReapDue(now, batchTime)
	if r.onBatch != nil {
		r.onBatch(r.clock.Mono() - began)
	}
	if n > 0 || more || r.due(i) > now {
		r.backoffs[i] = backoff{}
		return
	}
	length := min(max(minBackoff, 2*r.backoffs[i].length), maxBackoff)
	r.backoffs[i] = backoff{until: now + length, length: length}
}

// due returns when source i must be called next, or never.
func (r *Reaper) due(i int) int64 {
	ms, ok := r.sources[i].NextDeadline()
	if !ok {
		return never
	}
	if until := r.backoffs[i].until; until > ms && until-r.now() <= maxBackoff {
		// A longer delay means that the clock was set back.
		return until
	}
	return ms
}

// earliest returns when the first source must be called, or never.
func (r *Reaper) earliest() int64 {
	first := never
	for i := range r.sources {
		first = min(first, r.due(i))
	}
	return first
}

// sleep waits until a source must be called, until Wake or Pause interrupts it, or until ctx ends.
// It may also return early.
func (r *Reaper) sleep(ctx context.Context) {
	if r.paused.Load() {
		// Pause(false) sends the token only after it has cleared paused.
		select {
		case <-ctx.Done():
		case <-r.wake:
		}
		return
	}
	target := r.earliest()
	r.target.Store(target)
	if r.earliest() < target {
		return
	}
	var reached <-chan struct{}
	if target != never {
		var stop func()
		reached, stop = r.clock.Until(target + r.ahead())
		defer stop()
	}
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-reached:
	}
}

// look compares how far the wall clock and the monotonic clock have advanced since the last look,
// to find jumps. Deadlines need no correction after a jump, because they and now are absolute.
func (r *Reaper) look() {
	before := r.clock.Mono()
	now := r.clock.Now()
	mono := r.clock.Mono()
	if mono-before > maxLook {
		return
	}
	elapsed := (mono - r.lastMono).Milliseconds()
	jump := now - r.lastWall - elapsed
	r.lastWall, r.lastMono = now, mono
	if limit := jumpLimit + elapsed/1000; jump > limit || jump < -limit {
		clear(r.backoffs) // they are wall clock times from before the jump
		if r.onJump != nil {
			r.onJump(jump)
		}
	}
}
