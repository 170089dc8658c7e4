package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// ErrExists is wrapped by the error for a file that exists. Files are never overwritten.
var ErrExists = errors.New("it exists, and is not overwritten")

func exists(path string) error { return fmt.Errorf("%s: %w", path, ErrExists) }

// File is a file of a folder.
type File struct {
	Name string
	Size int64
}

// Folder is a directory, or the objects of a bucket whose names begin with the same prefix.
type Folder interface {
	// Path returns the path of a file, as users know it.
	Path(name string) string
	// List returns the files, in the order of their names.
	List(ctx context.Context) ([]File, error)
	// Open returns a reader for a file and the file's size in bytes. For a missing file the
	// error wraps os.ErrNotExist.
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// Create creates a file from the bytes that fill writes, and returns its size. If the file
	// exists, the error wraps ErrExists. After an error nothing of the file is left, unless its
	// removal failed too. about is the expected size in bytes, which may be exceeded. fill must
	// write at least one byte.
	Create(ctx context.Context, name string, about int64,
		fill func(io.Writer) error) (size int64, err error)
	// Remove removes a file.
	Remove(ctx context.Context, name string) error
	// Tidy removes unfinished files that interrupted runs have left at least age ago, and
	// returns their names. If dry is true, it only returns the names.
	Tidy(ctx context.Context, age time.Duration, dry bool) ([]string, error)
}

// Options say how to reach storage that is not on this machine.
type Options struct {
	// Endpoint is the URL of S3-compatible storage; empty: that of the environment
	// (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL), or Amazon's.
	Endpoint string
}

const scheme = "s3://"

// Remote reports whether a path names a bucket, or something in one.
func Remote(path string) bool { return strings.HasPrefix(path, scheme) }

// Open returns the folder at a path: a directory, or s3://BUCKET/PREFIX. It does not check whether
// the folder exists.
func Open(path string, o Options) (Folder, error) {
	if Remote(path) {
		return openBucket(strings.TrimPrefix(path, scheme), o)
	}
	return Dir(path), nil
}

// Split returns the folder that a file is in, and its name there.
func Split(path string, o Options) (Folder, string, error) {
	if !Remote(path) {
		return Dir(filepath.Dir(path)), filepath.Base(path), nil
	}
	at := strings.LastIndexByte(path, '/')
	if at < len(scheme) || at == len(path)-1 {
		return nil, "", fmt.Errorf("%s names no file of a bucket, as %sBUCKET/NAME does", path,
			scheme)
	}
	folder, err := Open(path[:at], o)
	return folder, path[at+1:], err
}

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (n int, err error) {
	n, err = c.w.Write(b)
	c.n += int64(n)
	return n, err
}
