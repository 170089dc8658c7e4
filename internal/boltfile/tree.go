package boltfile

import (
	"bytes"
	"errors"
	"sort"
	"sync"
)

// ErrNoBucket is returned when the file has no bucket of that name.
var ErrNoBucket = errors.New("no such bucket")

// Tree is a bucket, or the tree of buckets.
type Tree struct {
	f      *File
	root   uint64
	inline []byte // the bucket's page, where root is 0
}

// Buckets returns the tree of all buckets. Bucket reads one of them.
func (f *File) Buckets() Tree { return Tree{f: f, root: f.root} }

// Bucket returns a bucket by name. The error is ErrNoBucket, or damage of the tree of buckets.
func (f *File) Bucket(name []byte) (t Tree, err error) {
	err = ErrNoBucket
	walk := f.Buckets().each(name, true, nil, func(e *element) error {
		if bytes.Equal(e.key, name) {
			t, err = f.bucket(e)
		}
		return errEnough
	})
	if walk != nil && walk != errEnough {
		return t, walk
	}
	return t, err
}

func (f *File) bucket(e *element) (Tree, error) {
	if !e.bucket || len(e.value) < bucketSize {
		return Tree{}, f.damage(f.root, "its entry %q is no bucket", e.key)
	}
	t := Tree{f: f, root: le.Uint64(e.value)}
	if t.root == 0 {
		t.inline = bytes.Clone(e.value[bucketSize:])
		if len(t.inline) < headerSize {
			return Tree{}, f.damage(f.root, "its bucket %q has no page", e.key)
		}
	}
	return t, nil
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// Each calls fn for the entries from a key on, in order; nil means from the first. It ends with the
// first error of fn, which it returns. If bad is nil, it also ends with the first *Damage.
// Otherwise it passes damage to bad and continues with the remaining entries, which may be out of
// place. The arguments of fn are valid during the call.
func (t Tree) Each(from []byte, bad func(*Damage), fn func(key, value []byte) error) error {
	return t.each(from, false, bad, func(e *element) error { return fn(e.key, e.value) })
}

func (t Tree) each(from []byte, buckets bool, bad func(*Damage), fn func(*element) error) error {
	w := walks.Get().(*walk)
	defer walks.Put(w)
	*w = walk{f: t.f, from: from, buckets: buckets, bad: bad, fn: fn, levels: w.levels}
	if t.root != 0 {
		return w.page(t.root, bound{}, 0)
	}
	h := header{le.Uint16(t.inline[8:]), int(le.Uint16(t.inline[10:])), 0}
	if h.kind != kindLeaf {
		return w.report(t.f.damage(t.f.root, "a bucket in it has a page of kind %#x", h.kind))
	}
	elements, err := t.f.parse(t.f.root, h, t.inline, false, nil)
	if err := w.report(err); err != nil {
		return err
	}
	return w.leaf(t.f.root, elements)
}

// walks keeps ended walks, to use their memory again.
var walks = sync.Pool{New: func() any { return new(walk) }}

// walk is one call of each.
type walk struct {
	f       *File
	from    []byte
	buckets bool // whether entries are to be buckets
	bad     func(*Damage)
	fn      func(*element) error
	levels  [maxDepth]level
	seen    map[uint64]bool // pages, while damage does not end the walk
}

// level is the current page at one depth. Its memory is reused for the next page there.
type level struct {
	page     []byte
	elements []element
}

// bound has the keys that the parent records for a page: its first key, and the first key after it.
// A key is nil if the parent does not record it.
type bound struct{ first, end []byte }

// report passes damage to bad and returns nil. It returns the error if that ends the walk.
func (w *walk) report(err error) error {
	var d *Damage
	if w.bad != nil && errors.As(err, &d) {
		w.bad(d)
		return nil
	}
	return err
}

// page walks the tree below a page.
func (w *walk) page(id uint64, b bound, depth int) error {
	if depth == maxDepth {
		return w.report(w.f.damage(id, "the tree is deeper than %d pages", maxDepth))
	}
	if w.bad != nil {
		if w.seen[id] {
			return w.report(w.f.damage(id, "it stands in the tree a second time"))
		}
		if w.seen == nil {
			w.seen = map[uint64]bool{}
		}
		w.seen[id] = true
	}
	l := &w.levels[depth]
	h, page, err := w.f.read(id, l.page)
	l.page = page
	if err != nil && w.f.salvage != nil && w.f.salvage.restore(id, &h, &page) {
		l.page = page
		err = w.report(err)
	}
	if err != nil {
		return w.report(err)
	}
	if s := w.f.salvage; s != nil && !s.come(id, h.overflow) {
		return w.report(w.f.damage(id, "a tree leads to it, and it is in the list of free pages"))
	}
	l.elements, err = w.f.parse(id, h, page, true, l.elements[:0])
	if err == nil {
		err = w.f.within(id, h, l.elements, b, depth)
	}
	if err := w.report(err); err != nil {
		return err
	}
	if h.kind == kindLeaf {
		return w.leaf(id, l.elements)
	}
	return w.branch(l.elements, b, depth)
}

// within checks a page's keys against those of its parent.
func (f *File) within(id uint64, h header, elements []element, b bound, depth int) error {
	switch n := len(elements); {
	case n == 0 && (depth > 0 || h.kind == kindBranch):
		return f.damage(id, "it is empty")
	case n == 0:
	case b.first != nil && !bytes.Equal(elements[0].key, b.first):
		return f.damage(id, "its first key is not the one in its parent")
	case b.end != nil && bytes.Compare(elements[n-1].key, b.end) >= 0:
		return f.damage(id, "it has keys of the page after it")
	}
	return nil
}

// branch walks the children that may contain keys from w.from on.
func (w *walk) branch(elements []element, b bound, depth int) error {
	start := 0
	if w.bad == nil { // else keys may lead astray
		start = max(0, sort.Search(len(elements), func(i int) bool {
			return bytes.Compare(elements[i].key, w.from) > 0
		})-1)
	}
	for i := start; i < len(elements); i++ {
		child := bound{elements[i].key, b.end}
		if i+1 < len(elements) {
			child.end = elements[i+1].key
		}
		if err := w.page(elements[i].child, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) leaf(id uint64, elements []element) error {
	for i := range elements {
		e := &elements[i]
		if bytes.Compare(e.key, w.from) < 0 {
			continue
		}
		if e.bucket != w.buckets {
			if err := w.report(w.f.damage(id, "its element %d is %s", i,
				map[bool]string{true: "a bucket", false: "no bucket"}[e.bucket])); err != nil {
				return err
			}
			continue
		}
		if err := w.fn(e); err != nil {
			return err
		}
	}
	return nil
}
