package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestMedian: of an even number of values, the median is the mean of the two in the middle. Of no
// values, it is 0.
func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{100, 2, 3}, 3},
		{[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, tt := range tests {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

func sampleBench(second ...side) *bench {
	b := &bench{config: config{size: 100, rounds: 3, args: []string{"--keyp", "it's me"},
		sides: append([]side{{"keyp", "keyp --dir {dir}", "Keyp 1.2"}}, second...)}}
	for i := range b.sides {
		for round, ops := range []float64{100, 300, 200} {
			ops *= float64(i + 1)
			b.add("set, pipeline 16", i, []reading{{"rate", "op/s", ops + float64(i*round)},
				{"p99", "ms", 0.25}})
		}
	}
	b.add("restart, 5 keys", 0, []reading{{"clean stop", "ms", 3000}})
	return b
}

func TestTable(t *testing.T) {
	const head = "- Values of 100 bytes, rounds: 3\n- Arguments: `[\"--keyp\" \"it's me\"]`\n\n"
	for _, tt := range []struct {
		second []side
		want   string
	}{
		{nil, `- keyp: Keyp 1.2, ` + "`keyp --dir {dir}`" + `
` + head + `| measurement                 | unit |  keyp |
| ---                         | ---: |  ---: |
| set, pipeline 16: rate      | op/s | 200.0 |
| set, pipeline 16: p99       |   ms | 0.250 |
| restart, 5 keys: clean stop |   ms |  3000 |
`},
		{[]side{{"peer", "r --x", "Redis 7.0"}}, `- keyp: Keyp 1.2, ` + "`keyp --dir {dir}`" + `
- peer: Redis 7.0, ` + "`r --x`" + `
` + head + `| measurement                 | unit |  keyp |  peer | ratio |    rounds |
| ---                         | ---: |  ---: |  ---: |  ---: |      ---: |
| set, pipeline 16: rate      | op/s | 200.0 | 402.0 |  0.50 | 0.50-0.50 |
| set, pipeline 16: p99       |   ms | 0.250 | 0.250 |  1.00 | 1.00-1.00 |
| restart, 5 keys: clean stop |   ms |  3000 |     - |     - |         - |
`},
	} {
		var out bytes.Buffer
		if err := sampleBench(tt.second...).writeTable(&out); err != nil {
			t.Fatal(err)
		}
		machine, got, _ := strings.Cut(out.String(), "\n")
		if got != tt.want || !strings.HasPrefix(machine, "- Machine: ") {
			t.Errorf("got:\n%s\n%s\nwant:\n%s", machine, got, tt.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := range time.Duration(1000) {
		all = append(all, 999-i)
	}
	if p50, p99, largest := quantiles(all); p50 != 500 || p99 != 990 || largest != 999 {
		t.Errorf("quantiles = %d, %d, %d", p50, p99, largest)
	}
	if p50, p99, largest := quantiles(nil); p50 != 0 || p99 != 0 || largest != 0 {
		t.Errorf("quantiles of none = %d, %d, %d", p50, p99, largest)
	}
}
