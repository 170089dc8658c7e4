package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"keyp/resp"
)

// maxMistakes bounds how many mistakes of a file are reported.
const maxMistakes = 100

// maxInclude bounds how deep include directives nest, which also ends cycles.
const maxInclude = 16

// loadFile reads a file, or standard input, in redis.conf's syntax. Each line has a directive with
// its words, quoted as for resp.SplitArgs. A line that begins with # is a comment.
func (c *Config) loadFile(name string, stdin io.Reader) error {
	read := func() ([]byte, error) { return readFile(name) }
	if name == "-" {
		read = func() ([]byte, error) { return readBounded("standard input", stdin) }
	}
	data, err := read()
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "./") {
		return errors.New(unknownWord(name))
	}
	if err != nil {
		return fmt.Errorf("can't read the configuration: %w", err)
	}
	shown, dir := name, filepath.Dir(name)
	if name == "-" {
		shown, dir = "standard input", "."
	} else if c.path, err = filepath.Abs(name); err != nil {
		return fmt.Errorf("can't read the configuration: %w", err)
	}
	return c.parse(data, shown, dir, "file", 0)
}

// parse applies a file's lines and continues after those that are wrong. It looks for relative
// includes in dir.
func (c *Config) parse(data []byte, shown, dir, source string, depth int) error {
	switch {
	case bytes.HasPrefix(data, []byte("REDIS0")):
		return fmt.Errorf("%s is a dump of Redis and no configuration; keyp import reads it", shown)
	case bytes.IndexByte(data, 0) >= 0:
		return fmt.Errorf("%s is no configuration: it is not a text", shown)
	}
	var all Mistakes
	for i, line := range splitLines(data) {
		if len(all) >= maxMistakes {
			all.Add(&lineError{shown, i + 1,
				errors.New("the rest was not read: too much is wrong")})
			break
		}
		d, err := parseLine(line)
		if err == nil && d.name == "include" {
			err = c.include(d.words, dir, source, depth)
			if inner := (Mistakes)(nil); errors.As(err, &inner) {
				all.Add(err)
				continue
			}
		} else if err == nil && d.name != "" {
			if d.name == "user" && depth > 0 {
				c.usersAt = "in " + shown
			}
			c.at = fmt.Sprintf("%s:%d: %s", shown, i+1, named(d.name))
			err = c.put(source, d.name, d.words)
			if err != nil {
				err = fmt.Errorf("%s: %w%s", named(d.name), err, hint(d.name, err))
			}
		}
		if err != nil {
			all.Add(&lineError{shown, i + 1, err})
		}
	}
	return all.OrNil()
}

// lineError is a mistake with its file and line.
type lineError struct {
	file string
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.file, e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// include reads the files that match the pattern. A pattern with wildcards may match none, as for
// an empty conf.d. Without wildcards the file must exist.
func (c *Config) include(patterns []string, dir, source string, depth int) error {
	if len(patterns) != 1 {
		return fmt.Errorf("include: %w", errWords)
	}
	if depth >= maxInclude {
		return errors.New("include: too deep (a file that includes itself?)")
	}
	pattern := patterns[0]
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(dir, pattern)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("include %s: %w", pattern, err)
	}
	if len(files) == 0 && !strings.ContainsAny(pattern, "*?[") {
		files = []string{pattern}
	}
	var all Mistakes
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			return fmt.Errorf("include: %w", err)
		}
		if path, err := filepath.Abs(file); err == nil {
			c.included = append(c.included, path)
		}
		all.Add(c.parse(data, file, filepath.Dir(file), source, depth+1))
	}
	return all.OrNil()
}

// splitLines splits data at LF or CR LF, and drops a byte order mark. A line end at the end of data
// begins no further line.
func splitLines(data []byte) [][]byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	lines := bytes.Split(data, []byte("\n"))
	for i := range lines {
		lines[i] = bytes.TrimSuffix(lines[i], []byte("\r"))
	}
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}

// parseLine returns a line's directive; the name is empty for comments and empty lines.
func parseLine(line []byte) (directive, error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' {
		return directive{}, nil
	}
	args, ok := resp.SplitArgs(line)
	if !ok {
		return directive{}, errors.New("unbalanced quotes")
	}
	if len(args) == 0 {
		return directive{}, nil
	}
	d := directive{name: strings.ToLower(string(args[0]))}
	for _, arg := range args[1:] {
		d.words = append(d.words, string(arg))
	}
	return d, nil
}

// named returns a word that is in the place of a name, shortened so that it may be printed. It cuts
// the word at the first character that no name has, since a password may follow, as in
// requirepass=secret.
func named(word string) string {
	word = withoutPassword(word)
	end := strings.IndexFunc(word, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	if end < 0 {
		return word
	}
	return word[:end] + "…"
}

// withoutPassword cuts a word after the name of a password's option, as in requirepasssecret.
func withoutPassword(word string) string {
	for _, name := range secretNames(slices.Concat(options, compat)) {
		if before, behind, ok := strings.Cut(word, name); ok && behind != "" {
			return before + name + "…"
		}
	}
	return word
}
