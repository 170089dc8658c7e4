// Package scripting runs Redis scripts in Lua 5.1: the sandbox, the libraries, the conversions
// between Lua and RESP. It contains no code for keys or commands: a script reaches the server only
// through Host. The language itself is package scripting/lua, with the basic functions and the
// table, coroutine and math libraries.
//
// # Sandbox
//
// Global variables, libraries and their metatables are readonly tables, and no function that a
// program can call writes to them. So a script cannot leave anything in a state, and states are
// reused. The state of a library (cjson's options, the random numbers) is reset before each script.
//
// A library of functions has a state of its own. While its program runs, its environment has only
// redis.register_function, redis.log and the log levels. Then the same table gets all globals and
// is the environment of its functions.
//
// # Bounds
//
// A script ends when its Run is killed, by any goroutine, or when it needs more than
// Options.Memory. The state counts allocations and measures reachable memory, and a builtin counts
// memory before it allocates it:
//
//   - a text grows in a buffer, which counts it (buffer.go);
//   - a decoder puts a table in its place before it fills the table (dest.go), so that the elements
//     are measured while it grows;
//   - a command's reply may take the memory that the limit leaves.
//
// Builtins take time in proportion to their arguments, or poll whether the script was killed.
package scripting
