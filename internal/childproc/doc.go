// Package childproc starts child processes that end when this process ends, and ends this
// process when its own parent ends.
//
// # Invariants
//
//   - On Linux the kernel kills the processes of Start when this process ends. It does so even if
//     this process can run no cleanup, as after kill -9, or the panic of a test that timed out. On
//     other systems the processes continue if this process is killed.
package childproc
