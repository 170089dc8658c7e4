package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/proc"
	"keyp/internal/clock"
)

// Shape of the connections that load keys before a measurement.
const (
	preloadClients  = 8
	preloadPipeline = 8
)

// errWrong marks what a server got wrong while it stays measurable: the run notes
// it as a failure and goes on with the next line.
var errWrong = errors.New("wrong answer")

// bench is one run of the program.
type bench struct {
	config
	progress *progress
	report   *report
}

// shape is one line of the comparison: a workload with its numbers filled in.
type shape struct {
	workload
	pipeline int
	clients  int
}

func (s shape) String() string {
	if s.procedure != nil {
		return s.name
	}
	return fmt.Sprintf("%s, pipeline %d", s.name, s.pipeline)
}

// shapes lists all lines of the comparison in their order.
func (c config) shapes() []shape {
	var all []shape
	for _, w := range c.workloads {
		clients := c.clients
		if w.clients != nil {
			clients = w.clients(c)
		}
		pipelines := []int{1}
		if w.pipelined {
			pipelines = c.pipelines
		}
		for _, p := range pipelines {
			all = append(all, shape{w, p, clients})
		}
	}
	return all
}

// run measures everything. Wrong replies go into the report and the run goes on;
// a server that fails, and the end of ctx, end it.
func (b *bench) run(ctx context.Context) error {
	shapes := b.shapes()
	b.progress.total = len(shapes) * b.rounds * len(b.sides)
	for _, s := range shapes {
		for round := range b.rounds {
			for i, side := range b.sides {
				b.progress.begin(fmt.Sprintf("%s, %s, round %d/%d", s, side.name, round+1, b.rounds))
				if err := b.measure(ctx, s, i, round); err != nil {
					return fmt.Errorf("%s, %s: %w", s, side.name, err)
				}
			}
		}
	}
	return nil
}

// measure does one round of one line with one server.
func (b *bench) measure(ctx context.Context, s shape, side, round int) (err error) {
	t, err := b.open(ctx, b.sides[side])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	var readings []reading
	var m measurement
	if s.procedure != nil {
		readings, err = s.procedure(b, ctx, s, t, round)
	} else {
		m, err = b.stream(ctx, s, t, round)
	}
	switch {
	case errors.Is(err, errWrong):
		b.report.addFailure(s, t.name, round, 1, err)
		return nil
	case err != nil:
		return t.explain(ctx, err)
	case s.procedure != nil:
		b.report.addReadings(s, side, readings)
	default:
		b.report.addMeasurement(s, side, m)
	}
	return nil
}

// stream measures a workload that is a stream of requests.
func (b *bench) stream(ctx context.Context, s shape, t *target, round int) (measurement, error) {
	data := load.NewData(b.keys, b.size)
	if s.preload {
		if err := b.preload(ctx, t, data); err != nil {
			return measurement{}, err
		}
	}
	done := new(atomic.Int64)
	began := clock.System.Mono()
	defer b.progress.watch("measuring", func() float64 {
		var part float64
		if b.requests > 0 {
			part = float64(done.Load()) / float64(b.requests)
		}
		if b.duration > 0 {
			part = max(part, float64(clock.System.Mono()-began)/float64(b.duration))
		}
		return part
	})()
	result, err := load.Run(ctx, load.Options{
		Addr: t.addr, Clients: s.clients, Pipeline: s.pipeline, Threads: b.threads,
		Requests: b.requests, Duration: b.duration, Source: s.source(data), Timeout: b.timeout, Done: done,
	})
	if err != nil {
		return measurement{}, err
	}
	b.report.addFailure(s, t.name, round, result.Errors, result.First)
	return measurementOf(result, t.rssAnon()), nil
}

// preload writes every key of data. A refusal ends the measurement, which would
// be of something else.
func (b *bench) preload(ctx context.Context, t *target, data *load.Data) error {
	return b.fill(ctx, "loading keys", load.Options{
		Addr: t.addr, Clients: preloadClients, Pipeline: preloadPipeline,
		Requests: load.PreloadRequests(data), Source: load.Preload(data),
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

// target is the server of one measurement.
type target struct {
	side
	addr   string
	server *proc.Server // nil when it runs already
}

// open starts the side's server, or takes the one that runs.
func (b *bench) open(ctx context.Context, s side) (*target, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.addr != "" {
		return &target{side: s, addr: s.addr}, nil
	}
	server, err := proc.New(s.command, b.dir)
	if err != nil {
		return nil, err
	}
	defer b.progress.watch("starting", nil)()
	err = server.Start()
	if err == nil {
		err = server.Ready(ctx, b.timeout)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &target{side: s, addr: server.Addr(), server: server}, nil
}

func (t *target) close() error {
	if t.server == nil {
		return nil
	}
	return t.server.Close()
}

// rssAnon is the server's anonymous memory in bytes, 0 when it can't be read.
func (t *target) rssAnon() int64 {
	if t.server == nil {
		return 0
	}
	return t.server.RSSAnon()
}

// explain adds what the server printed to an error, unless the user ended the run.
func (t *target) explain(ctx context.Context, err error) error {
	if t.server == nil || ctx.Err() != nil || errors.Is(err, proc.ErrExited) {
		return err
	}
	return t.server.WithLog(err)
}

// pause waits until the wall clock shows ms, or ctx ends.
func pause(ctx context.Context, ms int64) error {
	for clock.System.Now() < ms {
		reached, release := clock.System.Until(ms)
		select {
		case <-reached:
		case <-ctx.Done():
		}
		release()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// millis is a duration as a figure for a reading.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// mebibytes is a size as a figure for a reading.
func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
