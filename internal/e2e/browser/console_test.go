//go:build browser

package browser

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// Lines of the console are commands as redis-cli has them; help and completion come from COMMAND DOCS.
func TestConsole(t *testing.T) {
	p := open(t, "")
	p.see("console")
	p.wait("Tab completes")
	line := func(text string) {
		p.set("#command", text)
		p.click("Run")
	}
	line(`SET "a b" "\x00\"q"`)
	p.gives("\x00\"q", "GET", "a b")
	line(`SET user:"a b" x"(empty)"`)
	p.gives("x(empty)", "GET", "user:a b")
	line("LRANGE nothing 0 -1")
	p.wait("(empty array)")
	line("NONSENSE")
	p.wait("(error) ERR unknown command 'NONSENSE'")
	line(`SET "open`)
	p.wait("A quote does not end.")
	line("ECHO (empty)")
	p.wait("\n\"(empty)\"")
	line("CLIENT INFO")
	p.wait("laddr=http")
	p.set("#command", "pexpir")
	p.wait("PEXPIREAT")
	p.set("#command", "pexpireat")
	p.wait("PEXPIREAT key unix-time-milliseconds")
}

// split are lines and their words; nil where the line is none.
var split = map[string][]string{
	`foo"bar baz" user:'a b'`: {"foobar baz", "user:a b"},
	`""  ''`:                  {"", ""},
	`"\x41\xz\X41\n\a\\\""`:   {"AxzX41\n\a\\\""},
	`'a\'b\n'`:                {`a'b\n`},
	`a\ b`:                    {`a\`, "b"},
	`"\😀é"`:                   {"😀é"},
	"a\u00a0b\u2003":          {"a\u00a0b\u2003"},
	"a\vb \vc":                {"a\vb", "c"},
	"\"a\"\vb\tc ":            {"a", "b", "c"},
	`"a"b`:                    nil,
	`'a''b'`:                  nil,
	"\"a\"\u00a0":             nil,
	`"open`:                   nil,
	`a'b`:                     nil,
	`"a\`:                     nil,
}

// A line is split into words as redis-cli does it, which says so itself where it is installed.
func TestWords(t *testing.T) {
	p := open(t, "")
	dice, lines := rand.New(rand.NewPCG(testkit.Seed(t), 1)), []string{}
	for line := range split {
		lines = append(lines, line)
	}
	for range 300 {
		line := ""
		for range dice.IntN(12) {
			line += []string{"a", "x", "4", "n", " ", " ", `"`, `"`, "'", "'", `\`, `\`, "\t", "\v", "\u00a0", "é", "😀"}[dice.IntN(17)]
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	sent, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	js[bool](p, "import('/dashboard/console.js').then(m => { window.words = m.words }), true")
	await.Until(t, "the console's script is loaded", func() bool { return js[bool](p, "!!window.words") })
	page := js[[][]string](p, fmt.Sprintf("%s.map(line => { try { return words(line).map(w => new TextDecoder('utf-8', {ignoreBOM: true}).decode(w)) } catch { return null } })", sent))
	for i, line := range lines {
		if want, ok := split[line]; ok && (!slices.Equal(page[i], want) || (page[i] == nil) != (want == nil)) {
			t.Errorf("%q is split into %q, want %q", line, page[i], want)
		}
	}

	// A list of each line's words behind one that is always there.
	program, found := testkit.Find(t, "redis-cli")
	if !found {
		t.Log("SKIPPED: redis-cli is not installed, so the words are not compared with its")
		return
	}
	var text strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&text, "RPUSH line:%d first %s\n", i, line)
	}
	host, port, _ := strings.Cut(p.server.Addr(), ":")
	cmd := exec.CommandContext(await.Context(t), program, "-h", host, "-p", port)
	cmd.Stdin = strings.NewReader(text.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
	replies, err := p.redis.Pipelined(await.Context(t), func(pipe redis.Pipeliner) error {
		for i := range lines {
			pipe.LRange(await.Context(t), fmt.Sprintf("line:%d", i), 0, -1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		want := replies[i].(*redis.StringSliceCmd).Val()
		var got []string
		if page[i] != nil {
			got = append([]string{"first"}, page[i]...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is split into %q, by redis-cli into %q", line, got, want)
		}
	}
}

// Of a very long or very deep reply as much is shown as one can read.
func TestLongReply(t *testing.T) {
	p := open(t, "")
	p.run("EVAL", "for i = 1, 100000, 1000 do local t = {} for j = 1, 1000 do t[j] = 'element' .. i + j end redis.call('RPUSH', KEYS[1], unpack(t)) end", 1, "list")
	p.see("console")
	p.wait("Tab completes")
	p.set("#command", "LRANGE list 0 -1")
	p.click("Run")
	p.wait(" more)")
	if n := js[int](p, "document.querySelector('.output pre').textContent.length"); n < 100_000 || n > 300_000 {
		t.Errorf("%d characters are shown", n)
	}
	p.set("#command", `EVAL "local t = 'innermost' for i = 1, 100 do t = {t, 'beside'} end return t" 0`)
	p.click("Run")
	p.wait(strings.Repeat("1) ", 100) + `"innermost"`)
}
