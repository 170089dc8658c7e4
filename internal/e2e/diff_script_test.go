package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// diffScripts returns the Lua scripts of testdata/scripts, which Keyp and Redis both run.
func diffScripts(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../testdata/scripts/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	var scripts []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !strings.HasPrefix(line, "# ") {
			scripts = append(scripts, strings.ReplaceAll(line, "¶", "\n"))
		}
	}
	return scripts
}

// scriptRewordings unify the parts of errors that the servers word differently: the name of the
// variable that has the wrong type, and what the parser expected.
var scriptRewordings = []struct {
	find *regexp.Regexp
	with string
}{
	{
		regexp.MustCompile(`(attempt to (?:index|call|concatenate|perform arithmetic on|get length of)) (?:local|global|field|method|upvalue) '[^']*' \(([a-z ]+)\)`),
		"$1 $2"},
	{regexp.MustCompile(`( value) \(field '[^']*'\)`), "$1"},
	{regexp.MustCompile(`(Error compiling script \(new function\): user_script:\d+:).*`), "$1"},
	{regexp.MustCompile(`(, on )[^@]*@?(\[string "|foo=).*`), "$1"},
}

// scriptKnown maps the scripts whose replies differ by intention to the reason.
var scriptKnown = map[string]string{
	`return type(os)`:                                "Redis has os.clock since 7.4",
	`return redis.log(9,"y")`:                        "the text is that of Redis 7.4 and later",
	`return redis.set_repl()`:                        "the text is that of Redis 7.2 and later",
	`return redis.call("blpop","nolist",0)`:          "scripts may call it since 7.2",
	`return redis.call("brpop","nolist",0)`:          "scripts may call it since 7.2",
	`goto x`:                                         "the interpreter knows goto, as Lua 5.2",
	`return tostring(5%0)`:                           "NaN has no sign here",
	`return string.dump(function() end)=="x"`:        "there is no bytecode to dump",
	`local t={3,"a"} table.sort(t) return t`:         "errors of table.sort have a line here",
	`return redis.call("config","get","maxclients")`: "",
	`return cmsgpack.unpack_limit("\001",-1)`:        "Redis's error has another number than was given",
	`local a={} local b={a} a[1]=b return b`:         "the depth at which it ends depends on the size of Lua's stack",
	`return collectgarbage()`:                        "",
}

var bulkLength = regexp.MustCompile(`\$\d+`)

func likeScript(raw string) string {
	if strings.Contains(raw, "attempt to ") {
		raw = bulkLength.ReplaceAllString(raw, "$$")
	}
	for _, r := range scriptRewordings {
		raw = r.find.ReplaceAllString(raw, r.with)
	}
	return raw
}

// TestDiffScripts runs each script on both servers, over RESP2 and RESP3 connections. It compares
// the replies byte by byte after applying scriptRewordings.
func TestDiffScripts(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	scripts := diffScripts(t)
	if len(scripts) < 700 {
		t.Fatalf("only %d scripts", len(scripts))
	}
	compareScripts(t, s, scripts)
}

func compareScripts(t *testing.T, s *both, scripts []string) {
	t.Helper()
	keyp, redis := scriptConns(t, s.keypServer), scriptConns(t, s.redisServer)
	for _, script := range scripts {
		for i := range keyp {
			args := []string{"EVAL", script, "2", "k1", "k2", "3", "010", "x"}
			got, err := keyp[i].do(args...)
			if err != nil {
				t.Fatalf("Keyp, %q: %v", script, err)
			}
			want, err := redis[i].do(args...)
			if err != nil {
				t.Fatalf("Redis, %q: %v", script, err)
			}
			if _, known := scriptKnown[script]; !known &&
				likeScript(got.raw) != likeScript(want.raw) {
				t.Errorf("%q, RESP%d\nKeyp  %.300q\nRedis %.300q", script, i+2, got.raw, want.raw)
			}
		}
	}
}

// scriptConns returns a RESP2 connection and a RESP3 connection.
func scriptConns(t *testing.T, s *testkit.Server) [2]*wire {
	t.Helper()
	var conns [2]*wire
	for i := range conns {
		w, err := dialWire(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		if _, err := w.do("HELLO", fmt.Sprint(i+2)); err != nil {
			t.Fatal(err)
		}
		conns[i] = w
	}
	return conns
}

// TestDiffRandomScripts compares scripts made of random expressions. These use numbers, strings,
// tables and library calls of all kinds, and may fail.
func TestDiffRandomScripts(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	n := diffCases(t)
	var scripts []string
	for seed := range n * 4 {
		g := &scriptGen{rand.New(rand.NewPCG(testkit.Number(t, "KEYP_DIFF_SEED", 1)+seed, 7))}
		var b bytes.Buffer
		fmt.Fprintf(&b, "local a, b, c = %s, %s, %s ", g.value(2), g.value(2), g.value(2))
		for range g.IntN(3) {
			fmt.Fprintf(&b, "%s ", g.statement())
		}
		fmt.Fprintf(&b, "return {pcall(function() return show(%s) end)}", g.expr(3))
		scripts = append(scripts, scriptPrelude+b.String())
	}
	compareScripts(t, s, scripts)
}

// scriptPrelude defines a function that shows a value without the parts that differ between runs.
const scriptPrelude = `local function show(v) if type(v) == "table" then local r = {} for i, x in ipairs(v) do r[i] = type(x) == "table" and "table" or tostring(x) end return "{" .. table.concat(r, ",") .. "}" elseif type(v) == "function" then return "function" end return tostring(v) end `

// scriptGen draws pieces of Lua.
type scriptGen struct{ *rand.Rand }

func (g *scriptGen) from(choices ...string) string { return choices[g.IntN(len(choices))] }

// value draws an expression without variables.
func (g *scriptGen) value(depth int) string {
	switch g.IntN(7) {
	case 0:
		return g.from("0", "1", "-1", "2", "10", "0.5", "-2.25", "1e15", "1e100", "123456789012",
			"3.14159265358979", "0x10", "1/3", "2^53")
	case 1:
		return g.from(`"abc"`, `"10"`, `""`, `"010"`, `"0x1F"`, `" 7 "`, `"hello world"`, `"1e3"`,
			`"a,b,,c"`, `"x=1;y=22"`, `"%d+"`, `"aXbXc"`)
	case 2:
		return g.from("nil", "true", "false")
	case 3:
		if depth > 0 {
			return fmt.Sprintf("{%s, %s, %s}", g.value(depth-1), g.value(depth-1), g.value(depth-1))
		}
		return "{}"
	default:
		return g.from("1", "2", "3", `"abc"`, `"5"`, "{1,2,3}", `{"a","b"}`)
	}
}

func (g *scriptGen) statement() string {
	return g.from("a = b", "b = c", "c = a", "if a then b = c end",
		"for i = 1, 3 do c = {c, i} end",
		`if type(a) == "table" then table.insert(a, b) end`,
		`if type(b) == "table" then table.remove(b) end`, "a = {a, b, c}")
}

// expr draws an expression with the variables a, b and c.
func (g *scriptGen) expr(depth int) string {
	if depth == 0 {
		return g.from("a", "b", "c", g.value(0))
	}
	x, y := g.expr(depth-1), g.expr(depth-1)
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf("(%s %s %s)", x, g.from("+", "-", "*", "/", "..", "==", "<", "<=", "~=",
			"and", "or"), y)
	case 1:
		return fmt.Sprintf("%s(%s)", g.from("tonumber", "type", "not ", "-", "#", "math.floor",
			"string.len", "string.upper", "cjson.encode", "redis.sha1hex", "bit.tobit",
			"string.reverse"), x)
	case 2:
		return fmt.Sprintf("%s(%s, %s)", g.from("string.rep", "string.find", "string.match",
			"string.sub", "string.byte", "table.concat", "math.max", "math.fmod", "bit.band",
			"bit.lshift", "select", "rawequal", "string.format"), x,
			g.from("1", "2", "3", `","`, `"%d+"`, `"b"`, y))
	case 3:
		return fmt.Sprintf("string.format(%s, %s)", g.from(`"%d"`, `"%5.2f"`, `"%s"`, `"%q"`,
			`"%x"`, `"%g"`, `"%-6s|"`, `"%06d"`, `"%+.3e"`), x)
	case 4:
		return fmt.Sprintf("string.gsub(%s, %s, %s)", x,
			g.from(`"[aeiou]"`, `"%w+"`, `"l"`, `"(.)(.)"`, `"%d"`, `"^a"`, `"c$"`, `""`),
			g.from(`"x"`, `"%0%0"`, `"%1"`, `{a=1}`, `function(m) return m:upper() end`))
	default:
		return fmt.Sprintf("(function() local t = %s if type(t) == 'table' then return t[1], #t end return t end)()",
			x)
	}
}

// functionSteps has commands about functions, which both servers get in this order.
var functionSteps = [][]string{
	{"FUNCTION", "LOAD",
		"#!lua name=lib\nredis.register_function('f1', function(k, a) return {k, a} end)"},
	{"FCALL", "f1", "1", "k", "a"}, {"FCALL", "f1", "0"}, {"FCALL_RO", "f1", "0"},
	{"FCALL", "F1", "0"}, {"FCALL", "f1", "x"},
	{"FCALL", "f1", "2", "k"}, {"FCALL", "f1", "-1"}, {"FCALL", "f1"}, {"FCALL", "nosuch", "x"},
	{"FUNCTION", "LOAD", "#!lua name=lib\nx"}, {"FUNCTION", "LOAD", "x"},
	{"FUNCTION", "LOAD", "#!lua"}, {"FUNCTION", "LOAD", "#!lua\n"},
	{"FUNCTION", "LOAD", "#!lua name=a-b\nx"}, {"FUNCTION", "LOAD", "#!py name=ab\nx"},
	{"FUNCTION", "LOAD", "#!lua name=ab foo=1\nx"},
	{"FUNCTION", "LOAD", "#!lua name=ab name=c\nx"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nreturn 1"}, {"FUNCTION", "LOAD", "REPLACE"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nredis.register_function('f1', function() end)"},
	{"FUNCTION", "LOAD", "foo", "#!lua name=lib\nx"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nredis.register_function('f9', 1)"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nredis.register_function{function_name='x'}"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nredis.register_function('f-9', function() end)"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nredis.register_function()"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nredis.register_function{callback=function() end}"},
	{"FUNCTION", "LOAD", "#!lua name=ab\nredis.register_function('a')"},
	{"FUNCTION", "LOAD",
		"#!lua name=ab\nredis.register_function{function_name='x', callback=function() end, flags={'nosuch'}}"},
	{"FUNCTION", "LOAD",
		"#!lua name=ab\nredis.register_function{function_name='x', callback=function() end, flags='x'}"},
	{"FUNCTION", "LOAD",
		"#!lua name=ab\nredis.register_function{function_name='x', callback=function() end, other=1}"},
	{"FUNCTION", "LOAD",
		"#!lua name=ab\nredis.register_function('e', function() error('boom') end)"},
	{"FCALL", "e", "0"},
	{"FUNCTION", "LOAD", "REPLACE",
		"#!lua name=ab\nredis.register_function('e', function() return redis.call('nosuch') end)"},
	{"FCALL", "e", "0"},
	{"FUNCTION", "LOAD", "REPLACE",
		"#!lua name=ab\nredis.register_function('e', function() return foo end)"},
	{"FCALL", "e", "0"},
	{"FUNCTION", "LOAD", "REPLACE",
		"#!lua name=ab\nredis.register_function{function_name='e', callback=function() return redis.call('set', 'a', 'b') end, flags={'no-writes'}}"},
	{"FCALL", "e", "0"}, {"FCALL_RO", "e", "0"}, {"FUNCTION", "LIST", "LIBRARYNAME", "A*"},
	{"FUNCTION", "LIST", "LIBRARYNAME", "ab", "WITHCODE"},
	{"FUNCTION", "LIST", "foo"}, {"FUNCTION", "LIST", "LIBRARYNAME"}, {"FUNCTION", "STATS"},
	{"FUNCTION", "KILL"}, {"FUNCTION", "FLUSH", "x"},
	{"FUNCTION", "DELETE", "nosuch"}, {"FUNCTION", "RESTORE", "x"},
	{"FUNCTION", "RESTORE", "x", "y"}, {"FUNCTION", "RESTORE", "x", "APPEND", "y"},
	{"FUNCTION", "NOSUCH"}, {"SCRIPT", "NOSUCH"}, {"SCRIPT", "KILL"}, {"SCRIPT", "FLUSH", "x"},
	{"SCRIPT", "DEBUG", "x"}, {"SCRIPT", "LOAD", "return 7"},
	{"SCRIPT", "EXISTS", "ffff", "6e5b9d4a1c2f"}, {"EVALSHA", "ffff", "0"},
	{"EVAL", "return 1", "x"}, {"EVAL", "return 1", "2", "a"}, {"EVAL", "return 1", "-1"},
	{"EVAL_RO", "#!lua\nreturn 1", "0"}, {"EVAL_RO", "return redis.call('set', 'a', 'b')", "0"},
	{"EVAL", "#!lua", "0"}, {"EVAL", "#!py\n", "0"},
	{"EVAL", "#!lua x=1\n", "0"}, {"EVAL", "#!lua flags=foo\n", "0"},
	{"EVAL", "#!lua flags=no-writes\nreturn redis.call('set', 'a', 'b')", "0"},
}

// TestDiffFunctions compares the replies to commands about functions and scripts. It also restores
// the FUNCTION DUMP of each server on the other.
func TestDiffFunctions(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	keyp, redis := scriptConns(t, s.keypServer), scriptConns(t, s.redisServer)
	ask := func(w *wire, args ...string) string {
		t.Helper()
		r, err := w.do(args...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return r.raw
	}
	for i := range keyp {
		ask(keyp[i], "FUNCTION", "FLUSH")
		ask(redis[i], "FUNCTION", "FLUSH")
		for _, step := range functionSteps {
			if got, want := ask(keyp[i], step...), ask(redis[i], step...); got != want {
				t.Errorf("%q, RESP%d\nKeyp  %.300q\nRedis %.300q", step, i+2, got, want)
			}
		}
	}
	for _, way := range []struct {
		name     string
		from, to *wire
	}{{"from Keyp to Redis", keyp[0], redis[0]}, {"from Redis to Keyp", redis[0], keyp[0]}} {
		ask(way.from, "FUNCTION", "FLUSH")
		ask(way.to, "FUNCTION", "FLUSH")
		ask(way.from, "FUNCTION", "LOAD",
			"#!lua name=one\nredis.register_function('f1', function() return 'one' end) -- "+
				strings.Repeat("long ", 300))
		ask(way.from, "FUNCTION", "LOAD",
			"#!lua name=two\nredis.register_function{function_name='f2', callback=function() return 'two' end, flags={'no-writes'}}")
		dump, err := way.from.do("FUNCTION", "DUMP")
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(way.to, "FUNCTION", "RESTORE", dump.text); got != "+OK\r\n" {
			t.Errorf("%s: %q", way.name, got)
		}
		if got := ask(way.to, "FCALL", "f1", "0") + ask(way.to, "FCALL_RO", "f2",
			"0"); got != "$3\r\none\r\n$3\r\ntwo\r\n" {
			t.Errorf("%s: %q", way.name, got)
		}
		if got, want := ask(way.to, "FUNCTION", "RESTORE", dump.text),
			"-ERR Library "; !strings.HasPrefix(got, want) {
			t.Errorf("%s again: %q", way.name, got)
		}
	}
}
