package main

import (
	"bytes"
	"testing"
	"time"
)

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

func sampleReport(second side) *report {
	c := config{sides: []side{{name: "keyp", command: "keyp --dir {dir}"}}, keys: 7, size: 100,
		rounds: 3, commandLine: []string{"--keyp", "it's me"}}
	if second.name != "" {
		c.sides = append(c.sides, second)
	}
	r := newReport(c)
	r.Machine = "2 CPUs"
	r.addProduct(side{name: "keyp"}, "Keyp 1.2")
	r.addProduct(side{name: "peer"}, "Redis 7.0")
	r.addProduct(side{name: "before"}, "Keyp 1.1")
	set := line{workload: workload{name: "set"}, pipeline: 16, clients: 50}
	for i := range c.sides {
		for _, ops := range []float64{100, 300, 200} {
			r.add(set, i, []reading{{"rate", "op/s", ops * float64(i+1)}, {"p99", "ms", 0.25}})
		}
	}
	r.add(line{workload: workload{name: "restart", procedure: restart}, keys: 5}, 0,
		[]reading{{"clean stop: log", "MiB", 30}})
	return r
}

func TestTable(t *testing.T) {
	const head = `- 7 random keys, values of 100 bytes, rounds: 3
- Command line: ` + "`keyp-bench --keyp 'it'\\''s me'`" + `

`
	for _, tt := range []struct {
		second side
		want   string
	}{
		{side{}, `- Machine: 2 CPUs
- Keyp: Keyp 1.2, ` + "`keyp --dir {dir}`" + `
` + head + `| measurement                      | unit |  Keyp |
|----------------------------------|-----:|------:|
| set, pipeline 16: rate           | op/s | 200.0 |
| set, pipeline 16: p99            |   ms | 0.250 |
| restart, 5 keys: clean stop: log |  MiB |  30.0 |
`},
		{side{name: "peer", addr: "localhost:1"}, `- Machine: 2 CPUs
- Keyp: Keyp 1.2, ` + "`keyp --dir {dir}`" + `
- Redis: Redis 7.0, ` + "`localhost:1`" + `
` + head + `| measurement                      | unit |  Keyp | Redis | ratio |    rounds |
|----------------------------------|-----:|------:|------:|------:|----------:|
| set, pipeline 16: rate           | op/s | 200.0 | 400.0 |  0.50 | 0.50-0.50 |
| set, pipeline 16: p99            |   ms | 0.250 | 0.250 |  1.00 | 1.00-1.00 |
| restart, 5 keys: clean stop: log |  MiB |  30.0 |     - |     - |         - |
`},
		{side{name: "before", command: "old"}, `- Machine: 2 CPUs
- Keyp: Keyp 1.2, ` + "`keyp --dir {dir}`" + `
- before: Keyp 1.1, ` + "`old`" + `
` + head + `| measurement                      | unit |  Keyp | before | ratio |    rounds |
|----------------------------------|-----:|------:|-------:|------:|----------:|
| set, pipeline 16: rate           | op/s | 200.0 |  400.0 |  0.50 | 0.50-0.50 |
| set, pipeline 16: p99            |   ms | 0.250 |  0.250 |  1.00 | 1.00-1.00 |
| restart, 5 keys: clean stop: log |  MiB |  30.0 |      - |     - |         - |
`},
	} {
		var b bytes.Buffer
		if err := sampleReport(tt.second).writeTable(&b); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != tt.want {
			t.Errorf("%q: got:\n%s\nwant:\n%s", tt.second.name, got, tt.want)
		}
	}
	if ratio(1, 0) != 0 || ratioText(0) != "-" {
		t.Error("a ratio to nothing is shown")
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
