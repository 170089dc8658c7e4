package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"keyp/internal/vfs"
)

// ErrHole is the error for an archive in which a part of the log is missing, or whose files do not
// follow each other.
var ErrHole = errors.New("archive: it does not go on")

// Files are the files of an archive, to be read.
type Files interface {
	// Path returns the name of a file for users.
	Path(name string) string
	List() (names []string, err error)
	// Open reads a file from its beginning.
	Open(name string) (io.ReadCloser, error)
}

// Dir returns the files of a directory.
func Dir(fsys vfs.FS, dir string) Files { return directory{fsys, dir} }

type directory struct {
	fsys vfs.FS
	dir  string
}

func (d directory) Path(name string) string { return filepath.Join(d.dir, name) }

func (d directory) List() ([]string, error) { return d.fsys.List(d.dir) }

func (d directory) Open(name string) (io.ReadCloser, error) {
	file, err := d.fsys.Open(d.Path(name))
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, 0, 1<<62), file}, nil
}

// Chain reads the files of a log, one after the other.
type Chain struct {
	from  Files
	files []start // that come next
	file  io.Closer
	r     *Reader
	sum   string // of the last file
	name  string // of the last one that was opened
	last  uint64 // LSN of the last batch read

	untimed []Span // of the last file that was opened
}

// start is where a file begins.
type start struct {
	history string
	from    uint64
}

func (s start) name() string { return Name(s.history, s.from) }

// filesOf returns the files of a history in order, and how many other histories there are.
func filesOf(from Files, history string) (files []start, others int, err error) {
	names, err := from.List()
	if err != nil {
		return nil, 0, err
	}
	seen := map[string]bool{history: true}
	for _, name := range names {
		of, from, ok := parseName(name)
		if ok && of == history {
			files = append(files, start{of, from})
		} else if ok {
			seen[of] = true
		}
	}
	slices.SortFunc(files, func(a, b start) int { return cmp.Compare(a.from, b.from) })
	return files, len(seen) - 1, nil
}

// Open returns a Chain of the batches after a position in the log of a history. The Chain begins
// with an earlier batch, at the latest with the one that ends at the position, unless the archive
// begins with the next one. The error is ErrHole if the archive begins later, or has nothing of the
// history.
func Open(from Files, history string, position uint64) (*Chain, error) {
	files, others, err := filesOf(from, history)
	if err != nil {
		return nil, err
	}
	c := &Chain{from: from, files: files}
	if len(c.files) == 0 {
		return nil, fmt.Errorf("%w: %s has nothing of history %s (of %d other histories it has)",
			ErrHole, from.Path(""), history, others)
	}
	n := 0
	for n < len(c.files) && (n == 0 && c.files[n].from == position || c.files[n].from < position) {
		n++
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: it begins at LSN %d, and LSN %d is needed", ErrHole,
			c.files[0].from, position)
	}
	c.files = c.files[n-1:]
	c.last = c.files[0].from
	return c, nil
}

// Before returns the names of the files of a history that have nothing after a position. The last
// file is none of them.
func Before(from Files, history string, position uint64) (names []string, err error) {
	files, _, err := filesOf(from, history)
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(files) && files[i].from < position; i++ {
		names = append(names, files[i-1].name())
	}
	return names, nil
}

// Next returns the next batch and its LSN. After the last one it returns io.EOF.
func (c *Chain) Next() (lsn uint64, batch []byte, err error) {
	lsn, pieces, err := c.NextPieces()
	return lsn, joined(pieces), err
}

// NextPieces is Next of a batch in pieces, as Reader.NextPieces returns them.
func (c *Chain) NextPieces() (lsn uint64, pieces [][]byte, err error) {
	for {
		if c.r == nil {
			if err := c.enter(); err != nil {
				return 0, nil, err
			}
		}
		lsn, pieces, err = c.r.NextPieces()
		if err == nil {
			c.last = lsn
			return lsn, pieces, nil
		}
		if err != io.EOF {
			return 0, nil, fmt.Errorf("%s: %w", c.from.Path(c.r.name()), err)
		}
		c.sum = c.r.Sum()
		if err := c.Close(); err != nil {
			return 0, nil, err
		}
	}
}

// File returns the name of the file that was read last.
func (c *Chain) File() string { return c.name }

// Last returns the LSN of the last batch that was read, or where the first file begins.
func (c *Chain) Last() uint64 { return c.last }

// Timed reports whether the log has the time of the batch that was read last: otherwise it ran
// without an archive.
func (c *Chain) Timed() bool {
	return !slices.ContainsFunc(c.untimed, func(s Span) bool {
		return s.From < c.last && c.last <= s.To
	})
}

// enter opens the next file.
func (c *Chain) enter() error {
	if len(c.files) == 0 {
		return io.EOF
	}
	next := c.files[0]
	path := c.from.Path(next.name())
	if next.from != c.last {
		return fmt.Errorf("%w: the file before %s ends at LSN %d, and that begins at LSN %d",
			ErrHole, path, c.last, next.from)
	}
	file, err := c.from.Open(next.name())
	if err != nil {
		return err
	}
	r, err := NewReader(file)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	c.file, c.r, c.name, c.untimed = file, r, next.name(), r.Header.Untimed
	if r.Header.History != next.history || r.Header.From != next.from {
		return errors.Join(fmt.Errorf("%w: %s is the file of history %s from LSN %d on", ErrHole,
			path, r.Header.History, r.Header.From), c.Close())
	}
	if c.sum != "" && r.Header.Previous != c.sum {
		return errors.Join(
			fmt.Errorf("%w: %s goes on from something else than what stands before it: two servers have written this archive, or a file was replaced",
				ErrHole, path), c.Close())
	}
	c.files = c.files[1:]
	return nil
}

func (r *Reader) name() string { return Name(r.Header.History, r.Header.From) }

// Skip continues after a hole or a damaged file with the next file that exists; false: there is
// none.
func (c *Chain) Skip() (from uint64, ok bool, err error) {
	if c.r != nil {
		err = c.Close()
	} else if len(c.files) > 0 && c.files[0].from == c.last {
		c.files = c.files[1:] // it could not be opened
	}
	if len(c.files) == 0 {
		return 0, false, err
	}
	c.last, c.sum = c.files[0].from, ""
	return c.last, true, err
}

// Close closes the file that is read.
func (c *Chain) Close() error {
	if c.r == nil {
		return nil
	}
	c.r.Close()
	c.r = nil
	return c.file.Close()
}
