package commands

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/resp"
)

// TestPageSessions runs the redis-cli sessions in the pages of docs, which are the blocks that
// begin with a command. A line like "(10m later)" moves the clock.
func TestPageSessions(t *testing.T) {
	pages, err := filepath.Glob("../docs/features/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		sessions := 0
		for i, block := range strings.Split(string(text), "```") {
			block = strings.TrimPrefix(block, "\n")
			if i%2 == 0 || !strings.HasPrefix(block, "> ") {
				continue
			}
			sessions++
			if got := session(t, block); got != block {
				t.Errorf("%s shows\n%s\nand is to show\n%s", page, block, got)
			}
		}
		if sessions == 0 {
			t.Errorf("%s shows no session", page)
		}
	}
}

// session returns the block with the replies that its commands get here.
func session(t *testing.T, block string) string {
	h := newHarness(t)
	var out strings.Builder
	for _, line := range strings.Split(block, "\n") {
		if later, ok := strings.CutSuffix(strings.TrimPrefix(line, "("), " later)"); ok &&
			line[0] == '(' {
			d, err := time.ParseDuration(later)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			h.report(d)
			fmt.Fprintln(&out, line)
		}
		if command, ok := strings.CutPrefix(line, "> "); ok {
			words, ok := resp.SplitArgs([]byte(command))
			if !ok {
				t.Fatalf("%s: unbalanced quotes", line)
			}
			text, rest := cliText(h.raw(words...), "")
			if len(rest) > 0 {
				t.Errorf("%s: the reply has something behind it: %q", line, rest)
			}
			fmt.Fprintf(&out, "%s\n%s", line, text)
		}
	}
	return out.String()
}

// cliText shows a RESP2 reply in the same way as redis-cli. Each line but the first is indented.
func cliText(b []byte, indent string) (text string, rest []byte) {
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	body := string(line[1:])
	n, _ := strconv.Atoi(body)
	switch {
	case line[0] == '-':
		return "(error) " + body + "\n", rest
	case line[0] == ':':
		return "(integer) " + body + "\n", rest
	case line[0] != '$' && line[0] != '*':
		return body + "\n", rest
	case n < 0:
		return "(nil)\n", rest
	case line[0] == '$':
		return strconv.Quote(string(rest[:n])) + "\n", rest[n+2:]
	case n == 0:
		return "(empty array)\n", rest
	}
	var out strings.Builder
	width := len(strconv.Itoa(n))
	for i := range n {
		number := fmt.Sprintf("%*d) ", width, i+1)
		if i > 0 {
			out.WriteString(indent)
		}
		var item string
		item, rest = cliText(rest, indent+strings.Repeat(" ", len(number)))
		out.WriteString(number + item)
	}
	return out.String(), rest
}
