package resp

import "bytes"

// SplitArgs splits a line as Redis does for inline commands and configuration
// files, and reports false for unbalanced quotes. An empty line gives no arguments.
// Arguments are separated by white space and may be quoted:
//
//	"…"   with \n \r \t \b \a \\ \" and \xHH; before another character a backslash
//	      is dropped
//	'…'   with \' only
//
// A quote may open inside an argument (a"b c" is ab c); white space or the end must follow the
// closing one. A NUL is an ordinary character, while Redis stops at it. SplitArgs does not change
// the line; the arguments are copies.
func SplitArgs(line []byte) ([][]byte, bool) {
	args, ok := split(bytes.Clone(line), nil)
	if !ok {
		return nil, false
	}
	return args, true
}

// split does what SplitArgs does, but decodes within the line's own bytes and appends to args. The
// value of an argument is never longer than its notation.
func split(line []byte, args [][]byte) ([][]byte, bool) {
	for i := 0; ; {
		for i < len(line) && blank(line[i]) {
			i++
		}
		if i == len(line) {
			return args, true
		}
		arg, next := token(line, i)
		if next < 0 {
			return args, false
		}
		args = append(args, arg)
		i = next
	}
}

// token decodes the argument that starts at i and returns the position after it, or -1 for
// unbalanced quotes.
func token(line []byte, i int) (arg []byte, next int) {
	begin, w := i, i
	for i < len(line) {
		switch c := line[i]; c {
		case ' ', '\n', '\r', '\t':
			return line[begin:w:w], i
		case '"', '\'':
			w, i = quoted(line, w, i+1, c)
			if i < 0 || i < len(line) && !blank(line[i]) {
				return nil, -1
			}
			return line[begin:w:w], i
		default:
			line[w] = c
			w++
			i++
		}
	}
	return line[begin:w:w], i
}

// quoted decodes from i up to the closing quote into line[w:], and returns the end of both. next is
// -1 if there is no closing quote.
func quoted(line []byte, w, i int, quote byte) (end, next int) {
	for i < len(line) {
		c := line[i]
		i++
		switch {
		case c == quote:
			return w, i
		case c == '\\' && quote == '\'' && i < len(line) && line[i] == '\'':
			c = '\''
			i++
		case c == '\\' && quote == '"' && i < len(line):
			c, i = escape(line, i)
		}
		line[w] = c
		w++
	}
	return w, -1
}

// escape decodes the escape sequence after a backslash in double quotes.
func escape(line []byte, i int) (c byte, next int) {
	if line[i] == 'x' && i+2 < len(line) {
		high, ok1 := unhex(line[i+1])
		low, ok2 := unhex(line[i+2])
		if ok1 && ok2 {
			return high<<4 | low, i + 3
		}
	}
	switch line[i] {
	case 'n':
		return '\n', i + 1
	case 'r':
		return '\r', i + 1
	case 't':
		return '\t', i + 1
	case 'b':
		return '\b', i + 1
	case 'a':
		return '\a', i + 1
	}
	return line[i], i + 1
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func blank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
