package storage

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// While the wall clock is not trusted (guard.go), EXPIRE, EX and other relative times count from
// the store's own time. If the wall clock proves right, these deadlines must move. So each is noted
// by its key's name, in the batch that sets it. A note is a field of a hash of the same shard,
// among the server's own data. The field has the same deadline, so there are never more notes than
// deadlines to move. A noted deadline moves only if the key or element still has it.

// maxNotes is the largest number of noted deadlines of all shards.
const maxNotes = 1 << 20

// notesKey returns the key of a shard's notes.
func (s *Store) notesKey(shard int) Key {
	for i := 0; ; i++ {
		if k := s.SystemKey("clock.notes{" + strconv.Itoa(i) + "}"); s.shardOf(k.Slot) == shard {
			return k
		}
	}
}

// note is a deadline that counts from the guarded time.
type note struct {
	shard    int
	at       []byte // the key, and the element if any: see appendNoted
	deadline int64
}

// appendNoted appends the name of a noted deadline: the key, and the element if element is true.
func appendNoted(dst []byte, space uint32, name, elem []byte, element bool) []byte {
	dst = format.AppendBytes(binary.AppendUvarint(dst, uint64(space)), name)
	if element {
		dst = append(append(dst, 1), elem...)
	}
	return dst
}

// noted returns the key that a note is about, and the element. The database of the key is -1 if its
// keyspace is gone. A shard is locked.
func (s *Store) noted(at []byte) (k Key, elem []byte, element bool) {
	f := format.Fields{Rest: at}
	space, name := uint32(f.Int()), f.Bytes()
	if k = s.Key(s.dbOf(space), name); len(f.Rest) > 0 {
		return k, f.Rest[1:], true
	}
	return k, nil, false
}

// moves reports whether deadlines that count from now are to move with the guard's end. They do not
// move if the wall clock is behind.
func (g *clockGuard) moves() bool { return g.Since() != 0 && g.Ahead() > 0 }

// noteKey notes the deadline of a key, if it counts from guarded time.
func (g *clockGuard) noteKey(t *Txn, space uint32, k Key, deadline ttl.Deadline) {
	if deadline.FromNow && deadline.At != ttl.None && g.moves() {
		g.note(t, space, k, nil, false, deadline.At)
	}
}

// noteElement is noteKey for the deadline of an element.
func (g *clockGuard) noteElement(t *Txn, space uint32, k Key, elem []byte, deadline ttl.Deadline) {
	if deadline.FromNow && deadline.At != ttl.None && g.moves() {
		g.note(t, space, k, elem, true, deadline.At)
	}
}

func (g *clockGuard) note(t *Txn, space uint32, k Key, elem []byte, element bool, deadline int64) {
	t.notes = append(t.notes, note{shard: t.s.shardOf(k.Slot),
		at: appendNoted(nil, space, k.Name, elem, element), deadline: deadline})
}

// writeNotes writes the transaction's notes into the hashes of their shards.
func (g *clockGuard) writeNotes(t *Txn) {
	for _, n := range t.notes {
		h, err := g.openNotes(t, n.shard)
		if err == nil && (h.Value().Len() < t.s.bounds.notes/len(t.s.shards) || h.has(n.at)) {
			h.Set(n.at, nil, ttl.At(n.deadline))
		} else if g.unmoved.Add(1) == 1 {
			g.s.options.Logger.Warn("deadlines that count from guarded time cannot all be noted: some will not move with it",
				"error", err)
		}
	}
	clear(t.notes)
	t.notes = t.notes[:0]
}

// openNotes opens a shard's notes, which a restart or an eviction may have left on disk.
func (g *clockGuard) openNotes(t *Txn, shard int) (Hash, error) {
	k := g.notes[shard]
	if err := t.Load(k); err != nil {
		return Hash{}, err
	}
	return t.Hash(k)
}

func (h *Hash) has(field []byte) bool {
	_, _, ok := h.Value().Get(field)
	return ok
}

// carryNotes copies the notes of a key to another key, which has got its value.
func (g *clockGuard) carryNotes(t *Txn, from, to Key) {
	if g.Since() == 0 {
		return
	}
	source, p := t.s.spaces.ids[from.DB], t.s.spaces.ids[to.DB]
	item, ok := t.Peek(to)
	if !ok {
		return
	}
	if d := item.Deadline(); d != 0 &&
		g.isNoted(t, from, appendNoted(nil, source, from.Name, nil, false), d) {
		g.note(t, p, to, nil, false, d)
	}
	if !object.HasDeadlines(item.Type()) {
		return
	}
	item.Value().Walk(func(elem, _ []byte, d int64) bool {
		if d != 0 && g.isNoted(t, from, appendNoted(nil, source, from.Name, elem, true), d) {
			g.note(t, p, to, elem, true, d)
		}
		return true
	})
}

// isNoted reports whether a deadline of a key is noted.
func (g *clockGuard) isNoted(t *Txn, k Key, at []byte, deadline int64) bool {
	for _, n := range t.notes {
		if n.deadline == deadline && string(n.at) == string(at) {
			return true
		}
	}
	h, err := g.openNotes(t, t.s.shardOf(k.Slot))
	if err != nil {
		return false
	}
	_, d, ok := h.Value().Get(at)
	return ok && d == deadline
}

// loadNoted loads the keys that moveNoted will need, so that no command waits for these reads.
func (g *clockGuard) loadNoted() {
	s, t := g.s, g.s.NewTxn()
	for i := range s.shards {
		if s.partials.Load() == 0 {
			return // all is in memory
		}
		var keys []Key
		if s.BeginBeside(t, g.notes[i:i+1]) != nil {
			continue // it is logged
		}
		g.eachNote(t, i, func(at []byte, _ int64) {
			if k, _, _ := s.noted(at); k.DB >= 0 && !s.resident(k) {
				k.Name = append([]byte(nil), k.Name...)
				keys = append(keys, k)
			}
		})
		t.End()
		for _, k := range keys {
			if s.quit.Err() != nil {
				return
			}
			if s.BeginBeside(t, []Key{k}) == nil {
				t.End()
			}
		}
	}
}

// eachNote visits the notes of a shard, which the transaction has locked.
func (g *clockGuard) eachNote(t *Txn, shard int, visit func(at []byte, deadline int64)) {
	if h, err := g.openNotes(t, shard); err == nil {
		h.Value().Walk(func(at, _ []byte, deadline int64) bool {
			visit(at, deadline)
			return true
		})
	}
}

// moveNoted moves deadlines that are still the noted ones. The transaction has all shards locked.
func (g *clockGuard) moveNoted(t *Txn, by int64) (moved int64) {
	t.NoTouch, t.Exempt = true, true // as much is left as before, so there is nothing to decide
	for i := range t.s.shards {
		g.eachNote(t, i, func(at []byte, deadline int64) {
			k, elem, element := t.s.noted(at)
			if k.DB < 0 {
				return
			}
			if err := t.Load(k); err != nil {
				g.unmoved.Add(1)
				t.s.options.Logger.Error(
					"a deadline that counts from guarded time could not be moved", "key",
					strconv.Quote(string(k.Name)), "error", err)
				return
			}
			if g.move(t, k, elem, element, deadline, by) {
				moved++
			}
		})
		t.FlushValues()
	}
	return moved
}

// move moves one deadline, if it is still the noted one.
func (g *clockGuard) move(t *Txn, k Key, elem []byte, element bool, deadline, by int64) bool {
	to := min(deadline, math.MaxInt64-by) + by // not past the last instant there is
	if !element {
		p, sl, c := t.live(k, false)
		if !exists(c) || p.deadline(*c) != deadline {
			return false
		}
		t.changeDeadline(p, sl, c, k, ttl.At(to), p.created(*c)+uint32(by/1000))
		return true
	}
	h, d, exists := t.Members(elem).openOf(k, object.HasDeadlines)
	if !exists || d != deadline {
		return false
	}
	if h.o.pinned() { // others are reading it, and keep what they read
		h.renew(h.o.val.Clone())
	}
	return h.SetDeadline(elem, ttl.At(to))
}

// dropNotes drops all notes. The transaction has all shards locked.
func (g *clockGuard) dropNotes(t *Txn) {
	for _, k := range g.notes {
		if err := t.Load(k); err == nil || errors.Is(err, ErrCorrupt) {
			t.Delete(k, Event{})
		}
	}
}
