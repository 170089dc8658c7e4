//go:build race

package storage

// pagesOnHeap: the race detector sees the heap alone.
const pagesOnHeap = true
