// Package childproc starts child processes that end when this process ends, and ends this
// process when its own parent ends.
//
// # Invariants
//
//   - On Linux the kernel kills what Start started when this process ends, in whatever
//     way: kill -9 and the panic of a test that timed out run no cleanups. Other
//     systems have no such means; there such a process outlives a kill.
package childproc
