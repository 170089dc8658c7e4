// Package archive keeps a copy of a whole log in files of another directory. Together with a
// backup, the copy restores any moment since that backup.
//
// A file contains the batches between two positions, compressed and with checksums
// (storage/backupfile):
//
//	length 4, Header as JSON
//	batch    its LSN minus the previous one, its length (both as varints), its bytes
//
// The name of a file identifies the log and the position at which the file begins:
// keyp-HISTORY-POSITION.log. So files sorted by name are in the order of the log. A file gets its
// name when all of it is on disk, and does not change after that. Each file contains the checksum
// of all files before it. So a file does not fit if an earlier file is missing or belongs to
// another log. Nor does it fit if an earlier file was written by a copy of this data directory that
// was used separately.
//
// The data directory records up to where the log is archived (State). The log keeps what is not
// archived yet (wal.Hold).
package archive
