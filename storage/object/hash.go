package object

// Hash is a hash. Each field is stored as an element, whose key is the field. It has a value and
// perhaps a deadline. Slices that it returns are valid until it changes, and must not be passed
// back to it.
type Hash struct{ members }

func hashRule() rule {
	l := thresholds.Load()
	return rule{entries: l.HashEntries, size: l.HashValue}
}

// Type returns TypeHash.
func (h *Hash) Type() Type { return TypeHash }

// Put sets a field that replay or a load from disk has read. It returns no error.
func (h *Hash) Put(elem, val []byte, deadline int64) error {
	h.put(hashRule(), elem, val, deadline)
	return nil
}

// Get returns a field's value and deadline (0: none); ok is false if there is no such field.
func (h *Hash) Get(field []byte) (val []byte, deadline int64, ok bool) { return h.Element(field) }

// Set sets a field's value and deadline (0: none), and reports whether the field is new.
func (h *Hash) Set(field, val []byte, deadline int64) (created bool) {
	return h.put(hashRule(), field, val, deadline)
}

// Delete removes a field and reports whether it existed.
func (h *Hash) Delete(field []byte) bool { return h.delete(field) }

// At returns field number i, which must be below Len. The order lasts until the next change, so a
// random number gives a random field.
func (h *Hash) At(i int) (field, val []byte, deadline int64) {
	e := h.at(i)
	return e.key, e.val, e.deadline
}

// Reserve prepares for a command that sets n fields. As in Redis, the hash becomes large at once if
// n is too much for a small one, even if the fields exist already.
func (h *Hash) Reserve(n int) { h.reserve(hashRule(), n) }

// Encoding returns the reply of OBJECT ENCODING.
func (h *Hash) Encoding() string {
	switch {
	case h.big != nil:
		return "hashtable"
	case h.small.has(flagEx):
		return "listpackex"
	default:
		return "listpack"
	}
}
