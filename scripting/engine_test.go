package scripting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
	"keyp/resp"
)

// host answers commands from a table of RESP replies, and counts errors.
type host struct {
	replies map[string]string
	calls   []string
	errors  int
	on      func()
}

func (h *host) Call(args [][]byte, out *resp.Writer) {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = string(arg)
	}
	call := strings.Join(words, " ")
	h.calls = append(h.calls, call)
	if h.on != nil {
		h.on()
	}
	if reply, ok := h.replies[call]; ok {
		out.Buf = append(out.Buf, reply...)
		return
	}
	out.Error("ERR unknown")
}

func (h *host) Allowed(args [][]byte) (allowed, known bool) {
	return string(args[0]) == "get", string(args[0]) != "nosuch"
}

func (h *host) CountError() { h.errors++ }

func testEngine(memory int64) *Engine {
	return New(Options{Memory: memory, Version: "7.4.0",
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// eval returns a script's reply in a protocol version.
func eval(t *testing.T, e *Engine, h Host, source string, proto int) string {
	t.Helper()
	script, err := e.Compile(source, nil)
	if err != nil {
		return "compile: " + err.Error()
	}
	r := &Run{Host: h, Name: "sha", Keys: [][]byte{[]byte("k1"), []byte("k2")},
		Args: [][]byte{[]byte("3"), []byte("010")}}
	out := &resp.Writer{Proto: proto}
	e.Eval(script, r, out)
	return string(out.Buf)
}

// TestScripts tests replies in RESP2. The differential test has many more.
func TestScripts(t *testing.T) {
	e := testEngine(0)
	h := &host{replies: map[string]string{
		"get k": "$1\r\nv\r\n", "get none": "$-1\r\n", "incr l": "-WRONGTYPE of l\r\n",
		"list":      "*3\r\n:1\r\n$1\r\na\r\n*1\r\n+OK\r\n",
		"set k 1.5": "+OK\r\n", "set k 3": "+OK\r\n", "set k 100000000000000000000": "+big\r\n",
		"set k 1e+20": "+big\r\n",
	}}
	tests := []struct{ script, want string }{
		{`return 3.99`, ":3\r\n"},
		{`return {1,2,nil,4}`, "*2\r\n:1\r\n:2\r\n"},
		{`return {true,false,{ok="s"},{err="E x"},"b"}`,
			"*5\r\n:1\r\n$-1\r\n+s\r\n-E x\r\n$1\r\nb\r\n"},
		{`return {KEYS[2],ARGV[1],#KEYS}`, "*3\r\n$2\r\nk2\r\n$1\r\n3\r\n:2\r\n"},
		{`return redis.call("get","k")`, "$1\r\nv\r\n"},
		{`return redis.call("get","none")`, "$-1\r\n"},
		{`return redis.call("list")`, "*3\r\n:1\r\n$1\r\na\r\n*1\r\n+OK\r\n"},
		{`return redis.call("incr","l")`, "-WRONGTYPE of l script: sha, on @user_script:1.\r\n"},
		{`return redis.pcall("incr","l")`, "-WRONGTYPE of l\r\n"},
		{`return redis.pcall("incr","l").err`, "$14\r\nWRONGTYPE of l\r\n"},
		{`local ok, e = pcall(redis.call, "incr", "l") return {tostring(ok), e}`,
			"*2\r\n$5\r\nfalse\r\n$14\r\nWRONGTYPE of l\r\n"},
		{`return redis.call("set","k",1.5)`, "+OK\r\n"},
		{`return redis.call("set","k",3.0)`, "+OK\r\n"},
		{`return redis.call("set","k",{})`,
			"-ERR Lua redis lib command arguments must be strings or integers script: sha, on @user_script:1.\r\n"},
		{`return redis.call()`,
			"-ERR Please specify at least one argument for this redis lib call script: sha, on @user_script:1.\r\n"},
		{"\n\nerror('boom')", "-ERR user_script:3: boom script: sha, on @user_script:3.\r\n"},
		{`error({err="MY boom"})`, "-MY boom script: sha, on @user_script:1.\r\n"},
		{`return foo`,
			"-ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: sha, on @user_script:1.\r\n"},
		{`foo = 1`,
			"-ERR user_script:1: Attempt to modify a readonly table script: sha, on @user_script:1.\r\n"},
		{`redis.call = nil`,
			"-ERR user_script:1: Attempt to modify a readonly table script: sha, on @user_script:1.\r\n"},
		{`rawset(_G, "foo", 1)`,
			"-ERR Attempt to modify a readonly table script: sha, on @user_script:1.\r\n"},
		{`getmetatable("").__index.x = 1`,
			"-ERR user_script:1: Attempt to modify a readonly table script: sha, on @user_script:1.\r\n"},
		{`return {type(print), 1}`,
			"-ERR user_script:1: Script attempted to access nonexistent global variable 'print' script: sha, on @user_script:1.\r\n"},
		{`return 1700000000000000 .. "|" .. 1/3`, "$24\r\n1.7e+15|0.33333333333333\r\n"},
		{`return {"010"+1, ARGV[2]*1}`, "*2\r\n:11\r\n:10\r\n"},
		{
			`local n=0 local function inc() n=n+1 end pcall(function() inc() error("x") end) inc() return n`,
			":2\r\n"},
		{`return redis.sha1hex("")`, "$40\r\nda39a3ee5e6b4b0d3255bfef95601890afd80709\r\n"},
		{`return {redis.acl_check_cmd("get"), redis.acl_check_cmd("set")}`, "*2\r\n:1\r\n$-1\r\n"},
		{`return redis.REDIS_VERSION_NUM`, ":459776\r\n"},
		{`return cjson.encode({a={1,2,"x/y"}})`, "$18\r\n{\"a\":[1,2,\"x\\/y\"]}\r\n"},
		{`return cjson.decode('[1,{"a":null}]')[1]`, ":1\r\n"},
		{`return {pcall()}`, "*2\r\n$-1\r\n$31\r\nattempt to call a boolean value\r\n"},
		{`return cjson.encode_max_depth(1, 2)`,
			"-ERR user_script:1: bad argument #2 to 'encode_max_depth' (found too many arguments) script: sha, on @user_script:1.\r\n"},
		{`return cjson.encode_sparse_array(true, 1, 1, 1)`,
			"-ERR user_script:1: bad argument #4 to 'encode_sparse_array' (found too many arguments) script: sha, on @user_script:1.\r\n"},
		{`return cjson.encode_sparse_array(true, -1)`,
			"-ERR user_script:1: bad argument #1 to 'encode_sparse_array' (expected integer between 0 and 2147483647) script: sha, on @user_script:1.\r\n"},
		{`return cmsgpack.unpack_one("\1\2", 2^32 + 1)`,
			"-ERR user_script:1: Start offset 1 greater than input length 2. script: sha, on @user_script:1.\r\n"},
		{`return cmsgpack.unpack_one("\1\2", 1/0)`,
			"-ERR user_script:1: Invalid request to unpack with offset of 0 and limit of 2. script: sha, on @user_script:1.\r\n"},
		{`return cmsgpack.unpack_limit("\1\2", 0/0)`,
			"-ERR user_script:1: Invalid request to unpack with offset of 0 and limit of 2. script: sha, on @user_script:1.\r\n"},
		{`return {cmsgpack.unpack_limit("\1\2", 2^53)}`, "*3\r\n:-1\r\n:1\r\n:2\r\n"},
		{`return {ok = "\na\r\n"}`, "+ a  \r\n"},
		{`return {err = "E\na\r\n"}`, "-E a\r\n"},
		{
			`return cmsgpack.pack(tonumber(("1"):rep(900)) == 1/0, tonumber(("1"):rep(900) .. "e-899") == tonumber("1." .. ("1"):rep(700)))`,
			"$2\r\n\xc3\xc3\r\n"},
		{`return {cmsgpack.unpack(cmsgpack.pack(1,"a",{1,2}))}`,
			"*3\r\n:1\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n"},
		{`return {struct.unpack(">I2s", struct.pack(">I2s", 7, "x"))}`,
			"*3\r\n:7\r\n$1\r\nx\r\n:5\r\n"},
		{`return {bit.band(255,15), bit.tohex(-1), bit.rol(0x12345678,12)}`,
			"*3\r\n:15\r\n$8\r\nffffffff\r\n:1164411171\r\n"},
		{`x x`, "compile: user_script:1: '=' expected near 'x'"},
	}
	for _, tt := range tests {
		got := eval(t, e, h, tt.script, 2)
		if got != tt.want {
			t.Errorf("%s\n got %q\nwant %q", tt.script, got, tt.want)
		}
	}
}

// TestRESP3 converts the types that only RESP3 has, in both directions.
func TestRESP3(t *testing.T) {
	e := testEngine(0)
	h := &host{replies: map[string]string{
		"map": "%1\r\n+a\r\n:1\r\n", "set": "~1\r\n$1\r\nm\r\n", "double": ",1.5\r\n",
		"null": "_\r\n", "true": "#t\r\n",
		"big": "(12345678901234567890\r\n", "text": "=7\r\ntxt:abc\r\n",
	}}
	tests := []struct{ script, want string }{
		{`redis.setresp(3) return redis.call("map")`, "%1\r\n+a\r\n:1\r\n"},
		{`redis.setresp(3) return redis.call("set")`, "~1\r\n$1\r\nm\r\n"},
		{`redis.setresp(3) return redis.call("set").set.m`, "#t\r\n"},
		{`redis.setresp(3) return redis.call("double")`, ",1.5\r\n"},
		{`redis.setresp(3) return redis.call("double").double * 2`, ":3\r\n"},
		{`redis.setresp(3) return type(redis.call("null"))`, "$3\r\nnil\r\n"},
		{`redis.setresp(3) return redis.call("true")`, "#t\r\n"},
		{`redis.setresp(3) return redis.call("big")`, "(12345678901234567890\r\n"},
		{`redis.setresp(3) return redis.call("text")`, "=7\r\ntxt:abc\r\n"},
		{`return {true,false}`, "*2\r\n:1\r\n_\r\n"},
		{`return {map={[1]="x"}}`, "%1\r\n:1\r\n$1\r\nx\r\n"},
		{`redis.setresp(4)`,
			"-ERR RESP version must be 2 or 3. script: sha, on @user_script:1.\r\n"},
	}
	for _, tt := range tests {
		if got := eval(t, e, h, tt.script, 3); got != tt.want {
			t.Errorf("%s\n got %q\nwant %q", tt.script, got, tt.want)
		}
	}
}

// TestNothingLeaks: a script cannot leave anything in its interpreter that another script sees.
func TestNothingLeaks(t *testing.T) {
	e := testEngine(0)
	h := &host{}
	spoilers := []string{
		`cjson.encode_max_depth(1) cjson.encode_sparse_array(true)`, `redis.setresp(3)`,
		`pcall(function() foo = 1 end) pcall(rawset, string, "rep", nil) pcall(function() getmetatable("").__index = nil end)`,
		`KEYS[1] = "other" ARGV.x = 1`,
		`local co = coroutine.create(function() coroutine.yield() end) coroutine.resume(co)`,
		`error({err="E x"})`, `local function f() return f() .. "x" end f()`,
		`return coroutine.wrap(function() error("x") end)()`,
	}
	probe :=
		`return {cjson.encode({{1}}), cjson.encode_max_depth(), string.rep("a",2), KEYS[1], tostring(ARGV.x), true, ("x"):upper()}`
	want := eval(t, e, h, probe, 2)
	for _, spoiler := range spoilers {
		for range 3 {
			eval(t, e, h, spoiler, 2)
		}
		if got := eval(t, e, h, probe, 2); got != want {
			t.Errorf("after %s\n got %q\nwant %q", spoiler, got, want)
		}
	}
}

// TestBounds: scripts that would use up all memory or stack end with an error, and the engine still
// works.
func TestBounds(t *testing.T) {
	e := testEngine(32 << 20)
	h := &host{}
	tests := []struct{ name, script, want string }{
		{"a long string", `return #string.rep("x", 1e9)`, "not enough memory"},
		{"doubling", `local s = "x" while true do s = s .. s end`, "not enough memory"},
		{"gsub", `local s = ("x"):rep(1e6) return #s:gsub("x", s)`, "not enough memory"},
		{"concat",
			`local t = {} local s = ("x"):rep(1e6) for i = 1, 100 do t[i] = s end return #table.concat(t)`,
			"not enough memory"},
		{"format", `return #string.format("%999999999d", 1)`, "invalid format"},
		{"a table that grows", `local t = {} local i = 1 while true do t[i] = {} i = i + 1 end`,
			"not enough memory"},
		{"and does so in pcall",
			`local function f() local t = {} local i = 1 while true do t[i] = {} i = i + 1 end end while true do pcall(f) end`,
			"not enough memory"},
		{"recursion", `local function f() return 1 + f() end return f()`, "stack overflow"},
		{"recursion through pcall", `local function f() local ok, e = pcall(f) error(e, 0) end f()`,
			"stack overflow"},
		{"recursion through a metamethod",
			`local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. "x"] end return t.a`,
			"stack overflow"},
		{"recursion through coroutines", `local function f() return coroutine.wrap(f)() end f()`,
			"C stack overflow"},
		{"recursion through gsub", `local function f() return ("a"):gsub("a", f) end f()`,
			"stack overflow"},
		{"unpack", `return unpack({}, 1, 1e8)`, "too many results to unpack"},
		{"deep JSON", `cjson.decode_max_depth(2^31-1) return cjson.decode(("["):rep(5e6))`,
			"nested data structures"},
		{"deep MessagePack", `return cmsgpack.unpack(("\145"):rep(5e6))`, "Bad data format"},
		{"deep program", `return loadstring("return " .. ("("):rep(1e4) .. "1" .. (")"):rep(1e4))`,
			""},
		{"deep program of tables",
			`return select(2, loadstring("return " .. ("{"):rep(1e4) .. ("}"):rep(1e4)))`,
			"too many syntax levels"},
	}
	for _, tt := range tests {
		got := eval(t, e, h, tt.script, 2)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %.200q, want %q in it", tt.name, got, tt.want)
		}
	}
	if got := eval(t, e, h, `return 1`, 2); got != ":1\r\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestMemoryIsTheScripts: only the memory that a script itself holds counts for its limit. Memory
// of other scripts and garbage of earlier ones do not count.
func TestMemoryIsTheScripts(t *testing.T) {
	const limit = 8 << 20
	e := testEngine(limit)
	var others []byte
	h := &host{replies: map[string]string{"wait": ":1\r\n"}}
	h.on = func() {
		if h.calls = h.calls[:0]; others == nil {
			others = make([]byte, 4*limit)
		}
	}
	waits :=
		`local t = {} for i = 1, 1000 do t[i] = ("x"):rep(i) end redis.call("wait") for i = 1, 1e4 do local s = ("x"):rep(i) end return #t`
	if got := eval(t, e, h, waits, 2); got != ":1000\r\n" {
		t.Fatalf("a script that holds little got %q", got)
	}
	for _, source := range []string{
		`local t, s = {}, ("x"):rep(1e6) for i = 1, 1e9 do t[i] = s .. i end`,
		`local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1e6):gmatch("y") end`,
		`local t = {} for i = 1, 1e9 do local s = ("x"):rep(1e6) t[i] = function() return s end end`,
		`local t = {} for i = 1, 1e9 do local s = ("x"):rep(1e6) t[i] = coroutine.wrap(function() coroutine.yield() return s end) t[i]() end`,
		`local function f(s) pcall(f, ("x"):rep(1e6)) while true do end end f()`,
		`local t = {} for i = 1, 1e9 do t[i] = {} t[i][1e5] = 1 t[i][1e5] = nil end`,
		`local t = {} for i = 1, 1e9 do t[i] = loadstring("return '" .. ("x"):rep(1e5) .. i .. "'") end`,
	} {
		if got := eval(t, e, &host{}, source, 2); !strings.Contains(got, "not enough memory") {
			t.Errorf("%s: %.200q", source, got)
		}
	}
	pieces :=
		`local t = {} for i = 1, 50 do t[i] = ("x"):rep(1e6):sub(1, 1) .. ("y"):rep(1e6):match("y") end return #t`
	if got := eval(t, e, &host{}, pieces, 2); got != ":50\r\n" {
		t.Errorf("parts of long strings: %.200q", got)
	}
	runtime.KeepAlive(others)
}

// TestKill ends scripts that never end by themselves, from another goroutine.
func TestKill(t *testing.T) {
	e := testEngine(0)
	scripts := []string{
		`while true do redis.call("x") end`,
		`redis.call("x") while true do end`,
		`while true do pcall(function() redis.pcall("x") while true do end end) end`,
		`redis.call("x")`,
		`local f = coroutine.wrap(function() redis.pcall("x") while true do end end) f()`,
		`redis.pcall("x") return ("a"):rep(300):find(("a*"):rep(30) .. "b")`,
	}
	for _, source := range scripts {
		source = strings.ReplaceAll(source, `redis.call("x")`, `redis.pcall("x")`)
		if source == `redis.pcall("x")` {
			source += ` return 1`
		}
		script, err := e.Compile(source, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &Run{Name: "sha"}
		r.Host = &host{on: func() {
			time.AfterFunc(time.Millisecond, func() { r.Kill(ErrKilled) })
		}}
		out := &resp.Writer{Proto: 2}
		e.Eval(script, r, out)
		got := string(out.Buf)
		if got != ":1\r\n" && !strings.HasPrefix(got, "-ERR "+ErrKilled.Error()+
			" script: sha, on @user_script:1.") {
			t.Errorf("%s: %q", source, got)
		}
	}
	r := &Run{Host: &host{}, Name: "sha"}
	r.Kill(errors.New("before"))
	script, _ := e.Compile("return 1", nil)
	out := &resp.Writer{Proto: 2}
	e.Eval(script, r, out)
	if string(out.Buf) != "-ERR before\r\n" {
		t.Errorf("killed before it began: %q", out.Buf)
	}
}

// TestErrorsCounted: errors that a command has counted are not counted again.
func TestErrorsCounted(t *testing.T) {
	e := testEngine(0)
	for source, want := range map[string]int{
		`return redis.call("x")`: 0, `return redis.pcall("x")`: 0, `error("x")`: 1,
		`return redis.error_reply("X y")`: 1,
		`return {err="X y"}`:              1, `return 1`: 0, `return {{err="A b"},{err="A c"}}`: 2,
	} {
		h := &host{}
		eval(t, e, h, source, 2)
		if h.errors != want {
			t.Errorf("%s: %d errors counted, want %d", source, h.errors, want)
		}
	}
}

// TestLibrary loads functions and calls them.
func TestLibrary(t *testing.T) {
	e := testEngine(0)
	lib, err := e.Load(`local n = 0
redis.register_function('count', function(keys, args) n = n + 1 return {n, keys[1], args[1]} end)
redis.register_function{function_name='ro', callback=function() return redis.call('get') end, flags={'no-writes'}, description='reads'}`, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := lib.Function("ro"); f == nil || len(f.Flags) != 1 || f.Flags[0] != "no-writes" ||
		f.Description != "reads" {
		t.Errorf("ro is %+v", f)
	}
	h := &host{replies: map[string]string{"get": "$1\r\nv\r\n"}}
	call := func(name string) string {
		out := &resp.Writer{Proto: 2}
		e.Call(lib, lib.Function(name), &Run{Host: h, Name: name, Keys: [][]byte{[]byte("k")},
			Args: [][]byte{[]byte("a")}}, out)
		return string(out.Buf)
	}
	for i, want := range []string{"*3\r\n:1\r\n$1\r\nk\r\n$1\r\na\r\n",
		"*3\r\n:2\r\n$1\r\nk\r\n$1\r\na\r\n"} {
		if got := call("count"); got != want {
			t.Errorf("call %d: %q, want %q", i+1, got, want)
		}
	}
	if got := call("ro"); got != "$1\r\nv\r\n" {
		t.Errorf("ro: %q", got)
	}
	for source, want := range map[string]string{
		`x x`:                          `Error compiling function: user_function:1: '=' expected near 'x'`,
		`return 1`:                     `No functions registered`,
		`redis.register_function('f')`: `Error registering functions: ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).`,
		`local t = ` + strings.Repeat("{", 1e4) + strings.Repeat("}",
			1e4): `Error compiling function: user_function:1: chunk has too many syntax levels`,
		`redis.register_function('f-g', function() end)`:                                            `Error registering functions: ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long`,
		`redis.register_function('f', function() end) redis.register_function('f', function() end)`: `Error registering functions: ERR Function already exists in the library`,
		`redis.call('get')`: `Error registering functions: ERR user_function:1: Script attempted to access nonexistent global variable 'call'`,
		`foo = 1`:           `Error registering functions: ERR user_function:1: Attempt to modify a readonly table`,
		`while true do end`: `Error registering functions: ERR FUNCTION LOAD timeout`,
	} {
		if _, err := e.Load(source, 100*time.Millisecond, nil); err == nil || err.Error() != want {
			t.Errorf("%.200s\n got %v\nwant %s", source, err, want)
		}
	}
}

// logHook is a log that calls the function for each line.
type logHook func()

func (logHook) Enabled(context.Context, slog.Level) bool    { return true }
func (h logHook) Handle(context.Context, slog.Record) error { h(); return nil }
func (h logHook) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h logHook) WithGroup(string) slog.Handler             { return h }

// TestLoadOfAStoppedProcess: loading a library succeeds even if the process is stopped meanwhile
// for longer than the library's program may run.
func TestLoadOfAStoppedProcess(t *testing.T) {
	for most := 200 * time.Millisecond; ; most *= 2 { // the rest takes time, too, on a busy machine
		e := New(Options{Version: "7.4.0", Log: slog.New(logHook(func() {
			stop :=
				fmt.Sprintf("trap '' HUP INT TERM; kill -STOP %[1]d; sleep %[2]f; kill -CONT %[1]d",
					os.Getpid(), 1.2*most.Seconds())
			if err := exec.Command("/bin/sh", "-c", stop).Run(); err != nil {
				t.Error(err)
			}
			await.Pass(10 * time.Millisecond) // so that timers that were due meanwhile have run
		}))})
		_,
			err :=
			e.Load(
				`redis.log(redis.LOG_WARNING, 'now') redis.register_function('f', function() end)`,
				most, nil)
		if err == nil {
			return
		}
		if most > 5*time.Second {
			t.Fatal(err)
		}
	}
}

func benchmark(b *testing.B, source string) {
	e := testEngine(0)
	script, err := e.Compile(source, nil)
	if err != nil {
		b.Fatal(err)
	}
	h := &host{replies: map[string]string{"get k": "$1\r\nv\r\n"}}
	out := &resp.Writer{Proto: 2}
	b.ReportAllocs()
	for b.Loop() {
		h.calls, out.Buf = h.calls[:0], out.Buf[:0]
		e.Eval(script, &Run{Host: h, Name: "sha", Keys: [][]byte{[]byte("k")}}, out)
	}
}

func BenchmarkTrivial(b *testing.B) { benchmark(b, `return 1`) }
func BenchmarkTenCalls(b *testing.B) {
	benchmark(b, `for i = 1, 10 do redis.call("get", KEYS[1]) end return 1`)
}
func BenchmarkLoop(b *testing.B) {
	benchmark(b, `local s = 0 for i = 1, 10000 do s = s + i % 7 end return s`)
}

// TestHostPanics: a script cannot catch a panic of the host with pcall, and the engine still works
// afterwards.
func TestHostPanics(t *testing.T) {
	e := testEngine(0)
	for _, source := range []string{
		`redis.call("x")`, `pcall(redis.call, "x")`, `pcall(function() redis.pcall("x") end)`,
		`local f = coroutine.wrap(function() redis.call("x") end) pcall(f) return 1`,
		`local co = coroutine.create(function() redis.call("x") end) coroutine.resume(co) return 1`,
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the panic is lost", source)
				}
			}()
			eval(t, e, &host{on: func() { panic("of the host") }}, source, 2)
		}()
		if got := eval(t, e, &host{}, `return 1`, 2); got != ":1\r\n" {
			t.Errorf("after %s: %q", source, got)
		}
	}
}
