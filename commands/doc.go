// Package commands holds every command: one declaration (Spec) and one handler each,
// a file per family, listed once in table.go. From the declaration come arity
// errors, locks, COMMAND and its documentation, and the tests that build valid and
// broken calls.
//
// A handler is func(*Ctx) error. It reads its arguments through a Cursor, reaches
// data only through c.Txn (whose keys are locked and in memory before it runs), and
// either writes one reply to c.Out or returns an error. It takes no lock, reads no
// clock and does no I/O. Handlers of scope Unlocked are the exception: they run in a job
// beside the loop, have nothing locked when they start, and may wait.
//
// What a call may touch is its Scope (scope.go); how it runs follows from that, which Dispatch
// alone decides (dispatch.go): inline, after keys were loaded, in a job (jobs.go), or later.
package commands
