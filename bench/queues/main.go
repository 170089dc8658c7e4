// Command queues measures the rate at which a server and a library process delayed jobs. The
// libraries are asynq, Bull and BullMQ; go-redis runs Keyp's own KEYP.DELAY. Each measurement has a
// new server. `make bench-queues` runs it, and docs/internals/performance.md has figures.
//
// 50 clients add jobs that are due a millisecond later. After all jobs are added, 50 workers begin.
// So each job goes through the library's queue of delayed jobs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"keyp/bench/internal/server"
)

const (
	clients = 50
	payload = 100 // bytes of a job
)

// result contains the time for adding the jobs, and then for processing them.
type result struct{ add, work time.Duration }

type library struct {
	name string
	run  func(ctx context.Context, addr string, jobs int) (result, error)
}

var libraries = []library{
	{"KEYP.DELAY, a job at a time", keypDelay(1)},
	{"KEYP.DELAY, 10 at a time", keypDelay(10)},
	{"asynq", runAsynq},
	{"Bull", node("bull")},
	{"BullMQ", node("bullmq")},
}

func main() {
	keyp := flag.String("keyp", "bin/keyp --port {port} --dir {dir}", "how Keyp is started")
	redis := flag.String("redis", "redis-server --port {port} --dir {dir} --appendonly yes --appendfsync always --save ''", "how Redis is started; empty: it is left out")
	jobs := flag.Int("jobs", 10_000, "how many jobs a measurement has")
	rounds := flag.Int("rounds", 3, "how many measurements of each there are; the median is shown")
	timeout := flag.Duration("timeout", 2*time.Minute, "how long one measurement may take")
	only := flag.String("only", "", "a part of the names of those libraries that are measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Printf("%d jobs of %d bytes, %d clients, medians of %d rounds\n\n", *jobs, payload, clients, *rounds)
	fmt.Println("| | added/s | done/s | both/s |\n|---|---:|---:|---:|")
	failed := false
	for _, of := range []struct{ name, command string }{{"Keyp", *keyp}, {"Redis", *redis}} {
		for _, l := range libraries {
			// Redis does not have KEYP.DELAY.
			if of.command == "" || of.name == "Redis" && strings.HasPrefix(l.name, "KEYP") || !strings.Contains(l.name, *only) {
				continue
			}
			var results []result
			for range *rounds {
				r, err := measure(ctx, of.command, l, *jobs, *timeout)
				if err != nil {
					fmt.Fprintf(os.Stderr, "%s on %s: %v\n", l.name, of.name, err)
					failed = true
					break
				}
				results = append(results, r)
			}
			if len(results) == *rounds {
				row(l.name+" on "+of.name, *jobs, results)
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

func row(name string, jobs int, results []result) {
	rate := func(took func(result) time.Duration) int {
		var all []int
		for _, r := range results {
			all = append(all, int(float64(jobs)/took(r).Seconds()))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	fmt.Printf("| %s | %d | %d | %d |\n", name, rate(func(r result) time.Duration { return r.add }),
		rate(func(r result) time.Duration { return r.work }), rate(func(r result) time.Duration { return r.add + r.work }))
}

// measure runs a library on a new server with an empty directory, and ends the server.
func measure(ctx context.Context, command string, l library, jobs int, timeout time.Duration) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "bench-queues-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	port, err := server.FreePort()
	if err != nil {
		return r, err
	}
	stop, err := server.Start(ctx, command, port, dir)
	if err != nil {
		return r, err
	}
	defer stop()
	return l.run(ctx, server.Addr(port), jobs)
}

// each calls fn for each number below n, on one goroutine for each client. It returns the first
// error.
func each(ctx context.Context, n int, fn func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := c; i < n && ctx.Err() == nil; i += clients {
				if err := fn(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
