package object

// Hash is a hash: element keys are fields, each with a value and perhaps a deadline.
// Slices that it gives are valid until it changes, and must not be handed back to it.
type Hash struct{ members }

func hashRule() rule {
	l := limits.Load()
	return rule{entries: l.HashEntries, size: l.HashValue}
}

// Type is TypeHash.
func (h *Hash) Type() Type { return TypeHash }

// Put sets a field, as replay or a load from disk found it.
func (h *Hash) Put(elem, val []byte, deadline int64) error {
	h.put(hashRule(), elem, val, deadline)
	return nil
}

// Get gives a field's value and deadline; ok is false where there is no such field.
func (h *Hash) Get(field []byte) (val []byte, deadline int64, ok bool) { return h.Element(field) }

// Set gives a field a value and a deadline, 0 for none, and reports whether it is new.
func (h *Hash) Set(field, val []byte, deadline int64) (created bool) {
	return h.put(hashRule(), field, val, deadline)
}

// Delete removes a field and reports whether it existed.
func (h *Hash) Delete(field []byte) bool { return h.delete(field) }

// At is the field number i, below Len, in an order that lasts until the next change: a
// random number gives a random field.
func (h *Hash) At(i int) (field, val []byte, deadline int64) {
	e := h.at(i)
	return e.key, e.val, e.deadline
}

// Reserve prepares for a command that sets n fields: as in Redis the hash becomes a large one
// at once if they are too many for a small one, new or not.
func (h *Hash) Reserve(n int) { h.reserve(hashRule(), n) }

// Encoding is what OBJECT ENCODING replies.
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
