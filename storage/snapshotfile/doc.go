// Package snapshotfile implements the format in which a data file is sent to another server, or
// kept as a backup. It has a header that describes the copied file, then pieces of it with
// checksums, in the order of their places. Records of the sender follow, for example what its log
// has beyond the data file. The package knows nothing of what pieces and records contain.
//
//	magic    "keypsnap" 8
//	header   length 4, CRC-32C 4, Header as JSON
//	piece    'p' 1, length 4, offset in the file 8, CRC-32C 4, bytes
//	record   'r' 1, length 4, position 8, CRC-32C 4, bytes
//	end      'e' 1, pieces and records 4, bytes of them 8, CRC-32C 4
//
// Numbers are little-endian. Each CRC continues from the one before it, over everything between
// that and itself. So a piece that is missing, repeated or misplaced is found, and only a stream
// with its end is whole. Bytes that no piece covers are zeros.
//
// A stream needs nothing else to be verified (Verify), so it may be a file (Keep) as well as what a
// connection carries.
package snapshotfile
