package storage

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"keyp/storage/object"
	"keyp/storage/slab"
)

// ageing is a stream with a maximum age (XCFGSET MAXAGE) and an entry for each millisecond. Entries
// reach that age, and are removed, while others read and write the stream.
type ageing struct {
	*harness
	k   Key
	age int64
	mu  sync.Mutex
	end int64 // the time of the last entry; written with the key's shard locked
}

// run runs fn in a transaction. As in a server, it removes due entries itself if they are few. If
// they are many, they are removed in steps before it begins.
func (a *ageing) run(t *Txn, fn func(v *object.Stream, s *Stream)) {
	for tries := 0; !a.s.Begin(t, []Key{a.k}); tries++ {
		if tries > 10_000 {
			a.t.Errorf("a transaction does not begin after %d tries", tries)
			return
		}
		func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.load([]Key{a.k})
		}()
	}
	s, err := t.Stream(a.k)
	if err != nil {
		a.t.Errorf("Stream: %v", err)
	} else {
		fn(s.Value(), &s)
	}
	t.End()
}

// see checks as a reader that the stream has exactly the entries that are not due.
func (a *ageing) see(t *Txn, rng *rand.Rand) {
	a.run(t, func(v *object.Stream, _ *Stream) {
		oldest, last := t.Now()-a.age+1, a.end
		if n, want := v.Entries(), int(max(last-oldest+1, 0)); n != want {
			a.t.Errorf("%d entries at %d, want %d", n, t.Now(), want)
		}
		if first, ok := v.First(); ok && first.Ms != uint64(oldest) {
			a.t.Errorf("the first entry at %d is of %d, want %d", t.Now(), first.Ms, oldest)
		}
		from := oldest - 10 + rng.Int64N(max(last-oldest, 1)+20)
		want := max(from, oldest)
		v.Range(object.StreamID{Ms: uint64(from)}, object.MaxStreamID, false,
			func(e object.StreamEntry) bool {
				if e.ID.Ms != uint64(want) {
					a.t.Errorf("entry %d at %d, want %d", e.ID.Ms, t.Now(), want)
				}
				want++
				return want < from+20 && !a.t.Failed()
			})
	})
}

// add adds the next entries.
func (a *ageing) add(t *Txn, n int) {
	a.run(t, func(_ *object.Stream, s *Stream) {
		for range n {
			a.end++
			s.Add(object.StreamID{Ms: uint64(a.end), Seq: 1}, [][]byte{[]byte("f"), []byte("v")})
		}
	})
}

// TestMillionEntriesAge: a million entries age, a few or many thousands at a time, while readers
// and a writer are active. Each of them sees exactly the entries that are not due at its instant.
// Nobody holds the stream for longer than removing some hundred runs takes.
func TestMillionEntriesAge(t *testing.T) {
	count, age := int64(1_000_000), int64(10_000)
	if slab.OnHeap { // the race detector takes ten times as long
		count /= 10
	}
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	start := h.clock.Now()
	a := &ageing{harness: h, k: h.s.Key(0, []byte("s")), age: count + age, end: start + count - 1}
	h.aged(a.k, int(count), a.age, object.KeepRefs)
	h.saved()
	h.commit()

	h.clock.Set(start + a.age - 1) // before it readers would miss what the stream never had
	stop := make(chan struct{})
	var others sync.WaitGroup
	other := func(seed uint64, fn func(txn *Txn, rng *rand.Rand)) {
		others.Go(func() {
			txn, rng := h.s.NewTxn(), rand.New(rand.NewPCG(seed, 1))
			for !t.Failed() {
				select {
				case <-stop:
					return
				default:
					fn(txn, rng)
				}
			}
		})
	}
	other(1, a.see)
	other(2, a.see)
	other(3, func(txn *Txn, rng *rand.Rand) { a.add(txn, 1+rng.IntN(3)) })

	sh := h.s.shards[h.s.shardOf(a.k.Slot)]
	reaper, rng, reader := &source{sh: sh, t: h.s.NewTxn()}, rand.New(rand.NewPCG(4, 1)),
		h.s.NewTxn()
	for last := start + a.age + count; h.clock.Now() < last && !t.Failed(); {
		by := 1 + rng.Int64N(10_000)
		if rng.IntN(4) == 0 {
			by = rng.Int64N(100_000)
		}
		h.clock.Advance(time.Duration(min(by, last-h.clock.Now())) * time.Millisecond)
		a.see(reader, rng)
		for more := true; more; {
			var n int
			if n, more = reaper.ReapDue(h.s.now(), 0); n > reapLooks*shedStep {
				t.Fatalf("a batch of the reaper removes %d entries", n)
			}
			if more && n == 0 {
				t.Fatalf("the reaper has more to do at %d, and removes nothing", h.s.now())
			}
		}
		h.commit()
	}
	close(stop)
	others.Wait()
	a.see(reader, rng)
	h.check()
	if removed := h.s.stats.ExpiredElements.Load(); removed < count {
		t.Errorf("%d entries are counted as expired, want %d at least", removed, count)
	}
	h.reopen()
	a.see(h.txn, rng)
	h.check()
}
