package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"keyp/cmd/keyp-bench/internal/load"
	"keyp/cmd/keyp-bench/internal/wire"
	"keyp/internal/clock"
)

const (
	// largeSmall is the size of the collections that large ones are compared with.
	largeSmall = 10
	// largeFill is how many elements a command adds while a collection is filled.
	largeFill = 500
	// largeAsks is how often the command on one element is timed, on each.
	largeAsks = 2000
	// largeLead is the time in ms for which GETs run before they are recorded, and after
	// what they are measured beside has been answered: work may go on behind the answer.
	largeLead = 200
)

// collectionKind is a type of collection. Elements are numbers, and the values or scores
// of them the same numbers.
type collectionKind struct {
	name string
	fill []string                            // the command that adds elements, behind the key
	many func(args []string, n int) []string // element n in its form for fill
	one  func(key string, n int) []string    // a command that changes one element
}

var collectionKinds = []collectionKind{
	{
		name: "hash", fill: []string{"HSET"},
		many: func(args []string, n int) []string { return append(args, "field:"+strconv.Itoa(n), strconv.Itoa(n)) },
		one:  func(key string, n int) []string { return []string{"HSET", key, "field:" + strconv.Itoa(n), "x"} },
	},
	{
		name: "set", fill: []string{"SADD"},
		many: func(args []string, n int) []string { return append(args, "member:"+strconv.Itoa(n)) },
		one:  func(key string, n int) []string { return []string{"SADD", key, "member:" + strconv.Itoa(n)} },
	},
	{
		name: "sorted set", fill: []string{"ZADD"},
		many: func(args []string, n int) []string { return append(args, strconv.Itoa(n), "member:"+strconv.Itoa(n)) },
		one:  func(key string, n int) []string { return []string{"ZINCRBY", key, "0.5", "member:" + strconv.Itoa(n)} },
	},
	{
		name: "list", fill: []string{"RPUSH"},
		many: func(args []string, n int) []string { return append(args, "element:"+strconv.Itoa(n)) },
		one:  func(key string, _ int) []string { return []string{"LMOVE", key, key, "LEFT", "RIGHT"} },
	},
}

func (k collectionKind) key(elements uint64) string { return fmt.Sprintf("%s of %d", k.name, elements) }

// write makes a collection of the given size.
func (k collectionKind) write(c *wire.Client, elements uint64) error {
	for n := 0; n < int(elements); n += largeFill {
		args := append(slices.Clone(k.fill), k.key(elements))
		for i := n; i < min(n+largeFill, int(elements)); i++ {
			args = k.many(args, i)
		}
		if _, err := c.Int(args...); err != nil {
			return err
		}
	}
	return nil
}

// large measures collections of s.keys elements: a command on one element beside the same
// on a small one, and what GETs of other keys notice of a checkpoint, of DEL and of expiry.
func large(b *bench, ctx context.Context, s shape, t *target, round int) ([]reading, error) {
	bystanders := load.NewData(min(b.keys, burstBystanders), b.size)
	if err := b.preload(ctx, t, bystanders.Keys); err != nil {
		return nil, err
	}
	c, err := wire.Dial(ctx, t.addr, b.timeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := b.progress.watch("filling collections", nil)
	err = writeAll(c, s.keys)
	stop()
	if err != nil {
		return nil, err
	}
	readings, err := oneElement(ctx, c, s.keys)
	if err != nil {
		return nil, err
	}
	if err := b.settle(ctx, []*target{t}); err != nil {
		return nil, err
	}
	for _, what := range []struct {
		name   string
		before func() error
		do     func() error
	}{
		{name: "a checkpoint", do: func() error {
			if reply, err := c.Do("BGSAVE"); err != nil || reply.Kind == wire.Error {
				return errors.Join(fmt.Errorf("BGSAVE: %v", reply), err)
			}
			return b.settle(ctx, []*target{t})
		}},
		{name: "DEL", do: func() error {
			return eachLarge(s.keys, func(key string) error { _, err := c.Int("DEL", key); return err })
		}},
		{name: "expiry", before: func() error { return writeAll(c, s.keys) }, do: func() error {
			return eachLarge(s.keys, func(key string) error { _, err := c.Int("PEXPIRE", key, "1"); return err })
		}},
	} {
		if what.before != nil {
			if err := what.before(); err != nil {
				return nil, err
			}
		}
		result, err := b.getsBeside(ctx, t, bystanders, what.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what.name, err)
		}
		b.report.addFailure(s, t.name, round, result.Errors, result.First)
		readings = append(readings, reading{"GET p99 beside " + what.name, "ms", millis(result.Latency.Quantile(0.99))},
			reading{"GET max beside " + what.name, "ms", millis(result.Latency.Max())})
	}
	return readings, nil
}

func eachLarge(elements uint64, do func(key string) error) error {
	for _, k := range collectionKinds {
		if err := do(k.key(elements)); err != nil {
			return err
		}
	}
	return nil
}

func writeAll(c *wire.Client, elements uint64) error {
	for _, k := range collectionKinds {
		if err := errors.Join(k.write(c, largeSmall), k.write(c, elements)); err != nil {
			return err
		}
	}
	return nil
}

// oneElement times commands on one element of small and large collections in turn.
func oneElement(ctx context.Context, c *wire.Client, elements uint64) (readings []reading, err error) {
	for _, k := range collectionKinds {
		sizes := []uint64{largeSmall, elements}
		took := make([][]time.Duration, len(sizes))
		for n := range largeAsks {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			for i, size := range sizes {
				began := clock.System.Mono()
				reply, err := c.Do(k.one(k.key(size), n*7919%int(size))...)
				if err != nil || reply.Kind == wire.Error {
					return nil, errors.Join(fmt.Errorf("%s: %v", k.name, reply), err)
				}
				took[i] = append(took[i], clock.System.Mono()-began)
			}
		}
		for i, size := range sizes {
			slices.Sort(took[i])
			name := fmt.Sprintf("%s on a %s, p50", k.one("", 0)[0], k.key(size))
			readings = append(readings, reading{name, "ms", millis(took[i][len(took[i])/2])})
		}
	}
	return readings, nil
}

// getsBeside records the latency of GETs at burstRate while do runs and shortly after.
func (b *bench) getsBeside(ctx context.Context, t *target, d *load.Data, do func() error) (*load.Result, error) {
	gets := background(ctx, load.Options{
		Addr: t.addr, Clients: b.clients, Threads: b.threads, Rate: burstRate, Source: load.Get(d),
		RecordFrom: clock.System.Mono() + time.Millisecond*largeLead, Timeout: b.timeout,
	})
	defer gets.end()
	if err := errors.Join(gets.underWay(ctx), pause(ctx, clock.System.Now()+largeLead)); err != nil {
		return nil, err
	}
	if err := errors.Join(do(), pause(ctx, clock.System.Now()+largeLead)); err != nil {
		return nil, err
	}
	gets.end()
	result, err := gets.wait()
	if !errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return nil, err
	}
	return result, nil
}
