// Package wire is the small part of RESP2 that a load generator needs: encode
// commands into a buffer, scan scalar replies without copying, and ask a server
// single questions over a blocking connection.
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// ErrProtocol is returned for bytes that are no scalar RESP2 reply.
var ErrProtocol = errors.New("not a RESP2 reply this tool expects")

// maxBulk bounds a reply, so that a broken length can't make a reader wait for
// (or make room for) gigabytes.
const maxBulk = 512 << 20

// Kinds of reply, by their first byte.
const (
	Simple  = '+'
	Error   = '-'
	Integer = ':'
	Bulk    = '$'
)

// Reply is one scalar reply. Text points into the scanned buffer and is valid
// until that changes; it is nil for integers and null bulks.
type Reply struct {
	Kind byte
	Null bool
	Int  int64
	Text []byte
}

// String shows the reply as an error message should: its kind's sign and text.
func (r Reply) String() string {
	const shown = 80
	switch {
	case r.Kind == Integer:
		return fmt.Sprintf(":%d", r.Int)
	case r.Null:
		return "$-1 (null)"
	case len(r.Text) > shown:
		return fmt.Sprintf("%c%q… (%d bytes)", r.Kind, r.Text[:shown], len(r.Text))
	case r.Kind == Bulk:
		return fmt.Sprintf("$%q", r.Text)
	}
	return fmt.Sprintf("%c%s", r.Kind, r.Text)
}

// ScanArray reads an array of scalars from the start of b, appends them to parts, and returns
// its length in bytes as Scan does.
func ScanArray(parts []Reply, b []byte) ([]Reply, int, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return parts, 0, nil
	}
	count, ok := parseInt(bytes.TrimSuffix(b[1:end], []byte("\r")))
	if b[0] != '*' || !ok || count < 0 {
		return parts, 0, fmt.Errorf("%w: %q", ErrProtocol, b[:min(end+1, 80)])
	}
	at := end + 1
	for range count {
		part, n, err := Scan(b[at:])
		if n == 0 || err != nil {
			return parts, 0, err
		}
		parts = append(parts, part)
		at += n
	}
	return parts, at, nil
}

// Scan reads one reply from the start of b and returns its length in bytes, 0
// when b holds only a part of it. Aggregates are refused with ErrProtocol: no
// command that is sent here answers with one.
func Scan(b []byte) (Reply, int, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return Reply{}, 0, nil
	}
	if end < 2 || b[end-1] != '\r' {
		return Reply{}, 0, fmt.Errorf("%w: %q", ErrProtocol, b[:min(end+1, 80)])
	}
	kind, line := b[0], b[1:end-1]
	switch kind {
	case Simple, Error:
		return Reply{Kind: kind, Text: line}, end + 1, nil
	case Integer:
		n, ok := parseInt(line)
		if ok {
			return Reply{Kind: kind, Int: n}, end + 1, nil
		}
	case Bulk:
		n, ok := parseInt(line)
		if ok && n == -1 {
			return Reply{Kind: kind, Null: true}, end + 1, nil
		}
		if !ok || n < 0 || n > maxBulk {
			break
		}
		total := end + 1 + int(n) + 2
		if len(b) < total {
			return Reply{}, 0, nil
		}
		if b[total-2] != '\r' || b[total-1] != '\n' {
			break
		}
		return Reply{Kind: kind, Text: b[end+1 : total-2]}, total, nil
	}
	return Reply{}, 0, fmt.Errorf("%w: %q", ErrProtocol, b[:min(end+1, 80)])
}

// parseInt is strconv.ParseInt for short decimal numbers in a byte slice,
// without the string it would need.
func parseInt(b []byte) (int64, bool) {
	if len(b) > 18 {
		n, err := strconv.ParseInt(string(b), 10, 64)
		return n, err == nil
	}
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// AppendArray appends the head of a command of n arguments, its name included.
func AppendArray(b []byte, n int) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

// AppendArg appends one argument.
func AppendArg[T string | []byte](b []byte, arg T) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(arg)), 10)
	b = append(b, '\r', '\n')
	b = append(b, arg...)
	return append(b, '\r', '\n')
}

// AppendInt appends one argument, a decimal number.
func AppendInt(b []byte, n int64) []byte {
	var digits [20]byte
	return AppendArg(b, strconv.AppendInt(digits[:0], n, 10))
}

// AppendCommand appends a whole command.
func AppendCommand(b []byte, args ...string) []byte {
	b = AppendArray(b, len(args))
	for _, arg := range args {
		b = AppendArg(b, arg)
	}
	return b
}
