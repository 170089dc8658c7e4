package ttl

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

// shard is a Source for the reaper: it removes due keys. Like a shard of package storage it has an
// Index under a lock.
type shard struct {
	clock clock.Clock
	batch int // keys that fit into the budget
	stuck atomic.Bool
	asked atomic.Int64 // calls of ReapDue
	gone  atomic.Int64 // keys that it removed
	onAsk func()
	late  Lateness

	mu    sync.Mutex
	index *Index
	early []Entry // removed before their deadline
}

func (s *shard) NextDeadline() (int64, bool) { return s.index.Next() }

func (s *shard) ReapDue(now int64, _ time.Duration) (n int, more bool) {
	s.asked.Add(1)
	s.onAsk()
	if s.stuck.Load() {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < s.batch {
		e, ok := s.index.PopDue(now)
		if !ok {
			return n, false
		}
		if s.clock.Now() < e.Deadline {
			s.early = append(s.early, e)
		}
		s.late.Observe(now - e.Deadline)
		s.gone.Add(1)
		n++
	}
	next, ok := s.index.Next()
	return n, ok && Expired(next, now)
}

func (s *shard) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.Len()
}

// stage is a running reaper over shards, with a clock that only the test moves.
type stage struct {
	t      rapid.TB
	clock  *clock.Fake
	shards []*shard
	reaper *Reaper
	jumps  chan int64
	calls  chan int // the shards asked, in order; full means forget
	stop   func()
}

func newStage(t rapid.TB, shards int) *stage {
	fake := clock.NewFake(startOfTime)
	s := newStageOn(t, fake, shards)
	s.clock = fake
	return s
}

func newStageOn(t rapid.TB, c clock.Clock, shards int) *stage {
	s := &stage{t: t, jumps: make(chan int64, 100), calls: make(chan int, 100)}
	var sources []Source
	for i := range shards {
		sh := &shard{clock: c, batch: 3, index: NewIndex()}
		sh.onAsk = func() {
			select {
			case s.calls <- i:
			default:
			}
		}
		s.shards = append(s.shards, sh)
		sources = append(sources, sh)
	}
	s.reaper = NewReaper(c, sources, ReaperOptions{OnJump: func(ms int64) { s.jumps <- ms }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.reaper.Run(ctx)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		await.For(t, "Run stops", done)
	})
	return s
}

// set sets a deadline as a command does, in the order that Wake requires.
func (s *stage) set(shard int, id uint64, old, new int64) {
	sh := s.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.index.Set(id, old, new)
	if new != None {
		s.reaper.Wake(new)
	}
}

// reaped returns how many keys have been removed.
func (s *stage) reaped() (n int64) {
	for _, sh := range s.shards {
		n += sh.gone.Load()
	}
	return n
}

// eventually waits until the reaper's goroutine has made ok true.
func (s *stage) eventually(what string, ok func() bool) {
	s.t.Helper()
	await.Until(s.t, what, ok)
}

// asleep waits until the reaper sleeps, until target.
func (s *stage) asleep(target int64) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("sleep until %d", target), func() bool {
		return s.reaper.target.Load() == target
	})
}

// remaining waits until want keys remain, and checks that none was removed early.
func (s *stage) remaining(want int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d keys remain", want), func() bool {
		n := 0
		for _, sh := range s.shards {
			n += sh.len()
		}
		return n <= want
	})
	n := 0
	for _, sh := range s.shards {
		sh.mu.Lock()
		n += sh.index.Len()
		if len(sh.early) > 0 {
			s.t.Errorf("removed before their deadlines: %v", sh.early)
		}
		sh.mu.Unlock()
	}
	if n != want {
		s.t.Fatalf("%d keys remain, want %d", n, want)
	}
}

func (s *stage) advance(ms int64) { s.clock.Advance(time.Duration(ms) * time.Millisecond) }

// pass makes the reaper look at all shards once more, from the start.
func (s *stage) pass() {
	s.t.Helper()
	for range 2 { // the second token is taken after the pass of the first
		s.reaper.interrupt()
		s.eventually("a pass", func() bool { return len(s.reaper.wake) == 0 })
	}
}

func TestReaperIsExact(t *testing.T) {
	s := newStage(t, 2)
	defer s.stop()
	const due = startOfTime + 5000
	s.set(1, 1, None, due)
	s.asleep(due)
	s.advance(4999)
	s.pass()
	s.asleep(due)
	s.remaining(1)
	s.advance(1)
	s.asleep(never)
	s.remaining(0)
	if l := s.shards[1].late.Snapshot(); l.Count != 1 || l.Max != 0 {
		t.Errorf("lateness %+v", l)
	}
}

func TestReaperAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const shards, ids = 3, 20
		s := newStage(t, shards)
		defer s.stop()
		var model [shards]map[uint64]int64
		for i := range model {
			model[i] = map[uint64]int64{}
		}
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			for range rapid.IntRange(0, 8).Draw(t, "sets") {
				i, id := rapid.IntRange(0, shards-1).Draw(t, "shard"),
					rapid.Uint64Range(0, ids).Draw(t, "id")
				deadline := s.clock.Now() + rapid.Int64Range(1, 30).Draw(t, "ms")
				if rapid.IntRange(0, 4).Draw(t, "persist") == 0 {
					deadline = None
				}
				s.set(i, id, model[i][id], deadline)
				if model[i][id] = deadline; deadline == None {
					delete(model[i], id)
				}
			}
			if d := rapid.Int64Range(0, 20).Draw(t, "advance"); rapid.Bool().Draw(t, "jump") {
				s.clock.Set(s.clock.Now() + d*10 - 20)
			} else {
				s.advance(d)
			}
			left, next := 0, never
			for i := range model {
				for id, deadline := range model[i] {
					if Expired(deadline, s.clock.Now()) {
						delete(model[i], id)
						continue
					}
					left, next = left+1, min(next, deadline)
				}
			}
			s.pass()
			s.asleep(next)
			s.remaining(left)
		}
	})
}

func TestReaperWake(t *testing.T) {
	s := newStage(t, 2)
	defer s.stop()
	s.asleep(never)
	s.set(0, 1, None, startOfTime+100)
	s.asleep(startOfTime + 100)
	s.set(1, 2, None, startOfTime+50)
	s.asleep(startOfTime + 50)
	s.set(0, 3, None, startOfTime+70)
	s.set(0, 4, None, startOfTime+50)
	if got := s.reaper.target.Load(); got != startOfTime+50 || len(s.reaper.wake) != 0 {
		t.Errorf("a later deadline has disturbed the sleep: target %d", got)
	}
	s.advance(50)
	s.asleep(startOfTime + 70)
	s.remaining(2)
}

func TestReaperClockJumps(t *testing.T) {
	s := newStage(t, 1)
	defer s.stop()
	s.set(0, 1, None, startOfTime+3_600_000)
	s.set(0, 2, None, startOfTime+7_200_000)
	s.asleep(startOfTime + 3_600_000)

	s.clock.Set(startOfTime + 3_700_000)
	s.asleep(startOfTime + 7_200_000)
	s.remaining(1)
	if got := await.For(t, "the jump is reported", s.jumps); got != 3_700_000 {
		t.Errorf("jump of %d ms reported", got)
	}

	s.clock.Set(startOfTime - 1000)
	s.pass()
	s.remaining(1)
	if got := await.For(t, "the jump is reported", s.jumps); got != -3_701_000 {
		t.Errorf("jump of %d ms reported", got)
	}
	s.set(0, 3, None, startOfTime) // long past before the jump
	s.asleep(startOfTime)
	s.advance(1000)
	s.asleep(startOfTime + 7_200_000)
	s.remaining(1)
	if got, batches := s.reaped(), s.shards[0].asked.Load(); got != 2 || batches < 2 ||
		len(s.jumps) != 0 {
		t.Errorf("%d keys removed in %d batches, %d more jumps reported", got,
			batches, len(s.jumps))
	}
}

func TestReaperPause(t *testing.T) {
	s := newStage(t, 1)
	defer s.stop()
	s.set(0, 1, None, startOfTime+10)
	s.asleep(startOfTime + 10)
	s.reaper.Pause(true)
	s.asleep(awake)
	s.advance(20)
	s.set(0, 2, None, startOfTime+15)
	s.pass()
	s.remaining(2)
	if n := s.shards[0].asked.Load(); n != 0 {
		t.Errorf("asked %d times while paused", n)
	}
	s.reaper.Pause(false)
	s.asleep(never)
	s.remaining(0)
	if l := s.shards[0].late.Snapshot(); l.Count != 2 || l.Max != 10 {
		t.Errorf("lateness %+v", l)
	}
}

func TestReaperTakesTurns(t *testing.T) {
	const shards, keys = 3, 30
	s := newStage(t, shards)
	defer s.stop()
	for i := range shards {
		for id := range uint64(keys) {
			s.set(i, id, None, startOfTime+1)
		}
	}
	s.asleep(startOfTime + 1)
	s.advance(1)
	s.asleep(never)
	s.remaining(0)
	for round := range keys / s.shards[0].batch {
		seen := map[int]bool{}
		for range shards {
			seen[await.For(t, "a shard is asked", s.calls)] = true
		}
		if len(seen) != shards {
			t.Fatalf("round %d served only %v", round, seen)
		}
	}
}

// A pause takes effect after the running batch, also in the middle of a round.
func TestReaperPauseBetweenBatches(t *testing.T) {
	s := newStage(t, 3)
	defer s.stop()
	for i, sh := range s.shards {
		sh.onAsk = func() { s.reaper.Pause(true) }
		s.set(i, 1, None, startOfTime+1)
	}
	s.asleep(startOfTime + 1)
	s.advance(1)
	s.remaining(2)
	s.pass()
	s.remaining(2)
}

// unseen gets its first deadline at the worst moment: after the reaper has read the deadline of
// unseen, and before it publishes until when it will sleep.
type unseen struct {
	reaper *Reaper
	looks  int
}

func (u *unseen) NextDeadline() (int64, bool) {
	const lookBeforeSleep = 2 // the first is for the round
	if u.looks++; u.looks == lookBeforeSleep {
		u.reaper.Wake(startOfTime + 5)
	}
	return startOfTime + 5, u.looks > lookBeforeSleep
}

func (*unseen) ReapDue(int64, time.Duration) (int, bool) { return 0, false }

func TestReaperMissesNoDeadline(t *testing.T) {
	u := &unseen{}
	r := NewReaper(clock.NewFake(startOfTime), []Source{u}, ReaperOptions{})
	u.reaper = r
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	await.Until(t, "it sleeps until the deadline", func() bool {
		return r.target.Load() == startOfTime+5
	})
}

// A source that cannot remove anything does not delay the others and does not keep the reaper busy.
func TestReaperStuckSource(t *testing.T) {
	s := newStage(t, 2)
	defer s.stop()
	stuck := s.shards[0]
	stuck.stuck.Store(true)
	s.set(0, 1, None, startOfTime+1)
	s.set(1, 2, None, startOfTime+1)
	s.asleep(startOfTime + 1)
	s.advance(1)
	backoff := int64(1)
	for try := int64(1); try <= 10; try++ {
		s.asleep(s.clock.Now() + backoff)
		s.pass()
		if got := stuck.asked.Load(); got != try {
			t.Fatalf("asked %d times, want %d", got, try)
		}
		s.remaining(1)
		s.advance(backoff)
		backoff = min(2*backoff, maxBackoff)
	}
	s.asleep(s.clock.Now() + backoff)

	// The backoff must not outlast a clock that is stepped back.
	s.clock.Set(startOfTime - 100_000)
	s.pass()
	s.asleep(startOfTime + 1)
	stuck.stuck.Store(false)
	s.advance(100_001)
	s.asleep(never)
	s.remaining(0)
}

// endless always has due keys.
type endless struct{ asked atomic.Int64 }

func (*endless) NextDeadline() (int64, bool)                { return 1, true }
func (e *endless) ReapDue(int64, time.Duration) (int, bool) { e.asked.Add(1); return 1, true }

func TestReaperStopsAtWork(t *testing.T) {
	e := &endless{}
	r := NewReaper(clock.NewFake(startOfTime), []Source{e}, ReaperOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	await.Until(t, "it works", func() bool { return e.asked.Load() >= 100 })
	cancel()
	await.For(t, "Run stops", done)
}

func TestReaperWithoutSources(t *testing.T) {
	s := newStage(t, 0)
	s.asleep(never)
	s.stop()
}

// Several goroutines set deadlines while time continues. Each key is removed once.
func TestReaperConcurrent(t *testing.T) {
	const shards, setters, keys = 4, 3, 400
	s := newStage(t, shards)
	defer s.stop()
	var wg sync.WaitGroup
	for g := range uint64(setters) {
		wg.Go(func() {
			for k := range uint64(keys) {
				id := g*keys + k
				now := s.clock.Now()
				s.set(int(id%shards), id, None, now+1+int64(id*7%40))
				if g == 0 {
					s.advance(1)
				}
			}
		})
	}
	wg.Wait()
	s.advance(100)
	s.asleep(never)
	s.remaining(0)
	if got := s.reaped(); got != setters*keys {
		t.Errorf("%d keys removed, want %d", got, setters*keys)
	}
}

// With the real clock, keys are removed soon, and none early. The scheduler determines the
// lateness, so it is only logged.
func TestReaperSystemClock(t *testing.T) {
	const keys = 200
	s := newStageOn(t, clock.System, 2)
	defer s.stop()
	now := clock.System.Now()
	for id := range uint64(keys) {
		s.set(int(id%2), id, None, now+20+int64(id%100))
	}
	s.remaining(0)
	for _, sh := range s.shards {
		l := sh.late.Snapshot()
		if l.Count != keys/2 {
			t.Errorf("%d keys are counted", l.Count)
		}
		t.Logf("lateness %+v", l)
	}
}

// BenchmarkWake measures Wake with a deadline that does not end the reaper's sleep.
func BenchmarkWake(b *testing.B) {
	r := NewReaper(clock.NewFake(startOfTime), nil, ReaperOptions{})
	r.target.Store(startOfTime + 1)
	for b.Loop() {
		r.Wake(startOfTime + 2)
	}
}
