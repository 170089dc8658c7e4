package rdb

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"keyp/resp"
)

// Collections up to these sizes are written as Redis keeps them in memory by default.
// A Redis with other limits converts them when it loads them.
const (
	packedHashFields  = 512
	packedZSetMembers = 128
	packedBytes       = 64 // of each field, value and member
	intsetMembers     = 512

	// A node of a list ends before an entry with which it may become larger than nodeBytes. An
	// entry counts entryReserve bytes besides its content.
	nodeBytes    = 8 << 10
	entryReserve = 8

	// Redis packs strings longer than packAbove, if that makes them at least packGain shorter.
	packAbove = 20
	packGain  = 4
)

// Encode returns the payload of DUMP. Redis 7.0 and later restore it, with these exceptions. Hashes
// whose fields have deadlines need 7.4; streams need 8.6 for idempotent ids, and 8.8 for pending
// entries without a consumer. No Redis restores leases, limits, delay queues, or sets and sorted
// sets whose members have deadlines. Nothing restores a collection without elements.
func Encode(v Value) []byte {
	w, version := encode(v)
	return seal(w.b, version)
}

// Length returns the length of the value in its payload, without its type, the version and the
// checksum. DEBUG OBJECT replies it as serializedlength.
func Length(v Value) int {
	w, _ := encode(v)
	return len(w.b) - 1
}

func encode(v Value) (*writer, uint16) {
	w := &writer{}
	version := uint16(version7_0)
	switch v.Type {
	case String:
		w.kind(kindString)
		w.string(v.Str)
	case List:
		w.list(v)
	case Stream:
		version = w.stream(v.Stream)
	case Lease:
		w.lease(v.Lease)
	case Limit:
		version = version7_4
		w.timed(v, survey(v))
	case Delay:
		w.pairs(kindDelay, v, survey(v).count)
	case Set, ZSet, Hash:
		s := survey(v)
		switch {
		case s.firstDeadline != 0:
			version = version7_4
			w.timed(v, s)
		case v.Type == Set:
			w.set(v, s)
		case v.Type == ZSet:
			w.zset(v, s)
		default:
			w.hash(v, s)
		}
	default:
		panic("rdb: a value without a type")
	}
	return w, version
}

// summary contains the facts that decide a collection's encoding.
type summary struct {
	count         int
	longest       int   // bytes of the longest name or value
	firstDeadline int64 // 0: no element has one
	integers      bool  // there are names, and every one is an integer
}

func survey(v Value) summary {
	var s summary
	for e := range v.Elements {
		if s.count == 0 || s.integers {
			_, s.integers = integer(e.Name)
		}
		s.count++
		s.longest = max(s.longest, len(e.Name), len(e.Value))
		if e.Deadline != 0 && (s.firstDeadline == 0 || e.Deadline < s.firstDeadline) {
			s.firstDeadline = e.Deadline
		}
	}
	return s
}

// integer parses s if it is the canonical form of an int64: "7" and "-7", not "+7" or "07".
func integer(s []byte) (n int64, ok bool) {
	if len(s) == 0 || len(s) > len("-9223372036854775808") {
		return 0, false
	}
	n, err := strconv.ParseInt(string(s), 10, 64)
	if err != nil {
		return 0, false
	}
	var canonical [20]byte
	return n, string(strconv.AppendInt(canonical[:0], n, 10)) == string(s)
}

// writer appends a value to b.
type writer struct {
	b      []byte
	packer *packer // when something was to be packed
}

func (w *writer) kind(kind byte) { w.b = append(w.b, kind) }

func (w *writer) length(n uint64) {
	switch {
	case n < 1<<6:
		w.b = append(w.b, byte(n))
	case n < 1<<14:
		w.b = append(w.b, form14<<6|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, lengthIs32), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, lengthIs64), n)
	}
}

// string writes s in the shortest of its forms that Redis would take.
func (w *writer) string(s []byte) {
	if n, ok := integer(s); ok && n >= math.MinInt32 && n <= math.MaxInt32 {
		switch {
		case n == int64(int8(n)):
			w.b = append(w.b, specialInt8, byte(n))
		case n == int64(int16(n)):
			w.b = binary.LittleEndian.AppendUint16(append(w.b, specialInt16), uint16(n))
		default:
			w.b = binary.LittleEndian.AppendUint32(append(w.b, specialInt32), uint32(n))
		}
		return
	}
	if len(s) > packAbove && uint64(len(s)) <= maxString && w.packed(s) {
		return
	}
	w.length(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) lease(l *LeaseValue) {
	w.kind(kindLease)
	w.length(l.Token)
	w.length(l.Delay)
	w.string(l.Owner)
}

// packed writes s in packed form. If that does not save at least packGain bytes, it writes nothing
// and returns false.
func (w *writer) packed(s []byte) bool {
	if w.packer == nil {
		w.packer = &packer{}
	}
	packed, ok := w.packer.pack(nil, s, len(s)-packGain)
	if !ok {
		return false
	}
	w.b = append(w.b, specialLZF)
	w.length(uint64(len(packed)))
	w.length(uint64(len(s)))
	w.b = append(w.b, packed...)
	return true
}

// list writes a list as listpacks. A long element gets a listpack of its own; Redis 7.0 and later
// load that.
func (w *writer) list(v Value) {
	w.kind(kindListListpacks)
	var nodes writer
	count := uint64(0)
	flush := func(p *packWriter) {
		if p.count > 0 {
			nodes.length(nodePacked)
			nodes.string(p.end())
			count++
		}
	}
	p := newPack()
	for e := range v.Elements {
		if len(p.b)+1+len(e.Name)+entryReserve > nodeBytes {
			flush(p)
			p = newPack()
		}
		p.add(e.Name)
	}
	flush(p)
	w.length(count)
	w.b = append(w.b, nodes.b...)
}

func (w *writer) set(v Value, s summary) {
	if s.integers && s.count <= intsetMembers {
		w.kind(kindSetIntset)
		w.string(intsetOf(v))
		return
	}
	w.kind(kindSet)
	w.length(uint64(s.count))
	for e := range v.Elements {
		w.string(e.Name)
	}
}

// intsetOf returns the members as an intset. All are integers.
func intsetOf(v Value) []byte {
	var numbers []int64
	for e := range v.Elements {
		n, _ := integer(e.Name)
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	width := 2
	for _, n := range []int64{numbers[0], numbers[len(numbers)-1]} {
		switch {
		case n != int64(int32(n)):
			width = 8
		case n != int64(int16(n)):
			width = max(width, 4)
		}
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(width))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(numbers)))
	for _, n := range numbers {
		var number [8]byte
		binary.LittleEndian.PutUint64(number[:], uint64(n))
		b = append(b, number[:width]...)
	}
	return b
}

func (w *writer) zset(v Value, s summary) {
	if s.count <= packedZSetMembers && s.longest <= packedBytes {
		p := newPack()
		for e := range v.Elements {
			p.add(e.Name)
			p.add(resp.AppendDouble(nil, e.Score))
		}
		w.kind(kindZSetListpack)
		w.string(p.end())
		return
	}
	w.kind(kindZSet)
	w.length(uint64(s.count))
	for e := range v.Elements {
		w.string(e.Name)
		w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(e.Score))
	}
}

func (w *writer) hash(v Value, s summary) {
	if s.count <= packedHashFields && s.longest <= packedBytes {
		p := newPack()
		for e := range v.Elements {
			p.add(e.Name)
			p.add(e.Value)
		}
		w.kind(kindHashListpack)
		w.string(p.end())
		return
	}
	w.pairs(kindHash, v, s.count)
}

// pairs writes the elements' names and values in turn.
func (w *writer) pairs(kind byte, v Value, count int) {
	w.kind(kind)
	w.length(uint64(count))
	for e := range v.Elements {
		w.string(e.Name)
		w.string(e.Value)
	}
}

// timed writes a collection whose elements have deadlines. It never packs one: Redis converts a
// small hash when it loads it.
func (w *writer) timed(v Value, s summary) {
	w.kind(map[Type]byte{Hash: kindHashTimed, Set: kindSetTimed, ZSet: kindZSetTimed,
		Limit: kindLimit}[v.Type])
	w.b = binary.LittleEndian.AppendUint64(w.b, uint64(s.firstDeadline))
	w.length(uint64(s.count))
	for e := range v.Elements {
		if e.Deadline == 0 {
			w.length(0)
		} else {
			w.length(uint64(e.Deadline-s.firstDeadline) + 1)
		}
		w.string(e.Name)
		switch v.Type {
		case Hash, Limit:
			w.string(e.Value)
		case ZSet:
			w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(e.Score))
		}
	}
}
