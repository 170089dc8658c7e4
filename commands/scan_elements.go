package commands

import (
	"slices"

	"keyp/resp"
	"keyp/storage/object"
)

// elementScanner is a collection that can be walked in steps: see object.Hash.Scan.
type elementScanner interface {
	Scan(cursor uint64, count int, fn func(elem, val []byte, deadline int64)) (next uint64)
}

// scanElementsCommand declares HSCAN, SSCAN or ZSCAN; extra are options that only it has.
func scanElementsCommand(name string, group Group, summary, complexity string, run func(*Ctx) error,
	extra ...Arg) Spec {
	return Spec{
		Name: name, Group: group, Since: "2.8.0",
		Summary:    summary,
		Complexity: complexity,
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: append([]Arg{
			keyArg("key"), intArg("cursor"),
			patternArg("pattern").after("MATCH").opt(),
			intArg("count").after("COUNT").opt(),
		}, extra...),
		Tips:    []string{tipRandom},
		Offload: largeScan,
		Run:     run,
	}
}

// scanElements returns the handler of HSCAN, SSCAN or ZSCAN. of is the type of their keys. value
// writes the value of an element. It is nil if elements have no values. For a missing or expired
// key the options are not checked, as in Redis.
func scanElements(of object.Type, value func(out *resp.Writer, val []byte)) func(*Ctx) error {
	return func(c *Ctx) error {
		cursor, ok := ParseUint(c.Arg(2))
		if !ok {
			return ErrCursor
		}
		item, ok := c.read(c.Keys[0])
		if !ok {
			c.Out.Array(2)
			c.Out.BulkUint(0)
			c.Out.Array(0)
			return nil
		}
		if item.Type() != of {
			return ErrWrongType
		}
		o, err := parseScan(c.Cursor(3), of)
		if err != nil {
			return err
		}
		value := value
		if o.noValues {
			value = nil
		}
		replyScan(c, item.Value().(elementScanner), cursor, &o, value)
		return nil
	}
}

// replyScan replies with one step of a walk: the next cursor and the elements.
func replyScan(c *Ctx, v elementScanner, cursor uint64, o *scanOptions,
	value func(out *resp.Writer, val []byte)) {
	out := c.Out
	out.Array(2)
	start, n := out.Len(), 0
	mark := out.ArrayLater()
	next := v.Scan(cursor, o.count, func(elem, val []byte, _ int64) {
		if !o.matches(c, elem) {
			return
		}
		out.Bulk(elem)
		n++
		if value != nil {
			value(out, val)
			n++
		}
	})
	out.SetLen(mark, n)
	// The cursor is the first element of the reply, but is known only now.
	var room [32]byte
	first := resp.Writer{Buf: room[:0]}
	first.BulkUint(next)
	out.Buf = slices.Insert(out.Buf, start, first.Buf...)
}
