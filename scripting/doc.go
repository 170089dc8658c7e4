// Package scripting runs Lua 5.1 as Redis scripts have it: the sandbox, the libraries, the
// conversions between Lua and RESP. It knows nothing of keys or commands: what a script asks
// of the server goes through Host. The language itself is package scripting/lua, which has the
// basic functions and the libraries of tables, coroutines and mathematics as well.
//
// # Sandbox
//
// Global variables, libraries and their metatables are readonly tables, which nothing that a
// program can call writes to. So nothing of a script is left behind in a state, and states are
// used again. What a library keeps (cjson's options, the random numbers) is set back before
// each script.
//
// A library of functions has a state of its own. While its program runs, its environment has
// nothing but redis.register_function and redis.log, as with Redis; then the same table becomes
// that of its functions, with all globals.
//
// # Bounds
//
// A script ends when its Run is killed, from any goroutine, or when it takes more than
// Options.Memory. The state counts what is allocated and measures what is reachable, and a
// builtin counts before it takes:
//
//   - a text that is made grows in a buffer, which reserves (buffer.go);
//   - a table that a decoder fills is on the stack, or in a table that is there, before it is
//     filled (place.go), so whatever is there already is measured;
//   - a command's reply is as long as what the script may still take.
//
// Builtins take time in proportion to their arguments, or look at whether they are to end.
package scripting
