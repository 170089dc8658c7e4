package object

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	_ "keyp/internal/testkit/setup"
)

// The benchmarks work on values of a million elements with names of 10 bytes and values of 10
// bytes. They report the memory for each: B/elem as the garbage collector counts it, and as Bytes
// returns it.

const million = 1_000_000

// benchKey spells numbers in no particular order.
func benchKey(buf []byte, i int) []byte {
	return fmt.Appendf(buf[:0], "%010d", uint32(i)*2654435761)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// put sets element number i. The keys and scores are in no particular order.
func put(v Value, i int) {
	var buf [16]byte
	key := benchKey(buf[:], i)
	switch v := v.(type) {
	case *Hash:
		v.Set(key, key, 0)
	case *Set:
		v.Add(key, 0)
	case *ZSet:
		v.Set(key, float64(uint32(i)*2246822519), 0)
	case *List:
		v.PushBack(key)
	}
}

func fill(v Value) Value {
	for i := range million {
		put(v, i)
	}
	return v
}

var benchTypes = []struct {
	name string
	make func() Value
}{
	{"hash", func() Value { return &Hash{} }},
	{"set", func() Value { return &Set{} }},
	{"zset", func() Value { return &ZSet{} }},
	{"list", func() Value { return &List{} }},
}

// BenchmarkFill makes a value of a million elements; ns/op is for all of them.
func BenchmarkFill(b *testing.B) {
	for _, typ := range benchTypes {
		b.Run(typ.name, func(b *testing.B) {
			var v Value
			for b.Loop() {
				v = nil
				v = fill(typ.make())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/elem")
			b.StopTimer()
			bytes := v.Bytes()
			with := heap()
			runtime.KeepAlive(v)
			v = nil
			b.ReportMetric(float64(with-heap())/million, "B/elem")
			b.ReportMetric(float64(bytes)/million, "Bytes/elem")
		})
	}
}

// BenchmarkSmall makes hashes of ten fields of 5 bytes with values of 5 bytes.
func BenchmarkSmall(b *testing.B) {
	const n = 100_000
	list := make([]*Hash, n)
	var with int64
	before := heap()
	for b.Loop() {
		for i := range list {
			h := &Hash{}
			for f := range 10 {
				h.Set([]byte{'f', 'i', 'e', 'l', byte('0' + f)}, []byte("value"), 0)
			}
			list[i] = h
		}
	}
	with = heap()
	b.ReportMetric(float64(with-before)/n, "B/hash")
	b.ReportMetric(float64(list[0].Bytes()), "Bytes/hash")
	runtime.KeepAlive(list)
}

func BenchmarkLook(b *testing.B) {
	h, s, z, l := fill(&Hash{}).(*Hash), fill(&Set{}).(*Set), fill(&ZSet{}).(*ZSet),
		fill(&List{}).(*List)
	small := &Hash{}
	for i := range 100 {
		small.Set(fmt.Appendf(nil, "%010d", i), []byte("value"), 0)
	}
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = benchKey(make([]byte, 16), i*15%million)
	}
	run := func(name string, fn func(i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				fn(i)
				i++
			}
		})
	}
	key := func(i int) []byte { return keys[i%len(keys)] }
	run("hash/get", func(i int) { h.Get(key(i)) })
	run("hash/get-small", func(i int) { small.Get([]byte("0000000050")) })
	run("hash/set", func(i int) { h.Set(key(i), key(i), 0) })
	run("hash/at", func(i int) { h.At(i * 7919 % million) })
	run("hash/scan10", func(i int) {
		h.Scan(uint64(uint32(i)*2654435761), 10, func(_, _ []byte, _ int64) {})
	})
	run("set/has", func(i int) { s.Has(key(i)) })
	run("zset/score", func(i int) { z.Score(key(i)) })
	run("zset/rank", func(i int) { z.Rank(key(i)) })
	run("zset/update", func(i int) { z.Set(key(i), float64(uint32(i)*2654435761), 0) })
	run("zset/count", func(i int) { z.RankOfScore(float64(uint32(i)*2654435761), false) })
	run("zset/range10", func(i int) {
		at := i * 7919 % million
		z.Range(at, at+10, false, func([]byte, float64, int64) bool { return true })
	})
	run("list/index", func(i int) { l.At(i * 7919 % million) })
	run("list/push-pop", func(i int) {
		l.PushBack(key(i))
		l.RemoveRange(0, 1, func(int64, int) {})
	})
	run("list/push-front-pop-back", func(i int) {
		l.PushFront(key(i))
		l.RemoveRange(l.Len()-1, l.Len(), func(int64, int) {})
	})
	run("list/lpush-ltrim", func(i int) {
		l.PushFront(key(i))
		l.RemoveRange(million, l.Len(), func(int64, int) {})
	})
}

// BenchmarkPop removes members of a sorted set from the lowest rank until it is empty. The scores
// differ, or are all equal, so that only the names determine the order.
func BenchmarkPop(b *testing.B) {
	for name, score := range map[string]func(i int) float64{
		"scores":   func(i int) float64 { return float64(uint32(i) * 2246822519) },
		"no-score": func(int) float64 { return 0 },
	} {
		b.Run(name, func(b *testing.B) {
			z := &ZSet{}
			for b.Loop() {
				if z.Len() == 0 {
					b.StopTimer()
					for i := range million {
						z.Set(benchKey(nil, i), score(i), 0)
					}
					b.StartTimer()
				}
				z.RemoveRange(0, 1, func([]byte) {})
			}
		})
	}
}

// BenchmarkStall reports the longest of a million insertions.
func BenchmarkStall(b *testing.B) {
	for _, typ := range benchTypes {
		b.Run(typ.name, func(b *testing.B) {
			var worst int64
			for b.Loop() {
				v := typ.make()
				for i := range million {
					start := time.Now()
					put(v, i)
					worst = max(worst, int64(time.Since(start)))
				}
			}
			b.ReportMetric(float64(worst)/1000, "worst-us")
		})
	}
}

// BenchmarkDelayQueue uses a queue of a million jobs with payloads of 100 bytes, due in no
// particular order. It measures how long a job takes to be added, removed by its id, rescheduled,
// and taken as the first one. It also measures the memory of a job.
func BenchmarkDelayQueue(b *testing.B) {
	payload := make([]byte, 100)
	id := func(i int) []byte { return fmt.Appendf(nil, "job:%012d", i) }
	add := func(q *DelayQueue, i int) {
		j := Job{ID: id(i), Due: 1_700_000_000_000 + int64(uint32(i)*2246822519)>>5,
			Number: q.NextNumber(), Payload: payload}
		if err := q.Put(j.ID, j.Append(nil), 0); err != nil {
			b.Fatal(err)
		}
	}
	without := heap()
	q := NewDelayQueue()
	for i := range million {
		add(q, i)
	}
	b.Run("memory", func(b *testing.B) {
		b.ReportMetric(float64(heap()-without)/million, "B/job")
		b.ReportMetric(float64(q.Bytes())/million, "Bytes/job")
	})
	next := million
	b.Run("add-cancel", func(b *testing.B) {
		for b.Loop() {
			add(q, next)
			q.Remove(id(next - million))
			next++
		}
	})
	b.Run("add-pop", func(b *testing.B) {
		for b.Loop() {
			add(q, next)
			var first []byte
			q.From(JobPlace{}, func(j Job) bool { first = j.ID; return false })
			q.Remove(first)
			next++
		}
	})
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			q := NewDelayQueue()
			for i := range million / 10 {
				add(q, i)
			}
		}
	})
}
