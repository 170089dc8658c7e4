package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// row is one figure of the comparison.
type row struct {
	name, unit string
	rounds     [][]float64 // of each side
}

// add adds the figures of one round of a side.
func (b *bench) add(workload string, side int, readings []reading) {
	for _, got := range readings {
		if got.unit == "MiB" && runtime.GOOS != "linux" {
			continue // rssAnon needs /proc
		}
		name := workload + ": " + got.name
		i := slices.IndexFunc(b.rows, func(r *row) bool { return r.name == name })
		if i < 0 {
			i = len(b.rows)
			b.rows = append(b.rows, &row{name, got.unit, make([][]float64, len(b.sides))})
		}
		b.rows[i].rounds[side] = append(b.rows[i].rounds[side], got.value)
	}
}

// writeTable prints the report. A report without any row prints nothing.
func (b *bench) writeTable(w io.Writer) error {
	if len(b.rows) == 0 {
		return nil
	}
	text := b.head()
	table := [][]string{{"measurement", "unit"}, {"---", "---:"}}
	for _, s := range b.sides {
		table[0] = append(table[0], s.name)
		table[1] = append(table[1], "---:")
	}
	if len(b.sides) > 1 {
		table[0] = append(table[0], "ratio", "rounds")
		table[1] = append(table[1], "---:", "---:")
	}
	for _, r := range b.rows {
		table = append(table, r.cells())
	}
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, cells := range table {
		text += fmt.Sprintf("| %-*s |", widths[0], cells[0])
		for i, cell := range cells[1:] {
			text += fmt.Sprintf(" %*s |", widths[i+1], cell)
		}
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// cells returns the row's cells: the name, the unit, medians, their ratio, and the smallest and the
// largest ratio of the rounds. A cell without a value is "-".
func (r *row) cells() []string {
	cells := []string{r.name, r.unit}
	for _, values := range r.rounds {
		cells = append(cells, figure(median(values), len(values) > 0))
	}
	if len(r.rounds) < 2 {
		return cells
	}
	first, second := r.rounds[0], r.rounds[1]
	cells = append(cells, ratio(median(first), median(second)))
	var ratios []float64
	for i := range min(len(first), len(second)) {
		if second[i] != 0 {
			ratios = append(ratios, first[i]/second[i])
		}
	}
	if len(ratios) < 2 {
		return append(cells, "-")
	}
	return append(cells, fmt.Sprintf("%.2f-%.2f", slices.Min(ratios), slices.Max(ratios)))
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// figure returns a value with at least three digits, or "-" for one that was not measured.
func figure(v float64, measured bool) string {
	switch {
	case !measured:
		return "-"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// median returns the middle value, or the mean of the two middle values; 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// head describes what was measured, and where.
func (b *bench) head() string {
	text := fmt.Sprintf("- Machine: %d CPUs%s, %s/%s\n", runtime.NumCPU(), model(), runtime.GOOS,
		runtime.GOARCH)
	for _, s := range b.sides {
		text += fmt.Sprintf("- %s: %s, `%s`\n", s.name, cmp.Or(s.product, "unknown"), s.command)
	}
	text += fmt.Sprintf("- Values of %d bytes, rounds: %d\n- Arguments: `%q`\n", b.size, b.rounds,
		b.args)
	if b.quick {
		text += "- A smoke run: the figures mean little\n"
	}
	return text + "\n"
}

// model returns the processor's name in brackets, or "" if /proc/cpuinfo does not contain it.
func model() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, name, found := strings.Cut(string(text), "model name")
	if !found {
		return ""
	}
	name, _, _ = strings.Cut(name, "\n")
	return " (" + strings.Trim(name, "\t :") + ")"
}
