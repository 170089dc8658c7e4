package config

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// summary describes Keyp.
const summary = "a durable Redis-protocol store for data with a time to live"

// Use is a way to call the program.
type Use struct {
	Name   string // of the subcommand; empty: none
	Args   string
	Help   string
	Status string // what its exit statuses mean
}

// The meanings of exit statuses, for tools that have no others.
const (
	usualStatus   = "0, or 1 after a mistake or a failure"
	partialStatus = "0; 1: not all was %s; 2: a mistake, or a failure"
)

// Uses are all ways to call the program.
var Uses = []Use{
	{"", "[FILE | -] [--OPTION VALUE...]...", "run the server", usualStatus},
	{"", "--check-config [FILE | -]...", "check a configuration", "0: it is valid; 1: it is not"},
	{"check", "DIR", "verify a data directory; --verbose: name all that is damaged",
		"0: it is sound; 1: it is not, or a failure"},
	{"repair", "DIR NEWDIR", "save what is left of a damaged one",
		"0; 1: data is lost; 2: a mistake, or a failure"},
	{"compact", "DIR", "free the unused space of its data file", usualStatus},
	{"import", "FILE|DIR --dir NEWDIR", "import files of Redis; --to ADDR: into a running server",
		fmt.Sprintf(partialStatus, "imported")},
	{"export", "DIR|ADDR FILE", "write keys as a file that Redis reads",
		fmt.Sprintf(partialStatus, "exported")},
	{"backup", "ADDR|DIR TARGET", "back up a server or a directory; verify FILE proves it",
		usualStatus},
	{"restore", "BACKUP NEWDIR", "make a data directory of a backup", usualStatus},
	{"cluster", "create ADDR ADDR...", "make a group; also add, remove, replace, status, recover",
		usualStatus},
	{"health", "[ADDR]", "ask a server whether it is ready", "0: it is ready; 1: it is not"},
	{"completion", "bash | zsh | fish", "print what completes the command line in a shell",
		usualStatus},
	{"help", "[TOPIC]", "explain a command, an option or a topic below; also -h", usualStatus},
	{"version", "", "print the version; also -v", usualStatus},
}

// subcommands returns those of Uses that have a subcommand.
func subcommands() []Use {
	return slices.DeleteFunc(slices.Clone(Uses), func(u Use) bool { return u.Name == "" })
}

// line returns the use as it is typed.
func (u Use) line() string { return strings.Join(strings.Fields("keyp "+u.Name+" "+u.Args), " ") }

// sources explains where options come from. It mentions - and FILE of Uses.
const sources = `FILE is in redis.conf's syntax; - reads it from standard input. Options come from the file, then
from environment variables (KEYP_MAXMEMORY=1gb), then from the command line (--maxmemory 1gb or
--maxmemory=1gb); the last value counts. CONFIG SET changes those marked * while the server runs,
CONFIG REWRITE writes them to the file.
`

const examples = `keyp
keyp --port 7000 --dir /var/lib/keyp
keyp /etc/keyp.conf --appendfsync everysec
echo "maxmemory 128mb" | keyp -
`

// shownGroups are the groups whose options have a help text, in the order of the help.
var shownGroups = []string{groupNetwork, groupCluster, groupHTTP, groupTLS, groupData, groupMemory,
	groupValues, groupClients, groupExpiry, groupLog, groupWatch}

// allOptions is the topic for all options.
const allOptions = "options"

// topic returns the topic of a group of options: the first word of the group's name.
func topic(group string) string {
	word, _, _ := strings.Cut(strings.ToLower(group), " ")
	return word
}

// topics returns the topics of all groups, and allOptions.
func topics() (list []string) {
	list = append(list, allOptions)
	for _, group := range shownGroups {
		list = append(list, topic(group))
	}
	return list
}

// HasTopic reports whether a word is a topic.
func HasTopic(word string) bool { return slices.Contains(topics(), word) }

func indent(text string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

// Help writes the output of `keyp help` for a topic: a group of options, all options, or one
// option. Without a topic it writes how the program is called. Help of subcommands is not here. An
// unknown topic is an error.
func Help(w io.Writer, about string) error {
	var b strings.Builder
	name := strings.TrimPrefix(strings.ToLower(about), "--")
	option := slices.IndexFunc(options, func(o option) bool {
		return o.is(name) && o.group != groupCompat
	})
	switch {
	case about == "":
		helpUses(&b)
	case name == allOptions:
		for _, group := range shownGroups {
			helpGroup(&b, group)
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:\n", groupCompat)
		writeWrapped(&b, strings.Join(withoutEffect(), ", "), "  ", "  ")
	case option >= 0:
		options[option].usage(&b)
	case passedOver[name]:
		fmt.Fprintf(&b, "%s is accepted for redis.conf's sake, and has no effect\n", name)
	case unsupported[name] != "":
		fmt.Fprintf(&b, "%s is refused: %s\n", name, unsupported[name])
	case directives[name] != "":
		fmt.Fprintf(&b, "%s: %s\n", name, directives[name])
	case compatible(name) != nil:
		o := compatible(name)
		switch {
		case o.why == "":
			fmt.Fprintf(&b, "%s is accepted for redis.conf's sake, and has no effect\n", o.name)
		case o.tolerate:
			fmt.Fprintf(&b, "%s has no effect, and values other than %q have a warning: %s\n",
				o.name, o.only, o.why)
		default:
			fmt.Fprintf(&b, "%s is accepted as %q, and refused with another value: %s\n",
				o.name, o.only, o.why)
		}
	default:
		for _, group := range shownGroups {
			if topic(group) == name {
				helpGroup(&b, group)
			}
		}
		if b.Len() == 0 {
			return fmt.Errorf("there is no topic %q%s", about,
				suggestion(name, slices.Concat(topics(), subcommandNames(), optionNames())))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// helpUses writes the help without a topic.
func helpUses(b *strings.Builder) {
	fmt.Fprintf(b, "Keyp %s: %s.\n\nUsage:\n", Version, summary)
	for _, u := range Uses {
		fmt.Fprintf(b, "  %-41s %s\n", u.line(), u.Help)
	}
	b.WriteString("\n" + indent(sources) + "\n")
	writeWrapped(b, strings.Join(topics(), ", "), "Topics: ", "        ")
}

// helpGroup lists the options of a group with their defaults.
func helpGroup(b *strings.Builder, group string) {
	fmt.Fprintf(b, "%s:\n", group)
	for o := range optionsOf(group) {
		o.usage(b)
	}
}

// ExitStatus returns the meaning of a subcommand's exit statuses. The subcommand must exist.
func ExitStatus(name string) string {
	i := slices.IndexFunc(Uses, func(u Use) bool { return u.Name == name })
	return Uses[i].Status
}

// optionsOf yields the options of a group, in order.
func optionsOf(group string) iter.Seq[*option] {
	return func(yield func(*option) bool) {
		for i := range options {
			if o := &options[i]; o.group == group && !yield(o) {
				return
			}
		}
	}
}

// effective yields the options that have an effect, group by group.
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

// directives explains the lines of the file that are no options.
var directives = map[string]string{
	"user":           "user NAME RULE... makes a user, with the rules of ACL SETUSER",
	"include":        "include PATH reads other lines in its place; PATH may have * and ?",
	"rename-command": `rename-command OLD NEW makes clients call a command by another name; "" removes it`,
}

// is reports whether name is the option's name or alias.
func (o *option) is(name string) bool { return o.name == name || o.alias != "" && o.alias == name }

// compatible returns the option of a name that is accepted for redis.conf's sake; nil if there is
// none.
func compatible(name string) *option {
	for _, list := range [][]option{options, compat} {
		for i := range list {
			if list[i].group == groupCompat && list[i].is(name) {
				return &list[i]
			}
		}
	}
	return nil
}

// withoutEffect returns the names of the options that are accepted for redis.conf's sake.
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

// usage writes the name, help and default of an option.
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

// width is the largest length of a line of the help.
const width = 100

// writeWrapped writes text in lines. The first line begins with first, and each further one with
// rest.
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
