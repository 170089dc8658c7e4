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
	// In the list below 0 stands for a number of the command line.
	clients int
	keys    uint64
	length  time.Duration
	// One of --pipeline, or 1.
	pipeline int
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
	set := []string{"-t", "set"}
	setEX := []string{"SET", "key:__rand_int__", valueWord, "EX", "3600"}
	getTTL := []string{"GET", ttlPrefix + "__rand_int__"}
	return []workload{
		{name: "set", requests: set},
		{name: "get", requests: []string{"-t", "get"}},
		{name: "incr", requests: []string{"-t", "incr"}},
		{name: "setex", requests: setEX},
		{name: "one", requests: set, clients: 1},
		{name: "many", requests: set, clients: 1000},
		{name: "restart", procedure: restart, requests: setEX, keys: 3e6, length: time.Second},
		{name: "expire-burst", procedure: expireBurst, keys: 1e6, length: time.Second},
		{name: "expire-events", procedure: expireEvents, keys: 1e5, length: 10 * time.Second},
		{name: "bigger-than-memory", procedure: biggerThanMemory, requests: getTTL, limited: true,
			keys: 1e7, length: 10 * time.Second},
		{name: "abuse", procedure: measureAbuses, keys: 1e6},
	}
}

func (w workload) String() string {
	if w.procedure != nil {
		return fmt.Sprintf("%s, %d keys", w.name, w.keys)
	}
	return fmt.Sprintf("%s, pipeline %d", w.name, w.pipeline)
}
