package storage

import "slices"

// A command that reads very much would keep everybody from the shards of its keys for as long
// as it takes. Instead it takes its keys aside, and releases the shards before it begins:
//
//   - It sees each key as it was at that instant: of a small string a copy, of anything else
//     the value itself.
//   - Those values do not change meanwhile: whoever would change one has to wait until it is
//     no longer held (Holds.Meets), and one that changes by itself, since elements of it are
//     due some time, is not taken aside (Txn.Steady).
//   - What removes a key or gives it another value (FLUSHALL, expiry, eviction) leaves the old
//     value as it is.
//
// So it is as if the command had run at the instant at which it took its keys aside.

// Holds are the values that commands aside read. It is for one goroutine at a time.
type Holds struct{ values map[*Object]int }

// Any says whether there are some.
func (h *Holds) Any() bool { return len(h.values) > 0 }

// aside is what a transaction has of its keys that holds no shard.
type aside struct {
	keys map[asideKey]Item // of a missing key an empty one
	held []*Object
}

type asideKey struct {
	db   int
	name string
}

// Steady says whether no value of these keys, which the transaction holds, changes by itself,
// and how many bytes the largest takes. A missing key has none.
func (t *Txn) Steady(keys []Key) (largest int, steady bool) {
	for _, k := range keys {
		p, c := t.look(k)
		switch {
		case !exists(c):
			continue
		case p.due(*c) != 0 && p.due(*c) <= t.now:
			return 0, false // what is due is removed first
		}
		item := p.item(*c)
		if item.o != nil && item.o.side != nil && item.o.side.due != 0 {
			return 0, false
		}
		largest = max(largest, item.Memory())
	}
	return largest, true
}

// Meets says whether one of the values of these keys, which the transaction holds, is held:
// then it must not be changed.
func (h *Holds) Meets(t *Txn, keys []Key) bool {
	return h.Any() && slices.ContainsFunc(keys, func(k Key) bool {
		p, c := t.look(k)
		return exists(c) && h.values[p.objectOf(*c)] > 0
	})
}

// look finds a key as it stands, also if it is due.
func (t *Txn) look(k Key) (*part, *cell) {
	p := t.s.part(k)
	if p == nil {
		return nil, nil
	}
	return p, p.find(p.slot(k), k)
}

// Take ends t and gives to, which is idle, what t has of keys. They are Steady.
func (h *Holds) Take(t *Txn, keys []Key, to *Txn) {
	a := &aside{keys: make(map[asideKey]Item, len(keys))}
	for _, k := range keys {
		at := asideKey{k.DB, string(k.Name)}
		if _, again := a.keys[at]; again {
			continue
		}
		item, _ := t.Get(k)
		if item.o != nil {
			if h.values == nil {
				h.values = map[*Object]int{}
			}
			h.values[item.o]++
			a.held = append(a.held, item.o)
			seen := *item.o // the store goes on to change what it notes in the other
			seen.side = nil
			item.o = &seen
		} else {
			item.b = slices.Clone(item.b)
		}
		a.keys[at] = item
	}
	to.now, to.aside = t.now, a
	to.seen = t.End()
}

// Release ends what Take began: t, which has been ended, holds nothing any more.
func (h *Holds) Release(t *Txn) {
	for _, o := range t.aside.held {
		if h.values[o]--; h.values[o] == 0 {
			delete(h.values, o)
		}
	}
	t.aside = nil
}

// Aside says that the transaction holds no shards, but what Holds.Take gave it.
func (t *Txn) Aside() bool { return t.aside != nil }

// find gives a key as it was taken aside.
func (a *aside) find(k Key) (Item, bool) {
	item := a.keys[asideKey{k.DB, string(k.Name)}]
	return item, item.o != nil || item.b != nil
}
