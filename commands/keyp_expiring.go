package commands

import (
	"bytes"
	"math"
	"strconv"

	"keyp/storage"
	"keyp/storage/object"
)

// KEYP.EXPIRING lists keys, or elements of one key, in the order of their deadlines.
// expiringOptions are its options.
type expiringOptions struct {
	keypOptions
	elements bool // of one key
}

// parseExpiring reads the arguments of KEYP.EXPIRING. The page begins at from; the last page ends
// at until.
func parseExpiring(c Cursor) (o expiringOptions, from, until storage.DueCursor, err error) {
	a := options{Cursor: c}
	o.count = keypCount
	from, until = instant(&a.Cursor), instant(&a.Cursor)
	for a.More() {
		if a.option("ELEMENTS", 1) {
			a.Bytes()
			o.elements = true
		} else if !o.keypOption(&a) {
			a.end()
		}
	}
	if o.elements && o.typ != "" {
		a.Fail(errElementsType)
	}
	if o.cursor != nil && a.Err() == nil {
		at, ok := parsePlace(o.cursor)
		if !ok {
			a.Fail(ErrCursor)
		}
		if from.Before(at) {
			from = at
		}
	}
	return o, from, until, a.Err()
}

const (
	errElementsType Error = "ERR TYPE is about keys, ELEMENTS about those of one key"
	errInstant      Error = "ERR from and to are -, + or Unix milliseconds"
)

// expiringKey finds the key after the last ELEMENTS.
func expiringKey(args [][]byte) (first, last int) {
	first, last = noArgument(nil)
	for i := 3; i+1 < len(args); i += 2 { // each option has one argument
		if isWord(args[i], "ELEMENTS") {
			first, last = i+1, i+1
		}
	}
	return first, last
}

// expiringScope returns the scope of KEYP.EXPIRING. With ELEMENTS it reads only one key.
func expiringScope(c *Ctx) Scope {
	if first, last := expiringKey(c.Args); first <= last {
		return KeysOnly
	}
	return Unlocked
}

// instant takes a Unix time in milliseconds, - for the beginning of time, or + for its end. It
// returns the place of the first key that is due then.
func instant(a *Cursor) storage.DueCursor {
	switch {
	case a.Word("-"):
		return storage.DueCursor{}
	case a.Word("+"):
		return storage.DueEnd
	}
	return storage.DueCursor{Deadline: a.instant()}
}

// instant takes a Unix time in milliseconds.
func (a *Cursor) instant() int64 { return a.IntFrom(math.MinInt64, errInstant) }

// appendPlace writes a place as a cursor: deadline-slot-hash.
func appendPlace(dst []byte, p storage.DueCursor) []byte {
	dst = append(strconv.AppendInt(dst, p.Deadline, 10), '-')
	dst = append(strconv.AppendUint(dst, uint64(p.Slot), 10), '-')
	return strconv.AppendUint(dst, p.Hash, 16)
}

// parsePlace parses a cursor that appendPlace wrote; 0 is the beginning.
func parsePlace(b []byte) (p storage.DueCursor, ok bool) {
	if string(b) == "0" {
		return p, true
	}
	deadline, rest, _ := bytes.Cut(b, []byte("-"))
	slot, hash, _ := bytes.Cut(rest, []byte("-"))
	p.Deadline, _ = ParseInt(deadline)
	n, _ := ParseUint(slot)
	p.Slot = uint16(min(n, storage.Slots))
	p.Hash, _ = strconv.ParseUint(string(hash), 16, 64)
	return p, bytes.Equal(appendPlace(nil, p), b)
}

func runExpiring(c *Ctx) error {
	o, from, until, err := parseExpiring(c.Cursor(1))
	if err != nil {
		return err
	}
	if o.elements {
		return expiringElements(c, &o, from, until)
	}
	may := c.maySee()
	list, next, more, err := c.view().Expiring(c.Client.DB, from, until, o.count,
		func(name []byte) bool {
			return o.matches(c, name) && may(name)
		}, o.typ)
	if err != nil {
		return err
	}
	replyExpiring(c, list, next, more)
	c.shows()
	return nil
}

// replyExpiring replies with the cursor of the next page, or 0 if there is none, and with a page.
func replyExpiring(c *Ctx, list []storage.DueKey, next storage.DueCursor, more bool) {
	c.Out.Array(2)
	if more {
		c.Out.Bulk(appendPlace(nil, next))
	} else {
		c.Out.BulkString("0")
	}
	c.Out.Array(len(list))
	for _, k := range list {
		c.Out.Array(2)
		c.Out.Bulk(k.Name)
		c.Out.Int(k.At)
	}
}

// timedValue is a value whose elements may have deadlines.
type timedValue interface {
	object.Value
	Deadlines(after int64, visit func(deadline int64) bool)
	DueAt(deadline int64, from uint32, most int,
		visit func(elem []byte, hash uint32) bool) (next uint32, more bool)
}

// expiringElements replies with a page of the elements of one key in the order of their deadlines.
// Elements with the same deadline are in the order of a hash of the element. The cursor has that
// hash in place of a key's hash. A missing or expired key has an empty page. A type whose elements
// have no deadlines is an error. An element that is due with its key, or later, is left out,
// because it disappears with the key.
func expiringElements(c *Ctx, o *expiringOptions, from, until storage.DueCursor) error {
	if err := c.load(c.Keys); err != nil {
		return err
	}
	k := c.Keys[0]
	item, ok := c.peek(k)
	if !ok {
		replyExpiring(c, nil, from, false)
		return nil
	}
	if p := c.Client.user.permissions(); !c.Env.maySee(p, k.Name) ||
		!c.Env.maySeeElements(p, k.Name, item.Type()) {
		return errElementsDenied
	}
	v, timed := item.Value().(timedValue)
	if !timed {
		return errUntimedElements(item.Type())
	}
	if own := item.Deadline(); own != 0 && own < until.Deadline {
		until = storage.DueCursor{Deadline: own}
	}
	if now := c.Txn.Now(); from.Deadline <= now {
		from = storage.DueCursor{Deadline: now + 1}
	}
	page := elementsPage{c: c, options: o, until: until, next: from}
	v.Deadlines(from.Deadline-1, func(at int64) bool { return page.add(v, at) })
	replyExpiring(c, page.list, page.next, page.more)
	return nil
}

// elementsPage is a page of a value's elements.
type elementsPage struct {
	c       *Ctx
	options *expiringOptions
	until   storage.DueCursor
	list    []storage.DueKey
	size    int               // bytes of names in list
	looks   int               // how many elements and deadlines were looked at
	next    storage.DueCursor // the next page begins there if there is more
	more    bool
}

func (p *elementsPage) full() bool {
	return len(p.list) >= p.options.count || p.looks >= keypCountMax || p.size >= elementBytes
}

// add adds the elements with one deadline. It returns false if the page ends there.
func (p *elementsPage) add(v timedValue, at int64) bool {
	place := storage.DueCursor{Deadline: at}
	if p.next.Deadline == at {
		place = p.next
	}
	for more := true; more; {
		if !place.Before(p.until) {
			return false
		}
		if p.full() {
			p.next, p.more = place, true
			return false
		}
		p.looks++
		var last, next uint32
		next, more = v.DueAt(at, uint32(place.Hash), keypCount,
			func(elem []byte, hash uint32) bool {
				// The cursor is a hash, so a page must not end between elements with the same hash.
				if p.full() && hash != last {
					return false
				}
				if p.looks, last = p.looks+1, hash; p.options.matches(p.c, elem) {
					p.list = append(p.list, storage.DueKey{Name: bytes.Clone(elem), At: at})
					p.size += len(elem)
				}
				return true
			})
		place.Hash = uint64(next)
	}
	return true
}

// elementBytes is the number of bytes of names with which a page of elements is full.
const elementBytes = 4 << 20

const errElementsDenied Error = "NOPERM this user may not see the deadlines and elements of this key"

// errUntimedElements returns the error for a key of a type whose elements have no deadlines.
func errUntimedElements(t object.Type) Error {
	return Error("WRONGTYPE elements of the type " + t.String() +
		" have no deadlines: ELEMENTS names a hash, set, zset, stream or limit")
}
