package scripting

import (
	"unsafe"

	"keyp/scripting/lua"
)

// checkEvery is the number of bytes that a loop handles between two checks for a killed script.
const checkEvery = 1 << 14

// buffer collects the text that a builtin makes. Its memory is counted before it is allocated.
//
// The state measures only objects that programs can reach, and a buffer is not among them. So a
// builtin that uses a buffer must not allocate Lua objects or call the program meanwhile. A builtin
// that calls the program uses a heldBuffer.
type buffer struct {
	L *lua.State
	b []byte
}

// room makes sure that n more bytes fit.
func (b *buffer) room(n int) {
	if n > cap(b.b)-len(b.b) {
		b.grow(n)
	}
}

func (b *buffer) grow(n int) {
	const least = 64
	size := max(len(b.b)+n, 2*cap(b.b), least)
	if size > least {
		b.L.Check()
		b.L.Reserve(size + cap(b.b))
	}
	b.b = b.L.Append(make([]byte, 0, size), textOf(b.b))
}

func (b *buffer) byte(c byte) {
	if len(b.b) == cap(b.b) {
		b.grow(1)
	}
	b.b = append(b.b, c)
}

func (b *buffer) text(s string) {
	b.room(len(s))
	b.b = b.L.Append(b.b, s)
}

// repeat adds a byte n times.
func (b *buffer) repeat(c byte, n int) {
	if n <= 0 {
		return
	}
	b.room(n)
	for i := range n {
		if i%checkEvery == checkEvery-1 {
			b.L.Check()
		}
		b.b = append(b.b, c)
	}
}

// value makes the text a Lua string.
func (b *buffer) value() lua.Value {
	const small = 1 << 10
	if len(b.b) < small || len(b.b) < cap(b.b)-cap(b.b)/8 {
		return b.L.Bytes(b.b)
	}
	return b.L.String(unsafe.String(&b.b[0], len(b.b))) // nobody writes to it any more
}

// heldBuffer is a buffer that the state measures: its memory is also a string on the builtin's
// stack. That string must be on top of the stack whenever the buffer grows.
type heldBuffer struct{ buffer }

// hold puts an empty heldBuffer on the stack.
func hold(L *lua.State) heldBuffer {
	L.Push(lua.Nil)
	return heldBuffer{buffer{L: L}}
}

func (b *heldBuffer) text(s string) {
	if len(s) > cap(b.b)-len(b.b) {
		b.grow(len(s))
		b.L.Pop(1)
		b.L.Push(b.L.String(unsafe.String(unsafe.SliceData(b.b), cap(b.b))))
	}
	b.b = b.L.Append(b.b, s)
}

// finish takes the buffer off the stack and pushes its text.
func (b *heldBuffer) finish() {
	v := b.value()
	b.L.Pop(1)
	b.L.Push(v)
}

// textOf returns b as a string without a copy. The string is valid until b is written to.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns a string's bytes, which must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
