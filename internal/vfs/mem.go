package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// Mem is a file system in memory for tests, which can simulate a power cut (Crash). It is safe for
// use by several goroutines.
//
// It keeps, in order, each directory operation since the last SyncDir of that directory. It does
// the same for each write and truncation since the last Sync of the file.
type Mem struct {
	mu struct {
		sync.Mutex
		files map[string]*inode
		dirs  map[string]*directory
		locks map[string]bool
		free  uint64 // bytes by which files may still grow
	}
}

// directory is the durable names of one directory and the changes after them.
type directory struct {
	durable map[string]*inode // base name to file
	pending []nameOp
}

// nameOp is a rename, the creation of a file or directory (from is empty), or a removal (to is
// empty).
type nameOp struct {
	from, to string
	node     *inode
}

type inode struct {
	dir *directory // of a directory, which has nothing else
	// unread reports that a failed sync has left bytes in data that are not in durable or pending.
	unread  bool
	data    []byte
	durable []byte
	pending []change
}

// change is a write (data at off) or, when data is nil, a new size off.
type change struct {
	off  int64
	data []byte
}

// NewMem returns a file system of unlimited size that has only the directories "." and "/".
func NewMem() *Mem {
	m := &Mem{}
	m.mu.files = map[string]*inode{}
	m.mu.dirs = map[string]*directory{".": newDirectory(), "/": newDirectory()}
	m.mu.locks = map[string]bool{}
	m.mu.free = math.MaxUint64
	return m
}

func newDirectory() *directory { return &directory{durable: map[string]*inode{}} }

// SetFree sets by how many bytes files may still grow. Beyond that, writes fail with ENOSPC.
// Removing and truncating files gives room back.
func (m *Mem) SetFree(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.free = n
}

// take reserves n bytes, or frees -n bytes if n is negative.
func (m *Mem) take(n int64) error {
	if m.mu.free == math.MaxUint64 {
		return nil
	}
	if n > 0 && uint64(n) > m.mu.free {
		return syscall.ENOSPC
	}
	m.mu.free -= uint64(n)
	return nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// parent returns the directory of name; nil if it does not exist.
func (m *Mem) parent(name string) *directory { return m.mu.dirs[filepath.Dir(name)] }

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	dir := m.parent(name)
	if dir == nil {
		return nil, pathError("create", name, fs.ErrNotExist)
	}
	node := m.mu.files[name]
	if node == nil {
		node = &inode{}
		m.mu.files[name] = node
		dir.pending = append(dir.pending, nameOp{to: filepath.Base(name), node: node})
	} else if err := m.resize(node, 0); err != nil {
		return nil, pathError("create", name, err)
	}
	return &memFile{fs: m, node: node, name: name}, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	node := m.mu.files[name]
	if node == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	return &memFile{fs: m, node: node, name: name}, nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	node := m.mu.files[name]
	if node == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	delete(m.mu.files, name)
	dir := m.parent(name)
	dir.pending = append(dir.pending, nameOp{from: filepath.Base(name), node: node})
	return m.take(-int64(len(node.data)))
}

// Rename implements FS, within one directory only; the log needs no other.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	node := m.mu.files[oldName]
	if node == nil {
		return pathError("rename", oldName, fs.ErrNotExist)
	}
	if filepath.Dir(oldName) != filepath.Dir(newName) {
		return pathError("rename", newName, errors.ErrUnsupported)
	}
	delete(m.mu.files, oldName)
	m.mu.files[newName] = node
	dir := m.parent(oldName)
	dir.pending = append(dir.pending,
		nameOp{from: filepath.Base(oldName), to: filepath.Base(newName), node: node})
	return nil
}

// List implements FS. It leaves out directories in dir.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = filepath.Clean(dir)
	if m.mu.dirs[dir] == nil {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	var names []string
	for name := range m.mu.files {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.directory(filepath.Clean(dir))
	return nil
}

// directory returns the directory of a path. It creates the directory and its parents if needed.
func (m *Mem) directory(path string) *directory {
	if d := m.mu.dirs[path]; d != nil {
		return d
	}
	d := newDirectory()
	m.mu.dirs[path] = d
	above := m.directory(filepath.Dir(path))
	above.pending = append(above.pending, nameOp{to: filepath.Base(path), node: &inode{dir: d}})
	return d
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.mu.dirs[filepath.Clean(dir)]
	if d == nil {
		return pathError("sync", dir, fs.ErrNotExist)
	}
	for _, op := range d.pending {
		op.apply(d.durable)
	}
	d.pending = nil
	return nil
}

func (op nameOp) apply(names map[string]*inode) {
	if op.from != "" {
		delete(names, op.from)
	}
	if op.to != "" {
		names[op.to] = op.node
	}
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	if m.mu.locks[name] {
		return nil, pathError("lock", name, ErrLocked)
	}
	m.mu.locks[name] = true
	return &memLock{fs: m, name: name}, nil
}

type memLock struct {
	fs   *Mem
	name string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if !l.fs.mu.locks[l.name] {
		return pathError("unlock", l.name, fs.ErrClosed)
	}
	delete(l.fs.mu.locks, l.name)
	return nil
}

// Free implements FS.
func (m *Mem) Free(string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.free, nil
}

// Corrupt flips the bits of mask in one byte of name, in its present and its durable content, as
// an aging disk does.
func (m *Mem) Corrupt(name string, off int64, mask byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.mu.files[filepath.Clean(name)]
	if node == nil || off >= int64(len(node.data)) {
		return pathError("corrupt", name, fs.ErrNotExist)
	}
	node.data[off] ^= mask
	if off < int64(len(node.durable)) {
		node.durable[off] ^= mask
	}
	return nil
}

// Crash returns a state that the file system may have after a power cut now, chosen by rng. It does
// not change m. Unsynced names may be undone; unsynced bytes and sizes may be lost, sector by
// sector. All locks are free.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := NewMem()
	after.mu.free = m.mu.free
	c := crash{rng: rng, after: after, crashed: map[*inode]*inode{}}
	for _, root := range []string{".", "/"} {
		c.directory(root, m.mu.dirs[root])
	}
	return after
}
