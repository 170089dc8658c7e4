// Package torture has the tests that crash a whole Keyp, from commands to replies, at random
// moments, and check the data after recovery.
//
// # A history
//
// A history is a sequence of operations drawn from a seed. The operations are commands of all
// families on few keys, in transactions, scripts and functions; steps of the clock, forward and
// back; commits, reaping, eviction, checkpoints with other operations during them, compactions, and
// restarts. One goroutine runs all operations, in an order that the seed decides (storage.Manual),
// so a seed gives the same history again. Only where bbolt puts its pages depends on the order of
// Go's maps.
//
// The twin is a second Keyp that never crashes, checkpoints or evicts. It runs the same commands
// later, but its clock then shows the times at which the first Keyp ran them. After a crash it
// first runs all operations that were acknowledged. Then its state is compared with the recovered
// one, and again after each further operation.
//
// # What a crash leaves
//
// A crash comes at a moment: before any call of the log's file system, before or within a
// transaction of the data file, and around the renaming of files.
//
//   - The log is on vfs.Mem, which keeps any subset of the sectors, sizes and names that were not
//     synced.
//   - The data file is bbolt's, a plain file, which vfs.Mirror keeps in step with one on the same
//     vfs.Mem. bbolt writes data pages in place of unused ones, syncs, writes one of two meta
//     pages, and syncs. The writes of a transaction's pages count as one moment, since those
//     that were not synced may be lost in any order.
//   - A file that was renamed has one of its two names until its directory is synced.
//   - After a kill all written data is still there, whether synced or not.
//
// Recovery is crashed too, again and again.
//
// # What must come back
//
//   - The content after one of the issued operations, with all of its databases, values, elements,
//     deadlines and libraries of functions. So each operation, transaction or script is there as a
//     whole or not at all, and none is there without those before it.
//   - No content from before the last acknowledged write, or before the last write that an
//     acknowledged read may have seen.
//   - Nothing that had expired. Store.Check finds nothing.
package torture
