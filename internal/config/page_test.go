package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file generates the tables of options in docs/reference/options.md. It tests that the page
// agrees with the options of the server.

var updatePage = flag.Bool("update", false,
	"write the generated part of the page again instead of comparing it")

const (
	optionsPage = "../../docs/reference/options.md"
	updateHow   = "go test ./internal/config -run TestConfigurationPage -update"
	// docs/reference/options.md begins with a handwritten part; the rest is generated from the
	// table of options. generatedMark is the line between the two.
	generatedMark = "<!-- From here on generated: " + updateHow + " -->\n"
)

// TestConfigurationPage: the page describes every option as the table of options does.
func TestConfigurationPage(t *testing.T) {
	have, err := os.ReadFile(optionsPage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(have), generatedMark)
	if !found {
		t.Fatalf("%s has no line %q", optionsPage, generatedMark)
	}
	want := head + generatedMark + renderOptions() + renderOnly() + renderUnsupported() +
		renderTuning()
	switch {
	case want == string(have):
	case !*updatePage:
		t.Fatalf("%s is not what the table of options says; run %s", optionsPage, updateHow)
	default:
		if err := os.WriteFile(optionsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// renderOptions returns a table for each heading of --help.
func renderOptions() string {
	var b strings.Builder
	group := groupCompat
	for i := range options {
		o := &options[i]
		if o.group == groupCompat {
			continue
		}
		if o.group != group {
			group = o.group
			fmt.Fprintf(&b,
				"\n### %s\n\n| option | default | values | `CONFIG SET` | meaning |\n|---|---|---|---|---|\n",
				group)
		}
		name, set := "`"+o.name+"`", "yes"
		if o.alias != "" {
			name += ", `" + o.alias + "`"
		}
		if o.fixed {
			set = "no"
		}
		writeRow(&b, name, quoted(o.def), o.values(), set, o.help)
	}
	return b.String()
}

// writeRow writes a line of a table.
func writeRow(b *strings.Builder, cells ...string) {
	for _, cell := range cells {
		b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}

// quoted returns a value as a table of the page shows it.
func quoted(value string) string {
	if value == "" {
		return "empty"
	}
	return "`" + value + "`"
}

// values describes the values that an option accepts.
func (o *option) values() string {
	size := func(n int64) string { return strconv.FormatInt(n, 10) }
	switch o.kind {
	case kindBool:
		return "`yes`, `no`"
	case kindEnum:
		return "`" + strings.Join(o.enum, "`, `") + "`"
	case kindOctal:
		return "octal, up to 777"
	case kindWords:
		return "words"
	case kindBytes:
		size = formatBytes
		if o.min == 0 && o.max == 0 {
			return "bytes"
		}
	case kindInt:
	default:
		return "text"
	}
	if o.max == 0 {
		return "from " + size(o.min)
	}
	return size(o.min) + " to " + size(o.max)
}

// renderOnly lists the options with one supported value.
func renderOnly() string {
	var b strings.Builder
	b.WriteString("\n## Options with one supported value\n\n| option | value | anything else | why |\n|---|---|---|---|\n")
	for i := range options {
		if o := &options[i]; o.why != "" {
			other := "refused"
			if o.tolerate {
				other = "a warning in the log, also of `CONFIG SET`"
			}
			writeRow(&b, "`"+o.name+"`", quoted(o.only), other, o.why)
		}
	}
	return b.String()
}

// renderUnsupported lists the directives that are refused.
func renderUnsupported() string {
	var b strings.Builder
	b.WriteString("\n## Refused directives\n\nThe server does not start with them:\n\n")
	for _, name := range slices.Sorted(maps.Keys(unsupported)) {
		fmt.Fprintf(&b, "- `%s`: %s\n", name, unsupported[name])
	}
	return b.String()
}

// renderTuning lists the options that are accepted without effect.
func renderTuning() string {
	var b strings.Builder
	b.WriteString("\n## Accepted without effect\n\nThey tune Redis's own machinery. `CONFIG GET` shows them, `CONFIG SET` changes\nthose that it changes there, to what Redis takes, and nothing else comes of it. The server's log names those that were given a\nvalue other than their default:\n\n")
	names := make([]string, len(compat))
	for i, o := range compat {
		names[i] = "`" + o.name + "`"
	}
	writeWrapped(&b, strings.Join(names, ", ")+".", "", "")
	b.WriteString("\nA file may also have these, of other versions of Redis and of Valkey; `CONFIG` does not know them:\n\n")
	passed := slices.Sorted(maps.Keys(passedOver))
	for i, name := range passed {
		passed[i] = "`" + name + "`"
	}
	writeWrapped(&b, strings.Join(passed, ", ")+".", "", "")
	return b.String()
}
