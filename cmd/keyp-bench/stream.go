package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/cmd/keyp-bench/internal/redisbench"
	"keyp/internal/clock"
)

const (
	// redis-benchmark runs for a number of requests, not for a time. So a probe measures the rate
	// first, with probePerClient requests per connection (at pipeline 1), within bounds.
	probePerClient = 400
	probeLeast     = 2_000
	probeMost      = 20_000
	// endless is redis-benchmark's largest number of requests, which it never reaches.
	endless = 1<<31 - 1
)

// measureStreams measures the streams of one group. It starts and fills all servers once, and
// measures them in turn.
func (b *bench) measureStreams(ctx context.Context, lines []line) (err error) {
	targets := make([]*target, len(b.sides))
	defer func() {
		for _, t := range targets {
			if t != nil {
				err = errors.Join(err, t.close())
			}
		}
	}()
	for i, side := range b.sides {
		if targets[i], err = b.open(ctx, lines[0], side); err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
		if err := b.load(ctx, targets[i], b.keys); err != nil {
			return targets[i].explain(ctx, err)
		}
	}
	for _, l := range lines {
		if err := b.measureStream(ctx, l, targets); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
	}
	return nil
}

// measureStream measures all rounds of one line. If a server answers with an error, it records a
// failure and skips the server in the line's other rounds.
func (b *bench) measureStream(ctx context.Context, l line, targets []*target) error {
	failed := make([]bool, len(targets))
	measure := func(side, round int, n int64) (readings []reading, rate float64, err error) {
		t := targets[side]
		if failed[side] {
			return nil, 0, nil
		}
		err = b.waitIdle(ctx, targets)
		if err == nil {
			readings, rate, err = b.send(ctx, l, t, n)
		}
		if errors.Is(err, errWrong) {
			b.report.addFailure(l, t.name, round, 1, err)
			failed[side] = true
			return nil, 0, nil
		}
		return readings, rate, t.explain(ctx, err)
	}
	sum := 0.0
	for side := range targets {
		_, rate, err := measure(side, 0, probeRequests(l))
		if err != nil {
			return err
		}
		sum += rate
	}
	n := int64(sum / float64(len(targets)) * l.duration.Seconds())
	for round := range b.rounds {
		for _, side := range b.sidesOf(round) {
			b.begin(l, targets[side].name, round)
			readings, _, err := measure(side, round, n)
			if err != nil {
				return err
			}
			b.report.add(l, side, readings)
		}
	}
	return nil
}

// probeRequests returns the number of requests with which a probe estimates the rate of a stream.
func probeRequests(l line) int64 {
	return int64(min(max(probePerClient*l.clients, probeLeast), probeMost) * l.pipeline)
}

// sendFor sends one stream for about its duration.
func (b *bench) sendFor(ctx context.Context, l line, t *target) (redisbench.Result, error) {
	probe, err := b.redisBenchmark(ctx, l, t, probeRequests(l))
	if err != nil {
		return probe, err
	}
	return b.redisBenchmark(ctx, l, t, int64(probe.OpsPerSec*l.duration.Seconds()))
}

// send sends n requests and returns their figures.
func (b *bench) send(ctx context.Context, l line, t *target, n int64) ([]reading, float64, error) {
	n = max(n, int64(l.clients))
	before := t.cpu()
	result, err := b.redisBenchmark(ctx, l, t, n)
	if err != nil {
		return nil, 0, err
	}
	readings := []reading{
		{"rate", "op/s", result.OpsPerSec},
		{"p50", "ms", result.P50},
		{"p99", "ms", result.P99},
		{"p99.9", "ms", result.P999},
		{"max", "ms", result.Max},
		{"redis-benchmark busy", "%", 100 * result.Busy},
	}
	if used := t.cpu() - before; used > 0 {
		readings = append(readings, reading{"processor time of a request", "us",
			float64(used.Microseconds()) / float64(n)})
	}
	return readings, result.OpsPerSec, nil
}

// redisBenchmark sends n requests of a line.
func (b *bench) redisBenchmark(ctx context.Context, l line, t *target,
	n int64) (redisbench.Result, error) {
	// redis-benchmark tries for ever to reach a server that has ended.
	ctx, cancel := t.while(ctx)
	defer cancel()
	args := slices.Clone(l.requests)
	for i, word := range args {
		if word == valueWord {
			args[i] = strings.Repeat("x", b.size)
		}
	}
	result, err := redisbench.Run(ctx, redisbench.Options{
		Addr: t.addr, Clients: l.clients, Pipeline: l.pipeline, Requests: max(n, int64(l.clients)),
		Keys: l.keys, Size: b.size, Args: args,
	})
	switch {
	case errors.Is(err, redisbench.ErrReply):
		err = fmt.Errorf("%w: %w", errWrong, err)
	case errors.Is(context.Cause(ctx), proc.ErrExited):
		err = errors.New("the server ended during the load")
	}
	return result, err
}

// background is an endless stream that runs during a measurement.
type background struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // after ended
}

// startBackground starts the stream of l and returns when the server runs it.
func (b *bench) startBackground(ctx context.Context, l line, t *target) (*background, error) {
	commands, err := t.commands(ctx, b.timeout)
	if err != nil {
		return nil, err
	}
	g := &background{ended: make(chan struct{})}
	streamCtx, cancel := context.WithCancel(ctx)
	g.cancel = cancel
	go func() {
		defer close(g.ended)
		_, g.err = b.redisBenchmark(streamCtx, l, t, endless)
	}()
	enough := commands + int64(2*l.clients*l.pipeline)
	for until := clock.System.Mono() + b.timeout; commands < enough; {
		if err := errors.Join(pause(ctx, clock.System.Now()+10), g.running()); err != nil {
			return nil, errors.Join(err, g.end())
		}
		if commands, err = t.commands(ctx, b.timeout); err != nil {
			return nil, errors.Join(err, g.end())
		}
		if clock.System.Mono() > until {
			return nil, errors.Join(errors.New("the load beside the measurement does not start"),
				g.end())
		}
	}
	return g, nil
}

// running returns an error if the stream has ended by itself.
func (g *background) running() error {
	select {
	case <-g.ended:
		return errors.Join(errors.New("the load beside the measurement ended too early"), g.err)
	default:
		return nil
	}
}

// end stops the stream and waits for its end. It returns an error if the stream had ended by
// itself.
func (g *background) end() error {
	err := g.running()
	g.cancel()
	<-g.ended
	return err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
