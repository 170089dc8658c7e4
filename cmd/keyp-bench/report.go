package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"keyp/cmd/keyp-bench/internal/redisbench"
	"keyp/internal/clock"
)

// formatVersion is raised when the JSON document changes for its readers.
const formatVersion = 2

// report gathers what was measured. Its exported fields are the JSON document.
type report struct {
	Format     int             `json:"format"`
	Began      int64           `json:"began_unix_ms"`
	Machine    machine         `json:"machine"`
	Settings   settings        `json:"settings"`
	Throughput []*throughput   `json:"throughput"`
	Readings   []*readingsLine `json:"readings"`
	Failures   []failure       `json:"failures"`
	Skipped    []string        `json:"skipped"` // what could not be measured here
}

// settings are those of the flags that shape the figures.
type settings struct {
	CommandLine []string `json:"command_line"`
	Keyp        string   `json:"keyp"`
	KeypProduct string   `json:"keyp_product,omitempty"` // name and version as INFO says
	Peer        string   `json:"peer,omitempty"`
	PeerProduct string   `json:"peer_product,omitempty"`
	Load        string   `json:"load"` // of streams: redis-benchmark or own
	Rounds      int      `json:"rounds"`
	Requests    int64    `json:"requests,omitempty"`
	DurationMS  float64  `json:"duration_ms,omitempty"`
	Threads     int      `json:"threads"`
	Keys        uint64   `json:"keys"`
	Size        int      `json:"size_bytes"`
	Quick       bool     `json:"quick"`
}

// measurement is one round of a stream of requests, or what rounds come to.
type measurement struct {
	OpsPerSec float64 `json:"ops_per_sec"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p999_ms"`
	Max       float64 `json:"max_ms"`
	Requests  int64   `json:"requests"`
	Errors    int64   `json:"errors"`
	// Busy is the share of its time that the generator spent on the CPU.
	Busy float64 `json:"generator_busy"`
	// RSSAnon is the server's memory in bytes after the round, 0 for unknown.
	RSSAnon int64 `json:"rss_anon_bytes,omitempty"`

	first error // of the errors
}

// streamResult is one server's side of a line.
type streamResult struct {
	Result measurement   `json:"result"` // medians; of max, errors and busy the largest; requests in all
	Rounds []measurement `json:"rounds"`
}

// throughput is one line of the comparison of streams.
type throughput struct {
	Workload string        `json:"workload"`
	Pipeline int           `json:"pipeline"`
	Clients  int           `json:"clients"`
	Keyp     *streamResult `json:"keyp"`
	Peer     *streamResult `json:"peer,omitempty"`
	Ratio    float64       `json:"ratio,omitempty"`  // of ops per second, keyp / peer
	Ratios   []float64     `json:"ratios,omitempty"` // of the single rounds
}

// figures is one server's side of a reading.
type figures struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

// readingsLine is one line of the comparison of readings.
type readingsLine struct {
	Workload string    `json:"workload"`
	Keys     uint64    `json:"keys"`
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Keyp     *figures  `json:"keyp,omitempty"`
	Peer     *figures  `json:"peer,omitempty"`
	Ratio    float64   `json:"ratio,omitempty"`  // keyp / peer
	Ratios   []float64 `json:"ratios,omitempty"` // of the single rounds
}

// failure is a round in which something was wrong.
type failure struct {
	Workload string `json:"workload"`
	Pipeline int    `json:"pipeline"`
	Side     string `json:"side"`
	Round    int    `json:"round"` // from 1
	Count    int64  `json:"count"`
	First    string `json:"first"`
}

func (f failure) String() string {
	return fmt.Sprintf("%s, pipeline %d, %s, round %d: %d wrong, the first: %s",
		f.Workload, f.Pipeline, f.Side, f.Round, f.Count, f.First)
}

func newReport(c config) *report {
	r := &report{
		Format:  formatVersion,
		Began:   clock.System.Now(),
		Machine: thisMachine(),
		Settings: settings{
			CommandLine: c.commandLine, Load: "own",
			Rounds: c.rounds, Requests: c.requests, DurationMS: millis(c.duration), Threads: c.threads,
			Keys: c.keys, Size: c.size, Quick: c.quick,
		},
		// Empty rather than null in JSON.
		Throughput: []*throughput{}, Readings: []*readingsLine{}, Failures: []failure{}, Skipped: []string{},
	}
	if c.redisBenchmark {
		r.Settings.Load = redisbench.Program
	}
	for i, s := range c.sides {
		what := &r.Settings.Keyp
		if i > 0 {
			what = &r.Settings.Peer
		}
		*what = s.command + s.addr
	}
	return r
}

// addMeasurement adds one round of a stream; side 0 is Keyp.
func (r *report) addMeasurement(s shape, side int, m measurement) {
	i := slices.IndexFunc(r.Throughput, func(t *throughput) bool { return t.Workload == s.name && t.Pipeline == s.pipeline })
	if i < 0 {
		i = len(r.Throughput)
		r.Throughput = append(r.Throughput, &throughput{Workload: s.name, Pipeline: s.pipeline, Clients: s.clients})
	}
	line := r.Throughput[i]
	at := &line.Keyp
	if side > 0 {
		at = &line.Peer
	}
	if *at == nil {
		*at = &streamResult{}
	}
	(*at).Rounds = append((*at).Rounds, m)
	(*at).Result = summary((*at).Rounds)
	if line.Keyp != nil && line.Peer != nil {
		line.Ratio = ratio(line.Keyp.Result.OpsPerSec, line.Peer.Result.OpsPerSec)
		line.Ratios = ratios(rates(line.Keyp), rates(line.Peer))
	}
}

func rates(s *streamResult) []float64 {
	var all []float64
	for _, m := range s.Rounds {
		all = append(all, m.OpsPerSec)
	}
	return all
}

func summary(rounds []measurement) measurement {
	of := func(field func(measurement) float64) float64 {
		values := make([]float64, len(rounds))
		for i, m := range rounds {
			values[i] = field(m)
		}
		return median(values)
	}
	result := measurement{
		OpsPerSec: of(func(m measurement) float64 { return m.OpsPerSec }),
		P50:       of(func(m measurement) float64 { return m.P50 }),
		P99:       of(func(m measurement) float64 { return m.P99 }),
		P999:      of(func(m measurement) float64 { return m.P999 }),
		RSSAnon:   int64(of(func(m measurement) float64 { return float64(m.RSSAnon) })),
	}
	for _, m := range rounds {
		result.Max = max(result.Max, m.Max)
		result.Busy = max(result.Busy, m.Busy)
		result.Requests += m.Requests
		result.Errors = max(result.Errors, m.Errors)
	}
	return result
}

// addReadings adds one round of a procedure; side 0 is Keyp.
func (r *report) addReadings(s shape, side int, readings []reading) {
	for _, got := range readings {
		i := slices.IndexFunc(r.Readings, func(l *readingsLine) bool { return l.Workload == s.name && l.Name == got.name })
		if i < 0 {
			i = len(r.Readings)
			r.Readings = append(r.Readings, &readingsLine{Workload: s.name, Keys: s.keys, Name: got.name, Unit: got.unit})
		}
		line := r.Readings[i]
		at := &line.Keyp
		if side > 0 {
			at = &line.Peer
		}
		if *at == nil {
			*at = &figures{}
		}
		(*at).Rounds = append((*at).Rounds, got.value)
		(*at).Median = median((*at).Rounds)
		if line.Keyp != nil && line.Peer != nil {
			line.Ratio = ratio(line.Keyp.Median, line.Peer.Median)
			line.Ratios = ratios(line.Keyp.Rounds, line.Peer.Rounds)
		}
	}
}

// addFailure notes what was wrong, if anything was. Rounds count from 0 here.
func (r *report) addFailure(s shape, side string, round int, count int64, first error) {
	if count > 0 {
		r.Failures = append(r.Failures, failure{s.name, s.pipeline, side, round + 1, count, first.Error()})
	}
}

// addSkip notes what can't be measured here, once.
func (r *report) addSkip(s shape, side string, why error) {
	text := fmt.Sprintf("%s, %s: %v", s, side, why)
	if !slices.Contains(r.Skipped, text) {
		r.Skipped = append(r.Skipped, text)
	}
}

// addProduct notes how a side's server calls itself.
func (r *report) addProduct(side, product string) {
	if side == "keyp" {
		r.Settings.KeypProduct = product
	} else {
		r.Settings.PeerProduct = product
	}
}

// median is the middle value, or the mean of the two in the middle; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// ratio is a / b, 0 (which means none) when b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ratios are those of the rounds that both have.
func ratios(a, b []float64) []float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		all = append(all, ratio(a[i], b[i]))
	}
	return all
}

func (r *report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
