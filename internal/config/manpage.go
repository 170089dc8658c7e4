package config

import (
	"fmt"
	"io"
	"strings"
)

// ManPage writes the manual page keyp(1) from the texts of the help. day is its date, such as
// 2026-01-31.
func ManPage(w io.Writer, day string) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH KEYP 1 %s %s Keyp\n.SH NAME\nkeyp \\- %s\n.SH SYNOPSIS\n", roffWord(day),
		roffWord("Keyp "+Version), roff(summary))
	for i, u := range Uses {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, ".B keyp\n%s\n",
			roff(strings.TrimPrefix(strings.TrimPrefix(u.line(), "keyp"), " ")))
	}
	b.WriteString(".SH DESCRIPTION\nWithout a subcommand the server runs in the foreground until SIGTERM, SIGINT or SHUTDOWN.\nSIGHUP opens the log file again.\n")
	for _, u := range subcommands() {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(strings.TrimPrefix(u.line(), "keyp ")),
			roff(strings.ToUpper(u.Help[:1])+u.Help[1:]))
	}
	b.WriteString(".SH OPTIONS\n" + roff(strings.TrimSpace(sources)) + "\n")
	for _, group := range shownGroups {
		fmt.Fprintf(&b, ".SS %s\n", roffWord(group))
		for o := range optionsOf(group) {
			o.manual(&b)
		}
	}
	fmt.Fprintf(&b, ".SS %s\n%s\n", roffWord(groupCompat),
		roff(strings.Join(withoutEffect(), ", ")))
	b.WriteString(".SH EXIT STATUS\n")
	for _, u := range Uses {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(u.line()), roff(u.Status))
	}
	b.WriteString(".SH EXAMPLES\n.nf\n" + roff(strings.TrimSpace(examples)) +
		"\n.fi\n.SH SEE ALSO\nredis\\-cli(1)\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// manual writes one option: name, whether CONFIG SET may change it, help, default.
func (o *option) manual(b *strings.Builder) {
	mark := ""
	if !o.fixed {
		mark = " *"
	}
	help := o.help
	if o.def != "" {
		help += " [" + o.def + "]"
	}
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff("--"+o.name+mark), roff(help))
}

// roff escapes text for troff, so that no line is taken for a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// roffWord returns text as one argument of a troff request.
func roffWord(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
