package scripting

import (
	"math"

	"keyp/scripting/lua"
)

// The formats of struct.pack and struct.unpack:
//
//	> <         big endian, little endian                            !n   align to n
//	x           a byte of padding          b B, h H       integers of 1 byte, of 2 bytes
//	l L, T      integers of 8 bytes        f d            floating point
//	iN IN       integer of N bytes; 4 without N
//	s           string up to a NUL         cN             string of N bytes
//	' '         nothing
//
// With c0, pack writes the whole string, and unpack takes the number that it has read just before
// as the length.
const (
	structMaxInt = 32
	structAlign  = 8 // of "!" without a number
)

// structFormat reads a format's options.
type structFormat struct {
	L     *lua.State
	s     string
	at    int
	big   bool
	align int
}

func (st *state) openStruct() {
	st.library("struct", map[string]lua.Builtin{
		"pack": structPack, "unpack": structUnpack, "size": structSize,
	})
}

func newStructFormat(L *lua.State) structFormat {
	return structFormat{L: L, s: L.CheckString(1), align: 1}
}

// number reads the number after an option; without one it returns other.
func (f *structFormat) number(other int) int {
	if f.at >= len(f.s) || !isDigit(f.s[f.at]) {
		return other
	}
	n := 0
	for f.at < len(f.s) && isDigit(f.s[f.at]) {
		digit := int(f.s[f.at] - '0')
		if n > (math.MaxInt32-digit)/10 {
			f.L.Errorf("integral size overflow")
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
			f.L.Errorf("integral size %d is larger than limit of %d", n, structMaxInt)
		}
		return option, n
	}
	return option, 0
}

// control applies an option that is no value.
func (f *structFormat) control(option byte) {
	switch option {
	case ' ':
	case '>':
		f.big = true
	case '<':
		f.big = false
	case '!':
		n := f.number(structAlign)
		if n <= 0 || n&(n-1) != 0 {
			f.L.Errorf("alignment %d is not a power of 2", n)
		}
		f.align = n
	default:
		f.L.ArgError(1, "invalid format option '"+string([]byte{option})+"'")
	}
}

// padding returns the number of bytes that align a value of a size at an offset.
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

func structPack(L *lua.State) int {
	f := newStructFormat(L)
	out := buffer{L: L}
	arg := 1
	for f.at < len(f.s) {
		L.Check()
		option, size := f.option()
		out.repeat(0, f.padding(len(out.b), option, size))
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			arg++
			f.addBits(&out, toUint(packNumber(L, arg)), size)
		case 'x':
			out.byte(0)
		case 'f':
			arg++
			f.addBits(&out, uint64(math.Float32bits(float32(packNumber(L, arg)))), 4)
		case 'd':
			arg++
			f.addBits(&out, math.Float64bits(packNumber(L, arg)), 8)
		case 'c', 's':
			arg++
			s := packString(L, arg)
			if size == 0 {
				size = len(s)
			}
			if option == 'c' && len(s) < size {
				L.ArgError(arg+1, "string too short") // Redis counts so
			}
			out.text(s[:min(size, len(s))])
			if option == 's' {
				out.byte(0)
			}
		default:
			f.control(option)
		}
	}
	L.Push(out.value())
	return 1
}

// packNumber returns an argument of struct.pack; a missing one counts as nil.
func packNumber(L *lua.State, n int) float64 {
	f, ok := L.ToNumber(L.Arg(n))
	if !ok {
		L.ArgError(n, "number expected, got "+L.Arg(n).Kind().String())
	}
	return f
}

// packString is packNumber for strings.
func packString(L *lua.State, n int) string {
	s, ok := L.Arg(n).Text()
	if !ok {
		L.ArgError(n, "string expected, got "+L.Arg(n).Kind().String())
	}
	return s
}

// addBits writes n as size bytes; bytes above the eighth are zeros.
func (f *structFormat) addBits(out *buffer, n uint64, size int) {
	for i := range size {
		at := i
		if f.big {
			at = size - 1 - i
		}
		out.byte(byte(n >> (8 * at)))
	}
}

// bits reads a number from the bytes of s; bytes above the eighth do not count.
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

func structUnpack(L *lua.State) int {
	f := newStructFormat(L)
	data := L.CheckString(2)
	at := L.OptInteger(3, 1) - 1
	if at == -1 {
		L.ArgError(3, "offset must be 1 or greater") // a lower one is very large in C
	}
	n := 0
	for f.at < len(f.s) {
		L.Check()
		option, size := f.option()
		at += f.padding(at, option, size)
		if at < 0 || size > len(data) || at > len(data)-size {
			L.ArgError(2, "data string too short")
		}
		if !L.HasStack(2) {
			L.Errorf("stack overflow (too many results)")
		}
		from := data[at : at+size]
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			L.PushNumber(f.integer(from, option))
			n++
		case 'x':
		case 'f':
			L.PushNumber(float64(math.Float32frombits(uint32(f.bits(from)))))
			n++
		case 'd':
			L.PushNumber(math.Float64frombits(f.bits(from)))
			n++
		case 'c':
			if size == 0 {
				size = f.lengthBefore(n, data[at:])
				n--
			}
			L.Push(part(L, L.Arg(2), data, at, at+size))
			n++
		case 's':
			end := index(L, data[at:], "\x00")
			if end < 0 {
				L.Errorf("unfinished string in data")
			}
			L.Push(part(L, L.Arg(2), data, at, at+end))
			n++
			size = end + 1
		default:
			f.control(option)
		}
		at += size
	}
	L.PushNumber(float64(at + 1))
	return n + 1
}

func (f *structFormat) integer(part string, option byte) float64 {
	n := f.bits(part)
	if option >= 'a' {
		shift := 64 - 8*min(len(part), 8)
		return float64(int64(n<<shift) >> shift)
	}
	return float64(n)
}

// lengthBefore pops the last of n values, which is the length of the string that follows it.
func (f *structFormat) lengthBefore(n int, rest string) int {
	if n == 0 {
		f.L.Errorf("format 'c0' needs a previous size")
	}
	length, ok := f.L.ToNumber(f.L.Top(1))
	if !ok {
		f.L.Errorf("format 'c0' needs a previous size")
	}
	size := int(lua.ToInteger(length))
	if size < 0 || size > len(rest) {
		f.L.ArgError(2, "data string too short")
	}
	f.L.Pop(1)
	return size
}

func structSize(L *lua.State) int {
	f := newStructFormat(L)
	at := 0
	for f.at < len(f.s) {
		L.Check()
		option, size := f.option()
		at += f.padding(at, option, size)
		switch option {
		case 's':
			L.ArgError(1, "option 's' has no fixed size")
		case 'c':
			if size == 0 {
				L.ArgError(1, "option 'c0' has no fixed size")
			}
		default:
			if !isAlpha(option) && !isDigit(option) { // letters without a meaning are skipped
				f.control(option)
			}
		}
		if at > math.MaxInt32-size {
			L.ArgError(1, "too large")
		}
		at += size
	}
	L.PushNumber(float64(at))
	return 1
}
