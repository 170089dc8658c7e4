package scripting

import "keyp/scripting/lua"

// dest says where a decoder puts a value: on Lua's stack, or in a table that is in use already. A
// decoder first puts a new table there and then fills it. So the limit of a script's memory also
// counts tables that are only half decoded.
type dest struct {
	t     *lua.Table // nil: the stack
	index int        // 0: the key is on top of the stack
}

func (p dest) put(L *lua.State, v lua.Value) {
	switch {
	case p.t == nil:
		L.Push(v)
	case p.index > 0:
		p.t.SetInt(L, p.index, v)
	default:
		p.t.Set(L, L.Top(1), v)
	}
}

// table creates a table, puts it in its place and returns it.
func (p dest) table(L *lua.State) *lua.Table {
	t := L.NewTable(0, 0)
	p.put(L, t.Value())
	return t
}
