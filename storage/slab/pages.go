package slab

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Chunks of slabs are outside the Go heap. On the heap, a gigabyte of keys would allow it to grow
// by another gigabyte before each collection. Outside it, the garbage collector sees only an index
// and some buffers.

const (
	// regionSize is how much memory is mapped at once.
	regionSize = 4 << 20
	// sparePages is how many freed pages are kept, and reused without a system call.
	sparePages = 64
)

// page is the memory of one chunk. It goes back to the pool by free, or, after the store was
// closed, when nothing refers to the page any more.
type page struct {
	mem     []byte
	cleanup runtime.Cleanup
}

// pages is the pool of the process, whose memory is never unmapped: a page that is not in
// use costs nothing but its address.
var pages pagePool

type pagePool struct {
	mu struct {
		sync.Mutex
		spare [][]byte // as they were left
		clean [][]byte // mapped, but without memory
		inUse int64    // bytes outside the heap
	}
}

// take returns a page of ChunkSize bytes with arbitrary content.
func (p *pagePool) take() *page {
	if OnHeap {
		return &page{mem: make([]byte, ChunkSize)}
	}
	pg := &page{mem: p.next()}
	pg.cleanup = runtime.AddCleanup(pg, p.put, pg.mem)
	return pg
}

func (p *pagePool) next() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.spare) == 0 && len(p.mu.clean) == 0 {
		p.grow()
	}
	from := &p.mu.clean
	if len(p.mu.spare) > 0 {
		from = &p.mu.spare
	}
	last := len(*from) - 1
	mem := (*from)[last]
	(*from)[last] = nil
	*from = (*from)[:last]
	p.mu.inUse += ChunkSize
	return mem
}

func (p *pagePool) grow() {
	region, err := unix.Mmap(-1, 0, regionSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		// As the runtime does when its heap cannot grow.
		panic(fmt.Sprintf("storage: out of memory: %v", err))
	}
	for at := regionSize; at > 0; at -= ChunkSize {
		p.mu.clean = append(p.mu.clean, region[at-ChunkSize:at:at])
	}
}

func (p *pagePool) put(mem []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.inUse -= ChunkSize
	if len(p.mu.spare) < sparePages {
		p.mu.spare = append(p.mu.spare, mem)
		return
	}
	_ = unix.Madvise(mem, unix.MADV_DONTNEED) // on an error it merely stays mapped
	p.mu.clean = append(p.mu.clean, mem)
}

// OffHeap returns the RAM of the process's stores outside the Go heap, in bytes: chunks of slabs,
// including those that wait to be used again.
func OffHeap() int64 {
	pages.mu.Lock()
	defer pages.mu.Unlock()
	return pages.mu.inUse + int64(len(pages.mu.spare))*ChunkSize
}

// free returns the memory to the pool. Nothing may refer to it.
func (pg *page) free() {
	if !OnHeap {
		pg.cleanup.Stop()
		pages.put(pg.mem)
	}
	pg.mem = nil
}
