package commands

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// This file generates the tables of commands in docs/reference/commands.md. It tests that the page
// agrees with the declarations of the commands.

var updatePage = flag.Bool("update", false,
	"write the generated part of the page again instead of comparing it")

const (
	commandsPage = "../docs/reference/commands.md"
	updateHow    = "go test ./commands -run TestCommandsPage -update"
	// docs/reference/commands.md begins with a handwritten part; the rest is generated from the
	// declarations of commands. generatedMark is the line between the two.
	generatedMark = "<!-- From here on generated: " + updateHow + " -->\n"
)

// pageGroups are the headings of the page in order.
var pageGroups = []struct {
	group Group
	title string
}{
	{KeypGroup, "Keyp's own"},
	{StringGroup, "Strings"},
	{Bitmap, "Bitmaps"},
	{Generic, "Keys and deadlines"},
	{HashGroup, "Hashes"},
	{ListGroup, "Lists"},
	{SetGroup, "Sets"},
	{SortedSet, "Sorted sets"},
	{HyperLogLog, "HyperLogLog"},
	{Geo, "Places"},
	{StreamGroup, "Streams"},
	{Transactions, "Transactions"},
	{PubSub, "Publish and subscribe"},
	{Scripting, "Scripts"},
	{Connection, "Connections"},
	{ServerGroup, "Server"},
	{Cluster, "Cluster"},
}

// TestCommandsPage: the page contains the declaration of every command.
func TestCommandsPage(t *testing.T) {
	have, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(have), generatedMark)
	if !found {
		t.Fatalf("%s has no line %q", commandsPage, generatedMark)
	}
	want := head + generatedMark + renderCommands(t, NewTable().All())
	if want == string(have) {
		return
	}
	if !*updatePage {
		t.Fatalf("%s is not what the declarations say; run %s\n%s", commandsPage, updateHow,
			firstDifference(string(have), want))
	}
	if err := os.WriteFile(commandsPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// firstDifference shows the first line that differs.
func firstDifference(have, want string) string {
	old, now := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i, line := range now {
		if i == len(old) || old[i] != line {
			return fmt.Sprintf("line %d should be\n%s", i+1, line)
		}
	}
	return fmt.Sprintf("it should end after line %d", len(now))
}

// renderCommands writes a section for each group of commands. It has the names of Redis's commands,
// and all details of Keyp's own.
func renderCommands(t *testing.T, specs []*Spec) string {
	t.Helper()
	groups := map[Group][]*Spec{}
	for _, spec := range specs {
		if spec.Run != nil {
			groups[spec.Group] = append(groups[spec.Group], spec)
		}
		for i := range spec.Sub {
			if sub := &spec.Sub[i]; sub.Name != "HELP" {
				groups[sub.Group] = append(groups[sub.Group], sub)
			}
		}
	}
	var b strings.Builder
	for _, g := range pageGroups {
		list := groups[g.group]
		delete(groups, g.group)
		if len(list) == 0 {
			continue
		}
		slices.SortFunc(list, func(x, y *Spec) int { return cmp.Compare(x.full, y.full) })
		fmt.Fprintf(&b, "\n## %s\n\n", g.title)
		if g.group == KeypGroup {
			renderOwn(t, &b, list)
			continue
		}
		for i, spec := range list {
			end := ",\n"
			if i == len(list)-1 {
				end = "\n"
			}
			name := "`" + spec.fullName() + "`"
			if redisDocuments(spec) {
				name = "[" + name + "](" + redisCommands +
					strings.ReplaceAll(strings.ToLower(spec.fullName()), " ", "-") + "/)"
			}
			b.WriteString(name + end)
		}
	}
	for group := range groups {
		t.Errorf("the page has no heading for group %q", group)
	}
	return b.String()
}

// redisCommands is the address at which Redis documents each command on a page of its own.
const redisCommands = "https://redis.io/docs/latest/commands/"

// redisDocuments reports whether Redis has a page about a command. It has none for its own test
// commands, for those of KeyDB, or for one that Keyp adds to a container command of Redis.
func redisDocuments(s *Spec) bool {
	name := s.fullName()
	return !strings.HasPrefix(name, "DEBUG") && name != "PFDEBUG" && name != "PFSELFTEST" &&
		!strings.Contains(name, "EXPIREMEMBER") && name != "CLUSTER FOUND"
}

func (s *Spec) fullName() string {
	if s.parent != nil {
		return s.parent.Name + " " + s.Name
	}
	return s.Name
}

// renderOwn writes a table of Keyp's own commands, and the sessions that use all of them.
func renderOwn(t *testing.T, b *strings.Builder, list []*Spec) {
	t.Helper()
	b.WriteString("| command | what it does | complexity |\n|---|---|---|\n")
	all := ""
	for _, example := range keypExamples {
		all += example.session
	}
	for _, spec := range list {
		name := spec.fullName()
		what := spec.Summary
		switch reply := noExample[name]; {
		case reply != "":
			what += " Replies " + reply + "."
		case !strings.Contains(all, "\n> "+name+" ") && !strings.Contains(all, "\n> "+name+"\n"):
			t.Errorf("%s has no example", name)
		}
		cells := []string{"`" + synopsis(spec) + "`", what,
			strings.TrimSuffix(spec.Complexity, ".")}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	b.WriteString("\nSessions with these commands, as redis-cli shows them. The first begins at the time 1700000000000.\n")
	for _, example := range keypExamples {
		fmt.Fprintf(b, "\n### %s\n\n```\n%s```\n", example.title,
			strings.TrimSpace(session(t, example.session))+"\n")
	}
}

// synopsis returns a command with its arguments. Optional ones are in square brackets, alternatives
// are separated by bars, and dots mean that an argument may be repeated.
func synopsis(spec *Spec) string {
	words := []string{spec.fullName()}
	for i := range spec.Args {
		words = append(words, spec.Args[i].synopsis())
	}
	return strings.Join(words, " ")
}

func (a *Arg) synopsis() string {
	var parts []string
	for _, part := range a.Args {
		// A part of an alternative is never marked as optional, because one can choose another
		// alternative.
		part.Optional = part.Optional && a.Type != ArgOneOf
		parts = append(parts, part.synopsis())
	}
	var text string
	switch a.Type {
	case ArgToken:
		text = a.Token
	case ArgOneOf:
		text = strings.Join(parts, " | ")
		// The square brackets of an optional argument also hold the alternatives together.
		if !a.Optional || a.Multiple || a.Token != "" {
			text = "<" + text + ">"
		}
	case ArgBlock:
		text = strings.Join(parts, " ")
	default:
		text = a.Name
	}
	word := ""
	if a.Token != "" && a.Type != ArgToken {
		word = a.Token + " "
	}
	switch {
	case a.Repeats:
		text += " [" + word + text + " ...]"
	case a.Multiple && a.Type == ArgOneOf: // often too long to be said twice
		text += " ..."
	case a.Multiple:
		text += " [" + text + " ...]"
	}
	text = word + text
	if a.Optional {
		text = "[" + text + "]"
	}
	return text
}

func TestSynopsis(t *testing.T) {
	tests := []struct {
		arg  Arg
		want string
	}{
		{keyArg("key"), "key"},
		{patternArg("p").after("GET").opt().manyTimes(), "[GET p [GET p ...]]"},
		{keyArg("key").many(), "key [key ...]"},
		{keyArg("key").many().opt(), "[key [key ...]]"},
		{intArg("count").after("COUNT").opt(), "[COUNT count]"},
		{intArg("id").after("ID").many().opt(), "[ID id [id ...]]"},
		{word("GET").opt(), "[GET]"},
		{oneOf("mode", word("ON"), word("OFF")), "<ON | OFF>"},
		{oneOf("mode", word("ON"), intArg("n").after("IN")).opt(), "[ON | IN n]"},
		{oneOf("skipme", word("YES"), word("NO")).after("SKIPME").opt(), "[SKIPME <YES | NO>]"},
		{oneOf("filter", intArg("id").after("ID").opt(),
			stringArg("addr").after("ADDR").opt()).many(), "<ID id | ADDR addr> ..."},
		{block("pair", keyArg("key"), stringArg("value")).many(), "key value [key value ...]"},
		{block("auth", stringArg("user"), stringArg("password")).after("AUTH").opt(),
			"[AUTH user password]"},
	}
	for _, tt := range tests {
		if got := tt.arg.synopsis(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.arg.Name, got, tt.want)
		}
	}
}
