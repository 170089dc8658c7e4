package raftlog

import (
	"fmt"
	"sort"
)

// state is what a log's records amount to: the term, the vote, and where each entry is. It has no
// data of entries.
type state struct {
	id    Identity
	begun bool // a head was seen
	hard  hard
	// floor is the index after which all entries are there, up to last; its term is 0 if it is
	// not known. While a log is read, it comes from the first head, and the base is found at
	// the end. Later it is the base.
	floor, floorTerm uint64
	base             Base
	last             uint64
	terms            []span
	table            table
	rotations        []rotation // in order
}

// span is a run of entries with the same term; the run begins with an index.
type span struct{ index, term uint64 }

// rotation is a segment that begins with a head.
type rotation struct {
	segment uint64 // 0 while the log is read
	place   uint64 // of its head
	after   uint64 // reading from here on gives all entries after this one
	base    Base   // of its head, or of a snapshot that has come since
}

// term returns an entry's term; it is 0 if it is not known.
func (s *state) term(index uint64) uint64 {
	switch n := sort.Search(len(s.terms), func(i int) bool { return s.terms[i].index > index }); {
	case index > s.last || index < s.floor:
		return 0
	case index == s.floor:
		return s.floorTerm
	default:
		return s.terms[n-1].term
	}
}

// apply adds the record after a position. It changes nothing if the record contradicts the earlier
// ones.
func (s *state) apply(r *record, place uint64) error {
	if err := s.check(r); err != nil {
		return err
	}
	if r.hard != nil {
		s.hard = *r.hard
	}
	switch {
	case r.head && !s.begun:
		s.id, s.begun = r.id, true
		s.floor, s.floorTerm, s.last = r.last, r.term, r.last
		s.rotate(place, *r.base)
	case r.head:
		s.rotate(place, *r.base)
	default:
		if r.base != nil {
			s.restore(*r.base)
		}
		if len(r.entries) > 0 {
			s.add(r.first, r.entries, place)
		}
	}
	s.hard.commit = min(s.hard.commit, s.last)
	return nil
}

// check reports how a record contradicts those before it.
func (s *state) check(r *record) error {
	last, hard := s.last, s.hard
	switch {
	case !s.begun && !r.head:
		return fmt.Errorf("the first record is no head")
	case r.head:
		return s.checkHead(r)
	case r.hard != nil && (r.hard.term < hard.term ||
		r.hard.term == hard.term && hard.vote != 0 && r.hard.vote != hard.vote):
		return fmt.Errorf("term %d with vote %d comes after term %d with vote %d", r.hard.term,
			r.hard.vote, hard.term, hard.vote)
	case r.hard != nil && r.hard.commit < hard.commit:
		return fmt.Errorf("the commit index %d comes after %d", r.hard.commit, hard.commit)
	case r.base != nil && r.base.Index < max(hard.commit, s.base.Index):
		return fmt.Errorf("a snapshot that ends with entry %d comes after entry %d was committed",
			r.base.Index, max(hard.commit, s.base.Index))
	case r.base != nil:
		last = r.base.Index
	}
	if len(r.entries) == 0 {
		return nil
	}
	if r.hard != nil {
		hard.term = r.hard.term
	}
	before := uint64(0)
	switch {
	case r.first > last+1:
		return fmt.Errorf("entry %d follows entry %d", r.first, last)
	case r.first <= max(hard.commit, s.base.Index) && r.base == nil:
		return fmt.Errorf("entry %d comes again, and %d was committed", r.first,
			max(hard.commit, s.base.Index))
	case r.base != nil && r.first <= last:
		return fmt.Errorf("entry %d comes with a snapshot that ends with %d", r.first, last)
	case r.base != nil:
		before = r.base.Term
	default:
		before = s.term(r.first - 1)
	}
	for i, e := range r.entries {
		if e.term < before || e.term > hard.term {
			return fmt.Errorf("entry %d of term %d comes after one of term %d, in term %d",
				r.first+uint64(i), e.term, before, hard.term)
		}
		before = e.term
	}
	return nil
}

// checkHead is check for a head.
func (s *state) checkHead(r *record) error {
	switch {
	case r.base.Index > r.last:
		return fmt.Errorf("a head has the base %d, and entries up to %d", r.base.Index, r.last)
	case !s.begun:
		return nil
	case r.id != s.id:
		return fmt.Errorf("a head is that of %+v, and this log is that of %+v", r.id, s.id)
	case r.hard.term != s.hard.term || r.hard.vote != s.hard.vote || r.hard.commit < s.hard.commit:
		return fmt.Errorf("a head has the hard state %+v, and before it was %+v", *r.hard, s.hard)
	case r.last != s.last:
		return fmt.Errorf("a head has entries up to %d, and there are those up to %d", r.last,
			s.last)
	}
	for _, known := range [...]span{{r.last, r.term}, {r.base.Index, r.base.Term}} {
		if term := s.term(known.index); term != 0 && term != known.term {
			return fmt.Errorf("a head has entry %d of term %d, and it is of term %d", known.index,
				known.term, term)
		}
	}
	return nil
}

func (s *state) rotate(place uint64, base Base) {
	s.rotations = append(s.rotations, rotation{place: place, after: s.last, base: base})
}

// restore replaces all entries by a snapshot.
func (s *state) restore(base Base) {
	s.base, s.floor, s.floorTerm, s.last = base, base.Index, base.Term, base.Index
	s.terms, s.table = nil, table{}
	for i := range s.rotations {
		s.rotations[i].after, s.rotations[i].base = base.Index, base
	}
}

// add adds the entries of one record. They replace the entries from their first one on.
func (s *state) add(first uint64, entries []entry, place uint64) {
	if first <= s.last {
		s.table.cut(first)
		n := sort.Search(len(s.terms), func(i int) bool { return s.terms[i].index >= first })
		s.terms = s.terms[:n]
		for i := range s.rotations {
			s.rotations[i].after = min(s.rotations[i].after, first-1)
		}
		if first <= s.floor {
			s.floor, s.floorTerm = first-1, 0
		}
	}
	s.table.add(first, place)
	for i, e := range entries {
		if n := len(s.terms); n == 0 || s.terms[n-1].term != e.term {
			s.terms = append(s.terms, span{first + uint64(i), e.term})
		}
	}
	s.last = first + uint64(len(entries)) - 1
}

// begin sets the log's base to the lowest one after which it has all entries.
func (s *state) begin() error {
	if !s.begun {
		return fmt.Errorf("it has no record")
	}
	base, ok := lowest(s.rotations, s.floor)
	if !ok {
		return fmt.Errorf(
			"no head has a base after which all entries are there, which are those after %d",
			s.floor)
	}
	if term := s.term(base.Index); term != 0 && term != base.Term {
		return fmt.Errorf("the base is entry %d of term %d, and it is of term %d", base.Index,
			base.Term, term)
	}
	s.rebase(base)
	return nil
}

// lowest returns the lowest base that is not before an index. A later head may have a lower base,
// because a restarted member has at first applied less than before.
func lowest(list []rotation, index uint64) (base Base, ok bool) {
	for _, r := range list {
		if r.base.Index >= index && (!ok || r.base.Index < base.Index) {
			base, ok = r.base, true
		}
	}
	return base, ok
}

// rebase sets the log's base to one whose entry it has.
func (s *state) rebase(base Base) {
	s.base, s.floor, s.floorTerm = base, base.Index, base.Term
	s.table.drop(base.Index)
	n := sort.Search(len(s.terms), func(i int) bool { return s.terms[i].index > base.Index+1 })
	if n > 1 {
		s.terms = append([]span(nil), s.terms[n-1:]...)
	}
}

// needed returns the index in rotations of the newest rotation from which a log can be opened for
// index. From that rotation on all entries after index must be there, with a base that is not
// beyond index. needed returns -1 if there is none.
func (s *state) needed(index uint64) int {
	for i := len(s.rotations) - 1; i >= 0; i-- {
		if base, ok := lowest(s.rotations[i:], s.rotations[i].after); ok && base.Index <= index {
			return i
		}
	}
	return -1
}
