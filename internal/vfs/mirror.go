package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Mirror writes the same data to a real file and to a file of a Mem. bbolt maps its file, so it
// needs a real one. With a Mirror a test can simulate a power cut for such a file, too. After a
// kill, the real file still contains everything that was written.
type Mirror struct {
	real io.WriterAt
	file File
}

// NewMirror returns a Mirror of the file called name: real is the real file, and fsys is mem, or
// wraps it to inject failures. If the real file differs from mem's, its content is copied to mem as
// durable.
func NewMirror(mem *Mem, fsys FS, name string, real io.WriterAt) (*Mirror, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	// The real file may have been extended by truncation, which does not go through the Mirror.
	if known, err := mem.read(name); err != nil || !bytes.Equal(bytes.TrimRight(known, "\x00"),
		bytes.TrimRight(data, "\x00")) {
		f, err := mem.Create(name)
		if err == nil {
			_, err = f.WriteAt(data, 0)
		}
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	f, err := fsys.Open(name)
	return &Mirror{real, f}, err
}

// WriteAt writes to both files: to the real file only the bytes that fsys has written.
func (m *Mirror) WriteAt(p []byte, off int64) (n int, err error) {
	n, err = m.file.WriteAt(p, off)
	_, other := m.real.WriteAt(p[:n], off)
	return n, errors.Join(err, other)
}

// Sync syncs the file of the Mem.
func (m *Mirror) Sync() error { return m.file.Sync() }

// Restore makes the real files of these names equal to those of m. It removes real files that m
// does not have.
func (m *Mem) Restore(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		data, err := m.read(name)
		if err == nil {
			err = os.WriteFile(name, data, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (m *Mem) read(name string) ([]byte, error) {
	f, err := m.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	data := make([]byte, size)
	if err == nil && size > 0 {
		_, err = f.ReadAt(data, 0)
	}
	return data, errors.Join(err, f.Close())
}
