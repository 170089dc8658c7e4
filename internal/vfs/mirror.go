package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Mirror is for what needs a real file, as bbolt does, which maps its own: it keeps a file of a
// Mem in step with that, so that it can lose power too. A kill leaves all that was written.
type Mirror struct {
	real io.WriterAt
	file File
}

// NewMirror writes what is written to the file called name to real and to the file of the same name
// of fsys, which is mem or leads there, and fails where that does. What a file has that mem does
// not know is durable.
func NewMirror(mem *Mem, fsys FS, name string, real io.WriterAt) (*Mirror, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	// A file may have been made longer behind our back, which is all that truncating does here.
	if known, err := mem.read(name); err != nil || !bytes.Equal(bytes.TrimRight(known, "\x00"), bytes.TrimRight(data, "\x00")) {
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

// WriteAt writes to both files, of what fails in part as much as was written.
func (m *Mirror) WriteAt(p []byte, off int64) (n int, err error) {
	n, err = m.file.WriteAt(p, off)
	_, other := m.real.WriteAt(p[:n], off)
	return n, errors.Join(err, other)
}

// Sync is File.Sync.
func (m *Mirror) Sync() error { return m.file.Sync() }

// Restore makes the real files of these names what the Mem has, or has not.
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
