package lua

import (
	"strings"
)

// Loops over a long string poll for a kill: every lookEvery bytes where they handle each byte,
// every copyEvery bytes where they copy.
const (
	lookEvery = 1 << 16
	copyEvery = 1 << 20
)

// Append appends a text to b, and polls for a kill if the text is long.
func (L *State) Append(b []byte, s string) []byte {
	if len(s) <= copyEvery {
		return append(b, s...)
	}
	return L.appendLong(b, s)
}

func (L *State) appendLong(b []byte, s string) []byte {
	if cap(b)-len(b) < len(s) {
		b = append(make([]byte, 0, len(b)+len(s)), b...)
	}
	for ; len(s) > copyEvery; s = s[copyEvery:] {
		b = append(b, s[:copyEvery]...)
		L.Check()
	}
	return append(b, s...)
}

// cText returns a text as C reads numbers from it: up to a NUL, without the cutset's bytes around
// it.
func cText(s, cutset string, look func()) string {
	if len(s) <= lookEvery {
		if end := strings.IndexByte(s, 0); end >= 0 {
			s = s[:end]
		}
		return strings.Trim(s, cutset)
	}
	for at := 0; at < len(s); at += copyEvery {
		look()
		if end := strings.IndexByte(s[at:min(at+copyEvery, len(s))], 0); end >= 0 {
			s = s[:at+end]
		}
	}
	return trim(s, cutset, look)
}

// trim is strings.Trim, but calls look regularly.
func trim(s, cutset string, look func()) string {
	for s != "" {
		piece := s[:min(len(s), lookEvery)]
		rest := strings.TrimLeft(piece, cutset)
		if s = s[len(piece)-len(rest):]; rest != "" {
			break
		}
		look()
	}
	for s != "" {
		piece := s[max(len(s)-lookEvery, 0):]
		rest := strings.TrimRight(piece, cutset)
		if s = s[:len(s)-len(piece)+len(rest)]; rest != "" {
			break
		}
		look()
	}
	return s
}

// Trim is strings.Trim, but polls for a kill.
func (L *State) Trim(s, cutset string) string { return trim(s, cutset, L.Check) }
