package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"keyp/cmd/keyp-bench/internal/redisbench"
)

// policyCases are what policies measures: a stream, and the policy that the server has meanwhile.
var policyCases = []struct {
	name     string
	requests []string
	policy   []any // words behind KEYP.POLICY SET bench; nil: there is none
}{
	{"GET, no policy", getTTL, nil},
	{"GET, policy of other keys", getTTL, []any{"PATTERN", "other:*", "ENFORCE", "SLIDE", "1h"}},
	{"GET, SLIDE", getTTL, []any{"PATTERN", ttlPrefix + "*", "ENFORCE", "SLIDE", "1h"}},
	{"GET, SLIDE that moves each key", getTTL, []any{"PATTERN", ttlPrefix + "*", "ENFORCE", "SLIDE", "2h"}},
	{"SET, no policy", policySet, nil},
	{"SET, policy of other keys", policySet, []any{"PATTERN", "other:*", "ENFORCE", "DEFAULT", "1h"}},
	{"SET, DEFAULT", policySet, []any{"PATTERN", "key:*", "ENFORCE", "DEFAULT", "1h"}},
	{"SET EX, no policy", setEXRequests, nil},
	{"SET EX, MAX … CUT", setEXRequests, []any{"PATTERN", "key:*", "ENFORCE", "MAX", "30m", "CUT"}},
}

var policySet = []string{"SET", "key:__rand_int__", valueWord}

// policies measures reads and writes without and with a policy, in turn on one server. Keys that are read all the time
// have about the deadline that SLIDE gives them, which moves by a tenth at least: so it has nothing to move. In one case
// it has: at the first read of each key.
func policies(b *bench, ctx context.Context, l line, t *target, _ int) ([]reading, error) {
	const hour = 3_600_000
	if err := b.loadTTL(ctx, t, l.keys, "PX", func(uint64) int64 { return hour }); err != nil {
		return nil, err
	}
	client := t.dial(b.timeout)
	defer client.Close()
	var readings []reading
	var base redisbench.Result // of the same stream without a policy
	for _, c := range policyCases {
		if err := setPolicy(ctx, client, c.policy); err != nil {
			return nil, err
		}
		if err := b.waitIdle(ctx, []*target{t}); err != nil {
			return nil, err
		}
		stream := l
		stream.requests = c.requests
		got, err := b.sendFor(ctx, stream, t)
		if err != nil {
			return nil, err
		}
		readings = append(readings, reading{c.name, "op/s", got.OpsPerSec}, reading{c.name + ": p99", "ms", got.P99})
		if c.policy == nil {
			base = got
		} else {
			readings = append(readings, reading{c.name + ": rate, of that without", "%", 100 * got.OpsPerSec / base.OpsPerSec})
		}
	}
	return readings, nil
}

// setPolicy gives the server the one policy, or none.
func setPolicy(ctx context.Context, client *redis.Client, policy []any) error {
	words := []any{"KEYP.POLICY", "DEL", "bench"}
	if policy != nil {
		words = slices.Concat([]any{"KEYP.POLICY", "SET", "bench"}, policy)
	}
	if err := client.Do(ctx, words...).Err(); err != nil {
		return fmt.Errorf("%w: %v: %w", errWrong, words, err)
	}
	return nil
}
