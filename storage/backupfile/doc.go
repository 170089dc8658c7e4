// Package backupfile implements the format of files that are kept elsewhere, as backups: a stream
// of bytes, compressed in blocks that have checksums. It does not know the meaning of the bytes.
//
//	magic    "keypback" 8
//	block    'b' 1, bytes unpacked 4, bytes packed 4, CRC-32C 4, a frame of zstd
//	end      'e' 1, blocks 4, bytes unpacked, modulo 2^32, 4, CRC-32C 4
//
// Numbers are little-endian. Each CRC is over everything in the file between the previous one and
// itself, except the CRCs, and continues from the previous one. So damage is found before anything
// of the block is used: a changed byte, a missing, repeated or misplaced block, or a truncated
// file. A truncated file is not taken for a whole one, since its end is missing.
//
// Several goroutines compress blocks, which are written in their order. The memory needed is that
// of a few blocks.
package backupfile
