package resp

import (
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"keyp/internal/bigcopy"
)

// Writer appends replies to Buf, which its owner may read, cut or replace between replies. Proto is
// the connection's protocol, 2 or 3; the zero value speaks RESP2.
//
// Writer does not check that n replies follow an Array(n). The handler must write them, or use
// ArrayLater.
//
// With a Max, Buf grows at most a little beyond Max bytes. Writer then drops the rest and sets
// Full. The content is no valid reply, so the owner must not send it. A handler whose reply may be
// far longer than its input must check Full regularly.
type Writer struct {
	Buf   []byte
	Proto int
	Max   int // 0: no bound
	Full  bool
}

// fits reports whether n bytes more may be written.
func (w *Writer) fits(n int) bool {
	if w.Max > 0 && len(w.Buf)+n > w.Max {
		w.Full = true
		return false
	}
	return true
}

// resp3 reports whether the connection asked for RESP3 with HELLO.
func (w *Writer) resp3() bool { return w.Proto >= 3 }

// Len returns the number of bytes in the buffer, a position for Truncate.
func (w *Writer) Len() int { return len(w.Buf) }

// Truncate drops all bytes after the first n.
func (w *Writer) Truncate(n int) { w.Buf = w.Buf[:n] }

// OK writes the status OK.
func (w *Writer) OK() { w.Buf = append(w.Buf, "+OK\r\n"...) }

// Simple writes a status, such as QUEUED. CR and LF become spaces.
func (w *Writer) Simple(s string) { w.Buf = redcon.AppendString(w.Buf, s) }

// Error writes an error. The text starts with its code ("ERR syntax error") and has no leading
// minus. Line ends at its end are cut, and CR and LF in it become spaces. So a text that quotes a
// client's argument cannot forge a reply.
func (w *Writer) Error(text string) {
	w.Buf = redcon.AppendError(w.Buf, strings.TrimRight(text, "\r\n"))
}

// Int writes an integer.
func (w *Writer) Int(n int64) {
	if w.fits(0) {
		w.Buf = appendHeader(w.Buf, ':', n)
	}
}

// Bulk writes a binary-safe string. It writes nil as the empty string; see Null.
func (w *Writer) Bulk(b []byte) {
	if w.fits(len(b)) {
		w.Buf = appendBulk(w.Buf, b)
	}
}

// BulkString writes a binary-safe string.
func (w *Writer) BulkString(s string) {
	if w.fits(len(s)) {
		w.Buf = appendBulk(w.Buf, s)
	}
}

// BulkInt writes the decimal digits of a number, such as the value of a counter, as a bulk string.
func (w *Writer) BulkInt(n int64) {
	var tmp [20]byte
	w.Bulk(strconv.AppendInt(tmp[:0], n, 10))
}

// BulkUint writes the decimal digits of an unsigned number, such as the cursor of SCAN, as a bulk
// string.
func (w *Writer) BulkUint(n uint64) {
	var tmp [20]byte
	w.Bulk(strconv.AppendUint(tmp[:0], n, 10))
}

// Null writes the reply for a missing value.
func (w *Writer) Null() {
	if w.resp3() {
		w.Buf = append(w.Buf, "_\r\n"...)
		return
	}
	w.Buf = append(w.Buf, "$-1\r\n"...)
}

// NullArray writes Null in place of an array (EXEC after a watched key changed, BLPOP after its
// timeout). RESP3 has only one null.
func (w *Writer) NullArray() {
	if w.resp3() {
		w.Buf = append(w.Buf, "_\r\n"...)
		return
	}
	w.Buf = append(w.Buf, "*-1\r\n"...)
}

// Array announces n replies that follow.
func (w *Writer) Array(n int) {
	if w.fits(0) {
		w.Buf = appendHeader(w.Buf, '*', int64(n))
	}
}

// Map announces n pairs; 2n replies follow, key and value in turn.
func (w *Writer) Map(n int) { w.aggregate('%', n) }

// Set announces n replies without an order or repetitions.
func (w *Writer) Set(n int) { w.aggregate('~', n) }

// Push announces an out-of-band message of n replies (pub/sub, invalidations). In RESP2 it is an
// array, so a client can tell it from a reply only because the client is subscribed.
func (w *Writer) Push(n int) { w.aggregate('>', n) }

// aggregate writes a header with the present protocol's type and count for kind.
func (w *Writer) aggregate(kind byte, n int) {
	if !w.resp3() {
		if kind == '%' {
			n *= 2
		}
		kind = '*'
	}
	w.Buf = appendHeader(w.Buf, kind, int64(n))
}

// appendHeader writes a type, a number and the end of a line. Lengths and counts have few
// digits, which are written here: a range of a list has hundreds of headers.
func appendHeader(b []byte, kind byte, n int64) []byte {
	switch u := uint64(n); {
	case u < 10:
		return append(b, kind, '0'+byte(u), '\r', '\n')
	case u < 100:
		return append(b, kind, '0'+byte(u/10), '0'+byte(u%10), '\r', '\n')
	case u < 1000:
		return append(b, kind, '0'+byte(u/100), '0'+byte(u/10%10), '0'+byte(u%10), '\r', '\n')
	}
	b = strconv.AppendInt(append(b, kind), n, 10)
	return append(b, '\r', '\n')
}

func appendBulk[T []byte | string](b []byte, v T) []byte {
	b = appendHeader(b, '$', int64(len(v)))
	if len(v)+2 > cap(b)-len(b) && len(b)+len(v) > bigcopy.Size {
		b = bigcopy.Grow(b, len(v)+2)
	}
	if len(v) > bigcopy.Size {
		b = bigcopy.Append(b, v)
	} else {
		b = append(b, v...)
	}
	return append(b, '\r', '\n')
}

// Double writes a floating point number, formatted by AppendDouble.
func (w *Writer) Double(f float64) {
	if w.resp3() {
		w.Buf = append(w.Buf, ',')
		w.Buf = AppendDouble(w.Buf, f)
		w.Buf = append(w.Buf, '\r', '\n')
		return
	}
	var tmp [32]byte // a double's longest text has 24 bytes
	w.Bulk(AppendDouble(tmp[:0], f))
}

// LongDouble writes a number as LongDouble.Append does.
func (w *Writer) LongDouble(x LongDouble) {
	if w.resp3() {
		w.Buf = append(x.Append(append(w.Buf, ',')), '\r', '\n')
		return
	}
	w.Bulk(x.Append(nil))
}

// Bool writes a truth value.
func (w *Writer) Bool(v bool) {
	switch {
	case w.resp3() && v:
		w.Buf = append(w.Buf, "#t\r\n"...)
	case w.resp3():
		w.Buf = append(w.Buf, "#f\r\n"...)
	case v:
		w.Int(1)
	default:
		w.Int(0)
	}
}

// BigNumber writes an integer of any size, given as its decimal digits.
func (w *Writer) BigNumber(digits string) {
	if w.resp3() {
		w.Buf = append(w.Buf, '(')
		w.Buf = append(w.Buf, digits...)
		w.Buf = append(w.Buf, '\r', '\n')
		return
	}
	w.BulkString(digits)
}

// Verbatim writes text for people, such as INFO. The format has three letters: "txt" or "mkd".
func (w *Writer) Verbatim(format, text string) {
	if !w.fits(len(text)) {
		return
	}
	if w.resp3() {
		w.Buf = appendHeader(w.Buf, '=', int64(len(format)+1+len(text)))
		w.Buf = append(w.Buf, format...)
		w.Buf = append(w.Buf, ':')
		w.Buf = append(w.Buf, text...)
		w.Buf = append(w.Buf, '\r', '\n')
		return
	}
	w.BulkString(text)
}

// Mark is the place of a header whose count is not known yet.
type Mark struct {
	at   int
	kind byte
}

// ArrayLater starts an array. SetLen sets the number of elements when the replies are written.
func (w *Writer) ArrayLater() Mark { return w.later('*') }

// MapLater starts a map. SetLen sets the number of pairs.
func (w *Writer) MapLater() Mark { return w.later('%') }

// SetLater starts a set. SetLen sets the number of members.
func (w *Writer) SetLater() Mark { return w.later('~') }

// later leaves room for a header of one digit, so that short replies, the usual
// ones, do not move.
func (w *Writer) later(kind byte) Mark {
	w.fits(reserved)
	m := Mark{at: len(w.Buf), kind: kind}
	w.Buf = append(w.Buf, "*0\r\n"...)
	return m
}

// reserved is the number of bytes that later appends.
const reserved = len("*0\r\n")

// SetLen completes the header at m with n (elements, or pairs of a map). Marks nest: an inner one
// is completed before the outer one. If the header needs more digits, the bytes after it are moved
// once.
func (w *Writer) SetLen(m Mark, n int) {
	end := len(w.Buf)
	w.aggregate(m.kind, n) // appended after the reply, then moved to its place
	size := len(w.Buf) - end
	var header [24]byte
	copy(header[:], w.Buf[end:])
	copy(w.Buf[m.at+size:], w.Buf[m.at+reserved:end])
	copy(w.Buf[m.at:], header[:size])
	w.Buf = w.Buf[:end+size-reserved]
}
