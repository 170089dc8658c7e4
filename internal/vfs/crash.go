package vfs

import (
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// This file decides what a simulated crash, or a failed sync, leaves of the files and directories
// in Mem, the file system in memory.

const (
	sectorSize = 512  // the unit that a disk writes whole or not at all
	pageSize   = 4096 // the unit that the kernel mostly writes at once
)

// sorted yields a map in key order, so that the same seed gives the same crash.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// crash is the state of a running Mem.Crash.
type crash struct {
	rng     *rand.Rand
	after   *Mem
	crashed map[*inode]*inode // the files so far, after the crash
}

// directory adds the surviving content of a directory, with everything below it, to after.
func (c *crash) directory(path string, was *directory) {
	d := newDirectory()
	c.after.mu.dirs[path] = d
	for name, node := range sorted(was.crash(c.rng)) {
		at := filepath.Join(path, name)
		if node.dir != nil {
			c.directory(at, node.dir)
			d.durable[name] = &inode{dir: c.after.mu.dirs[at]}
			continue
		}
		if c.crashed[node] == nil {
			data := node.crash(c.rng)
			c.crashed[node] = &inode{data: data, durable: slices.Clone(data)}
		}
		d.durable[name] = c.crashed[node]
		c.after.mu.files[at] = c.crashed[node]
	}
}

// crash returns the names that survive. Each pending operation is kept or undone at random, but an
// operation on a name or file of an undone one is undone too.
func (d *directory) crash(rng *rand.Rand) map[string]*inode {
	names := maps.Clone(d.durable)
	undoneNodes := map[*inode]bool{}
	undoneNames := map[string]bool{}
	keepAll := rng.IntN(3) == 0
	for _, op := range d.pending {
		follows := undoneNodes[op.node] || undoneNames[op.from] || undoneNames[op.to]
		if !follows && (keepAll || rng.IntN(2) == 0) {
			op.apply(names)
			continue
		}
		undoneNodes[op.node] = true
		if op.from != "" {
			undoneNames[op.from] = true
		}
		if op.to != "" {
			undoneNames[op.to] = true
		}
	}
	return names
}

// crash returns contents that the file may have after the crash. Each sector contains a random
// number of the changes since the last sync, the earliest ones. The same is true for the size.
func (n *inode) crash(rng *rand.Rand) []byte {
	if len(n.pending) == 0 {
		return slices.Clone(n.durable)
	}
	survive := func() int { return rng.IntN(len(n.pending) + 1) }
	switch rng.IntN(8) {
	case 0: // nothing arrived
		survive = func() int { return 0 }
	case 1: // all did
		survive = func() int { return len(n.pending) }
	}

	size := len(n.durable)
	sizeAt := survive()
	for _, c := range n.pending[:sizeAt] {
		size = c.sizeAfter(size)
	}
	after := make([]byte, size)
	copy(after, n.durable)

	for page := 0; page < size; page += pageSize {
		torn := rng.IntN(4) == 0
		changes := survive()
		for sector := page; sector < min(page+pageSize, size); sector += sectorSize {
			if torn {
				changes = survive()
			}
			lo, hi := sector, min(sector+sectorSize, size)
			for _, c := range n.pending[:changes] {
				c.applyTo(after, lo, hi)
			}
		}
	}
	return after
}

// FailSync puts a file into the state after the kernel failed to write it to the device. Some of
// the unsynced changes, chosen by rng, are durable; with a nil rng, none. The others are in memory
// only, until Reread, and no later Sync makes them durable.
func (m *Mem) FailSync(name string, rng *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.mu.files[filepath.Clean(name)]; n != nil && len(n.pending) > 0 {
		if rng != nil {
			n.durable = n.crash(rng)
		}
		n.pending, n.unread = nil, true
	}
}

func (c change) sizeAfter(size int) int {
	if c.data == nil {
		return int(c.off)
	}
	return max(size, int(c.off)+len(c.data))
}

// applyTo writes the part of the change within [lo, hi) into b.
func (c change) applyTo(b []byte, lo, hi int) {
	if c.data == nil {
		if from := max(lo, int(c.off)); from < hi {
			clear(b[from:hi])
		}
		return
	}
	from, to := max(lo, int(c.off)), min(hi, int(c.off)+len(c.data))
	if from < to {
		copy(b[from:to], c.data[from-int(c.off):])
	}
}
