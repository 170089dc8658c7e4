package commands

import (
	"bytes"
	"strconv"

	"keyp/storage"
	"keyp/storage/object"
)

// expiringOptions are those of KEYP.EXPIRING.
type expiringOptions struct {
	keypOptions
	elements bool
}

// parseExpiring reads the arguments of KEYP.EXPIRING: where a page begins, and where the last one ends.
func parseExpiring(a Cursor) (o expiringOptions, from, until storage.DuePlace, err error) {
	o.count = keypCount
	from, until = instant(&a), instant(&a)
	for a.More() {
		if a.Word("ELEMENTS") {
			o.elements = true
		} else if !o.keypOption(&a) {
			a.Fail(ErrSyntax)
		}
	}
	if o.cursor != nil && a.Err() == nil {
		at, ok := parsePlace(o.cursor)
		if !ok || at.Element != 0 && !o.elements {
			a.Fail(ErrCursor)
		}
		if from.Before(at) {
			from = at
		}
	}
	return o, from, until, a.Err()
}

// instant takes a Unix time in milliseconds, or - or + for an end of time, as the place of the first key that is due then.
func instant(a *Cursor) storage.DuePlace {
	switch {
	case a.Word("-"):
		return storage.DuePlace{}
	case a.Word("+"):
		return storage.DueEnd
	}
	return storage.DuePlace{Deadline: a.Int()}
}

// appendPlace writes a place as a cursor: deadline-slot-hash, and with an element -hash.
func appendPlace(dst []byte, p storage.DuePlace) []byte {
	dst = append(strconv.AppendInt(dst, p.Deadline, 10), '-')
	dst = append(strconv.AppendUint(dst, uint64(p.Slot), 10), '-')
	dst = strconv.AppendUint(dst, p.Hash, 16)
	if p.Element != 0 {
		dst = strconv.AppendUint(append(dst, '-'), p.Element, 16)
	}
	return dst
}

// parsePlace reads what appendPlace writes; 0 is the begin.
func parsePlace(b []byte) (p storage.DuePlace, ok bool) {
	if string(b) == "0" {
		return p, true
	}
	deadline, rest, _ := bytes.Cut(b, []byte("-"))
	slot, rest, _ := bytes.Cut(rest, []byte("-"))
	hash, element, _ := bytes.Cut(rest, []byte("-"))
	p.Deadline, _ = ParseInt(deadline)
	n, _ := ParseUint(slot)
	p.Slot = uint16(min(n, storage.Slots))
	p.Hash, _ = strconv.ParseUint(string(hash), 16, 64)
	if p.Element, _ = strconv.ParseUint(string(element), 16, 64); p.Element > storage.MaxElement {
		return p, false
	}
	return p, bytes.Equal(appendPlace(nil, p), b)
}

func runExpiring(c *Ctx) error {
	o, from, until, err := parseExpiring(c.Cursor(1))
	if err != nil {
		return err
	}
	may := c.maySee()
	var elements func(name []byte, typ object.Type) bool
	if o.elements {
		p := c.Client.user.permissions()
		elements = func(name []byte, typ object.Type) bool { return c.Env.maySeeElements(p, name, typ) }
	}
	list, next, more, err := c.view().Expiring(c.Client.DB, from, until, o.count, func(name []byte) bool {
		return o.matches(name) && may(name)
	}, o.typ, elements)
	if err != nil {
		return err
	}
	c.Out.Array(2)
	if more {
		c.Out.Bulk(appendPlace(nil, next))
	} else {
		c.Out.BulkString("0")
	}
	c.Out.Array(len(list))
	for _, k := range list {
		if k.Element {
			c.Out.Array(3)
		} else {
			c.Out.Array(2)
		}
		c.Out.Bulk(k.Name)
		c.Out.Int(k.At)
		if k.Element {
			c.Out.Bulk(k.Elem)
		}
	}
	c.shows()
	return nil
}
