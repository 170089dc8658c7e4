package group

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/testkit/members"
)

// docs/operate/group.md shows shell sessions, and TestPage runs them. page is the state of these
// sessions: the second continues where the first one ends.
type page struct {
	t       *testing.T
	cli     string
	servers []*testkit.Server
	ports   []string          // each of the page's, and the one that stands for it
	dirs    map[string]string // what stands for the page's directories
}

// TestPage runs the sessions in docs/operate/group.md, line by line, with other ports and
// directories.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operate/group.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t, cli: testkit.Program(t, "redis-cli"), dirs: map[string]string{}}
	steps := 0
	for _, session := range strings.Split(string(text), "```console\n")[1:] {
		session, _, _ = strings.Cut(session, "```")
		for _, step := range strings.Split(session, "$ ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			p.step(strings.Fields(command), want)
			steps++
		}
	}
	if steps < 16 {
		t.Errorf("the page has %d steps", steps)
	}
}

func (p *page) step(words []string, want string) {
	p.t.Helper()
	switch {
	case words[len(words)-1] == "&": // keyp --port PORT --dir DIR OPTIONS &
		s := testkit.NewKeyp(p.t, testkit.Options{
			Args: words[5 : len(words)-1], Env: []string{"KEYP_CLUSTER_PORT=" +
				strconv.Itoa(testkit.FreePort(p.t))}, Dir: p.dirs[words[4]],
		})
		s.Start()
		p.servers, p.ports = append(p.servers, s), append(p.ports, words[2], s.Port())
		p.dirs[words[4]] = s.Dir()
	case words[0] == "kill": // -9 %NUMBER...
		p.kill(words[2:])
	case words[0] == "rm": // -r DIR...
		for _, dir := range words[2:] {
			if err := os.RemoveAll(p.dirs[dir]); err != nil {
				p.t.Fatal(err)
			}
		}
	case words[0] == "keyp" && words[2] == "recover":
		if _, known := p.dirs[words[4]]; !known {
			p.dirs[words[4]] = filepath.Join(p.t.TempDir(), words[4])
		}
		words[3], words[4] = p.dirs[words[3]], p.dirs[words[4]]
		p.run(words, want)
	default:
		for i := range words {
			words[i] = p.given().Replace(words[i])
		}
		p.run(words, want)
	}
}

func (p *page) kill(jobs []string) {
	p.t.Helper()
	for _, job := range jobs {
		n, err := strconv.Atoi(strings.TrimPrefix(job, "%"))
		if err != nil {
			p.t.Fatal(jobs)
		}
		p.servers[n-1].Kill()
	}
	running := slices.DeleteFunc(slices.Clone(p.servers), func(s *testkit.Server) bool {
		return !s.Running()
	})
	if len(running) > len(p.servers)/2 {
		await.Until(p.t, "another member leads, as it does before somebody has typed a line",
			func() bool {
				return slices.ContainsFunc(running, func(s *testkit.Server) bool {
					return members.Role(s) == "master"
				})
			})
	}
}

// given returns a Replacer for the page's ports.
func (p *page) given() *strings.Replacer { return strings.NewReplacer(p.ports...) }

// varies has the parts of lines that differ in each run.
var varies = []struct {
	*regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "INSTANT"},
	{regexp.MustCompile(`(entry|term|entries after) \d+`), "$1 N"},
	{regexp.MustCompile(`recovered in [0-9.]+[a-zµ]+`), "recovered in TIME"},
	{
		regexp.MustCompile(`(all of its entries are|its last entry is not|its last \d+ entries are not) known to be committed.*`),
		"HOW MANY ARE COMMITTED"},
	// The others are in the order of their ports.
	{regexp.MustCompile(`in a group with .*`), "in a group with OTHERS"},
}

// same returns a text without the parts that differ in each run.
func same(text string) string {
	for _, v := range varies {
		text = v.ReplaceAllString(text, v.to)
	}
	return text
}

// run runs a command, which must print the text of the page.
func (p *page) run(words []string, want string) {
	p.t.Helper()
	program := testkit.Binary(p.t)
	if words[0] == "redis-cli" {
		program = p.cli
	}
	cmd := exec.CommandContext(await.Context(p.t), program, words[1:]...)
	got, err := cmd.CombinedOutput()
	out := string(got)
	for name, dir := range p.dirs {
		out = strings.ReplaceAll(out, dir, name)
	}
	want = p.given().Replace(want)
	if refused := strings.Contains(want, "\nkeyp: "); refused != (err != nil) ||
		same(out) != same(want) {
		p.t.Errorf("%s gives\n%s, %v, want\n%s", fmt.Sprint(words), out, err, want)
	}
}
