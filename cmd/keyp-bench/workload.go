package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"keyp/cmd/keyp-bench/internal/proc"
)

// group is the set of workloads that a collective name stands for.
type group int

const (
	standard group = iota
	slow
	abusive
)

// groupNames are the collective names, by group.
var groupNames = [...]string{"standard", "slow", "abuse"}

// workload is one thing to measure: a procedure, or a stream of requests that redis-benchmark sends
// and measures.
type workload struct {
	name    string
	summary string
	group   group

	// For a stream, and for a procedure that runs redis-benchmark.
	requests []string // arguments of redis-benchmark
	clients  int      // at pipeline 1; 0: --clients at each --pipeline

	// For a procedure. Each measurement has a server of its own.
	procedure procedure
	// Added to the command that starts the server; nil: nothing.
	variant func(*bench, side) (proc.Extra, error)
	keys    uint64        // unless --ttl-keys is given
	length  time.Duration // unless --length is given; 0: --duration
	// The program must start the server: to stop it, or to read its files or memory.
	starts bool
	// One round is enough: sizes vary less than times.
	once bool
}

// procedure measures one round.
type procedure func(b *bench, ctx context.Context, l line, t *target, round int) ([]reading, error)

// reading is one figure.
type reading struct {
	name  string
	unit  string
	value float64
}

// valueWord in the arguments of redis-benchmark is replaced by a value of --size bytes.
// redis-benchmark itself makes such values only for its own tests.
const valueWord = "VALUE"

// Requests that several workloads send.
var (
	setRequests   = []string{"-t", "set"}
	getRequests   = []string{"-t", "get"}
	setEXRequests = []string{"SET", "key:__rand_int__", valueWord, "EX", "3600"}
	getTTL        = []string{"GET", ttlPrefix + "__rand_int__"}
)

// allWorkloads has all workloads, in the order in which --workload all measures them.
var allWorkloads = slices.Concat([]workload{
	{name: "set", summary: "SET of random keys", requests: setRequests},
	{name: "get", summary: "GET of random keys that all exist", requests: getRequests},
	{name: "incr", summary: "INCR of random counters", requests: []string{"-t", "incr"}},
	{name: "setex", summary: "SET … EX 3600 of random keys", requests: setEXRequests},
	{name: "one", summary: "SET from one connection", requests: setRequests, clients: 1},
	{name: "many", summary: "SET from 1000 connections", requests: setRequests, clients: 1000},
}, slowWorkloads, abuseWorkloads)

var slowWorkloads = []workload{
	{
		name: "restart", group: slow, procedure: restart, requests: setEXRequests, keys: 3_000_000,
		length: time.Second, starts: true,
		summary: "--ttl-keys keys (3M) with a deadline; kill -9 during SET EX, after --length (1s) of it, and a clean stop (SIGTERM): " +
			"the time from the new start to the first right GET; and memory",
	},
	{
		name: "expire-burst", group: slow, procedure: expireBurst, keys: 1_000_000,
		length: time.Second,
		summary: "--ttl-keys keys (1M) expire at one instant: the time until DBSIZE no longer counts them, " +
			fmt.Sprintf("and the latency of %d GETs a second meanwhile, for --length (1s) at least",
				readerRate),
	},
	{
		name: "expire-events", group: slow, procedure: expireEvents, keys: 100_000,
		length:  10 * time.Second,
		summary: "--ttl-keys keys (100k) expire spread over --length (10s): how late their expired events reach a subscriber",
	},
	{
		name: "bigger-than-memory", group: slow, procedure: biggerThanMemory, requests: getTTL,
		keys: 10_000_000, length: 10 * time.Second,
		variant: withinBudget, starts: true,
		summary: "--ttl-keys keys (10M) with a deadline, in Keyp with --maxmemory: memory after loading, then GET of random ones for --length (10s)",
	},
}

// abuseWorkloads measure how one client that overloads the server affects the others.
var abuseWorkloads = []workload{
	abuseWorkload("abuse-read",
		"commands that read very much, over collections of --ttl-keys elements (1M)", readAbuses),
	abuseWorkload("abuse-write", "commands that change very much", writeAbuses),
	abuseWorkload("abuse-large",
		"a checkpoint, DEL and expiry of a hash, a set, a sorted set and a list of --ttl-keys elements (1M)",
		largeAbuses),
	abuseWorkload("abuse-string", "strings of hundreds of MiB", stringAbuses),
	abuseWorkload("abuse-input",
		"deep pipelines, incomplete commands, and thousands of connections", inputAbuses),
	abuseWorkload("abuse-output", "clients that do not read, and subscribe to very much",
		outputAbuses),
	abuseWorkload("abuse-script", "scripts that do not end", scriptAbuses),
}

func abuseWorkload(name, summary string, list []abuse) workload {
	return workload{
		name: name, group: abusive, procedure: abuses(list), keys: 1_000_000,
		starts: true, once: true,
		summary: summary + fmt.Sprintf(
			": the latency of %d GETs a second beside each, and the server's memory", readerRate),
	}
}

// named returns the names of the workloads of a group.
func named(g group) []string {
	var names []string
	for _, w := range allWorkloads {
		if w.group == g {
			names = append(names, w.name)
		}
	}
	return names
}

// chosen returns the workloads of a list of names. Each occurs once; those of one name are in the
// order of allWorkloads.
func chosen(list string) ([]workload, error) {
	var picked []workload
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		found := false
		for _, w := range allWorkloads {
			if name != w.name && name != "all" && name != groupNames[w.group] {
				continue
			}
			found = true
			if !slices.ContainsFunc(picked, func(p workload) bool { return p.name == w.name }) {
				picked = append(picked, w)
			}
		}
		if !found {
			return nil, fmt.Errorf("--workload: there is no workload %q, see --help", name)
		}
	}
	return picked, nil
}
