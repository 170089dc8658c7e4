// Package commands holds all commands. Each has one declaration (Spec) and one handler. Each family
// of commands has a file; table.go lists all commands once. The declaration determines arity
// errors, locks, the replies of COMMAND and its documentation, and the tests that build valid and
// broken calls.
//
// A handler is func(*Ctx) error. It reads its arguments through a Cursor, and reaches data only
// through c.Txn, whose keys are locked and in memory before it runs. It either writes one reply to
// c.Out or returns an error. It takes no lock, reads no clock and does no I/O. Handlers of scope
// Unlocked are the exception: they run in a task outside of the loop, have nothing locked when they
// start, and may wait.
//
// The Scope of a call is the data that the call may touch (scope.go). Dispatch alone decides from
// it how the call runs (dispatch.go): inline, after keys were loaded, in a task (tasks.go), or
// later.
package commands
