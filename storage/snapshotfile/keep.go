package snapshotfile

import (
	"errors"
	"io"
	"path/filepath"

	"keyp/internal/vfs"
)

// unfinished is the end of a file's name until the whole content is on disk.
const unfinished = ".unfinished"

// Verify reads a snapshot to its end and checks it. It returns an error if r has more bytes after
// that end.
func Verify(r io.Reader) (Header, error) {
	from, err := NewReader(r)
	if err != nil {
		return Header{}, err
	}
	for err == nil {
		_, err = from.Next()
	}
	if err != io.EOF {
		return Header{}, err
	}
	var more [1]byte
	switch n, err := io.ReadFull(r, more[:]); {
	case n > 0:
		return Header{}, bad("something stands behind its end")
	case err != io.EOF:
		return Header{}, err
	}
	return from.Header, nil
}

// Keep calls write to write a file at path. The file gets its name only when it is complete and on
// disk. Before that, and after most errors, the previous content remains. The sync of the directory
// comes last. If only that fails, the path has the new content, but a crash may bring back the
// previous one.
func Keep(fs vfs.FS, path string, write func(io.Writer) error) error {
	part := path + unfinished
	f, err := fs.Create(part)
	if err != nil {
		return err
	}
	err = write(&sequential{f: f})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fs.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, fs.Remove(part))
	}
	return fs.SyncDir(filepath.Dir(path))
}

// sequential writes each piece at the end of the one before.
type sequential struct {
	f  vfs.File
	at int64
}

func (s *sequential) Write(b []byte) (n int, err error) {
	n, err = s.f.WriteAt(b, s.at)
	s.at += int64(n)
	return n, err
}
