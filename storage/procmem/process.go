package procmem

import (
	"runtime/metrics"

	"keyp/storage/slab"
)

// Memory is the process's own memory, in bytes: that of the Go runtime, and the slabs of
// small keys, which are outside the Go heap. Mapped pages of the data file are not included; the
// system reclaims them when it needs memory.
type Memory struct {
	// Live and not yet collected objects, the gaps between them, slabs, stacks, the runtime's own.
	Used   int64
	Heap   int64 // of it, objects and slabs
	Gaps   int64 // of it, between objects: room for objects of the size of those beside
	Mapped int64 // from the system, what was given back excluded
	Free   int64 // of it, kept for later
	Cycles int64 // of the collector so far
}

var memoryMetrics = []string{
	"/memory/classes/total:bytes",
	"/memory/classes/heap/released:bytes",
	"/memory/classes/heap/free:bytes",
	"/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/unused:bytes",
	"/gc/cycles/total:gc-cycles",
}

// Read reads the process's memory. Unlike runtime.ReadMemStats it does not stop the
// world.
func Read() Memory {
	samples := make([]metrics.Sample, len(memoryMetrics))
	for i, name := range memoryMetrics {
		samples[i].Name = name
	}
	metrics.Read(samples)
	v := make([]int64, len(samples))
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			v[i] = int64(s.Value.Uint64())
		}
	}
	slabs := slab.OffHeap()
	mapped, free := v[0]-v[1]+slabs, v[2]
	return Memory{Used: mapped - free, Heap: v[3] + slabs, Gaps: v[4], Mapped: mapped,
		Free: free, Cycles: v[5]}
}
