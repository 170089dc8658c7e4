//go:build !race

package slab

// OnHeap reports whether slabs are on the Go heap. They are there only in builds with the race
// detector, which does not watch other memory.
const OnHeap = false
