// Package scripting runs Redis scripts in Lua 5.1: the sandbox, the libraries, the conversions
// between Lua and RESP. It knows nothing of keys or commands: a script reaches the server through
// Host only. The language itself is package scripting/lua, which also has the basic functions and
// the libraries of tables, coroutines and mathematics.
//
// # Sandbox
//
// Global variables, libraries and their metatables are readonly tables, and no function that a
// program can call writes to them. So a script leaves nothing behind in a state, and states are
// reused. The state of a library (cjson's options, the random numbers) is reset before each script.
//
// A library of functions has a state of its own. While its program runs, its environment has only
// redis.register_function and redis.log, as in Redis. Then the same table gets all globals and is
// the environment of its functions.
//
// # Bounds
//
// A script ends when its Run is killed, by any goroutine, or when it needs more than
// Options.Memory. The state counts allocations and measures reachable memory, and a builtin counts
// memory before it allocates it:
//
//   - a text grows in a buffer, which counts it (buffer.go);
//   - a table that a decoder fills is put on the stack, or in a table that is there, before it is
//     filled (place.go), so that its elements are measured as it grows;
//   - a command's reply may be as long as what the memory limit leaves.
//
// Builtins take time in proportion to their arguments, or poll whether the script was killed.
package scripting
