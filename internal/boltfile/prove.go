package boltfile

import "math/bits"

// Set is a set of pages. The checks in this file use it to find pages that are in a tree twice, or
// are also free.
type Set []uint64

func newSet(pages uint64) Set { return make(Set, (pages+63)/64) }

// Has reports whether a page is in the set.
func (s Set) Has(id uint64) bool { return id/64 < uint64(len(s)) && s[id/64]>>(id%64)&1 != 0 }

// add adds a page and reports whether it is new.
func (s Set) add(id uint64) bool {
	was := s[id/64]
	s[id/64] |= 1 << (id % 64)
	return s[id/64] != was
}

// below returns the highest page of the set that is lower than id. ok is false if there is none.
func (s Set) below(id uint64) (found uint64, ok bool) {
	w := id / 64
	word := s[w] & (1<<(id%64) - 1)
	for word == 0 && w > 0 {
		w--
		word = s[w]
	}
	if word == 0 {
		return 0, false
	}
	return w*64 + uint64(bits.Len64(word)) - 1, true
}

// FreeList returns the pages that are not in use. It checks that they ascend and that each is a
// page of the file. If there is damage, free has the pages before it.
func (f *File) FreeList() (free []uint64, err error) {
	if f.freelist == noFreelist {
		return nil, nil
	}
	h, page, err := f.read(f.freelist, nil)
	if err != nil {
		return nil, err
	}
	if h.kind != kindFreelist {
		return nil, f.damage(f.freelist, "it is of kind %#x and should be the list of free pages",
			h.kind)
	}
	at, count := headerSize, uint64(h.count)
	if count == 0xFFFF && len(page) >= headerSize+8 {
		count = le.Uint64(page[at:])
		at += 8
	}
	if room := uint64(len(page)-at) / 8; count > room {
		return nil, f.damage(f.freelist, "it counts %d free pages and has room for %d", count, room)
	}
	last := uint64(1)
	for i := range count {
		id := le.Uint64(page[at+int(i)*8:])
		if id <= last || id >= f.pages {
			return free, f.damage(f.freelist, "its entry %d is page %d, after %d and of %d", i,
				id, last, f.pages)
		}
		last = id
		free = append(free, id)
	}
	return free, nil
}

// Shape is what Prove has found.
type Shape struct {
	Used   Set    // pages that a tree names; those that follow a large one are not in it
	Free   Set    // pages of the list of free ones
	Leaves uint64 // how many of Used are leaves
}

// Prove checks the shape of the file by its branch pages. It does not read the leaves, which are
// nearly all of the file. It checks that every tree is sound down to its leaves, and that no page
// is in two places or free. It returns the first damage.
func (f *File) Prove() (Shape, error) {
	p := prover{f: f, Shape: Shape{Used: newSet(f.pages), Free: newSet(f.pages)}}
	free, err := f.FreeList()
	if err != nil {
		return p.Shape, err
	}
	for _, id := range free {
		p.Free.add(id)
	}
	if f.freelist != noFreelist {
		p.Used.add(f.freelist)
	}
	if err := p.whole(f.root); err != nil {
		return p.Shape, err
	}
	err = f.Buckets().each(nil, true, nil, func(e *element) error {
		t, err := f.bucket(e)
		if err != nil || t.root == 0 {
			return err
		}
		return p.whole(t.root)
	})
	if err != nil {
		return p.Shape, err
	}
	return p.Shape, p.apart(free)
}

type prover struct {
	Shape
	f *File
}

// use records that a page is in a tree. It returns damage if the page is free or in a tree already.
func (p *prover) use(id uint64) error {
	switch {
	case id < 2 || id >= p.f.pages:
		return p.f.damage(id, "a tree leads to it, and there are %d pages", p.f.pages)
	case p.Free.Has(id):
		return p.f.damage(id, "it is in use and in the list of free pages")
	case !p.Used.add(id):
		return p.f.damage(id, "two places lead to it")
	}
	return nil
}

// whole checks the tree with this root.
func (p *prover) whole(root uint64) error {
	if err := p.use(root); err != nil {
		return err
	}
	depth, err := p.f.depth(root)
	if err != nil {
		return err
	}
	return p.tree(root, depth, bound{})
}

// depth returns how many pages a path from this page down to a leaf has. All paths of a tree of
// bbolt have the same length.
func (f *File) depth(id uint64) (int, error) {
	var buf []byte
	for depth := 1; depth <= maxDepth; depth++ {
		h, page, err := f.read(id, buf)
		if err != nil || h.kind == kindLeaf {
			return depth, err
		}
		elements, err := f.parse(id, h, page, true, nil)
		if err != nil {
			return depth, err
		}
		if len(elements) == 0 {
			return depth, f.damage(id, "it is empty")
		}
		buf, id = page, elements[0].child
	}
	return maxDepth, f.damage(id, "the tree is deeper than %d pages", maxDepth)
}

// tree checks the branches below a page, whose tree has this depth.
func (p *prover) tree(id uint64, depth int, b bound) error {
	if depth == 1 {
		p.Leaves++
		return nil
	}
	h, page, err := p.f.read(id, nil)
	if err != nil {
		return err
	}
	if h.kind != kindBranch {
		return p.f.damage(id, "it is of kind %#x where a branch should be", h.kind)
	}
	elements, err := p.f.parse(id, h, page, true, nil)
	if err == nil {
		err = p.f.within(id, h, elements, b, maxDepth-depth)
	}
	if err != nil {
		return err
	}
	for i, e := range elements {
		if err := p.use(e.child); err != nil {
			return err
		}
		child := bound{e.key, b.end}
		if i+1 < len(elements) {
			child.end = elements[i+1].key
		}
		if err := p.tree(e.child, depth-1, child); err != nil {
			return err
		}
	}
	return nil
}

// apart checks that no free page is an overflow page of a page in use. It is enough to look at the
// first page of each run of free pages, and at the page in use before it.
func (p *prover) apart(free []uint64) error {
	var head [headerSize]byte
	for i, id := range free {
		if i > 0 && free[i-1] == id-1 {
			continue
		}
		before, ok := p.Used.below(id)
		if !ok {
			continue
		}
		if _, err := p.f.src.ReadAt(head[:], p.f.Offset(before)); err != nil {
			return p.f.damage(before, "it cannot be read: %v", err)
		}
		if before+uint64(le.Uint32(head[12:])) >= id {
			return p.f.damage(before, "page %d of those it claims is in the list of free pages", id)
		}
	}
	return nil
}
