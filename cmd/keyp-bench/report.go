package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"keyp/internal/clock"
)

// formatVersion increases when the JSON document changes for its readers.
const formatVersion = 3

// report collects what was measured. Its exported fields are the JSON document.
type report struct {
	Format      int       `json:"format"`
	Began       int64     `json:"began_unix_ms"`
	Machine     string    `json:"machine"`
	CommandLine []string  `json:"command_line"`
	Servers     []*server `json:"servers"` // Keyp and, if there is one, what it is compared with
	Keys        uint64    `json:"keys"`
	Size        int       `json:"size_bytes"`
	Rounds      int       `json:"rounds"`
	Quick       bool      `json:"quick"`
	Rows        []*row    `json:"rows"`
	Failures    []failure `json:"failures"`
}

// server is one of the measured servers.
type server struct {
	Side    string `json:"side"`
	Command string `json:"command"` // or its address
	Product string `json:"product"` // name and version from INFO
}

// row is one figure of the comparison.
type row struct {
	Line   string    `json:"line"`
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Sides  []figures `json:"sides"`            // as Servers
	Ratio  float64   `json:"ratio,omitempty"`  // of the medians, first / second server
	Ratios []float64 `json:"ratios,omitempty"` // of the single rounds
}

// figures is one server's side of a row.
type figures struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

// failure is a round in which something was wrong.
type failure struct {
	Line  string `json:"line"`
	Side  string `json:"side"`
	Round int    `json:"round"` // from 1
	Count int64  `json:"count"`
	First string `json:"first"`
}

func (f failure) String() string {
	return fmt.Sprintf("%s, %s, round %d: %d wrong, the first: %s", f.Line, f.Side, f.Round,
		f.Count, f.First)
}

func newReport(c config) *report {
	r := &report{
		Format: formatVersion, Began: clock.System.Now(), Machine: machine(),
		CommandLine: c.commandLine,
		Keys:        c.keys, Size: c.size, Rounds: c.rounds, Quick: c.quick,
		// Empty rather than null in JSON.
		Rows: []*row{}, Failures: []failure{},
	}
	for _, s := range c.sides {
		r.Servers = append(r.Servers, &server{Side: s.name, Command: s.command + s.addr})
	}
	return r
}

// machine describes the machine of the measurement, as far as the system reports it.
func machine() string {
	text := fmt.Sprintf("%d CPUs", runtime.NumCPU())
	if model := procField("/proc/cpuinfo", "model name"); model != "" {
		text += " (" + model + ")"
	}
	var kb int64
	if _, err := fmt.Sscanf(procField("/proc/meminfo", "MemTotal"), "%d kB", &kb); err == nil {
		text += fmt.Sprintf(", %.0f GiB", float64(kb)/(1<<20))
	}
	text += ", " + runtime.GOOS + "/" + runtime.GOARCH
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		text += " " + unix.ByteSliceToString(name.Release[:])
	}
	return text
}

// procField returns the first value of a field in a file of "name : value" lines, or "" if there is
// none.
func procField(path, field string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// add adds the figures of one round of a server.
func (r *report) add(l line, side int, readings []reading) {
	for _, got := range readings {
		i := slices.IndexFunc(r.Rows, func(w *row) bool {
			return w.Line == l.String() && w.Name == got.name
		})
		if i < 0 {
			i = len(r.Rows)
			r.Rows = append(r.Rows, &row{Line: l.String(), Name: got.name, Unit: got.unit,
				Sides: make([]figures, len(r.Servers))})
		}
		w := r.Rows[i]
		f := &w.Sides[side]
		f.Rounds = append(f.Rounds, got.value)
		f.Median = median(f.Rounds)
		if len(w.Sides) > 1 {
			w.Ratio = ratio(w.Sides[0].Median, w.Sides[1].Median)
			w.Ratios = nil
			for i := range min(len(w.Sides[0].Rounds), len(w.Sides[1].Rounds)) {
				w.Ratios = append(w.Ratios, ratio(w.Sides[0].Rounds[i], w.Sides[1].Rounds[i]))
			}
		}
	}
}

// addFailure records a failure if count is not 0. round counts from 0.
func (r *report) addFailure(l line, side string, round int, count int64, first error) {
	if count > 0 {
		r.Failures = append(r.Failures, failure{l.String(), side, round + 1, count, first.Error()})
	}
}

// addProduct sets the name and version of a side's server.
func (r *report) addProduct(from side, product string) {
	for _, s := range r.Servers {
		if s.Side == from.name {
			s.Product = product
		}
	}
}

// median returns the middle value, or the mean of the two middle values; 0 if there are none.
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

// ratio returns a / b, or 0 (which means none) if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (r *report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
