package snapshotfile

import (
	"errors"
	"io"
	"path/filepath"

	"keyp/internal/vfs"
)

// unfinished is what the name of a file ends with until all is in it and on disk.
const unfinished = ".unfinished"

// Verify reads a stream to its end, which also has to be that of r.
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

// Keep writes a file with write. The file gets its name only when it is complete and on disk.
// Before that, and after an error, the previous content remains. After an error of the directory's
// sync, which comes last, either content may be there.
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

// sequential writes one thing behind the other.
type sequential struct {
	f  vfs.File
	at int64
}

func (s *sequential) Write(b []byte) (n int, err error) {
	n, err = s.f.WriteAt(b, s.at)
	s.at += int64(n)
	return n, err
}
