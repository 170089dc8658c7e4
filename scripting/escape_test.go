package scripting

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/resp"
	"keyp/scripting/lua"
)

// reach collects every table, function and coroutine that a program can reach: through globals,
// values and keys of tables, metatables, iterators and error objects. They are in queue, and seen
// has the path to each.
const reach = `
local seen, queue = {}, {}
local function add(v, path)
	local kind = type(v)
	if (kind == "table" or kind == "function" or kind == "thread") and not seen[v] then
		seen[v] = path
		queue[#queue + 1] = v
	end
end
add(_G, "_G")
add(getmetatable(""), "strings")
add(select(2, pcall(error)), "error")
add(select(2, pcall(error, {err = "E x"})), "error table")
add(redis.pcall("none"), "reply")
add(redis.pcall("list"), "list")
add(select(2, pcall(redis.call, "x")), "call's error")
add(string.gmatch("a", "a"), "gmatch")
add(coroutine.wrap(function() coroutine.yield(_G) end), "wrap")
add(coroutine.create(function() end), "coroutine")
add(loadstring("return _G")(), "loadstring's globals")
add(load(function() return nil end), "load")
add(cjson.new(), "cjson.new")
local function own() return seen end
xpcall(function() error("x") end, function(e) add(e, "handler") return e end)
setmetatable({}, {__index = function(t, k) add(t, "__index") end})
local at = 1
while queue[at] do
	local v, path = queue[at], seen[queue[at]]
	at = at + 1
	add(getmetatable(v), path .. "<meta>")
	if type(v) == "table" then
		local k, x = next(v)
		while k ~= nil do
			add(k, path .. "<key>")
			add(x, path .. "." .. tostring(k))
			k, x = next(v, k)
		end
		local ok, other = pcall(function() return v.__index end)
		if ok then add(other, path .. ".__index") end
	end
end
`

// writes tries to change a table in every way, and reports the writes that were not refused.
const writes = `
local changed = {}
for _, v in ipairs(queue) do
	local path = seen[v]
	local function try(how, fn, ...)
		if pcall(fn, ...) then changed[#changed + 1] = how .. " " .. path end
	end
	if type(v) == "table" and not path:find("^reply") and not path:find("^list") and not path:find("^error") and not path:find("^call's") and not path:find("^handler") and not path:find("^cjson.new") and path ~= "_G.KEYS" and path ~= "_G.ARGV" then
		try("assignment", function() v.x = 1 end)
		try("assignment of 1", function() v[1] = 1 end)
		local k = next(v)
		if k ~= nil then
			try("assignment of what is there", function() v[k] = nil end)
			try("rawset of what is there", rawset, v, k, nil)
		end
		for _, name in ipairs({"(concat)", "__index", "__newindex", "__call", "__concat", "__metatable", "pcall", "error", "string", "_G", "KEYS"}) do
			try("assignment of " .. name, function() v[name] = function() end end)
			try("rawset of " .. name, rawset, v, name, 1)
		end
		try("rawset", rawset, v, "x", 1)
		try("setmetatable", setmetatable, v, {})
		try("setmetatable to nil", setmetatable, v, nil)
		try("table.insert", table.insert, v, 1)
		try("table.insert at 1", table.insert, v, 1, 1)
		try("table.setn", table.setn, v, 1)
		if #v > 0 then try("table.remove", table.remove, v) end
		if #v > 1 then try("table.sort", table.sort, v, function(a, b) return tostring(a) > tostring(b) end) end
	end
end
return table.concat(changed, "; ")
`

// probe is a script of another user. Its result depends on everything that a program might have
// changed.
const probe = `
local out = {}
local function note(...) for i = 1, select("#", ...) do out[#out + 1] = tostring((select(i, ...))) end end
local names = {}
for k in pairs(_G) do names[#names + 1] = tostring(k) end
table.sort(names)
for _, name in ipairs(names) do
	note(name, type(_G[name]))
	if type(_G[name]) == "table" and name ~= "_G" then
		local fields = {}
		for k, v in pairs(_G[name]) do fields[#fields + 1] = tostring(k) .. type(v) end
		table.sort(fields)
		note(table.concat(fields, ","))
	end
end
note("a" .. 1 .. "b", 1 + "2", "10" * 2, -"3", #"abc", 1 < 2, "a" < "b", ("x"):rep(3), ("%d"):format(3))
note(pcall(function() return ("x").y end), pcall(function() return ("x") + 1 end), pcall(function() return nosuch end), pcall(function() nosuch = 1 end))
note(pcall(function() return {} .. "x" end), pcall(function() return (nil)() end), pcall(function() return 1 < {} end))
note(cjson.encode({1, {a = 2}}), cjson.decode("[1]")[1], cmsgpack.unpack(cmsgpack.pack(1)), struct.unpack("B", struct.pack("B", 7)), bit.band(7, 3))
note(string.gsub("abc", "b", "x"), table.concat({1, 2}, ","), unpack({1, 2}), select("#", 1, 2), next({}), type(next), rawequal(1, 1))
note(getmetatable("").__index == string, getmetatable("").__add, getmetatable(1), getmetatable(nil), getmetatable(type))
note(coroutine.wrap(function() return 1 end)(), loadstring("return 5")(), math.floor(1.5), os.clock() >= 0, redis.sha1hex(""), redis.pcall("get"))
note(KEYS[1], ARGV[1], KEYS.x, ARGV.x)
return table.concat(out, " ")
`

// TestNothingCanBeWritten: every object that a program can reach refuses every kind of write, and
// a program of another user gives the same result before and after.
func TestNothingCanBeWritten(t *testing.T) {
	e := testEngine(0)
	h := &host{replies: fuzzReplies}
	before := eval(t, e, h, probe, 2)
	if !strings.HasPrefix(before, "$") {
		t.Fatalf("the probe gives %q", before)
	}
	got := eval(t, e, h, reach+writes, 2)
	if got != "$0\r\n\r\n" {
		t.Errorf("scripts can change: %s", got)
	}
	if found := eval(t, e, h, reach+"return #queue", 2); len(found) < 6 || found < ":140" {
		t.Errorf("only %q tables and functions were reached", found)
	}
	for range 3 {
		if after := eval(t, e, h, probe, 2); after != before {
			t.Errorf("another script gives\n%s\nbefore that\n%s", after, before)
		}
	}
}

// TestNothingCanBeWrittenByFunctions is the same test for libraries of functions, which have a
// state each, and for their programs while they are loaded.
func TestNothingCanBeWrittenByFunctions(t *testing.T) {
	e := testEngine(0)
	h := &host{replies: fuzzReplies}
	wrap := func(body string) string {
		return "redis.register_function('f', function(KEYS, ARGV) " + body + " end)"
	}
	call := func(lib *Library) string {
		out := &resp.Writer{Proto: 2}
		e.Call(lib, lib.Function("f"), &Run{Host: h, Name: "f", Keys: [][]byte{[]byte("k1")},
			Args: [][]byte{[]byte("3")}}, out)
		return string(out.Buf)
	}
	load := func(source string) *Library {
		t.Helper()
		lib, err := e.Load(source, time.Minute, nil)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		return lib
	}
	probing := load(wrap(probe))
	before := call(probing)
	if got := call(load(wrap(reach + writes))); got != "$0\r\n\r\n" {
		t.Errorf("functions can change: %s", got)
	}
	if after := call(probing); after != before {
		t.Errorf("another library gives\n%s\nbefore that\n%s", after, before)
	}
	if after := call(load(wrap(probe))); after != before {
		t.Errorf("a later library gives\n%s\nbefore that\n%s", after, before)
	}
	for _, source := range []string{`x = 1`, `redis.x = 1`, `redis.register_function = nil`,
		`redis.log = function() end`, `redis = nil`, `local t = redis t.call = 1`, `("").x.y = 1`} {
		if _, err := e.Load(source+" "+wrap("return 1"), time.Minute, nil); err == nil {
			t.Errorf("while it is loaded a library may run %s", source)
		}
	}
	for _, name := range []string{"_G", "pcall", "math", "os", "string", "setmetatable",
		"getmetatable", "rawset", "load", "loadstring", "KEYS", "coroutine", "cjson", "redis.call",
		"redis.setresp", "redis.nosuch"} {
		want := "Script attempted to access nonexistent global variable '" +
			strings.TrimPrefix(name, "redis.") + "'"
		if _, err := e.Load("local x = "+name, time.Minute, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("while it is loaded a library finds %s: %v", name, err)
		}
	}
	late :=
		load(`local r = redis redis.register_function('f', function() return {select(2, pcall(function() return r.call end)), select(2, pcall(r.register_function, 'g', function() end))} end)`)
	if got := call(late); !strings.Contains(got, "nonexistent global variable 'call'") {
		t.Errorf("redis as it was while it was loaded: %s", got)
	}
}

// takeovers are programs that try to change the behavior of other users' scripts. Some of them
// succeeded once.
var takeovers = []string{
	`_G["(concat)"] = function() return "taken" end`, `_G["(concat)"] = nil`,
	`rawset(_G, "(concat)", nil)`, `getmetatable("").__index = function() return "taken" end`,
	`getmetatable("").__add = function() return 1 end`, `getmetatable("").__metatable = 1`,
	`setmetatable(_G, nil)`, `setmetatable(_G, {__index = {KEYS = {"taken"}}})`,
	`getmetatable(_G).__index = nil`,
	`getmetatable(_G).__newindex = nil x = 1`, `string.rep = nil`,
	`string.format = function() return "taken" end`, `table.insert(_G, 1)`,
	`table.insert(string, 1, "x")`, `table.sort(_G, function() end)`,
	`setfenv(1, {})`, `setfenv(0, {})`, `getfenv(0).x = 1`, `debug.setmetatable("", nil)`,
	`redis.call = nil`, `redis.sha1hex = function() return "taken" end`, `KEYS = nil`, `ARGV = {1}`,
	`KEYS.x = 1 KEYS[1] = "taken"`,
	`math.randomseed(1)`, `cjson.encode = nil`, `cjson.encode_max_depth(1)`,
	`cjson.encode_sparse_array(true)`, `cjson.null = nil`, `pcall = error`, `error = nil`,
	`next = nil`, `_G._G = {}`, `_G = {}`, `_VERSION = "x"`,
	`for k in next, _G do rawset(_G, k, nil) end`,
	`for k, v in pairs(_G) do if type(v) == "table" then for n in pairs(v) do v[n] = nil end end end`,
	`setmetatable(getmetatable(""), {__index = error})`,
	`coroutine.wrap(function() string.x = 1 end)()`,
	`pcall(function() string.x = 1 end) error(setmetatable({}, {__tostring = function() string.x = 1 return "" end}))`,
	`xpcall(error, function() _G.x = 1 end)`,
	`table.foreach(_G, function(k) _G[k] = nil end)`,
	`string.gsub("a", "a", function() string.x = 1 end)`, `loadstring("string.rep = nil")()`,
	`load(function() string.x = 1 end)`, `redis.setresp(3)`,
	`local t = setmetatable({}, {__gc = function() string.x = 1 end}) t = nil collectgarbage()`,
	`newproxy(true)`, `require("os")`, `package.loaded = nil`, `error(redis)`, `error(_G)`,
	`error(getmetatable(""))`, `coroutine.wrap(function() error(string) end)()`, `os.clock = nil`,
	`io.open("x")`,
}

// TestTakeovers: no takeover changes the result of another user's script.
func TestTakeovers(t *testing.T) {
	e := testEngine(0)
	h := &host{replies: fuzzReplies}
	before := eval(t, e, h, probe, 2)
	for _, attack := range takeovers {
		for _, source := range []string{attack, "pcall(function() " + attack + " end)"} {
			eval(t, e, h, source, 2)
			if after := eval(t, e, h, probe, 2); after != before {
				t.Fatalf("after %s another script gives\n%s\nbefore that\n%s",
					source, after, before)
			}
		}
	}
}

// endless are programs that nest callbacks as deep as they can, allocate as much as they can, or
// keep one builtin busy for as long as they can.
var endless = []string{
	// deep
	`local function f() return (("a"):gsub("a", f)) end f()`,
	`local function f() return pcall(f) end f()`, `local function f() return xpcall(f, f) end f()`,
	`local function f() table.sort({1, 2, 3}, f) end f()`,
	`local function f() load(f) end f()`,
	`local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return tostring(t) end tostring(t)`,
	`local function f() table.foreach({1}, f) end f()`,
	`local function f() table.foreachi({1}, f) end f()`,
	`local function f() coroutine.wrap(f)() end f()`,
	`local function f() pcall(string.gsub, "a", "a", f) end f()`,
	`local function f() return pcall(pcall, pcall, f) end f()`,
	`local function f() for i = 1, 3 do pcall(function() return (("abc"):gsub(".", f)) end) end end f()`,
	`local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end local x = t.x`,
	`local t = setmetatable({}, {}) getmetatable(t).__concat = function(a, b) return a .. b end local x = t .. t`,
	`local t = setmetatable({}, {}) getmetatable(t).__lt = function(a, b) return a < b end table.sort({t, t, t})`,
	`local t = {} for i = 1, 1e5 do t = {t} end return cjson.encode(t)`,
	`local t = {} t[1] = t return cjson.encode(t)`,
	`local t = {} t[1] = t cjson.encode_max_depth(2^31 - 1) return cjson.encode(t)`,
	`local t = {} t[1] = t return cmsgpack.pack(t)`,
	`local t = {} t[1] = t return t`,
	`cjson.decode_max_depth(2^31 - 1) return cjson.decode(("["):rep(1e6))`,
	`return cmsgpack.unpack(("\145"):rep(1e6))`, `local function f() return f() .. "" end f()`,
	`local function f(...) return f(1, ...) end f()`,
	`local s = "return 1" for i = 1, 1e4 do s = "return loadstring(" .. string.format("%q", s) .. ")()" end return loadstring(s)()`,
	`return loadstring(("("):rep(1e5))`, `return loadstring("return " .. ("-"):rep(1e6) .. "1")`,
	`local co co = coroutine.wrap(function() co() end) co()`,
	`local f f = function(e) error(e) end xpcall(f, f)`,
	`local function f() setmetatable({}, {__newindex = f}).x = 1 end f()`,
	`local function f() setmetatable({}, {__call = f})() end f()`,
	// large
	`local t = {} for i = 1, 1e9 do t[i] = i end`, `local s = "x" while true do s = s .. s end`,
	`return ("x"):rep(2^31 - 1)`, `return (("x"):rep(1e6):gsub("x", ("y"):rep(1e6)))`,
	`local t = {} for i = 1, 1e6 do t[i] = ("x"):rep(1000) end return table.concat(t)`,
	`return cmsgpack.unpack("\221\127\255\255\255" .. ("\192"):rep(1e7))`,
	`return cmsgpack.unpack(("\220\255\255" .. ("\128"):rep(65535)):rep(100))`,
	`return cjson.decode("[" .. ("{},"):rep(4e6) .. "1]")`,
	`return cjson.decode("[" .. ("[],"):rep(4e6) .. "1]")`,
	`return cjson.decode('"' .. ("\\u0041"):rep(3e6) .. '"')`,
	`cjson.encode_sparse_array(false, 0) return cjson.encode({[2^31 - 1] = 1})`,
	`cjson.encode_sparse_array(false, 0) return cjson.encode({[2^53] = 1})`,
	`return unpack({}, 1, 2^30)`, `return string.byte(("x"):rep(1e7), 1, -1)`,
	`return struct.pack("c" .. 2^31 - 1, "")`, `return struct.pack(("i32"):rep(1e6), 1)`,
	`return string.format(("%99d"):rep(1e5), 1)`,
	`local t = {} for w in ("ab "):rep(1e7):gmatch("%w") do t[#t + 1] = w end`,
	`local t = {} while true do t[#t + 1] = coroutine.create(function() end) end`,
	`local t = {} while true do t[#t + 1] = function() return t end end`,
	`local t = {} while true do t[#t + 1] = loadstring("return function() return 1 end") end`,
	`local s = ("x = 1 "):rep(1e6) while true do loadstring(s) end`,
	`return loadstring("return {" .. ("'a',"):rep(1e6) .. "}")`,
	`local t = {} for i = 1, 1e6 do t[i] = "'" .. i .. "'" end return #loadstring("return {" .. table.concat(t, ",") .. "}")()`,
	`local x = {} for i = 1, 60 do x = {x, x} end return x`,
	`local t = {} while true do t[#t + 1] = redis.pcall("list") end`,
	`local t = {} for i = 1, 1e9 do t[i % 1000] = ("x"):rep(1e5) .. i end`,
	`local a = {} for i = 1, 1e9 do a = {a} end`,
	`local t = {} t[2^25] = 1 for i = 1, 1e9 do t[i] = i end`,
	`return cmsgpack.pack(unpack({("x"):rep(3e6), ("x"):rep(3e6), ("x"):rep(3e6), ("x"):rep(3e6), ("x"):rep(3e6), ("x"):rep(3e6)}))`,
	// long
	`return cjson.decode(("1"):rep(1e6) .. ("e"):rep(1e6))`,
	`return cjson.decode("[" .. (("1"):rep(1e4) .. ("e"):rep(1e4) .. ","):rep(100) .. "]")`,
	`return ("("):rep(1e6):find("%b()")`, `return ("a"):rep(1e6):find(("a*"):rep(20) .. "b")`,
	`return ("a"):rep(1e6):find(("a-"):rep(20) .. "b")`,
	`return ("a"):rep(1e6):gsub("a*b", "")`, `return ("a"):rep(1e6):match("(.-)(.-)(.-)(.-)b")`,
	`return ("a"):rep(1e5):find("[" .. ("b"):rep(1e5) .. "]")`,
	`return ("a"):rep(3e6):find("(a+)%1b")`,
	`return ("ab"):rep(1e6):find(("ab"):rep(5e5) .. "x", 1, true)`,
	`return ("x"):rep(1e6):find(".-%f[y]")`,
	`table.insert({}, -2^31, 1)`,
	`local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 1) end`,
	`local t = {} for i = 1, 1e6 do t[i] = i end while true do table.remove(t, 1) end`,
	`table.concat({}, "", -2^31, 2^31 - 2)`,
	`table.concat(setmetatable({}, {__index = function() return "" end}), "", 1, 2^31 - 2)`,
	`local t = {} for i = 1, 1e6 do t[i] = -i end table.sort(t, function() return true end)`,
	`local t = {} for i = 1, 1e6 do t[i] = i % 2 end table.sort(t)`, `while true do end`,
	`for i = 1, 1e300 do end`, `local i = 0 repeat i = i + 1 until false`,
	`while true do pcall(error) end`,
	`for _ in function() return 1 end do end`, `while true do coroutine.wrap(function() end)() end`,
	`while true do redis.pcall("list") end`, `while true do setmetatable({}, {__index = _G}) end`,
	`while true do pcall(function() while true do end end) end`,
	`xpcall(function() while true do end end, function() while true do end end)`,
	`coroutine.wrap(function() while true do end end)()`,
	`table.foreach({1}, function() while true do end end)`,
	`tostring(setmetatable({}, {__tostring = function() while true do end end}))`,
	`load(function() return " " end)`, `load(function() while true do end end)`,
	`math.randomseed(0) while true do math.random() end`,
	`local s = ("x"):rep(1e7) while true do s:reverse():upper():lower() end`,
	`local t = {} for i = 1, 1e6 do t[i] = true end while true do cjson.encode(t) end`,
	`local t = {} for i = 1, 1e6 do t[i] = true end while true do cmsgpack.pack(t) end`,
	`local s = struct.pack(("d"):rep(1e5), 1) while true do struct.unpack(("d"):rep(1e5), s) end`,
	`for k in next, setmetatable({}, {__index = next}) do end while true do next({}) end`,
	`local s = ("%d"):rep(1e5) while true do pcall(string.format, s, 1) end`,
	`while true do redis.sha1hex(("x"):rep(1e6)) end`,
	`local t = {} for i = 1, 1e6 do t["k" .. i] = i end for i = 1, 1e6 do t["k" .. i] = nil end while next(t) == nil do end`,
}

// attackKill is the time after which an attack is killed.
const attackKill = 20 * time.Millisecond

// TestAttacks: each of these programs ends when it is killed and stays within its memory limit. It
// leaves one complete reply and a working engine. This also holds within a protected call or a
// coroutine.
func TestAttacks(t *testing.T) {
	e := testEngine(fuzzMemory)
	for i, source := range endless {
		programs := []string{source, "return pcall(function() " + source + " end)",
			"return coroutine.wrap(function() " + source + " end)()"}
		for j, program := range programs {
			if j > 0 && i%4 != j && !testkit.Long() {
				continue
			}
			attack(t, e, program)
		}
	}
	if got := eval(t, e, &host{}, "return 1", 2); got != ":1\r\n" {
		t.Errorf("afterwards: %q", got)
	}
	// Without a memory limit: otherwise these programs end at the limit, before the kill is tested.
	e = testEngine(0)
	for _, source := range []string{`load(math.random)`, `load(function() return " " end)`,
		`load(coroutine.wrap(function() while true do coroutine.yield(" ") end end))`,
		`pcall(load, math.random)`} {
		attack(t, e, source)
	}
}

func attack(t *testing.T, e *Engine, program string) {
	t.Helper()
	script, err := e.Compile(program, nil)
	if err != nil {
		t.Fatalf("%.200s: %v", program, err)
	}
	began := cpuTime()
	r := &Run{Host: &host{replies: fuzzReplies}, Name: "sha"}
	timer := time.AfterFunc(attackKill, func() { r.Kill(ErrKilled) })
	defer timer.Stop()
	out := &resp.Writer{Proto: 2}
	e.Eval(script, r, out)
	if rest, err := testkit.Reply(out.Buf, 2); err != nil || len(rest) > 0 {
		t.Errorf("%.200s: %v, with %.200q behind it", program, err, rest)
	}
	if took := cpuTime() - began; took > fuzzCPU {
		t.Errorf("%.200s takes %v", program, took)
	}
	if size := totalMemory(); size > fuzzTotal {
		t.Errorf("%.200s leaves %d MB", program, size>>20)
	}
}

// builders are programs that hold more and more memory. They call step at the points where the test
// measures the heap.
var builders = []string{
	`local t = {} for i = 1, 1e9 do t[i] = i if i % 1e5 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = {} if i % 2e4 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t["k" .. i] = i if i % 2e4 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = function() return i end if i % 1e4 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000) if i % 2000 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) if i % 500 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = cjson.decode('[1,{"a":"b"},[[]],"text"]') if i % 5000 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = cmsgpack.unpack("\146\1\163abc") if i % 5000 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = redis.call("list") if i % 5000 == 0 then step() end end`,
	`local s = ("x"):rep(2e5) local function f() local n = 0 load(function() n = n + 1 if n < 4 then return s end step() f() end) end f()`,
	`local t = {} for i = 1, 1e9 do t[i] = ("a,b,c"):gmatch("%w") if i % 5000 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = loadstring("return {1, 'a', function() return " .. i .. " end}") if i % 500 == 0 then step() end end`,
	`local s = "" for i = 1, 1e9 do s = s .. ("x"):rep(1e5) if i % 20 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = {a = 1, b = 2, c = {i}} if i % 5000 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = setmetatable({}, {__index = t}) if i % 5000 == 0 then step() end end`,
	`local t = {} for i = 1, 1e9 do t[i] = cjson.new() if i % 500 == 0 then step() end end`,
	`local n = 0 local function f(a) n = n + 1 if n % 1000 == 0 then step() end return {a, f(("x"):rep(1000))} end f()`,
	`local s = ("x"):rep(1e6) local t = {} for i = 1, 1e9 do t[i] = s:sub(2) .. i step() end`,
	`local t = {} for i = 1, 1e9 do t[i] = i .. "" if i % 2e4 == 0 then step() end end`,
}

// TestMemoryIsReal: when a script ends because of its memory limit, the heap has grown by at most a
// tenth more than the limit.
func TestMemoryIsReal(t *testing.T) {
	const limit = 24 << 20
	for _, source := range builders {
		e := testEngine(limit)
		script, err := e.Compile("local function step() redis.call('step') end "+source, nil)
		if err != nil {
			t.Fatal(err)
		}
		base, most, steps := liveHeap(), uint64(0), 0
		h := &host{replies: map[string]string{"step": ":1\r\n", "list": fuzzReplies["list"]}}
		h.on = func() {
			if h.calls[len(h.calls)-1] == "step" {
				steps++
				most = max(most, liveHeap())
			}
			h.calls = h.calls[:0]
		}
		out := &resp.Writer{Proto: 2}
		e.Eval(script, &Run{Host: h, Name: "sha"}, out)
		if !strings.Contains(string(out.Buf), "not enough memory") {
			t.Errorf("%s: %.200q", source, out.Buf)
		}
		if steps < 4 {
			t.Errorf("%s: measured only %d times", source, steps)
		}
		if grown := most - base; most > base && grown > limit+limit/10 {
			t.Errorf("%s: has %d KB of the heap with %d KB allowed", source, grown>>10, limit>>10)
		}
	}
}

// TestTextsManyTimesOver: functions that quote, join or pass on texts respect the script's memory
// limit. Errors and log lines show only a limited part of a text.
func TestTextsManyTimesOver(t *testing.T) {
	log := &strings.Builder{}
	e := New(Options{Memory: 24 << 20, Log: slog.New(slog.NewTextHandler(log, nil))})
	h := &host{replies: fuzzReplies}
	const text = `local s = ("x"):rep(7e6) `
	for _, source := range []string{
		text + `collectgarbage(s)`, text + `return _G[s]`, text + `cjson.encode_keep_buffer(s)`,
		text + `return redis.call("list", s, s, s, s, s)`,
		text + `return redis.pcall("list", s, s, s, s)`,
	} {
		h.calls = nil
		if got := eval(t, e, h, source, 2); !strings.Contains(got, "not enough memory") ||
			len(h.calls) > 0 {
			t.Errorf("%s: %.200q", source, got)
		}
	}
	if got := eval(t, e, h, text+`redis.log(redis.LOG_WARNING, "a", s, s, s) return 1`,
		2); got != ":1\r\n" || log.Len() < longestLog || log.Len() > longestLog+1000 {
		t.Errorf("redis.log writes %d bytes: %.200q", log.Len(), got)
	}
	for _, source := range []string{text + `error(s)`, text + `error({err = s})`,
		text + `return {err = s}`} {
		if got := eval(t, e, h, source, 2); len(got) < longestError ||
			len(got) > longestError+1000 {
			t.Errorf("%s: a reply of %d bytes", source, len(got))
		}
	}
}

// TestKilledWithinAStep: a kill also ends loops over a pattern or a replacement, even if the loop
// takes two bytes at a time.
func TestKilledWithinAStep(t *testing.T) {
	st := testEngine(0).newState(false)
	long := "[" + strings.Repeat("%d", 2*checkEvery) + "]"
	for name, step := range map[string]func(m *matcher, out *heldBuffer){
		"replacement": func(m *matcher, out *heldBuffer) { m.expandReplacement(out, "%1%1", 0, 0) },
		"set":         func(m *matcher, _ *heldBuffer) { m.set('a', 0, len(long)-1) },
		"class":       func(m *matcher, _ *heldBuffer) { m.classEnd(0) },
	} {
		st.reset()
		ended := false
		fn := st.L.NewFunction("", func(L *lua.State) int {
			L.Kill(ErrKilled)
			out := hold(L)
			step(&matcher{L: L, p: long}, &out)
			ended = true
			return 0
		})
		if _, err := st.L.PCall(fn, nil, nil); ended || err == nil {
			t.Errorf("%s: a killed state goes on to its end", name)
		}
	}
}

// TestPlusSignInJSON: the decoder accepts a plus sign before a number, as cjson does, though JSON
// does not.
func TestPlusSignInJSON(t *testing.T) {
	if got := eval(t, testEngine(0), &host{}, `return cjson.decode("[+1,[+2]]")`,
		2); got != "*2\r\n:1\r\n*1\r\n:2\r\n" {
		t.Errorf("%q", got)
	}
}

// TestComparisonOfStringAndThread: C's Lua distinguishes two types by the third letter of their
// names.
func TestComparisonOfStringAndThread(t *testing.T) {
	got := eval(t, testEngine(0), &host{}, `return "a" < coroutine.create(function() end)`, 2)
	if !strings.Contains(got, "attempt to compare two string values") {
		t.Errorf("%q", got)
	}
}

// TestLibraryTextsAreCounted: the names and descriptions of functions count as the library's
// memory, although Go variables hold them.
func TestLibraryTextsAreCounted(t *testing.T) {
	e := testEngine(24 << 20)
	for _, source := range []string{
		`local s = ("x"):rep(2e6) for i = 1, 40 do redis.register_function{function_name = "f" .. i, callback = function() end, description = s .. i} end`,
		`local s = ("x"):rep(2e6) for i = 1, 40 do redis.register_function(s .. i, function() end) end`,
	} {
		if _, err := e.Load(source, time.Hour, &Run{}); err == nil ||
			!strings.Contains(err.Error(), "not enough memory") {
			t.Errorf("%s: %v", source, err)
		}
	}
	lib,
		err :=
		e.Load(`local flags = {} for i = 1, 1000 do flags[i] = "no-writes" end redis.register_function{function_name = "f", callback = function() end, flags = flags}`,
			time.Hour, &Run{})
	if err != nil || len(lib.Function("f").Flags) != 1 {
		t.Errorf("a flag a thousand times over: %v", err)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
