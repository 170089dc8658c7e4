// Package archive keeps a copy of all that a log had, in files of another directory: with a backup
// it gives any moment since then.
//
// A file has the batches between two positions, compressed and with checksums (storage/backupfile):
//
//	length 4, Header as JSON
//	batch    its LSN less that of the one before it, bytes of it (both as varints), bytes
//
// Its name says which log it is of and at which position it begins: keyp-HISTORY-POSITION.log, so
// names are in order. A file has its name when all of it is on disk, and is not changed then. Each
// names the sum of all files before it, so one that is missing, of another log, or of a copy of
// this one that went on by itself, does not fit.
//
// What was archived the directory of the data notes (State), and the log keeps what was not
// (wal.Hold).
package archive
