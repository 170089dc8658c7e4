package scripting

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/resp"
)

// The limits of a script during fuzzing: the time after which it is killed, its processor time, the
// memory that it may hold, and the memory that the process may get from the system.
const (
	fuzzKill   = 300 * time.Millisecond
	fuzzCPU    = 6 * time.Second
	fuzzMemory = 16 << 20
	fuzzTotal  = 1 << 30
)

// bounded runs source as a script, in both protocols, and as a library. It checks that the program
// ends when it is killed, holds little memory, and gives one complete reply or one error.
func bounded(t *testing.T, e *Engine, source string) {
	t.Helper()
	began := cpuTime()
	for proto := 2; proto <= 3; proto++ {
		script, err := e.Compile(source, nil)
		if err != nil {
			if out := (&resp.Writer{}); err.Error() == "" || !oneError(out, err) {
				t.Fatalf("%.2000q does not compile: %q", source, err)
			}
			break
		}
		r := &Run{Host: &host{replies: fuzzReplies}, Name: "sha", Keys: [][]byte{[]byte("k1")},
			Args: [][]byte{[]byte("3"), []byte("a\x00")}}
		timer := time.AfterFunc(fuzzKill, func() { r.Kill(ErrKilled) })
		out := &resp.Writer{Proto: proto}
		e.Eval(script, r, out)
		timer.Stop()
		if rest, err := testkit.Reply(out.Buf, proto); err != nil || len(rest) > 0 {
			t.Fatalf("%.2000q: RESP%d: %v, with %.200q behind it", source, proto, err, rest)
		}
	}
	if _, err := e.Load(source, fuzzKill, nil); err != nil && err.Error() == "" {
		t.Fatalf("%.2000q: an error without a text", source)
	}
	if took := cpuTime() - began; took > fuzzCPU {
		t.Fatalf("%.2000q takes %v", source, took)
	}
	if size := totalMemory(); size > fuzzTotal {
		t.Fatalf("%.2000q leaves %d MB", source, size>>20)
	}
}

// oneError reports whether an error gives exactly one complete reply.
func oneError(out *resp.Writer, err error) bool {
	out.Error("ERR " + err.Error())
	rest, wrong := testkit.Reply(out.Buf, 2)
	return wrong == nil && len(rest) == 0
}

// fuzzReplies are replies of every type.
var fuzzReplies = map[string]string{
	"get": "$1\r\nv\r\n", "none": "$-1\r\n", "int": ":-7\r\n",
	"list": "*3\r\n:1\r\n$1\r\na\r\n*1\r\n+OK\r\n", "map": "%1\r\n+a\r\n:1\r\n",
	"set":    "~1\r\n$1\r\nm\r\n",
	"double": ",1.5\r\n", "inf": ",inf\r\n", "nan": ",nan\r\n", "null": "_\r\n", "true": "#t\r\n",
	"big": "(12345678901234567890\r\n", "text": "=7\r\ntxt:abc\r\n", "nilarray": "*-1\r\n",
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // cannot fail for oneself
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// totalMemory returns how much memory the process has from the system. If that is a lot, it runs
// the garbage collector first.
func totalMemory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	if size := sample[0].Value.Uint64() - sample[1].Value.Uint64(); size < fuzzTotal {
		return size
	}
	runtime.GC()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - sample[1].Value.Uint64() - heapFree()
}

func heapFree() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() + sample[1].Value.Uint64()
}

// FuzzProgram runs any text, once unchanged and once with a part of it repeated, which makes deep
// nesting.
func FuzzProgram(f *testing.F) {
	for _, source := range []string{
		"return 1", "return redis.call('get')",
		"local t = {} for i = 1, 10 do t[i] = i .. 'x' end return t", "x x",
		"return 1e999 .. -0x7fffffffffffffff",
		"return {double=1/0, map={a=1}}", "if a then b() elseif c then d() else e() end",
		"local function f(...) return select('#', ...), ... end return f(1, nil)",
		"goto x ::x::", "--[==[ ]==] return [[\n]]", "return ('\\255\\x\\u{1}'):byte(1, -1)",
		"local a <const> = 1", "repeat local x = 1 until x", "return #arg, _VERSION",
		"for k, v in pairs(redis) do local x = k end",
		"return string.format('%5.2s|%q', 'abc', '\\0')", "\x1bLua", "#!lua name=x\nreturn 1",
	} {
		f.Add(source, uint16(0), uint8(0), uint16(0))
	}
	for _, nest := range []struct{ before, part, after string }{
		{"return ", "(", "1"}, {"return ", "{", "}"}, {"return ", "-", "1"}, {"return ", "not ",
			"1"}, {"return a", ".b", ""}, {"return a", "[1]", ""}, {"return f", "()", ""},
		{"return 1", "+1", ""}, {"return 1", "..1", ""}, {"return 2", "^2", ""}, {"", "do ", "end"},
		{"", "while x do ", ""}, {"if a then ", "elseif b then ", "end"},
		{"if a then b() ", "else if c then d() ", "end"}, {"return ", "function() return ", "1"},
		{"x", ",x", "=1"}, {"local a", ",a", ""}, {"return f", "'x'", ""}, {"return f", "{}", ""},
		{"return 'a", "\\n", "'"}, {"return ", "--[[", ""}, {"", ";", ""}, {"", "local x = 1 ", ""},
		{"", "local function f() ", ""}, {"return {", "1,", "}"}, {"", "x.y=1 ", ""},
		{"return 1", " and 1", ""},
		{"return f(", "f(", ")"}, {"", "repeat ", "until x"}, {"", "for i=1,2 do ", "end"},
		{"return 1", "0", ""}, {"return ", "a:b", "()"}, {"return [", "=", "["},
		{"return x", " == x", ""}, {"return ", "#", "x"},
	} {
		f.Add(nest.before+nest.part+nest.after, uint16(len(nest.before)), uint8(len(nest.part)),
			uint16(2000))
	}
	e := testEngine(fuzzMemory)
	f.Fuzz(func(t *testing.T, source string, at uint16, length uint8, times uint16) {
		if len(source) > 4096 {
			return // nothing new is in longer ones
		}
		from := min(int(at), len(source))
		to := min(from+int(length), len(source))
		bounded(t, e, source[:from]+strings.Repeat(source[from:to], int(times))+source[to:])
	})
}

// exprMaker generates calls of the libraries' functions with random arguments.
type exprMaker struct{ testkit.Dice }

// functions are the functions that scripts can call.
var functions = []string{
	"cjson.encode", "cjson.decode", "cmsgpack.pack", "cmsgpack.unpack", "cmsgpack.unpack_one",
	"cmsgpack.unpack_limit", "struct.pack", "struct.unpack", "struct.size",
	"string.format", "string.rep", "string.find", "string.match", "string.gmatch", "string.gsub",
	"string.sub", "string.byte", "string.char", "string.reverse", "string.upper",
	"string.len", "string.lower",
	"bit.band", "bit.bor", "bit.bxor", "bit.bnot", "bit.lshift", "bit.rshift", "bit.arshift",
	"bit.rol", "bit.ror", "bit.bswap", "bit.tohex", "bit.tobit",
	"table.concat", "table.insert", "table.remove", "table.sort", "table.maxn", "table.getn",
	"table.foreach", "table.foreachi", "unpack", "select", "tonumber", "tostring", "type", "pairs",
	"ipairs", "next",
	"rawget", "rawset", "rawequal", "setmetatable", "getmetatable", "pcall", "xpcall", "error",
	"assert", "loadstring", "load", "coroutine.wrap", "coroutine.create", "coroutine.resume",
	"coroutine.status",
	"coroutine.running", "math.random", "math.randomseed", "math.floor", "math.fmod", "math.modf",
	"math.frexp", "math.ldexp", "math.max", "math.pow", "math.huge", "redis.call", "redis.pcall",
	"redis.sha1hex",
	"redis.error_reply", "redis.status_reply", "redis.log", "redis.setresp", "redis.set_repl",
	"redis.breakpoint", "redis.debug", "redis.acl_check_cmd", "redis.register_function",
	"redis.replicate_commands",
	"cjson.encode_max_depth", "cjson.decode_max_depth", "cjson.encode_sparse_array",
	"cjson.encode_number_precision", "cjson.encode_keep_buffer", "cjson.encode_invalid_numbers",
	"cjson.decode_invalid_numbers",
	"cjson.new", "os.clock", "collectgarbage", "gcinfo", "newproxy", "setfenv", "getfenv",
	"string.dump", "print", "require", "nosuch.nosuch",
}

var atoms = []string{
	"nil", "true", "false", "0", "1", "-1", "2", "3", "10", "0.5", "-0", "1e15", "2^31", "2^31-1",
	"-2^31", "2^32", "2^53", "2^63", "-2^63", "1e308*10", "-1e308*10", "0/0", "1e-320", "255",
	"256", "65536", "1e7",
	`""`, `"a"`, `"abc"`, `"\0"`, `"\255\254"`, `"10"`, `"0x10"`, `" 5 "`, `"1e400"`, `KEYS`,
	`ARGV`, `ARGV[1]`, `cjson.null`, `{}`, `{1,2,3}`, `{a=1}`, `{[2]="x"}`, `{1,nil,3}`,
	`{err="E x"}`, `{ok="s"}`,
	`{double=1/0}`, `{map={[1]=2}}`, `{set={a=true}}`, `{big_number="12"}`,
	`{verbatim_string={format="txt",string="x"}}`, `function(...) return ... end`,
	`function() error("x") end`, `function(a, b) return a < b end`,
	`redis`, `_G`, `string`, `coroutine.wrap(function() coroutine.yield(1) end)`,
	`setmetatable({}, {__index=function(t,k) return k end})`,
	`setmetatable({}, {__tostring=function() return "t" end, __len=3, __call=1})`,
	`("a"):rep(100)`, `("[1,"):rep(50)`, `("\145"):rep(200)`, `("{\"a\":"):rep(30)`,
	`"[1,{\"a\":[null,true,1.5e3,\"\\u00e9\\n\"]}]"`, `"{\"a\""`, `"\146\1\163abc"`,
	`"\219\255\255\255\255"`, `"\221\127\255\255\255"`,
	`"\207\255\255\255\255\255\255\255\255"`, `"\203\127\248\0\0\0\0\0\0"`,
	`">I4"`, `"<i8d"`, `"!8bBhHlL"`, `"s"`, `"c0"`, `"c5"`, `"c2147483647"`, `"I99"`, `"x"`,
	`"Bc0"`, `"!16i16"`, `"i0"`,
	`"%d"`, `"%5.3f"`, `"%q"`, `"%s%s"`, `"%99d"`, `"%.99f"`, `"%x"`, `"%c"`, `"%"`, `"%%"`, `"%g"`,
	`"%a"`, `"%i"`, `"%100d"`, `"%-+ #05.2e"`,
	`"a*"`, `"(a*)(b*)"`, `"%b()"`, `"%f[%w]"`, `"[^%a-z]"`, `"^$"`, `"["`, `"%"`, `"(()"`, `"%1"`,
	`"(a)%1"`, `".-b"`, `("a?"):rep(30) .. ("a"):rep(30)`, `("(.-)"):rep(40)`,
	`"[%a-z%]]+"`, `"%z"`,
	`"get"`, `"none"`, `"list"`, `"map"`, `"double"`, `"nan"`, `"nilarray"`, `"big"`, `"text"`,
	`"set"`, `"int"`,
}

// expr generates an expression. It is usually a call, whose arguments may be calls themselves.
func (m *exprMaker) expr(depth int) string {
	if depth == 0 || m.Over() || m.One(2) {
		return m.From(atoms)
	}
	switch m.N(8) {
	case 0:
		return "(" + m.expr(depth-1) + m.From([]string{" .. ", " + ", " - ", " * ", " / ", " % ",
			" ^ ", " == ", " < ", " and ", " or "}) + m.expr(depth-1) + ")"
	case 1:
		return m.From([]string{"-", "#", "not "}) + m.expr(depth-1)
	case 2:
		return "{" + m.expr(depth-1) + ", a=" + m.expr(depth-1) + ", [" + m.expr(depth-1) + "]=" +
			m.expr(depth-1) + "}"
	case 3:
		return "(" + m.expr(depth-1) + ")" +
			m.From([]string{".a", "[1]", ":rep(3)", ":len()", "()"})
	}
	args := make([]string, m.N(5))
	for i := range args {
		args[i] = m.expr(depth - 1)
	}
	return m.From(functions) + "(" + strings.Join(args, ", ") + ")"
}

// FuzzLibraries calls the functions of all libraries with random arguments. Wrong arguments cause
// an error of Lua, and the limits hold.
func FuzzLibraries(f *testing.F) {
	seeds := rand.NewChaCha8([32]byte{'l', 'u', 'a'})
	for range 30 {
		data := make([]byte, 80)
		_, _ = seeds.Read(data)
		f.Add(data)
	}
	e := testEngine(fuzzMemory)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &exprMaker{testkit.Dice{Data: data}}
		var b strings.Builder
		for i := 0; !m.Over() && i < 6; i++ {
			fmt.Fprintf(&b, "local ok%d, r%d = pcall(function() return %s end)\n", i, i, m.expr(4))
		}
		bounded(t, e, b.String()+"return {r0, r1, r2, r3, r4, "+m.expr(3)+"}")
	})
}
