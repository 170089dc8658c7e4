package commands

import (
	"bytes"
	"encoding/binary"
	"math"

	"keyp/storage"
)

var bitFieldCommands = []Spec{
	{
		Name: "BITFIELD", Group: Bitmap, Since: "3.2.0",
		Summary:    "Reads, sets and adds to integers of any width at any bits of a string.",
		Complexity: "O(1) for each operation, and O(N) in the zeros added.",
		Arity:      -2, Flags: Write | DenyOOM,
		Keys: []KeySpec{{Begin: 1, Flags: RW | Access | Update | VariableFlags,
			Vary: bitFieldFlags}},
		Args: []Arg{keyArg("key"), oneOf("operation",
			getFieldArg,
			block("write",
				oneOf("overflow-block", word("WRAP"), word("SAT"),
					word("FAIL")).after("OVERFLOW").opt(),
				oneOf("write-operation",
					block("set-block", stringArg("encoding"), intArg("offset"),
						intArg("value")).after("SET"),
					block("incrby-block", stringArg("encoding"), intArg("offset"),
						intArg("increment")).after("INCRBY"))),
		).opt().many()},
		Run: func(c *Ctx) error { return runBitField(c, false) },
	},
	{
		Name: "BITFIELD_RO", Group: Bitmap, Since: "6.0.0",
		Summary:    "Reads integers of any width at any bits of a string.",
		Complexity: "O(1) for each integer.",
		Arity:      -2, Flags: ReadOnly | Fast,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), getFieldArg.opt().manyTimes()},
		Run:  func(c *Ctx) error { return runBitField(c, true) },
	},
}

var getFieldArg = block("get-block", stringArg("encoding"), intArg("offset")).after("GET")

// The errors of BITFIELD.
const (
	errFieldType     Error = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
	errFieldOverflow Error = "ERR Invalid OVERFLOW type specified"
	errFieldWrites   Error = "ERR BITFIELD_RO only supports the GET subcommand"
)

// bitField is an integer within a string.
type bitField struct {
	off    int64 // of its highest bit
	width  int   // in bits, up to 64, or 63 without a sign
	signed bool
}

// fieldOperation is one operation of BITFIELD.
type fieldOperation struct {
	bitField
	kind     fieldKind
	overflow fieldOverflow
	operand  int64 // of SET and INCRBY
}

type fieldKind uint8

const (
	getField fieldKind = iota
	setField
	addField
)

type fieldOverflow uint8

const (
	wrapAround fieldOverflow = iota
	saturate
	failOperation
)

// bitFieldFlags returns the key flags of a BITFIELD call. The key counts as only read if all
// operations only read.
func bitFieldFlags(args [][]byte) KeyFlags {
	for i := 2; i < len(args); {
		switch rest := len(args) - i - 1; {
		case isWord(args[i], "GET") && rest >= 2:
			i += 3
		case isWord(args[i], "OVERFLOW") && rest >= 1:
			i += 2
		default:
			return RW | Access | Update
		}
	}
	return RO | Access
}

func (c *Ctx) parseFields(a Cursor) (ops []fieldOperation, err error) {
	var op fieldOperation // OVERFLOW applies to all operations after it
	for a.More() {
		switch {
		case a.Len() > 2 && a.Word("GET"):
			op.kind = getField
		case a.Len() > 3 && a.Word("SET"):
			op.kind = setField
		case a.Len() > 3 && a.Word("INCRBY"):
			op.kind = addField
		case a.Len() > 1 && a.Word("OVERFLOW"):
			switch {
			case a.Word("WRAP"):
				op.overflow = wrapAround
			case a.Word("SAT"):
				op.overflow = saturate
			case a.Word("FAIL"):
				op.overflow = failOperation
			default:
				a.Fail(errFieldOverflow)
			}
			continue
		default:
			return nil, ErrSyntax
		}
		if op.bitField, err = c.bitField(a.Bytes(), a.Bytes()); err != nil {
			return nil, err
		}
		if op.kind != getField {
			op.operand = a.Int()
		}
		ops = append(ops, op)
	}
	return ops, a.Err()
}

// bitField reads a type, such as i16, and an offset. The offset counts bits or, after "#", integers
// of this width.
func (c *Ctx) bitField(typ, offset []byte) (f bitField, err error) {
	if len(typ) == 0 || typ[0] != 'i' && typ[0] != 'u' {
		return f, errFieldType
	}
	f.signed = typ[0] == 'i'
	width, ok := ParseInt(typ[1:])
	if !ok || width < 1 || width > 64 || width == 64 && !f.signed {
		return f, errFieldType
	}
	f.width = int(width)
	if index, found := bytes.CutPrefix(offset, []byte("#")); !found {
		f.off, err = c.bitOffset(offset)
	} else if n, ok := ParseInt(index); !ok || n < 0 || n > math.MaxInt64/width ||
		n*width>>3 >= c.Env.maxBulk() {
		err = errBitOffset
	} else {
		f.off = n * width
	}
	return f, err
}

func runBitField(c *Ctx, readOnly bool) error {
	ops, err := c.parseFields(c.Cursor(2))
	if err != nil {
		return err
	}
	end := int64(0) // the byte behind all that is written
	for _, op := range ops {
		if op.kind != getField {
			end = max(end, op.end())
		}
	}
	if end == 0 {
		value, _, err := c.readString(c.Keys[0])
		if err != nil {
			return err
		}
		c.Out.Array(len(ops))
		for _, op := range ops {
			c.Out.Int(op.value(op.read(value, 0)))
		}
		return nil
	}
	if readOnly {
		return errFieldWrites
	}
	value, _, err := c.String(c.Keys[0])
	if err != nil {
		return err
	}
	grown := int64(len(value)) < end
	w := fieldWriter{c: c}
	switch {
	case grown && end <= fieldWindow: // it is one change with what is written
		w.window = append(append(w.window, value...), make([]byte, end-int64(len(value)))...)
		w.from, w.to = int64(len(value)), end
	case grown:
		c.Txn.WriteRange(c.Keys[0], int(end-1), []byte{0}, storage.Event{})
	}
	c.Out.Array(len(ops))
	for i := range ops {
		w.run(&ops[i])
	}
	w.flush()
	c.Txn.MarkRaw(c.Keys[0])
	if w.changed || w.wrote && grown {
		c.Txn.Notify(c.Keys[0], eventSetBit)
	}
	return nil
}

// end returns the position of the first byte after the field.
func (f *bitField) end() int64 { return (f.off + int64(f.width) + 7) / 8 }

// read returns the bits of the field, in the lowest bits of the result. s is the part of the string
// that begins at byte first. Bits after its end are 0.
func (f *bitField) read(s []byte, first int64) uint64 {
	b := f.load(s, first)
	shift := f.off & 7
	v := binary.BigEndian.Uint64(b[:])<<shift | uint64(b[8])>>(8-shift)
	return v >> (64 - f.width)
}

// write replaces the bits of the field. s must contain all of them.
func (f *bitField) write(s []byte, first int64, v uint64) {
	b := f.load(s, first)
	shift := f.off & 7
	mask := uint64(math.MaxUint64) << (64 - f.width)
	v <<= 64 - f.width
	high := binary.BigEndian.Uint64(b[:])
	binary.BigEndian.PutUint64(b[:], high&^(mask>>shift)|v>>shift)
	b[8] = b[8]&^byte(mask<<(8-shift)) | byte(v<<(8-shift))
	copy(s[f.off>>3-first:f.end()-first], b[:])
}

// load returns the bytes that contain the field, with zeros after the end of s.
func (f *bitField) load(s []byte, first int64) (b [9]byte) {
	if at := f.off>>3 - first; at < int64(len(s)) {
		copy(b[:], s[at:])
	}
	return b
}

// value returns the number that the bits of the field encode.
func (f *bitField) value(bits uint64) int64 {
	if f.signed {
		return int64(bits<<(64-f.width)) >> (64 - f.width)
	}
	return int64(bits)
}

// set returns the new bits of a field for SET or INCRBY. old are the bits before. ok is false if
// the operation overflows and OVERFLOW FAIL applies.
func (op *fieldOperation) set(old uint64) (bits uint64, ok bool) {
	mask := uint64(math.MaxUint64) >> (64 - op.width)
	var sum uint64
	var limit uint64 // to which the operation saturates
	var over bool
	if op.signed {
		sum, limit, over = op.setSigned(op.value(old))
	} else {
		sum, limit, over = op.setUnsigned(old)
	}
	switch {
	case !over || op.overflow == wrapAround:
		return sum & mask, true
	case op.overflow == saturate:
		return limit & mask, true
	}
	return 0, false
}

func (op *fieldOperation) setSigned(old int64) (sum, limit uint64, over bool) {
	most := int64(math.MaxInt64) >> (64 - op.width)
	least := -most - 1
	if op.kind == setField {
		old = 0
	}
	result := old + op.operand
	switch {
	case op.operand > 0 && (result < old || result > most):
		return uint64(result), uint64(most), true
	case op.operand < 0 && (result > old || result < least):
		return uint64(result), uint64(least), true
	}
	return uint64(result), 0, false
}

func (op *fieldOperation) setUnsigned(old uint64) (sum, limit uint64, over bool) {
	most := uint64(math.MaxUint64) >> (64 - op.width)
	operand := uint64(op.operand)
	switch {
	case op.kind == setField: // a negative number is a large one
		return operand, most, operand > most
	case op.operand > 0 && operand > most-old:
		return old + operand, most, true
	case op.operand < 0 && -operand > old:
		return old + operand, 0, true
	}
	return old + operand, 0, false
}

// fieldWriter writes fields of a string that is long enough. It collects the writes in a copy of a
// part of the string, the window. So writes to adjacent fields become one change.
type fieldWriter struct {
	c              *Ctx
	window         []byte
	first          int64 // the window's first byte in the string
	from, to       int64 // what was changed in the window; equal: nothing
	wrote, changed bool  // any operation wrote; changed a bit
}

const fieldWindow = 4 << 10

// view returns the window. If needed it first moves the window so that it contains the field, or
// the part of the field that is within the string.
func (w *fieldWriter) view(f *bitField) []byte {
	if f.off>>3 < w.first || f.end() > w.first+int64(len(w.window)) {
		w.flush()
		value, _, _ := w.c.String(w.c.Keys[0])
		w.first = min(f.off>>3, int64(len(value)))
		w.window = append(w.window[:0],
			value[w.first:min(w.first+fieldWindow, int64(len(value)))]...)
	}
	return w.window
}

// flush writes the changed part of the window.
func (w *fieldWriter) flush() {
	if w.from < w.to {
		w.c.Txn.WriteRange(w.c.Keys[0], int(w.first+w.from), w.window[w.from:w.to], storage.Event{})
	}
	w.from, w.to = 0, 0
}

// run executes an operation and writes its reply.
func (w *fieldWriter) run(op *fieldOperation) {
	window := w.view(&op.bitField)
	old := op.read(window, w.first)
	if op.kind == getField {
		w.c.Out.Int(op.value(old))
		return
	}
	bits, ok := op.set(old)
	if !ok {
		w.c.Out.Null()
		return
	}
	w.wrote = true
	if bits != old {
		w.changed = true
		op.write(window, w.first, bits)
		from, to := op.off>>3-w.first, op.end()-w.first
		if w.from == w.to {
			w.from = from
		}
		w.from, w.to = min(w.from, from), max(w.to, to)
	}
	if op.kind == setField {
		bits = old
	}
	w.c.Out.Int(op.value(bits))
}
