package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"keyp/internal/clock"
)

// redisBenchmark is the name of the executable, which is looked up in PATH.
const redisBenchmark = "redis-benchmark"

// valueWord in the arguments of redis-benchmark is replaced by a value of --size bytes.
// redis-benchmark itself makes such values only for its own tests.
const valueWord = "VALUE"

// endless is redis-benchmark's largest number of requests, which it never reaches.
const endless = 1<<31 - 1

// result is what redis-benchmark reports. A latency is in milliseconds, and is that of a whole
// pipeline.
type result struct {
	ops                 float64 // a second
	p50, p99, p999, max float64
	// busy is the share of the time that redis-benchmark spent on a CPU.
	busy float64
}

// send measures a stream for about its length. redis-benchmark runs for a number of requests, not
// for a time, so a probe measures the rate first.
func (b *bench) send(ctx context.Context, w workload, s *server) ([]reading, error) {
	probe := min(2000*w.clients, 20_000) * w.pipeline
	r, err := b.runRedisBenchmark(ctx, w, s, int64(probe))
	if err != nil {
		return nil, err
	}
	n := min(max(int64(r.ops*w.length.Seconds()), int64(w.clients)), endless)
	before := s.cpu()
	if r, err = b.runRedisBenchmark(ctx, w, s, n); err != nil {
		return nil, err
	}
	readings := []reading{
		{"rate", "op/s", r.ops}, {"p50", "ms", r.p50}, {"p99", "ms", r.p99},
		{"p99.9", "ms", r.p999}, {"max", "ms", r.max},
		{"redis-benchmark busy", "%", 100 * r.busy},
	}
	if used := s.cpu() - before; used > 0 {
		readings = append(readings, reading{"processor time of a request", "us",
			float64(used.Microseconds()) / float64(n)})
	}
	return readings, nil
}

// runRedisBenchmark sends n requests of a workload. It parses the report for people, because the
// report of --csv does not have p99.9.
func (b *bench) runRedisBenchmark(ctx context.Context, w workload, s *server,
	n int64) (result, error) {
	// redis-benchmark tries for ever to reach a server that has ended.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	exited := s.exited
	go func() {
		select {
		case <-exited:
			cancel(errors.New("the server ended during the load"))
		case <-ctx.Done():
		}
	}()
	_, port, _ := strings.Cut(s.addr, ":")
	args := []string{"-p", port, "-c", strconv.Itoa(w.clients), "-P", strconv.Itoa(w.pipeline),
		"-n", strconv.FormatInt(n, 10), "-r", strconv.FormatUint(w.keys, 10),
		"-d", strconv.Itoa(b.size), "--precision", "3"}
	for _, word := range w.requests {
		if word == valueWord {
			word = strings.Repeat("x", b.size)
		}
		args = append(args, word)
	}
	cmd := exec.CommandContext(ctx, redisBenchmark, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program
	began := clock.System.Mono()
	err := cmd.Run()
	took := clock.System.Mono() - began
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	if _, text, found := strings.Cut(out.String(), "Error from server: "); found {
		line, _, _ := strings.Cut(text, "\n")
		// The reply may quote the arguments, so the error shows only its start.
		return result{}, fmt.Errorf("%w: %.100s", errWrong, strings.TrimSpace(line))
	}
	if err != nil {
		return result{}, fmt.Errorf("%s: %w: %s", redisBenchmark, err, tail(out.Bytes()))
	}
	r, err := parseReport(out.String())
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.busy = float64(used) / float64(took)
	return r, err
}

// parseReport reads the last report in the output of redis-benchmark.
//
//	Latency by percentile distribution:
//	0.000% <= 0.119 milliseconds (cumulative count 1)
//	…                                                     99.9% and more: p99.9
//	Summary:
//	  throughput summary: 68027.21 requests per second
//	  latency summary (msec):
//	          avg       min       p50       p95       p99       max
//	        0.499     0.112     0.487     0.687     0.839     3.383
func parseReport(text string) (r result, err error) {
	text = text[max(strings.LastIndex(text, "Latency by percentile distribution:"), 0):]
	r.p999 = -1
	for line := range strings.Lines(text) {
		var percent, ms float64
		n, _ := fmt.Sscanf(line, "%f%% <= %f", &percent, &ms)
		if n == 2 && percent >= 99.9 {
			r.p999 = ms
			break
		}
	}
	_, rate, _ := strings.Cut(text, "throughput summary:")
	_, latencies, _ := strings.Cut(text, " max\n")
	var average, least, p95 float64
	_, err1 := fmt.Sscan(rate, &r.ops)
	_, err2 := fmt.Sscan(latencies, &average, &least, &r.p50, &p95, &r.p99, &r.max)
	if err1 != nil || err2 != nil || r.p999 < 0 {
		return result{}, fmt.Errorf("not a report of %s: %s", redisBenchmark, tail([]byte(text)))
	}
	return r, nil
}
