// Package backupfile has the format of files that are kept elsewhere, as backups: a stream of
// bytes, compressed in blocks that have checksums. What the bytes are it does not know.
//
//	magic    "keypback" 8
//	block    'b' 1, bytes unpacked 4, bytes packed 4, CRC-32C 4, a frame of zstd
//	end      'e' 1, blocks 4, bytes unpacked, modulo 2^32, 4, CRC-32C 4
//
// Numbers are little-endian. Each CRC is over what stands in the file before it and behind the last
// one, but for the CRCs, and goes on from the one before. So every byte that is another one, a
// block that is missing, stands twice or elsewhere, and a file that is cut are found before
// anything of the block is used; and a part of the file is not the whole one, since the end is
// missing.
//
// Blocks are compressed on several goroutines, and written in their order. Memory is needed for
// some blocks.
package backupfile
