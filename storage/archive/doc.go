// Package archive keeps a copy of a whole log in files of another directory. With a backup, it
// restores any moment since then.
//
// A file has the batches between two positions, compressed and with checksums (storage/backupfile):
//
//	length 4, Header as JSON
//	batch    its LSN less that of the one before it, bytes of it (both as varints), bytes
//
// The file's name says which log it is of and at which position it begins:
// keyp-HISTORY-POSITION.log, so names are in order. A file gets its name when all of it is on disk,
// and is not changed afterwards. Each file names the sum of all files before it. So a file does not
// fit if one before it is missing or is of another log. Nor does it fit after a file of a copy of
// this log that went on by itself.
//
// The data's directory notes what was archived (State), and the log keeps the rest (wal.Hold).
package archive
