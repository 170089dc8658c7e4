// Package snapshotfile implements the format in which a data file is sent to another server, or
// kept as a backup. A stream begins with a header that describes the copied file. Pieces of the
// file follow, with checksums, in the order of their offsets. After them come records of the
// sender, for example the part of its log that is newer than the data file. The package does not
// interpret pieces and records.
//
//	magic    "keypsnap" 8
//	header   length 4, CRC-32C 4, Header as JSON
//	piece    'p' 1, length 4, offset in the file 8, CRC-32C 4, bytes
//	record   'r' 1, length 4, position 8, CRC-32C 4, bytes
//	end      'e' 1, pieces and records 4, bytes of them 8, CRC-32C 4
//
// Numbers are little-endian. Each CRC continues from the previous CRC, over everything between the
// two. So a piece that is missing, repeated or misplaced is found, and only a stream with its end
// is whole. Bytes that no piece covers are zeros.
//
// A stream contains all that is needed to verify it (Verify). So it may be kept in a file (Keep) or
// sent over a connection.
package snapshotfile
