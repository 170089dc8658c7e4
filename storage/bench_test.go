package storage

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/storage/wal"
	"keyp/ttl"
)

// benchValue is the size that the comparisons with Redis use.
const benchValue = 100

// benchStore opens a store on the machine's disk and clock, with nothing running in the background.
func benchStore(b *testing.B, dir string) *Store { return benchStoreAt(b, dir, clock.System) }

func benchStoreAt(b *testing.B, dir string, at clock.Clock) *Store {
	s, _, err := Open(Options{
		Dir: dir, Clock: at, Logger: slog.New(slog.DiscardHandler),
		Sync: wal.No, NoBackground: true, CheckpointBytes: 1 << 40,
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// benchKeys makes n keys.
func benchKeys(s *Store, n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = s.Key(0, fmt.Appendf(nil, "key:%012d", i))
	}
	return keys
}

// fill sets all keys in random order, with a deadline an hour away if ttl is set. It makes the
// writes durable from time to time.
func fill(b *testing.B, s *Store, keys []Key, ttl bool) {
	t, value := s.NewTxn(), make([]byte, benchValue)
	order := rand.Perm(len(keys))
	for n, i := range order {
		binary.LittleEndian.PutUint64(value, rand.Uint64())
		benchSet(b, s, t, keys[i:i+1], value, ttl)
		if n%1000 == 999 {
			commit(b, s)
		}
	}
	commit(b, s)
}

func benchSet(b *testing.B, s *Store, t *Txn, key []Key, value []byte, expires bool) {
	if !s.Begin(t, key) {
		b.Fatal("the key is not in memory")
	}
	var deadline int64
	if expires {
		deadline = t.Now() + time.Hour.Milliseconds()
	}
	t.SetString(key[0], value, ttl.At(deadline), Event{})
	t.End()
}

func commit(b *testing.B, s *Store) {
	if err := s.log.Commit(); err != nil {
		b.Fatal(err)
	}
}

// closeBench closes a store and leaves the log as after a crash.
func closeBench(b *testing.B, s *Store) {
	if err := s.Close(false); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSet overwrites random keys out of 1M and commits after every 50.
func BenchmarkSet(b *testing.B) {
	for _, ttl := range []bool{false, true} {
		b.Run(fmt.Sprintf("ttl=%v", ttl), func(b *testing.B) {
			s := benchStore(b, b.TempDir())
			keys := benchKeys(s, 1_000_000)
			fill(b, s, keys, ttl)
			t, value := s.NewTxn(), make([]byte, benchValue)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				i := rand.IntN(len(keys))
				benchSet(b, s, t, keys[i:i+1], value, ttl)
				if n%50 == 49 {
					commit(b, s)
				}
			}
			b.StopTimer()
			closeBench(b, s)
		})
	}
}

// BenchmarkGet reads random keys out of 1M.
func BenchmarkGet(b *testing.B) {
	s := benchStore(b, b.TempDir())
	keys := benchKeys(s, 1_000_000)
	fill(b, s, keys, true)
	t := s.NewTxn()
	b.ReportAllocs()
	for b.Loop() {
		i := rand.IntN(len(keys))
		if !s.Begin(t, keys[i:i+1]) {
			b.Fatal("the key is not in memory")
		}
		if _, ok := t.Get(keys[i]); !ok {
			b.Fatal("a key is missing")
		}
		t.End()
	}
	b.StopTimer()
	closeBench(b, s)
}

// BenchmarkCheckpoint writes the changed keys out of 1M: a tenth of them, or all.
func BenchmarkCheckpoint(b *testing.B) {
	for _, changed := range []int{100_000, 1_000_000} {
		for _, ttl := range []bool{false, true} {
			b.Run(fmt.Sprintf("keys=%d/ttl=%v", changed, ttl), func(b *testing.B) {
				benchCheckpoint(b, changed, ttl)
			})
		}
	}
}

func benchCheckpoint(b *testing.B, changed int, ttl bool) {
	s := benchStore(b, b.TempDir())
	s.checkpointer.hurry.Store(true)
	keys := benchKeys(s, 1_000_000)
	fill(b, s, keys, ttl)
	if err := s.Checkpoint(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		fill(b, s, keys[:changed], ttl)
		b.StartTimer()
		if err := s.Checkpoint(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	closeBench(b, s)
}

// BenchmarkReap removes keys that are all due at once, either in memory only or with a copy in the
// data file.
func BenchmarkReap(b *testing.B) {
	const count = 200_000
	for _, saved := range []bool{false, true} {
		b.Run(fmt.Sprintf("saved=%v", saved), func(b *testing.B) {
			now := clock.NewFake(time.Now().UnixMilli())
			s := benchStoreAt(b, b.TempDir(), now)
			s.SetActiveExpire(false)
			s.checkpointer.hurry.Store(true)
			keys := benchKeys(s, count)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				fill(b, s, keys, true)
				if saved {
					if err := s.Checkpoint(); err != nil {
						b.Fatal(err)
					}
				}
				now.Advance(2 * time.Hour)
				b.StartTimer()
				if n := s.Reap(); n != count {
					b.Fatalf("%d keys were removed", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/key")
			closeBench(b, s)
		})
	}
}

// BenchmarkRecovery opens a store whose log has 1M records, each of another key.
func BenchmarkRecovery(b *testing.B) {
	for _, ttl := range []bool{false, true} {
		b.Run(fmt.Sprintf("ttl=%v", ttl), func(b *testing.B) {
			dir := b.TempDir()
			s := benchStore(b, dir)
			fill(b, s, benchKeys(s, 1_000_000), ttl)
			closeBench(b, s)
			for b.Loop() {
				s := benchStore(b, dir)
				b.StopTimer()
				closeBench(b, s)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkTimeline counts the keys of 30M deadlines in memory, spread over 30 days, by their hours
// and by other spans. Only the indexes have these deadlines. The benchmark looks at no names.
//
//	go test ./storage -run '^$' -bench Timeline -benchtime 20x
func BenchmarkTimeline(b *testing.B) {
	const deadlines, day = 30_000_000, int64(24 * 3600_000)
	s := benchStore(b, b.TempDir())
	now := s.now()
	var wg sync.WaitGroup
	for _, sh := range s.shards {
		p := sh.makePart(0)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(sh.num), 0))
			for id := range uint64(deadlines / len(s.shards)) {
				p.index.Set(id, 0, now+1+rng.Int64N(30*day))
			}
		})
	}
	wg.Wait()
	for _, c := range []struct {
		name     string
		from, to int64
		spans    int
	}{
		{"24 hours", 0, day, 24}, {"30 days", 0, 30 * day, 30},
		{"a minute by seconds", day, day + 60_000, 60}, {"30 days by 1000", 0, 30 * day, 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			var width float64
			for b.Loop() {
				list, err := s.Timeline(0, Instant{At: now + c.from}, Instant{At: now + c.to},
					c.spans, nil)
				if err != nil {
					b.Fatal(err)
				}
				width = 0
				for _, span := range list {
					width += float64(span.High-span.Low) / float64(max(span.Estimate, 1)) / float64(
						len(list))
				}
			}
			b.ReportMetric(100*width, "%between")
		})
	}
	b.StopTimer()
	for _, sh := range s.shards { // it has no such keys
		sh.mu.parts[0] = nil
	}
	closeBench(b, s)
}
