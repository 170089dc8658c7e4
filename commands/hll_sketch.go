package commands

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// sketch is a HyperLogLog in Redis's format. The header is "HYLL", the encoding, three unused bytes
// and a cached cardinality in 8 bytes. Then come 16384 registers of 6 bits, either all of them
// (dense) or as runs of equal ones (sparse):
//
//	00llllll           l+1 registers that are 0
//	01llllll llllllll  l+1 registers that are 0
//	1vvvvvll           l+1 registers that are v+1
type sketch []byte

const (
	sketchRegisters = 1 << sketchBits
	sketchBits      = 14 // of the hash, which give the register
	sketchHeader    = 16
	sketchDenseSize = sketchHeader + sketchRegisters*6/8
	sketchStale     = 15 // the byte that has the flag for a cached cardinality that is out of date
	sketchSeed      = 0xadc83b19

	denseSketch  = 0
	sparseSketch = 1

	maxSparseValue = 32 // the largest register of a sparse one
	maxSparseRun   = 4  // of registers that are not 0
	maxZeroRun     = 64 // in one byte
)

// The errors of strings that are no HyperLogLog, or whose registers are damaged.
const (
	errNoSketch     Error = "WRONGTYPE Key is not a valid HyperLogLog string value."
	errSketchBroken Error = "INVALIDOBJ Corrupted HLL object detected"
)

// newSketch returns an empty sketch.
func newSketch() sketch {
	s := make(sketch, sketchHeader, sketchHeader+16)
	copy(s, "HYLL")
	s[4] = sparseSketch
	return appendRun(s, 0, sketchRegisters)
}

// asSketch returns a string as a sketch after it has checked the header and the length.
func asSketch(value []byte) (sketch, error) {
	switch {
	case len(value) < sketchHeader, !bytes.HasPrefix(value, []byte("HYLL")),
		value[4] > sparseSketch,
		value[4] == denseSketch && len(value) != sketchDenseSize:
		return nil, errNoSketch
	case len(value) > sketchHeader+2*sketchRegisters: // two bytes for each register are the most
		return nil, errSketchBroken
	}
	return value, nil
}

func (s sketch) dense() bool { return s[4] == denseSketch }

// cached returns the cardinality that was calculated last; false if registers have changed since.
func (s sketch) cached() (uint64, bool) {
	return binary.LittleEndian.Uint64(s[8:]), s[sketchStale]&0x80 == 0
}

func (s sketch) forgetCached() { s[sketchStale] |= 0x80 }

// sketchRun is a run of registers that are equal, and how many bytes it takes.
type sketchRun struct {
	value  byte
	length int
	size   int
}

// readRun reads the first run of s, which is not empty. It returns false if half of the run is
// missing.
func readRun(s []byte) (sketchRun, bool) {
	b := s[0]
	switch {
	case b&0x80 != 0:
		return sketchRun{b>>2&0x1f + 1, int(b&3) + 1, 1}, true
	case b&0x40 == 0:
		return sketchRun{0, int(b) + 1, 1}, true
	case len(s) < 2:
		return sketchRun{}, false
	}
	return sketchRun{0, int(b&0x3f)<<8 + int(s[1]) + 1, 2}, true
}

// appendRun appends a run, or nothing if length is 0. Only runs with value 0 can be longer than
// maxSparseRun.
func appendRun(s []byte, value byte, length int) []byte {
	switch {
	case length == 0:
		return s
	case value > 0:
		return append(s, 0x80|(value-1)<<2|byte(length-1))
	case length <= maxZeroRun:
		return append(s, byte(length-1))
	}
	return append(s, 0x40|byte((length-1)>>8), byte(length-1))
}

// eachRun calls visit with each run of a sparse sketch and the run's first register. It returns
// false if the runs do not have exactly 16384 registers. Then it may not have visited all runs.
func (s sketch) eachRun(visit func(at int, run sketchRun)) bool {
	at := 0
	for rest := s[sketchHeader:]; len(rest) > 0; {
		run, ok := readRun(rest)
		if !ok || at+run.length > sketchRegisters {
			return false
		}
		visit(at, run)
		at += run.length
		rest = rest[run.size:]
	}
	return at == sketchRegisters
}

// register returns register i of a dense sketch.
func (s sketch) register(i int) byte {
	at, shift := sketchHeader+i*6/8, i*6%8
	b := uint(s[at])
	if shift > 2 { // it goes on in the next byte
		b |= uint(s[at+1]) << 8
	}
	return byte(b >> shift & 63)
}

// setRegister sets register i of a dense sketch.
func (s sketch) setRegister(i int, value byte) {
	at, shift := sketchHeader+i*6/8, i*6%8
	s[at] = s[at]&^byte(63<<shift) | value<<shift
	if shift > 2 {
		s[at+1] = s[at+1]&^byte(63>>(8-shift)) | value>>(8-shift)
	}
}

// mergeInto raises each register to that of s if it is lower. It returns false if s is damaged.
func (s sketch) mergeInto(registers *[sketchRegisters]byte) bool {
	if s.dense() {
		for i := range registers {
			registers[i] = max(registers[i], s.register(i))
		}
		return true
	}
	return s.eachRun(func(at int, run sketchRun) {
		if run.value > 0 {
			for i := range registers[at : at+run.length] {
				registers[at+i] = max(registers[at+i], run.value)
			}
		}
	})
}

// toDense returns a dense sketch with the same registers. It returns false if s is damaged.
func (s sketch) toDense() (sketch, bool) {
	if s.dense() {
		return s, true
	}
	d := make(sketch, sketchDenseSize)
	copy(d, s[:sketchHeader])
	d[4] = denseSketch
	return d, s.eachRun(func(at int, run sketchRun) {
		if run.value > 0 {
			for i := range run.length {
				d.setRegister(at+i, run.value)
			}
		}
	})
}

// raise raises a register of s to value if it is lower. It may change s. A sparse sketch that would
// become longer than sparseMax bytes becomes a dense one. raise returns the resulting sketch, and
// whether the register was lower.
func (s sketch) raise(register int, value byte, sparseMax int64) (sketch, bool, error) {
	if s.dense() {
		if s.register(register) >= value {
			return s, false, nil
		}
		s.setRegister(register, value)
		return s, true, nil
	}
	if value <= maxSparseValue {
		at, before, first, run, ok := s.find(register)
		switch {
		case !ok:
			return s, false, errSketchBroken
		case run.value >= value:
			return s, false, nil
		}
		var room [5]byte
		parts := appendRun(room[:0], run.value, register-first)
		parts = appendRun(parts, value, 1)
		parts = appendRun(parts, run.value, first+run.length-1-register)
		if grown := len(parts) - run.size; grown <= 0 || int64(len(s)+grown) <= sparseMax {
			s = slices.Replace(s, at, at+run.size, parts...).join(before)
			s.forgetCached()
			return s, true, nil
		}
	}
	d, ok := s.toDense()
	if !ok {
		return s, false, errSketchBroken
	}
	return d.raise(register, value, sparseMax)
}

// find returns the run of a sparse sketch that contains a register. at is the index of the run's
// first byte. before is that of the previous run, or at if there is none. first is the run's first
// register.
func (s sketch) find(register int) (at, before, first int, run sketchRun, ok bool) {
	at, before = sketchHeader, sketchHeader
	for at < len(s) {
		if run, ok = readRun(s[at:]); !ok || register < first+run.length {
			return at, before, first, run, ok
		}
		before = at
		at += run.size
		first += run.length
	}
	return 0, 0, 0, run, false
}

// join looks at the five runs from index at on. It merges neighbouring runs that have the same
// value above 0. Redis does the same, so the bytes are the same.
func (s sketch) join(at int) sketch {
	for n := 0; n < 5 && at < len(s); n++ {
		b := s[at]
		switch {
		case b&0xc0 == 0x40:
			at += 2
			continue
		case b&0x80 != 0 && at+1 < len(s) && s[at+1]>>2 == b>>2:
			if length := b&3 + s[at+1]&3 + 2; length <= maxSparseRun {
				s[at+1] = b&^3 | (length - 1)
				s = slices.Delete(s, at, at+1)
				continue
			}
		}
		at++
	}
	return s
}

// decoded returns the runs of a sparse sketch as text, up to the first damaged run.
func (s sketch) decoded() []byte {
	var text []byte
	for rest := s[sketchHeader:]; len(rest) > 0; {
		run, ok := readRun(rest)
		if !ok {
			break
		}
		switch {
		case run.value > 0:
			text = append(text, "v:"...)
			text = append(strconv.AppendInt(text, int64(run.value), 10), ',')
		case run.size == 2:
			text = append(text, "Z:"...)
		default:
			text = append(text, "z:"...)
		}
		text = append(strconv.AppendInt(text, int64(run.length), 10), ' ')
		rest = rest[run.size:]
	}
	return bytes.TrimSuffix(text, []byte(" "))
}

// cardinality estimates how many elements were added to a sketch with these registers. Otmar Ertl
// describes the method in "New cardinality estimation algorithms for HyperLogLog sketches"
// (arXiv:1702.01284).
func cardinality(registers *[sketchRegisters]byte) uint64 {
	const (
		m        = float64(sketchRegisters)
		longest  = 64 - sketchBits // zeros that a hash can have
		alphaInf = 0.721347520444481703680
	)
	var counts [64]int
	for _, r := range registers {
		counts[r&63]++
	}
	z := m * tau((m-float64(counts[longest+1]))/m)
	for j := longest; j >= 1; j-- {
		z += float64(counts[j])
		z *= 0.5
	}
	z += float64(m * sigma(float64(counts[0])/m))
	e := math.Round(alphaInf * m * m / z)
	if e >= 1<<63 {
		return 1 << 63 // damaged registers that no hash can have set
	}
	return uint64(e)
}

// sigma and tau correct the estimate for registers that are 0, and for those with the largest
// value. The conversions to float64 keep the compiler from fusing two operations, which would
// change the last digits.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := math.NaN(); before != z; {
		x *= x
		before = z
		z += float64(x * y)
		y += y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := math.NaN(); before != z; {
		x = math.Sqrt(x)
		before = z
		y *= 0.5
		z -= float64(float64((1-x)*(1-x)) * y)
	}
	return z / 3
}

// registerOf returns the register of an element, and the value to which the element raises it.
func registerOf(element []byte) (register int, value byte) {
	hash := murmur(element, sketchSeed)
	rest := hash>>sketchBits | 1<<(64-sketchBits)
	return int(hash & (sketchRegisters - 1)), byte(bits.TrailingZeros64(rest)) + 1
}

// murmur returns the MurmurHash64A of data.
func murmur(data []byte, seed uint64) uint64 {
	const (
		m = 0xc6a4a7935bd1e995
		r = 47
	)
	h := seed ^ uint64(len(data))*m
	for ; len(data) >= 8; data = data[8:] {
		k := binary.LittleEndian.Uint64(data) * m
		k ^= k >> r
		h = (h ^ k*m) * m
	}
	if len(data) > 0 {
		var last [8]byte
		copy(last[:], data)
		h = (h ^ binary.LittleEndian.Uint64(last[:])) * m
	}
	h ^= h >> r
	h *= m
	return h ^ h>>r
}
