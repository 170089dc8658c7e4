package main

import (
	"strings"
	"testing"
)

// sampleOutput is the output of redis-benchmark 7.0.15 for -t lrange_100. It starts with the test
// that fills the list.
const sampleOutput = "\rLPUSH (needed to benchmark LRANGE): rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r      \r" + `====== LPUSH (needed to benchmark LRANGE) ======
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

func TestParseReport(t *testing.T) {
	got, err := parseReport(sampleOutput)
	want := result{ops: 68027.21, p50: 0.488, p99: 0.839, p999: 3.295, max: 3.384}
	if err != nil || got != want {
		t.Errorf("parseReport = %+v, %v, want %+v", got, err, want)
	}
	for _, cut := range []string{"throughput summary: 68027.21", "0.488", "max\n", "<=",
		sampleOutput} {
		text := strings.ReplaceAll(sampleOutput, cut, "")
		if got, err := parseReport(text); err == nil ||
			!strings.Contains(err.Error(), "not a report") {
			t.Errorf("without %q: parseReport = %+v, %v", cut, got, err)
		}
	}
}
