package storage

import (
	"keyp/storage/object"
	"keyp/ttl"
)

// Stream is a key's stream within a transaction. A stream without entries exists until its key is
// deleted. Most methods call the method of object.Stream with the same name, which has the
// description.
type Stream struct {
	handle
	// logs and quietly are the functions that edit and editQuietly return. They log changes of
	// the value in logged.
	logs, quietly object.Changed
	logged        *Object
}

// Stream opens a key's stream. ErrWrongType: the key has another type.
func (t *Txn) Stream(k Key) (Stream, error) {
	h, err := t.open(k, object.TypeStream)
	return Stream{handle: h}, err
}

var noStream = &object.Stream{}

// Value is the stream, for reading only and until the next change.
func (s *Stream) Value() *object.Stream {
	if o := s.object(); o != nil {
		return o.val.(*object.Stream)
	}
	return noStream
}

// Pinned reports whether an offloaded command reads the value, which must not change meanwhile.
func (s *Stream) Pinned() bool {
	o := s.object()
	return o != nil && o.pinned()
}

// edit returns the stream for changes by this command, and creates the stream if the key is
// missing. It also returns the function that logs a changed element.
func (s *Stream) edit() (*object.Stream, object.Changed) {
	o := s.change()
	v := o.val.(*object.Stream)
	if s.logged != o {
		s.logged, s.quietly = o, nil
		s.logs = func(elem []byte) {
			if val, deadline, ok := v.Element(elem); ok {
				s.put(o, elem, val, ttl.At(deadline))
			} else {
				s.gone(elem)
			}
		}
	}
	v.Create(s.logs)
	return v, s.logs
}

// editQuietly is edit for changes that are not reported to the observer: for Redis they do not
// change the key.
func (s *Stream) editQuietly() (*object.Stream, object.Changed) {
	v, log := s.edit()
	if s.quietly == nil {
		s.quietly = func(elem []byte) {
			s.t.quiet = true
			log(elem)
			s.t.quiet = false
		}
	}
	return v, s.quietly
}

// Signal makes the clients that wait for the key look at it again. The key must exist. For other
// purposes the key has not changed.
func (s *Stream) Signal() { s.t.report(s.t.s.part(s.k).space, s.k.Name, true) }

// Create makes a stream without entries, if the key is missing.
func (s *Stream) Create() { s.edit() }

// Add adds an entry, whose id must be above LastID; fields alternate names and values. The log has
// one record of it.
func (s *Stream) Add(id object.StreamID, fields [][]byte) {
	o := s.change()
	v := o.val.(*object.Stream)
	if !v.Created() {
		s.edit()
	}
	key := object.ListKey(v.Add(id, fields))
	val := object.AppendStreamEntry(s.t.scratch[:0], id, fields)
	s.put(o, key[:], val, ttl.Deadline{})
	if cap(val) <= maxKept {
		s.t.scratch = val
	}
}

// Delete removes an entry and reports whether there was one.
func (s *Stream) Delete(id object.StreamID) bool {
	if _, ok := s.Value().Get(id); !ok {
		return false
	}
	v, log := s.edit()
	return v.Delete(id, log)
}

// TrimFirst removes the first n entries, or all if there are fewer. For more than one the log has
// the first and the last number only.
func (s *Stream) TrimFirst(n int) {
	if n <= 0 || s.Value().Entries() == 0 {
		return
	}
	v, log := s.edit()
	first, last := v.TrimFirst(n, log, s.o.changeRun)
	s.t.cut(s.t.s.part(s.k), s.o, first, last)
}

// SetID sets the results of LastID, Added and MaxDeleted. If the last id is below the present one,
// the log gets the whole stream.
func (s *Stream) SetID(last object.StreamID, added uint64, maxDeleted object.StreamID) {
	v, log := s.editQuietly()
	if last.Compare(v.LastID()) >= 0 {
		v.SetID(last, added, maxDeleted, log)
		return
	}
	v = v.Renumbered()
	v.SetID(last, added, maxDeleted, nil)
	s.renew(v)
}

// CreateGroup adds a group; there must be none of that name.
func (s *Stream) CreateGroup(name []byte, last object.StreamID, entriesRead int64) {
	v, log := s.editQuietly()
	v.CreateGroup(name, last, entriesRead, log)
}

// SetGroup changes the values that CreateGroup has set, for a group that must exist.
func (s *Stream) SetGroup(name []byte, last object.StreamID, entriesRead int64) {
	v, log := s.editQuietly()
	v.SetGroup(name, last, entriesRead, log)
}

// DestroyGroup removes a group with all that it has, and reports whether there was one.
func (s *Stream) DestroyGroup(name []byte) bool {
	if s.Value().Group(name) == nil {
		return false
	}
	v, log := s.editQuietly()
	return v.DestroyGroup(name, log)
}

// CreateConsumer adds a consumer, seen at now (Unix ms), to a group that must exist. It returns
// false if there was one of that name.
func (s *Stream) CreateConsumer(group, name []byte, now int64) bool {
	v, log := s.editQuietly()
	return v.CreateConsumer(group, name, now, log)
}

// DeleteConsumer removes a consumer of a group, which must exist, with its pending entries, and
// returns how many these were; ok is false if there was no consumer of that name.
func (s *Stream) DeleteConsumer(group, name []byte) (pending int, ok bool) {
	v, log := s.editQuietly()
	return v.DeleteConsumer(group, name, log)
}

// Touch sets when a consumer, which must exist, was seen and active (Unix ms; -1: never).
func (s *Stream) Touch(group, consumer []byte, seen, active int64) {
	v, log := s.editQuietly()
	s.t.Uncounted(func() { v.Touch(group, consumer, seen, active, log) })
}

// Deliver makes an entry pending at a consumer of a group, or gives the pending entry to the
// consumer. Group and consumer must exist. With consumer nil the entry goes back to the group.
func (s *Stream) Deliver(group, consumer []byte, id object.StreamID, delivered, count int64) {
	v, log := s.editQuietly()
	v.Deliver(group, consumer, id, delivered, count, log)
}

// Ack removes a pending entry of a group, which must exist, and reports whether there was one.
func (s *Stream) Ack(group []byte, id object.StreamID) bool {
	if _, ok := s.Value().Group(group).PendingEntry(id); !ok {
		return false
	}
	v, log := s.editQuietly()
	return v.Ack(group, id, log)
}

// SetIdempotence sets for how many seconds an idempotent id is kept, and how many ids of a producer
// are kept. If it changes a setting, it removes all idempotent ids.
func (s *Stream) SetIdempotence(duration, maxSize int64) {
	v, log := s.editQuietly()
	v.SetIdempotence(duration, maxSize, log)
}

// AddIdempotent notes that a producer added an entry with an idempotent id. If the producer then
// has more than maxSize ids, the oldest are removed.
func (s *Stream) AddIdempotent(pid, iid []byte, id object.StreamID, maxSize int64) {
	v, log := s.editQuietly()
	v.AddIdempotent(pid, iid, id, maxSize, log)
}

// ForgetIdempotent removes at most limit idempotent ids of entries that were added before an
// instant (Unix ms), and reports how many.
func (s *Stream) ForgetIdempotent(before int64, limit int) int {
	if s.Value().Idempotents() == 0 {
		return 0
	}
	v, log := s.editQuietly()
	return v.ForgetIdempotent(before, limit, log)
}

// SetAge sets how old entries may get (ms, 0: any age), and what happens to old entries that are
// pending.
func (s *Stream) SetAge(ms int64, refs object.StreamRefs) {
	v, log := s.editQuietly()
	v.SetAge(ms, refs, log)
}

// shedEntries removes entries of a stream that are due, at most limit of them. The record of the
// first ones has only their first and last number.
func (t *Txn) shedEntries(p *part, o *Object, v *object.Stream, now int64, limit int,
	due *goneElements) int {
	_, refs := v.Age()
	changed := func(elem []byte) {
		if val, deadline, ok := v.Element(elem); ok {
			t.element(p, o, elem, val, deadline)
		} else {
			t.removed(p, o, elem)
		}
		o.change(elem)
	}
	return v.Expire(now, limit, changed, object.AgedLog{
		Seen: func(e object.StreamEntry) {
			known := refs != object.AckedRefs // of those it is not known since when they might go
			var id []byte
			if due.hook != nil {
				id = e.ID.Append(nil)
			}
			due.gone(id, nil, v.Deadline(e.ID), known)
		},
		All:  due.hook != nil,
		Runs: o.changeRun,
		Cut:  func(first, last int64) { t.cut(p, o, first, last) },
	})
}

// Duplicate counts an addition that was found to be there already.
func (s *Stream) Duplicate() {
	v, log := s.editQuietly()
	v.Duplicate(log)
}
