// Package commands has every command: one declaration (Spec) and one handler each, a
// file per family, listed once in table.go. Commands that differ in a unit, an end or a
// type are declared by one function of their family. From the declaration come arity
// errors, locks, COMMAND and its documentation, and the tests that build valid and
// broken calls.
//
// A handler is func(*Ctx) error. It reads its arguments through a Cursor, reaches
// data only through c.Txn (whose keys are locked and in memory before it runs), and
// either writes one reply to c.Out or returns an error. It takes no lock, reads no
// clock and does no I/O. Handlers of commands flagged Slow are the exception: they
// run on an executor goroutine, start without any lock, and may wait.
package commands
