package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

var (
	// errWrong marks a wrong answer of a server that can still be measured. The run records it
	// as a failure and continues.
	errWrong = errors.New("wrong answer")
)

// bench is one run of the program.
type bench struct {
	config
	stderr io.Writer
	report *report

	step, steps int // measurements begun, and of the whole run
}

// line is one line of the comparison: a workload with its numbers filled in.
type line struct {
	workload
	pipeline int
	clients  int
	keys     uint64        // a stream's --keys, a procedure's own number
	duration time.Duration // of one measurement
}

func (l line) String() string {
	switch {
	case l.procedure != nil:
		return fmt.Sprintf("%s, %d keys", l.name, l.keys)
	case l.workload.clients > 0:
		return fmt.Sprintf("%s, %d connections", l.name, l.clients)
	}
	return fmt.Sprintf("%s, pipeline %d", l.name, l.pipeline)
}

// lines returns the lines of the comparison in order.
func (c config) lines() []line {
	var all []line
	for _, w := range c.workloads {
		l := line{workload: w, pipeline: 1, clients: c.clients, keys: c.keys, duration: c.duration}
		if w.clients > 0 {
			l.clients = w.clients
		}
		if w.keys > 0 {
			l.keys = w.keys
			if c.ttlKeys > 0 {
				l.keys = c.ttlKeys
			}
		}
		if w.length > 0 {
			l.duration = w.length
			if c.length > 0 {
				l.duration = c.length
			}
		}
		if w.procedure != nil || w.clients > 0 {
			all = append(all, l)
			continue
		}
		for _, l.pipeline = range c.pipelines {
			all = append(all, l)
		}
	}
	return all
}

// roundsOf returns how often a line is measured.
func (b *bench) roundsOf(l line) int {
	if l.once {
		return 1
	}
	return b.rounds
}

// begin prints what is measured next.
func (b *bench) begin(l line, side string, round int) {
	b.step++
	if !b.quiet {
		fmt.Fprintf(b.stderr, "[%d/%d] %s, %s, round %d/%d\n", b.step, b.steps, l, side,
			round+1, b.roundsOf(l))
	}
}

// run measures everything. It records wrong replies in the report and continues. It ends when a
// server fails or ctx ends.
func (b *bench) run(ctx context.Context) (err error) {
	lines := b.lines()
	for _, l := range lines {
		b.steps += b.roundsOf(l) * len(b.sides)
	}
	for len(lines) > 0 {
		n := 1
		if lines[0].procedure != nil {
			err = b.measureProcedure(ctx, lines[0])
		} else {
			for n < len(lines) && lines[n].procedure == nil && lines[n].group == lines[0].group {
				n++
			}
			err = b.measureStreams(ctx, lines[:n])
		}
		if err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

// sidesOf returns the servers in the order of a round. Every second round has the reverse order, so
// that no server always follows another.
func (b *bench) sidesOf(round int) []int {
	var order []int
	for i := range b.sides {
		order = append(order, i)
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// measureProcedure measures all rounds of a procedure.
func (b *bench) measureProcedure(ctx context.Context, l line) error {
	for round := range b.roundsOf(l) {
		for _, side := range b.sidesOf(round) {
			name := b.sides[side].name
			b.begin(l, name, round)
			readings, err := b.procedureRound(ctx, l, side, round)
			switch {
			case errors.Is(err, errWrong):
				b.report.addFailure(l, name, round, 1, err)
			case err != nil:
				return fmt.Errorf("%s: %w", l, err)
			}
			b.report.add(l, side, readings)
		}
	}
	return nil
}

// procedureRound runs one round of a procedure with a server of its own.
func (b *bench) procedureRound(ctx context.Context, l line, side,
	round int) (readings []reading, err error) {
	t, err := b.open(ctx, l, b.sides[side])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.sides[side].name, err)
	}
	defer func() { err = errors.Join(err, t.close()) }()
	readings, err = l.procedure(b, ctx, l, t, round)
	if err != nil && !errors.Is(err, errWrong) {
		err = t.explain(ctx, err)
	}
	return readings, err
}
