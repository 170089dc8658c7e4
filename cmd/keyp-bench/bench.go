package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// errWrong marks what a server got wrong while it stays measurable: the run notes
	// it as a failure and goes on with the next line.
	errWrong = errors.New("wrong answer")
	// errSkip marks what can't be measured on this machine; the run says so and goes on.
	errSkip = errors.New("skipped")
)

// bench is one run of the program.
type bench struct {
	config
	progress *progress
	report   *report
	slowSync slowSync
}

// shape is one line of the comparison: a workload with its numbers filled in.
type shape struct {
	workload
	pipeline int
	clients  int
	keys     uint64        // of a procedure its own, of a stream --keys
	duration time.Duration // of one measurement
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
		s := shape{workload: w, pipeline: 1, clients: c.clients, keys: c.keys, duration: c.duration}
		if w.clients != nil {
			s.clients = w.clients(c)
		}
		if w.keys > 0 {
			s.keys = w.keys
			if c.ttlKeys > 0 {
				s.keys = c.ttlKeys
			}
		}
		if w.length > 0 {
			s.duration = w.length
			if c.length > 0 {
				s.duration = c.length
			}
		}
		if !w.pipelined {
			all = append(all, s)
			continue
		}
		for _, s.pipeline = range c.pipelines {
			all = append(all, s)
		}
	}
	return all
}

// rounds is how often a line is measured.
func (b *bench) roundsOf(s shape) int {
	if s.once {
		return 1
	}
	return b.rounds
}

// run measures everything. Wrong replies go into the report and the run goes on;
// a server that fails, and the end of ctx, end it.
func (b *bench) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, b.slowSync.close()) }()
	shapes := b.shapes()
	for _, s := range shapes {
		sides := len(b.sides)
		if s.keypOnly {
			sides = 1
		}
		b.progress.total += b.roundsOf(s) * sides
	}
	for len(shapes) > 0 {
		if shapes[0].procedure != nil {
			if err := b.procedure(ctx, shapes[0]); err != nil {
				return err
			}
			shapes = shapes[1:]
			continue
		}
		n := 1
		for n < len(shapes) && shapes[n].procedure == nil && shapes[n].group == shapes[0].group {
			n++
		}
		if err := b.streams(ctx, shapes[:n]); err != nil {
			return err
		}
		shapes = shapes[n:]
	}
	return nil
}

// procedure measures all rounds of a procedure.
func (b *bench) procedure(ctx context.Context, s shape) error {
	for round := range b.roundsOf(s) {
		for _, side := range b.order(round) {
			if s.keypOnly && side > 0 {
				continue
			}
			name := b.sides[side].name
			b.progress.begin(fmt.Sprintf("%s, %s, round %d/%d", s, name, round+1, b.roundsOf(s)))
			readings, err := b.measure(ctx, s, side, round)
			switch {
			case errors.Is(err, errSkip):
				b.report.addSkip(s, name, err)
			case errors.Is(err, errWrong):
				b.report.addFailure(s, name, round, 1, err)
			case err != nil:
				return fmt.Errorf("%s: %w", s, err)
			}
			b.report.addReadings(s, side, readings)
		}
	}
	return nil
}

// measure does one round of a procedure with one server.
func (b *bench) measure(ctx context.Context, s shape, side, round int) (readings []reading, err error) {
	t, err := b.open(ctx, s, b.sides[side])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.sides[side].name, err)
	}
	defer func() { err = errors.Join(err, t.close()) }()
	readings, err = s.procedure(b, ctx, s, t, round)
	if err != nil && !errors.Is(err, errWrong) {
		err = t.explain(ctx, err)
	}
	return readings, err
}
