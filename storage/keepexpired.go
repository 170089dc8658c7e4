package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"keyp/storage/object"
	"keyp/ttl"
)

// A restore may keep keys that have expired between the restored moment and the present, so that
// they can be read. That is a change of the data, made at that moment: all keys and elements that
// exist then and are due by the present lose their deadlines. A later start finds nothing to
// expire, and needs no knowledge of the restore.
//
// A stream that would lose an entry loses its maximum age, as entries have no deadlines of their
// own. Leases and limits are not kept: a lease that has ended is no data, and it would block others
// for ever.

// keepExpired removes these deadlines in a directory that was restored to a moment. It works in
// rounds, each with a checkpoint, so that it needs no more memory than a server.
func (m *Moment) keepExpired(ctx context.Context, o *Options) error {
	now := o.Clock.Now()
	for more := true; more; {
		s, err := openAt(o, m.Time)
		if err != nil {
			return err
		}
		k := keeping{s: s, t: s.NewTxn(), moment: m.Time, now: now}
		more, err = k.round(ctx, o.CheckpointBytes)
		m.Kept += k.kept
		if err == nil {
			err = s.Checkpoint()
		}
		if err = errors.Join(err, s.Close(false)); err != nil {
			return err
		}
	}
	return nil
}

// keeping is the state of a round.
type keeping struct {
	s           *Store
	t           *Txn
	moment, now int64
	kept        int   // keys
	memory      int64 // bytes of the keys that it has looked at
}

// round removes deadlines until it has looked at keys of more than most bytes. more is true if it
// stopped before it had looked at all keys.
func (r *keeping) round(ctx context.Context, most int64) (more bool, err error) {
	whole := r.s.WalkDue(0, r.now+1, 1, func(list []DueKey) bool {
		for _, due := range list {
			if err = ctx.Err(); err != nil {
				return false
			}
			if more = r.kept > 0 && r.memory > most; more {
				return false
			}
			if !due.Element && due.At <= r.moment {
				continue // it had expired before
			}
			if err = r.keep(r.s.Key(due.DB, bytes.Clone(due.Name))); err != nil {
				return false
			}
		}
		return true
	})
	if !whole && !more && err == nil {
		err = fmt.Errorf("storage: the data file of %s cannot be read to its end", r.s.options.Dir)
	}
	return more, err
}

// keep removes the deadlines of a key and of its elements that have come by now.
func (r *keeping) keep(k Key) error {
	t := r.t
	if err := r.s.BeginBeside(t, []Key{k}); err != nil {
		return err
	}
	defer t.End()
	item, ok := t.Get(k) // without what was due by the moment
	if !ok {
		return nil
	}
	r.memory += int64(item.Memory())
	typ, kept := item.Type(), false
	if typ == object.TypeLease || typ == object.TypeLimit {
		return nil
	}
	if d := item.Deadline(); d != ttl.None && d <= r.now {
		kept = t.Persist(k)
	}
	switch {
	case object.HasMembers(typ):
		kept = r.keepMembers(k, item.Value()) || kept
	case typ == object.TypeStream:
		s, err := t.Stream(k)
		if err != nil {
			return err
		}
		if first := s.Value().Earliest(); first != 0 && first <= r.now {
			s.SetAge(0, object.KeepRefs)
			kept = true
		}
	}
	t.FlushValues()
	if kept {
		r.kept++
	}
	return nil
}

func (r *keeping) keepMembers(k Key, v object.Value) bool {
	var due [][]byte
	if first := v.Earliest(); first != 0 && first <= r.now {
		v.Walk(func(elem, _ []byte, deadline int64) bool {
			if deadline != 0 && deadline <= r.now {
				due = append(due, bytes.Clone(elem))
			}
			return true
		})
	}
	for _, elem := range due {
		r.t.Members(elem).Persist(k)
	}
	return len(due) > 0
}
