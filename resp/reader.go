package resp

import (
	"bytes"
	"math"
	"strconv"
)

// Limits bound the size of one command. A limit is applied when a length is read. So a change
// between two calls of Next (AUTH, CONFIG SET) applies to the lengths that are read after it.
type Limits struct {
	MaxBulk   int64 // bytes of one argument (proto-max-bulk-len)
	MaxInline int   // bytes of an inline command or a length line, without its end
	MaxArgs   int   // arguments of a multibulk command
	// Unauthenticated limits a client that has not authenticated yet to 10 arguments of 16 KB
	// each.
	Unauthenticated bool
}

// DefaultLimits are those of Redis since 7.0: 512 MB, 64 KB, and as many arguments
// as the query buffer may hold.
var DefaultLimits = Limits{MaxBulk: 512 << 20, MaxInline: 64 << 10, MaxArgs: 1<<31 - 1}

const (
	unauthenticatedArgs = 10
	unauthenticatedBulk = 16 << 10
)

// ProtocolError ends a connection, because it is unknown where the next command begins. The owner
// sends "ERR " and Error() to the client before the close.
type ProtocolError struct {
	Text string // without "Protocol error: "
}

func (e *ProtocolError) Error() string { return "Protocol error: " + e.Text }

// Reader turns a connection's bytes into commands. The zero value is ready; it is
// for one goroutine at a time. The owner's loop:
//
//	n := read(fd, r.Space(16<<10))
//	r.Advance(n)
//	for {
//		args, err := r.Next(&limits)
//		if args == nil || err != nil { break }
//		run(args)
//	}
//
// The buffer has four parts. The command that begins at start is parsed up to pos, where the next
// call continues:
//
//	0          start          pos        end        len
//	| consumed | command so far | received | writable |
//
// The total work is linear in the bytes received, however they are cut. A byte of a line is
// searched once (scan records how far), and a bulk is skipped by its length. The buffer moves
// its contents only after as much was consumed or received.
//
// Reader does not bound the sum of a command's arguments; the owner compares
// Buffered with its query buffer limit.
type Reader struct {
	buf   []byte
	start int // first byte of the command in progress
	pos   int // next byte to parse
	scan  int // the present line has no end before here
	end   int // end of what was received

	left  int    // arguments still to come, 0 between commands
	need  int    // bytes of the present argument with its CRLF, 0 before its length is known
	spans []span // arguments seen so far
	args  [][]byte
	err   *ProtocolError

	length int // bytes of the command that Next gave last

	peak int // most bytes held since the buffer was last emptied or moved
	calm int // times in a row it was emptied and had been far too large

	examined, moved int64 // bytes searched and bytes copied: the cost, for tests
}

// span is an argument's place, relative to the command's start so that it survives
// a move of the buffer.
type span struct{ at, n int }

// Next returns the next complete command, at least one argument, or nil when more
// input is needed. Empty commands (a blank line, *0, *-1) are skipped. An error is a
// *ProtocolError and is final: every later call returns it again.
//
// The arguments are slices of the buffer. The caller may change their bytes, but cannot append to
// them in place, because their capacity is their length. They are valid until the next call of
// Next, Space, GoOnIn or Release. A nil l means DefaultLimits.
func (r *Reader) Next(l *Limits) ([][]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	if l == nil {
		l = &DefaultLimits
	}
	if cap(r.args) > keptArgs && r.left == 0 {
		r.args, r.spans = nil, nil
	}
	for r.left == 0 {
		if r.pos == r.end {
			return nil, nil
		}
		if r.buf[r.pos] != '*' {
			args, ready := r.inline(l)
			if len(args) > 0 {
				return args, nil
			}
			if !ready {
				return nil, r.failure()
			}
			continue
		}
		if !r.multibulk(l) {
			return nil, r.failure()
		}
	}
	for r.left > 0 {
		if !r.argument(l) {
			return nil, r.failure()
		}
	}
	return r.complete(), nil
}

// failure returns r.err as an error; a nil interface if r.err is nil.
func (r *Reader) failure() error {
	if r.err != nil {
		return r.err
	}
	return nil
}

// fail sets the error that ends the connection's input.
func (r *Reader) fail(text string) { r.err = &ProtocolError{Text: text} }

// multibulk reads the header *n and reports whether it was there and right. With n <= 0 there is no
// command, and the next one begins after it.
func (r *Reader) multibulk(l *Limits) bool {
	n, ok := r.canonical()
	if !ok {
		line, ready := r.line('\r', l.MaxInline, "too big mbulk count string")
		if !ready {
			return false
		}
		if n, ok = parseLength(line[1:]); !ok {
			n = int64(l.MaxArgs) + 1
		}
	}
	switch {
	case n > int64(l.MaxArgs):
		r.fail("invalid multibulk length")
		return false
	case n > unauthenticatedArgs && l.Unauthenticated:
		r.fail("unauthenticated multibulk length")
		return false
	case n <= 0:
		r.start = r.pos
		return true
	}
	r.left = int(n)
	r.spans = r.spans[:0]
	return true
}

// argument reads the rest of the present argument and reports whether all of it was there. Like
// Redis, it takes the two bytes after it for CRLF without a check.
func (r *Reader) argument(l *Limits) bool {
	if r.need == 0 && !r.bulkLength(l) {
		return false
	}
	if r.end-r.pos < r.need {
		return false
	}
	r.spans = append(r.spans, span{r.pos - r.start, r.need - 2})
	r.pos += r.need
	r.need = 0
	r.left--
	return true
}

// bulkLength reads the header $n and reports whether it was there and right.
func (r *Reader) bulkLength(l *Limits) bool {
	if r.pos == r.end {
		return false
	}
	kind := r.buf[r.pos]
	var n int64
	ok := false
	if kind == '$' {
		n, ok = r.canonical()
	}
	if !ok {
		line, ready := r.line('\r', l.MaxInline, "too big bulk count string")
		if !ready {
			return false
		}
		if kind != '$' {
			r.fail("expected '$', got '" + string([]byte{kind}) + "'")
			return false
		}
		if n, ok = parseLength(line[1:]); !ok {
			n = -1
		}
	}
	switch {
	case n < 0 || n > min(l.MaxBulk, math.MaxInt-2):
		r.fail("invalid bulk length")
		return false
	case n > unauthenticatedBulk && l.Unauthenticated:
		r.fail("unauthenticated bulk length")
		return false
	}
	r.need = int(n) + 2
	return true
}

// complete returns the arguments of the command that ends at pos.
func (r *Reader) complete() [][]byte {
	args := r.args[:0]
	command := r.buf[r.start:r.pos]
	for _, s := range r.spans {
		args = append(args, command[s.at:s.at+s.n:s.at+s.n])
	}
	r.args = args
	r.length = r.pos - r.start
	r.start = r.pos
	return args
}

// Length returns the length in bytes of the command that Next returned last.
func (r *Reader) Length() int { return r.length }

// inline reads a command that is a line. ready is true if the whole line was there. A blank line
// has no arguments.
func (r *Reader) inline(l *Limits) (args [][]byte, ready bool) {
	line, ready := r.line('\n', l.MaxInline, "too big inline request")
	if !ready {
		return nil, false
	}
	r.length = r.pos - r.start
	r.start = r.pos
	args, ok := split(bytes.TrimSuffix(line, []byte{'\r'}), r.args[:0])
	r.args = args
	if !ok {
		r.fail("unbalanced quotes in request")
		return nil, false
	}
	return args, true
}

// canonicalDigits is the most digits that canonical looks at.
const canonicalDigits = 10

// canonical reads a length line in the form that every client uses: the type, a decimal number
// without sign or leading zero, two bytes of line end. The method line reads all others.
func (r *Reader) canonical() (n int64, ok bool) {
	n, size, ok := canonicalLength(r.buf[r.pos+1 : r.end])
	r.examined += int64(size)
	if ok {
		r.pos += size + 2
	}
	return n, ok
}

// canonicalLength parses a length line after its type. size is how many bytes it read: if ok, all
// but the last byte of the line's end.
func canonicalLength(b []byte) (n int64, size int, ok bool) {
	b = b[:min(len(b), canonicalDigits+2)]
	i := 0
	for i < len(b) && b[i]-'0' <= 9 {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	return n, i + 1, i > 0 && i+1 < len(b) && b[i] == '\r' && (i == 1 || b[0] != '0')
}

// aheadArgs is how many arguments Ahead steps over in search of the next command.
const aheadArgs = 8

// Ahead appends one argument of each of the following commands, most likely its key, while names
// has capacity. place returns the argument's position, from 1 on, for a command's name. The result
// is a hint. Ahead consumes nothing, and stops at a command that is incomplete, unusual or long.
// The slices are valid as long as those that Next returns.
func (r *Reader) Ahead(names [][]byte, place func(name []byte) int) [][]byte {
	if r.left > 0 {
		return names
	}
	b := r.buf[r.pos:r.end]
	for len(names) < cap(names) {
		args, rest, ok := lengthLine(b, '*')
		if !ok {
			return names
		}
		at := 1
		for i := range int(min(args, aheadArgs)) {
			n, from, ok := lengthLine(rest, '$')
			if !ok || n+2 > int64(len(from)) {
				return names
			}
			switch i {
			case 0:
				at = place(from[:n:n])
			case at:
				names = append(names, from[:n:n])
			}
			rest = from[n+2:]
		}
		if args > aheadArgs {
			return names
		}
		b = rest
	}
	return names
}

// lengthLine parses a canonical length line of the given type at the start of b. rest is the rest
// of b.
func lengthLine(b []byte, kind byte) (n int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != kind {
		return 0, b, false
	}
	n, size, ok := canonicalLength(b[1:])
	if !ok {
		return 0, b, false
	}
	return n, b[size+2:], true
}

// line returns the line at pos without its end and steps over it. The end is a '\n', or a '\r' and
// the byte after it. It returns false if the end is not there yet, or fails with tooBig if the end
// is not within limit bytes. How the input was cut makes no difference.
func (r *Reader) line(last byte, limit int, tooBig string) (line []byte, ready bool) {
	from := max(r.scan, r.pos)
	to := max(from, min(r.end, r.pos+limit+1))
	i := bytes.IndexByte(r.buf[from:to], last)
	if i < 0 {
		r.examined += int64(to - from)
		r.scan = to
		if r.end-r.pos > limit {
			r.fail(tooBig)
		}
		return nil, false
	}
	r.examined += int64(i + 1)
	at := from + i
	r.scan = at
	next := at + 1
	if last == '\r' {
		next++
	}
	if next > r.end {
		return nil, false
	}
	line = r.buf[r.pos:at]
	r.pos = next
	return line, true
}

// parseLength reads a decimal int64 as strictly as Redis does: no blanks, no plus,
// no leading zeros, no -0.
func parseLength(b []byte) (int64, bool) {
	digits := bytes.TrimPrefix(b, []byte{'-'})
	if len(digits) == 0 || len(digits) > 19 || digits[0] < '0' || digits[0] > '9' {
		return 0, false
	}
	if digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
