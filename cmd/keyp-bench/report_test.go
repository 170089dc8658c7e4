package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{100, 2, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, tt := range tests {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

func sampleReport(peer bool) *report {
	c := config{sides: []side{{name: "keyp", command: "keyp --dir {dir}"}}, keys: 7, size: 100, rounds: 3, commandLine: []string{"--keyp", "it's me"}}
	if peer {
		c.sides = append(c.sides, side{name: "peer", addr: "localhost:1"})
	}
	r := newReport(c)
	r.Machine = machine{OS: "linux", Arch: "amd64", Kernel: "6.1", CPUs: 2, CPU: "Fast", Memory: 3 << 30}
	r.addProduct("keyp", "Keyp 1.2")
	if peer {
		r.addProduct("peer", "Redis 7.0")
	}
	set := shape{workload: workload{name: "set"}, pipeline: 16, clients: 50}
	for i := range c.sides {
		for _, ops := range []float64{100, 300, 200} {
			r.addMeasurement(set, i, measurement{
				OpsPerSec: ops * float64(i+1), P50: 0.25, P99: 1, P999: 20, Max: ops * 10, Busy: 0.5 + float64(i)*0.46, Requests: 7,
			})
		}
		r.addReadings(shape{workload: workload{name: "restart"}, keys: 5}, i, []reading{{"clean stop", "ms", float64(30 + 10*i)}})
	}
	return r
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport(true).writeTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `
- Machine: 2 CPUs (Fast), 3 GiB, linux/amd64 6.1
- Keyp: Keyp 1.2, ` + "`keyp --dir {dir}`" + `
- Peer: Redis 7.0, ` + "`localhost:1`" + `
- Load: own, 7 random keys, values of 100 bytes, rounds: 3
- Command line: ` + "`keyp-bench --keyp 'it'\\''s me'`" + `

| workload | connections | pipeline | Keyp, op/s | Redis, op/s | ratio |    rounds | Keyp p50 / p99 / p99.9 / max, ms | Redis p50 / p99 / p99.9 / max, ms |
|----------|------------:|---------:|-----------:|------------:|------:|----------:|---------------------------------:|----------------------------------:|
| set      |          50 |       16 |        200 |       400\* |  0.50 | 0.50-0.50 |      0.250 / 1.000 / 20.0 / 3000 |       0.250 / 1.000 / 20.0 / 3000 |

\* The generator was on the CPU for up to 96% of the time: the server may be faster than this.

| measurement                 | unit | Keyp | Redis | ratio | rounds |
|-----------------------------|-----:|-----:|------:|------:|-------:|
| restart, 5 keys: clean stop |   ms | 30.0 |  40.0 |  0.75 |      - |
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
	b.Reset()
	if err := sampleReport(false).writeTable(&b); err != nil {
		t.Fatal(err)
	}
	want = `
- Machine: 2 CPUs (Fast), 3 GiB, linux/amd64 6.1
- Keyp: Keyp 1.2, ` + "`keyp --dir {dir}`" + `
- Load: own, 7 random keys, values of 100 bytes, rounds: 3
- Command line: ` + "`keyp-bench --keyp 'it'\\''s me'`" + `

| workload | connections | pipeline | Keyp, op/s | Keyp p50 / p99 / p99.9 / max, ms |
|----------|------------:|---------:|-----------:|---------------------------------:|
| set      |          50 |       16 |        200 |      0.250 / 1.000 / 20.0 / 3000 |

| measurement                 | unit | Keyp |
|-----------------------------|-----:|-----:|
| restart, 5 keys: clean stop |   ms | 30.0 |
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}

func TestSummary(t *testing.T) {
	line := sampleReport(true).Throughput[0]
	if line.Keyp.Result.Requests != 21 || line.Keyp.Result.Max != 3000 || len(line.Keyp.Rounds) != 3 {
		t.Errorf("keyp: %+v", line.Keyp)
	}
	if ratio(1, 0) != 0 || ratioText(0) != "-" {
		t.Error("a ratio to nothing is shown")
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false)
	p.total = 2
	p.begin("first")
	for range 3 {
		p.watch("measuring", func() float64 { return 0.5 })()
	}
	if got := b.String(); got != "[1/2] first: measuring 50%\n" {
		t.Errorf("not on a terminal: %q, want one line for now", got)
	}
	b.Reset()
	p.terminal = true
	p.begin("second")
	end := p.watch("starting", nil)
	end()
	end() // ending twice does no harm
	p.clear()
	if got := b.String(); !strings.HasPrefix(got, "\r\x1b[K[2/2] second: starting") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("on a terminal: %q", got)
	}
	b.Reset()
	quiet := newProgress(&b, true)
	quiet.begin("x")
	quiet.watch("y", nil)()
	quiet.clear()
	if b.Len() > 0 {
		t.Errorf("--quiet prints %q", b.String())
	}
}
