package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/proc"
)

// group is the set of workloads that a collective name stands for.
type group int

const (
	standard group = iota
	types
	slow
	abusive
)

// groupNames are the collective names, by group.
var groupNames = [...]string{"standard", "types", "slow", "abuse"}

// workload is one thing to measure: a stream of requests, whose rate and latency
// are compared, or a procedure with readings of its own.
type workload struct {
	name    string
	summary string
	group   group

	// Of a stream of requests.
	requests
	fill      fill             // before each measurement
	pipelined bool             // measured at each --pipeline, otherwise at 1
	clients   func(config) int // nil: --clients

	// Of a procedure. Each measurement has a server of its own.
	procedure procedure
	variant   func(*bench, side) (proc.Extra, error) // how the server is started, unless as it is
	keys      uint64                                 // unless --ttl-keys says otherwise
	starts    bool                                   // it needs servers that it can start and end
	keypOnly  bool
	once      bool // one round will do: sizes don't vary as times do

	length time.Duration // unless --length says otherwise; 0 of a stream: --duration
}

// procedure measures one round with a fresh server.
type procedure func(b *bench, ctx context.Context, s shape, t *target, round int) ([]reading, error)

// requests are what a stream sends, as each load generator has it.
type requests struct {
	bench []string                                      // arguments of redis-benchmark
	own   func(*load.Data) func(thread int) load.Source // nil: only redis-benchmark knows it
}

// reading is one figure of a procedure.
type reading struct {
	name  string
	unit  string
	value float64
}

// Requests that several workloads send.
var (
	setRequests = requests{[]string{"-t", "set"}, load.Set}
	getRequests = requests{[]string{"-t", "get"}, load.Get}
	// The value's size is put in for VALUE.
	setEXRequests = requests{[]string{"SET", "key:__rand_int__", valueWord, "EX", "3600"}, load.SetEX}
	getTTL        = requests{[]string{"GET", load.TTLPrefix + "__rand_int__"}, load.GetTTL}
)

// valueWord in the arguments of redis-benchmark stands for a value of --size bytes, which
// it makes itself for its own tests only.
const valueWord = "VALUE"

// allWorkloads is the one list of workloads, in the order in which they are measured.
var allWorkloads = append(append([]workload{
	{name: "set", summary: "SET of random keys", requests: setRequests, pipelined: true},
	{name: "get", summary: "GET of random keys that are all there", requests: getRequests, pipelined: true},
	{name: "incr", summary: "INCR of random counters", requests: requests{[]string{"-t", "incr"}, load.Incr}, pipelined: true},
	{name: "setex", summary: "SET … EX of random keys, one hour (own load: to one day)", requests: setEXRequests, pipelined: true},
	{name: "one", summary: "SET from one connection", requests: setRequests, clients: func(config) int { return 1 }},
	{
		name: "many", summary: "SET from --many-clients connections", requests: setRequests,
		clients: func(c config) int { return c.manyClients },
	},
}, typeWorkloads("lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "zpopmin",
	"lrange_100", "lrange_300", "lrange_500", "lrange_600")...), append(slowWorkloads, abuseWorkloads...)...)

// typeWorkloads are redis-benchmark's own tests, by name.
func typeWorkloads(names ...string) []workload {
	var all []workload
	for _, name := range names {
		all = append(all, workload{
			name: name, group: types, pipelined: true,
			summary: "redis-benchmark's test", requests: requests{bench: []string{"-t", name}}, fill: fills[name],
		})
	}
	return all
}

// fills say what puts in place what a test of redis-benchmark takes away: which test, and
// how many requests for one that takes. Members are random, so some come twice.
var fills = map[string]fill{"lpop": {"lpush", 1}, "rpop": {"lpush", 1}, "spop": {"sadd", 2}, "zpopmin": {"zadd", 2}}

type fill struct {
	test  string
	times int64
}

var slowWorkloads = []workload{
	{
		name: "tail", group: slow, length: time.Minute, requests: setRequests,
		summary: "SET of random keys for --length (a minute): its latencies",
	},
	{
		name: "sustained", group: slow, procedure: sustained, length: 3 * time.Minute, keys: 5_000_000, starts: true,
		summary: "SET at pipeline 16 of --ttl-keys random keys (5M) for --length (3m): the rate, its slowest second, and the files",
	},
	{
		name: "slow-disk", group: slow, procedure: slowDisk, length: 10 * time.Second, keys: 1_000_000,
		variant: onSlowDisk, starts: true,
		summary: fmt.Sprintf("each sync takes %v longer: SET at pipeline %d, and GET on %d other connections beside it; "+
			"of --ttl-keys keys (1M), each for --length (10s)", slowSyncDelay, slowPipeline, slowReaders),
	},
	{
		name: "restart", group: slow, procedure: restart, keys: 3_000_000, length: time.Second, starts: true,
		summary: "--ttl-keys keys (3M) with a deadline; kill -9 after --length (1s) of SET EX and amidst it, and a clean stop (SIGTERM): " +
			"how long from the new start to the first right GET; and memory",
	},
	{
		name: "expire-burst", group: slow, procedure: expireBurst, keys: 1_000_000, length: time.Second,
		summary: "--ttl-keys keys (1M) expire at one instant: how long until DBSIZE no longer counts them, " +
			fmt.Sprintf("and the latency of %d GETs a second on --clients connections meanwhile, for --length (1s) at least", burstRate),
	},
	{
		name: "expire-events", group: slow, procedure: expireEvents, keys: 100_000, length: 10 * time.Second,
		summary: "--ttl-keys keys (100k) expire spread over --length (10s): how late their expired events reach a subscriber",
	},
	{
		name: "large", group: slow, procedure: large, keys: 1_000_000, starts: true, once: true,
		summary: fmt.Sprintf("a hash, a set, a sorted set and a list of --ttl-keys elements (1M): a command on one element, beside "+
			"collections of %d, and GETs at %d a second beside a checkpoint, DEL and expiry of all", largeSmall, burstRate),
	},
	{
		name: "bigger-than-memory", group: slow, procedure: biggerThanMemory, keys: 10_000_000, length: 10 * time.Second,
		variant: withinBudget, starts: true,
		summary: "--ttl-keys keys (10M) with a deadline, in Keyp with --bounded-keyp: memory after loading, then GET of random ones for --length (10s)",
	},
	{
		name: "memory", group: slow, procedure: memory, keys: 3_000_000, length: 10 * time.Second, starts: true, once: true,
		summary: "--ttl-keys keys (3M) with a deadline, all in memory: what each costs, at once and after --length (10s) of rest",
	},
	{
		name: "reuse", group: slow, procedure: reuse, keys: 10_000_000, starts: true, once: true, keypOnly: true,
		summary: "--ttl-keys keys (10M) are inserted and expire, twice: the size of Keyp's files after each, and after --compact",
	},
}

// abuseWorkloads measure what other clients notice of one that asks too much.
var abuseWorkloads = []workload{
	abuseWorkload("abuse-read", "commands that read very much, over collections of --ttl-keys elements (1M)", readAbuses),
	abuseWorkload("abuse-write", "commands that change very much", writeAbuses),
	abuseWorkload("abuse-string", "strings of hundreds of MiB", stringAbuses),
	abuseWorkload("abuse-input", "deep pipelines, incomplete commands, and thousands of connections", inputAbuses),
	abuseWorkload("abuse-output", "clients that do not read, and subscribe to very much", outputAbuses),
	abuseWorkload("abuse-script", "scripts that do not end", scriptAbuses),
}

func abuseWorkload(name, summary string, list []abuse) workload {
	return workload{
		name: name, group: abusive, procedure: abuses(list), keys: 1_000_000, starts: true, once: true,
		summary: summary + fmt.Sprintf(": the latency of %d GETs a second beside each, and the server's memory", abuseRate),
	}
}

// named gives the names of the workloads of a group.
func named(g group) []string {
	var names []string
	for _, w := range allWorkloads {
		if w.group == g {
			names = append(names, w.name)
		}
	}
	return names
}

// chosen gives the workloads of a list of names, each once, in the order of allWorkloads
// within a name.
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
			var known []string
			for g := range groupNames {
				known = append(known, named(group(g))...)
			}
			return nil, fmt.Errorf("--workload: %q is none of %s, %s, all", name,
				strings.Join(known, ", "), strings.Join(groupNames[:], ", "))
		}
	}
	return picked, nil
}
