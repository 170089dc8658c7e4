package lua

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// generator writes random programs that end. They use the values, operators and statements of the
// language, and many of them raise errors.
type generator struct {
	*rand.Rand
	b      strings.Builder
	locals []string
	depth  int
	names  int
	loops  int
}

func (g *generator) pick(list ...string) string { return list[g.IntN(len(list))] }

var randomConstants = []string{"nil", "true", "false", "0", "1", "2", "3", "-1", "0.5", "1e15",
	"2^53", "1/0", "0/0", "-0", "'a'", "'b'", "'10'", "'0x10'", "' 7 '", "''",
	"'key'", "{}", "{1,2,3}", "{1,nil,3}", "{a=1,b=2}", "'abc'", "7", "100", "1e300", "-2.5"}

var randomFunctions = []string{"type", "tostring", "tonumber", "math.floor", "math.abs", "math.max",
	"math.min", "math.sqrt", "math.fmod", "math.pow", "math.exp", "math.log", "math.sin",
	"select", "unpack", "next", "rawget", "rawequal", "table.concat", "table.getn", "table.maxn",
	"table.remove", "table.insert", "pcall", "string.len", "ipairs", "pairs", "setmetatable",
	"getmetatable", "assert", "error", "xpcall", "rawset", "table.sort", "math.frexp", "math.modf",
	"math.ceil", "math.log10", "table.foreach", "coroutine.wrap", "loadstring", "math.nothing"}

func (g *generator) variable() string {
	if len(g.locals) == 0 || g.IntN(30) == 0 {
		return g.pick("missing", "t", "x")
	}
	return g.locals[g.IntN(len(g.locals))]
}

func (g *generator) expr() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 4 {
		return g.pick(g.variable(), randomConstants[g.IntN(len(randomConstants))])
	}
	switch g.IntN(16) {
	case 0, 1, 2:
		return randomConstants[g.IntN(len(randomConstants))]
	case 3, 4, 5:
		return g.variable()
	case 6, 7:
		return g.expr() + " " + g.pick("+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=",
			">", ">=", "and", "or") + " " + g.expr()
	case 8:
		return g.pick("-", "not ", "#") + g.operand()
	case 9:
		return "(" + g.expr() + ")"
	case 10:
		return g.operand() + "[" + g.expr() + "]"
	case 11:
		return g.operand() + "." + g.pick("a", "b", "x", "key")
	case 12, 13:
		return randomFunctions[g.IntN(len(randomFunctions))] + "(" + g.list(g.IntN(4)) + ")"
	case 14:
		n := g.IntN(4)
		items := make([]string, n)
		for i := range items {
			items[i] = g.pick("", "", "a=", "["+g.key()+"]=", "b=") + g.expr()
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return "function(a, b) " + g.pick("return a", "return a, b", "return "+g.variable(), "error(a)",
		"return b + a", "return a < b", "return "+g.expr()) + " end"
}

// key returns an expression for a new key. The key is no table or function, because these are
// hashed by address, so that the order of pairs would differ each time.
func (g *generator) key() string {
	return g.pick("1", "2", "3", "4", "0.5", "'a'", "'x'", "'key'", "true", "2^53", "-1",
		"tonumber("+g.expr()+")", "tostring(tonumber("+g.expr()+"))", "#"+g.operand())
}

// operand returns an expression that may be indexed.
func (g *generator) operand() string {
	if g.IntN(3) > 0 {
		return g.variable()
	}
	return "(" + g.expr() + ")"
}

func (g *generator) list(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = g.expr()
	}
	return strings.Join(items, ", ")
}

func (g *generator) local() string {
	g.names++
	name := fmt.Sprintf("v%d", g.names)
	return name
}

func (g *generator) block() {
	scope := len(g.locals)
	for range 1 + g.IntN(3) {
		g.statement()
	}
	g.locals = g.locals[:scope]
}

func (g *generator) statement() {
	g.depth++
	defer func() { g.depth-- }()
	kind := g.IntN(12)
	if g.depth > 3 && kind > 5 {
		kind = g.IntN(6)
	}
	if kind >= 8 && kind <= 10 {
		if g.loops > 1 {
			kind = 0
		}
		g.loops++
		defer func() { g.loops-- }()
	}
	switch kind {
	case 0, 1, 2:
		e, name := g.expr(), g.local()
		fmt.Fprintf(&g.b, "local %s = %s\n", name, e)
		g.locals = append(g.locals, name)
	case 3:
		fmt.Fprintf(&g.b, "%s = %s\n", g.variable(), g.expr())
	case 4:
		fmt.Fprintf(&g.b, "%s[%s] = %s\n", g.variable(), g.key(), g.expr())
	case 5:
		fmt.Fprintf(&g.b, "%s.%s, %s = %s\n", g.variable(), g.pick("a", "b", "x"), g.variable(),
			g.list(1+g.IntN(3)))
	case 6:
		fmt.Fprintf(&g.b, "if %s then\n", g.expr())
		g.block()
		g.b.WriteString("else\n")
		g.block()
		g.b.WriteString("end\n")
	case 7:
		name, more := g.local(), g.local()
		fmt.Fprintf(&g.b, "local function %s(%s, ...)\n", name, more)
		scope := len(g.locals)
		g.locals = append(g.locals, more)
		g.block()
		fmt.Fprintf(&g.b, "return %s\nend\n", g.pick("...", g.expr(), more))
		g.locals = append(g.locals[:scope], name)
	case 8:
		name := g.local()
		fmt.Fprintf(&g.b, "for %s = %s, %s do\n", name,
			g.pick("1", "2", "'1'", "math.max(-5, "+g.expr()+")"), g.pick("3", "5", "0"))
		g.inLoop(name)
	case 9:
		// A loop that adds to its own table may never end, or end differently in each
		// implementation. So the body changes another table, or only collects what it sees.
		key, value := g.local(), g.local()
		over := g.pick("pairs", "ipairs", "next")
		if g.IntN(2) == 0 {
			seen := g.local()
			fmt.Fprintf(&g.b,
				"local %s = {}\nfor %s, %s in %s(%s) do\n%s[#%s + 1] = {%s, %s}\nend\n", seen, key,
				value, over, g.expr(), seen, seen, key, value)
			g.locals = append(g.locals, seen)
			break
		}
		items := make([]string, g.IntN(4))
		for i := range items {
			items[i] = g.pick("", "", "a=", "["+g.key()+"]=", "b=") + g.expr()
		}
		fmt.Fprintf(&g.b, "for %s, %s in %s({%s}) do\n", key, value, over,
			strings.Join(items, ", "))
		g.inLoop(key, value)
	case 10:
		fmt.Fprintf(&g.b, "while %s do\n", g.expr())
		g.block()
		g.b.WriteString("if 1 then break end\nend\n")
	case 11:
		fmt.Fprintf(&g.b, "r[#r + 1] = %s\n", g.expr())
	}
}

func (g *generator) inLoop(names ...string) {
	scope := len(g.locals)
	g.locals = append(g.locals, names...)
	g.block()
	g.locals = g.locals[:scope]
	g.b.WriteString("end\n")
}

func (g *generator) program() string {
	g.b.WriteString("local r = {}\n")
	g.locals = append(g.locals, "r")
	for range 2 + g.IntN(6) {
		g.statement()
	}
	fmt.Fprintf(&g.b, "return r, %s\n", g.list(1+g.IntN(2)))
	return g.b.String()
}

// opaque reports whether a result differs from run to run, because it shows addresses or the order
// of keys that are hashed by address. Results that show the string library differ too, because here
// it is only a part of Redis's.
func opaque(s string) bool {
	return strings.Contains(s, ": 0x") || strings.Contains(s, "function=") ||
		strings.Contains(s, "{}=") || strings.Contains(s, "}=") || strings.Contains(s, "'__index'=")
}

// TestRandomProgramsAsRedis compares results of random programs with those of a redis-server.
// KEYP_DIFF_SEED selects other programs, and KEYP_DIFF_PROGRAMS sets their number.
func TestRandomProgramsAsRedis(t *testing.T) {
	client := testkit.Redis(t, "--busy-reply-threshold", "0").Client(2)
	seed, programs := testkit.Number(t, "KEYP_DIFF_SEED", testkit.Seed(t)),
		testkit.Number(t, "KEYP_DIFF_PROGRAMS", 500)
	failures := 0
	for i := range programs {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, i))}
		source := g.program()
		want, err := client.Eval(t.Context(), harness, nil, source).Text()
		if err != nil {
			want = "error: " + err.Error()
		}
		got := runHarness(t, newTestState(t), source)
		if got != want && !opaque(want) {
			t.Errorf("seed %d, program %d:\n%s\n  got %s\nredis %s", seed, i, source, got, want)
			if failures++; failures > 5 {
				t.Fatal("and so on")
			}
		}
	}
}
