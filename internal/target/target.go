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

// ErrExists wraps the error of a file that exists, and is not overwritten.
var ErrExists = errors.New("it exists, and is not overwritten")

func exists(path string) error { return fmt.Errorf("%s: %w", path, ErrExists) }

// File is a file of a folder.
type File struct {
	Name string
	Size int64
}

// Folder is a directory, or the objects of a bucket whose names begin with the same prefix.
type Folder interface {
	// Path is what users call a file of the folder.
	Path(name string) string
	// List returns the files, in the order of their names.
	List(ctx context.Context) ([]File, error)
	// Open reads a file from its begin, and gives its size. A file that is not there is
	// os.ErrNotExist.
	Open(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// Create makes a file that must not exist yet from what fill writes, and returns its size.
	// After an error nothing of it is left, unless removing that failed too. About how large it
	// will be is a hint; it may be larger. No empty file is made.
	Create(ctx context.Context, name string, about int64,
		fill func(io.Writer) error) (size int64, err error)
	// Remove removes a file.
	Remove(ctx context.Context, name string) error
	// Tidy removes what runs that were ended have left at least so long ago, and gives the names;
	// dry: it only gives those.
	Tidy(ctx context.Context, age time.Duration, dry bool) ([]string, error)
}

// Options are how to reach what is not on this machine.
type Options struct {
	// Endpoint is the URL of S3-compatible storage; empty: that of the environment
	// (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL), or Amazon's.
	Endpoint string
}

const scheme = "s3://"

// Remote reports whether a path names a bucket, or something in one.
func Remote(path string) bool { return strings.HasPrefix(path, scheme) }

// Open returns the folder at a path: that of a directory, or s3://BUCKET/PREFIX. It asks nobody
// whether it exists.
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

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (n int, err error) {
	n, err = c.w.Write(b)
	c.n += int64(n)
	return n, err
}
