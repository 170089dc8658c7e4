package lua

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// evaluate runs a program and returns its first result as text, or its error.
func evaluate(t testing.TB, L *State, source string) (result string, e *Error) {
	t.Helper()
	p, err := Compile(source, CompileOptions{Name: "@user_script"})
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	results, e := L.PCall(L.Load(p, nil), nil, nil)
	if e != nil {
		return "", e
	}
	if len(results) > 0 {
		result = L.ToString(results[0])
	}
	return result, nil
}

// greedy are programs that take memory without end, each in a different way.
var greedy = []string{
	"local t = {} local i = 0 while true do i = i + 1 t[i] = i end",
	"local t = {} local i = 0 while true do i = i + 1 t['k' .. i] = i end",
	"local t = {} while true do t = {t} end",
	"local t = {} while true do t[#t + 1] = {} end",
	"local s = 'x' while true do s = s .. s end",
	"local t, i = {}, 0 while true do i = i + 1 t[i] = table.concat({i, 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz'}) end",
	"local t = {} while true do t[#t + 1] = function() return t end end",
	"local t, i = {}, 0 while true do i = i + 1 local n = i t[i] = function() return n end end",
	"local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
	"local t = {} while true do local c = coroutine.wrap(function() local x = {} coroutine.yield() return x end) c() t[#t + 1] = c end",
	"local t, i = {}, 0 while true do i = i + 1 t[i] = loadstring('return ' .. i .. ', \"' .. ('x'):rep(1000) .. '\"') end",
	"local t, i = {}, 0 while true do i = i + 1 t[i] = loadstring('return \"' .. i .. ('x'):rep(1000) .. '\"')() end",
	"local function f(...) f(1, 2, 3, 4, 5, 6, 7, 8, ...) end f()",
	"local function f(...) local a, b, c, d, e, g = 1, 2, 3, 4, 5, 6 f(a, b, c, d, e, g, ...) end f()",
	"local t = {} for i = 1, 1e9 do t[i + 0.5] = true end",
	"local t, i = {}, 0 while true do i = i + 1 pcall(function() t[i] = ('x'):rep(10000) .. i end) end",
	"local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) end",
}

// TestMemoryLimit: no program exceeds its memory limit by more than a tenth, even if it catches the
// error.
func TestMemoryLimit(t *testing.T) {
	const limit = 16 << 20
	for _, source := range greedy {
		L := newTestState(t)
		before := heapNow()
		L.SetMemoryLimit(limit)
		failures, most := 0, int64(0)
		L.seams.onNoMemory = func() {
			if failures++; failures > 3 {
				L.Kill(errors.New("enough"))
			}
			most = max(most, heapNow()-before)
		}
		_, e := evaluate(t, L, source)
		if e == nil {
			t.Fatalf("%s: ended well", source)
		}
		if e.Killed == nil && e.Error() != "not enough memory" && !strings.Contains(e.Error(),
			"stack overflow") {
			t.Errorf("%s: %v", source, e)
		}
		if most > limit*11/10 {
			t.Errorf("%s: %d KB live with a limit of %d KB", source, most>>10, limit>>10)
		}
		runtime.KeepAlive(L)
	}
}

// TestMemoryIsFreed: garbage does not count. A program may allocate many times its limit.
func TestMemoryIsFreed(t *testing.T) {
	L := newTestState(t)
	L.SetMemoryLimit(4 << 20)
	result, e := evaluate(t, L,
		"local n = 0 for i = 1, 300 do local s = ('x'):rep(100000) .. i n = n + #s for j = 1, 100 do local t = {j} end end return n")
	if e != nil || result != "30000792" {
		t.Errorf("%s, %v", result, e)
	}
}

// TestKill: a killed state ends soon, whatever it does.
func TestKill(t *testing.T) {
	why := errors.New("killed")
	for _, source := range []string{
		"while true do end", "repeat until false", "for i = 1, 1e18 do end",
		"local function f() return f() end f()",
		"while true do pcall(function() while true do end end) end",
		"while true do xpcall(error, function() while true do end end) end",
		"local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
		"coroutine.wrap(function() while true do pcall(error) end end)()",
		"table.insert({}, -2147483648, 1)",
		"table.foreachi({1, 2}, function() while true do end end)",
		"local t = {} for i = 1, 100 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end",
		"local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
		"for k in pairs({1}) do while true do end end", "load(function() while true do end end)",
		"local t = {} for i = 1, 1000 do t[i] = 1 end while true do for _ in pairs(t) do end end",
		"local x = 1 while x do if x == 2 then x = 3 end end",
		"while not nil do local a = 1 and 2 or 3 end",
		"for i in function() return 1 end do end",
	} {
		L := newTestState(t)
		L.SetMemoryLimit(64 << 20)
		timer := time.AfterFunc(20*time.Millisecond, func() { L.Kill(why) })
		_, e := evaluate(t, L, source)
		timer.Stop()
		if e == nil || !errors.Is(e, why) {
			t.Errorf("%s: %v", source, e)
			continue
		}
		L.Reset()
		if result, e := evaluate(t, L, "return 1 + 1"); e != nil || result != "2" {
			t.Errorf("after %s: %s, %v", source, result, e)
		}
	}
}

// TestDeepCallsTakeLittleStack: deeply nested Go calls end with an error while the Go stack is
// still small. With a maximum of 16 MB, a deeper stack would end the process.
func TestDeepCallsTakeLittleStack(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20))
	for _, source := range []string{
		"local function f() local ok, e = pcall(f) return e end return f()",
		"local function f() return pcall(pcall, f) end return f()",
		"local function f() return coroutine.wrap(f)() end return select(2, pcall(f))",
		"local function f() local c = coroutine.create(f) return coroutine.resume(c) end f() return 'x'",
		"local function f() table.sort({1, 2}, f) end return select(2, pcall(f))",
		"local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return select(2, pcall(function() return t.x end))",
		"local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return tostring(t) end return select(2, pcall(tostring, t))",
		"local t = setmetatable({}, {}) getmetatable(t).__concat = function() return t .. t end return select(2, pcall(function() return t .. 1 end))",
		"local t = setmetatable({}, {}) getmetatable(t).__add = function() return t + 1 end return select(2, pcall(function() return t + 1 end))",
		"local t = setmetatable({}, {}) getmetatable(t).__call = function() return t() + 1 end return select(2, pcall(t))",
		"local function f() return xpcall(f, f) end f() return 'x'",
		"local function f() table.foreach({1}, f) end return select(2, pcall(f))",
		"local function f() load(f) end return select(2, pcall(f))",
		"local function f() pcall(coroutine.wrap(function() table.sort({1, 2, 3}, f) end)) end f() return 'x'",
		"local function f(n) if n > 0 then return f(n - 1) + 1 end return 0 end return pcall(f, 100000)",
	} {
		L := newTestState(t)
		L.SetMemoryLimit(256 << 20)
		// Some programs take exponential time.
		timer := time.AfterFunc(time.Second, func() { L.Kill(errors.New("killed")) })
		done := make(chan string)
		go func() {
			result, e := evaluate(t, L, source)
			if e != nil {
				result = e.Error()
			}
			done <- result
		}()
		t.Logf("%s: %.100s", source, await.For(t, "the program ends", done))
		timer.Stop()
	}
}

// TestCompileBounds: a compilation respects its memory limit, and can be ended.
func TestCompileBounds(t *testing.T) {
	source := "return {" + strings.Repeat("{1, 'a'},", 100000) + "}"
	if _, err := Compile(source, CompileOptions{Name: "=x", Memory: 1 << 20}); !errors.Is(err,
		ErrMemory) {
		t.Errorf("a program beyond its memory: %v", err)
	}
	var stop atomic.Bool
	stop.Store(true)
	for _, source := range []string{source, "return [[" + strings.Repeat("x", 100000) + "]]",
		"return '" + strings.Repeat("x", 100000) + "'"} {
		if _, err := Compile(source, CompileOptions{Name: "=x", Stop: &stop}); !errors.Is(err,
			ErrStopped) {
			t.Errorf("a stopped compilation: %v", err)
		}
	}
}

// TestCompileIsLinear: ten times the constants or functions take ten times the memory, not a
// hundred times. That holds for memory that is kept and for temporary memory. A small function
// takes some hundred bytes.
func TestCompileIsLinear(t *testing.T) {
	strings := func(n int) string {
		b := []byte("local t = {} ")
		for i := range n {
			b = fmt.Appendf(b, "t[%d] = 'string%d' ", i, i)
		}
		return string(b)
	}
	functions := func(n int) string {
		b := []byte("local t = {} ")
		for i := range n {
			b = fmt.Appendf(b, "t[%d] = function(a, b) return a + b end ", i)
		}
		return string(b)
	}
	for _, make := range []func(int) string{strings, functions} {
		small, many := make(2000), make(20000)
		var a, b *Program
		first := allocated(func() { a, _ = Compile(small, CompileOptions{Name: "=x"}) })
		second := allocated(func() { b, _ = Compile(many, CompileOptions{Name: "=x"}) })
		if second > 20*first || b.Bytes() > 11*a.Bytes() {
			t.Errorf("2,000 take %d bytes and keep %d, 20,000 take %d and keep %d", first,
				a.Bytes(), second, b.Bytes())
		}
	}
	p, err := Compile(functions(1000), CompileOptions{Name: "=x"})
	if err != nil {
		t.Fatal(err)
	}
	const most = 500
	if each := p.Bytes() / 1000; each > most {
		t.Errorf("a small function keeps %d bytes", each)
	}
}

func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestProgramBytes: Bytes is the memory that a program really keeps.
func TestProgramBytes(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b,
			"local function f%d(a, b) local s = 'constant %d' if a > b then return s .. a end return redis.call('get', b) end ",
			i%100, i)
		if i%100 == 99 {
			b.WriteString("do end ")
		}
	}
	source := "do " + strings.ReplaceAll(b.String(), "do end ", "end do ") + "end"
	var list []*Program
	before := heapNow()
	for range 50 {
		p, err := Compile(source, CompileOptions{Name: "=x"})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	each := (heapNow() - before) / int64(len(list))
	if said := list[0].Bytes(); said < each*8/10 || said > each*12/10 {
		t.Errorf("a program keeps %d bytes and says %d", each, said)
	}
	runtime.KeepAlive(list)
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBuiltinPanicsPass: a panic in a builtin is not treated as a program's error.
func TestBuiltinPanicsPass(t *testing.T) {
	L := newTestState(t)
	L.Globals().SetString(L, "host", L.NewFunction("host", func(*State) int {
		panic("of the host")
	}))
	defer func() {
		if p := recover(); p != "of the host" {
			t.Errorf("recovered %v", p)
		}
	}()
	evaluate(t, L, "pcall(host)")
}

// TestHandlerSeesWhereAnErrorWasRaised runs a program with an error that a handler in Go inspects.
func TestHandlerSeesWhereAnErrorWasRaised(t *testing.T) {
	for source, want := range map[string]string{
		"\nlocal x = nil + 1":                                "user_script:2 x",
		"\n\nerror('a')":                                     "user_script:3 x",
		"\nlocal function f()\nerror({}) end\nf()":           "user_script:3 x",
		"\nlocal function f() error(nil) end pcall(f)\n f()": "user_script:2 x",
	} {
		L := newTestState(t)
		p, err := Compile(source, CompileOptions{Name: "@user_script"})
		if err != nil {
			t.Fatal(err)
		}
		_, e := L.PCall(L.Load(p, nil), nil, func(L *State, v Value) Value {
			for level := range 2 {
				if name, line, ok := L.Place(level); ok {
					return L.String(fmt.Sprintf("%s:%d x", name, line))
				}
			}
			return v
		})
		if e == nil || e.Error() != want {
			t.Errorf("%q: %v, want %s", source, e, want)
		}
	}
}

// TestGarbageCollection runs programs that create and drop many objects while Go's collector runs
// all the time.
func TestGarbageCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	L := newTestState(t)
	for range 3 {
		result, e := evaluate(t, L, `
			local t = {}
			for i = 1, 3000 do
				local key = 'k' .. i % 700
				t[key] = {i, key, function() return i end, t[key] and t[key][2]}
				if i % 3 == 0 then t['k' .. (i * 7) % 700] = nil end
				local co = coroutine.wrap(function(a) local b = coroutine.yield(a .. i) return b .. a end)
				if co('x') ~= 'x' .. i or co('y') ~= 'yx' then error('coroutine') end
			end
			local n = 0
			for k, v in pairs(t) do
				if v[2] ~= k or v[3]() ~= v[1] then error(k) end
				n = n + 1
			end
			return n`)
		if e != nil || result == "0" {
			t.Fatalf("%s, %v", result, e)
		}
		L.Reset()
	}
}

// TestReset: a state keeps nothing of a program that has ended.
func TestReset(t *testing.T) {
	L := newTestState(t)
	before := L.Memory()
	if _, e := evaluate(t, L,
		"local t = {} for i = 1, 1e5 do t[i] = {i} end local function f(n, ...) if n > 0 then return f(n - 1, t, ...) end end f(100) return t"); e != nil {
		t.Fatal(e)
	}
	L.Reset()
	if after := L.Memory(); after > before+10_000 {
		t.Errorf("%d bytes before, %d after", before, after)
	}
}

// TestCompileBesideGarbage: garbage does not make a compilation fail. If a script compiles a
// program that is too large for the limit, the script ends.
func TestCompileBesideGarbage(t *testing.T) {
	L := newTestState(t)
	L.SetMemoryLimit(8 << 20)
	result, e := evaluate(t, L,
		`local s = "return {" .. ("{1},"):rep(20000) .. "1}" for i = 1, 200 do assert(loadstring(s)) end return "well"`)
	if e != nil || result != "well" {
		t.Errorf("compiling again and again gives %q, %v", result, e)
	}
	L.Reset()
	_, e = evaluate(t, L, `local s = "return {" .. ("{1},"):rep(1e6) .. "1}" return loadstring(s)`)
	if e == nil || e.Killed == nil {
		t.Errorf("compiling too much gives %v", e)
	}
}
