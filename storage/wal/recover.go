package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"keyp/internal/vfs"
	"path/filepath"
	"slices"
)

// recovery reads a log and finds out where it ends. It changes nothing; cut does.
type recovery struct {
	o      *Options
	need   uint64 // the first segment number
	known  bool   // it was recorded, so it is there
	replay func(lsn uint64, batch []byte) error

	files  []segmentFile // from need on, by number
	stale  []segmentFile // below need
	spares []segmentFile
	tmp    bool   // new.tmp is there
	mark   uint64 // of the log
	bound  uint64 // bytes in all files; a batch that is larger cannot be whole

	buf []byte // for what is read of a segment

	pos     uint64 // everything before it verifies
	seen    uint64 // end of the last group whose header verifies, in the segment of pos
	linked  bool   // in the middle of a batch
	partial []byte // what there is of it
	have    uint64 // how much there is of it, in bytes
	total   uint64 // its size

	whole   uint64 // position after the last whole batch: where the log is cut
	wholeIn int    // index of its segment in files; -1 if there is none
	badIn   int    // index of the segment of pos
}

type segmentFile struct {
	path   string
	number uint64
	size   int64
	used   bool // header is its own
	header
	traces bool // not used by its header, but groups with its number were seen
}

// scan reads the log from segment first on and passes its batches to replay. An error that is a
// *CorruptError comes with the recovery, which then lists what is intact.
func scan(o *Options, first uint64,
	replay func(lsn uint64, batch []byte) error) (*recovery, error) {
	r := &recovery{o: o, need: max(first, 1), known: first > 0 && !o.New,
		replay: replay, wholeIn: -1}
	if err := r.list(); err != nil {
		return r, err
	}
	fresh, err := r.begins()
	if err != nil || fresh {
		return r, err
	}
	for i := 0; ; i++ { // ends: limit leads to a next segment in use, or nowhere
		r.badIn, r.seen = i, r.pos
		limit := r.limit(i)
		if err := r.look(&r.files[i], func(w *lookahead) error {
			return r.segment(i, w, limit)
		}); err != nil {
			return r, err
		}
		if r.pos != limit {
			return r, r.lookOn(i)
		}
	}
}

// list finds the files and reads the headers of segments.
func (r *recovery) list() error {
	names, err := r.o.FS.List(r.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("wal: %w", err)
	}
	for _, name := range names {
		f := segmentFile{path: r.o.path(name)}
		var segment, spare bool
		if f.number, segment = parseName("wal-%016x.log", name); !segment {
			f.number, spare = parseName("spare-%016x.log", name)
		}
		r.tmp = r.tmp || name == tmpName
		if !segment && !spare {
			continue
		}
		if err := r.open(&f, segment); err != nil {
			return err
		}
		switch {
		case spare:
			r.spares = append(r.spares, f)
		case f.number < r.need:
			r.stale = append(r.stale, f)
		default:
			r.files = append(r.files, f)
			r.bound += uint64(f.size)
		}
	}
	r.o.Progress.Expect(int64(r.bound))
	return nil // names are sorted, and so are the fixed-width numbers in them
}

// open reads the size of f. If f is a segment that is needed or may be kept, it also reads the
// header. The sync makes sure that all that is read and replayed now is on disk before anything
// claims so.
func (r *recovery) open(f *segmentFile, segment bool) error {
	return r.with(f.path, func(file file) (err error) {
		if f.size, err = file.Size(); err != nil || !segment ||
			f.number < r.need && r.o.KeepFrom == 0 {
			return err
		}
		if err := errors.Join(file.Sync(), file.Reread()); err != nil {
			return err
		}
		block := make([]byte, headerSize)
		n, err := file.ReadAt(block, 0)
		if err != nil && err != io.EOF {
			return err
		}
		f.header, f.used, err = parseHeader(block[:n], f.number)
		return err
	})
}

type file interface {
	io.ReaderAt
	io.WriterAt
	Size() (int64, error)
	Sync() error
	Reread() error
}

// with opens the file at path for use.
func (r *recovery) with(path string, use func(file) error) error {
	f, err := r.o.FS.Open(path)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if err := errors.Join(use(f), f.Close()); err != nil {
		return fmt.Errorf("wal: %s: %w", path, err)
	}
	return nil
}

// look opens f to be read through lookahead.
func (r *recovery) look(f *segmentFile, use func(*lookahead) error) error {
	return r.with(f.path, func(file file) error {
		size, err := file.Size()
		if err != nil {
			return err
		}
		w := lookahead{file: r.o.Progress.Reader(file), size: size, bytes: r.buf[:0]}
		defer func() { r.buf = w.bytes }()
		return use(&w)
	})
}

// lookahead is a part of a segment file in memory. It moves forward through the file, so
// that batches are visited while later ones are still being read.
type lookahead struct {
	file  io.ReaderAt
	size  int64 // of the file
	start int64 // offset of bytes in the file
	bytes []byte
}

// readAhead is the least number of bytes that lookahead reads at once, unless the file ends.
const readAhead = 1 << 20

// at returns the bytes from offset on: n of them, or more, or fewer at the end of the file. They
// are valid until the next call, whose offset must not be smaller.
func (w *lookahead) at(offset int64, n int) ([]byte, error) {
	if have := w.start + int64(len(w.bytes)); offset+int64(n) <= have {
		return w.bytes[offset-w.start:], nil
	} else if offset < have {
		w.bytes = append(w.bytes[:0], w.bytes[offset-w.start:]...)
	} else {
		w.bytes = w.bytes[:0]
	}
	w.start = offset
	was := len(w.bytes)
	more := int(min(int64(max(n-was, readAhead)), max(w.size-offset-int64(was), 0)))
	w.bytes = slices.Grow(w.bytes, more)
	got, err := w.file.ReadAt(w.bytes[was:was+more], offset+int64(was))
	w.bytes = w.bytes[:was+got]
	if err == io.EOF {
		err = nil
	}
	return w.bytes, err
}

// begins finds where the log starts. fresh means that there is nothing to read.
func (r *recovery) begins() (fresh bool, err error) {
	r.pos, r.whole = firstLSN, firstLSN
	if len(r.files) == 0 && len(r.stale) == 0 && !r.known {
		r.mark = r.o.random()
		return true, nil
	}
	if len(r.files) == 0 || r.files[0].number != r.need {
		return false, r.missing(r.need)
	}
	if first := &r.files[0]; first.used {
		r.mark, r.pos, r.whole, r.wholeIn = first.mark, first.start, first.start, 0
		return false, nil
	}
	if r.need > 1 {
		return false, r.corrupt(0, 0, "the header of the first segment needed does not verify")
	}
	if r.known && r.files[0].size < headerSize { // a segment has its size before it has its name
		return false, r.corrupt(0, 0, "the first segment needed is too short for its header")
	}
	// Nothing was ever recorded about this log, so perhaps nothing ever got through.
	// The mark to look for is in any later segment, or in the first group itself.
	if i := slices.IndexFunc(r.files, func(f segmentFile) bool { return f.used }); i >= 0 {
		r.mark = r.files[i].mark
	} else if err := r.look(&r.files[0], r.readMark); err != nil {
		return false, err
	}
	if err := r.lookOn(-1); err != nil {
		return false, err
	}
	r.mark = r.o.random()
	return true, nil
}

// readMark reads the mark from the first group of a segment.
func (r *recovery) readMark(w *lookahead) error {
	data, err := w.at(headerSize, groupHeaderSize)
	if len(data) >= groupHeaderSize {
		r.mark = le.Uint64(data)
	}
	return err
}

// limit returns the position at which files[i] ends because the next segment starts there.
func (r *recovery) limit(i int) uint64 {
	if i+1 < len(r.files) {
		if next := &r.files[i+1]; next.used && next.number == r.files[i].number+1 {
			return next.start
		}
	}
	return ^uint64(0)
}

// segment reads files[i] from r.pos up to limit, or to the first bytes that do not verify. r.pos is
// their position then.
func (r *recovery) segment(i int, w *lookahead, limit uint64) error {
	f := &r.files[i]
	for r.pos < limit {
		data, err := w.at(f.offset(r.pos), groupHeaderSize)
		if err != nil {
			return err
		}
		g, ok := parseGroup(data)
		if !ok || !f.standsAt(r.pos, g) {
			return nil
		}
		r.pos += groupHeaderSize
		r.seen = r.pos + uint64(g.length)
		if g.length == 0 && !r.linked {
			r.whole, r.wholeIn = r.pos, i
		}
		if data, err = w.at(f.offset(r.pos), g.length); err != nil {
			return err
		}
		if len(data) < g.length {
			return nil // the file has become shorter
		}
		if whole, err := r.group(i, data[:g.length], limit); !whole || err != nil {
			return err
		}
	}
	return nil
}

// group reads the frames in data, the first of which is at r.pos, up to limit. whole reports
// whether each of them verifies.
func (r *recovery) group(i int, data []byte, limit uint64) (whole bool, err error) {
	for len(data) > 0 && r.pos < limit {
		fr, ok := parseFrame(data, r.files[i].salt, r.pos)
		if !ok || !r.fits(fr) {
			return false, nil
		}
		data = data[fr.size():]
		r.pos += fr.size()
		if err := r.accept(fr, i); err != nil {
			return false, err
		}
	}
	return true, nil
}

// has reports whether g was written in this life of the segment.
func (f *segmentFile) has(g group) bool {
	return g.mark == f.mark && g.salt == f.salt && g.number == f.number
}

// standsAt reports whether g was written at pos in this life of the segment, and ends within the
// file.
func (f *segmentFile) standsAt(pos uint64, g group) bool {
	return f.has(g) && g.lsn == pos && int64(g.length) <= f.size-f.offset(pos)-groupHeaderSize
}

// fits reports whether fr can be the next frame.
func (r *recovery) fits(fr frame) bool {
	switch {
	case fr.first == r.linked:
		return false
	case fr.first && !fr.last:
		return len(fr.payload) >= linkSize
	case r.linked:
		have := r.have + uint64(len(fr.payload))
		return have < r.total && !fr.last || have == r.total && fr.last
	}
	return true
}

// accept takes the next frame, and passes its batch to replay if that is whole.
func (r *recovery) accept(fr frame, i int) error {
	batch := fr.payload
	if fr.first && !fr.last {
		r.linked, r.have, r.total = true, 0, le.Uint64(batch)
		r.partial = nil
		if r.total <= r.bound {
			r.partial = make([]byte, 0, r.total)
		}
		batch = batch[linkSize:]
	}
	if r.linked {
		r.have += uint64(len(batch))
		if r.total <= r.bound {
			r.partial = append(r.partial, batch...)
		}
		if !fr.last {
			return nil
		}
		batch, r.linked, r.partial = r.partial, false, nil
	}
	r.whole, r.wholeIn = r.pos, i
	if r.replay == nil {
		return nil
	}
	if err := r.replay(r.pos, batch); err != nil {
		return fmt.Errorf("replay of the batch before position %d: %w", r.pos, err)
	}
	return nil
}

// lookOn searches the log after r.pos for a proof that something at r.pos was durable once. It
// looks in files[i] (-1 for none) and in all segments after it.
func (r *recovery) lookOn(i int) error {
	r.partial = nil
	var claim uint64
	if i >= 0 {
		f := &r.files[i]
		err := r.groups(f, f.offset(r.pos), func(g group, off int64) {
			if f.has(g) && f.offset(g.lsn) == off {
				claim = max(claim, g.durable)
				r.seen = max(r.seen, g.lsn+groupHeaderSize+uint64(g.length))
			}
		})
		if err != nil {
			return err
		}
	}
	badHeader := false
	for j := i + 1; j < len(r.files); j++ {
		f := &r.files[j]
		if gap := j > 0 && f.number != r.files[j-1].number+1; gap && f.used {
			return r.missing(r.files[j-1].number + 1)
		}
		durable, startsHere, err := r.claims(j)
		if err != nil {
			return err
		}
		claim = max(claim, durable)
		badHeader = badHeader || j == i+1 && startsHere
	}
	switch {
	case claim <= r.pos:
		return nil // a torn write, or simply the end
	case badHeader || i < 0:
		return r.corrupt(i+1, 0, "its header does not verify, but it was in use")
	}
	return r.corrupt(i, r.files[i].offset(r.pos),
		fmt.Sprintf("the log was durable up to position %d once", claim))
}

// claims returns the highest position that files[j], a later segment than the bad one, calls
// durable. startsHere reports whether its header is lost, but its groups show that it started at
// r.pos.
func (r *recovery) claims(j int) (claim uint64, startsHere bool, err error) {
	f := &r.files[j]
	if f.used {
		claim = f.durable
	}
	err = r.groups(f, 0, func(g group, off int64) {
		switch {
		case f.used && f.has(g) && f.offset(g.lsn) == off:
			claim = max(claim, g.durable)
		case !f.used && g.number == f.number && g.lsn >= r.pos:
			f.traces = true
			claim = max(claim, g.durable)
			startsHere = startsHere || g.lsn-r.pos == uint64(off-headerSize)
		}
	})
	return claim, startsHere, err
}

// groups calls found for each group of this log in f from offset from on, also for groups of
// earlier lives of the file.
func (r *recovery) groups(f *segmentFile, from int64, found func(g group, off int64)) error {
	mark := le.AppendUint64(nil, r.mark)
	return r.look(f, func(w *lookahead) error {
		for {
			data, err := w.at(from, readAhead)
			if err != nil {
				return err
			}
			for off := 0; ; off++ {
				n := bytes.Index(data[off:], mark)
				if n < 0 {
					break
				}
				off += n
				if g, ok := parseGroup(data[off:]); ok {
					found(g, from+int64(off))
				}
			}
			if len(data) < readAhead {
				return nil
			}
			from += int64(len(data) - (groupHeaderSize - 1)) // the last header may continue
		}
	})
}

// corrupt reports files[i] at offset.
func (r *recovery) corrupt(i int, offset int64, reason string) error {
	return &CorruptError{File: r.files[i].path, Offset: offset, LSN: r.pos, Reason: reason}
}

// Lowest returns the number of the lowest segment in a directory; 0: there is none.
func Lowest(fsys vfs.FS, dir string) (lowest uint64, err error) {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("wal: %w", err)
	}
	for _, name := range names {
		if number, ok := parseName("wal-%016x.log", name); ok && (lowest == 0 || number < lowest) {
			lowest = number
		}
	}
	return lowest, nil
}

func (r *recovery) missing(number uint64) error {
	return &CorruptError{File: filepath.Join(r.o.Dir, segmentName(number)), LSN: r.pos,
		Reason: "the file is missing"}
}
