// Command groups measures the cost of a write that several servers must have before it is
// acknowledged. It compares a group of three Keyps, etcd with three members, Redis with two
// replicas and WAIT 1 after each write, and a single Keyp. All of them sync before they
// acknowledge. `make bench-groups` runs it; docs/internals/performance.md has figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	keys = 100_000
	size = 100 // bytes of a value
)

// conn is a client's connection.
type conn interface {
	Set(ctx context.Context, keys []string, value string) error // in one pipeline, or concurrently
	Get(ctx context.Context, keys []string) error
	Close() error
}

// system is a system that is measured. start returns the function that connects to it.
type system struct {
	name  string
	start func(ctx context.Context, dir string) (connect func() (conn, error), stop func(), err error)
}

type workload struct {
	name            string
	conns, pipeline int
	do              func(c conn, ctx context.Context, keys []string, value string) error
}

func get(c conn, ctx context.Context, keys []string, _ string) error { return c.Get(ctx, keys) }

var workloads = []workload{
	{"SET, 1 connection", 1, 1, conn.Set},
	{"SET, 50 connections", 50, 1, conn.Set},
	{"SET, 50 connections, pipeline 16", 50, 16, conn.Set},
	{"GET, 50 connections", 50, 1, get},
	{"GET, 50 connections, pipeline 16", 50, 16, get},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == etcdMember {
		if err := runEtcd(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	keyp := flag.String("keyp", "bin/keyp", "the program")
	redis := flag.String("redis", "redis-server", "the program")
	rounds := flag.Int("rounds", 3, "how many measurements of each there are; the median is shown")
	length := flag.Duration("length", 3*time.Second, "how long one is")
	only := flag.String("only", "", "a part of the names of those systems that are measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	systems := slices.DeleteFunc([]system{
		{"Keyp, a group of three", func(ctx context.Context, dir string) (func() (conn, error), func(), error) {
			return startGroup(ctx, *keyp, dir)
		}},
		{"Keyp, alone", func(ctx context.Context, dir string) (func() (conn, error), func(), error) {
			return startAlone(ctx, *keyp, dir)
		}},
		{"etcd, three members", startEtcd},
		{"Redis, two replicas, WAIT 1", func(ctx context.Context, dir string) (func() (conn, error), func(), error) {
			return startRedis(ctx, *redis, dir)
		}},
	}, func(s system) bool { return !strings.Contains(s.name, *only) })
	rates := make([][][]float64, len(systems)) // by system, workload, round
	for i := range rates {
		rates[i] = make([][]float64, len(workloads))
	}
	for round := range *rounds {
		for i := range systems {
			at := (i + round) % len(systems)
			if err := measure(ctx, systems[at], *length, rates[at]); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", systems[at].name, err)
				os.Exit(1)
			}
		}
	}
	show(systems, rates)
}

// show prints the median of each system. It also prints the ratio of the first system's median to
// that of each other system.
func show(systems []system, rates [][][]float64) {
	fmt.Printf("Operations a second, keys: %d, values: %d bytes, medians of %d rounds\n\n|", keys, size, len(rates[0][0]))
	for _, s := range systems {
		fmt.Printf(" | %s", s.name)
	}
	for _, s := range systems[1:] {
		fmt.Printf(" | first / %s", s.name)
	}
	fmt.Printf(" |\n|---%s|\n", strings.Repeat("|---:", 2*len(systems)-1))
	for w, load := range workloads {
		fmt.Printf("| %s", load.name)
		medians := make([]float64, len(systems))
		for i := range systems {
			slices.Sort(rates[i][w])
			medians[i] = rates[i][w][len(rates[i][w])/2]
			fmt.Printf(" | %.0f", medians[i])
		}
		for _, m := range medians[1:] {
			fmt.Printf(" | %.2f", medians[0]/m)
		}
		fmt.Println(" |")
	}
}

// measure starts a system with empty directories, measures all workloads, and ends it.
func measure(ctx context.Context, s system, length time.Duration, rates [][]float64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+2*time.Duration(len(workloads))*length)
	defer cancel()
	dir, err := os.MkdirTemp("", "bench-groups-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	connect, stop, err := s.start(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	for w, load := range workloads {
		rate, err := load.run(ctx, connect, length)
		if err != nil {
			return fmt.Errorf("%s: %w", load.name, err)
		}
		rates[w] = append(rates[w], rate)
		fmt.Fprintf(os.Stderr, "%s: %s: %.0f/s\n", s.name, load.name, rate)
	}
	return nil
}

// run returns the number of operations per second.
func (w workload) run(ctx context.Context, connect func() (conn, error), length time.Duration) (float64, error) {
	var conns []conn
	defer func() {
		for _, c := range conns {
			_ = c.Close() // it is not needed any more
		}
	}()
	for range w.conns {
		c, err := connect()
		if err != nil {
			return 0, err
		}
		conns = append(conns, c)
		if err := w.do(c, ctx, []string{"key:0"}, "first"); err != nil { // it is connected then
			return 0, err
		}
	}
	value := strings.Repeat("x", size)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	for _, c := range conns {
		wg.Go(func() {
			names := make([]string, w.pipeline)
			for time.Since(began) < length && ctx.Err() == nil {
				for i := range names {
					names[i] = fmt.Sprintf("key:%d", rand.IntN(keys))
				}
				if err := w.do(c, ctx, names, value); err != nil {
					cancel(err)
					return
				}
				done.Add(int64(len(names)))
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), context.Cause(ctx)
}
