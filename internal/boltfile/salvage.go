package boltfile

import "errors"

// Salvage is for saving what is left of a damaged file. From Begin on walks that do not end
// with damage pass over free pages, which have what was there once, and note where they have
// been; then Rest visits the leaves that damage of a tree has cut off from it.
type Salvage struct {
	f    *File
	seen Set // pages that walks have come to
	free Set
	// Blind: the list of free pages is damaged, so what is cut off cannot be distinguished from
	// what is old, and Rest visits nothing.
	Blind error
}

// Begin starts to note.
func (f *File) Begin() *Salvage {
	s := &Salvage{f: f, seen: newSet(f.pages), free: newSet(f.pages)}
	free, err := f.FreeList()
	s.Blind = err
	for _, id := range free {
		s.free.add(id)
	}
	f.salvage = s
	return s
}

// come notes that a walk has come to a page, and those that belong to it; false if it is free.
func (s *Salvage) come(id, overflow uint64) bool {
	if s.free.Has(id) {
		return false
	}
	for ; ; id, overflow = id+1, overflow-1 {
		s.seen.add(id)
		if overflow == 0 {
			return true
		}
	}
}

// restore reports whether a page whose header is damaged still shows what it is, and makes the rest
// of the header such that it can be read.
func (s *Salvage) restore(h *header, page []byte) bool {
	if len(page) < s.f.pageSize || h.kind != kindBranch && h.kind != kindLeaf {
		return false
	}
	if h.overflow >= s.f.pages {
		h.overflow = 0
	}
	return true
}

// count is how many elements a page has, which is where the data of the first begins; n is
// what the page says.
func (s *Salvage) count(kind uint16, page []byte, n int) int {
	if len(page) < headerSize+elementSize {
		return n
	}
	at := int(le.Uint32(page[headerSize:]))
	if kind == kindLeaf {
		at = int(le.Uint32(page[headerSize+4:]))
	}
	if at <= 0 || at%elementSize != 0 || headerSize+at > len(page) {
		return n
	}
	return at / elementSize
}

// Rest visits the entries of leaves that are neither free nor were come to, with the page
// they stand on. Of which bucket they are nobody knows.
func (s *Salvage) Rest(fn func(page uint64, key, value []byte) error) error {
	if s.Blind != nil {
		return nil
	}
	var buf []byte
	var elements []element
	for id := uint64(2); id < s.f.pages; id++ {
		if s.seen.Has(id) || s.free.Has(id) {
			continue
		}
		h, page, err := s.f.read(id, buf)
		buf = page
		if err != nil || h.kind != kindLeaf {
			continue
		}
		elements, err = s.f.parse(id, h, page, true, elements[:0])
		var d *Damage
		if err != nil && !errors.As(err, &d) {
			return err
		}
		for i := range elements {
			if e := &elements[i]; !e.bucket {
				if err := fn(id, e.key, e.value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
