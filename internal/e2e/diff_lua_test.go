package e2e

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

// TestDiffLua runs random Lua programs of several kinds on Keyp and Redis. KEYP_DIFF_CASES times
// luaCases is the number of programs of each kind.
const luaCases = 5

// TestDiffLua draws programs of several kinds, each about one subject (arithmetic, formats,
// patterns, tables with gaps, errors, syntax, conversions, libraries). It compares the replies of
// both servers byte by byte.
func TestDiffLua(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	for _, args := range luaData {
		s.mustDo(t, s.keyp, args...)
		s.mustDo(t, s.redis, args...)
	}
	n := diffCases(t) * luaCases
	first := testkit.Number(t, "KEYP_DIFF_SEED", 1)
	for _, kind := range luaKinds {
		t.Run(kind.name, func(t *testing.T) {
			keyp, redis := scriptConns(t, s.keypServer), scriptConns(t, s.redisServer)
			last := 0
			for seed := first; seed < first+n; seed++ {
				g := &luaGen{rand.New(rand.NewPCG(seed, 11))}
				program := luaShow + kind.program(g)
				i := int(seed % 2)
				got, err := keyp[i].do("EVAL", program, "2", "k1", "k2", "3", "010", "x")
				if err != nil {
					t.Fatalf("Keyp, %s: %v", program, err)
				}
				want, err := redis[i].do("EVAL", program, "2", "k1", "k2", "3", "010", "x")
				if err != nil {
					t.Fatalf("Redis, %s: %v", program, err)
				}
				if likeLua(got.raw) == likeLua(want.raw) {
					continue
				}
				if kind.inexact && lastDigits(got.raw, want.raw) {
					last++
					continue
				}
				t.Errorf("KEYP_DIFF_SEED=%d, RESP%d\n%s\nKeyp  %s\nRedis %s", seed, i+2,
					program[len(luaShow):], brief(got.raw), brief(want.raw))
			}
			if most := int(n) / 50; last > most {
				t.Errorf("%d results differ in the last digit, of %d", last, n)
			}
		})
	}
}

// chunkPlace is the name of a chunk in an error of the script's, where Redis has all of a chunk
// that is its own name.
var chunkPlace = regexp.MustCompile(`, on .*`)

// likeLua removes the intended differences from a reply.
func likeLua(raw string) string {
	if strings.Contains(raw, "nan") {
		// The sign of a NaN is not compared, since it is arbitrary in operations on two NaNs, and
		// RESP3 does not show it from 7.2 on.
		raw = bulkLength.ReplaceAllString(strings.ReplaceAll(raw, "-nan", "nan"), "$$")
	}
	if !strings.Contains(raw, ", on @user_script:") {
		raw = chunkPlace.ReplaceAllString(raw, "")
	}
	return raw
}

// luaData has commands that make the data for the programs' commands.
var luaData = [][]string{
	{"SET", "s", "value"}, {"SET", "n", "10"}, {"RPUSH", "l", "a", "b", "3"},
	{"HSET", "h", "f", "1", "g", "two"}, {"SADD", "set", "m"},
	{"ZADD", "z", "1", "a", "2.5", "b"}, {"XADD", "nostream", "NOMKSTREAM", "*", "a", "b"},
}[:6]

var luaKinds = []struct {
	name    string
	inexact bool // results of C's mathematics, which may differ in their last digit
	program func(*luaGen) string
}{
	{"numbers", false, (*luaGen).numbers},
	{"functions", true, (*luaGen).functions},
	{"conversions", false, (*luaGen).texts},
	{"formats", false, (*luaGen).formats},
	{"patterns", false, (*luaGen).patterns},
	{"tables", false, (*luaGen).tables},
	{"sorts", false, (*luaGen).sorts},
	{"errors", false, (*luaGen).errors},
	{"syntax", false, (*luaGen).syntax},
	{"replies", false, (*luaGen).replies},
	{"commands", false, (*luaGen).commands},
	{"json", false, (*luaGen).json},
	{"packed", false, (*luaGen).packed},
}

// luaShow is a Lua function that returns a full description of a value.
const luaShow = `local function show(v, depth) depth = depth or 0 local kind = type(v) if kind == "number" then return string.format("%.17g", v) end ` +
	`if kind == "string" then return string.format("%q", v) end if kind ~= "table" then return kind == "function" and kind or tostring(v) end if depth > 3 then return "..." end ` +
	`local r = {} for k, x in pairs(v) do r[#r + 1] = show(k, depth + 1) .. "=" .. show(x, depth + 1) end return "{" .. table.concat(r, ", ") .. "}" end ` +
	`local function all(...) local r = {} for i = 1, select("#", ...) do r[i] = show((select(i, ...))) end return table.concat(r, " | ") end ` + "\n"

var luaNumber = regexp.MustCompile(`-?[0-9][0-9.]*(?:e[-+]?[0-9]+)?`)

// lastDigits returns true if two replies differ only in the last digits of numbers.
func lastDigits(a, b string) bool {
	if bulkLength.ReplaceAllString(luaNumber.ReplaceAllString(a, "#"),
		"") != bulkLength.ReplaceAllString(luaNumber.ReplaceAllString(b, "#"), "") {
		return false
	}
	x, y := luaNumber.FindAllString(a, -1), luaNumber.FindAllString(b, -1)
	for i := range x {
		f, _ := strconv.ParseFloat(x[i], 64) // a length, or what %.17g wrote
		g, _ := strconv.ParseFloat(y[i], 64)
		if f != g && i > 0 && math.Abs(f-g) > math.Abs(f)*0x1p-51 {
			return false
		}
	}
	return true
}

// luaGen draws programs.
type luaGen struct{ *rand.Rand }

func (g *luaGen) from(list ...string) string { return list[g.IntN(len(list))] }
func (g *luaGen) one(in int) bool            { return g.IntN(in) == 0 }
func (g *luaGen) int(low, high int) string   { return strconv.Itoa(low + g.IntN(high-low+1)) }

// list joins the results of up to most calls of fn.
func (g *luaGen) list(most int, fn func() string) string {
	parts := make([]string, g.IntN(most+1))
	for i := range parts {
		parts[i] = fn()
	}
	return strings.Join(parts, ", ")
}

func (g *luaGen) number() string {
	switch g.IntN(6) {
	case 0:
		return g.from("(1/0)", "(-1/0)", "(0/0)", `tonumber("-0")`, "1e308", "5e-324", "2^53",
			"2^53+1", "2^63", "-2^63", "2^64", "1e15", "1e14", "123456789012345")
	case 1:
		return strconv.FormatFloat(g.NormFloat64()*100, 'g', -1, 64)
	case 2:
		return g.from("0.1", "0.2", "0.3", "1e-5", "1e5", "3.14", "2.5", "-2.5", "1.5", "0.5",
			"1e21", "1e-10", "100", "0x10", "0xffffffff", "1e2")
	case 3:
		return `"` + g.int(-20, 20) + `"`
	default:
		return g.int(-10, 10)
	}
}

func (g *luaGen) arithmetic(depth int) string {
	if depth == 0 || g.one(5) {
		return g.number()
	}
	switch g.IntN(8) {
	case 0:
		return "(- " + g.arithmetic(depth-1) + ")"
	case 1:
		return fmt.Sprintf("math.%s(%s)", g.from("floor", "ceil", "abs", "sqrt"),
			g.arithmetic(depth-1))
	case 2:
		return fmt.Sprintf("math.%s(%s, %s)", g.from("fmod", "max", "min", "mod"),
			g.arithmetic(depth-1), g.arithmetic(depth-1))
	case 3:
		return fmt.Sprintf("(%s %s %s)", g.arithmetic(depth-1), "%", g.arithmetic(depth-1))
	default:
		return fmt.Sprintf("(%s %s %s)", g.arithmetic(depth-1), g.from("+", "-", "*", "/", "%"),
			g.arithmetic(depth-1))
	}
}

func (g *luaGen) numbers() string {
	x := g.arithmetic(4)
	return fmt.Sprintf("local a, b = %s, %s return {all(pcall(function() return %s, a %% b, a == b, a < b, -a, a .. '' end)), tostring(%s), math.floor(b)}",
		g.number(), g.number(), x, x)
}

func (g *luaGen) functions() string {
	switch g.IntN(5) {
	case 4:
		return fmt.Sprintf("return all(math.%s(%s %% 1000))", g.from("sin", "cos", "tan"),
			g.arithmetic(2))
	case 0:
		return fmt.Sprintf("return all(%s ^ %s)", g.arithmetic(1), g.arithmetic(1))
	case 1:
		return fmt.Sprintf("return all(pcall(math.%s, %s, %s))",
			g.from("pow", "atan2", "ldexp", "fmod"), g.arithmetic(1), g.arithmetic(1))
	default:
		return fmt.Sprintf("return all(pcall(math.%s, %s))",
			g.from("exp", "log", "log10", "exp", "log", "asin", "acos", "atan", "frexp", "modf",
				"deg", "rad", "sqrt", "cosh"), g.arithmetic(2))
	}
}

// texts draws conversions between numbers and text.
func (g *luaGen) texts() string {
	text := g.from(" ", "", "", "", "\\t") + g.from("-", "+", "", "", "") + g.from("0x", "0X", "",
		"", "", "", "0") + g.int(0, 300) + g.from("", "", ".", ".5", "e3", "e-400", "e400", "p2",
		"ff", "_", "x", "nan", "inf", "e", "e+", "1e1") + g.from("", "", " ", "\\0", "a")
	return fmt.Sprintf(`local s = %s return all(tonumber(s), tonumber(s, %s), pcall(function() return s + 1 end), tostring(tonumber(s)), pcall(tonumber, s, %s), %s .. %s)`,
		g.from(`"`+text+`"`, `"`+text+`"`, `"inf"`, `"-nan"`, `"infinity"`, `"0x"`, `"."`,
			g.number()), g.from("16", "10", "2", "36", "8"), g.from("1", "37", "0", "'x'", "10.9"),
		g.arithmetic(1), g.arithmetic(1))
}

// text draws the literal of a string.
func (g *luaGen) text() string {
	parts := make([]string, g.IntN(6))
	for i := range parts {
		parts[i] = g.from("a", "b", "ab", "X", "12", " ", ",", "(", ")", "%%", ".", "-", `\0`, `\n`,
			`\r`, `\\`, `\"`, `\200`, "hello", "a,b")
	}
	return `"` + strings.Join(parts, "") + `"`
}

func (g *luaGen) formats() string {
	var format strings.Builder
	args := []string{}
	for range 1 + g.IntN(3) {
		format.WriteString(g.from("", "x", "|", "%%"))
		format.WriteString("%")
		for range g.IntN(3) {
			format.WriteString(g.from("-", "+", " ", "#", "0"))
		}
		format.WriteString(g.from("", "", "", "1", "5", "12", "99", "100"))
		if g.one(3) {
			format.WriteString("." + g.from("", "0", "1", "5", "20", "99", "100"))
		}
		format.WriteString(g.from("d", "i", "u", "o", "x", "X", "e", "E", "f", "g", "G", "c", "q",
			"s", "s", "d", "g", "a", "y", ""))
		switch {
		case g.one(15):
		case g.one(3):
			args = append(args, g.from(g.text(), "nil", "true", "{}", `("x"):rep(120)`,
				`("\0y"):rep(70)`))
		default:
			args = append(args, g.arithmetic(1))
		}
	}
	return fmt.Sprintf("return all(pcall(string.format, %s))",
		strings.Join(append([]string{strconv.Quote(format.String())}, args...), ", "))
}

func (g *luaGen) class() string {
	return g.from("a", "b", ".", "%a", "%d", "%s", "%w", "%p", "%A", "%z", "[ab]", "[^a]",
		"[a-c%d]", "[]]", "[^]a]", "[%a_]", "[a-]", "x", "l", "[%]x]", "[", "%", "[a", "%x",
		"%u", "%c", "[b-a]")
}

func (g *luaGen) pattern(depth int) string {
	var b strings.Builder
	for range g.IntN(4) {
		switch {
		case depth > 0 && g.one(4):
			b.WriteString("(" + g.pattern(depth-1) + g.from(")", ")", ")", ")", ""))
		case g.one(12):
			b.WriteString(g.from("%b()", "%bab", "%f[%a]", "%f[^a]", "%1", "%2", "()", "%b", "%f",
				"%bx", "$", "^", "%0"))
		default:
			b.WriteString(g.class() + g.from("", "", "", "*", "+", "-", "?"))
		}
	}
	return b.String()
}

func (g *luaGen) patterns() string {
	p := strconv.Quote(g.from("", "", "", "^") + g.pattern(2) + g.from("", "", "", "$"))
	s := g.from(g.text(), g.text(), `"aabbab(ab)ba"`, `"key = value, k2=v2"`, `"((a)(b))"`,
		`"THE (quick) fox"`, `"a\0b\0"`, `""`)
	init := g.from("", "", ", 2", ", -1", ", 0", ", 100", ", -100", ", nil", ", 2.7")
	switch g.IntN(4) {
	case 0:
		return fmt.Sprintf("return all(pcall(string.%s, %s, %s%s))", g.from("find", "match"), s, p,
			init)
	case 1:
		return fmt.Sprintf("return all(pcall(function() local r = {} for a, b, c in string.gmatch(%s, %s) do r[#r + 1] = {a, b, c} if #r > 20 then break end end return r end))",
			s, p)
	case 2:
		by := g.from(`"x"`, `"%0%0"`, `"<%1>"`, `"%2"`, `"%"`, `"%%"`, `"%x"`,
			`{a="A", ab=1, b=false}`, `{}`, `function(a, b) return b end`,
			`function(a) return {} end`, `string.upper`, "1", "nil", "true",
			`function() end`, `function(...) return select("#", ...) end`)
		return fmt.Sprintf("return all(pcall(string.gsub, %s, %s, %s%s))", s, p, by,
			g.from("", "", "", ", 1", ", 0", ", -1", ", 1.9", ", nil"))
	default:
		return fmt.Sprintf("return all(pcall(string.find, %s, %s%s, %s))", s, g.from(p, g.text()),
			g.from(", 1", ", 3", ", -2"), g.from("true", "false", "1"))
	}
}

// tables draws changes of a table with gaps, and looks at it in all ways.
func (g *luaGen) tables() string {
	var b strings.Builder
	item := func() string {
		return g.from("nil", "1", "2", `"a"`, "true", "3.5", "x=1", `["y"]=2`, "[3]=3", "[5]=5",
			"[1]=9", "[-1]=1", "[0]=0", "[2.5]=1", "[2^40]=1", "[1e300]=2", "f()",
			"(f())", "nil, nil")
	}
	fmt.Fprintf(&b, "local function f() return 7, 8, nil, 9 end local t = {%s} ", g.list(8, item))
	for range g.IntN(8) {
		switch g.IntN(7) {
		case 0:
			fmt.Fprintf(&b, "t[%s] = nil ", g.int(-1, 9))
		case 1:
			fmt.Fprintf(&b, "pcall(table.insert, t, %s) ",
				g.from("5", `"z"`, "1, 2", "3, nil", "0, 1", "10, 1", `"2", 3`, "nil", "#t, 4"))
		case 2:
			fmt.Fprintf(&b, "table.remove(t%s) ", g.from("", ", 1", ", 2", ", 0", ", #t", ", 100"))
		case 3:
			fmt.Fprintf(&b, "for i = %s, %s do t[i] = %s end ", g.int(1, 4), g.int(1, 12),
				g.from("i", "nil", "i * 2", "tostring(i)"))
		case 4:
			fmt.Fprintf(&b, "for i = %s, 1, -1 do t[i] = i end ", g.int(1, 9))
		case 5:
			fmt.Fprintf(&b, "t[%s] = %s ", g.from(`"k"`, "true", "2^31", "1.5", `"1"`, "-0", "16",
				"33"), g.from("1", "nil", `"v"`))
		default:
			fmt.Fprintf(&b, "t[%s] = %s ", g.int(-1, 17), g.from("1", "nil", `"v"`, "{}"))
		}
	}
	fmt.Fprintf(&b,
		`return all(#t, t, pcall(table.concat, t, %s), pcall(unpack, t%s), table.maxn(t), table.getn(t), next(t), pcall(next, t, %s), (function() local n = 0 for _ in ipairs(t) do n = n + 1 end return n end)(), pcall(table.foreachi, t, %s), pcall(table.concat, t, "-", %s))`,
		g.from(`","`, `""`, "1", "nil", "{}"), g.from("", ", 2", ", 1, 5", ", -1, 3", ", 3, 1",
			", 1, 1e8", `, "2"`), g.from("1", `"nokey"`, "nil", "3"),
		g.from("function(i, v) if i > 2 then return v end end", "nil", "print", "tostring"),
		g.from("2", "1, 3", "2, 1", "0, 2", "-3", "1.7, 2.9"))
	return b.String()
}

func (g *luaGen) sorts() string {
	items := g.list(12, func() string {
		if g.one(25) {
			return g.from(`"x"`, "{}", "nil", "0/0", "true")
		}
		return g.int(-9, 9)
	})
	if g.one(4) {
		items = g.list(9, g.text)
	}
	less := g.from("", "", "", ", function(a, b) return a > b end",
		", function(a, b) return true end", ", function(a, b) return tostring(a) < tostring(b) end",
		", function(a, b) return (a + b) % 3 == 0 end",
		", 1", ", nil", `, function(a, b) error("x") end`, ", function() end")
	return fmt.Sprintf("local t = {%s} return all(pcall(table.sort, t%s), t)", items, less)
}

// anyValue draws an expression of any type.
func (g *luaGen) anyValue() string {
	return g.from("nil", "true", "1", `"a"`, "{}", "t", "f", "u", "s", "n", "t.x", "t.y.z", "s.x",
		"t[1]", "n.x", `("x").y`, "redis", "KEYS[1]", "ARGV", "nosuch", "string.nosuch", `"10"`,
		"co")
}

// errors draws failing code, for all ways in which error messages name the cause.
func (g *luaGen) errors() string {
	x, y := g.anyValue(), g.anyValue()
	// Leave out a table without err, as it makes redis-server crash.
	thrown := g.from("nil", "true", "1", `"a"`, `{err="E x"}`, "f", "s", "n")
	wrong := g.from(
		x+"()", "local q = "+x+" + "+y, "local q = "+x+" .. "+y, "local q = #"+x, "local q = -"+x,
		x+".a.b = 1", "t.a.b = "+x, "local q = "+x+" < "+y, "local q = "+x+" <= "+y,
		"t[nil] = 1", "t[0/0] = 1", "u.x = 1", "u()", "t:m()", "s:nosuch()", "n:x()", "t.y()",
		"t.y.z()", "local a a.b = 1", "local a a()", "error("+thrown+")",
		"error("+thrown+", "+g.int(0, 3)+")", "assert("+x+", "+y+")",
		"assert(false)", "assert()", "for i = "+x+", 3 do end", "for i = 1, "+x+" do end",
		"for i = 1, 2, "+x+" do end", "for k in "+x+" do end", "setmetatable("+x+", "+y+")",
		"getmetatable()", "rawset("+x+", 1, 1)",
		"rawget("+x+")", "select("+x+")", "select(0)", "select(-5, 1)", "tostring()", "type()",
		"unpack("+x+")", "ipairs()", "pairs("+x+")", "next("+x+", "+y+")", "tonumber()",
		"string.rep("+x+")", "s:rep("+x+")",
		"string.rep("+x+", "+y+")", "math.floor("+x+")", "math.random(0)", "math.random(2, 1)",
		"string.char("+g.int(-5, 300)+")", "table.concat({1, {}, 3})", "table.insert("+x+", "+y+
			", 3)", "table.insert({}, 1, 2, 3)",
		"coroutine.resume("+x+")", "coroutine.wrap("+x+")()", "coroutine.wrap(function() error("+
			thrown+") end)()", "local c = coroutine.wrap(function() end) c() c()",
		"coroutine.yield(1)", "loadstring("+x+")()",
		`assert(loadstring("x x"))`, `loadstring("error('in')", "=name")()`,
		`loadstring("local a = nil + 1", "@file")()`, `loadstring("\n\nx = 1")()`,
		"redis.call("+x+")", "redis.call("+x+", "+y+")", "redis.pcall()",
		`redis.call("get")`, `redis.call("incr", "l")`, `error(redis.pcall("incr", "l"))`,
		"redis.error_reply("+x+")", "redis.sha1hex()", "redis.setresp("+x+")",
		"redis.log("+x+", "+y+")", "redis.set_repl("+x+")",
		"setmetatable(t, {__index = function(t, k) return k .. "+x+" end}) local q = t.foo",
		"setmetatable(t, {__add = function(a, b) return "+x+" + 1 end}) local q = t + 1",
		"setmetatable(t, {__newindex = function() error('ro') end}) t.x = 1",
		"setmetatable(t, {__call = "+x+"}) t(1)",
		"setmetatable(t, {__metatable = 1}) setmetatable(t, {})",
		"setmetatable(t, {__tostring = function() return "+x+" end}) local q = tostring(t)",
		"nosuch = 1", "redis.x = 1", "string.x = 1", "KEYS.x = 1",
		"local function r() return 1 + r() end r()", "string.format("+x+", "+y+")",
		"cjson.encode(f)", "cjson.decode("+x+")", "cmsgpack.unpack("+x+")", "struct.pack("+x+", "+y+
			")", "bit.band("+x+")", "xpcall("+x+", "+y+")", "pcall()", "xpcall(f)", "load("+x+")",
		"string.gsub(s, '.', "+x+")",
	)
	set :=
		"local t, s, n, u = {y = {}}, 'str', 5 local function f(...) return ... end local co = coroutine.create(f) "
	switch g.IntN(6) {
	case 0:
		return set + wrong
	case 1:
		return set + "\n" + wrong + " return 1"
	case 2:
		return set + "return all(xpcall(function() " + wrong +
			" end, function(e) return show(e) .. '!' end))"
	case 3:
		return set + "local function inner() " + wrong +
			"\nend return all(pcall(function()\n return inner() end))"
	case 4:
		return set + "return all(coroutine.resume(coroutine.create(function() " + wrong + " end)))"
	default:
		return set + "return all(pcall(function() " + wrong + " end))"
	}
}

// syntax makes a valid program invalid.
func (g *luaGen) syntax() string {
	words := strings.Fields(g.from(
		`local a , b = 1 , { x = 2 , [ 3 ] = "s" ; 5 } if a == 1 then b . x = a + 2 elseif not a then return end while a < 3 do a = a + 1 break end`,
		`local function f ( a , ... ) local t = { ... } return a , # t end for i = 1 , 10 , 2 do f ( i ) end for k , v in pairs ( { } ) do k = v end return f ( 1 , nil )`,
		`repeat local x = 0x1F .. "a" until x ~= nil and ( x or true ) == 1 do local s = [[ long ]] : rep ( 2 ) end return - 2 ^ 2 , not nil`,
		`local t = { } function t . a . b : c ( x ) self . y = x end t . a [ "k" ] = 1e3 t : m "str" t . f { 1 } ; return ( t )`,
	))
	for range 1 + g.IntN(2) {
		at := g.IntN(len(words))
		switch g.IntN(4) {
		case 0:
			words = append(words[:at], words[at+1:]...)
		case 1:
			words[at] = g.from("end", "then", "(", ")", "=", "1", "x", `"s"`, "..", "...", "local",
				"function", "%", "@", "~", "{", "}", "[", "]", "[[", "[=", `"open`, "'a\\",
				`"\300"`, "0x", "1e", "3..4", "1.2.3", "return", "break", "nil", "goto", "$", "::",
				"!", "=="+"=", "--[[", "\x01")
		case 2:
			words = append(words[:at],
				append([]string{g.from("end", ",", ";", "=", "do", "in", "until", "1", "x", "\n",
					"break", "return")}, words[at:]...)...)
		default:
			words = words[:at+1]
		}
		if len(words) == 0 {
			words = []string{"x"}
		}
	}
	program := strings.Join(words, g.from(" ", " ", "\n"))
	if g.one(2) {
		return "do return 1 end " + program
	}
	return "return all(loadstring(" + strconv.Quote(program) + g.from("", `, "=n"`, `, "@a/b"`,
		`, "some\ntext"`) + "))"
}

// reply draws a value for the script to return to the client.
func (g *luaGen) reply(depth int) string {
	if depth == 0 || g.one(3) {
		return g.from("nil", "true", "false", "1", "3.5", "-1.5", "1e300", "0/0", `"s"`, `""`,
			`"a\r\nb"`, "f", "{}", "cjson.null")
	}
	v := g.reply(depth - 1)
	return g.from(
		"{"+g.list(4, func() string {
			return g.reply(depth - 1)
		})+"}", "{"+g.list(4, func() string { return g.reply(depth - 1) })+"}", "{ok = "+v+"}",
		"{err = "+v+"}", "{double = "+g.from("1", "-1.5", "1/0", v)+"}", "{map = {a = "+v+"}}",
		"{map = {["+g.int(1, 3)+"] = "+v+"}}",
		"{set = {a = "+v+"}}", "{map = "+v+"}", "{set = "+v+"}", `{big_number = "12"}`,
		"{big_number = "+v+"}", `{verbatim_string = {format = "txt", string = "x"}}`,
		"{verbatim_string = "+v+"}", "{x = "+v+"}", "{1, nil, "+v+"}", `redis.error_reply("MY `+
			g.from("e", "", "a b")+`")`, "redis.status_reply("+v+")",
		"{err = 'E x', "+v+"}", "{ok = 'a', err = 'b'}", "setmetatable({}, {__index = {1, 2}})",
		"{[1] = 1, [2] = "+v+", [4] = 2}",
	)
}

func (g *luaGen) replies() string {
	return "local function f() end " + g.from("", "", "redis.setresp(3) ", "redis.setresp(2) ") +
		"return " + g.reply(3)
}

// commands draws a command, and shows its reply both within the script and as the script's reply.
func (g *luaGen) commands() string {
	call := fmt.Sprintf("redis.%s(%s)", g.from("call", "pcall", "pcall"), g.from(
		`"get", "s"`, `"get", "none"`, `"get", "l"`, `"lrange", "l", 0, -1`, `"hgetall", "h"`,
		`"hget", "h", "f"`, `"smembers", "set"`, `"zrange", "z", 0, -1, "withscores"`,
		`"zscore", "z", "b"`, `"zscore", "z", "no"`,
		`"hmget", "h", "f", "no"`, `"mget", "s", "none", "l"`, `"type", "z"`, `"exists", "s", "l"`,
		`"ping"`, `"ping", "a"`, `"echo", 1.5`, `"echo", 1e20`, `"echo", 3.0`, `"echo", -0.5`,
		`"echo", 2^53`, `"echo", 1e15+0.5`,
		`"echo", "a\0b"`, `"nosuch"`, `"get"`, `"get", {}`, `"get", nil`, `"get", true`,
		`"object", "encoding", "n"`, `"strlen", "s"`, `"incrbyfloat", "new", "0.5"`,
		`"set", "t", "v"`, `"set", "t", "v", "nx"`, `"set", "t", "v", "get"`, `"lpop", "none"`,
		`"lpos", "l", "b"`, `"lpos", "l", "x"`, `"subscribe", "a"`, `"multi"`,
		`"eval", "return 1", 0`, `"zadd", "z", "nan", "a"`, `"zincrby", "z", 0, "a"`,
		`"lmpop", 1, "none", "left"`, `"sismember", "set", "m"`, `"smismember", "set", "m", "n"`,
		`"hrandfield", "h", 0`, `"sort", "l", "alpha"`,
		`"expiretime", "s"`, `"ttl", "none"`, `"select", "1"`, `"dump", "none"`,
		`"getrange", "s", 1, 2`, `"command", "count", "x"`, `"config", "nosuch"`,
		`"object", "freq", "s"`, `"auth", "x"`,
	))
	resp := g.from("", "", "redis.setresp(3) ")
	if g.one(2) {
		return resp + "return " + call
	}
	return resp + "return all(pcall(function() local r = " + call + " return r, type(r) end))"
}

func (g *luaGen) jsonText(depth int) string {
	if depth == 0 || g.one(3) {
		return g.from("1", "-1.5e3", "0", "-0", "0x1F", "007", "1e400", "nan", "-inf", "true",
			"false", "null", `"a"`, `""`, `"\\u00e9\\n\\/"`, `"\\ud83d\\ude00"`, `"\\ud83d"`,
			`"\\x"`, `"a`, "", "tru", "+1", "1.", ".5", "1e", "1e+", "-", "12345678901234567890")
	}
	sep := func() string { return g.from(",", ",", ",", ",", ", ", ",,", ":", "") }
	parts := ""
	open, end := "[", "]"
	key := func() string { return "" }
	if g.one(2) {
		open, end = "{", "}"
		key = func() string {
			return g.from(`"a"`, `"b"`, `"1"`, `""`, "a", "1") +
				g.from(":", ":", ":", " : ", "=", "")
		}
	}
	for i := range g.IntN(4) {
		if i > 0 {
			parts += sep()
		}
		parts += key() + g.jsonText(depth-1)
	}
	return open + parts + g.from(end, end, end, end, end, "", "]", "}", " "+end)
}

// data draws a value for the libraries that encode.
func (g *luaGen) data(depth int) string {
	if depth == 0 || g.one(3) {
		return g.from("nil", "true", "false", "cjson.null", g.number(), g.text(), g.number(),
			`"/\127\31"`, "print", "f", "1/3", "1e15", "123456789.123", "0.1", "-1e-7")
	}
	return "{" + g.list(4, func() string {
		return g.from("", "", "", "a = ", "[2] = ", "[5] = ", `["x y"] = `, "[1.5] = ", "[-1] = ",
			"[true] = ", "[12] = ") + g.data(depth-1)
	}) + "}"
}

// jsonDefaults resets the settings that an earlier script has made, as Redis keeps them.
const jsonDefaults = `cjson.encode_sparse_array(false, 2, 10) cjson.encode_max_depth(1000) cjson.decode_max_depth(1000) cjson.encode_number_precision(14) ` +
	`cjson.encode_invalid_numbers(false) cjson.decode_invalid_numbers(true) cjson.encode_keep_buffer(true) `

func (g *luaGen) json() string {
	option := jsonDefaults + g.from("", "", "", "cjson.encode_sparse_array(true) ",
		"cjson.encode_sparse_array(true, 1, 1) ", "cjson.encode_sparse_array(false, 0) ",
		"cjson.encode_max_depth(2) ", "cjson.decode_max_depth(2) ",
		"cjson.encode_number_precision("+g.int(1, 14)+") ", "cjson.encode_invalid_numbers(true) ",
		`cjson.encode_invalid_numbers("null") `, "cjson.decode_invalid_numbers(false) ",
		"cjson.encode_keep_buffer(false) ", "cjson.encode_max_depth(0) ",
		`cjson.encode_sparse_array("x") `)
	if g.one(2) {
		return "local function f() end " + option + "return all(pcall(cjson.encode, " +
			g.data(3) + "))"
	}
	return option + "return all(pcall(cjson.decode, '" + g.from("", "", " ") + g.jsonText(3) +
		g.from("", "", " ", "x") + "'))"
}

// packed draws uses of cmsgpack, struct and bit.
func (g *luaGen) packed() string {
	format := ""
	for range 1 + g.IntN(4) {
		format += g.from(">", "<", "!", "!4", "=", " ", "b", "B", "h", "H", "i", "I", "i3", "I8",
			"l", "L", "T", "f", "d", "s", "c2", "c0", "Bc0", "x", "!3", "y", "i33", "c", "i0", "16")
	}
	args := g.list(4, func() string { return g.from(g.number(), g.number(), g.text(), "nil") })
	switch g.IntN(5) {
	case 0:
		return fmt.Sprintf("local f = %q local ok, p = pcall(struct.pack, f%s) return all(ok, p, pcall(struct.size, f), pcall(struct.unpack, f, tostring(p)%s))",
			format, strings.TrimSuffix(", "+args, ", "), g.from("", ", 1", ", 2", ", 0", ", 100"))
	case 1:
		return fmt.Sprintf("return all(pcall(struct.unpack, %q, %s%s))", format, g.text(),
			g.from("", ", 1", ", 3", ", -1"))
	case 2:
		return fmt.Sprintf("return all(pcall(bit.%s, %s))", g.from("band", "bor", "bxor", "bnot",
			"lshift", "rshift", "arshift", "rol", "ror", "bswap", "tohex", "tobit"), args)
	case 3:
		return fmt.Sprintf("local function f() end local ok, p = pcall(cmsgpack.pack, %s) return all(ok, p, pcall(cmsgpack.unpack, p), pcall(cmsgpack.unpack_one, p%s), pcall(cmsgpack.unpack_limit, p, %s))",
			g.from(g.data(3), g.data(2)+", "+g.data(1)), g.from("", ", 1", ", -1", ", 100"),
			g.int(-1, 3))
	}
	bytes := ""
	for range g.IntN(6) {
		bytes += fmt.Sprintf("\\%03d", g.IntN(256))
	}
	return fmt.Sprintf(`return all(pcall(cmsgpack.unpack, "%s"))`, bytes)
}
