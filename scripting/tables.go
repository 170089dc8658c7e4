package scripting

import (
	"math"
	"slices"

	lua "github.com/yuin/gopher-lua"
)

func (st *state) openTable() {
	st.library("table", map[string]lua.LGFunction{
		"concat": st.tableConcat, "foreach": st.tableForeach, "foreachi": st.tableForeachi,
		"getn": st.tableGetn, "insert": st.tableInsert, "maxn": st.tableMaxn,
		"remove": st.tableRemove, "setn": tableSetn, "sort": st.tableSort,
	})
}

func (st *state) tableConcat(L *lua.LState) int {
	separator := optString(L, "concat", 2, "") // looked at first, as Lua does
	t := st.shown(argTable(L, "concat", 1))
	first := optInt(L, "concat", 3, 1)
	last := optInt(L, "concat", 4, t.Len())
	var out []byte
	for i := first; i <= last; i++ {
		v := t.RawGet(lua.LNumber(i))
		switch v := v.(type) {
		case lua.LString:
			out = append(out, v...)
		case lua.LNumber:
			out = appendNumber(out, float64(v))
		default:
			L.RaiseError("invalid value (%s) at index %d in table for 'concat'", typeName(v), i)
		}
		if i != last {
			out = append(out, separator...)
		}
		st.room(L, len(out))
	}
	L.Push(lua.LString(out))
	return 1
}

func (st *state) tableForeach(L *lua.LState) int {
	t, fn := st.shown(argTable(L, "foreach", 1)), argFunction(L, "foreach", 2)
	for key, value := t.Next(lua.LNil); key != lua.LNil; key, value = t.Next(key) {
		if each(L, fn, key, value) {
			return 1
		}
	}
	return 0
}

func (st *state) tableForeachi(L *lua.LState) int {
	t, fn := st.shown(argTable(L, "foreachi", 1)), argFunction(L, "foreachi", 2)
	for i := 1; i <= t.Len(); i++ {
		if each(L, fn, lua.LNumber(i), t.RawGetInt(i)) {
			return 1
		}
	}
	return 0
}

// each calls fn for an element and leaves what it returns, if that is not nil.
func each(L *lua.LState, fn *lua.LFunction, key, value lua.LValue) bool {
	L.Push(fn)
	L.Push(key)
	L.Push(value)
	L.Call(2, 1)
	if L.Get(-1) != lua.LNil {
		return true
	}
	L.Pop(1)
	return false
}

func (st *state) tableGetn(L *lua.LState) int {
	L.Push(lua.LNumber(st.shown(argTable(L, "getn", 1)).Len()))
	return 1
}

func tableSetn(L *lua.LState) int {
	argTable(L, "setn", 1)
	L.RaiseError("'setn' is obsolete")
	return 0
}

func (st *state) tableMaxn(L *lua.LState) int {
	t := st.shown(argTable(L, "maxn", 1))
	most := 0.0
	for key, _ := t.Next(lua.LNil); key != lua.LNil; key, _ = t.Next(key) {
		if n, ok := key.(lua.LNumber); ok {
			most = math.Max(most, float64(n))
		}
	}
	L.Push(lua.LNumber(most))
	return 1
}

func (st *state) tableInsert(L *lua.LState) int {
	t := st.change(L, argTable(L, "insert", 1))
	switch n := t.Len(); L.GetTop() {
	case 2:
		t.RawSetInt(n+1, L.Get(2))
	case 3:
		at := argInt(L, "insert", 2)
		for i := n; i >= at; i-- {
			L.RawSet(t, lua.LNumber(i+1), t.RawGet(lua.LNumber(i)))
		}
		L.RawSet(t, lua.LNumber(at), L.Get(3))
	default:
		L.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

func (st *state) tableRemove(L *lua.LState) int {
	given := argTable(L, "remove", 1)
	t := st.shown(given)
	n := t.Len()
	at := optInt(L, "remove", 2, n)
	if at < 1 || at > n {
		return 0
	}
	st.change(L, given)
	// It shortens the table's array, so that lengths stay cheap to find.
	v := t.RawGetInt(at)
	t.Remove(at)
	L.Push(v)
	return 1
}

func (st *state) tableSort(L *lua.LState) int {
	given := argTable(L, "sort", 1)
	t := st.shown(given)
	var fn *lua.LFunction
	if L.Get(2) != lua.LNil {
		fn = argFunction(L, "sort", 2)
	}
	items := make([]lua.LValue, t.Len())
	for i := range items {
		items[i] = t.RawGetInt(i + 1)
	}
	if len(items) > 1 {
		st.change(L, given)
	}
	less := func(a, b lua.LValue) bool {
		if fn == nil {
			return L.LessThan(a, b)
		}
		L.Push(fn)
		L.Push(a)
		L.Push(b)
		L.Call(2, 1)
		result := lua.LVAsBool(L.Get(-1))
		L.Pop(1)
		return result
	}
	slices.SortFunc(items, func(a, b lua.LValue) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
	for i, v := range items {
		t.RawSetInt(i+1, v)
	}
	return 0
}
