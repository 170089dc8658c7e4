package lua

import "unsafe"

// String is a Lua string: bytes that never change, and their hash once hashOf has computed it.
type String struct {
	header
	hashed bool
	hash   uint32
	s      string
}

// Short strings are in one allocation with their String; these are the sizes.
type (
	string8 struct {
		String
		b [8]byte
	}
	string24 struct {
		String
		b [24]byte
	}
	string40 struct {
		String
		b [40]byte
	}
	string72 struct {
		String
		b [72]byte
	}
	string104 struct {
		String
		b [104]byte
	}
)

const stringSize = int64(unsafe.Sizeof(String{}))

// single are the strings of one byte, and empty the one of none. All states share them.
var (
	single [256]String
	empty  = String{header: header{kind: KindString, shared: true}, hashed: true}
)

func init() {
	for i := range single {
		s := string([]byte{byte(i)})
		single[i] = String{header: header{kind: KindString, shared: true}, hashed: true,
			hash: hashString(s), s: s}
	}
}

// Constant returns a string that all states may share and that no state counts. It is for names
// that a library looks up, and is made once.
func Constant(s string) Value { return Value{ref: &newConstant(s).header} }

func newConstant(s string) *String {
	return &String{header: header{kind: KindString, shared: true}, hashed: true,
		hash: hashString(s), s: s}
}

// String returns s as a value. The bytes are not copied.
func (L *State) String(s string) Value {
	switch len(s) {
	case 0:
		return Value{ref: &empty.header}
	case 1:
		return Value{ref: &single[s[0]].header}
	}
	L.account(stringBytes(len(s)))
	return Value{ref: &(&String{header: header{kind: KindString}, s: s}).header}
}

// Bytes returns a copy of b as a string.
func (L *State) Bytes(b []byte) Value {
	switch len(b) {
	case 0:
		return Value{ref: &empty.header}
	case 1:
		return Value{ref: &single[b[0]].header}
	}
	L.account(stringBytes(len(b)))
	return Value{ref: &copyString(L, b).header}
}

// Copy returns a copy of s as a string. It is for a part of a text, which would keep the whole text
// alive.
func (L *State) Copy(s string) Value {
	switch len(s) {
	case 0:
		return Value{ref: &empty.header}
	case 1:
		return Value{ref: &single[s[0]].header}
	}
	L.account(stringBytes(len(s)))
	return Value{ref: &copyString(L, s).header}
}

// copyString makes a String of a copy of b, in one allocation when it is short. The cases repeat
// each other because Go allocates only arrays of fixed sizes. A single size would waste memory on
// short strings, and a second allocation would take time for every string that a script makes.
func copyString[Bytes string | []byte](L *State, b Bytes) *String {
	var s *String
	var room []byte
	switch n := len(b); {
	case n <= 8:
		o := &string8{}
		s, room = &o.String, o.b[:n]
	case n <= 24:
		o := &string24{}
		s, room = &o.String, o.b[:n]
	case n <= 40:
		o := &string40{}
		s, room = &o.String, o.b[:n]
	case n <= 72:
		o := &string72{}
		s, room = &o.String, o.b[:n]
	case n <= 104:
		o := &string104{}
		s, room = &o.String, o.b[:n]
	default:
		room = make([]byte, 0, n)
		for ; len(b) > copyEvery; b = b[copyEvery:] {
			room = append(room, b[:copyEvery]...)
			L.Check()
		}
		room = append(room, b...)
		return &String{header: header{kind: KindString}, s: unsafe.String(&room[0], n)}
	}
	copy(room, b)
	s.kind = KindString
	s.s = unsafe.String(&room[0], len(room)) // nothing else refers to room, so it never changes
	return s
}

// stringBytes returns about how much memory a string of n bytes takes.
func stringBytes(n int) int64 { return stringSize + roundBytes(int64(n)) }

// hashOf returns a string's hash and stores it. Shared strings have their hash from the start, so
// this never writes to one.
func (s *String) hashOf() uint32 {
	if !s.hashed {
		s.hash, s.hashed = hashString(s.s), true
	}
	return s.hash
}

// hashString returns Lua 5.1's hash, so the order of pairs is that of Redis. Of a long string it
// reads only some 32 bytes.
func hashString(s string) uint32 {
	n := len(s)
	h := uint32(n)
	step := n>>5 + 1
	for i := n; i >= step; i -= step {
		h ^= h<<5 + h>>2 + uint32(s[i-1])
	}
	return h
}

// text returns b as a string without a copy. The string is valid until b is written to.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// own makes a string of bytes that nothing else refers to and that are counted already.
func own(b []byte) Value {
	s := &String{header: header{kind: KindString}, s: text(b)}
	return Value{ref: &s.header}
}
