// Package scripting runs Lua 5.1 as Redis scripts have it: the sandbox, the libraries, the
// conversions between Lua and RESP. It knows nothing of keys or commands: what a script asks
// of the server goes through Host.
//
// The interpreter is gopher-lua. Where it is not what Lua is, it is put right from outside:
//
//   - Numbers become text with %.14g and text becomes a number as strtod has it. So the
//     compiled program calls a function of ours for "..", strings have metamethods for
//     arithmetic, and literals are normalized (rewrite.go).
//   - An error that pcall catches closes no variable of the functions that live on:
//     protected calls run on a thread of their own (protect.go).
//   - The libraries are ours but for mathematics: patterns, string.format, tables with holes.
//
// # Sandbox
//
// Global variables and libraries are readonly tables: empty tables before the real ones,
// which a metatable leads to (sandbox.go). So nothing of a script is left behind in a state,
// and states are used again. What a library keeps (cjson's options, the random numbers) is
// set back before each script.
//
// # Bounds
//
// A script ends when its Run is killed, from any goroutine: at the next instruction, and in
// the loops of patterns. A timer that runs beside it kills it when the heap has grown by
// more than Options.Memory since it began and a collection does not help. Whatever makes
// one large string refuses to go beyond that by itself; depth of calls, of nested values
// and of the program's own text is limited.
package scripting
