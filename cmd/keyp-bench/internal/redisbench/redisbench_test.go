package redisbench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// report is what redis-benchmark 7.0.15 prints for -t lrange_100: first the test that
// fills the list.
const report = "\rLPUSH (needed to benchmark LRANGE): rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r      \r" + `====== LPUSH (needed to benchmark LRANGE) ======
  1000 requests completed in 0.01 seconds
  50 parallel clients

Latency by percentile distribution:
0.000% <= 9.119 milliseconds (cumulative count 1)
100.000% <= 9.383 milliseconds (cumulative count 1000)

Cumulative distribution of latencies:
100.000% <= 9.503 milliseconds (cumulative count 1000)

Summary:
  throughput summary: 1.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        9.499     9.112     9.487     9.687     9.839     9.383

` + "\rLRANGE_100 (first 100 elements): rps=11.0 (overall: 11.0) avg_msec=1.0 (overall: 1.0)\r     \r" + `====== LRANGE_100 (first 100 elements) ======
  10000 requests completed in 0.15 seconds
  50 parallel clients
  multi-thread: no

Latency by percentile distribution:
0.000% <= 0.119 milliseconds (cumulative count 1)
50.000% <= 0.487 milliseconds (cumulative count 5169)
99.805% <= 3.199 milliseconds (cumulative count 9981)
99.902% <= 3.295 milliseconds (cumulative count 9991)
99.951% <= 3.343 milliseconds (cumulative count 9996)
100.000% <= 3.383 milliseconds (cumulative count 10000)

Cumulative distribution of latencies:
99.710% <= 3.103 milliseconds (cumulative count 9971)
100.000% <= 4.103 milliseconds (cumulative count 10000)

Summary:
  throughput summary: 68027.21 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.499     0.112     0.488     0.687     0.839     3.384

`

func TestParse(t *testing.T) {
	got, err := parse(report)
	want := Result{OpsPerSec: 68027.21, P50: 0.488, P99: 0.839, P999: 3.295, Max: 3.384}
	if err != nil || got != want {
		t.Errorf("parse = %+v, %v, want %+v", got, err, want)
	}
	for _, cut := range []string{"", "throughput summary: 68027.21", "0.488", "max\n",
		"99.9", "Latency by"} {
		text := strings.ReplaceAll(report, cut, "")
		if cut == "" {
			text = ""
		}
		// Without 99.902% the next line is taken, so take all of them away.
		if cut == "99.9" {
			text = strings.ReplaceAll(text, "<=", "=")
		}
		if got, err := parse(text); !errors.Is(err, ErrOutput) {
			t.Errorf("without %q: parse = %+v, %v, want ErrOutput", cut, got, err)
		}
	}
}

func needProgram(t *testing.T) {
	t.Helper()
	testkit.Program(t, Program)
}

func TestRun(t *testing.T) {
	needProgram(t)
	ctx := await.Context(t)
	keyp := testkit.Keyp(t)
	o := Options{Addr: keyp.Addr(), Clients: 3, Pipeline: 2, Requests: 3000, Keys: 10, Size: 100}
	for _, args := range [][]string{{"-t", "set"}, {"SET", "own:__rand_int__", "v", "EX", "3600"}} {
		o.Args = args
		got, err := Run(ctx, o)
		if err != nil || got.OpsPerSec <= 0 || got.P50 <= 0 || got.P50 > got.P99 ||
			got.P99 > got.P999 || got.P999 > got.Max || got.Busy <= 0 {
			t.Errorf("%q: %+v, %v", args, got, err)
		}
	}
	c := keyp.Client(2)
	if got := c.StrLen(ctx, "key:000000000003").Val(); got != 100 {
		t.Errorf("a value of -t set has %d bytes", got)
	}
	if got := c.TTL(ctx, "own:000000000003").Val(); got <= 0 {
		t.Errorf("a key of the own command lives for %v", got)
	}
	if got := c.DBSize(ctx).Val(); got != 20 {
		t.Errorf("there are %d keys, want 10 of each kind", got)
	}
	o.Args = []string{"NOSUCH"}
	if _, err := Run(ctx, o); !errors.Is(err, ErrReply) ||
		!strings.Contains(err.Error(), "unknown command 'NOSUCH'") {
		t.Errorf("an unknown command: %v", err)
	}
	o.Args = []string{"-t", "nosuch"}
	if _, err := Run(ctx, o); !errors.Is(err, ErrOutput) {
		t.Errorf("an unknown test: %v", err)
	}
}

// A run without an end ends with its context.
func TestRunIsEndedByItsContext(t *testing.T) {
	needProgram(t)
	keyp := testkit.Keyp(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, Options{Addr: keyp.Addr(), Clients: 2, Pipeline: 1, Requests: 1 << 30,
			Keys: 10, Args: []string{"-t", "set"}})
		ended <- err
	}()
	c := keyp.Client(2)
	await.Until(t, "keys are written", func() bool { return c.DBSize(t.Context()).Val() > 0 })
	cancel()
	if err := await.For(t, "the end", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}
