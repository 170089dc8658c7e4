package storage

import (
	"bytes"
	"errors"
	"math"
	"sync/atomic"

	"keyp/storage/object"
)

// The store of a replicated server is a leader's or a follower's; the store of a server that is
// alone is a leader's. A follower's store applies the batches of its leader. It decides nothing by
// itself, logs nothing, and removes nothing. Readers do not see due keys and elements, but these
// stay in the store until the leader's removal comes. So the server that leads at the removal
// reports it, once (hooks.go). A follower's store does not
//
//   - remove due keys: neither when one is looked up (Txn.live), nor by the reaper, nor after the
//     clock was set back (stepBack),
//   - log the time (logTime), or what the guard against a wrong wall clock decides (guard.go),
//   - begin what hooks do by themselves, for example delivering events,
//   - move deadlines because a key was read, as a policy may ask for.
//
// The time of a group's member is its leader's (grouptime.go).
//
// Checkpoints, loaders, eviction, compaction and defragmentation continue: they are about this
// server's disk and memory.
//
// The role changes while all shards are locked. Code that may log or remove looks at the role with
// its shard locked. So each batch is wholly from before the change, or does not exist.
type follower struct {
	on atomic.Bool
	// applied is the LSN up to which memory has the batches of the log.
	applied atomic.Uint64
}

// ErrFollower is the error for a change of a follower's store, which only its leader may change.
var ErrFollower = errors.New("storage: the store is a follower's")

// errFollowerChanged ends a store whose memory has a change that its log lacks.
var errFollowerChanged = errors.New("storage: a transaction has changed a follower's store")

// SetFollower changes the store's role. It locks the whole keyspace, as BeginAll does. The
// goroutine that begins transactions (the server's loop) calls it, outside of any transaction. No
// write that takes several transactions may be under way, and no global transaction that needs this
// goroutine to end.
//
// A store that becomes the leader's removes everything that is due by now, and reports it. Its time
// continues from the group's (grouptime.go), or from the newest instant that the store has seen. If
// the clock is behind that, it is handled like a step back. The store takes over the guarded time
// and the data of the hooks that the previous leader has noted.
func (s *Store) SetFollower(on bool) {
	t := s.NewTxn()
	s.BeginAll(t)
	if !on {
		s.guard.succeed(t) // before anybody asks for a leader's time
	}
	s.shown.mu.Lock()
	if on {
		s.follower.applied.Store(s.log.End())
		s.beginFollowing(t.now)
	}
	s.follower.on.Store(on)
	s.shown.mu.Unlock()
	if on {
		s.guard.Yield()
	}
	if !on {
		for _, sh := range s.shards {
			sh.mu.logged = 0 // the log may have gone on from elsewhere
		}
		s.hooks.Leads(t)
	}
	t.End()
	s.pauseReaper()
	if !on {
		s.wake(1) // the reaper slept
		s.hooks.Led()
		s.now() // begins stepBack, if the clock is behind
	}
}

// Follower reports whether the store is a follower's.
func (s *Store) Follower() bool { return s.follower.on.Load() }

// Shown returns the LSN on which a reply depends if it shows the state of the whole store. That is
// the end of the log. At a follower it is the end of the applied part of the log, since nothing
// after that is visible yet.
func (s *Store) Shown() uint64 {
	if s.Follower() {
		return s.follower.applied.Load()
	}
	return s.log.End()
}

// pauseReaper starts the reaper, or pauses it if it is turned off or the store is a follower's.
func (s *Store) pauseReaper() { s.reaper.Pause(s.passive.Load() || s.Follower()) }

// hide hides the due elements of a follower's key from readers, as shed does by removing them. It
// returns false if nothing is left for readers.
func (t *Txn) hide(p *part, c cell) bool {
	now := t.instant(p, c)
	if d := p.deadline(c); d != 0 && d <= now {
		return false
	}
	o := p.objectOf(c)
	if o.val.LenAt(now) == 0 {
		return false
	}
	o.hide(now, math.MaxInt)
	return true
}

// hidden contains the due elements of a follower's value. They are not in the value, so that no
// reader sees them, but the key still has them. The expiration index, the data file and the log
// treat the key as if they were in the value.
type hidden struct {
	elems map[string]hiddenElement
	first int64 // the earliest deadline
	// all is the whole stream with its due entries; the value is a copy without them. Single
	// entries cannot be put back into a stream, since ids and counts follow from its last entry.
	// For other types all is nil.
	all object.Value
}

type hiddenElement struct {
	val      []byte
	deadline int64
}

// hide hides at most limit elements that are due, and not all that the value has. The value must
// not be pinned.
func (o *Object) hide(now int64, limit int) {
	side := o.more()
	if v, ok := o.val.(*object.Stream); ok {
		if side.hidden == nil {
			side.hidden = &hidden{all: v}
			o.val = v.Clone()
		}
		o.val.Due(now, limit, func(_, _ []byte, _ int64) {})
		return
	}
	o.val.Due(now, limit, func(elem, val []byte, deadline int64) {
		if side.hidden == nil {
			side.hidden = &hidden{elems: map[string]hiddenElement{}, first: deadline}
		}
		side.hidden.first = min(side.hidden.first, deadline)
		side.hidden.elems[string(elem)] = hiddenElement{bytes.Clone(val), deadline}
	})
}

// unhide puts hidden elements back. It must be called before the value is changed, and before due
// elements are removed; nobody may have pinned the value.
func (o *Object) unhide() {
	if o.side == nil || o.side.hidden == nil {
		return
	}
	if all := o.side.hidden.all; all != nil {
		o.val, o.side.hidden = all, nil
		return
	}
	for elem, e := range o.side.hidden.elems {
		if o.side.rest { // a checkpoint may have passed its place
			o.side.frozen.Add(o.val.Type(), []byte(elem))
		}
		if err := o.val.Put([]byte(elem), e.val, e.deadline); err != nil {
			panic(err) // impossible: the value has had it
		}
	}
	o.side.hidden = nil
}

// whole is a value together with its hidden elements. It has the methods that are needed to write
// the value to the data file.
type whole struct {
	object.Value
	*hidden
}

// whole returns the value with its hidden elements.
func (o *Object) whole() object.Value {
	if o.side == nil || o.side.hidden == nil {
		return o.val
	}
	if all := o.side.hidden.all; all != nil {
		return all
	}
	return whole{o.val, o.side.hidden}
}

func (w whole) Len() int { return w.Value.Len() + len(w.elems) }

func (w whole) Earliest() int64 { return w.first }

func (w whole) Element(elem []byte) (val []byte, deadline int64, ok bool) {
	if e, ok := w.elems[string(elem)]; ok {
		return e.val, e.deadline, true
	}
	return w.Value.Element(elem)
}

func (w whole) Walk(fn func(elem, val []byte, deadline int64) bool) {
	more := true
	w.Value.Walk(func(elem, val []byte, deadline int64) bool {
		more = fn(elem, val, deadline)
		return more
	})
	for elem, e := range w.elems {
		if more = more && fn([]byte(elem), e.val, e.deadline); !more {
			return
		}
	}
}

// Scan visits hidden elements with the last of the others.
func (w whole) Scan(cursor uint64, count int,
	fn func(elem, val []byte, deadline int64)) (next uint64) {
	if next = w.Value.Scan(cursor, count, fn); next == 0 {
		for elem, e := range w.elems {
			fn([]byte(elem), e.val, e.deadline)
		}
	}
	return next
}
