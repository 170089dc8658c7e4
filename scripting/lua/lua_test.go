package lua

import (
	"fmt"
	"strings"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// newTestState gives a state with this package's libraries and a global function out.
func newTestState(t testing.TB) *State {
	t.Helper()
	L := NewState()
	g := L.Globals()
	L.OpenBase(g)
	g.SetString(L, "table", L.OpenTable().Value())
	g.SetString(L, "math", L.OpenMath().Value())
	g.SetString(L, "coroutine", L.OpenCoroutine().Value())
	return L
}

// show gives the results of a program as text, or its error.
func show(t testing.TB, L *State, source string) string {
	t.Helper()
	p, err := Compile(source, CompileOptions{Name: "@user_script"})
	if err != nil {
		return "error: " + err.Error()
	}
	results, e := L.PCall(L.Load(p, nil), nil, nil)
	if e != nil {
		return "error: " + e.Error()
	}
	var words []string
	for _, v := range results {
		words = append(words, showValue(v, 0))
	}
	return strings.Join(words, " ")
}

func showValue(v Value, depth int) string {
	switch v.Kind() {
	case KindNil:
		return "nil"
	case KindBoolean:
		return fmt.Sprint(v.Truth())
	case KindTable:
		if depth > 5 {
			return "{...}"
		}
		var words []string
		t := v.AsTable()
		for key, value, _ := t.Next(Nil); !key.IsNil(); key, value, _ = t.Next(key) {
			words = append(words, showValue(key, depth+1)+"="+showValue(value, depth+1))
		}
		return "{" + strings.Join(words, ",") + "}"
	case KindString, KindNumber:
		s, _ := v.Text()
		return s
	}
	return v.Kind().String()
}

func TestQuick(t *testing.T) {
	for _, p := range []string{
		"return 1+2, 'a'..'b'..3, #'abc'",
		"local s=0 for i=1,100 do s=s+i end return s",
		"local t={1,2,3,x=5,[10]=4} return #t, t.x, t[10]",
		"local function f(n) if n<2 then return n end return f(n-1)+f(n-2) end return f(20)",
		"local function f(...) return select('#',...), ... end return f(1,nil,3)",
		"return pcall(error, {1,2})",
		"return pcall(function() local x; x.y = 1 end)",
		"return foo.bar",
		"local t = {} for k,v in pairs({a=1,b=2,3}) do t[#t+1]=k end return t",
		"local t = {} for i,v in ipairs({5,6,7}) do t[i]=v*2 end return t",
		"local c = coroutine.wrap(function(a) local b = coroutine.yield(a+1) return b*2 end) return c(1), c(10)",
		"local t={5,3,1,4} table.sort(t) return t",
		"return table.concat({1,2,'x'}, ',')",
		"local mt={__index=function(t,k) return k..'!' end,__call=function(self,a) return a+1 end} local t=setmetatable({},mt) return t.foo, t(41)",
		"return 1 < 'x'", "return {} < {}", "return nil .. 'x'", "return #nil", "local a = {} return a.b.c", "return ('x'):foo()",
		"return loadstring('return 1+')", "return 10 % 3, -10 % 3, 2^10, 7/2",
		"local a = {} a[nil] = 1", "for i='x',2 do end", "return unpack({1,2,3})",
		"local f f = function() return f() + 1 end return pcall(f)",
		"if x then return 1 elseif not x then return 2 end",
		"local i=0 repeat local j=i i=i+1 until j>=3 return i",
		"goto x", "x = = 2", "return 'abc", "break", "local x <const> = 1",
		"return (function(...) return arg.n, arg[1] end)(7,8)",
	} {
		t.Logf("%s\n      => %s", p, show(t, newTestState(t), p))
	}
}
