package scripting

import (
	"slices"
	"strings"
	"testing"
)

func TestBrief(t *testing.T) {
	for source, want := range map[string]string{
		`return 1`: "", `return redis.call("GET", KEYS[1])`: "get",
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`:               "get del",
		`local n = redis.call("incr", KEYS[1]) if n == 1 then redis.pcall("expire", KEYS[1], ARGV[1]) end return n .. ""`: "incr expire",
		`local r = {} for i = 1, #KEYS do r[#r + 1] = redis.call("get", KEYS[i]) end return r`:                            "get",
		`for i, k in ipairs(KEYS) do redis.call("set", k, ARGV[i]) end return redis.status_reply("OK")`:                   "set",
		`for i = 1, 10 do redis.call("incr", KEYS[1]) end`:                                                                "incr",
		`return redis.call("mget", unpack(KEYS))`:                                                                         "mget",
		`local s = ARGV[1]:lower() return cjson.encode({s, tonumber(ARGV[2]), math.floor(1.5), cjson.null})`:              "",
	} {
		script, err := Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		commands, ok := script.Brief()
		if !ok || !slices.Equal(commands, strings.Fields(want)) {
			t.Errorf("%s: %q, %v; want %s", source, commands, ok, want)
		}
	}
	for _, source := range []string{
		`while true do end`, `repeat until false`, `for i = 1, 1e9 do end`, `for i = 1, 10 do for j = 1, 10 do end end`, `for i = 1, ARGV[1] do end`,
		`for i = 1, 10, 0 do end`, `for i = 10, 1, -1 do end`, `for k, v in pairs(KEYS) do end`, `for i, k in ipairs(KEYS) do KEYS[#KEYS + 1] = k end`,
		`local KEYS = {} for i = 1, #KEYS do end`, `local t = KEYS for i = 1, #KEYS do table.insert(t, 1) end`, `table.insert(KEYS, 1)`, `table.insert(ARGV, 1)`,
		`local function f() return f() end return f()`, `return (function() end)()`, `return redis.call(ARGV[1])`, `redis.call()`,
		`local call = redis.call call("get", "x")`, `return pcall(redis.call, "get", "x")`, `return string.rep("x", 1e8)`, `return ("x"):rep(1e8)`,
		`local tonumber = string.rep return tonumber("x", 1e8)`, `return _G.string.rep("x", 1e8)`, `local r = redis r.call("keys", "*")`,
		`return string.find(ARGV[1], ARGV[2])`, `return loadstring(ARGV[1])()`, `goto a ::a::`, `local t = {f = redis.call} t.f("get", "x")`,
		`return setmetatable({}, {})`, `local a = KEYS`, `return KEYS`,
	} {
		script, err := Compile(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if commands, ok := script.Brief(); ok {
			t.Errorf("%s is brief: %q", source, commands)
		}
	}
}
