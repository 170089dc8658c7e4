package main

import (
	"context"
	"fmt"
	"time"
)

// workload is one thing to measure: a procedure, or a stream of requests that redis-benchmark sends
// and measures.
type workload struct {
	name      string
	requests  []string  // arguments of redis-benchmark; nil: it does not run
	procedure procedure // nil: a stream
	limited   bool      // Keyp gets --maxmemory
	keys      uint64
	length    time.Duration
	clients   int // 0 in the list below: --clients, at each pipeline
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
