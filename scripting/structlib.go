package scripting

import (
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The formats of struct.pack and struct.unpack:
//
//	> < =       big endian, little endian, the machine's (little)    !n   align to n
//	x           a byte of padding          b B h H l L T  integers of 1, 2, 8, 8 bytes
//	iN IN       integer of N bytes, 4      f d            floating point
//	s           string up to a NUL         cN             string of N bytes; c0: of the
//	' '         nothing                                   length given before it
const (
	structMaxInt = 32
	structAlign  = 8 // of "!" without a number
)

// structFormat reads a format's options.
type structFormat struct {
	L     *lua.LState
	name  string
	s     string
	at    int
	big   bool
	align int
}

func (st *state) openStruct() {
	st.library("struct", map[string]lua.LGFunction{
		"pack": st.structPack, "unpack": structUnpack, "size": structSize,
	})
}

func newStructFormat(L *lua.LState, name string) structFormat {
	return structFormat{L: L, name: name, s: argString(L, name, 1), align: 1}
}

// number reads the number behind an option, or gives another.
func (f *structFormat) number(other int) int {
	if f.at >= len(f.s) || !isDigit(f.s[f.at]) {
		return other
	}
	n := 0
	for f.at < len(f.s) && isDigit(f.s[f.at]) {
		digit := int(f.s[f.at] - '0')
		if n > (math.MaxInt32-digit)/10 {
			f.L.RaiseError("integral size overflow")
		}
		n = n*10 + digit
		f.at++
	}
	return n
}

// option reads the next option and its size in bytes.
func (f *structFormat) option() (option byte, size int) {
	option = f.s[f.at]
	f.at++
	switch option {
	case 'B', 'b', 'x':
		return option, 1
	case 'H', 'h':
		return option, 2
	case 'L', 'l', 'T', 'd':
		return option, 8
	case 'f':
		return option, 4
	case 'c':
		return option, f.number(1)
	case 'i', 'I':
		n := f.number(4)
		if n > structMaxInt {
			f.L.RaiseError("integral size %d is larger than limit of %d", n, structMaxInt)
		}
		return option, n
	}
	return option, 0
}

// control takes in an option that is no value.
func (f *structFormat) control(option byte) {
	switch option {
	case ' ':
	case '>':
		f.big = true
	case '<', '=':
		f.big = false
	case '!':
		n := f.number(structAlign)
		if n <= 0 || n&(n-1) != 0 {
			f.L.RaiseError("alignment %d is not a power of 2", n)
		}
		f.align = n
	default:
		argError(f.L, f.name, 1, "invalid format option '"+string([]byte{option})+"'")
	}
}

// padding is what stands before a value of a size at a place.
func (f *structFormat) padding(at int, option byte, size int) int {
	if size == 0 || option == 'c' || option == 'x' {
		return 0
	}
	size = min(size, f.align)
	if size <= 1 {
		return 0
	}
	return (size - at&(size-1)) & (size - 1)
}

func (st *state) structPack(L *lua.LState) int {
	f := newStructFormat(L, "pack")
	var out []byte
	arg := 1
	for f.at < len(f.s) {
		option, size := f.option()
		out = append(out, make([]byte, f.padding(len(out), option, size))...)
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			arg++
			out = f.appendInt(out, packNumber(L, arg), size)
		case 'x':
			out = append(out, 0)
		case 'f':
			arg++
			bits := uint64(math.Float32bits(float32(packNumber(L, arg))))
			out = f.appendBits(out, bits, 4)
		case 'd':
			arg++
			out = f.appendBits(out, math.Float64bits(packNumber(L, arg)), 8)
		case 'c', 's':
			arg++
			s := argString(L, "pack", arg)
			if size == 0 {
				size = len(s)
			}
			if option == 'c' && len(s) < size {
				argError(L, "pack", arg+1, "string too short") // Redis counts so
			}
			out = append(out, s[:min(size, len(s))]...)
			if option == 's' {
				out = append(out, 0)
			}
		default:
			f.control(option)
		}
		st.room(L, len(out))
	}
	L.Push(lua.LString(out))
	return 1
}

// packNumber is an argument of struct.pack; one that is not there counts as nil.
func packNumber(L *lua.LState, n int) float64 {
	f, ok := number(L.Get(n))
	if !ok {
		argError(L, "pack", n, "number expected, got "+typeName(L.Get(n)))
	}
	return f
}

func (f *structFormat) appendInt(out []byte, v float64, size int) []byte {
	return f.appendBits(out, toUint(v), size)
}

// appendBits writes the low bytes of n, and zeros for those above the eighth.
func (f *structFormat) appendBits(out []byte, n uint64, size int) []byte {
	start := len(out)
	for i := range size {
		out = append(out, byte(n>>(8*i)))
	}
	if f.big {
		for i, j := start, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
	return out
}

// bits reads a number of size bytes; those above the eighth do not count.
func (f *structFormat) bits(s string) uint64 {
	n := uint64(0)
	for i := range min(len(s), 8) {
		at := i
		if f.big {
			at = len(s) - 1 - i
		}
		n |= uint64(s[at]) << (8 * i)
	}
	return n
}

func structUnpack(L *lua.LState) int {
	f := newStructFormat(L, "unpack")
	data := argString(L, "unpack", 2)
	at := optLong(L, "unpack", 3, 1) - 1
	if at < 0 {
		argError(L, "unpack", 3, "offset must be 1 or greater")
	}
	var values []lua.LValue
	for f.at < len(f.s) {
		option, size := f.option()
		at += f.padding(at, option, size)
		if size > len(data) || at > len(data)-size {
			argError(L, "unpack", 2, "data string too short")
		}
		part := data[at : at+size]
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			values = append(values, lua.LNumber(f.integer(part, option)))
		case 'x':
		case 'f':
			values = append(values, lua.LNumber(math.Float32frombits(uint32(f.bits(part)))))
		case 'd':
			values = append(values, lua.LNumber(math.Float64frombits(f.bits(part))))
		case 'c':
			if size == 0 {
				values, size = f.lengthBefore(values, data[at:])
				part = data[at : at+size]
			}
			values = append(values, piece(data, part))
		case 's':
			end := strings.IndexByte(data[at:], 0)
			if end < 0 {
				L.RaiseError("unfinished string in data")
			}
			values = append(values, piece(data, data[at:at+end]))
			size = end + 1
		default:
			f.control(option)
		}
		at += size
	}
	for _, v := range values {
		L.Push(v)
	}
	L.Push(lua.LNumber(at + 1))
	return len(values) + 1
}

func (f *structFormat) integer(part string, option byte) float64 {
	n := f.bits(part)
	if option >= 'a' {
		shift := 64 - 8*min(len(part), 8)
		return float64(int64(n<<shift) >> shift)
	}
	return float64(n)
}

// lengthBefore takes the last value as the length of the string that follows it.
func (f *structFormat) lengthBefore(values []lua.LValue, rest string) ([]lua.LValue, int) {
	if len(values) == 0 {
		f.L.RaiseError("format 'c0' needs a previous size")
	}
	n, ok := values[len(values)-1].(lua.LNumber)
	if !ok {
		f.L.RaiseError("format 'c0' needs a previous size")
	}
	size := int(toInt(float64(n)))
	if size < 0 || size > len(rest) {
		argError(f.L, f.name, 2, "data string too short")
	}
	return values[:len(values)-1], size
}

func structSize(L *lua.LState) int {
	f := newStructFormat(L, "size")
	at := 0
	for f.at < len(f.s) {
		option, size := f.option()
		at += f.padding(at, option, size)
		switch option {
		case 's':
			argError(L, "size", 1, "option 's' has no fixed size")
		case 'c':
			if size == 0 {
				argError(L, "size", 1, "option 'c0' has no fixed size")
			}
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I', 'x', 'f', 'd':
		default:
			f.control(option)
		}
		if at > math.MaxInt32-size {
			argError(L, "size", 1, "too large")
		}
		at += size
	}
	L.Push(lua.LNumber(at))
	return 1
}
