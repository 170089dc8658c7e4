package config

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// summary is what Keyp is.
const summary = "a durable Redis-protocol store for data with a time to live"

// Use is a way to call the program.
type Use struct {
	Name string // of the subcommand; empty: none
	Args string
	Help string
}

// Uses are all of them.
var Uses = []Use{
	{"", "[FILE | -] [--OPTION VALUE...]...", "run the server"},
	{"", "--check-config [FILE | -]...", "check a configuration"},
	{"check", "DIR", "verify a data directory"},
	{"repair", "DIR NEWDIR", "save what is left of a damaged one"},
	{"compact", "DIR", "free the unused space of its data file"},
	{"import", "FILE|DIR --dir NEWDIR", "import files of Redis; --to ADDR: into a running server"},
	{"export", "DIR|ADDR FILE", "write keys as a file that Redis reads"},
	{"backup", "ADDR|DIR TARGET", "back up a server or a directory; verify FILE proves it"},
	{"restore", "BACKUP NEWDIR", "make a data directory of a backup"},
	{"cluster", "create ADDR ADDR...", "make a group; add, remove change it, recover saves it"},
	{"health", "[ADDR]", "ask a server at its http-addr whether it is ready"},
	{"completion", "bash | zsh | fish", "print what completes the command line in a shell"},
	{"", "-h | --help", ""},
	{"", "-v | --version", ""},
}

// subcommands are those of Uses that have one.
func subcommands() []Use {
	return slices.DeleteFunc(slices.Clone(Uses), func(u Use) bool { return u.Name == "" })
}

// line is a use as it is typed.
func (u Use) line() string { return strings.Join(strings.Fields("keyp "+u.Name+" "+u.Args), " ") }

// sources says where options come from; -- and FILE are those of Uses.
const sources = `FILE is in redis.conf's syntax; - reads it from standard input. Options come
from the file, then from environment variables (KEYP_MAXMEMORY=1gb), then from
the command line (--maxmemory 1gb or --maxmemory=1gb); the last value counts. CONFIG SET changes
those marked * while the server runs, CONFIG REWRITE writes them to the file.
`

const examples = `keyp
keyp --port 7000 --dir /var/lib/keyp
keyp /etc/keyp.conf --appendfsync everysec
echo "maxmemory 128mb" | keyp -
`

// shownGroups are the groups with a text for each option, in their order.
var shownGroups = []string{groupNetwork, groupCluster, groupHTTP, groupTLS, groupData, groupMemory, groupValues, groupClients, groupExpiry, groupLog, groupWatch}

// usageHead is --help before the options.
func usageHead() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Keyp %s: %s.\n\nUsage:\n", Version, summary)
	for _, u := range Uses {
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-41s %s", u.line(), u.Help), " ") + "\n")
	}
	b.WriteString("\n" + indent(sources) + "\nExamples:\n" + indent(examples))
	return b.String()
}

func indent(text string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

// Usage writes the text of --help: every option under its heading with its default.
func Usage(w io.Writer) error {
	var b strings.Builder
	b.WriteString(usageHead())
	for _, group := range shownGroups {
		fmt.Fprintf(&b, "\n%s:\n", group)
		for o := range optionsOf(group) {
			o.usage(&b)
		}
	}
	fmt.Fprintf(&b, "\n%s:\n", groupCompat)
	writeWrapped(&b, strings.Join(withoutEffect(), ", "), "  ", "  ")
	_, err := io.WriteString(w, b.String())
	return err
}

// optionsOf are the options of a group, in order.
func optionsOf(group string) iter.Seq[*option] {
	return func(yield func(*option) bool) {
		for i := range options {
			if o := &options[i]; o.group == group && !yield(o) {
				return
			}
		}
	}
}

// effective are the options of --help, by group.
func effective() iter.Seq[*option] {
	return func(yield func(*option) bool) {
		for _, group := range shownGroups {
			for o := range optionsOf(group) {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// withoutEffect are the names of the options that are accepted for redis.conf's sake.
func withoutEffect() (names []string) {
	for _, list := range [][]option{options, compat} {
		for _, o := range list {
			if o.group == groupCompat {
				names = append(names, o.name)
			}
		}
	}
	return names
}

// usage writes one option: name, help, default.
func (o *option) usage(b *strings.Builder) {
	mark := " "
	if !o.fixed {
		mark = "*"
	}
	text := o.help
	if o.def != "" {
		text += " [" + o.def + "]"
	}
	head := fmt.Sprintf(" %s --%-33s ", mark, o.name)
	writeWrapped(b, text, head, strings.Repeat(" ", len(head)))
}

// width is where lines of the help end.
const width = 100

// writeWrapped writes text behind first, and behind rest on the lines that follow.
func writeWrapped(b *strings.Builder, text, first, rest string) {
	line := first
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	b.WriteString(line + "\n")
}
