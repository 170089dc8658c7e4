package object

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"unsafe"
)

// idempotence records additions to a stream that were made with an idempotent id. A producer's
// second addition with the same id returns the entry of the first one.
type idempotence struct {
	ids       Hash // by producer and idempotent id: the ordinal
	all       Hash // by ordinal: the value of its element
	order     sorted[iidOrdinal]
	producers sorted[namedItem[producer]]
	allocated int // bytes of memory behind the producers
}

// producer contains the ordinals of one producer's idempotent ids.
type producer struct {
	name []byte
	ids  sorted[iidOrdinal]
}

type iidOrdinal int64

func (a iidOrdinal) Compare(b iidOrdinal) int { return cmp.Compare(a, b) }

func (a iidOrdinal) key() (key [8]byte) {
	binary.BigEndian.PutUint64(key[:], uint64(a))
	return key
}

func (x *idempotence) bytes() int {
	return int(unsafe.Sizeof(*x)) + x.ids.Bytes() + x.all.Bytes() - 2*int(unsafe.Sizeof(x.ids)) +
		x.order.bytes() + x.producers.bytes() + x.allocated
}

func (p *producer) bytes() int { return int(unsafe.Sizeof(*p)) + cap(p.name) + p.ids.bytes() }

// parseIID reads the value of the element of an idempotent id.
func parseIID(val []byte) (pid, iid []byte, id StreamID, ok bool) {
	f := fieldsOf{rest: val}
	pid, iid, id = f.bytes(), f.bytes(), f.id()
	return pid, iid, id, f.done()
}

func iidKey(pid, iid []byte) []byte { return append(appendBytes(nil, pid), iid...) }

// producer returns a producer by name; nil if there is none.
func (x *idempotence) producer(name []byte) *producer {
	item, _ := x.producers.get(namedItem[producer]{name: name})
	return item.it
}

func (s *Stream) putIID(ordinal int64, val []byte) bool {
	pid, iid, _, ok := parseIID(val)
	if !ok {
		return false
	}
	if s.iids == nil {
		s.iids = &idempotence{}
	}
	s.removeIID(ordinal)
	x, n := s.iids, iidOrdinal(ordinal)
	key := n.key()
	x.all.Set(key[:], val, 0)
	x.ids.Set(iidKey(pid, iid), key[:], 0)
	x.order.put(n)
	p := x.producer(pid)
	if p == nil {
		p = &producer{name: bytes.Clone(pid)}
		x.producers.put(namedItem[producer]{name: p.name, it: p})
	} else {
		x.allocated -= p.bytes()
	}
	p.ids.put(n)
	x.allocated += p.bytes()
	return true
}

func (s *Stream) removeIID(ordinal int64) {
	val, ok := s.iid(ordinal)
	if !ok {
		return
	}
	pid, iid, _, _ := parseIID(val)
	x, n := s.iids, iidOrdinal(ordinal)
	key := n.key()
	p := x.producer(pid)
	x.allocated -= p.bytes()
	p.ids.remove(n)
	if p.ids.n > 0 {
		x.allocated += p.bytes()
	} else {
		x.producers.remove(namedItem[producer]{name: pid})
	}
	if by, _, _ := x.ids.Get(iidKey(pid, iid)); bytes.Equal(by, key[:]) {
		x.ids.Delete(iidKey(pid, iid))
	}
	x.order.remove(n)
	x.all.Delete(key[:])
}

// iid returns the value of the element of an idempotent id; ok is false if there is none.
func (s *Stream) iid(ordinal int64) (val []byte, ok bool) {
	if s.iids == nil {
		return nil, false
	}
	key := iidOrdinal(ordinal).key()
	val, _, ok = s.iids.all.Get(key[:])
	return bytes.Clone(val), ok
}

// Idempotent returns the entry that a producer added with an idempotent id; ok is false if that is
// not known any more.
func (s *Stream) Idempotent(pid, iid []byte) (id StreamID, ok bool) {
	if s.iids == nil {
		return id, false
	}
	key, _, ok := s.iids.ids.Get(iidKey(pid, iid))
	if !ok {
		return id, false
	}
	val, _, _ := s.iids.all.Get(key)
	_, _, id, ok = parseIID(val)
	return id, ok
}

// Idempotence returns what SetIdempotence has set: for how many seconds an idempotent id is kept,
// and how many are kept for a producer. 0: never set.
func (s *Stream) Idempotence() (duration, maxSize int64) { return s.meta.duration, s.meta.maxSize }

// Producers returns how many producers have idempotent ids.
func (s *Stream) Producers() int {
	if s.iids == nil {
		return 0
	}
	return s.iids.producers.n
}

// Idempotents returns the number of idempotent ids that are kept.
func (s *Stream) Idempotents() int {
	if s.iids == nil {
		return 0
	}
	return s.iids.order.n
}

// nextIID returns the ordinal of the next idempotent id.
func (s *Stream) nextIID() int64 {
	if s.iids != nil {
		if last, ok := s.iids.order.last(); ok {
			return max(int64(last)+1, s.meta.nextIID)
		}
	}
	return s.meta.nextIID
}

// IdempotentsAdded returns how many idempotent ids were ever added.
func (s *Stream) IdempotentsAdded() int64 { return s.nextIID() }

// Duplicates returns how often an addition was found to be there already.
func (s *Stream) Duplicates() int64 { return s.meta.duplicates }

// EachProducer visits the producers in the order of their names, with the number of their
// idempotent ids, until fn returns false.
func (s *Stream) EachProducer(fn func(pid []byte, ids int) bool) {
	if s.iids == nil {
		return
	}
	s.iids.producers.each(namedItem[producer]{}, func(item namedItem[producer]) bool {
		return fn(item.name, item.it.ids.n)
	})
}

// EachIdempotent visits the idempotent ids of a producer, the oldest first, until fn returns false.
func (s *Stream) EachIdempotent(pid []byte, fn func(iid []byte, id StreamID) bool) {
	if s.iids == nil {
		return
	}
	if p := s.iids.producer(pid); p != nil {
		p.ids.each(0, func(n iidOrdinal) bool {
			key := n.key()
			val, _, _ := s.iids.all.Get(key[:])
			_, iid, id, _ := parseIID(val)
			return fn(iid, id)
		})
	}
}

// AddIdempotent records that a producer added an entry with an idempotent id. If the producer then
// has more than maxSize ids, the oldest are removed.
func (s *Stream) AddIdempotent(pid, iid []byte, id StreamID, maxSize int64, changed Changed) {
	ordinal := s.nextIID()
	s.putIID(ordinal, appendID(appendBytes(appendBytes(nil, pid), iid), id))
	var key elemKey
	changed.call(key.iid(ordinal))
	for p := s.iids.producer(pid); int64(p.ids.n) > max(maxSize, 1); {
		oldest, _ := p.ids.first()
		s.dropIID(int64(oldest), changed)
	}
}

// dropIID removes an idempotent id. If it is the last one, the metadata keeps the next ordinal.
func (s *Stream) dropIID(ordinal int64, changed Changed) {
	was := s.meta
	if last, _ := s.iids.order.last(); int64(last) == ordinal {
		s.meta.nextIID = s.nextIID()
	}
	s.removeIID(ordinal)
	var key elemKey
	changed.call(key.iid(ordinal))
	s.metaChanged(was, changed)
}

// ForgetIdempotent removes at most limit idempotent ids, the oldest first, and returns how many.
// Their entries have ids with a time before an instant (Unix ms).
func (s *Stream) ForgetIdempotent(before int64, limit int, changed Changed) (n int) {
	for s.iids != nil && n < limit {
		oldest, ok := s.iids.order.first()
		if !ok {
			break
		}
		key := oldest.key()
		val, _, _ := s.iids.all.Get(key[:])
		if _, _, id, _ := parseIID(val); id.Ms >= uint64(max(before, 0)) {
			break
		}
		s.dropIID(int64(oldest), changed)
		n++
	}
	return n
}

// SetIdempotence sets the results of Idempotence. If that changes a setting, it removes all
// idempotent ids.
func (s *Stream) SetIdempotence(duration, maxSize int64, changed Changed) {
	was := s.meta
	if was.duration == duration && was.maxSize == maxSize {
		return
	}
	s.meta.duration, s.meta.maxSize, s.meta.nextIID = duration, maxSize, s.nextIID()
	s.metaChanged(was, changed)
	if x := s.iids; x != nil {
		s.iids = nil
		var key elemKey
		x.order.each(0, func(n iidOrdinal) bool {
			changed.call(key.iid(int64(n)))
			return true
		})
	}
}

// Duplicate counts an addition that was found to be there already.
func (s *Stream) Duplicate(changed Changed) {
	if s.meta.duplicates < math.MaxInt64 {
		s.meta.duplicates++
	}
	s.made = true
	changed.call(metaKey[:])
}

// SetIdempotentCounts sets how many idempotent ids were ever added, and how often one was found to
// be there already. The stream must not have more ids than added.
func (s *Stream) SetIdempotentCounts(added, duplicates int64, changed Changed) {
	was := s.meta
	s.meta.nextIID, s.meta.duplicates = added, duplicates
	s.metaChanged(was, changed)
}

func (x *idempotence) clone() *idempotence {
	to := &idempotence{order: x.order.clone()}
	to.ids, to.all = *x.ids.Clone().(*Hash), *x.all.Clone().(*Hash)
	x.producers.each(namedItem[producer]{}, func(item namedItem[producer]) bool {
		copied := &producer{name: bytes.Clone(item.name), ids: item.it.ids.clone()}
		to.producers.put(namedItem[producer]{name: copied.name, it: copied})
		to.allocated += copied.bytes()
		return true
	})
	return to
}
