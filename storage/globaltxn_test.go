package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

var setEvent = Event{EventString, "set"}

// apart returns n keys that belong to different shards.
func apart(s *Store, n int) (keys []Key) {
	seen := map[int]bool{}
	for i := 0; len(keys) < n; i++ {
		k := s.Key(0, fmt.Append(nil, "k", i))
		if shard := s.shardOf(k.Slot); !seen[shard] {
			seen[shard] = true
			keys = append(keys, k)
		}
	}
	return keys
}

// sharing begins a global transaction that shares the shards it has not used. It has declared the
// given keys.
func (h *harness) sharing(keys ...Key) *Txn {
	t := h.s.NewTxn()
	h.s.BeginGlobal(t, keys)
	t.Yield()
	t.Share()
	t.Resume()
	return t
}

func (t *Txn) text(k Key) string {
	item, ok := t.Get(k)
	if !ok {
		return ""
	}
	data, _ := item.String()
	return string(data)
}

// TestShare: a global transaction holds all shards until it calls Share, and then only those it has
// used. When it comes to another shard, it sees the changes that others have made there.
func TestShare(t *testing.T) {
	h := newHarness(t)
	keys := apart(h.s, 3)
	begins := func(k ...Key) bool {
		t.Helper()
		ok := h.s.Begin(h.txn, k)
		if ok {
			h.txn.SetString(k[len(k)-1], []byte("theirs"), ttl.Deadline{}, setEvent)
			h.txn.End()
		} else if !h.txn.BlockedByGlobal() {
			t.Error("Begin fails, but not for the long transaction")
		}
		return ok
	}
	long := h.s.NewTxn()
	h.s.BeginGlobal(long, keys[:1])
	if begins(keys[1]) {
		t.Error("a shard can be locked before it is shared")
	}
	long.SetString(keys[1], []byte("ours"), ttl.Deadline{}, setEvent)
	long.Use(keys[1:2])
	long.Yield()
	long.Share()
	if begins(keys[0]) || begins(keys[1]) || begins(keys[2], keys[1]) || begins(keys[0], keys[2]) {
		t.Error("what has been declared or used can be locked")
	}
	if !begins(keys[2]) {
		t.Error("what has not been used can't be locked")
	}
	long.Resume()
	long.Use(keys[2:])
	if got := long.text(keys[2]); got != "theirs" {
		t.Errorf("the long transaction sees %q", got)
	}
	if begins(keys[2]) {
		t.Error("what has been used late can be locked")
	}
	long.UseAll()
	if n, _ := long.View().Count(0); n != 2 {
		t.Errorf("it sees %d keys", n)
	}
	long.End()
	if long.Share() {
		t.Error("what has ended is shared")
	}
	if !begins(keys...) {
		t.Error("the shards are held behind the end")
	}
	h.check()
}

// TestShareInstant: a key that expired while a global transaction did not hold its shard is gone
// for the transaction. The deadlines of its own writes count from its own instant. Replay gives the
// same result.
func TestShareInstant(t *testing.T) {
	h := newHarness(t)
	keys := apart(h.s, 3)
	now := h.clock.Now()
	h.do(func(txn *Txn) {
		for _, k := range keys {
			txn.SetString(k, []byte("old"), ttl.At(now+100), setEvent)
		}
	}, keys...)
	long := h.sharing(keys[0])
	h.clock.Advance(time.Second)
	h.s.Manual().reapFree()
	if got := h.s.stats.Expired.Load(); got != 2 {
		t.Errorf("%d keys were reaped", got)
	}
	if got := long.text(keys[0]); got != "old" {
		t.Errorf("what it has held is %q", got)
	}
	long.Use(keys[1:])
	if got := long.text(keys[1]); got != "" {
		t.Errorf("what has been seen to be gone is %q", got)
	}
	long.SetString(keys[1], []byte("new"), ttl.At(now+200), setEvent)
	if got := long.text(keys[1]); got != "new" {
		t.Errorf("what it has written is %q", got)
	}
	long.UseAll()
	seen := 0
	if err := long.View().Walk(0, func([]byte, object.Type) bool {
		seen++
		return true
	}); err != nil || seen != 2 {
		t.Errorf("it sees %d keys, %v", seen, err)
	}
	long.End()
	h.commit()
	h.check()
	h.s.Reap()
	if n, _ := h.s.Count(0); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	h.commit()
	h.clock.Set(now + 150)
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{{0, string(keys[1].Name)}: true})
	if n, _ := h.s.Count(0); n != 0 {
		t.Errorf("after a crash %d keys are back", n)
	}
}

// reapFree removes due keys from the shards that the global transaction does not hold.
func (m Manual) reapFree() {
	for _, sh := range m.s.shards {
		src := &source{sh: sh, t: m.s.NewTxn()}
		for more := true; more; {
			_, more = src.ReapDue(m.s.now(), time.Millisecond)
		}
	}
}

// TestShareClockStep: a step back of the clock waits for the end of a global transaction. Keys that
// the transaction has set with a deadline in the past are gone.
func TestShareClockStep(t *testing.T) {
	h := newHarness(t)
	keys := apart(h.s, 2)
	if h.s.shardOf(keys[0].Slot) < h.s.shardOf(keys[1].Slot) {
		keys[0], keys[1] = keys[1], keys[0] // so that the other's shard is gone through first
	}
	now := h.clock.Now()
	h.do(func(txn *Txn) {
		txn.SetString(keys[0], []byte("x"), ttl.Deadline{}, setEvent)
		txn.SetString(keys[1], []byte("old"), ttl.At(now+100), setEvent)
	}, keys...)
	long := h.sharing(keys[0])
	h.clock.Advance(time.Minute)
	h.s.now()
	h.clock.Set(now + 10_000)
	h.s.now() // it begins to remove what is due
	await.Until(t, "it removes what is due", func() bool { return h.s.stats.Expired.Load() != 0 })
	long.Use(keys[1:])
	// Due a minute after now, not due at the clock's time.
	long.SetString(keys[1], []byte("y"), ttl.At(now+30_000), setEvent)
	long.End()
	h.s.Manual().AwaitClock()
	if n, _ := h.s.Count(0); n != 1 {
		t.Errorf("there are %d keys", n)
	}
	h.commit()
	h.check()
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	if n, _ := h.s.Count(0); n != 1 {
		t.Errorf("after a crash there are %d keys", n)
	}
}

// TestShareBesideAll moves money between accounts in three kinds of transactions. Some share and
// come to their keys one by one, some have all of their keys from the beginning, and some have the
// whole keyspace. Meanwhile accounts are read, leave memory, are written by checkpoints and expire.
// No money is lost, and nobody waits for ever.
func TestShareBesideAll(t *testing.T) {
	const accounts, opening = 64, 100
	s, _, err := Open(Options{
		Dir: testkit.MemoryDir(t), Clock: clock.System, Logger: slog.New(slog.DiscardHandler),
		Databases: 2, Shards: 16,
		SegmentSize: 256 << 10, CheckpointBytes: 64 << 10, MaxMemory: 1 << 20, InitialMmap: 1 << 20,
		DiskReserve: 1, Sync: wal.No,
	})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) Key { return s.Key(0, fmt.Append(nil, "account:", i)) }
	txn := s.NewTxn()
	s.BeginAll(txn)
	for i := range accounts {
		txn.SetString(key(i), []byte(strconv.Itoa(opening)), ttl.Deadline{}, setEvent)
	}
	txn.End()
	end := time.Now().Add(time.Duration(testkit.Number(t, "KEYP_SHARE_MS", 500)) * time.Millisecond)
	var all sync.WaitGroup
	seed, workers := testkit.Seed(t), uint64(0)
	worker := func(work func(txn *Txn, rng *rand.Rand)) {
		workers++
		rng := rand.New(rand.NewPCG(seed, workers))
		all.Go(func() {
			for txn := s.NewTxn(); time.Now().Before(end); {
				work(txn, rng)
			}
		})
	}
	worker(func(txn *Txn, rng *rand.Rand) { shareWork(t, s, txn, rng, key, accounts) })
	for range 3 {
		worker(func(txn *Txn, rng *rand.Rand) {
			keys := []Key{key(rng.IntN(accounts)), key(rng.IntN(accounts))}
			for !s.Begin(txn, keys) {
				if !txn.BlockedByGlobal() {
					loaded := make(chan error, 1)
					s.Load(keys, func(err error) { loaded <- err })
					if err := <-loaded; err != nil {
						t.Error(err)
					}
				}
			}
			move(t, txn, keys[0], keys[1])
			txn.End()
		})
	}
	worker(func(txn *Txn, rng *rand.Rand) {
		s.BeginAll(txn)
		total := 0
		for i := range accounts {
			total += balance(t, txn, key(i))
		}
		txn.End()
		if total != accounts*opening {
			t.Errorf("there are %d in all accounts", total)
		}
		await.Pass(time.Millisecond)
	})
	worker(func(txn *Txn, rng *rand.Rand) {
		k := s.Key(1, fmt.Append(nil, "padding:", rng.IntN(2000)))
		if s.Begin(txn, []Key{k}) {
			txn.SetString(k, make([]byte, 900), ttl.At(txn.Now()+int64(rng.IntN(400))), setEvent)
			txn.End()
		}
	})
	all.Go(func() {
		for time.Now().Before(end) {
			if err := errors.Join(s.Checkpoint(), s.Walk(0, func([]byte, object.Type) bool {
				return true
			})); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if err := errors.Join(s.Check(), s.Close(true)); err != nil {
		t.Error(err)
	}
}

// shareWork runs a global transaction that shares and then moves money.
func shareWork(t *testing.T, s *Store, txn *Txn, rng *rand.Rand, key func(int) Key, accounts int) {
	var shared sync.WaitGroup
	s.BeginGlobal(txn, nil)
	shared.Go(func() { txn.Share() })
	for range 1 + rng.IntN(6) {
		txn.Yield()
		if rng.IntN(3) == 0 {
			await.Pass(time.Duration(rng.IntN(300)) * time.Microsecond)
		}
		txn.Resume()
		if rng.IntN(30) == 0 {
			txn.UseAll()
		}
		keys := []Key{key(rng.IntN(accounts)), key(rng.IntN(accounts))}
		txn.Use(keys)
		move(t, txn, keys[0], keys[1])
	}
	txn.End()
	shared.Wait()
}

func balance(t *testing.T, txn *Txn, k Key) int {
	if err := txn.Load(k); err != nil {
		t.Error(err)
	}
	n, err := strconv.Atoi(txn.text(k))
	if err != nil {
		t.Error(err)
	}
	return n
}

func move(t *testing.T, txn *Txn, from, to Key) {
	txn.SetString(from, strconv.AppendInt(nil, int64(balance(t, txn, from)-1), 10),
		ttl.Deadline{}, setEvent)
	txn.SetString(to, strconv.AppendInt(nil, int64(balance(t, txn, to)+1), 10),
		ttl.Deadline{}, setEvent)
}
