package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// errWrong marks a wrong answer of a server that can still be measured. The run records it as a
// failure and continues.
var errWrong = errors.New("wrong answer")

// workload is one thing to measure: a procedure, or a stream of requests that redis-benchmark sends
// and measures.
type workload struct {
	name      string
	requests  []string  // arguments of redis-benchmark; nil: it does not run
	procedure procedure // nil: a stream
	limited   bool      // Keyp gets --maxmemory
	keys      uint64
	length    time.Duration
	clients   int // 0 in allWorkloads: the value of --clients, for each pipeline
	pipeline  int
}

// procedure measures one round, for which it has a server of its own. It may return readings
// together with errWrong.
type procedure func(b *bench, ctx context.Context, w workload, s *server) ([]reading, error)

// reading is one figure.
type reading struct {
	name  string
	unit  string
	value float64
}

// allWorkloads returns all workloads, in the order in which --workload all measures them.
func allWorkloads() []workload {
	setEX := []string{"SET", "key:__rand_int__", valueWord, "EX", "3600"}
	getTTL := []string{"GET", ttlPrefix + "__rand_int__"}
	return []workload{
		stream("set", 0, "-t", "set"),
		stream("get", 0, "-t", "get"),
		stream("incr", 0, "-t", "incr"),
		stream("setex", 0, setEX...),
		stream("one", 1, "-t", "set"),
		stream("many", 1000, "-t", "set"),
		{name: "restart", procedure: restart, requests: setEX, keys: 3e6, length: time.Second},
		{name: "expire-burst", procedure: expireBurst, keys: 1e6, length: time.Second},
		{name: "expire-events", procedure: expireEvents, keys: 1e5, length: 10 * time.Second},
		{name: "bigger-than-memory", procedure: biggerThanMemory, requests: getTTL, limited: true,
			keys: 1e7, length: 10 * time.Second},
		{name: "abuse", procedure: measureAbuses, keys: 1e6},
	}
}

func stream(name string, clients int, requests ...string) workload {
	return workload{name: name, requests: requests, clients: clients, keys: 1e6,
		length: 3 * time.Second}
}

func (w workload) String() string {
	if w.procedure != nil {
		return fmt.Sprintf("%s, %d keys", w.name, w.keys)
	}
	return fmt.Sprintf("%s, %d keys, pipeline %d", w.name, w.keys, w.pipeline)
}

// bench is one run of the program.
type bench struct {
	config
	stderr   io.Writer
	streams  []*server // of the streams, one for each side
	rows     []*row
	failures []string
}

// run measures everything. It records wrong replies and continues. It ends when a server fails or
// ctx ends.
func (b *bench) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, b.closeStreams()) }()
	step, steps := 0, len(b.workloads)*b.rounds*len(b.sides)
	for _, w := range b.workloads {
		if w.procedure == nil {
			err = b.openStreams(ctx, w.keys)
		} else {
			err = b.closeStreams()
		}
		if err != nil {
			return err
		}
		for round := range b.rounds {
			for i := range b.sides {
				// Every second round runs in reverse order, so that no server always runs after the
				// same other one.
				side := (i + round) % len(b.sides)
				step++
				what := fmt.Sprintf("%s, %s, round %d", w, b.sides[side].name, round+1)
				fmt.Fprintf(b.stderr, "[%d/%d] %s/%d\n", step, steps, what, b.rounds)
				readings, err := b.measure(ctx, w, side)
				b.add(w.String(), side, readings)
				if err != nil {
					err = fmt.Errorf("%s: %w", what, err)
					if !errors.Is(err, errWrong) {
						return err
					}
					b.failures = append(b.failures, err.Error())
				}
			}
		}
	}
	return nil
}

// measure measures one round of a side. A stream uses the running server of the side, and a
// procedure has its own.
func (b *bench) measure(ctx context.Context, w workload, side int) (r []reading, err error) {
	if w.procedure == nil {
		for _, s := range b.streams {
			if err := s.waitIdle(ctx); err != nil {
				return nil, s.explain(ctx, err)
			}
		}
		r, err = b.send(ctx, w, b.streams[side])
		return r, b.streams[side].explain(ctx, err)
	}
	s, err := b.open(ctx, side, w.limited)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r, err = w.procedure(b, ctx, w, s)
	return r, s.explain(ctx, err)
}

// openStreams starts and fills the servers of the streams, unless they run already.
func (b *bench) openStreams(ctx context.Context, keys uint64) error {
	for side := len(b.streams); side < len(b.sides); side++ {
		s, err := b.open(ctx, side, false)
		if err != nil {
			return fmt.Errorf("%s: %w", b.sides[side].name, err)
		}
		b.streams = append(b.streams, s)
		if err := s.explain(ctx, b.load(ctx, s, keyPrefix, keys, nil)); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (b *bench) closeStreams() (err error) {
	for _, s := range b.streams {
		err = errors.Join(err, s.close())
	}
	b.streams = nil
	return err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
