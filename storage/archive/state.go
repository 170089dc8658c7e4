package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"keyp/internal/vfs"
	"keyp/storage/snapshotfile"
)

// State says how far the log is archived.
type State struct {
	History string `json:"history"`
	// Through is the LSN up to which the log is archived, and Sum is the sum of all files up to
	// there.
	Through uint64 `json:"through"`
	Sum     string `json:"sum"`
	// Off is the end of the log when the server started without its archive; 0: it has not done
	// so since.
	Off uint64 `json:"off,omitempty"`
	// Directory identifies the directory of the data by something that its copies do not share;
	// empty: nothing does.
	Directory string `json:"directory,omitempty"`
	// Untimed are parts of the log without times that are not archived yet.
	Untimed []Span `json:"untimed,omitempty"`
}

// Span is a part of the log: the batches that end after From, up to To.
type Span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// maxSpans is the largest number of spans. If there are more, the first ones are joined to one.
const maxSpans = 32

// on returns the state with which archiving continues. The log has times after the position timed.
// Batches that were written before, without an archive, have none.
func (s State) on(history string, timed uint64) State {
	if s.History != history { // there is no archive of this log yet
		s = State{History: history}
		if timed > 0 {
			s.Untimed = []Span{{0, timed}}
		}
	}
	if s.Off != 0 && s.Off < timed {
		s.Untimed = append(s.Untimed, Span{s.Off, timed})
	}
	if n := len(s.Untimed) - maxSpans; n > 0 {
		s.Untimed[n].From = s.Untimed[0].From
		s.Untimed = s.Untimed[n:]
	}
	s.Off = 0
	return s
}

// Off notes in a directory of data that its log gets no times from the position end on. It returns
// false if the log with this history has no archive.
func Off(fsys vfs.FS, dir, history string, end uint64) (bool, error) {
	state, err := ReadState(fsys, dir)
	if err != nil || state.History != history {
		return false, err
	}
	if state.Off != 0 {
		return true, nil
	}
	state.Off = end
	return true, state.save(fsys, dir)
}

// moved reports whether the data directory is another one than the directory whose log was
// archived.
func (s *State) moved(o *Options) bool {
	return s.History == o.Log.History() && s.Directory != "" && o.Directory != "" &&
		s.Directory != o.Directory
}

func (s *State) save(fsys vfs.FS, dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return snapshotfile.Keep(fsys, filepath.Join(dir, stateName), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// ReadState reads the state of a directory of data. It is the zero State if nothing was archived.
func ReadState(fsys vfs.FS, dir string) (s State, err error) {
	b, err := readFile(fsys, filepath.Join(dir, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("archive: %s: %w", filepath.Join(dir, stateName), err)
	}
	return s, nil
}

func readFile(fsys vfs.FS, path string) (b []byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b = make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}
