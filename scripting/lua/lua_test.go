package lua

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
	_ "keyp/internal/testkit/setup"
)

// harness runs the program in ARGV[1] and returns its results, or its error, as one text. Numbers
// in this text have all their digits.
const harness = `local seen = {} local function num(v) if v ~= v or v == 1/0 or v == -1/0 or v == math.floor(v) and v > -1e14 and v < 1e14 then return tostring(v) end local m, e = math.frexp(v) local high = math.floor(m * 2^26) return tostring(v) .. '(' .. high .. ',' .. (m * 2^26 - high) * 2^27 .. ',' .. e .. ')' end local function dump(v, depth) if type(v) == 'number' then return num(v) elseif type(v) == 'string' then return "'" .. v .. "'" elseif type(v) ~= 'table' then return type(v) == 'boolean' and tostring(v) or type(v) elseif depth > 4 then return '{...}' end local s = '{' for k, x in pairs(v) do s = s .. dump(k, depth + 1) .. '=' .. dump(x, depth + 1) .. ',' end return s .. '}' end local function list(...) local s = '' for i = 1, select('#', ...) do s = s .. ' ' .. dump((select(i, ...)), 0) end return s end local f, e = loadstring(ARGV[1], '@user_script') if not f then return ' compile: ' .. e end return list(pcall(f))`

// newTestState returns a state with this package's libraries, and globals as in Redis.
func newTestState(t testing.TB) *State {
	t.Helper()
	L := NewState()
	g := L.Globals()
	L.OpenBase(g)
	g.SetString(L, "table", L.OpenTable().Value())
	g.SetString(L, "math", L.OpenMath().Value())
	g.SetString(L, "coroutine", L.OpenCoroutine().Value())
	g.SetString(L, "pcall", L.NewFunction("pcall", redisPCall))
	g.SetString(L, "getfenv", Nil)
	g.SetString(L, "setfenv", Nil)
	meta := L.NewTable(0, 1)
	meta.SetString(L, "__index", L.NewFunction("", func(L *State) int {
		L.Errorf("Script attempted to access nonexistent global variable '%s'", L.CheckString(2))
		return 0
	}))
	g.SetMetatable(meta)
	for _, name := range []string{"table", "math", "coroutine"} {
		g.GetString(name).AsTable().SetReadonly(true)
	}
	text := L.NewTable(0, 4)
	for name, fn := range map[string]Builtin{
		"len": func(L *State) int { L.PushNumber(float64(len(L.CheckString(1)))); return 1 },
		"rep": func(L *State) int {
			s, n := L.CheckString(1), L.CheckInt(2)
			L.Reserve(len(s) * max(n, 0))
			L.Push(L.String(strings.Repeat(s, max(n, 0))))
			return 1
		},
	} {
		text.SetString(L, name, L.NewFunction(name, fn))
	}
	text.SetReadonly(true)
	g.SetString(L, "string", text.Value())
	strings := L.NewTable(0, 1)
	strings.SetString(L, "__index", text.Value())
	strings.SetReadonly(true)
	L.SetStringMetatable(strings)
	return L
}

// runHarness runs a program in the harness, and returns the harness's text.
func runHarness(t testing.TB, L *State, source string) string {
	t.Helper()
	p, err := Compile(harness, CompileOptions{Name: "@user_script"})
	if err != nil {
		t.Fatal(err)
	}
	g := L.Globals()
	g.SetReadonly(false)
	args := L.NewTable(1, 0)
	args.SetInt(L, 1, L.String(source))
	g.SetString(L, "ARGV", args.Value())
	g.SetReadonly(true)
	results, e := L.PCall(L.Load(p, nil), nil, nil)
	if e != nil {
		return "error: " + e.Error()
	}
	s, _ := results[0].AsString()
	return s
}

// example is a program with its result in Redis's Lua.
type example struct{ source, want string }

const examplesFile = "../../testdata/scripts/programs.txt"

// examples reads the programs. They are blocks of lines, separated by an empty line. The last line
// of a block is "=> " followed by the result, quoted as in Go.
func examples(t testing.TB) (list []example) {
	t.Helper()
	data, err := os.ReadFile(examplesFile)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		source, want, ok := strings.Cut(block, "\n=> ")
		if ok {
			want, err = strconv.Unquote(want)
			if err != nil {
				t.Fatalf("%s: %v", block, err)
			}
		}
		list = append(list, example{source, want})
	}
	return list
}

// TestPrograms runs every program and compares its result with that of Redis.
func TestPrograms(t *testing.T) {
	for _, e := range examples(t) {
		if got := runHarness(t, newTestState(t), e.source); got != e.want {
			t.Errorf("%s\n got %s\nwant %s", e.source, got, e.want)
		}
	}
}

var update = flag.Bool("update", false, "write what redis-server says into the file of programs")

// redisHarness returns a function that runs the harness in a redis-server.
func redisHarness(t testing.TB) func(source string) string {
	client := testkit.Redis(t, "--busy-reply-threshold", "0").Client(2)
	return func(source string) string {
		t.Helper()
		reply, err := client.Eval(context.Background(), harness, nil, source).Text()
		if err != nil {
			return "error: " + err.Error()
		}
		return reply
	}
}

// TestProgramsAsRedis compares the expected results with those of a redis-server.
func TestProgramsAsRedis(t *testing.T) {
	eval := redisHarness(t)
	list := examples(t)
	for i, e := range list {
		got := eval(e.source)
		if got != e.want && !*update {
			t.Errorf("%s\nredis %s\n want %s", e.source, got, e.want)
		}
		list[i].want = got
	}
	if !*update {
		return
	}
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s\n=> %q\n\n", e.source, e.want)
	}
	if err := os.WriteFile(examplesFile, []byte(strings.TrimSuffix(b.String(), "\n")),
		0o644); err != nil {
		t.Fatal(err)
	}
}

// redisPCall is pcall as in Redis 7.0. If the error is a table with a text in "err", it returns
// that text. It returns any other table followed by nil.
func redisPCall(L *State) int {
	co := L.running
	co.need(L, 1)
	at := co.frame().base
	copy(co.stack[at+1:co.top+1], co.stack[at:co.top])
	co.stack[at] = True
	co.top++
	fn := at
	if L.NArgs() > 0 {
		fn++ // without arguments Redis calls the placeholder
	}
	if L.try(handler{}, func() { L.callAt(fn, all) }) {
		return co.top - at
	}
	n := L.caught(nil)
	if t := L.Top(1).AsTable(); t != nil {
		s := t.GetString("err")
		if s.isText() {
			L.Pop(1)
			n--
		}
		L.Push(s)
		n++
	}
	return n
}
