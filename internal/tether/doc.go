// Package tether starts processes that end with the one that started them, and ends this
// one with its own parent.
//
// # Invariants
//
//   - On Linux the kernel kills what Start started when this process ends, however that
//     comes about: kill -9 and the panic of a test that timed out run no cleanups. Other
//     systems have no such means; there such a process outlives a kill.
package tether
