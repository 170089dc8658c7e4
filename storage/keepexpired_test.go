package storage

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"keyp/storage/object"
	"keyp/ttl"
)

// deadlinesOf returns the deadlines of a key by element name; "" is the key itself.
func (h *harness) deadlinesOf(n name) deadlined {
	h.t.Helper()
	got, k := deadlined{}, h.s.Key(n.db, []byte(n.key))
	h.do(func(x *Txn) {
		item, ok := x.Get(k)
		if !ok {
			return
		}
		got[""] = item.Deadline()
		if object.HasMembers(item.Type()) {
			item.Value().Walk(func(elem, _ []byte, deadline int64) bool {
				got[string(elem)] = deadline
				return true
			})
		}
	}, k)
	return got
}

// deadlined has deadlines by element name; that of "" is the key's.
type deadlined map[string]int64

// expiringAll adds keys of all types to a store. Each key has elements that are due at once, in 50
// ms, in a day, and never. Large keys have many of each.
func (h *harness) expiringAll() (given map[name]deadlined) {
	now := h.clock.Now()
	given = map[name]deadlined{}
	deadlines := map[string]int64{"passed": now + 1, "due": now + 50, "later": now + 24*hour,
		"never": 0}
	for db := range 2 {
		for what, own := range deadlines {
			n := name{db, "string" + what}
			k := h.s.Key(db, []byte(n.key))
			h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(own), Event{}) }, k)
			given[n] = deadlined{"": own}
			for _, typ := range []object.Type{object.TypeHash, object.TypeSet, object.TypeZSet} {
				for _, large := range []int{1, 300} {
					n := name{db, fmt.Sprint(typ, large, what)}
					k, given[n] = h.s.Key(db, []byte(n.key)), deadlined{"": own}
					for what, at := range deadlines {
						for i := range large {
							elem := fmt.Sprint(what, i)
							h.setElement(k, typ, elem, strings.Repeat("v", 40), at)
							given[n][elem] = at
						}
					}
					h.do(func(x *Txn) { x.SetDeadline(k, ttl.At(own), Event{}) }, k)
				}
			}
		}
	}
	return given
}

// restored returns what a restore at now leaves of d, for a backup of the given moment. With keep,
// it leaves everything that existed at that moment.
func (d deadlined) restored(moment, now int64, keep bool) deadlined {
	left := deadlined{}
	for elem, at := range d {
		gone := at != 0 && (at <= moment || at <= now && !keep)
		switch {
		case gone && elem == "":
			return deadlined{}
		case !gone && at <= now:
			left[elem] = 0
		case !gone:
			left[elem] = at
		}
	}
	return left
}

// TestKeepExpired: a restore keeps, without a deadline, whatever existed at the moment of the
// backup and has expired since. The type and the storage do not matter. Elements that had expired
// by then are gone, and so are leases and limits. Later deadlines stay.
func TestKeepExpired(t *testing.T) {
	for _, stored := range []bool{false, true} {
		h := changing(newHarness(t))
		given, start := h.expiringAll(), h.clock.Now()
		stream, young, lease, limit := h.s.Key(0, []byte("stream")), h.s.Key(0, []byte("young")),
			h.s.Key(0, []byte("lease")), h.s.Key(0, []byte("limit"))
		h.aged(stream, 60, 20, object.KeepRefs)  // due from 20 to 79 ms from now
		h.aged(young, 60, hour, object.DropRefs) // none is due
		h.do(func(x *Txn) {
			x.Replace(lease, &object.Lease{Owner: []byte("me"), Token: 1}, ttl.In(start+50),
				Event{})
		}, lease)
		h.do(func(x *Txn) {
			l, err := x.Limit(limit)
			if err != nil {
				t.Fatal(err)
			}
			l.Hold([]byte("id"), []object.LimitRule{{Kind: object.LimitWindow, Count: 1, Span: 20}},
				1, start+50)
			l.Finish()
		}, limit)
		if stored {
			h.saved()
		}
		h.clock.Advance(30 * time.Millisecond)
		backup := h.backup()
		if err := h.s.Close(true); err != nil {
			t.Fatal(err)
		}
		for _, keep := range []bool{false, true} {
			to := restored(t, h)
			to.clock.Set(start + 100)
			o := to.options()
			o.CheckpointBytes = 4000 // so there are several rounds
			m, err := RestoreTo(t.Context(), o, bytes.NewReader(backup), Source{KeepExpired: keep})
			if err != nil {
				t.Fatal(err)
			}
			to.open()
			to.s.Reap()
			kept := 0
			for n, d := range given {
				want, without := d.restored(start+30, start+100, keep),
					d.restored(start+30, start+100, false)
				if len(want) > len(without) {
					kept++
				}
				if got := to.deadlinesOf(n); !maps.Equal(got, want) {
					t.Errorf("keep %v: %v has %v, and must have %v", keep, n, got, want)
				}
			}
			n, first, _ := to.entries(stream)
			if keep && (n != 49 || first.Ms != uint64(start+11)) || !keep && n != 0 {
				t.Errorf("keep %v: the stream has %d entries, the first of %d", keep, n, first.Ms)
			}
			if keep && m.Kept != kept+1 || !keep && m.Kept != 0 {
				t.Errorf("keep %v: %d keys are said to be kept, and %d and a stream are",
					keep, m.Kept, kept)
			}
			to.stream(young, func(_ *Txn, s *Stream) {
				if age, refs := s.Value().Age(); s.Value().Entries() != 60 || age != hour ||
					refs != object.DropRefs {
					t.Errorf("the young stream has %d entries, and the age %d, %d",
						s.Value().Entries(), age, refs)
				}
			})
			for _, k := range []Key{lease, limit} {
				if got := to.deadlinesOf(name{0, string(k.Name)}); len(got) != 0 {
					t.Errorf("keep %v: %s is there: %v", keep, k.Name, got)
				}
			}
			to.check()
			if err := to.s.Close(true); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// kept returns the model of a restore with KeepExpired at now, for a backup of the given moment.
func (m model) kept(moment, now int64) model {
	kept := model{}
	for n, v := range m {
		switch {
		case v.deadline != 0 && v.deadline <= moment:
			continue
		case v.deadline <= now:
			v.deadline = 0
		}
		kept[n] = v
	}
	return kept
}

// setElement gives a key an element with a deadline.
func (h *harness) setElement(k Key, typ object.Type, elem, val string, deadline int64) {
	h.t.Helper()
	h.do(func(x *Txn) {
		var err error
		switch typ {
		case object.TypeSet:
			var v Set
			if v, err = x.Set(k); err == nil {
				v.Add([]byte(elem))
				v.SetDeadline([]byte(elem), ttl.At(deadline))
			}
		case object.TypeZSet:
			var v ZSet
			if v, err = x.ZSet(k); err == nil {
				v.Set([]byte(elem), float64(len(elem)))
				v.SetDeadline([]byte(elem), ttl.At(deadline))
			}
		default:
			var v Hash
			if v, err = x.Hash(k); err == nil {
				v.Set([]byte(elem), []byte(val), ttl.At(deadline))
			}
		}
		if err != nil {
			h.t.Fatalf("%v", err)
		}
	}, k)
}
