//go:build !race

package slab

// OnHeap: the race detector sees the heap alone.
const OnHeap = false
