package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"keyp/cmd/keyp-bench/internal/load"
)

// group is the set of workloads that a collective name stands for.
type group int

const (
	standard group = iota
	ttl
)

// workload is one thing to measure: a stream of requests, whose rate and latency
// are compared, or a procedure with readings of its own.
type workload struct {
	name    string
	summary string
	group   group

	// Of a stream of requests.
	source    func(*load.Data) func(thread int) load.Source
	preload   bool             // the keys must be there first
	pipelined bool             // measured at each --pipeline, otherwise at 1
	clients   func(config) int // nil: --clients

	// Of a procedure.
	procedure func(b *bench, ctx context.Context, s shape, t *target, round int) ([]reading, error)
	starts    bool // the procedure starts and ends its servers
}

// reading is one figure of a procedure.
type reading struct {
	name  string
	unit  string
	value float64
}

// allWorkloads is the one list of workloads.
var allWorkloads = []workload{
	{name: "set", summary: "SET of random keys", source: load.Set, pipelined: true},
	{name: "setex", summary: "SET … EX with one hour to one day", source: load.SetEX, pipelined: true},
	{name: "get", summary: "GET of random keys that are all there", source: load.Get, preload: true, pipelined: true},
	{name: "incr", summary: "INCR of random counters", source: load.Incr, pipelined: true},
	{
		name: "mset", summary: fmt.Sprintf("MSET of %d random keys; a request is one MSET", load.MSetKeys),
		source: load.MSet, pipelined: true,
	},
	{name: "mixed", summary: "80% GET, 20% SET", source: load.Mixed, preload: true, pipelined: true},
	{name: "one", summary: "SET from one connection", source: load.Set, clients: func(config) int { return 1 }},
	{
		name: "many", summary: "SET from --many-clients connections", source: load.Set,
		clients: func(c config) int { return c.manyClients },
	},
	{
		name: "expire-burst", group: ttl, procedure: (*bench).expireBurst,
		summary: "--ttl-keys keys expire at one instant: how long until DBSIZE no longer counts them, " +
			"and the latency of GETs on --clients connections meanwhile",
	},
	{
		name: "restart", group: ttl, procedure: (*bench).restart, starts: true,
		summary: "--ttl-keys keys with a deadline; kill -9 under a load of SET EX, and a clean stop (SIGTERM): " +
			"how long from the new start to the first right GET; and memory",
	},
}

func groupNames(g group) []string {
	var names []string
	for _, w := range allWorkloads {
		if w.group == g {
			names = append(names, w.name)
		}
	}
	return names
}

// chosen gives the workloads of a list of names, each once, in the list's order.
func chosen(list string) ([]workload, error) {
	var picked []workload
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		found := false
		for _, w := range allWorkloads {
			if name != w.name && name != "all" && !(name == "standard" && w.group == standard) &&
				!(name == "ttl" && w.group == ttl) {
				continue
			}
			found = true
			if !slices.ContainsFunc(picked, func(p workload) bool { return p.name == w.name }) {
				picked = append(picked, w)
			}
		}
		if !found {
			return nil, fmt.Errorf("--workload: %q is none of %s, standard, ttl, all", name,
				strings.Join(append(groupNames(standard), groupNames(ttl)...), ", "))
		}
	}
	return picked, nil
}
