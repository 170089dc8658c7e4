package commands

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestHyperLogLog(t *testing.T) {
	table(t, `
		PFCOUNT none -> 0
		EXISTS none -> 0
		PFADD k -> 1
		events -> pfadd:k
		GET k -> "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"
		OBJECT ENCODING k -> "raw"
		PFADD k -> 0
		PFCOUNT k -> 0
		GET k -> "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
		PFADD k a b c d e f g -> 1
		events -> pfadd:k
		PFADD k a b c -> 0
		events ->
		PFCOUNT k -> 7
		PFDEBUG ENCODING k -> +sparse
		EXPIRE k 10 -> 1
		PFADD k h -> 1
		TTL k -> 10
		reopen
		TTL k -> 10
		PFCOUNT k -> 8
		PFADD other h i -> 1
		PFCOUNT k other none -> 9
		PFMERGE k other -> +OK
		PFCOUNT k -> 9
		TTL k -> 10
		PFMERGE new none -> +OK
		PFCOUNT new -> 0
		PFMERGE new k other -> +OK
		PFCOUNT new -> 9
		PFDEBUG TODENSE k -> 1
		PFDEBUG TODENSE k -> 0
		PFDEBUG ENCODING k -> +dense
		STRLEN k -> 12304
		PFCOUNT k -> 9
		PFADD k h -> 0
		PFADD k j -> 1
		PFMERGE new k -> +OK
		PFDEBUG ENCODING new -> +dense
		reopen
		PFCOUNT new -> 10
		PFCOUNT k -> 10
		TTL k -> 10
		PFSELFTEST -> +OK
	`)
}

func TestHyperLogLogErrors(t *testing.T) {
	table(t, `
		SET s text -> +OK
		RPUSH l a -> 1
		SET short "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xfe" -> +OK
		SET cut "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f" -> +OK
		SET dense "HYLL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff" -> +OK
		PFADD k a -> 1
		PFADD s a -> -WRONGTYPE Key is not a valid HyperLogLog string value.
		PFADD l a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		PFADD dense a -> -WRONGTYPE Key is not a valid HyperLogLog string value.
		PFCOUNT s -> -WRONGTYPE Key is not a valid HyperLogLog string value.
		PFCOUNT k l -> -WRONGTYPE Operation against a key holding the wrong kind of value
		PFCOUNT short -> -INVALIDOBJ Corrupted HLL object detected
		PFCOUNT k short -> -INVALIDOBJ Corrupted HLL object detected
		PFCOUNT cut -> -INVALIDOBJ Corrupted HLL object detected
		PFADD cut a -> -INVALIDOBJ Corrupted HLL object detected
		PFMERGE k short -> -INVALIDOBJ Corrupted HLL object detected
		PFMERGE k s -> -WRONGTYPE Key is not a valid HyperLogLog string value.
		PFDEBUG TODENSE short -> -INVALIDOBJ Corrupted HLL object detected
		PFDEBUG GETREG cut -> -INVALIDOBJ Corrupted HLL object detected
		PFDEBUG DECODE short -> "Z:16383"
		PFDEBUG DECODE none -> -ERR The specified key does not exist
		PFDEBUG DECODE s -> -WRONGTYPE Key is not a valid HyperLogLog string value.
		PFDEBUG NOSUCH k -> -ERR Unknown PFDEBUG subcommand 'NOSUCH'
		PFDEBUG DECODE k x -> -ERR wrong number of arguments for 'pfdebug' command
		PFDEBUG TODENSE k -> 1
		PFDEBUG DECODE k -> -ERR HLL encoding is not sparse
		PFADD -> -ERR wrong number of arguments for 'pfadd' command
	`)
}

// TestSketchRuns: runs are split and joined as in Redis.
func TestSketchRuns(t *testing.T) {
	s := newSketch()
	for _, step := range []struct {
		register int
		value    byte
		want     string
	}{
		{100, 3, "Z:100 v:3,1 Z:16283"},
		{101, 3, "Z:100 v:3,2 Z:16282"},
		{103, 3, "Z:100 v:3,2 z:1 v:3,1 Z:16280"},
		{102, 3, "Z:100 v:3,4 Z:16280"},
		{104, 3, "Z:100 v:3,4 v:3,1 Z:16279"},
		{102, 5, "Z:100 v:3,2 v:5,1 v:3,2 Z:16279"},
		{20, 32, "z:20 v:32,1 Z:79 v:3,2 v:5,1 v:3,2 Z:16279"},
		{0, 1, "v:1,1 z:19 v:32,1 Z:79 v:3,2 v:5,1 v:3,2 Z:16279"},
		{16383, 1, "v:1,1 z:19 v:32,1 Z:79 v:3,2 v:5,1 v:3,2 Z:16278 v:1,1"},
		{0, 1, "v:1,1 z:19 v:32,1 Z:79 v:3,2 v:5,1 v:3,2 Z:16278 v:1,1"},
	} {
		var err error
		if s, _, err = s.raise(step.register, step.value, 3000); err != nil {
			t.Fatal(err)
		}
		if got := string(s.decoded()); got != step.want {
			t.Errorf("register %d to %d:\n%s want\n%s", step.register, step.value, got, step.want)
		}
	}
}

// TestSketchRegisters: random registers are the same in both forms, and in a plain array. A sparse
// form is never longer than its limit.
func TestSketchRegisters(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := int64([]int{18, 40, 3000, 100_000}[seed%4])
		var want, got [sketchRegisters]byte
		s, dense := newSketch(), make(sketch, sketchDenseSize)
		for range 4000 {
			i, v := rng.IntN(sketchRegisters), byte(1+rng.IntN(32))
			if rng.IntN(2) == 0 {
				i %= 300
			}
			raised := v > want[i]
			want[i] = max(want[i], v)
			next, changed, err := s.raise(i, v, limit)
			if s = next; err != nil || changed != raised {
				t.Fatalf("seed %d: register %d to %d: %v, %v", seed, i, v, changed, err)
			}
			dense, _, _ = dense.raise(i, v, limit)
			if !s.dense() && int64(len(s)) > limit {
				t.Fatalf("seed %d: a sparse one of %d bytes", seed, len(s))
			}
		}
		if !s.mergeInto(&got) || got != want {
			t.Errorf("seed %d: other registers than were set", seed)
		}
		for i, v := range want {
			if dense.register(i) != v {
				t.Fatalf("seed %d: register %d is %d, want %d", seed, i, dense.register(i), v)
			}
		}
	}
}

// TestEstimate: the estimate of 100,000 elements is wrong by less than four times the standard
// error.
func TestEstimate(t *testing.T) {
	var all [sketchRegisters]byte
	for n := 1; n <= 100_000; n++ {
		i, v := registerOf(fmt.Append(nil, "element:", n))
		all[i] = max(all[i], v)
	}
	if n := float64(cardinality(&all)); math.Abs(n-100_000) > 4*812 {
		t.Errorf("100,000 elements are estimated to be %v", n)
	}
}

// TestHyperLogLogLog: PFADD to a dense HyperLogLog adds only a few bytes to the log.
func TestHyperLogLogLog(t *testing.T) {
	h := newHarness(t)
	h.do("PFADD", "k", "a")
	h.do("PFDEBUG", "TODENSE", "k")
	before := h.store.Log().End()
	if got := h.do("PFADD", "k", "b"); got != "1" {
		t.Fatalf("PFADD: %s", got)
	}
	if n := h.store.Log().End() - before; n > 200 {
		t.Errorf("a changed register costs %d bytes of the log", n)
	}
}

// FuzzSketch: no bytes of a value make a command panic. A command that succeeds leaves a valid
// value.
func FuzzSketch(f *testing.F) {
	header := "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80"
	for _, registers := range []string{"", "\x7f\xff", "\x7f", "\x60\x00\x81\x5f\xfe",
		"\x83\x83\x7f\xf7", "\x7f\xff\xff", "\x7f\xff\x7f\xff"} {
		f.Add([]byte(header+registers), []byte("a"))
	}
	f.Add(append([]byte("HYLL\x00"), make([]byte, sketchDenseSize-5)...), []byte("element"))
	f.Fuzz(func(t *testing.T, value, element []byte) {
		s, err := asSketch(value)
		if err != nil {
			return
		}
		s.decoded()
		var registers [sketchRegisters]byte
		valid := s.mergeInto(&registers)
		cardinality(&registers)
		if _, ok := s.toDense(); ok != valid {
			t.Fatalf("%q: merging gives %v, a dense one %v", value, valid, ok)
		}
		register, v := registerOf(element)
		next, changed, err := append(sketch(nil), s...).raise(register, v, 3000)
		if !valid {
			return
		}
		if err != nil || changed != (v > registers[register]) {
			t.Fatalf("%q: raising %d to %d: %v, %v", value, register, v, changed, err)
		}
		registers[register] = max(registers[register], v)
		var after [sketchRegisters]byte
		if !next.mergeInto(&after) || after != registers {
			t.Fatalf("%q: raising %d to %d gives %q", value, register, v, next)
		}
	})
}
