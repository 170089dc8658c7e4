package rdb

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"strconv"
)

// The encodings of values, as the first byte of a payload names them.
const (
	kindString         = 0
	kindList           = 1
	kindSet            = 2
	kindZSetText       = 3
	kindHash           = 4
	kindZSet           = 5
	kindHashZipmap     = 9
	kindListZiplist    = 10
	kindSetIntset      = 11
	kindZSetZiplist    = 12
	kindHashZiplist    = 13
	kindListZiplists   = 14
	kindStream         = 15
	kindHashListpack   = 16
	kindZSetListpack   = 17
	kindListListpacks  = 18
	kindStream2        = 19
	kindSetListpack    = 20
	kindStream3        = 21
	kindHashTimed0     = 22
	kindHashPackTimed0 = 23
	kindHashTimed      = 24
	kindHashPackTimed  = 25
	kindStream4        = 26
	kindStream5        = 27
	kindSetTimed       = 224
	kindZSetTimed      = 225
	kindLease          = 226
	kindLimit          = 227
	kindDelay          = 228
)

// The containers of a list's nodes.
const (
	nodePlain  = 1
	nodePacked = 2
)

// maxDeadline is the latest deadline that an element can have, in Unix milliseconds.
const maxDeadline = 1<<48 - 1

// types maps the encodings of collections to their types.
var types = map[byte]Type{
	kindList: List, kindListZiplist: List, kindListZiplists: List, kindListListpacks: List,
	kindSet: Set, kindSetIntset: Set, kindSetListpack: Set,
	kindZSetText: ZSet, kindZSet: ZSet, kindZSetZiplist: ZSet, kindZSetListpack: ZSet,
	kindHash: Hash, kindHashZipmap: Hash, kindHashZiplist: Hash, kindHashListpack: Hash,
	kindSetTimed: Set, kindZSetTimed: ZSet, kindLimit: Limit, kindDelay: Delay,
	kindHashTimed0: Hash, kindHashPackTimed0: Hash, kindHashTimed: Hash, kindHashPackTimed: Hash,
}

// IsString reports whether a payload that Decode accepts holds a string.
func IsString(payload []byte) bool { return len(payload) > 0 && payload[0] == kindString }

// Decode checks a whole payload of DUMP and returns its value, or ErrPayload or ErrFormat. The
// value refers to the payload, which must not change while the value is used.
func Decode(payload []byte) (Value, error) {
	body, err := open(payload)
	if err != nil {
		return Value{}, err
	}
	if len(body) == 0 {
		return Value{}, ErrFormat
	}
	return decode(body[0], body[1:])
}

// decode returns the value whose encoding is kind.
func decode(kind byte, body []byte) (Value, error) {
	switch kind {
	case kindString:
		c := cursor{rest: body}
		s := c.string()
		if c.bad || len(c.rest) > 0 {
			return Value{}, ErrFormat
		}
		return Value{Type: String, Str: s}, nil
	case kindStream, kindStream2, kindStream3, kindStream4, kindStream5:
		return decodeStream(kind, body)
	case kindLease:
		return decodeLease(body)
	}
	v := Value{Type: types[kind]}
	if v.Type == 0 {
		return Value{}, ErrFormat
	}
	var seen members
	unique := true
	ok := walk(kind, body, func(e Element) bool {
		v.Len++
		unique = v.Type == List || seen.add(e.Name)
		return unique
	})
	if !ok || !unique || v.Len == 0 {
		return Value{}, ErrFormat
	}
	v.Elements = func(yield func(Element) bool) {
		if !walk(kind, body, yield) {
			panic("rdb: a payload changed while its value was used")
		}
	}
	return v, nil
}

// decodeLease reads what writer.lease writes.
func decodeLease(body []byte) (Value, error) {
	c := cursor{rest: body}
	l := &LeaseValue{Token: c.length(), Delay: c.length()}
	if l.Owner = c.string(); c.bad || len(c.rest) > 0 {
		return Value{}, ErrFormat
	}
	return Value{Type: Lease, Lease: l}, nil
}

// members finds duplicates by a hash of 128 bits with secret seeds. A collision of different names
// is less likely than a memory fault.
type members struct {
	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{}
}

// add reports whether name is new.
func (m *members) add(name []byte) bool {
	if m.seen == nil {
		m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		m.seen = map[[2]uint64]struct{}{}
	}
	before := len(m.seen)
	m.seen[[2]uint64{maphash.Bytes(m.seeds[0], name), maphash.Bytes(m.seeds[1], name)}] = struct{}{}
	return len(m.seen) > before
}

// walk visits the elements until visit returns false. It returns false if the part of the payload
// that it read is invalid.
func walk(kind byte, body []byte, visit func(Element) bool) bool {
	w := walker{cursor: cursor{rest: body}, visit: visit}
	switch kind {
	case kindList, kindSet:
		w.each(w.strings(1), 1)
	case kindHash, kindDelay:
		w.each(w.strings(2), 2)
	case kindZSetText:
		w.scored(2, w.scoreText)
	case kindZSet:
		w.scored(9, w.scoreBinary)
	case kindHashZipmap:
		w.each(openZipmap(&w.cursor), 2)
	case kindListZiplist:
		w.each(openZiplist(&w.cursor), 1)
	case kindHashZiplist:
		w.each(openZiplist(&w.cursor), 2)
	case kindZSetZiplist:
		w.eachScored(openZiplist(&w.cursor))
	case kindSetIntset:
		w.each(openIntset(&w.cursor), 1)
	case kindSetListpack:
		w.each(openListpack(&w.cursor), 1)
	case kindHashListpack:
		w.each(openListpack(&w.cursor), 2)
	case kindZSetListpack:
		w.eachScored(openListpack(&w.cursor))
	case kindListZiplists:
		for n := w.count(1); n > 0 && w.going(); n-- {
			w.each(openZiplist(&w.cursor), 1)
		}
	case kindListListpacks:
		w.nodes()
	case kindHashTimed0:
		w.timed(3, 0, w.withValue)
	case kindHashTimed, kindLimit:
		w.timed(3, w.firstDeadline()-1, w.withValue)
	case kindSetTimed:
		w.timed(2, w.firstDeadline()-1, func(*Element) {})
	case kindZSetTimed:
		w.timed(10, w.firstDeadline()-1, w.withScore)
	case kindHashPackTimed:
		w.firstDeadline() // the fields' own are absolute
		w.each(openListpack(&w.cursor), 3)
	case kindHashPackTimed0:
		w.each(openListpack(&w.cursor), 3)
	}
	return w.stopped || !w.bad && len(w.rest) == 0
}

// entries is a sequence of strings. next may only be called after more has returned true; on an
// error it sets bad on the payload's cursor.
type entries interface {
	more() bool
	next() []byte
}

// walker visits the elements of one value.
type walker struct {
	cursor
	visit   func(Element) bool
	stopped bool // visit said no
}

func (w *walker) going() bool { return !w.bad && !w.stopped }

// give passes an element to visit, unless reading it failed.
func (w *walker) give(e Element) {
	if !w.bad {
		w.stopped = !w.visit(e)
	}
	w.room = w.room[:0]
}

// each makes an element of every width entries: name, value, deadline.
func (w *walker) each(from entries, width int) {
	next := func() []byte {
		if !from.more() {
			w.fail()
			return nil
		}
		return from.next()
	}
	for w.going() && from.more() {
		e := Element{Name: from.next()}
		if width > 1 {
			e.Value = next()
		}
		if width > 2 {
			e.Deadline = w.deadline(next())
		}
		w.give(e)
	}
}

// eachScored makes an element of every two entries: member, score.
func (w *walker) eachScored(from entries) {
	for w.going() && from.more() {
		e := Element{Name: from.next()}
		if !from.more() {
			w.fail()
			return
		}
		e.Score = w.score(from.next())
		w.give(e)
	}
}

// strings reads a count of elements and returns the strings of all of them, width for each.
func (w *walker) strings(width uint64) entries {
	return &plain{&w.cursor, w.count(width) * width}
}

// plain reads strings that follow each other.
type plain struct {
	*cursor
	left uint64
}

func (p *plain) more() bool { return !p.bad && p.left > 0 }

func (p *plain) next() []byte {
	p.left--
	return p.string()
}

// nodes reads the nodes of a list.
func (w *walker) nodes() {
	for n := w.count(2); n > 0 && w.going(); n-- {
		switch w.length() {
		case nodePlain:
			s := w.string()
			if len(s) == 0 {
				w.fail()
			}
			w.give(Element{Name: s})
		case nodePacked:
			w.each(openListpack(&w.cursor), 1)
		default:
			w.fail()
		}
	}
}

// scored reads a count, and members each followed by its score. A member and its score take at
// least min bytes.
func (w *walker) scored(min uint64, score func() float64) {
	for n := w.count(min); n > 0 && w.going(); n-- {
		e := Element{Name: w.string()}
		e.Score = score()
		w.give(e)
	}
}

// The length bytes of a score as text that stand for special values.
const (
	scoreNaN = 253 + iota
	scoreInf
	scoreNegInf
)

func (w *walker) scoreText() float64 {
	switch n := w.byte(); n {
	case scoreNaN:
		w.fail()
		return 0
	case scoreInf:
		return math.Inf(1)
	case scoreNegInf:
		return math.Inf(-1)
	default:
		return w.score(w.take(uint64(n)))
	}
}

func (w *walker) scoreBinary() float64 {
	f := math.Float64frombits(w.uint(8))
	if math.IsNaN(f) {
		w.fail()
	}
	return f
}

func (w *walker) score(text []byte) float64 {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(f) {
		w.fail()
		return 0
	}
	return f
}

// firstDeadline reads the earliest deadline of the elements.
func (w *walker) firstDeadline() uint64 {
	var first uint64
	if b := w.take(8); b != nil {
		first = binary.LittleEndian.Uint64(b)
	}
	if first > maxDeadline+1 { // one more means that no field has one
		w.fail()
	}
	return first
}

func (w *walker) withValue(e *Element) { e.Value = w.string() }
func (w *walker) withScore(e *Element) { e.Score = w.scoreBinary() }

// timed reads a count, and elements of at least min bytes with their deadlines. A deadline is 0 for
// none, or the milliseconds after origin. Origin is 0 or one less than the earliest deadline, so 0
// is free for none. rest reads the fields after the name.
func (w *walker) timed(min uint64, origin uint64, rest func(*Element)) {
	for n := w.count(min); n > 0 && w.going(); n-- {
		deadline := w.length()
		if deadline > maxDeadline+1 {
			w.fail()
		} else if deadline != 0 {
			deadline += origin
		}
		if deadline > maxDeadline {
			w.fail()
		}
		e := Element{Deadline: int64(deadline)}
		e.Name = w.string()
		rest(&e)
		w.give(e)
	}
}

// deadline reads a field's absolute deadline.
func (w *walker) deadline(text []byte) int64 {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n > maxDeadline {
		w.fail()
		return 0
	}
	return int64(n)
}
