package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// busyLimit is the share of its time from which on the generator may be what
// limits the rate.
const busyLimit = 0.95

// table lays out text in columns: the first aligned left, all others right.
type table struct {
	rows  [][]string
	heads map[int]string // titles above the header row, by the column they begin at
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table with two blanks between columns.
func (t *table) write(b *strings.Builder) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if len(t.heads) > 0 {
		var line strings.Builder
		column := 0
		for i, width := range widths {
			if head, ok := t.heads[i]; ok {
				// Above the first character of the header cell that it stands on.
				at := column + width - utf8.RuneCountInString(t.rows[0][i])
				line.WriteString(strings.Repeat(" ", max(at-utf8.RuneCountInString(line.String()), 0)) + head)
			}
			column += width + 2
		}
		b.WriteString(line.String() + "\n")
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + gap)
			} else {
				line.WriteString("  " + gap + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// writeTable prints the report for people. A report without any line prints nothing.
func (r *report) writeTable(w io.Writer) error {
	var b strings.Builder
	if len(r.Throughput) > 0 {
		r.throughputTable(&b)
	}
	if len(r.Readings) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		r.readingsTable(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *report) throughputTable(b *strings.Builder) {
	withPeer := r.Settings.Peer != ""
	head := []string{"workload", "clients", "pipeline", "keyp ops/s"}
	latency := []string{"p50", "p99", "p99.9", "max"}
	if withPeer {
		head = append(head, "peer ops/s", "ratio")
	}
	t := table{heads: map[int]string{len(head): "keyp latency, ms"}}
	head = append(head, latency...)
	if withPeer {
		t.heads[len(head)] = "peer latency, ms"
		head = append(head, latency...)
	}
	t.row(head...)
	busy := 0.0
	rate := func(s *streamResult) string {
		if s == nil {
			return "-"
		}
		text := strconv.FormatFloat(s.Result.OpsPerSec, 'f', 0, 64)
		if s.Result.Busy >= busyLimit {
			busy = max(busy, s.Result.Busy)
			text += "*"
		}
		return text
	}
	times := func(s *streamResult) []string {
		if s == nil {
			return []string{"-", "-", "-", "-"}
		}
		m := s.Result
		return []string{figure(m.P50), figure(m.P99), figure(m.P999), figure(m.Max)}
	}
	for _, line := range r.Throughput {
		cells := []string{line.Workload, strconv.Itoa(line.Clients), strconv.Itoa(line.Pipeline), rate(line.Keyp)}
		if withPeer {
			cells = append(cells, rate(line.Peer), ratioText(line.Ratio))
		}
		cells = append(cells, times(line.Keyp)...)
		if withPeer {
			cells = append(cells, times(line.Peer)...)
		}
		t.row(cells...)
	}
	t.write(b)
	if busy > 0 {
		fmt.Fprintf(b, "* The generator was on the CPU for up to %.0f%% of the time: the server may be faster than this.\n", 100*busy)
	}
}

func (r *report) readingsTable(b *strings.Builder) {
	withPeer := r.Settings.Peer != ""
	var t table
	head := []string{fmt.Sprintf("%d keys with a deadline", r.Settings.TTLKeys), "unit", "keyp"}
	if withPeer {
		head = append(head, "peer", "ratio")
	}
	t.row(head...)
	value := func(f *figures) string {
		if f == nil {
			return "-"
		}
		return figure(f.Median)
	}
	for _, line := range r.Readings {
		cells := []string{line.Workload + ": " + line.Name, line.Unit, value(line.Keyp)}
		if withPeer {
			cells = append(cells, value(line.Peer), ratioText(line.Ratio))
		}
		t.row(cells...)
	}
	t.write(b)
}

// figure shows three or four digits of what matters.
func figure(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func ratioText(r float64) string {
	if r == 0 {
		return "-"
	}
	return strconv.FormatFloat(r, 'f', 2, 64)
}
