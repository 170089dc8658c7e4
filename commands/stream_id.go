package commands

import (
	"bytes"
	"math"

	"keyp/storage/object"
)

// The errors of IDs.
const (
	errStreamID    Error = "ERR Invalid stream ID specified as stream command argument"
	errStreamStart Error = "ERR invalid start ID for the interval"
	errStreamEnd   Error = "ERR invalid end ID for the interval"
)

// maxStreamID is the maximum length of an ID's text, as in Redis.
const maxStreamID = 127

// fewIDs is the number of IDs of a command that are parsed without an allocation.
const fewIDs = 8

// upToNUL returns the part of an argument before the first NUL. Redis compares only this part where
// it reads C strings.
func upToNUL(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// parseStreamID parses "ms-seq", or "ms" alone. Then missing is the sequence number.
func parseStreamID(b []byte, missing uint64) (id object.StreamID, ok bool) {
	if len(b) > maxStreamID {
		return id, false
	}
	ms, seq, both := bytes.Cut(upToNUL(b), []byte("-"))
	if id.Ms, ok = parseUnsigned(ms); !ok || !both {
		id.Seq = missing
		return id, ok
	}
	id.Seq, ok = parseUnsigned(seq)
	return id, ok
}

// parseUnsigned parses a number as C's strtoull does. It ignores leading blanks, a plus sign and
// leading zeros. A minus sign subtracts the number from 2^64. But a text that ParseInt accepts must
// not be negative.
func parseUnsigned(b []byte) (uint64, bool) {
	if n, ok := ParseInt(b); ok {
		return uint64(n), n >= 0
	}
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	n, ok := ParseUint(b)
	if negative {
		n = -n
	}
	return n, ok
}

// streamID parses an ID. A missing sequence number is 0.
func streamID(b []byte) (object.StreamID, error) {
	id, ok := parseStreamID(b, 0)
	if !ok {
		return id, errStreamID
	}
	return id, nil
}

// StreamID takes an ID.
func (a *Cursor) StreamID() (id object.StreamID) {
	b := a.Bytes()
	if a.err == nil {
		id, a.err = streamID(b)
	}
	return id
}

// streamIDs appends IDs to a list. It returns an error if any of them is invalid.
func streamIDs(list []object.StreamID, args [][]byte) ([]object.StreamID, error) {
	for _, arg := range args {
		id, err := streamID(arg)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}

// streamBound parses an end of a range. "-" and "+" are the lowest and the highest ID. open is true
// if a "(" before the ID excludes it.
func streamBound(b []byte, missing uint64) (id object.StreamID, open bool, err error) {
	if len(b) > 1 && b[0] == '(' {
		open, b = true, b[1:]
	} else if text := upToNUL(b); len(b) <= maxStreamID && len(text) == 1 {
		switch text[0] {
		case '-':
			return id, false, nil
		case '+':
			return object.MaxStreamID, false, nil
		}
	}
	id, ok := parseStreamID(b, missing)
	if !ok {
		err = errStreamID
	}
	return id, open, err
}

// streamStart parses the beginning of a range.
func streamStart(b []byte) (object.StreamID, error) {
	id, open, err := streamBound(b, 0)
	if err == nil && open {
		if id, open = id.Next(); !open {
			err = errStreamStart
		}
	}
	return id, err
}

// streamEnd parses the end of a range.
func streamEnd(b []byte) (object.StreamID, error) {
	id, open, err := streamBound(b, math.MaxUint64)
	if err == nil && open {
		if id, open = id.Prev(); !open {
			err = errStreamEnd
		}
	}
	return id, err
}
