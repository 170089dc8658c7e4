// Package childproc starts child processes that end when this process ends, and ends this
// process when its own parent ends.
//
// # Invariants
//
//   - On Linux the kernel kills the processes of Start when this process ends, even if this
//     process can run no cleanup (kill -9, the panic of a test that timed out). On other systems
//     they go on if this process is killed.
package childproc
