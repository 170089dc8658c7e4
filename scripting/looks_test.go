package scripting

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyp/scripting/lua"
)

// A script that runs for too long must be stopped, also within a builtin function. overTexts are
// calls of builtins that take long: each reads at least n bytes of a text, or all of a large table.
var overTexts = []string{
	`_G.tonumber, ("1"):rep(n)`, `_G.tonumber, ("0"):rep(n)`, `_G.tonumber, (" "):rep(n)`,
	`_G.tonumber, "0x" .. ("f"):rep(n)`, `_G.tonumber, "1e" .. ("1"):rep(n)`,
	`_G.tonumber, "." .. ("0"):rep(n)`, `_G.tonumber, ("1"):rep(n), 7`,
	`_G.tonumber, (" "):rep(n), 7`,
	`_G.loadstring, "return " .. ("1"):rep(n)`, `_G.loadstring, "return " .. ("1"):rep(n) .. "x"`,
	`_G.loadstring, "return 0x" .. ("1"):rep(n)`, `_G.loadstring, ("a"):rep(n)`,
	`_G.loadstring, "--" .. ("a"):rep(n)`, `_G.loadstring, "--[" .. ("="):rep(n)`,
	`_G.loadstring, ("\n"):rep(n)`, `_G.loadstring, (" "):rep(n)`,
	`_G.loadstring, "return [[" .. ("a"):rep(n) .. "]]"`,
	`_G.loadstring, "return '" .. ("a"):rep(n) .. "'"`,
	`_G.loadstring, "return '" .. ("\\a"):rep(n / 2) .. "'"`,
	`_G.loadstring, "return a" .. (" and a"):rep(n / 32)`,
	`_G.load, (function(s) local done return function() if not done then done = true return s end end end)((" "):rep(n))`,
	`bit.band, ("1"):rep(n), 1`, `bit.tobit, ("1"):rep(n)`, `math.abs, ("1"):rep(n)`,
	`math.max, 1, ("1"):rep(n)`,
	`cjson.encode, ("a"):rep(n)`, `cjson.encode, big`, `cjson.decode, '"' .. ("a"):rep(n) .. '"'`,
	`cjson.decode, (" "):rep(n) .. "1"`, `cjson.decode, "[" .. ("1"):rep(n) .. "]"`,
	`cmsgpack.pack, ("a"):rep(n)`, `cmsgpack.pack, big`,
	`cmsgpack.unpack, cmsgpack.pack(("a"):rep(n))`, `cmsgpack.unpack, cmsgpack.pack(big)`,
	`cmsgpack.unpack_one, cmsgpack.pack(("a"):rep(n))`,
	`cmsgpack.unpack_limit, cmsgpack.pack(("a"):rep(n)), 1`,
	`struct.pack, "s", ("a"):rep(n)`, `struct.pack, "c0", ("a"):rep(n)`,
	`struct.pack, ("<"):rep(n)`, `struct.unpack, "s", ("a"):rep(n) .. "\0"`,
	`struct.unpack, ("<"):rep(n), ""`, `struct.size, ("x"):rep(n)`,
	`redis.sha1hex, ("a"):rep(n)`, `redis.error_reply, ("a"):rep(n)`,
	`redis.error_reply, ("\n"):rep(n)`, `redis.log, ("1"):rep(n), ""`,
	`string.find, ("a"):rep(n), "b", 1, true`,
	`string.find, ("a"):rep(n), ("a"):rep(n / 2) .. "b", 1, true`, `string.find, "x", ("a"):rep(n)`,
	`string.find, ("a"):rep(n), "^.-b"`, `string.find, "a", "[" .. ("b"):rep(n) .. "]"`,
	`string.match, ("a"):rep(n), "^a*$"`,
	`string.gmatch(("a"):rep(n), "b")`, `string.gsub, ("a"):rep(n), "b", ""`,
	`string.gsub, "b", "b", ("a"):rep(n)`, `string.gsub, "b", "b", {b = ("a"):rep(n)}`,
	`string.rep, "a", n`, `string.rep, "abc", n / 3`,
	`string.reverse, ("a"):rep(n)`, `string.upper, ("a"):rep(n)`, `string.lower, ("A"):rep(n)`,
	`string.sub, ("a"):rep(n), 2`, `string.format, "%q", ("a"):rep(n)`,
	`string.format, "%s", ("a"):rep(n)`, `string.format, "%-5s", ("a"):rep(n)`,
	`string.format, ("a"):rep(n)`,
	`string.format, ("%%"):rep(n / 2)`, `string.format, "%d", ("1"):rep(n)`,
	`table.concat, {("a"):rep(n), "b"}`, `table.concat, big`, `table.insert, big, 1, 1`,
	`table.remove, big, 1`, `table.sort, big`, `table.foreach, big, function() end`,
	`table.foreachi, big, function() end`,
}

// quick are builtins without long work of their own: they read no text, and a table at most once.
// Other tests cover the functions that they call, and the conversions of their arguments to
// numbers.
var quick = strings.Fields(`
	_G.assert _G.collectgarbage _G.error _G.gcinfo _G.getfenv _G.getmetatable _G.ipairs _G.newproxy _G.next _G.pairs _G.pcall _G.rawequal _G.rawget _G.rawset
	_G.select _G.setfenv _G.setmetatable _G.tostring _G.type _G.unpack _G.xpcall coroutine.create coroutine.resume coroutine.running coroutine.status
	coroutine.wrap coroutine.yield cjson.encode_keep_buffer cjson.encode_max_depth cjson.decode_max_depth cjson.encode_number_precision
	cjson.encode_sparse_array cjson.encode_invalid_numbers cjson.decode_invalid_numbers cjson.new math.random math.randomseed os.clock redis.acl_check_cmd redis.breakpoint redis.call
	redis.debug redis.pcall redis.replicate_commands redis.set_repl redis.setresp redis.status_reply string.byte string.char string.dump string.gfind string.len table.getn table.maxn table.setn
`)

// inState calls a builtin in a state, as a program would.
func inState(st *state, call func(L *lua.State)) {
	st.reset()
	fn := st.L.NewFunction("", func(L *lua.State) int { call(L); return 0 })
	_, _ = st.L.PCall(fn, nil, nil)
}

// values runs a program and returns its results.
func values(t *testing.T, st *state, source string) []lua.Value {
	t.Helper()
	st.reset()
	p, err := lua.Compile(source, lua.CompileOptions{Name: "@user_script"})
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	results, fault := st.L.PCall(st.L.Load(p, nil), nil, nil)
	if fault != nil {
		t.Fatalf("%s: %v", source, fault)
	}
	return slices.Clone(results)
}

// builtins returns the names of all builtins that programs see.
func builtins(t *testing.T, st *state) (names []string) {
	t.Helper()
	for _, v := range values(t, st, `
		local names = {}
		for library, functions in pairs(_G) do
			if type(functions) == "function" then names[#names + 1] = "_G." .. library end
			if type(functions) == "table" and functions ~= _G then
				for name, f in pairs(functions) do if type(f) == "function" then names[#names + 1] = library .. "." .. name end end
			end
		end
		return unpack(names)`) {
		name, _ := v.AsString()
		names = append(names, name)
	}
	if len(names) < 100 {
		t.Fatalf("only %d builtins: %q", len(names), names)
	}
	return names
}

// TestLongWorkLooks: a builtin that reads a long text or a large table polls for a kill at least
// once every MiB. Each builtin is in overTexts, in quick, or in the libraries math and bit.
func TestLongWorkLooks(t *testing.T) {
	st := testEngine(0).newState(false)
	tested := map[string]bool{}
	calls := slices.Clone(overTexts)
	all := builtins(t, st)
	for _, name := range all {
		if library, _, _ := strings.Cut(name, "."); (library == "math" || library == "bit") &&
			!slices.Contains(quick, name) {
			calls = append(calls, name+`, ("1"):rep(n), ("1"):rep(n)`)
		}
	}
	const size = 4 << 20
	looks := func(call string, n int) (count int) {
		st = testEngine(0).newState(false)
		source := "local n, big = " + strconv.Itoa(n) + ", {} "
		if strings.Contains(call, "big") {
			source += "for i = 1, n / 8 do big[i] = i % 1000 end "
		}
		v := values(t, st, source+"return "+call)
		inState(st, func(L *lua.State) {
			L.OnLook(func() { count++ })
			defer L.OnLook(nil)
			_, _ = L.PCall(v[0], v[1:], nil)
		})
		return count
	}
	for _, call := range calls {
		tested[regexp.MustCompile(`^[\w.]+`).FindString(call)] = true
		if n := looks(call, size); n < size>>20-1 {
			t.Errorf("%s: looks %d times at %d MiB", call, n, size>>20)
		}
	}
	for _, name := range all {
		if !tested[name] && !slices.Contains(quick, name) {
			t.Errorf("nothing is known of %s: it belongs in one of the lists", name)
		}
	}
	// The compiler polls once in each step. The number of polls shows that the number of steps
	// grows linearly with the program.
	for _, chain := range []string{`"return a" .. (" and a"):rep(n)`,
		`"return a" .. (" or a"):rep(n)`, `"if a then " .. ("elseif a then "):rep(n) .. "end"`,
		`"while a do " .. ("if a then break end "):rep(n) .. "end"`,
		`"return " .. ("a and b or "):rep(n) .. "a"`} {
		if once, twice := looks("_G.loadstring, "+chain, 4000),
			looks("_G.loadstring, "+chain, 8000); once == 0 || twice > 3*once {
			t.Errorf("%s: %d looks at 4,000 and %d at 8,000", chain, once, twice)
		}
	}
}

// TestKilledCallbacks: a builtin that calls a function repeatedly makes no further call after a
// kill, even if the function itself does not poll.
func TestKilledCallbacks(t *testing.T) {
	st := testEngine(0).newState(false)
	called := map[string]bool{}
	for _, name := range builtins(t, st) {
		for _, args := range []string{"f", "f, f", "f, 1", "{3, 1, 2, 4}, f", "'aaaa', 'a', f",
			"meta", "meta, meta", "meta, ','", "meta, ',', 1, 4", "'%s%s', meta, meta"} {
			for _, f := range []string{"kill", "function() kill() return ' ' end",
				"function() return kill() end"} {
				st := testEngine(0).newState(false)
				calls := 0
				st.L.Globals().Set(st.L, st.L.String("kill"),
					st.L.NewFunction("kill", func(L *lua.State) int {
						calls++
						L.Kill(ErrKilled)
						L.Push(L.String(" "))
						return 1
					}))
				v := values(t, st, "local f = "+f+
					" local meta = setmetatable({}, {__index = f, __newindex = f, __tostring = f, __concat = f, __lt = f, __le = f, __eq = f, __call = f}) return "+strings.Replace(name,
					"_G.", "", 1)+", "+args)
				inState(st, func(L *lua.State) { _, _ = L.PCall(v[0], v[1:], nil) })
				called[name] = called[name] || calls > 0
				if calls > 1 {
					t.Errorf("%s with (%s) and %s: %d calls after a kill", name, args, f, calls)
				}
			}
		}
	}
	for _, name := range []string{"_G.load", "_G.pcall", "_G.xpcall", "_G.tostring", "string.gsub",
		"table.sort", "table.foreach", "table.foreachi"} {
		if !called[name] {
			t.Errorf("%s called nothing", name)
		}
	}
}
