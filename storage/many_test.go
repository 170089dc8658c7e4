package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
)

// many deletes some keys at once, or gives each a string. Between the look at them and the instant at which that
// happens they leave memory, or change and are seen again.
func (m *machine) many(rt *rapid.T) {
	m.writeMany(rt, rapid.SampledFrom([]string{"evict", "checkpoint", "checkpoint, evict", "flush", "swap", "set", "delete", "advance"}).Draw(rt, "between"))
}

func (m *machine) writeMany(rt *rapid.T, between string) {
	h, db := m.h, rapid.IntRange(0, 2).Draw(rt, "db")
	var names []name
	var keys []Key
	var values [][]byte
	deletes := rapid.Bool().Draw(rt, "deletes")
	for range rapid.IntRange(1, 12).Draw(rt, "keys") {
		n := name{db, keyName(rapid.IntRange(0, 11).Draw(rt, "key"))}
		names, keys = append(names, n), append(keys, m.key(n))
		if !deletes {
			values = append(values, []byte(m.data(rt)))
		}
	}
	many := h.s.NewMany(keys, values)
	see := func(t *Txn, list []int) {
		for _, i := range list {
			if err := t.Load(keys[i]); err != nil {
				rt.Fatalf("load: %v", err)
			}
			item, ok := t.Get(keys[i])
			many.See(i, item, ok)
		}
	}
	for _, i := range many.Each() {
		h.do(func(t *Txn) { see(t, []int{i}) }, keys[i])
	}
	again := many.Each()
	switch between {
	case "nothing":
		again = nil
	case "evict":
		h.evict()
		again = nil
	case "checkpoint":
		m.checkpoint(rt)
		again = nil
	case "checkpoint, evict":
		m.checkpoint(rt)
		h.evict()
		again = nil
	case "flush":
		m.flush(rt)
	case "swap":
		m.swap(rt)
	case "set":
		m.set(rt)
	case "delete":
		m.delete(rt)
	case "advance":
		m.advance(rt)
	}
	live := int64(0)
	for i, n := range names {
		if _, ok := m.get(n); ok && slices.Index(names, n) == i {
			live++
		}
	}
	h.model = h.model.clone()
	for i, n := range names {
		if delete(h.model, n); !deletes {
			h.model[n] = value{data: string(values[i])}
		}
	}
	h.doAll(func(t *Txn) {
		see(t, again)
		if got := many.Live(); got != live {
			rt.Fatalf("%d of the keys are there, want %d", got, live)
		}
		if live == 0 && deletes {
			return
		}
		t.Install(many, Deleted)
	})
}

// TestManyIsAtomic: who looks at keys of several shards sees very many writes as one, whichever shards are unlocked
// first.
func TestManyIsAtomic(t *testing.T) {
	h := newHarness(t)
	s := h.s
	var keys []Key
	for i := range 2000 {
		keys = append(keys, s.Key(0, fmt.Appendf(nil, "key:%d", i)))
	}
	var stop atomic.Bool
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop.Store(true)
	for r := range 2 {
		readers.Go(func() {
			rng, txn := rand.New(rand.NewPCG(1, uint64(r))), s.NewTxn()
			for !stop.Load() {
				some := []Key{keys[rng.IntN(len(keys))], keys[rng.IntN(len(keys))], keys[rng.IntN(len(keys))]}
				if !s.Begin(txn, some) {
					t.Error("keys are not in memory")
					return
				}
				seen := map[string]bool{}
				for _, k := range some {
					value := "none"
					if item, ok := txn.Get(k); ok {
						data, _ := item.String()
						value = string(data)
					}
					seen[value] = true
				}
				if lsn := txn.End(); lsn > s.log.End() {
					t.Errorf("what was seen depends on %d, the log ends at %d", lsn, s.log.End())
				}
				if len(seen) != 1 {
					t.Errorf("keys of one change have values %v", seen)
					return
				}
			}
		})
	}
	txn := s.NewTxn()
	for round := range 60 {
		var values [][]byte
		if round%3 != 2 {
			for range keys {
				values = append(values, fmt.Appendf(nil, "%d", round))
			}
		}
		many := s.NewMany(keys, values)
		s.BeginMany(txn)
		for _, i := range many.Each() {
			item, ok := txn.Get(keys[i])
			many.See(i, item, ok)
		}
		txn.Install(many, Deleted)
		txn.End()
	}
}

// TestManyIsDurable: what shows very many writes, or that a key is gone by them, depends on their batch.
func TestManyIsDurable(t *testing.T) {
	h := newHarness(t)
	var keys []Key
	var values [][]byte
	for i := range 20 {
		keys = append(keys, h.s.Key(0, fmt.Appendf(nil, "key:%d", i)))
		values = append(values, make([]byte, i%3*3000)) // those of 6000 bytes need no block
	}
	for _, values := range [][][]byte{values, values, nil} {
		many := h.s.NewMany(keys, values)
		h.s.BeginAll(h.txn)
		for _, i := range many.Each() {
			item, ok := h.txn.Get(keys[i])
			many.See(i, item, ok)
		}
		h.txn.Install(many, Deleted)
		lsn := h.txn.End()
		for i, k := range keys {
			h.s.Begin(h.txn, keys[i:i+1])
			if _, ok := h.txn.Get(k); ok != (values != nil) {
				t.Errorf("key %d is there: %t", i, ok)
			}
			if got := h.txn.End(); got < lsn {
				t.Errorf("key %d: what is seen of it depends on %d, its batch ends at %d", i, got, lsn)
			}
		}
	}
	h.check()
}

// TestManyLeavesWhatIsDueByElements: a key whose elements have all come due since it was looked at counts until they are
// removed, also after a kill: there is no record that deletes it.
func TestManyLeavesWhatIsDueByElements(t *testing.T) {
	h := newHarness(t)
	keys := []Key{h.s.Key(0, []byte("plain")), h.s.Key(0, []byte("hash"))}
	h.do(func(t *Txn) {
		t.SetString(keys[0], []byte("v"), 0, Event{})
		hash, err := t.Hash(keys[1])
		if err != nil {
			h.t.Fatal(err)
		}
		hash.Set([]byte("f"), []byte("v"), 0)
	}, keys...)
	many := h.s.NewMany(keys, nil)
	h.doAll(func(txn *Txn) {
		for i, k := range keys {
			item, _ := txn.Get(k)
			many.See(i, item, true)
		}
		item, _ := txn.Get(keys[1])
		many.See(1, item, false) // as Left has it of one that a long read has pinned
		txn.Install(many, Deleted)
	})
	for _, when := range []string{"live", "after a replay"} {
		if got := h.s.Populations()[0].Keys; got != 1 {
			t.Errorf("%s: %d keys", when, got)
		}
		h.do(func(txn *Txn) {
			if _, there := txn.Get(keys[1]); !there {
				t.Errorf("%s: the hash is gone", when)
			}
		}, keys[1])
		if err := h.s.Close(false); err != nil { // without a checkpoint: the log is replayed
			t.Fatal(err)
		}
		h.open()
	}
}

// TestManyTakeTurns: who locks all shards while very many keys are written waits with none of them locked, and so does
// not keep others from those that are unlocked already.
func TestManyTakeTurns(t *testing.T) {
	h := newHarness(t)
	keys := apart(h.s, len(h.s.shards))
	for name, begin := range map[string]func(*Txn){"another": h.s.BeginMany, "a look at all": h.s.BeginAll} {
		first, ended, calls := h.s.NewTxn(), make(chan struct{}), make(chan struct{})
		h.s.BeginMany(first)
		go func() {
			defer close(ended)
			next := h.s.NewTxn()
			close(calls)
			begin(next)
			next.End()
		}()
		await.For(t, "another one begins", calls)
		await.Pass(10 * time.Millisecond) // so that it would have a shard as soon as that is unlocked
		for i := range keys {
			first.release(1 << i) // as apply does
			done := make(chan struct{})
			go func() {
				defer close(done)
				one := h.s.NewTxn()
				h.s.lock(one, 1<<i)
				h.s.unlock(one)
			}()
			await.For(t, fmt.Sprintf("shard %d is unlocked, beside %s", i, name), done)
		}
		first.End()
		await.For(t, "the other one ends", ended)
	}
}

// TestManyReadsNothing: keys that have left memory since they were looked at are written without being read, which would
// have everybody wait for the disk. They are as others afterwards, live and after a replay.
func TestManyReadsNothing(t *testing.T) {
	for _, deletes := range []bool{true, false} {
		h := newHarness(t)
		keys := []Key{h.s.Key(0, []byte("string")), h.s.Key(0, []byte("timed")), h.s.Key(0, []byte("hash")), h.s.Key(0, []byte("missing"))}
		h.do(func(t *Txn) {
			t.SetString(keys[0], []byte("v"), 0, Event{})
			t.SetString(keys[1], make([]byte, 6000), h.clock.Now()+1000, Event{})
			hash, err := t.Hash(keys[2])
			if err != nil {
				h.t.Fatal(err)
			}
			for i := range 200 { // its elements stand by themselves
				hash.Set([]byte{byte(i)}, make([]byte, 100), 0)
			}
		}, keys...)
		var values [][]byte
		want := int64(0)
		if !deletes {
			values = [][]byte{[]byte("a"), make([]byte, 7000), []byte("c"), []byte("d")}
			want = int64(len(keys))
		}
		many := h.s.NewMany(keys, values)
		h.do(func(txn *Txn) {
			for _, i := range many.Each() {
				item, ok := txn.Get(keys[i])
				many.See(i, item, ok)
			}
		}, keys...)
		h.saved()
		h.evict()
		if h.s.Stats().Resident != 0 {
			t.Fatal("keys are in memory")
		}
		loads := h.s.Stats().Loads
		h.doAll(func(txn *Txn) { txn.Install(many, Deleted) })
		if got := h.s.Stats().Loads; got != loads {
			t.Errorf("deletes: %t; %d keys were read with all shards locked", deletes, got-loads)
		}
		for _, when := range []string{"live", "after a replay", "after a checkpoint"} {
			h.check()
			if got, expires := h.s.Count(0); got != want || expires != 0 {
				t.Errorf("deletes: %t; %s: %d keys, %d of them with a deadline", deletes, when, got, expires)
			}
			for i, k := range keys {
				h.do(func(txn *Txn) {
					if item, there := txn.Get(k); there == deletes {
						t.Errorf("deletes: %t; %s: key %d is there: %t", deletes, when, i, there)
					} else if there {
						if data, err := item.String(); err != nil || string(data) != string(values[i]) {
							t.Errorf("%s: key %d is %.20q, %v", when, i, data, err)
						}
					}
				}, k)
			}
			if when == "live" {
				if err := h.s.Close(false); err != nil {
					t.Fatal(err)
				}
				h.open()
			} else {
				h.saved()
				h.evict()
			}
		}
		if n := h.elements(); n != 0 {
			t.Errorf("deletes: %t; %d elements of the hash are left on disk", deletes, n)
		}
		if err := h.s.Close(false); err != nil {
			t.Fatal(err)
		}
	}
}
