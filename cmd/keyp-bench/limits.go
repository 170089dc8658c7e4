package main

import (
	"context"
	"strings"
	"time"

	"keyp/cmd/keyp-bench/internal/redisbench"
)

// limitPipeline is how many calls each client has under way: so a call's own work is most of its time.
const limitPipeline = 16

// limitCounters begins the names of the numbers, with deadlines, beside which limits are measured.
const limitCounters = "counter:"

var limitINCR = []string{"INCR", limitCounters + "__rand_int__"}

// limitCases are calls that admit, and a SET that gives a deadline as they do.
var limitCases = []struct{ name, requests string }{
	{"TOKENS", "KEYP.LIMIT TAKE tokens:__rand_int__ 1 TOKENS 1000 1000 3600000"},
	{"WINDOW", "KEYP.LIMIT TAKE window:__rand_int__ 1 WINDOW 1000 3600000"},
	{"WINDOW APPROX", "KEYP.LIMIT TAKE approx:__rand_int__ 1 WINDOW 1000 60000 APPROX"},
	{"UNTIL", "KEYP.LIMIT TAKE until:__rand_int__ 1 UNTIL 1000000000 4102444800000"},
	{"CL.THROTTLE", "CL.THROTTLE throttle:__rand_int__ 1000 1000 3600"},
	{"SET EX", "SET set:__rand_int__ 1 EX 3600"},
}

// limits measures calls of limits, each behind INCR of as many keys that have deadlines. All keys are there before.
func limits(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	const tenHours = 36_000
	err := b.loadAll(ctx, t, l.keys, func(key uint64) []any {
		return []any{"SET", keyName(limitCounters, key), 1, "EX", tenHours}
	})
	if err != nil {
		return nil, err
	}
	var readings []reading
	for _, c := range limitCases {
		words := strings.Fields(c.requests)
		err := b.loadAll(ctx, t, l.keys, func(key uint64) []any {
			var args []any
			for _, word := range words {
				prefix, isKey := strings.CutSuffix(word, "__rand_int__")
				if isKey {
					word = keyName(prefix, key)
				}
				args = append(args, word)
			}
			return args
		})
		if err != nil {
			return nil, err
		}
		incr, incrCPU, err := b.callsOf(ctx, l, t, limitINCR)
		if err != nil {
			return nil, err
		}
		got, cpu, err := b.callsOf(ctx, l, t, words)
		if err != nil {
			return nil, err
		}
		readings = append(readings, reading{c.name, "op/s", got.OpsPerSec},
			reading{c.name + ": rate, of that of INCR", "%", 100 * got.OpsPerSec / incr.OpsPerSec})
		if cpu > 0 && incrCPU > 0 {
			readings = append(readings, reading{"processor time of INCR, of that of " + c.name, "%", 100 * incrCPU / cpu})
		}
	}
	return readings, nil
}

// callsOf sends requests for as long as the line lasts, and gives the processor time of one, in microseconds; 0 if it cannot be read.
func (b *bench) callsOf(ctx context.Context, l line, t *target, requests []string) (got redisbench.Result, cpu float64, err error) {
	if err := b.waitIdle(ctx, []*target{t}); err != nil {
		return got, 0, err
	}
	l.requests, l.pipeline = requests, limitPipeline
	probe, err := b.redisBenchmark(ctx, l, t, probeRequests(l))
	if err != nil {
		return got, 0, err
	}
	n := int64(probe.OpsPerSec * l.duration.Seconds())
	before := t.cpu()
	got, err = b.redisBenchmark(ctx, l, t, n)
	return got, float64(t.cpu()-before) / float64(time.Microsecond) / float64(max(n, 1)), err
}
