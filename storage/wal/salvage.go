package wal

import (
	"bytes"
	"math"
	"path/filepath"
)

// Gap is a part of the log from which no batch can be read.
type Gap struct {
	File     string // the segment that it begins in
	Offset   int64  // in that
	From, To uint64 // positions: the batches that began between them are lost
	Reason   string
	// Frame is the payload of the frame that fails its checksum where the gap begins, if that
	// looks like one. Its content is not proven.
	Frame []byte
	// Whole reports that no batch is lost: the gap is the header of a group or of a segment,
	// whose content is known from elsewhere.
	Whole bool
}

// Salvage reads the log in o.Dir without changing it, even after damage. It passes each sound batch
// to visit, in order, and each gap to missed, before the batches after it. A log that Open accepts
// has no gaps. Of o only FS, Dir and Progress matter. The log must not be open.
//
// A frame proves by its checksum in which life of which segment, and at which position, it was
// written. So a sound one may be used wherever it is found. A bad place is a gap if something
// claims durability beyond it, as in Open; else the log ends there. After it, Salvage searches for
// the next sound frame or group header, byte by byte. A batch of several frames is lost with any
// one of them. A segment whose header is damaged is read according to its groups.
func Salvage(o Options, first uint64, visit func(lsn uint64, batch []byte) error,
	missed func(Gap) error) (Report, error) {
	var report Report
	s := salvage{missed: missed, recovery: recovery{o: &o, need: max(first, 1), known: first > 0,
		replay: func(lsn uint64, batch []byte) error {
			report.Batches++
			report.Bytes += int64(len(batch))
			report.End = lsn
			return visit(lsn, batch)
		}}}
	if err := s.list(); err != nil {
		return report, err
	}
	if err := s.identify(); err != nil {
		return report, err
	}
	err := s.read()
	for i := range s.files {
		if s.files[i].used && s.files[i].start < report.End {
			report.Segments++
		}
	}
	return report, err
}

// salvage reads the sound parts of a log, before and after damage.
type salvage struct {
	recovery
	missed func(Gap) error

	claim  uint64 // all before it was durable once
	bad    *Gap   // where the log is being picked up again
	group  uint64 // end of the group whose header was read last, 0 if that is not known
	tried  int64  // bytes whose checksum was computed in search of a frame
	ending bool
}

// maxTried bounds the search for a frame after a bad place, in bytes of checksums, because any
// bytes may look like the length of a frame.
const maxTried = 1 << 30

// identify restores the headers that do not verify from the groups of their segments. It finds the
// highest position that a header or a group claims to be durable.
func (s *salvage) identify() error {
	for i := range s.files {
		if f := &s.files[i]; f.used {
			s.mark = f.mark
			s.claim = max(s.claim, f.durable)
		}
	}
	for i := range s.files {
		f, known := &s.files[i], s.mark != 0
		if !known {
			if err := s.look(f, s.readMark); err != nil {
				return err
			}
		}
		err := s.groups(f, headerSize, func(g group, off int64) {
			begin := uint64(off - headerSize)
			if !f.used && g.number == f.number && g.lsn >= begin {
				f.used, f.traces = true, true
				f.header = header{identity: identity{number: f.number, start: g.lsn - begin,
					salt: g.salt}, mark: s.mark}
			}
			if f.used && f.has(g) && f.offset(g.lsn) == off {
				s.claim = max(s.claim, g.durable)
			}
		})
		if err != nil {
			return err
		}
		if !known && !f.used {
			s.mark = 0 // what stands there is no mark
		}
	}
	return nil
}

// read reads all segments.
func (s *salvage) read() error {
	var used []int
	for i := range s.files {
		if s.files[i].used {
			used = append(used, i)
		}
	}
	if len(used) == 0 {
		switch at := filepath.Join(s.o.Dir, segmentName(s.need)); {
		case len(s.files) == 0 && s.known:
			return s.missed(Gap{File: at,
				Reason: "the file is missing, and so is all of the log after it"})
		case len(s.files)+len(s.stale) > 0 && (s.need > 1 || s.claim > 0):
			return s.missed(Gap{File: at, Reason: "no segment of the log can be read"})
		}
		return nil
	}
	first := &s.files[used[0]]
	s.pos, s.whole = first.start, first.start
	if first.number != s.need {
		s.begin(Gap{File: filepath.Join(s.o.Dir, segmentName(s.need)),
			Reason: "the segment is missing, or nothing of it can be read"})
		s.bad.From = 0
	}
	for n, i := range used {
		f, limit := &s.files[i], uint64(math.MaxUint64)
		if n+1 < len(used) {
			limit = s.files[used[n+1]].start
		}
		if f.traces && s.claim <= f.start {
			return s.end() // as where Open cuts
		}
		if f.traces {
			if err := s.missed(Gap{File: f.path, From: f.start, To: f.start,
				Reason: "the header of the segment fails its checksum", Whole: true}); err != nil {
				return err
			}
		}
		if s.pos != f.start && s.bad == nil {
			s.begin(Gap{File: f.path, Offset: headerSize,
				Reason: "what stands before it is missing"})
		}
		s.pos, s.group = f.start, 0
		if err := s.look(f, func(w *lookahead) error {
			return s.segment(i, w, limit)
		}); err != nil ||
			s.ending {
			return err
		}
	}
	return s.end()
}

// begin begins a gap: the bytes at the present position are bad.
func (s *salvage) begin(g Gap) {
	g.From = s.whole
	s.bad, s.linked, s.partial, s.tried = &g, false, nil, 0
}

// end reports the last gap, after which nothing is sound.
func (s *salvage) end() error {
	s.ending = true
	if s.bad == nil {
		return nil
	}
	s.bad.To = max(s.claim, s.bad.From)
	return s.missed(*s.bad)
}

// segment reads files[i] up to limit.
func (s *salvage) segment(i int, w *lookahead, limit uint64) error {
	f := &s.files[i]
	for s.pos < limit {
		off := f.offset(s.pos)
		if off >= f.size {
			break
		}
		data, err := w.at(off, groupHeaderSize)
		if err != nil {
			return err
		}
		if g, ok := s.header(f, data); ok {
			s.pos += groupHeaderSize
			s.group = s.pos + uint64(g.length)
			continue
		}
		fr, ok, err := s.frame(f, w, limit)
		if err != nil {
			return err
		}
		if ok {
			s.pos += fr.size()
			if err := s.take(fr, i); err != nil {
				return err
			}
			continue
		}
		if s.bad == nil {
			if s.claim <= s.pos {
				s.ending = true // a torn write, or simply the end
				return nil
			}
			if skipped, err := s.headerOnly(i, w, limit); err != nil {
				return err
			} else if skipped {
				continue
			}
			s.begin(Gap{File: f.path, Offset: off, Reason: "it fails its checksum",
				Frame: s.broken(f, w)})
		}
		s.group = 0
		s.pos++
	}
	if limit == math.MaxUint64 {
		return s.end()
	}
	if s.pos < limit && s.bad == nil { // the file is too short
		s.begin(Gap{File: f.path, Offset: f.size, Reason: "the file is too short"})
	}
	s.pos = limit
	return nil
}

// header returns the group header that data begins with; ok: it belongs to the present position.
func (s *salvage) header(f *segmentFile, data []byte) (g group, ok bool) {
	if len(data) < groupHeaderSize || le.Uint64(data) != f.mark {
		return group{}, false
	}
	g, ok = parseGroup(data)
	return g, ok && f.standsAt(s.pos, g)
}

// frame reads the frame at the present position, if there is one.
func (s *salvage) frame(f *segmentFile, w *lookahead, limit uint64) (fr frame, ok bool, err error) {
	data, err := w.at(f.offset(s.pos), frameHeaderSize)
	if err != nil || len(data) < frameHeaderSize {
		return fr, false, err
	}
	word := le.Uint32(data[4:])
	size := frameHeaderSize + int(word&0xffffff)
	if byte(word>>24)&^(flagFirst|flagLast) != flagFrame || size > frameHeaderSize+linkSize+
		maxPayload || uint64(size) > limit-s.pos {
		return fr, false, nil
	}
	if s.bad != nil {
		if s.tried += int64(size); s.tried > maxTried {
			return fr, false, nil
		}
	}
	if data, err = w.at(f.offset(s.pos), size); err != nil || len(data) < size {
		return fr, false, err
	}
	fr, ok = parseFrame(data[:size], f.salt, s.pos)
	return fr, ok, err
}

// take takes a sound frame, which ends at the present position.
func (s *salvage) take(fr frame, i int) error {
	begin := s.pos - fr.size()
	if s.bad == nil && !s.fits(fr) {
		s.begin(Gap{File: s.files[i].path, Offset: s.files[i].offset(begin),
			Reason: "the batch before it has no end"})
	}
	if s.bad != nil {
		if !fr.first || !s.fits(fr) {
			return nil // of a batch that began in the gap
		}
		g := *s.bad
		s.bad, g.To = nil, begin
		if err := s.missed(g); err != nil {
			return err
		}
	}
	return s.accept(fr, i)
}

// headerOnly reports whether only the header of a group is bad, and skips it then. The header
// follows directly after the group before it, and a frame or the segment's end follows the header.
func (s *salvage) headerOnly(i int, w *lookahead, limit uint64) (bool, error) {
	f := &s.files[i]
	if s.pos != s.group && s.pos != f.start {
		return false, nil
	}
	g := Gap{File: f.path, Offset: f.offset(s.pos), From: s.pos, To: s.pos + groupHeaderSize,
		Reason: "the header of a group fails its checksum", Whole: true}
	if g.To != limit {
		data, err := w.at(g.Offset, groupHeaderSize+frameHeaderSize)
		if err != nil || len(data) < groupHeaderSize+frameHeaderSize {
			return false, err
		}
		size := frameHeaderSize + int(le.Uint32(data[groupHeaderSize+4:])&0xffffff)
		if data, err = w.at(g.Offset, groupHeaderSize+size); err != nil ||
			len(data) < groupHeaderSize+size {
			return false, err
		}
		if _, ok := parseFrame(data[groupHeaderSize:groupHeaderSize+size], f.salt, g.To); !ok {
			return false, nil
		}
	}
	s.pos, s.group = g.To, 0
	return true, s.missed(g)
}

// broken returns the content of the frame at the present position, if it looks like a whole batch.
func (s *salvage) broken(f *segmentFile, w *lookahead) []byte {
	data, err := w.at(f.offset(s.pos), frameHeaderSize)
	if err != nil || len(data) < frameHeaderSize {
		return nil
	}
	word := le.Uint32(data[4:])
	size := frameHeaderSize + int(word&0xffffff)
	if byte(word>>24) != flagFrame|flagFirst|flagLast || size > frameHeaderSize+maxPayload ||
		s.group != 0 && s.pos+uint64(size) > s.group {
		return nil
	}
	if data, err = w.at(f.offset(s.pos), size); err != nil || len(data) < size {
		return nil
	}
	return bytes.Clone(data[frameHeaderSize:size])
}
