package storage

import (
	"strconv"

	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/object"
	"keyp/storage/slab"
)

// Item is a live key as a transaction or a walk sees it. It is valid until the
// transaction's next mutation or End, or until the walk's visitor returns.
type Item struct {
	b slab.Block
	o *Object
}

func (p *part) item(c cell) Item {
	if c.Is(hashtable.Obj) {
		return Item{o: p.objects.at(c.Ref())}
	}
	return Item{b: p.slabs.At(c.Ref())}
}

// IsZero reports whether it is the zero Item, which has no value.
func (it Item) IsZero() bool { return it.o == nil && it.b == nil }

// Type returns the type of the value.
func (it Item) Type() object.Type {
	if it.o != nil {
		return it.o.val.Type()
	}
	return object.TypeString
}

// Key returns the name of the key.
func (it Item) Key() []byte {
	if it.o != nil {
		return it.o.name()
	}
	return it.b.Key()
}

// String returns the value of a string. For any other type it returns ErrWrongType.
func (it Item) String() ([]byte, error) {
	if it.o == nil {
		return it.b.Value(), nil
	}
	if s, ok := it.o.val.(*object.String); ok {
		return s.Data, nil
	}
	return nil, ErrWrongType
}

// Deadline returns the key's own deadline in Unix milliseconds, or 0 if it has none.
func (it Item) Deadline() int64 {
	if it.o != nil {
		return it.o.deadline
	}
	return it.b.Deadline()
}

// created returns the Unix second in which the deadline was set.
func (it Item) created() uint32 {
	if it.o != nil {
		return it.o.created
	}
	return it.b.Created()
}

// DeadlineSet returns the Unix second in which a write set the key's deadline. MoveDeadline does
// not change it.
func (it Item) DeadlineSet() int64 { return int64(it.created()) }

// Due returns the earliest of the deadlines of the key and of its elements, in Unix milliseconds. 0
// means that there is none.
func (it Item) Due() int64 {
	switch {
	case it.o == nil:
		return it.b.Deadline()
	case it.o.pinned():
		return format.Earlier(it.o.deadline, it.o.val.Earliest())
	default:
		return it.o.due()
	}
}

// Access returns the Unix second of the last access that was noted. While LFU counting is on, it
// returns a word of another form (Frequency).
func (it Item) Access() uint32 {
	if it.o != nil {
		return it.o.access
	}
	return it.b.Access()
}

func (it Item) setAccess(word uint32) {
	if it.o != nil {
		it.o.access = word
	} else if it.b.Access() != word { // a write would take the cache line from others
		it.b.SetAccess(word)
	}
}

// Memory returns about how many bytes of memory the key takes, including its cell in the table.
func (it Item) Memory() int {
	const cells = 11 // a cell at the usual load
	if it.o != nil {
		return it.o.bytes() + cells
	}
	return cap(it.b) + cells
}

// embeddedLimit is the longest string whose encoding Redis calls embstr.
const embeddedLimit = 44

// Encoding returns the name of the value's encoding, as OBJECT ENCODING replies it.
func (it Item) Encoding() string {
	if it.o != nil {
		if v, ok := it.o.val.(interface{ Encoding() string }); ok {
			return v.Encoding()
		}
	}
	value, err := it.String()
	if err != nil {
		return ""
	}
	if it.flags()&flagRaw != 0 {
		return "raw"
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil &&
		strconv.FormatInt(n, 10) == string(value) {
		return "int"
	}
	if len(value) <= embeddedLimit {
		return "embstr"
	}
	return "raw"
}

func (it Item) flags() byte {
	if it.o != nil {
		return it.o.flags
	}
	return *it.b.Flags()
}

// Value returns the value of a collection or of a large string; the caller may only read it. For a
// small string it returns nil; String returns that. In a transaction the value has no due elements,
// unless it is pinned. Elsewhere it may have them.
func (it Item) Value() object.Value {
	if it.o == nil {
		return nil
	}
	return it.o.val
}
