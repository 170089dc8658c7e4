package object

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// A run of a stream may be absent: its summary is in memory, its entries are only in the data file.
// Code that needs entries of a run gets them from one of two accessors, which read an absent run:
//
//   - entries, to read them. The run stays absent: a walk over a stream needs memory for one run at
//     a time.
//   - own, before the run changes. It is in memory from then on.
//
// A run leaves memory only while the data file has all of it (Leave), and an entry's element never
// changes. So the entries read from an absent run are right if there are as many as the summary
// says. If another goroutine deletes the value meanwhile, a reader finds too few of them.

// RunSource reads a stream's entries from the data file.
type RunSource interface {
	// ReadRun visits the entries with numbers from first to last, in order, as the values of
	// their elements. It returns the first error of fn. Several goroutines may call it.
	ReadRun(first, last int64, fn func(number int64, val []byte) error) error
	// Wrong returns an error with the value whose entries are missing or wrong.
	Wrong(error) error
}

// ReadError is the value with which a method of a stream panics if it cannot read entries that it
// needs. The method has changed nothing then. Expire, and methods that only tell when entries are
// due (LenAt, Earliest, Deadlines and the like), skip such entries instead.
type ReadError struct{ Err error }

func (e *ReadError) Error() string {
	return fmt.Sprintf("entries of a stream cannot be read: %v", e.Err)
}

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// Reading calls fn. If fn panics with a ReadError, it returns that error, and otherwise nil.
func Reading(fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Recovered(p)
		}
	}()
	fn()
	return nil
}

// Recovered returns the ReadError of a recovered panic. For any other value it panics again.
func Recovered(p any) error {
	if err, ok := p.(*ReadError); ok {
		return err
	}
	panic(p)
}

// coldRuns is the state of a stream that may have absent runs.
type coldRuns struct {
	source RunSource
	absent int   // runs
	live   int   // their entries
	bytes  int64 // about what these take in memory
	hand   int64 // the ordinal from which on Leave looks for runs
	// lately is the run that was read last while it stayed absent.
	lately atomic.Pointer[readRun]
}

type readRun struct {
	of *streamRun
	in *runEntries
}

// errRun is returned if the data file has other entries than the summary says.
var errRun = errors.New("object: entries of a run are missing or wrong")

// Source returns the reader of the stream's absent runs; nil if there is none.
func (s *Stream) Source() RunSource {
	if s.cold == nil {
		return nil
	}
	return s.cold.source
}

// SetSource sets the reader of the stream's absent runs.
func (s *Stream) SetSource(source RunSource) {
	if s.cold == nil {
		s.cold = &coldRuns{}
	}
	s.cold.source = source
}

// Absent returns how many entries are not in memory, and about how many bytes they would take
// there.
func (s *Stream) Absent() (entries int, bytes int64) {
	if s.cold == nil {
		return 0, 0
	}
	return s.cold.live, s.cold.bytes
}

// absent reports whether the run is absent.
func (r *streamRun) absent() bool { return r.mem == nil }

// entries returns the entries of a run for reading. If they cannot be read, it panics with a
// ReadError.
func (s *Stream) entries(r *streamRun) *runEntries {
	if !r.absent() {
		return (*runEntries)(r)
	}
	in, err := s.readRun(r)
	if err != nil {
		panic(&ReadError{err})
	}
	return in
}

// readable does what entries does, but returns false for a run that cannot be read.
func (s *Stream) readable(r *streamRun) (*runEntries, bool) {
	if !r.absent() {
		return (*runEntries)(r), true
	}
	in, err := s.readRun(r)
	return in, err == nil
}

// own returns the entries of a run that is about to change. From then on the run is in memory.
func (s *Stream) own(r *streamRun) *runEntries {
	if r.absent() {
		s.install(r, s.entries(r))
	}
	return (*runEntries)(r)
}

// readRun reads an absent run, which stays absent.
func (s *Stream) readRun(r *streamRun) (*runEntries, error) {
	if last := s.cold.lately.Load(); last != nil && last.of == r {
		return last.in, nil
	}
	in, err := r.read(s.cold.source)
	if err == nil {
		s.cold.lately.Store(&readRun{r, in})
	}
	return in, err
}

// install puts an absent run into memory.
func (s *Stream) install(r *streamRun, in *runEntries) {
	r.mem, r.lo, r.used = in.mem, in.lo, true
	s.allocated += cap(r.mem)
	s.counted(r, -1)
	s.cold.lately.Store(nil)
}

// counted adds an absent run to the counts, or removes it if by is -1.
func (s *Stream) counted(r *streamRun, by int) {
	s.cold.absent += by
	s.cold.live += by * int(r.live)
	s.cold.bytes += int64(by) * int64(r.node)
}

// read reads an absent run from source.
func (r *streamRun) read(source RunSource) (*runEntries, error) {
	var in *runEntries
	var room [16][]byte
	err := source.ReadRun(r.first*NumberStep, (r.end()-1)*NumberStep,
		func(number int64, val []byte) error {
			ordinal := number / NumberStep
			id, fields, ok := parseEntry(val, room[:0])
			switch {
			case !ok || number%NumberStep != 0 || !r.spans(id):
				return errRun
			case in == nil:
				if ordinal != r.first || id != r.low {
					return errRun
				}
				in = startRun(r.base, ordinal, id, fields)
				return nil
			}
			gap := ordinal - (*streamRun)(in).end()
			if gap < 0 || ordinal >= r.end() || id.Compare(in.last) <= 0 {
				return errRun
			}
			in.append(id, fields, int(gap))
			return nil
		})
	switch {
	case err != nil:
		return nil, err
	case in == nil || in.live != r.live:
		return nil, source.Wrong(errRun)
	}
	for in.entries < r.entries {
		in.mem = append(in.mem, 0)
		in.entries++
	}
	in.trim()
	in.last, in.cut, in.node = r.last, r.cut, r.node
	return in, nil
}

// Whole loads all entries into memory. It is for a value that nobody uses yet and that will have
// its own elements in the data file. It panics with a ReadError if some cannot be read.
func (s *Stream) Whole() {
	for i := 0; s.cold != nil && s.cold.absent > 0; i++ {
		s.own(s.runs[i])
	}
	s.cold = nil
}

// leaveLooks is how many runs one call of Leave checks.
const leaveLooks = 1024

// Leave removes runs from memory until enough bytes are free or it has looked at very many. It
// returns how many bytes it has freed. done reports that it has reached the last run, which stays.
// A run also stays if it was used since the previous look, or if it is not clean. A run is clean if
// the data file contains all elements with numbers from first to last as they are.
func (s *Stream) Leave(enough int, clean func(first, last int64) bool) (freed int, done bool) {
	c := s.cold
	at := max(s.runAt(c.hand), 0)
	for looks := 0; freed < enough && looks < leaveLooks; looks++ {
		if at >= len(s.runs)-1 {
			c.hand = 0
			return freed, true
		}
		r := s.runs[at]
		at++
		switch {
		case r.absent():
		case r.used:
			r.used = false
		case clean(r.first*NumberStep, (r.end()-1)*NumberStep):
			freed += cap(r.mem)
			s.allocated -= cap(r.mem)
			r.mem, r.lo = nil, 0
			s.counted(r, 1)
		}
	}
	c.hand = s.runs[min(at, len(s.runs)-1)].first
	return freed, false
}

// EachAbsent visits the runs that are not in memory, by the numbers of their first and last
// entries.
func (s *Stream) EachAbsent(fn func(first, last int64)) {
	for _, r := range s.runs {
		if r.absent() {
			fn(r.first*NumberStep, (r.end()-1)*NumberStep)
		}
	}
}

// InRuns returns how many bytes the entries in memory take.
func (s *Stream) InRuns() int { return s.allocated - len(s.runs)*int(unsafe.Sizeof(streamRun{})) }

// Resident returns how many runs are in memory.
func (s *Stream) Resident() int {
	if s.cold == nil {
		return len(s.runs)
	}
	return len(s.runs) - s.cold.absent
}

// RunRead is an absent run that is read while others use the stream.
type RunRead struct {
	of, like *streamRun
	source   RunSource
	in       *runEntries
}

// BeginRead returns a RunRead for the absent run that begins with an ordinal; nil if there is none.
func (s *Stream) BeginRead(first int64) *RunRead {
	i := s.runAt(first)
	if i < 0 || s.runs[i].first != first || !s.runs[i].absent() {
		return nil
	}
	like := *s.runs[i]
	return &RunRead{of: s.runs[i], like: &like, source: s.cold.source}
}

// Read reads the run. Nobody else may use r meanwhile, but others may use the stream.
func (r *RunRead) Read() (err error) {
	r.in, err = r.like.read(r.source)
	return err
}

// EndRead installs a run that was read. It returns false if the run is no longer in the stream or
// no longer absent.
func (s *Stream) EndRead(r *RunRead) bool {
	i := s.runAt(r.like.first)
	if i < 0 || s.runs[i] != r.of || !r.of.absent() {
		return false
	}
	if r.in != nil {
		s.install(r.of, r.in)
	}
	return true
}

// MostWanted is the largest number of runs that Wanted returns for a range. A caller that needs
// more must read them one by one.
const MostWanted = 256

// Wanted appends the first ordinals of absent runs to runs. It takes the runs with the first count
// entries in a range, or with all entries in it if count is negative. With reverse it takes the
// runs with the last count entries. It marks the range as used, so nobody may have pinned the
// stream.
func (s *Stream) Wanted(runs []int64, from, to StreamID, reverse bool, count int64) []int64 {
	if s.cold == nil || s.live == 0 || from.Compare(to) > 0 {
		return runs
	}
	i, step := s.runOf(from), 1
	if reverse {
		i, step = s.runOf(to), -1
	}
	for n := 0; i >= 0 && i < len(s.runs) && count != 0 && n < MostWanted; i += step {
		r := s.runs[i]
		if r.last.Compare(from) < 0 || r.low.Compare(to) > 0 {
			if n == 0 && (r.last.Compare(from) < 0) != reverse {
				continue // it is beside the range, which begins with the next one
			}
			break
		}
		runs = s.want(runs, r)
		n++
		if count > 0 && r.low.Compare(from) >= 0 && r.last.Compare(to) <= 0 {
			count = max(count-int64(r.live), 0)
		}
	}
	return runs
}

// About counts the entries in a range. It stops when it has counted most entries or more. An absent
// run counts as a whole.
func (s *Stream) About(from, to StreamID, most int) (n int) {
	if s.live == 0 || from.Compare(to) > 0 {
		return 0
	}
	for _, r := range s.runs[s.runOf(from):] {
		switch {
		case n >= most || r.low.Compare(to) > 0:
			return n
		case r.last.Compare(from) < 0:
		case r.absent() || r.low.Compare(from) >= 0 && r.last.Compare(to) <= 0:
			n += int(r.live)
		default:
			(*runEntries)(r).each(func(e StreamEntry) bool {
				if e.ID.Compare(from) >= 0 && e.ID.Compare(to) <= 0 {
					n++
				}
				return true
			})
		}
	}
	return n
}

// MayHave reports whether there is an entry with an id. It also returns true if the run that
// would have the entry is not in memory.
func (s *Stream) MayHave(id StreamID) bool {
	if s.live == 0 {
		return false
	}
	r := s.runs[s.runOf(id)]
	if !r.spans(id) {
		return false
	}
	if r.absent() {
		return true
	}
	_, _, ok := (*runEntries)(r).find(id)
	return ok
}

// want marks a run as used, or appends it to runs if it is absent.
func (s *Stream) want(runs []int64, r *streamRun) []int64 {
	if !r.absent() {
		r.used = true
	} else if n := len(runs); n == 0 || runs[n-1] != r.first {
		runs = append(runs, r.first)
	}
	return runs
}

// WantedID does what Wanted does, for the look-up or removal of an entry.
func (s *Stream) WantedID(runs []int64, id StreamID) []int64 {
	if s.cold == nil || s.live == 0 {
		return runs
	}
	i := s.runOf(id)
	if !s.runs[i].spans(id) {
		return runs
	}
	if id == s.tail && i > 0 && s.runs[i].live == 1 {
		runs = s.want(runs, s.runs[i-1]) // the last entry is there then
	}
	return s.want(runs, s.runs[i])
}

// WantedTrim does what Wanted does, for the removal of the first n entries.
func (s *Stream) WantedTrim(runs []int64, n int) []int64 {
	if s.cold == nil {
		return runs
	}
	for _, r := range s.runs {
		if n < int(r.live) {
			if n > 0 {
				runs = s.want(runs, r)
			}
			break
		}
		n -= int(r.live)
	}
	return runs
}

// WantedBefore does what Wanted does, for Before.
func (s *Stream) WantedBefore(runs []int64, id StreamID) []int64 {
	if s.cold == nil || s.live == 0 {
		return runs
	}
	if r := s.runs[s.runOf(id)]; r.low.Compare(id) < 0 && r.last.Compare(id) >= 0 {
		runs = s.want(runs, r)
	}
	return runs
}

func (c *coldRuns) memory() int {
	if c == nil {
		return 0
	}
	return int(unsafe.Sizeof(*c))
}

// clone returns a copy for a stream with the same elements in the data file.
func (c *coldRuns) clone() *coldRuns {
	if c == nil {
		return nil
	}
	return &coldRuns{source: c.source, absent: c.absent, live: c.live, bytes: c.bytes}
}
