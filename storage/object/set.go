package object

// Set is a set. Each member is stored as an element, whose key is the member. Members may have
// deadlines. A small set of integers without deadlines is sorted (ints.go); any other small set has
// its members in the order of addition. Slices that methods return are valid until the set changes,
// and must not be passed back to it.
type Set struct{ members }

func setRule() rule {
	l := thresholds.Load()
	return rule{entries: l.SetEntries, size: l.SetValue}
}

// Type returns TypeSet.
func (s *Set) Type() Type { return TypeSet }

// Put adds a member that replay or a load from disk has read. It returns an error if val is not
// empty.
func (s *Set) Put(elem, val []byte, deadline int64) error {
	if len(val) != 0 {
		return errBadElement
	}
	s.Add(elem, deadline)
	return nil
}

func (s *Set) ints() bool { return s.small.has(flagInts) }

// Add adds a member or sets its deadline (0: none), and reports whether the member is new.
func (s *Set) Add(member []byte, deadline int64) (created bool) {
	if s.big == nil && (s.small == nil || s.ints()) {
		if v, ok := parseInt(member); ok && deadline == 0 {
			return s.addInt(v)
		}
		s.spell()
	}
	return s.put(setRule(), member, nil, deadline)
}

func (s *Set) addInt(v int64) bool {
	i, ok := s.small.findInt(v)
	if ok {
		return false
	}
	s.small.insertInt(i, v)
	if s.small.len() > thresholds.Load().SetInts {
		s.enlarge()
	}
	return true
}

// enlarge changes a set of integers to the large form, even if it could be another small set.
func (s *Set) enlarge() {
	s.spell()
	if s.big == nil {
		s.grow(setRule())
	}
}

// spell changes a set of integers to a set of texts. The set stays small if there is room for one
// more member, as in Redis; otherwise it becomes large.
func (s *Set) spell() {
	old := s.small
	if old == nil {
		return
	}
	s.small = nil
	r := setRule()
	s.reserve(r, old.len()+1)
	var buf [20]byte
	for i := range old.len() {
		s.put(r, old.appendInt(buf[:0], i), nil, 0)
	}
}

// Element returns a member's deadline (0: none); ok is false if there is no such member.
func (s *Set) Element(elem []byte) (val []byte, deadline int64, ok bool) {
	if s.ints() {
		v, isInt := parseInt(elem)
		if isInt {
			_, ok = s.small.findInt(v)
		}
		return nil, 0, ok
	}
	return s.members.Element(elem)
}

// Has returns a member's deadline (0: none); ok is false if there is no such member.
func (s *Set) Has(member []byte) (deadline int64, ok bool) {
	_, deadline, ok = s.Element(member)
	return deadline, ok
}

// Delete removes a member and reports whether it existed.
func (s *Set) Delete(member []byte) bool {
	if !s.ints() {
		return s.delete(member)
	}
	v, ok := parseInt(member)
	if !ok {
		return false
	}
	i, ok := s.small.findInt(v)
	if ok {
		s.small.removeInt(i)
	}
	return ok
}

// Remove removes a member, if it exists.
func (s *Set) Remove(elem []byte) { s.Delete(elem) }

// At returns member number i, which must be below Len. The order lasts until the next change, so a
// random number gives a random member.
func (s *Set) At(i int) (member []byte, deadline int64) {
	if s.ints() {
		return s.small.appendInt(nil, i), 0
	}
	e := s.at(i)
	return e.key, e.deadline
}

// Walk visits all members until fn returns false.
func (s *Set) Walk(fn func(elem, val []byte, deadline int64) bool) {
	if !s.ints() {
		s.members.Walk(fn)
		return
	}
	var buf [20]byte
	for i := range s.small.len() {
		if !fn(s.small.appendInt(buf[:0], i), nil, 0) {
			return
		}
	}
}

// Scan visits members as members.Scan does.
func (s *Set) Scan(cursor uint64, count int,
	fn func(elem, val []byte, deadline int64)) (next uint64) {
	if !s.ints() {
		return s.members.Scan(cursor, count, fn)
	}
	s.Walk(func(elem, val []byte, deadline int64) bool {
		fn(elem, val, deadline)
		return true
	})
	return 0
}

// Reserve prepares for a command that adds n members; first is the first of them. As in Redis, the
// set becomes large at once if n is too much for a small one, even if the members exist already.
func (s *Set) Reserve(n int, first []byte) {
	ints := s.ints()
	if s.small == nil {
		_, ints = parseInt(first)
	}
	switch {
	case s.big != nil || ints && n <= thresholds.Load().SetInts:
	case ints:
		s.enlarge()
	default:
		s.reserve(setRule(), n)
	}
}

// Encoding returns the reply of OBJECT ENCODING.
func (s *Set) Encoding() string {
	switch {
	case s.big != nil:
		return "hashtable"
	case s.ints():
		return "intset"
	default:
		return "listpack"
	}
}
