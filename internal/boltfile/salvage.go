package boltfile

import "errors"

// Salvage saves the entries that are left in a damaged file. After Begin, walks note the pages that
// they reach. A walk that continues after damage skips free pages, because these contain old
// entries. Then Rest visits the leaves that the damage of a tree has cut off from it.
type Salvage struct {
	f    *File
	seen Set // pages that walks have come to
	free Set
	// Blind: the list of free pages is damaged. So pages that are cut off cannot be distinguished
	// from old ones, and Rest visits nothing.
	Blind error
}

// Begin starts a Salvage. From now on walks note the pages that they reach.
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

// come notes that a walk has reached a page and its overflow pages. It returns false if the page is
// free.
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

// restore reports whether a page with a damaged header still shows its kind. It then reads the
// further pages of the page, if there are any, and corrects the header.
func (s *Salvage) restore(id uint64, h *header, page *[]byte) bool {
	size := s.f.pageSize
	if len(*page) < size || h.kind != kindBranch && h.kind != kindLeaf {
		return false
	}
	*page = (*page)[:size]
	h.overflow = min(h.overflow, s.further(h, *page), s.f.pages-id-1)
	if h.overflow > 0 {
		whole, err := s.f.further(id, *page, h.overflow)
		if *page = whole; err != nil {
			*page, h.overflow = whole[:size], 0
		}
	}
	return true
}

// further returns how many further pages the elements of a page need. It knows only the elements
// that are described in the first page.
func (s *Salvage) further(h *header, page []byte) uint64 {
	end := 0
	for i := range s.count(h.kind, page, h.count) {
		at := headerSize + i*elementSize
		if at+elementSize > len(page) {
			break
		}
		pos, size := int(le.Uint32(page[at:])), int(le.Uint32(page[at+4:]))
		if h.kind == kindLeaf {
			pos, size = size, int(le.Uint32(page[at+8:]))+int(le.Uint32(page[at+12:]))
		}
		end = max(end, at+pos+size)
	}
	return uint64(max(end-1, 0) / s.f.pageSize)
}

// count returns the number of elements of a page, computed from the offset of the first element's
// data. If that offset is impossible, it returns n, the number in the page's header.
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

// Rest visits the entries of leaf pages that are not free and that no walk has reached. page is the
// number of the page. The bucket of these entries is unknown.
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
