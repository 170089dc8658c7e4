package commands

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"

	"keyp/storage"
)

// processMemory is what the process takes of memory that is its own, in bytes: what the Go runtime
// has, and the slabs of small keys, which stand beside that. Pages of the data file that are
// mapped are not its own; the system takes them back when it needs them.
type processMemory struct {
	Used    int64 // live and not yet collected objects, the gaps between them, slabs, stacks, the runtime's own
	Heap    int64 // of it, objects and slabs
	Mapped  int64 // from the system, what was given back excluded
	Free    int64 // of it, kept for later
	Collect int64 // collector cycles so far
}

var memoryMetrics = []string{
	"/memory/classes/total:bytes",
	"/memory/classes/heap/released:bytes",
	"/memory/classes/heap/free:bytes",
	"/memory/classes/heap/objects:bytes",
	"/gc/cycles/total:gc-cycles",
}

// readMemory does not stop the world, unlike runtime.ReadMemStats.
func readMemory() processMemory {
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
	slabs := storage.OffHeap()
	mapped, free := v[0]-v[1]+slabs, v[2]
	return processMemory{Used: mapped - free, Heap: v[3] + slabs, Mapped: mapped, Free: free, Collect: v[4]}
}

// UsedMemory is the memory that the process takes, in bytes: INFO's
// used_memory. It is cheap enough for the server's clockwork.
func UsedMemory() int64 { return readMemory().Used }

// cpuTime is what the process, or its children, have used so far.
func cpuTime(who int) (system, user time.Duration) {
	var use unix.Rusage
	if err := unix.Getrusage(who, &use); err != nil {
		return 0, 0
	}
	return time.Duration(use.Stime.Nano()), time.Duration(use.Utime.Nano())
}

// osName is the system's name, release and machine.
func osName() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

// UsableMemory is what the process may use, in bytes: the machine's memory, or less where a
// control group or GOMEMLIMIT says so; 0 when that cannot be told.
func UsableMemory() int64 {
	least := int64(math.MaxInt64)
	for _, n := range []int64{systemMemory(), groupMemory()} {
		if n > 0 {
			least = min(least, n)
		}
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		least = min(least, debug.SetMemoryLimit(-1))
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}
