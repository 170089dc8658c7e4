package commands

import "keyp/storage/object"

// Like Redis, Keyp counts entries as they are added and as groups read them. In two cases it does
// not know how many entries a group has read. One is XGROUP CREATE or SETID with an ID within the
// stream and without ENTRIESREAD. In the other an entry beyond the group's ID was deleted.

// holed reports whether an entry after an ID may have been deleted. The ID must not be after that
// of the last entry.
func holed(s *object.Stream, id object.StreamID) bool {
	deleted := s.MaxDeleted()
	return s.Entries() > 0 && deleted != object.StreamID{} && id.Compare(deleted) <= 0
}

// readOn returns the number of entries that a group has read after it reads the entry id, or -1 if
// it is not known. n is the number up to the entry before.
func readOn(s *object.Stream, n int64, before, id object.StreamID) int64 {
	first, _ := s.First()
	switch {
	case n >= 0 && before.Compare(first) >= 0 && !holed(s, before):
		return n + 1
	case s.Added() > 0:
		return readUpTo(s, id)
	}
	return n
}

// readUpTo returns the number of entries ever added up to an ID, or -1 if it is not known.
func readUpTo(s *object.Stream, id object.StreamID) int64 {
	added, entries := int64(s.Added()), int64(s.Entries())
	first, _ := s.First()
	last, deleted := s.LastID(), s.MaxDeleted()
	switch {
	case added == 0:
		return 0
	case entries == 0 && id.Compare(last) <= 0:
		return added
	case id != object.StreamID{} && id.Compare(deleted) < 0:
		return -1
	case id == last:
		return added
	case id.Compare(last) > 0, deleted != object.StreamID{} && deleted.Compare(first) >= 0:
		return -1
	case id.Compare(first) < 0:
		return added - entries
	case id == first:
		return added - entries + 1
	}
	return -1
}

// groupLag returns the number of entries that a group has yet to read, or false if it is not known.
func groupLag(s *object.Stream, g *object.StreamGroup) (int64, bool) {
	added := int64(s.Added())
	if added == 0 || s.Entries() == 0 {
		return 0, true
	}
	first, _ := s.First()
	if g.LastID.Compare(first) < 0 && s.MaxDeleted().Compare(first) < 0 {
		return int64(s.Entries()), true
	}
	if read := g.EntriesRead(); read >= 0 && !holed(s, g.LastID) {
		return added - read, true
	}
	read := readUpTo(s, g.LastID)
	return added - read, read >= 0
}
