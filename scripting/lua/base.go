package lua

// OpenBase fills a table, as a rule the globals, with Lua 5.1's basic functions: assert,
// collectgarbage, error, gcinfo, getfenv, getmetatable, ipairs, load, loadstring, next, pairs,
// pcall, rawequal, rawget, rawset, select, setfenv, setmetatable, tonumber, tostring, type,
// unpack, xpcall, _VERSION; and _G, which is the table itself.
func (L *State) OpenBase(globals *Table) { panic("todo") }

// OpenCoroutine gives the table of the coroutine library.
func (L *State) OpenCoroutine() *Table { panic("todo") }

// OpenTable gives the table of the table library.
func (L *State) OpenTable() *Table { panic("todo") }

// OpenMath gives the table of the mathematical library, with random and randomseed left out.
func (L *State) OpenMath() *Table { panic("todo") }

// PCallWith gives a builtin like pcall, of which convert may change the error that is given to
// the program.
func PCallWith(convert func(L *State, v Value) Value) Builtin { panic("todo") }
