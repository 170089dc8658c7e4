package vfs

import (
	"io"
	"io/fs"
	"slices"
)

// memFile is a handle on a file of Mem; it follows the file over a Rename.
type memFile struct {
	fs     *Mem
	node   *inode
	name   string
	closed bool
}

func (f *memFile) check(op string) error {
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("read"); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("write"); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	node := f.node
	if grow := off + int64(len(p)) - int64(len(node.data)); grow > 0 {
		if err := f.fs.take(grow); err != nil {
			return 0, pathError("write", f.name, err)
		}
		node.setSize(off + int64(len(p)))
	}
	copy(node.data[off:], p)
	node.pending = append(node.pending, change{off: off, data: slices.Clone(p)})
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("sync"); err != nil {
		return err
	}
	node := f.node
	size := len(node.durable)
	for _, c := range node.pending {
		size = c.sizeAfter(size)
		node.durable = resized(node.durable, size)
		c.applyTo(node.durable, 0, size)
	}
	node.pending = nil
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("truncate"); err != nil {
		return err
	}
	if err := f.fs.resize(f.node, size); err != nil {
		return pathError("truncate", f.name, err)
	}
	return nil
}

// resize changes the size of node and accounts for the space.
func (m *Mem) resize(node *inode, size int64) error {
	if err := m.take(size - int64(len(node.data))); err != nil {
		return err
	}
	node.setSize(size)
	node.pending = append(node.pending, change{off: size})
	return nil
}

func (n *inode) setSize(size int64) { n.data = resized(n.data, int(size)) }

// resized returns b with the given length. Added bytes are zero.
func resized(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	grown := slices.Grow(b, size-len(b))[:size]
	clear(grown[len(b):])
	return grown
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("size"); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Reread() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("reread"); err != nil {
		return err
	}
	if node := f.node; node.unread {
		data, size := slices.Clone(node.durable), len(node.durable)
		for _, c := range node.pending {
			size = c.sizeAfter(size)
			data = resized(data, size)
			c.applyTo(data, 0, size)
		}
		node.data, node.unread = data, false
	}
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("close"); err != nil {
		return err
	}
	f.closed = true
	return nil
}
