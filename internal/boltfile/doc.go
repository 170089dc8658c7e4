// Package boltfile reads a file of bbolt without trusting a byte of it. bbolt itself maps the file
// and follows every reference. If the file is damaged, bbolt faults, panics, or misses entries.
// Here pages are read into memory, and everything in a page is checked:
//
//   - a page has its own number, and the kind that its place demands;
//   - keys and values follow each other without a gap, as bbolt writes them, and end on the last of
//     the pages that the page claims;
//   - keys ascend. The first key of a page is the one that its parent has for it. The last key
//     comes before the next key of the parent. So a walk notices a page whose header has too low a
//     number of entries, and a parent that refers to a wrong page. It reports damage where entries
//     may be missing;
//   - no tree is deeper than maxDepth, so a walk over pages that refer to each other in a circle
//     ends.
//
// The contents of keys and values are not checked here. Their writer adds a checksum.
//
// The format, in the byte order of the machine (little-endian on all that Keyp runs on):
//
//	page     id 8, kind 2, count 2, overflow 4, then elements, then keys and values
//	branch   element: where its key is 4, length of the key 4, page 8
//	leaf     element: flags 4, where its key is 4, lengths of key 4 and value 4
//	meta     magic 4, version 4, page size 4, flags 4, root 8, sequence 8, freelist 8,
//	         pages 8, transaction 8, FNV-1a of all that 8
//	bucket   value of an element of the root tree with flag 1: root 8, sequence 8, and if
//	         root is 0 a leaf page, unnumbered
//
// The package never writes.
package boltfile
