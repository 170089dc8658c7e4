package archive

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"keyp/internal/vfs"
	"keyp/storage/backupfile"
)

// span describes a file of an archive: the numbers of its first batch and of the batch after its
// last one, and how many bytes are missing at its end.
type span struct{ from, until, cut int }

// archiveOf makes a directory with files of batches. A file that begins where the one before it
// ends continues that file's checksum. The first file continues from previous.
func archiveOf(t *testing.T, fs vfs.FS, dir string, batches []string, previous string,
	spans ...span) Files {
	t.Helper()
	if err := fs.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	end := -1
	for _, s := range spans {
		h := Header{Format: Format, History: "h", From: 4096}
		for _, b := range batches[:s.from] {
			h.From += uint64(len(b)) + 8
		}
		if s.from == end || end == -1 {
			h.Previous = previous
		}
		file := made(t, h, batches[s.from:s.until]...)
		_, r, err := readAll(file)
		if err != nil {
			t.Fatal(err)
		}
		previous, end = r.Sum(), s.until
		write(t, fs, filepath.Join(dir, r.name()), file[:len(file)-s.cut])
	}
	return Dir(fs, dir)
}

// source describes an archive: what archiveOf needs to make it.
type source struct {
	batches  []string
	previous string
	spans    []span
}

// archivesOf makes archives in the directories /a, /b and so on.
func archivesOf(t *testing.T, fs vfs.FS, list []source) (made []Files) {
	t.Helper()
	for i, a := range list {
		made = append(made, archiveOf(t, fs, filepath.Join("/", string(rune('a'+i))), a.batches,
			a.previous, a.spans...))
	}
	return made
}

func write(t *testing.T, fs vfs.FS, path string, content []byte) {
	t.Helper()
	f, err := fs.Create(path)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sumOfAll returns the sum of a file of batches.
func sumOfAll(t *testing.T, batches []string) string {
	t.Helper()
	_, r, err := readAll(made(t, Header{Format: Format, History: "h", From: 4096}, batches...))
	if err != nil {
		t.Fatal(err)
	}
	return r.Sum()
}

// batchesOf returns the batches after a position, and the error that ends them.
func batchesOf(j *Joined, position uint64) (list []string, err error) {
	for {
		lsn, pieces, err := j.NextPieces()
		if err != nil {
			return list, err
		}
		if lsn > position {
			list = append(list, string(joined(pieces)))
		}
	}
}

// TestJoin: several archives of one log together provide at each position what any of them has,
// wherever their files begin and end. Positions that no archive has are a hole. An archive of a
// different copy of the log is refused.
func TestJoin(t *testing.T) {
	log := []string{"one", "two", "three", "four", "", "six", "seven", "eight"}
	fork := slices.Clone(log)
	fork[3] = "FOUR"
	longer := slices.Clone(log)
	longer[3] = "another four"
	of := func(spans ...span) source { return source{log, "", spans} }
	for what, tt := range map[string]struct {
		archives []source
		count    int // of the batches that are read
		words    string
	}{
		"one": {[]source{of(span{0, 3, 0}, span{3, 8, 0})}, 8, ""},
		"one with a hole": {[]source{of(span{0, 3, 0}, span{4, 8, 0})}, 3,
			"begins at LSN"},
		"it moved to another directory": {[]source{of(span{0, 3, 0}),
			{log, sumOfAll(t, log[:3]), []span{{3, 8, 0}}}}, 8, ""},
		"nothing proves that it moved": {[]source{of(span{0, 3, 0}), of(span{3, 8, 0})}, 3,
			"nothing proves"},
		"another one goes on": {[]source{of(span{0, 3, 0}),
			of(span{0, 1, 0}, span{1, 5, 0}, span{5, 8, 0})}, 8, ""},
		"the second one begins it": {[]source{of(span{3, 8, 0}), of(span{0, 4, 0})}, 8, ""},
		"in turn": {[]source{of(span{0, 2, 0}, span{4, 6, 0}), of(span{1, 5, 0}),
			of(span{5, 8, 0})}, 8, ""},
		"a file is cut": {[]source{of(span{0, 2, 0}, span{2, 6, 1}, span{6, 8, 0}),
			of(span{0, 7, 0})}, 8, ""},
		// The cut file may have had more batches.
		"the last file is cut": {[]source{of(span{0, 6, 1}), of(span{0, 8, 0})},
			8, "ends too early"},
		"both end": {[]source{of(span{0, 6, 0}), of(span{0, 4, 0})}, 6, ""},
		"the same hole": {[]source{of(span{0, 3, 0}, span{5, 8, 0}),
			of(span{0, 2, 0}, span{6, 8, 0})}, 3, "begins at LSN"},
		"a fork of the same length": {[]source{of(span{0, 4, 0}), {fork, "", []span{{0, 8, 0}}}},
			3, "two copies"},
		"a fork of another length": {[]source{of(span{0, 4, 0}), {longer, "", []span{{0, 8, 0}}}},
			3, "two copies"},
		"a fork after a hole": {[]source{of(span{0, 4, 0}), {fork, "", []span{{3, 8, 0}}}}, 4,
			"another copy"},
		"a fork beside the log": {[]source{of(span{0, 4, 0}), {fork, "", []span{{0, 8, 0}}},
			of(span{0, 8, 0})}, 3, "two copies"},
	} {
		for _, reversed := range []bool{false, true} {
			fs := vfs.NewMem()
			from := archivesOf(t, fs, tt.archives)
			// This member has archived nothing yet.
			from = append(from, archiveOf(t, fs, "/empty", nil, ""))
			if reversed {
				slices.Reverse(from)
			}
			j, err := Join(from, "h", 4096, nil)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			got, err := batchesOf(j, 4096)
			if !slices.Equal(got, log[:tt.count]) || (tt.words == "") != (err == io.EOF) ||
				!strings.Contains(err.Error(), tt.words) {
				t.Errorf("%s, reversed %t: %q are read, and then %v", what, reversed, got, err)
			}
			if tt.words != "" && !errors.Is(err, ErrHole) && !errors.Is(err, backupfile.ErrBad) {
				t.Errorf("%s: %v", what, err)
			}
			if err := j.Close(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if _, err := Join([]Files{archiveOf(t, vfs.NewMem(), "/a", log, "", span{0, 8, 0}),
		archiveOf(t, vfs.NewMem(), "/b", log, "", span{0, 8, 0})}, "other", 4096,
		nil); !errors.Is(err, ErrHole) {
		t.Errorf("archives of another log: %v", err)
	}
}

// TestJoinAtBackup: a backup ends at a position, and archives of its log continue it. The order of
// the archives does not matter. An archive that has another batch at the position is refused. So
// are archives that have different batches later.
func TestJoinAtBackup(t *testing.T) {
	log := []string{"one", "two", "three", "four", "five", "six"}
	fork, longer := slices.Clone(log), slices.Clone(log)
	fork[2], longer[2] = "THREE", "another three"
	later := slices.Clone(log)
	later[4] = "FIVE"
	position := uint64(4096)
	for _, b := range log[:3] {
		position += uint64(len(b)) + 8
	}
	of := func(spans ...span) source { return source{log, "", spans} }
	for what, tt := range map[string]struct {
		archives []source
		count    int // of the batches after the position that are read
		words    string
		unproven bool
	}{
		"one ends before it":  {[]source{of(span{0, 2, 0}), of(span{1, 6, 0})}, 3, "", false},
		"one ends there":      {[]source{of(span{0, 3, 0}), of(span{1, 6, 0})}, 3, "", false},
		"one begins there":    {[]source{of(span{3, 6, 0}), of(span{0, 6, 0})}, 3, "", false},
		"all end before it":   {[]source{of(span{0, 2, 0}), of(span{0, 1, 0})}, 0, "", false},
		"one begins after it": {[]source{of(span{4, 6, 0}), of(span{2, 5, 0})}, 3, "", false},
		"one has a hole there": {[]source{of(span{0, 2, 0}, span{4, 6, 0}), of(span{2, 6, 0})},
			3, "",
			false},
		"all end before it, and one has a hole": {[]source{of(span{0, 1, 0}),
			of(span{0, 1, 0}, span{1, 2, 0})}, 0, "", false},
		"the only one begins there": {[]source{of(span{3, 6, 0})}, 3, "", true},
		"a hole ends there":         {[]source{of(span{0, 2, 0}, span{3, 6, 0})}, 3, "", true},
		"a damaged file ends there": {[]source{of(span{0, 3, 50}, span{3, 6, 0})}, 3, "", true},
		"one ends before the hole": {[]source{of(span{0, 2, 0}), of(span{0, 1, 0}, span{3, 6, 0})},
			3,
			"", true},
		"one ends there and one begins": {[]source{of(span{0, 3, 0}), of(span{3, 6, 0})},
			3, "", true},
		"it moved there": {[]source{of(span{0, 3, 0}), {log, sumOfAll(t, log[:3]),
			[]span{{3, 6, 0}}}}, 3, "", false},
		"a damaged one begins there": {[]source{
			of(span{3, 4, 60}, span{4, 6, 0}), of(span{3, 6, 0})},
			3, "", true},
		"a fork": {[]source{{fork, "", []span{{0, 6, 0}}}}, 0, "another copy", false},
		"a fork of another length": {[]source{{longer, "", []span{{0, 6, 0}}}}, 0,
			"another copy", false},
		"a fork beside it": {[]source{{fork, "", []span{{0, 6, 0}}}, of(span{0, 6, 0})}, 0,
			"another copy", false},
		"a longer fork beside it": {[]source{{longer, "", []span{{0, 6, 0}}}, of(span{2, 6, 0})}, 0,
			"another copy", false},
		"a fork, and nothing proves": {[]source{{fork, "", []span{{0, 6, 0}}}, of(span{3, 6, 0})},
			0,
			"another copy", false},
		"they fork later": {[]source{of(span{0, 6, 0}), {later, "", []span{{0, 6, 0}}}}, 1,
			"two copies", false},
		"one that begins there forks": {[]source{of(span{0, 6, 0}), {later, "", []span{{3, 6, 0}}}},
			1,
			"two copies", false},
		"a hole": {[]source{of(span{0, 2, 0}, span{4, 6, 0}), of(span{0, 1, 0})}, 0,
			"begins at LSN", false},
		"two begin later": {[]source{of(span{4, 6, 0}), of(span{5, 6, 0})},
			0, "begins at LSN", false},
	} {
		for _, reversed := range []bool{false, true} {
			from := archivesOf(t, vfs.NewMem(), tt.archives)
			if reversed {
				slices.Reverse(from)
			}
			sum := SumOf([][]byte{[]byte(log[2])})
			j, err := Join(from, "h", position, &sum)
			var got []string
			if err == nil {
				got, err = batchesOf(j, position)
			}
			if !slices.Equal(got, log[3:3+tt.count]) || (tt.words == "") != (err == io.EOF) ||
				!strings.Contains(err.Error(), tt.words) {
				t.Errorf("%s, reversed %t: %q are read, and then %v", what, reversed, got, err)
			}
			if j != nil {
				if j.Unproven() != (tt.unproven && tt.count > 0) {
					t.Errorf("%s, reversed %t: unproven is %t", what, reversed, j.Unproven())
				}
				if err := j.Close(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
}
