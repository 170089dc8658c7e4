package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table formats text as a Markdown table. The first column is aligned left, all others right.
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

// writeTable prints the report for people. A report without any row prints nothing.
func (r *report) writeTable(w io.Writer) error {
	if len(r.Rows) == 0 {
		return nil
	}
	var b strings.Builder
	r.head(&b)
	head := []string{"measurement", "unit"}
	for _, s := range r.Servers {
		head = append(head, s.title())
	}
	if len(r.Servers) > 1 {
		head = append(head, "ratio", "rounds")
	}
	var t table
	t.row(head...)
	for _, row := range r.Rows {
		cells := []string{row.Line + ": " + row.Name, row.Unit}
		for _, side := range row.Sides {
			cells = append(cells, side.text())
		}
		if len(row.Sides) > 1 {
			cells = append(cells, ratioText(row.Ratio), spread(row.Ratios))
		}
		t.row(cells...)
	}
	t.write(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// head prints what was measured, and where.
func (r *report) head(b *strings.Builder) {
	fmt.Fprintf(b, "- Machine: %s\n", r.Machine)
	for _, s := range r.Servers {
		fmt.Fprintf(b, "- %s: %s, `%s`\n", s.title(), cmp.Or(s.Product, "unknown"), s.Command)
	}
	var words []string
	for _, word := range r.CommandLine {
		if word == "" || strings.ContainsAny(word, " '\"\\$") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	fmt.Fprintf(b, "- %d random keys, values of %d bytes, rounds: %d\n", r.Keys, r.Size, r.Rounds)
	fmt.Fprintf(b, "- Command line: `keyp-bench %s`\n", strings.Join(words, " "))
	if r.Quick {
		b.WriteString("- A smoke run: the figures mean little\n")
	}
	b.WriteByte('\n')
}

// title returns the heading of a server's column.
func (s *server) title() string {
	switch name, _, _ := strings.Cut(s.Product, " "); {
	case s.Side == "keyp":
		return "Keyp"
	case s.Side == "peer" && name != "" && name != "Keyp":
		return name
	}
	return s.Side
}

// text returns the median, or "-" if nothing was measured.
func (f figures) text() string {
	if len(f.Rounds) == 0 {
		return "-"
	}
	return figure(f.Median)
}

// figure returns a value with three or four digits.
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

// spread returns the smallest and the largest of the rounds' ratios.
func spread(ratios []float64) string {
	if len(ratios) < 2 {
		return "-"
	}
	return ratioText(slices.Min(ratios)) + "-" + ratioText(slices.Max(ratios))
}
