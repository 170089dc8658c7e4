package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// This file reads the pages of a bbolt file: the two meta pages, the branches and the leaves. The
// first constants are those of bbolt's format.

const (
	headerSize  = 16
	elementSize = 16 // of branch and leaf
	bucketSize  = 16

	kindBranch   = 0x01
	kindLeaf     = 0x02
	kindMeta     = 0x04
	kindFreelist = 0x10

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64
	noFreelist  = ^uint64(0)

	// maxDepth is larger than the depth of any possible tree.
	maxDepth = 24
)

var le = binary.LittleEndian

// Damage is a page that is not as it must be. It is an error.
type Damage struct {
	Page   uint64
	Offset int64 // in the file, of the page
	Reason string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("page %d (offset %d): %s", d.Page, d.Offset, d.Reason)
}

// File is a file of bbolt at one of its transactions.
type File struct {
	src      io.ReaderAt
	pageSize int
	pages    uint64 // in use or free: all that have a number
	root     uint64 // of the tree of buckets
	freelist uint64
	salvage  *Salvage // nil unless what is left is to be saved
}

// Meta is one of the two meta pages.
type Meta struct {
	Tx, Root, Freelist, Pages uint64
	Err                       error // why it is not valid; nothing else is said then
}

// Metas reads both meta pages. An invalid page has Err set. The error returned is that of reading.
func Metas(src io.ReaderAt, pageSize int) (m [2]Meta, err error) {
	b := make([]byte, headerSize+metaSize)
	for i := range m {
		if _, err := src.ReadAt(b, int64(i*pageSize)); err != nil && !errors.Is(err, io.EOF) {
			return m, err
		} else if err != nil {
			m[i].Err = &Damage{uint64(i), int64(i * pageSize), "the file ends before it"}
			continue
		}
		m[i] = parseMeta(b[headerSize:], i, pageSize)
	}
	return m, nil
}

func parseMeta(b []byte, i, pageSize int) Meta {
	h := fnv.New64a()
	_, _ = h.Write(b[:56])
	bad := ""
	switch {
	case le.Uint32(b) != metaMagic || le.Uint32(b[4:]) != metaVersion:
		bad = "it is no meta page"
	case le.Uint64(b[56:]) != h.Sum64():
		bad = "the meta page fails its checksum"
	case le.Uint32(b[8:]) != uint32(pageSize):
		bad = fmt.Sprintf("the meta page gives pages %d bytes", le.Uint32(b[8:]))
	}
	if bad != "" {
		return Meta{Err: &Damage{uint64(i), int64(i * pageSize), bad}}
	}
	return Meta{Root: le.Uint64(b[16:]), Freelist: le.Uint64(b[32:]), Pages: le.Uint64(b[40:]),
		Tx: le.Uint64(b[48:])}
}

// Newest returns the meta page that bbolt uses, or an error if neither is valid.
func Newest(m [2]Meta) (Meta, error) {
	switch {
	case m[0].Err != nil && m[1].Err != nil:
		return Meta{}, errors.Join(m[0].Err, m[1].Err)
	case m[0].Err != nil || m[1].Err == nil && m[1].Tx > m[0].Tx:
		return m[1], nil
	}
	return m[0], nil
}

// Open opens a file of size bytes at its newest transaction. Nobody may write it meanwhile.
func Open(src io.ReaderAt, size int64, pageSize int) (*File, error) {
	metas, err := Metas(src, pageSize)
	if err != nil {
		return nil, err
	}
	m, err := Newest(metas)
	if err != nil {
		return nil, err
	}
	return OpenAt(src, size, pageSize, m)
}

// OpenAt opens a file at the transaction of a meta page.
func OpenAt(src io.ReaderAt, size int64, pageSize int, m Meta) (*File, error) {
	f := At(src, pageSize, m.Root, m.Pages)
	f.freelist = m.Freelist
	// The comparison is by division since a product could overflow.
	if m.Pages < 2 || m.Pages > uint64(size)/uint64(pageSize) {
		return nil, fmt.Errorf("the file has %d bytes, its meta page counts %d pages of %d", size,
			m.Pages, pageSize)
	}
	return f, nil
}

// At returns a file at a transaction that the caller keeps open. root is the page of the tree of
// buckets. pages is how many pages have a number.
func At(src io.ReaderAt, pageSize int, root, pages uint64) *File {
	return &File{src: src, pageSize: pageSize, root: root, pages: pages, freelist: noFreelist}
}

// Pages returns how many pages have a number.
func (f *File) Pages() uint64 { return f.pages }

// Offset returns the offset of a page in the file, in bytes.
func (f *File) Offset(page uint64) int64 { return int64(page) * int64(f.pageSize) }

func (f *File) damage(page uint64, format string, args ...any) *Damage {
	return &Damage{page, f.Offset(page), fmt.Sprintf(format, args...)}
}

// header is the head of a page.
type header struct {
	kind     uint16
	count    int
	overflow uint64
}

// read reads a page and its overflow pages into buf. It returns its header and its bytes.
func (f *File) read(id uint64, buf []byte) (h header, page []byte, err error) {
	if id < 2 || id >= f.pages {
		return h, buf, f.damage(id, "there is no such page among %d", f.pages)
	}
	page = slices.Grow(buf[:0], f.pageSize)[:f.pageSize]
	if err := f.fill(id, page, 0); err != nil {
		return h, page, err
	}
	h = header{le.Uint16(page[8:]), int(le.Uint16(page[10:])), uint64(le.Uint32(page[12:]))}
	if n := le.Uint64(page); n != id {
		return h, page, f.damage(id, "its header names page %d", n)
	}
	if h.overflow >= f.pages-id {
		return h, page, f.damage(id, "it claims %d further pages, beyond the end", h.overflow)
	}
	if h.overflow > 0 {
		page, err = f.further(id, page, h.overflow)
	}
	return h, page, err
}

// further reads further pages of a page into page, which has the first one.
func (f *File) further(id uint64, page []byte, n uint64) ([]byte, error) {
	page = slices.Grow(page, int(n)*f.pageSize)[:(int(n)+1)*f.pageSize]
	return page, f.fill(id, page, f.pageSize)
}

// fill reads the bytes of a page from an offset on.
func (f *File) fill(id uint64, page []byte, from int) error {
	if _, err := f.src.ReadAt(page[from:], f.Offset(id)+int64(from)); err != nil {
		return f.damage(id, "it cannot be read: %v", err)
	}
	return nil
}

// element is an element of a page. child is set in a branch, and value in a leaf.
type element struct {
	key, value []byte
	child      uint64
	bucket     bool
}

// parse appends the elements of a page to dst. numbered is false for the page of a bucket that is
// stored in the tree of buckets. If there is damage, parse also returns the sound elements.
func (f *File) parse(id uint64, h header, page []byte, numbered bool,
	dst []element) ([]element, error) {
	if h.kind != kindBranch && h.kind != kindLeaf {
		return dst, f.damage(id, "it is of kind %#x, neither branch nor leaf", h.kind)
	}
	var first *Damage
	bad := func(format string, args ...any) {
		if first == nil {
			first = f.damage(id, format, args...)
		}
	}
	if f.salvage != nil && h.count > 0 {
		if n := f.salvage.count(h.kind, page, h.count); n != h.count {
			bad("it counts %d elements and has %d", h.count, n)
			h.count = n
		}
	}
	data := headerSize + h.count*elementSize
	if data > len(page) {
		return dst, f.damage(id, "it counts %d elements, for which it has no room", h.count)
	}
	for i := range h.count {
		at := headerSize + i*elementSize
		e, pos, size, ok := parseElement(h.kind, page, at)
		if !ok {
			bad("its element %d leads out of it", i)
			continue
		}
		if pos != data {
			bad("its element %d begins at %d instead of %d", i, pos, data)
		}
		data = pos + size
		if n := len(dst); n > 0 && string(dst[n-1].key) >= string(e.key) {
			bad("its element %d is not after the one before it", i)
		}
		dst = append(dst, e)
	}
	if want := uint64((data+f.pageSize-1)/f.pageSize) - 1; numbered && h.overflow != want {
		bad("it claims %d further pages and needs %d", h.overflow, want)
	}
	if first != nil {
		return dst, first
	}
	return dst, nil
}

// maxKey is the longest key that bbolt takes.
const maxKey = 32768

// parseElement reads the element at an offset of a page. pos is the offset of its key. size is the
// length of key and value together.
func parseElement(kind uint16, page []byte, at int) (e element, pos, size int, ok bool) {
	var ksize, vsize uint32
	if kind == kindBranch {
		pos, ksize, e.child = at+int(le.Uint32(page[at:])), le.Uint32(page[at+4:]),
			le.Uint64(page[at+8:])
	} else {
		pos = at + int(le.Uint32(page[at+4:]))
		ksize, vsize = le.Uint32(page[at+8:]), le.Uint32(page[at+12:])
		flags := le.Uint32(page[at:])
		e.bucket = flags == 1
		ok = flags > 1
	}
	if ok || ksize == 0 || ksize > maxKey || uint64(pos)+uint64(ksize)+
		uint64(vsize) > uint64(len(page)) {
		return e, 0, 0, false
	}
	value := pos + int(ksize)
	e.key = page[pos:value:value]
	size = int(ksize) + int(vsize)
	if kind == kindLeaf {
		e.value = page[value : pos+size : pos+size]
	}
	return e, pos, size, true
}
