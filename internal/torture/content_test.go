package torture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"keyp/storage"
	"keyp/storage/object"
)

// content is all data of a Keyp: all keys of each database and of the system's database.
type content map[name]value

type name struct {
	db  int
	key string
}

type value struct {
	typ      object.Type
	deadline int64 // Unix ms, 0 for none
	elems    []elem
}

// elem is an element. An element of a list has only its value, and a string is one element with its
// bytes.
type elem struct {
	key, val string
	deadline int64
}

// read returns the content at the present time of the Keyp's clock.
func (k *keyp) read() (content, error) {
	c := content{}
	txn := k.store.NewTxn()
	for db := range databases + 1 {
		var names []string
		visit := func(name []byte, _ object.Type) bool {
			names = append(names, string(name))
			return true
		}
		walk := func() error { return k.store.Walk(db, visit) }
		if db == databases {
			walk = func() error { return k.store.WalkSystem(visit) }
		}
		if err := walk(); err != nil {
			return nil, err
		}
		for _, n := range names {
			if db == databases && strings.HasPrefix(n, "lease.tokens{") {
				continue // how many are reserved depends on how often the store was opened
			}
			key := k.store.Key(db, []byte(n))
			for !k.store.Begin(txn, []storage.Key{key}) {
				if !k.load([]storage.Key{key}, nil) {
					return nil, k.store.Err()
				}
			}
			if it, ok := txn.Get(key); ok {
				c[name{db, n}] = valueOf(it)
			}
			txn.End()
		}
	}
	return c, nil
}

func valueOf(it storage.Item) value {
	v := value{typ: it.Type(), deadline: it.Deadline()}
	if data, err := it.String(); err == nil {
		v.elems = []elem{{val: string(data)}}
		return v
	}
	if q, ok := it.Value().(*object.DelayQueue); ok {
		// Loading a queue numbers the jobs anew, and receipts start from the time at which the
		// store was opened. So only the order is compared.
		q.From(object.JobPlace{}, func(j object.Job) bool {
			val := fmt.Sprint(len(v.elems), j.Due, j.Deliveries, j.Receipt != 0, string(j.Payload))
			v.elems = append(v.elems, elem{key: string(j.ID), val: val})
			return true
		})
		return v
	}
	it.Value().Walk(func(key, val []byte, deadline int64) bool {
		e := elem{string(key), string(val), deadline}
		if v.typ == object.TypeList {
			e.key = ""
		}
		v.elems = append(v.elems, e)
		return true
	})
	if v.typ != object.TypeList {
		slices.SortFunc(v.elems, func(a, b elem) int { return cmp.Compare(a.key, b.key) })
	}
	return v
}

// at returns the content without the keys and elements that have expired at an instant.
func (c content) at(now int64) content {
	live := func(deadline int64) bool { return deadline == 0 || deadline > now }
	left := content{}
	for n, v := range c {
		if !live(v.deadline) {
			continue
		}
		if slices.ContainsFunc(v.elems, func(e elem) bool { return !live(e.deadline) }) {
			v.elems = slices.DeleteFunc(slices.Clone(v.elems), func(e elem) bool {
				return !live(e.deadline)
			})
		}
		if v.typ == object.TypeStream {
			v.elems = aged(v.elems, now)
		}
		if len(v.elems) > 0 {
			left[n] = v
		}
	}
	return left
}

// aged returns a stream's elements without the entries that are too old. It leaves the effect on
// groups to the stream itself, which the tests of commands compare with a simple model.
func aged(elems []elem, now int64) []elem {
	s := &object.Stream{}
	for _, e := range elems {
		if err := s.Put([]byte(e.key), []byte(e.val), 0); err != nil {
			panic(err)
		}
	}
	if s.Due(now, math.MaxInt, func(_, _ []byte, _ int64) {}) == 0 {
		return elems
	}
	var left []elem
	s.Walk(func(key, val []byte, _ int64) bool {
		left = append(left, elem{key: string(key), val: string(val)})
		return true
	})
	return left
}

// difference describes the differences between c and want, "" if there are none.
func (c content) difference(want content) string {
	var lines []string
	for n, v := range c {
		if w, ok := want[n]; !ok {
			lines = append(lines, fmt.Sprintf("%d %.30q: has %v, must not be there",
				n.db, n.key, v))
		} else if v.typ != w.typ || v.deadline != w.deadline || !slices.Equal(v.elems, w.elems) {
			lines = append(lines, fmt.Sprintf("%d %.30q: has %v, must have %v%s", n.db, n.key,
				v, w, v.first(w)))
		}
	}
	for n, w := range want {
		if _, ok := c[n]; !ok {
			lines = append(lines, fmt.Sprintf("%d %.30q: is missing, must have %v", n.db, n.key, w))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// same reports whether c equals want.
func (c content) same(want content) bool {
	if len(c) != len(want) {
		return false
	}
	for n, v := range c {
		if w, ok := want[n]; !ok || v.typ != w.typ || v.deadline != w.deadline ||
			!slices.Equal(v.elems, w.elems) {
			return false
		}
	}
	return true
}

// first describes the first element that differs.
func (v value) first(w value) string {
	for i := range max(len(v.elems), len(w.elems)) {
		switch {
		case i >= len(v.elems):
			return fmt.Sprintf("; first missing %.40q=%.40q@%d", w.elems[i].key, w.elems[i].val,
				w.elems[i].deadline)
		case i >= len(w.elems):
			return fmt.Sprintf("; first too many %.40q=%.40q@%d", v.elems[i].key, v.elems[i].val,
				v.elems[i].deadline)
		case v.elems[i] != w.elems[i]:
			return fmt.Sprintf("; first other %.40q=%.40q@%d, must be %.40q=%.40q@%d",
				v.elems[i].key, v.elems[i].val,
				v.elems[i].deadline, w.elems[i].key, w.elems[i].val, w.elems[i].deadline)
		}
	}
	return ""
}

func (v value) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v of %d@%d", v.typ, len(v.elems), v.deadline)
	for _, e := range v.elems[:min(len(v.elems), 6)] {
		fmt.Fprintf(&b, " %.12q=%.20q@%d", e.key, e.val, e.deadline)
	}
	return b.String()
}
