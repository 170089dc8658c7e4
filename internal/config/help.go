package config

import (
	"fmt"
	"io"
	"strings"
)

// Version is Keyp's own version.
const Version = "0.1.0"

const usageHead = `Keyp %s: a durable Redis-protocol store for data with a time to live.

Usage:
  keyp [FILE | -] [--OPTION VALUE...]...    run the server
  keyp check DIR                            verify a data directory
  keyp repair DIR NEWDIR                    save what is left of a damaged one
  keyp compact DIR                          free the unused space of its data file
  keyp health [ADDR]                        ask a server at its http-addr whether it is ready
  keyp -h | --help
  keyp -v | --version

  FILE is in redis.conf's syntax; - reads it from standard input. Options come
  from the file, then from environment variables (KEYP_MAXMEMORY=1gb), then from
  the command line (--maxmemory 1gb or --maxmemory=1gb); the last value counts. CONFIG SET changes
  those marked * while the server runs, CONFIG REWRITE writes them to the file.

Examples:
  keyp
  keyp --port 7000 --dir /var/lib/keyp
  keyp /etc/keyp.conf --appendfsync everysec
  echo "maxmemory 128mb" | keyp -
`

// Usage writes the text of --help: every option under its heading with its default.
func Usage(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, usageHead, Version)
	for _, group := range []string{groupNetwork, groupHTTP, groupTLS, groupData, groupMemory, groupValues, groupClients, groupExpiry, groupLog, groupWatch} {
		fmt.Fprintf(&b, "\n%s:\n", group)
		for i := range options {
			if o := &options[i]; o.group == group {
				o.usage(&b)
			}
		}
	}
	fmt.Fprintf(&b, "\n%s:\n", groupCompat)
	var names []string
	for _, list := range [][]option{options, compat} {
		for _, o := range list {
			if o.group == groupCompat {
				names = append(names, o.name)
			}
		}
	}
	writeWrapped(&b, strings.Join(names, ", "), "  ", "  ")
	_, err := io.WriteString(w, b.String())
	return err
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
