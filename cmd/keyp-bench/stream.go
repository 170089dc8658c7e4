package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/cmd/keyp-bench/internal/redisbench"
	"keyp/internal/clock"
)

const (
	// Shape of the connections that load keys before a measurement.
	preloadClients  = 8
	preloadPipeline = 8
	// probeClients, for each connection, and the bounds are how many requests (at
	// pipeline 1) the run has that finds how many a measurement shall have.
	probePerClient = 400
	probeLeast     = 2_000
	probeMost      = 20_000
	// endless is a number of requests that no run comes to: redis-benchmark's largest.
	endless = 1<<31 - 1
)

// streams measures a run of workloads of one group: all servers are started and filled
// once and stay up, and are measured in turn.
func (b *bench) streams(ctx context.Context, shapes []shape) (err error) {
	targets := make([]*target, len(b.sides))
	defer func() {
		for _, t := range targets {
			if t != nil {
				err = errors.Join(err, t.close())
			}
		}
	}()
	for i, side := range b.sides {
		b.progress.title(fmt.Sprintf("%s, %s", groupNames[shapes[0].group], side.name))
		if targets[i], err = b.open(ctx, shapes[0], side); err != nil {
			return err
		}
		if err := b.preload(ctx, targets[i], b.keys); err != nil {
			return fmt.Errorf("%s, %w", groupNames[shapes[0].group], targets[i].explain(ctx, err))
		}
	}
	for _, s := range shapes {
		if err := b.stream(ctx, s, targets); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// stream measures all rounds of one line. A server that answers with an error is noted
// and left out of the line's other rounds.
func (b *bench) stream(ctx context.Context, s shape, targets []*target) error {
	out := make([]bool, len(targets)) // sides that failed
	attempt := func(side, round int, measure func(t *target) error) error {
		t := targets[side]
		if out[side] {
			return nil
		}
		if err := b.settle(ctx, targets); err != nil {
			return t.explain(ctx, err)
		}
		err := measure(t)
		if errors.Is(err, errWrong) {
			b.report.addFailure(s, t.name, round, 1, err)
			out[side] = true
			return nil
		}
		return t.explain(ctx, err)
	}
	size := runSize{requests: b.requests, duration: s.duration}
	if b.redisBenchmark && size.requests == 0 {
		rates := make([]float64, 0, len(targets))
		for side := range targets {
			b.progress.title(fmt.Sprintf("%s, %s", s, targets[side].name))
			err := attempt(side, 0, func(t *target) error {
				rate, err := b.probe(ctx, s, t)
				rates = append(rates, rate)
				return err
			})
			if err != nil {
				return err
			}
		}
		size.requests = int64(mean(rates) * s.duration.Seconds())
	}
	for round := range b.rounds {
		for _, side := range b.order(round) {
			b.progress.begin(fmt.Sprintf("%s, %s, round %d/%d", s, targets[side].name, round+1, b.rounds))
			err := attempt(side, round, func(t *target) error {
				if err := b.refill(ctx, s, t, size); err != nil {
					return err
				}
				m, err := b.load(ctx, s, t, size)
				if err == nil {
					b.report.addFailure(s, t.name, round, m.Errors, m.first)
					b.report.addMeasurement(s, side, m)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// probe finds the rate of a stream, roughly.
func (b *bench) probe(ctx context.Context, s shape, t *target) (float64, error) {
	n := min(max(probePerClient*s.clients, probeLeast), probeMost) * s.pipeline
	size := runSize{requests: int64(n), duration: s.duration}
	if err := b.refill(ctx, s, t, size); err != nil {
		return 0, err
	}
	m, err := b.load(ctx, s, t, size)
	return m.OpsPerSec, err
}

// refill puts in place what a load of that size takes away, so that it never finds nothing.
func (b *bench) refill(ctx context.Context, s shape, t *target, size runSize) error {
	if s.fill.test == "" || size.requests == 0 {
		return nil
	}
	s.bench, s.pipeline = []string{"-t", s.fill.test}, burstPipeline
	size.requests *= s.fill.times
	_, err := b.loadRedisBenchmark(ctx, s, t, size)
	return err
}

// loadFor runs one stream for its duration, or -n requests.
func (b *bench) loadFor(ctx context.Context, s shape, t *target) (measurement, error) {
	size := runSize{requests: b.requests, duration: s.duration}
	if b.redisBenchmark && size.requests == 0 {
		rate, err := b.probe(ctx, s, t)
		if err != nil {
			return measurement{}, err
		}
		size.requests = int64(rate * s.duration.Seconds())
	}
	return b.load(ctx, s, t, size)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return ratio(sum, float64(len(values)))
}

// order is in which the servers take their turns: the other way round each time, so
// that none is always measured in the other's wake.
func (b *bench) order(round int) []int {
	order := make([]int, len(b.sides))
	for i := range order {
		order[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// runSize says how long a load is: requests, a duration, or both of which the first ends
// it; neither: until its context ends. redis-benchmark knows requests only.
type runSize struct {
	requests int64
	duration time.Duration
}

// load runs one load and measures it.
func (b *bench) load(ctx context.Context, s shape, t *target, size runSize) (measurement, error) {
	if b.redisBenchmark {
		return b.loadRedisBenchmark(ctx, s, t, size)
	}
	done := new(atomic.Int64)
	began := clock.System.Mono()
	defer b.progress.watch("measuring", func() float64 {
		var part float64
		if size.requests > 0 {
			part = float64(done.Load()) / float64(size.requests)
		}
		if size.duration > 0 {
			part = max(part, float64(clock.System.Mono()-began)/float64(size.duration))
		}
		return part
	})()
	result, err := load.Run(ctx, load.Options{
		Addr: t.addr, Clients: s.clients, Pipeline: s.pipeline, Threads: b.threads, Requests: size.requests,
		Duration: size.duration, Source: s.own(load.NewData(s.keys, b.size)), Timeout: b.timeout, Done: done,
	})
	if err != nil {
		return measurement{}, err
	}
	return measurement{
		OpsPerSec: result.OpsPerSec(),
		P50:       millis(result.Latency.Quantile(0.5)),
		P99:       millis(result.Latency.Quantile(0.99)),
		P999:      millis(result.Latency.Quantile(0.999)),
		Max:       millis(result.Latency.Max()),
		Requests:  result.Requests,
		Errors:    result.Errors,
		Busy:      result.Busy,
		RSSAnon:   t.rssAnon(),
		first:     result.First,
	}, nil
}

func (b *bench) loadRedisBenchmark(ctx context.Context, s shape, t *target, size runSize) (measurement, error) {
	began := clock.System.Mono()
	defer b.progress.watch("measuring", func() float64 {
		return ratio(float64(clock.System.Mono()-began), float64(size.duration))
	})()
	// It would try for ever to reach a server that is gone.
	ctx, cancel := t.while(ctx)
	defer cancel()
	args := slices.Clone(s.bench)
	for i, word := range args {
		if word == valueWord {
			args[i] = strings.Repeat("x", b.size)
		}
	}
	if size == (runSize{}) {
		size.requests = endless
	}
	result, err := redisbench.Run(ctx, redisbench.Options{
		Addr: t.addr, Clients: s.clients, Pipeline: s.pipeline, Requests: max(size.requests, int64(s.clients)),
		Keys: s.keys, Size: b.size, Args: args,
	})
	switch {
	case errors.Is(err, redisbench.ErrReply):
		err = fmt.Errorf("%w: %w", errWrong, err)
	case errors.Is(context.Cause(ctx), proc.ErrExited):
		err = errors.New("the load was cut off")
	}
	return measurement{
		OpsPerSec: result.OpsPerSec, P50: result.P50, P99: result.P99, P999: result.P999, Max: result.Max,
		Requests: size.requests, Busy: result.Busy, RSSAnon: t.rssAnon(),
	}, err
}

// preload writes the keys key:0 to n-1, to which SET and GET go.
func (b *bench) preload(ctx context.Context, t *target, n uint64) error {
	data := load.NewData(n, b.size)
	return b.fill(ctx, "loading keys", load.Options{
		Addr: t.addr, Clients: preloadClients, Pipeline: preloadPipeline,
		Requests: load.PreloadRequests(data), Source: load.Preload(data),
	})
}

// preloadTTL writes the keys ttl:0 to n-1, all with one deadline in Unix milliseconds.
func (b *bench) preloadTTL(ctx context.Context, t *target, data *load.Data, deadline int64) error {
	return b.preloadDeadlines(ctx, t, data, load.Deadlines{Keys: data.Keys, From: deadline})
}

// preloadDeadlines writes the keys ttl:0 to n-1, each with its deadline.
func (b *bench) preloadDeadlines(ctx context.Context, t *target, data *load.Data, deadlines load.Deadlines) error {
	return b.fill(ctx, "loading keys with a deadline", load.Options{
		Addr: t.addr, Clients: burstClients, Pipeline: burstPipeline,
		Requests: int64(data.Keys), Source: load.SetPXAT(data, deadlines),
	})
}

// fill runs a load that must be complete and without any error.
func (b *bench) fill(ctx context.Context, doing string, o load.Options) error {
	o.Done, o.Timeout = new(atomic.Int64), b.timeout
	defer b.progress.watch(doing, func() float64 { return float64(o.Done.Load()) / float64(o.Requests) })()
	result, err := load.Run(ctx, o)
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("%w to %d of %d requests, the first: %w", errWrong, result.Errors, result.Requests, result.First)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
