package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Reply checks the first reply in b and returns the bytes after it. The reply must match the
// protocol exactly: proto is 2, 3, or 0 for any mixture of both, as EXEC around HELLO gives. Reply
// shares no code with the server's writer of replies.
func Reply(b []byte, proto int) (rest []byte, err error) {
	p := replies{rest: b, proto: proto}
	p.reply(0)
	if p.err != nil {
		return nil, fmt.Errorf("%w at byte %d of %.2000q", p.err, len(b)-len(p.rest), b)
	}
	return p.rest, nil
}

// replies reads replies and keeps the first error.
type replies struct {
	rest  []byte
	proto int
	err   error
}

// maxReplyDepth is larger than the nesting depth of any correct reply.
const maxReplyDepth = 5000

func (p *replies) fail(text string) {
	if p.err == nil {
		p.err = errors.New(text)
	}
}

func (p *replies) reply(depth int) {
	if depth > maxReplyDepth {
		p.fail("too deep")
	}
	if p.err != nil {
		return
	}
	at := p.rest
	line, rest, ok := bytes.Cut(p.rest, []byte("\r\n"))
	if !ok || len(line) == 0 {
		p.fail("no line")
		return
	}
	if bytes.ContainsAny(line, "\r\n") {
		p.fail("a line end within a line")
		return
	}
	p.rest = rest
	kind, text := line[0], string(line[1:])
	p.known(kind, text)
	switch kind {
	case '$', '=':
		p.bulk(kind, p.number(text))
	case '*', '~', '>':
		p.items(p.number(text), depth)
	case '%':
		p.items(2*p.number(text), depth)
	default:
		p.check(scalar(kind, text))
	}
	if p.err != nil && len(p.rest) == len(rest) {
		p.rest = at // nothing within is wrong: it begins here
	}
}

func (p *replies) check(ok bool) {
	if !ok {
		p.fail("what the type does not allow")
	}
}

// known fails if the protocol does not have a type, or writes null in another way.
func (p *replies) known(kind byte, text string) {
	null := text == "-1" && (kind == '$' || kind == '*')
	switch {
	case !strings.ContainsRune("+-:$*_,#(%~>=", rune(kind)):
		p.fail("no type")
	case p.proto == 2 && !strings.ContainsRune("+-:$*", rune(kind)):
		p.fail("a type of RESP3")
	case p.proto == 3 && null:
		p.fail("a null of RESP2")
	case null:
	case text == "-1" && strings.ContainsRune("%~>=", rune(kind)):
		p.fail("a null of a type that has none")
	case text == "" && kind != '_' && kind != '+':
		p.fail("nothing behind the type")
	}
}

// scalar reports whether a line is valid for a type whose values are one line.
func scalar(kind byte, text string) bool {
	var err error
	switch kind {
	case ':':
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		return err == nil && strconv.FormatInt(n, 10) == text
	case ',':
		if text == "inf" || text == "-inf" || text == "nan" {
			return true
		}
		_, err = strconv.ParseFloat(text, 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // INCREX replies with more than a float64 takes, as Redis does
		}
		return err == nil && strings.Trim(text, "+-.e0123456789") == ""
	case '#':
		return text == "t" || text == "f"
	case '_':
		return text == ""
	case '(':
		_, ok := new(big.Int).SetString(text, 10)
		return ok
	}
	return true
}

// number returns a length of the protocol; -1 is null.
func (p *replies) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || strconv.Itoa(n) != text {
		p.fail("no length")
		return 0
	}
	return n
}

func (p *replies) bulk(kind byte, n int) {
	switch {
	case p.err != nil || n < 0:
	case len(p.rest) < n+2 || string(p.rest[n:n+2]) != "\r\n":
		p.fail("a bulk of another length")
	case kind == '=' && (n < 4 || p.rest[3] != ':'):
		p.fail("text without a format")
	default:
		p.rest = p.rest[n+2:]
	}
}

func (p *replies) items(n, depth int) {
	for range n {
		if p.reply(depth + 1); p.err != nil {
			return
		}
	}
}
