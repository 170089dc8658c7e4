package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is how an option's words are read.
type kind uint8

const (
	kindInt    kind = iota // a number within min and max
	kindBytes              // a number with a unit: 100, 1k (1000), 1kb (1024), 1mb, 1gb
	kindBool               // yes or no
	kindEnum               // one of enum
	kindString             // any text
	kindWords              // several words
	kindOctal              // file permissions
	kindCustom             // by parse
)

// option declares an option.
type option struct {
	name  string
	alias string // an older name, shown by CONFIG GET too
	group string // heading in --help; groupCompat: listed there by name only
	help  string
	kind  kind
	def   string
	min   int64
	max   int64 // 0: no bound
	enum  []string
	fixed bool // CONFIG SET may not change it
	// secret: its value is a password, which no log or list of commands shows.
	secret bool
	// valid returns an error for a text that is not allowed. If valid is nil, all texts are
	// allowed.
	valid func(text string) error
	// only is the one value that is supported, and why is the reason.
	only string
	why  string
	// tolerate: another value is accepted too, in files and by CONFIG SET, with a warning.
	tolerate bool
	// parse reads the words of a kindCustom option. old is the value that they add to.
	parse func(old value, words []string) (value, error)
	// lines returns the lines of a kindCustom option in the file, without its name. If lines is
	// nil, the only line is the option's text.
	lines func(v value) []string
	// accumulate: each line of the file adds to the ones before it.
	accumulate bool
}

// longestText is how many bytes are read for an option at a time. No meaningful path, password or
// list is longer.
const longestText = 64 << 10

// value is an option's present value.
type value struct {
	text  string // as CONFIG GET shows it
	num   int64  // of numbers; 1 for yes; the index of an enum; the mask of events
	words []string
	limit OutputLimits
}

var (
	errNumber = errors.New("argument couldn't be parsed into an integer")
	errBytes  = errors.New("argument must be a memory value")
	errBool   = errors.New("argument must be 'yes' or 'no'")
	errWords  = errors.New("wrong number of arguments")
	errLong   = fmt.Errorf("argument must be at most %d bytes", longestText)
)

func errOneOf(words []string) error {
	return fmt.Errorf("argument(s) must be one of the following: %s", strings.Join(words, ", "))
}

// read turns the words given for an option into its value. old is the value they
// replace, which matters only to options that accumulate.
func (o *option) read(old value, words []string) (value, error) {
	long := 0
	for _, word := range words {
		if long += len(word); long > longestText {
			return value{}, errLong
		}
	}
	if o.kind == kindCustom {
		return o.parse(old, words)
	}
	if o.kind == kindWords {
		// Words may come as one argument (CONFIG SET bind "127.0.0.1 ::1") or as several.
		list := strings.Fields(strings.Join(words, " "))
		return o.check(value{text: strings.Join(list, " "), words: list})
	}
	if len(words) != 1 {
		return value{}, errWords
	}
	v := value{text: words[0]}
	switch o.kind {
	case kindInt:
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			return value{}, errNumber
		}
		v = value{text: strconv.FormatInt(n, 10), num: n}
	case kindBytes:
		n, ok := parseBytes(v.text)
		if !ok {
			return value{}, errBytes
		}
		v = value{text: strconv.FormatInt(n, 10), num: n}
	case kindOctal:
		n, err := strconv.ParseUint(v.text, 8, 32)
		if err != nil || n > 0o777 {
			return value{}, errors.New("argument must be file permissions in octal, at most 777")
		}
		v.num = int64(n)
	case kindBool:
		v.text = strings.ToLower(v.text)
		if v.text != "yes" && v.text != "no" {
			return value{}, errBool
		}
		if v.text == "yes" {
			v.num = 1
		}
	case kindEnum:
		v.text = strings.ToLower(v.text)
		v.num = int64(slices.Index(o.enum, v.text))
		if v.num < 0 {
			return value{}, errOneOf(o.enum)
		}
	}
	return o.check(v)
}

// top returns the largest value that a number may have.
func (o *option) top() int64 {
	if o.max == 0 {
		return math.MaxInt64
	}
	return o.max
}

// check returns an error for a value outside the bounds, or one that Keyp does not support.
func (o *option) check(v value) (value, error) {
	if o.kind == kindInt || o.kind == kindBytes {
		if v.num < o.min || v.num > o.top() {
			return value{}, fmt.Errorf("argument must be between %d and %d inclusive", o.min,
				o.top())
		}
	}
	if o.valid != nil {
		if err := o.valid(v.text); err != nil {
			return value{}, err
		}
	}
	if o.why != "" && v.text != o.only {
		return value{}, &unsupportedError{o}
	}
	return v, nil
}

// validShards refuses a number of shards that is no power of two.
func validShards(text string) error {
	if n, err := strconv.ParseUint(text, 10, 64); err != nil || n&(n-1) != 0 {
		return errors.New("argument must be a power of two")
	}
	return nil
}

// ignores reports whether a value that read refuses with err is accepted without effect.
func (o *option) ignores(err error) bool {
	var refused *unsupportedError
	return o.tolerate && errors.As(err, &refused)
}

// remark returns the warning for a value that is accepted without effect.
func (o *option) remark(words []string) string {
	return fmt.Sprintf("%s %s has no effect: %s", o.name, strings.Join(words, " "), o.why)
}

// unsupportedError is a value that Redis knows and Keyp refuses.
type unsupportedError struct{ o *option }

func (e *unsupportedError) Error() string { return e.o.why }

// parseBytes reads a size with Redis's units, in upper or lower case.
func parseBytes(s string) (int64, bool) {
	digits := strings.TrimRight(strings.ToLower(s), "bkmg")
	unit, ok := map[string]int64{
		"": 1, "b": 1,
		"k": 1e3, "kb": 1 << 10,
		"m": 1e6, "mb": 1 << 20,
		"g": 1e9, "gb": 1 << 30,
	}[strings.ToLower(s)[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n > math.MaxInt64/uint64(unit) {
		return 0, false
	}
	return int64(n) * unit, true
}

// formatBytes returns the shortest exact text of a size, for the file.
func formatBytes(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "gb"}, {1 << 20, "mb"}, {1 << 10, "kb"}} {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
