package commands

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// Cursor reads arguments one after another. After the first failure all reads return zero values,
// and Err returns that failure.
type Cursor struct {
	args [][]byte
	err  error
}

// More reports whether an argument is left and nothing has failed.
func (a *Cursor) More() bool { return a.err == nil && len(a.args) > 0 }

// Len returns the number of arguments that are left.
func (a *Cursor) Len() int { return len(a.args) }

// Err returns the first failure.
func (a *Cursor) Err() error { return a.err }

// Fail records err as the cursor's failure, unless there is one already.
func (a *Cursor) Fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// Bytes reads the next argument. It fails with a syntax error if none is left.
func (a *Cursor) Bytes() []byte {
	if a.err != nil {
		return nil
	}
	if len(a.args) == 0 {
		a.err = ErrSyntax
		return nil
	}
	b := a.args[0]
	a.args = a.args[1:]
	return b
}

// Word reports whether the next argument is this word, in any case. If so, it also consumes it.
// word is in upper case.
func (a *Cursor) Word(word string) bool {
	if !a.More() || !isWord(a.args[0], word) {
		return false
	}
	a.args = a.args[1:]
	return true
}

// Int reads a 64-bit integer. It fails with ErrNotInteger for anything else.
func (a *Cursor) Int() int64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	n, ok := ParseInt(b)
	if !ok {
		a.err = ErrNotInteger
	}
	return n
}

// Int32 reads an integer of 32 bits, such as a database number.
func (a *Cursor) Int32() int {
	n := a.Int()
	if n != int64(int32(n)) {
		a.Fail(ErrNotInt32)
		return 0
	}
	return int(n)
}

// IntFrom reads an integer of at least low. It fails with err for anything else.
func (a *Cursor) IntFrom(low int64, err error) int64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	n, ok := ParseInt(b)
	if !ok || n < low {
		a.err = err
	}
	return n
}

// Skip skips n arguments. It fails with a syntax error if fewer are left.
func (a *Cursor) Skip(n int64) {
	switch {
	case a.err != nil:
	case n > int64(len(a.args)):
		a.err = ErrSyntax
	default:
		a.args = a.args[n:]
	}
}

// Float reads a finite or infinite number. It fails with ErrNotFloat for anything else, NaN
// included.
func (a *Cursor) Float() float64 {
	b := a.Bytes()
	if a.err != nil {
		return 0
	}
	f, ok := ParseFloat(b)
	if !ok {
		a.err = ErrNotFloat
	}
	return f
}

// isWord reports whether b is word, in any case. word must be in upper case.
func isWord(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// ParseInt reads an integer as Redis does: decimal, an optional minus, no plus, no
// spaces, no leading zeros, no -0.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	digits, negative := b, b[0] == '-'
	if negative {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' || n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n <= math.MaxInt64
}

// ParseUint reads a 64-bit number without a sign, such as SCAN's cursor.
func ParseUint(b []byte) (uint64, bool) {
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' || n > math.MaxUint64/10 {
			return 0, false
		}
		d := uint64(c - '0')
		if n *= 10; n > math.MaxUint64-d {
			return 0, false
		}
		n += d
	}
	return n, len(b) > 0
}

// ParseFloat reads a number as Redis's string to double does. It refuses surrounding spaces, NaN,
// and numbers that are too large or too small for a double. It accepts hexadecimal numbers and inf.
func ParseFloat(b []byte) (float64, bool) {
	f, err := parseDouble(b)
	if err != nil || f == 0 && bytes.ContainsAny(mantissa(b), "123456789abcdefABCDEF") {
		return 0, false
	}
	return f, true
}

// mantissa returns the part of a number before its exponent. It leaves out the 0x of a hexadecimal
// number.
func mantissa(b []byte) []byte {
	exponent := "eE"
	if _, hex, ok := bytes.Cut(b, []byte("0x")); ok {
		b, exponent = hex, "pP"
	} else if _, hex, ok := bytes.Cut(b, []byte("0X")); ok {
		b, exponent = hex, "pP"
	}
	if i := bytes.IndexAny(b, exponent); i >= 0 {
		b = b[:i]
	}
	return b
}

// parseDouble reads all of b as C's strtod does. A number that is too large is infinite, with
// strconv.ErrRange; one that is too small is 0. NaN is an error.
func parseDouble(b []byte) (float64, error) {
	if len(b) == 0 || bytes.IndexByte(b, '_') >= 0 {
		return 0, strconv.ErrSyntax
	}
	text := string(b)
	if bytes.ContainsAny(b, "xX") && !bytes.ContainsAny(b, "pP") {
		text += "p0" // which Go asks for
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case math.IsNaN(f), errors.Is(err, strconv.ErrSyntax):
		return 0, strconv.ErrSyntax
	case err != nil:
		return f, strconv.ErrRange
	}
	return f, nil
}
