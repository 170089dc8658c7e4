package member

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"keyp/internal/vfs"
	"keyp/storage/datafile"
)

// errDead is the error of every operation after the process was killed.
var errDead = errors.New("the process was killed")

// disk is a server's directory as one process sees it. Its log is in mem, unless mem is nil, and
// all else is in files. After the process is killed, nothing changes any more. The log has then
// lost unsynced data, but the data file has not.
type disk struct {
	raft string // the directory of the log
	mem  *vfs.Mem
	log  vfs.FS // mem, with the failures of fails
	// fails is asked before each operation on the log; nil: none fails.
	fails atomic.Pointer[vfs.Hook]
	mu    struct {
		sync.RWMutex
		dead bool
	}
	ops struct {
		sync.Mutex
		// The process is killed instead of the operation after the last one. 0 means that it is not
		// killed.
		n, last int
	}
}

func newDisk(dir string, mem *vfs.Mem) *disk {
	d := &disk{raft: filepath.Join(dir, logDir), mem: mem}
	if mem != nil {
		d.log = vfs.Inject(mem, func(op vfs.Op, name string, off int64, n int) error {
			if hook := d.fails.Load(); hook != nil {
				return (*hook)(op, name, off, n)
			}
			return nil
		})
	}
	return d
}

// kill makes all later changes fail, and returns the log after a power cut.
func (d *disk) kill(rng *rand.Rand) *vfs.Mem {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.dead = true
	if d.mem == nil {
		return nil
	}
	return d.mem.Crash(rng)
}

func (d *disk) dead() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.mu.dead
}

// counts counts an operation, and reports whether the process is still alive.
func (d *disk) counts() bool {
	d.ops.Lock()
	defer d.ops.Unlock()
	d.ops.n++
	return d.ops.last == 0 || d.ops.n <= d.ops.last
}

// change calls do, which changes something, unless the process is dead.
func (d *disk) change(do func() error) error {
	if !d.counts() {
		d.mu.Lock()
		d.mu.dead = true
		d.mu.Unlock()
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.mu.dead {
		return errDead
	}
	return do()
}

// step is called at each step of the store. The process may be killed there, too.
func (d *disk) step(datafile.Step) error { return d.change(func() error { return nil }) }

func (d *disk) of(name string) vfs.FS {
	if d.mem != nil && (name == d.raft ||
		strings.HasPrefix(name, d.raft+string(filepath.Separator))) {
		return d.log
	}
	return vfs.OS
}

func (d *disk) file(name string, open func(string) (vfs.File, error)) (f vfs.File, err error) {
	err = d.change(func() error {
		f, err = open(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return diskFile{f, d}, nil
}

func (d *disk) Create(name string) (vfs.File, error) { return d.file(name, d.of(name).Create) }
func (d *disk) Open(name string) (vfs.File, error)   { return d.file(name, d.of(name).Open) }

func (d *disk) Remove(name string) error {
	return d.change(func() error { return d.of(name).Remove(name) })
}

func (d *disk) Rename(from, to string) error {
	return d.change(func() error { return d.of(from).Rename(from, to) })
}

func (d *disk) List(dir string) ([]string, error) { return d.of(dir).List(dir) }

func (d *disk) MkdirAll(dir string) error {
	return d.change(func() error { return d.of(dir).MkdirAll(dir) })
}

func (d *disk) SyncDir(dir string) error {
	return d.change(func() error {
		if d.mem != nil && dir == filepath.Dir(d.raft) {
			for at := dir; ; at = filepath.Dir(at) {
				if err := errors.Join(d.mem.MkdirAll(at), d.mem.SyncDir(at)); err != nil {
					return err
				}
				if at == filepath.Dir(at) {
					break
				}
			}
		}
		return d.of(dir).SyncDir(dir)
	})
}

func (d *disk) Lock(name string) (io.Closer, error)    { return vfs.OS.Lock(name) }
func (d *disk) Free(dir string) (free uint64, _ error) { return vfs.OS.Free(filepath.Dir(d.raft)) }

type diskFile struct {
	vfs.File
	d *disk
}

func (f diskFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.d.change(func() error {
		n, err = f.File.WriteAt(b, at)
		return err
	})
	return n, err
}

func (f diskFile) Sync() error { return f.d.change(f.File.Sync) }
func (f diskFile) Truncate(size int64) error {
	return f.d.change(func() error { return f.File.Truncate(size) })
}
