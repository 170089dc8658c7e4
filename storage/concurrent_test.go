package storage

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/storage/object"
	"keyp/storage/wal"
	"keyp/ttl"
)

// TestBesideBackground runs writers while everything in the background runs: reaper, loaders,
// checkpoints, eviction down to a memory limit far below the data, SCAN and prefetching. Each
// writer has its own keys and knows their values. At the end, and again after a restart, all keys
// must have these values.
func TestBesideBackground(t *testing.T) {
	dir := t.TempDir()
	options := Options{
		Dir: dir, Clock: clock.System, Logger: slog.New(slog.DiscardHandler),
		Databases: 2, Shards: 4,
		SegmentSize: 256 << 10, CheckpointBytes: 256 << 10, MaxMemory: 3 << 20,
		InitialMmap: 1 << 20, DiskReserve: 1,
		Sync: wal.Always,
	}
	s, _, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	const writers, ops, keys = 6, 4000, 1500
	owned := make([]map[string]value, writers)
	for w := range owned {
		owned[w] = map[string]value{}
	}
	stop := make(chan struct{})
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		for {
			select {
			case <-stop:
				return
			default:
				for i := range keys {
					s.Prefetch(i%options.Databases,
						[][]byte{fmt.Appendf(nil, "w%d:%d", i%writers, i), []byte("none")})
				}
				if err := s.Walk(0, func([]byte, object.Type) bool { return true }); err != nil {
					t.Errorf("walk: %v", err)
				}
			}
		}
	}()
	until(t, "keys are evicted, loaded and checkpointed", func() bool {
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { write(t, s, w, ops, keys, owned[w]) })
		}
		wg.Wait()
		st := s.Stats()
		return t.Failed() || st.Evictions > 0 && st.Loads > 0 && st.Checkpoints > 0
	})
	close(stop)
	await.For(t, "the scan ends", scanned)
	compare(t, s, owned)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if s, _, err = Open(options); err != nil {
		t.Fatal(err)
	}
	compare(t, s, owned)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}

// until calls round until it returns true. It bounds the number of rounds, not the time: on a busy
// machine with the race detector, one round of writers may take longer than any wait should.
func until(t *testing.T, what string, round func() bool) {
	t.Helper()
	for n := 0; !round(); n++ {
		if n == 100 {
			t.Fatalf("not in %d rounds: %s", n, what)
		}
	}
}

// TestKillsDoNotPileUpSegments: a store that is killed again and again with hardly anything in its
// log keeps few segments.
func TestKillsDoNotPileUpSegments(t *testing.T) {
	dir := t.TempDir()
	for range 12 {
		s, _, err := Open(Options{Dir: dir, Clock: clock.System,
			Logger: slog.New(slog.DiscardHandler), SegmentSize: 64 << 10, InitialMmap: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the checkpoint of the start releases the old segments", func() bool {
			return s.Stats().LogBytes <= 200
		})
		txn, k := s.NewTxn(), s.Key(0, []byte("k"))
		if _, err := s.BeginLoading(txn, []Key{k}); err != nil {
			t.Fatal(err)
		}
		txn.SetString(k, []byte("v"), ttl.Deadline{}, Event{EventString, "set"})
		txn.End()
		if err := s.Close(false); err != nil { // without a checkpoint, as a kill leaves it
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, "wal"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 2+wal.DefaultSpares+2 {
		t.Errorf("%d files in the log's directory after 12 starts", len(files))
	}
}

// begin starts a transaction after loading the keys that it needs.
func begin(s *Store, txn *Txn, keys ...Key) error {
	for !s.Begin(txn, keys) {
		done := make(chan error)
		s.Load(keys, func(err error) { done <- err })
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

func write(t *testing.T, s *Store, w, ops, keys int, own map[string]value) {
	txn := s.NewTxn()
	rng := rand.New(rand.NewPCG(uint64(w), 7))
	for op := range ops {
		key := fmt.Sprintf("w%d:%d", w, rng.IntN(keys))
		k := s.Key(0, []byte(key))
		if err := begin(s, txn, k); err != nil {
			t.Errorf("begin: %v", err)
			return
		}
		was, had := own[key]
		had = had && (was.deadline == 0 || was.deadline > txn.Now())
		switch it, ok := txn.Get(k); {
		case ok != had:
			t.Errorf("%s: found %t, want %t", key, ok, had)
		case ok:
			if got, _ := it.String(); string(got) != was.data || it.Deadline() != was.deadline {
				t.Errorf("%s: has %d bytes until %d, want %d until %d", key, len(got),
					it.Deadline(), len(was.data), was.deadline)
			}
		}
		switch op % 5 {
		case 0, 1, 2:
			v := value{data: string(make([]byte, rng.IntN(3000)))}
			if rng.IntN(3) == 0 {
				v.deadline = txn.Now() + rng.Int64N(300) + 1
			}
			txn.SetString(k, []byte(v.data), ttl.At(v.deadline), Event{EventString, "set"})
			own[key] = v
		case 3:
			txn.Delete(k, Deleted)
			delete(own, key)
		case 4:
			if txn.SetDeadline(k, ttl.At(txn.Now()+100), Event{EventGeneric, "expire"}) {
				own[key] = value{data: was.data, deadline: txn.Now() + 100}
			}
		}
		txn.End()
		if op%64 == 0 {
			if err := s.Log().Commit(); err != nil {
				t.Errorf("commit: %v", err)
			}
		}
	}
}

func compare(t *testing.T, s *Store, owned []map[string]value) {
	t.Helper()
	txn := s.NewTxn()
	for _, own := range owned {
		for key, want := range own {
			k := s.Key(0, []byte(key))
			if err := begin(s, txn, k); err != nil {
				t.Fatal(err)
			}
			it, ok := txn.Get(k)
			if live := want.deadline == 0 || want.deadline > txn.Now(); ok != live {
				t.Errorf("%s: found %t, want %t", key, ok, live)
			} else if ok {
				if got, _ := it.String(); string(got) != want.data ||
					it.Deadline() != want.deadline {
					t.Errorf("%s differs", key)
				}
			}
			txn.End()
		}
	}
	var live int64
	now := time.Now().UnixMilli()
	for _, own := range owned {
		for _, v := range own {
			if v.deadline == 0 || v.deadline > now+1000 {
				live++
			}
		}
	}
	if keys, _ := s.Count(0); keys < live {
		t.Errorf("DBSIZE is %d with at least %d keys", keys, live)
	}
}
