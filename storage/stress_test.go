package storage

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// stress is a store with all its goroutines, and writers that use it, some of whose keys expire.
// The memory limit is so low that keys leave memory and are loaded again all the time.
type stress struct {
	t     *testing.T
	dir   string
	clock *tiredClock
	s     *Store
	rng   *rand.Rand

	mu     sync.Mutex
	keys   map[string]stressKey
	offset int64    // of the clock
	highs  []int64  // how far the clock came before each step
	early  []string // keys of which an event has said before their time that they expired
}

// tiredClock is the machine's clock, but some readings arrive late, as if the operating system had
// run another process in between.
type tiredClock struct{ clock.Machine }

func (c *tiredClock) Now() int64 {
	now := c.Machine.Now()
	if rand.IntN(50) == 0 {
		await.Pass(time.Duration(rand.IntN(2000)) * time.Microsecond)
	}
	return now
}

// stressKey has a key's deadline, and how often the clock had stepped when the key was set.
type stressKey struct {
	deadline int64
	steps    int
}

const (
	stressWriters = 3
	stressOps     = 400 // of a writer in a round
)

// TestCountsBesideSteps expires keys and fields of hashes while loaders, checkpoints, eviction and
// the reaper work. Meanwhile the clock steps in either direction, and the store is reopened,
// sometimes after a kill. No expiry is reported before its time. Each count matches the existing
// keys, and everything due is removed.
func TestCountsBesideSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	st := &stress{t: t, dir: testkit.MemoryDir(t), clock: &tiredClock{}, rng: rng,
		keys: map[string]stressKey{}}
	st.open()
	for round := range testkit.Number(t, "KEYP_STRESS", 1) {
		var writers sync.WaitGroup
		for w := range stressWriters {
			rng := rand.New(rand.NewPCG(st.rng.Uint64(), uint64(w)))
			writers.Go(func() { st.write(rng, fmt.Sprintf("%d:%d:", round, w)) })
		}
		done := make(chan struct{})
		go func() { writers.Wait(); close(done) }()
		for going := true; going; {
			st.step((st.rng.Int64N(5) - 2) * hour)
			select {
			case <-done:
				going = false
			default:
				await.Pass(time.Duration(st.rng.IntN(10)) * time.Millisecond)
			}
		}
		st.settled()
		if st.rng.IntN(2) == 0 {
			st.reopen(st.rng.IntN(2) == 0)
			st.settled()
		}
	}
	st.step(10 * hour) // all that has a deadline is due
	st.settled()
	if keys, expires := st.s.Count(0); expires != 0 || keys == 0 {
		t.Errorf("%d keys, %d with a deadline, are counted when all of these have been due", keys,
			expires)
	}
	st.reopen(false)
	st.settled()
	if err := st.s.Close(true); err != nil {
		t.Error(err)
	}
}

func (st *stress) open() {
	s, _, err := Open(Options{
		Dir: st.dir, Clock: st.clock, Logger: slog.New(slog.DiscardHandler), Databases: 1,
		Shards: 4, Sync: wal.EverySec,
		SegmentSize: 256 << 10, CheckpointBytes: 64 << 10, MaxMemory: 1, InitialMmap: 1 << 22,
		DiskReserve: 1,
	})
	if err != nil {
		st.t.Fatal(err)
	}
	s.Listen(func(e Happened) {
		if e.Name == "expired" {
			st.expired(string(e.Key))
		}
	})
	s.SetEvents(^EventNew)
	st.s = s
	s.goBackground(func() { // more often than housekeeping does
		for s.quit.Err() == nil {
			for d := (heapDefrag{}); d.shard < len(s.shards) && s.quit.Err() == nil; {
				s.house.copyObjects(&d)
			}
			s.house.evict(1 << 20)
			await.Pass(time.Millisecond)
		}
	})
	s.goBackground(func() {
		for s.quit.Err() == nil {
			if err := s.Checkpoint(); err != nil && s.quit.Err() == nil {
				st.t.Errorf("checkpoint: %v", err)
			}
			await.Pass(5 * time.Millisecond)
		}
	})
}

// reopen closes the store and opens it again. It makes a last checkpoint, or leaves the files as a
// kill does.
func (st *stress) reopen(save bool) {
	st.t.Helper()
	got := st.s.Stats()
	st.t.Logf(
		"%d expired, %d elements, %d left memory, %d loads, %d checkpoints, %d steps of the clock",
		got.Expired, got.ExpiredElements, got.Evictions, got.Loads, got.Checkpoints, got.ClockSteps)
	if err := st.s.Close(save); err != nil {
		st.t.Fatal(err)
	}
	st.open()
}

// step steps the clock.
func (st *stress) step(offset int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	last := st.offset
	st.clock.Shift(offset)
	st.highs = append(st.highs, time.Now().UnixMilli()+last)
	st.offset = offset
}

// steps returns how often the clock has stepped.
func (st *stress) steps() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.highs)
}

// note records the deadline of a key that a transaction is about to set, and the number of clock
// steps before the transaction began. The clock may have stepped back and forth since. So the
// transaction's instant may be from before a step back, and so may the clock readings that advance
// the store's time after it.
func (st *stress) note(x *Txn, steps int, key string, deadline int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if now := x.Now(); now > st.clock.Now() {
		for steps--; steps > 0 && st.highs[steps] < now; {
			steps--
		}
	}
	st.keys[key] = stressKey{deadline, max(steps, 0)}
}

// expired is called when a key has expired.
func (st *stress) expired(key string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	k, high := st.keys[key], st.clock.Now()
	for _, h := range st.highs[k.steps:] {
		high = max(high, h)
	}
	if k.deadline > high {
		st.early = append(st.early, fmt.Sprintf("%s, %d ms before its deadline", key,
			k.deadline-high))
	}
}

// write sets keys of all kinds with new names, and makes various changes to earlier keys.
func (st *stress) write(rng *rand.Rand, prefix string) {
	x := st.s.NewTxn()
	for i := range stressOps {
		name := fmt.Sprint(prefix, i)
		k, other := st.s.Key(0, []byte(name)),
			st.s.Key(0, fmt.Appendf(nil, "%s%d", prefix, rng.IntN(i+1)))
		steps := st.steps()
		if err := begin(st.s, x, k, other); err != nil {
			st.t.Errorf("begin: %v", err)
			return
		}
		deadline := int64(0)
		switch rng.IntN(4) {
		case 0:
		case 1:
			deadline = x.Now() + 1 + rng.Int64N(30)
		default:
			deadline = x.Now() + 1 + rng.Int64N(3*hour)
		}
		switch rng.IntN(6) {
		case 0, 1:
			st.note(x, steps, name, deadline)
			x.SetString(k, make([]byte, rng.IntN(300)), ttl.At(deadline), eventSet)
		case 2: // one field, which is due
			h, _ := x.Hash(k)
			h.Set([]byte("f"), []byte("v"), ttl.At(deadline))
		case 3: // a value that stands by element, of which all or one are due
			h, _ := x.Hash(k)
			for j := range 90 {
				h.Set(fmt.Appendf(nil, "f%d", j), make([]byte, 100),
					ttl.At(deadline*int64(min(1, j))))
			}
		case 4:
			x.Delete(other, Deleted)
		case 5:
			if x.SetDeadline(other, ttl.At(deadline), Event{EventGeneric, "expire"}) {
				st.note(x, steps, string(other.Name), deadline)
			}
		}
		x.End()
		// With this pause the clock steps often during the writes.
		await.Pass(time.Duration(rng.IntN(1000)) * time.Microsecond)
		if i%16 == 0 {
			if err := st.s.Log().Commit(); err != nil {
				st.t.Errorf("commit: %v", err)
			}
		}
	}
}

// settled waits until the counts agree with the existing keys that are not due, and runs the
// store's own check.
func (st *stress) settled() {
	st.t.Helper()
	var problem string
	if !await.Reached(func() bool { problem = st.miscounted(); return problem == "" }) {
		st.t.Errorf("%s; %d keys have expired, and time stands still: %t", problem,
			st.s.Stats().Expired, st.s.stepped.Load())
	}
	if err := st.s.Check(); err != nil {
		st.t.Errorf("check: %v", err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range st.early {
		st.t.Errorf("an event of the end of %s", e)
	}
	if st.t.Failed() {
		st.t.FailNow()
	}
}

// miscounted returns what is wrong with the counts, if anything is at present. It takes long on a
// busy machine to look at all keys, and some expire meanwhile. Keys that have expired when the
// counts are read are in neither number.
func (st *stress) miscounted() string {
	var names []string
	err := st.s.Walk(0, func(name []byte, _ object.Type) bool {
		names = append(names, string(name))
		return true
	})
	if err != nil {
		return err.Error()
	}
	type there struct{ deadline, end int64 } // end: when nothing is left of it, 0: never
	var found []there
	x := st.s.NewTxn()
	for _, n := range names {
		k := st.s.Key(0, []byte(n))
		if err := st.s.BeginBeside(x, []Key{k}); err != nil {
			return err.Error()
		}
		if it, ok := x.Peek(k); ok {
			found = append(found, there{it.Deadline(),
				format.Earlier(it.Deadline(), lastElement(it))})
		}
		x.End()
	}
	k, e := st.s.Count(0)
	now := st.s.now()
	var keys, expires int64
	for _, f := range found {
		if f.end != 0 && f.end <= now {
			continue
		}
		keys++
		if f.deadline != 0 {
			expires++
		}
	}
	if k != keys || e != expires {
		return fmt.Sprintf("%d keys, %d with a deadline, are counted, and there are %d and %d", k,
			e, keys, expires)
	}
	return ""
}

// lastElement returns the deadline of the last element of a value that is due, or 0 if one has no
// deadline.
func lastElement(it Item) (last int64) {
	if it.Type() == object.TypeString {
		return 0
	}
	it.Value().Walk(func(_, _ []byte, deadline int64) bool {
		last = max(last, deadline)
		if deadline == 0 {
			last = 0
		}
		return deadline != 0
	})
	return last
}
