package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// busyLimit is the share of its time from which on the generator may be what
// limits the rate.
const busyLimit = 0.95

// table lays out text as a Markdown table: the first column aligned left, all others
// right.
type table struct{ rows [][]string }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table with columns padded to their widths.
func (t *table) write(b *strings.Builder) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 2)
		}
	}
	for n, row := range t.rows {
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + gap + " |")
			} else {
				b.WriteString(" " + gap + cell + " |")
			}
		}
		b.WriteByte('\n')
		if n > 0 {
			continue
		}
		for i, width := range widths {
			if i == 0 {
				b.WriteString("|" + strings.Repeat("-", width+2) + "|")
			} else {
				b.WriteString(strings.Repeat("-", width+1) + ":|")
			}
		}
		b.WriteByte('\n')
	}
}

// writeTable prints the report for people. A report without any line prints nothing.
func (r *report) writeTable(w io.Writer) error {
	if len(r.Throughput)+len(r.Readings) == 0 {
		return nil
	}
	var b strings.Builder
	r.head(&b)
	if len(r.Throughput) > 0 {
		b.WriteByte('\n')
		r.throughputTable(&b)
	}
	if len(r.Readings) > 0 {
		b.WriteByte('\n')
		r.readingsTable(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// head says what was measured where and how.
func (r *report) head(b *strings.Builder) {
	s := r.Settings
	fmt.Fprintf(b, "- Machine: %s\n", r.Machine)
	server := func(name, product, command string) {
		if command != "" {
			fmt.Fprintf(b, "- %s: %s, `%s`\n", name, product, command)
		}
	}
	server("Keyp", or(s.KeypProduct, "unknown"), s.Keyp)
	server("Peer", or(s.PeerProduct, "unknown"), s.Peer)
	var words []string
	for _, word := range s.CommandLine {
		if word == "" || strings.ContainsAny(word, " '\"\\$") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	fmt.Fprintf(b, "- Load: %s, %d random keys, values of %d bytes, rounds: %d\n", s.Load, s.Keys, s.Size, s.Rounds)
	fmt.Fprintf(b, "- Command line: `keyp-bench %s`\n", strings.Join(words, " "))
	if s.Quick {
		b.WriteString("- A smoke run: the figures mean little\n")
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// peerTitle is what the columns of the other server are called.
func (r *report) peerTitle() string {
	name, _, _ := strings.Cut(r.Settings.PeerProduct, " ")
	own, _, _ := strings.Cut(r.Settings.KeypProduct, " ")
	if name == "" || name == own {
		return "peer"
	}
	return name
}

func (r *report) throughputTable(b *strings.Builder) {
	peer := r.peerTitle()
	withPeer := r.Settings.Peer != ""
	const latency = " p50 / p99 / p99.9 / max, ms"
	head := []string{"workload", "connections", "pipeline", "Keyp, op/s"}
	if withPeer {
		head = append(head, peer+", op/s", "ratio", "rounds")
	}
	head = append(head, "Keyp"+latency)
	if withPeer {
		head = append(head, peer+latency)
	}
	var t table
	t.row(head...)
	busy := 0.0
	rate := func(s *streamResult) string {
		if s == nil {
			return "-"
		}
		text := strconv.FormatFloat(s.Result.OpsPerSec, 'f', 0, 64)
		if s.Result.Busy >= busyLimit {
			busy = max(busy, s.Result.Busy)
			text += "\\*"
		}
		return text
	}
	times := func(s *streamResult) string {
		if s == nil {
			return "-"
		}
		m := s.Result
		return strings.Join([]string{figure(m.P50), figure(m.P99), figure(m.P999), figure(m.Max)}, " / ")
	}
	for _, line := range r.Throughput {
		cells := []string{line.Workload, strconv.Itoa(line.Clients), strconv.Itoa(line.Pipeline), rate(line.Keyp)}
		if withPeer {
			cells = append(cells, rate(line.Peer), ratioText(line.Ratio), spread(line.Ratios))
		}
		cells = append(cells, times(line.Keyp))
		if withPeer {
			cells = append(cells, times(line.Peer))
		}
		t.row(cells...)
	}
	t.write(b)
	if busy > 0 {
		fmt.Fprintf(b, "\n\\* The generator was on the CPU for up to %.0f%% of the time: the server may be faster than this.\n", 100*busy)
	}
}

func (r *report) readingsTable(b *strings.Builder) {
	withPeer := r.Settings.Peer != ""
	var t table
	head := []string{"measurement", "unit", "Keyp"}
	if withPeer {
		head = append(head, r.peerTitle(), "ratio", "rounds")
	}
	t.row(head...)
	value := func(f *figures) string {
		if f == nil {
			return "-"
		}
		return figure(f.Median)
	}
	for _, line := range r.Readings {
		cells := []string{fmt.Sprintf("%s, %d keys: %s", line.Workload, line.Keys, line.Name), line.Unit, value(line.Keyp)}
		if withPeer {
			cells = append(cells, value(line.Peer), ratioText(line.Ratio), spread(line.Ratios))
		}
		t.row(cells...)
	}
	t.write(b)
}

// figure shows three or four digits of what matters.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
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

// spread is the least and the greatest of the rounds' ratios.
func spread(ratios []float64) string {
	if len(ratios) < 2 {
		return "-"
	}
	return ratioText(slices.Min(ratios)) + "-" + ratioText(slices.Max(ratios))
}
