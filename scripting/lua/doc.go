// Package lua is an interpreter of Lua 5.1, as Redis embeds it: same language, same results, same
// error texts. It is made for programs that are not trusted. A program's memory is counted and
// bounded. A program can be ended from outside at any moment, and cannot reach anything that the
// interpreter relies on.
//
//	source ──Compile──▶ Program ──State.Load──▶ Function ──State.PCall──▶ results or Error
//
// A Program never changes and may be shared by states and goroutines. States share nothing that
// changes. A State is used by one goroutine at a time; only Kill may be called by any other.
//
// # Builtins
//
// A function in Go takes its arguments from the state and pushes its results:
//
//	func double(L *lua.State) int {
//		L.Push(lua.Number(2 * L.CheckNumber(1)))
//		return 1 // how many of the values pushed last are the results
//	}
//
// It raises errors with Errorf, Error, ArgError and the Check functions, which do not return. They
// panic, with a value that only this package recovers; other panics pass through. After such a
// panic the state must not be used any more.
//
// # Bounds
//
//   - Memory: strings, tables, functions, variables, stacks and coroutines are counted as they
//     are made (memory.go). When the sum passes the limit, the state measures what is reachable.
//     If that leaves no room, the program ends with ErrMemory, which it cannot catch. A builtin
//     calls Reserve before it makes anything large by itself. Values that only Go variables refer
//     to are not measured.
//   - Time: a killed state ends at its next call or backward jump; long builtins call Check.
//   - Depth: calls from Lua to Lua take no Go stack. Those that do (pcall, metamethods, sort,
//     gsub, coroutines…) are at most 200 deep over all coroutines together. A deeper one raises
//     "C stack overflow". Calls that take no Go stack are at most 20,000 deep, as in Lua 5.1.
//
// # What differs from Lua 5.1
//
//   - There are no finalizers (__gc), and weak tables (__mode) keep what they refer to.
//   - There are no binary chunks.
//   - The addresses in tostring's results are numbers of objects.
//   - An iterator of a for loop that is a Lua function may yield.
package lua
