package commands

import (
	"math"
	"strings"

	"keyp/storage/object"
)

var scanCommands = []Spec{
	{
		Name: "KEYS", Group: Generic, Since: "1.0.0",
		Summary:    "Replies the names of all keys that match a pattern.",
		Complexity: "O(N) in the number of keys of the database.",
		Arity:      2, Flags: ReadOnly | Dangerous, Scope: Unlocked,
		Args: []Arg{patternArg("pattern")},
		Tips: []string{tipAllShards, tipRandomOrder},
		Run:  runKeys,
	},
	{
		Name: "SCAN", Group: Generic, Since: "2.8.0",
		Summary:    "Goes on with a walk over the names of all keys.",
		Complexity: "O(1) for a call, O(N) in the number of keys for a whole walk.",
		History:    [][2]string{{"6.0.0", "Added the `TYPE` subcommand."}},
		Arity:      -2, Flags: ReadOnly, Scope: Unlocked,
		Args: []Arg{
			intArg("cursor"),
			patternArg("pattern").after("MATCH").opt(),
			intArg("count").after("COUNT").opt(),
			stringArg("type").after("TYPE").opt().since("6.0.0"),
		},
		Tips: []string{tipRandom, tipSpecial, tipSpecialReply},
		Run:  runScan,
	},
	{
		Name: "RANDOMKEY", Group: Generic, Since: "1.0.0",
		Summary:    "Replies the name of some key, chosen at random.",
		Complexity: "O(1)",
		Arity:      1, Flags: ReadOnly, Scope: Unlocked,
		Tips: []string{tipAllShards, tipRandom, tipSpecialReply},
		Run:  runRandomKey,
	},
}

// shows makes the reply wait until all changes that are visible now are durable. A transaction does
// so by itself for the keys that it looks up. Other replies need shows, such as those of a walk
// over the keys or of a count of them.
func (c *Ctx) shows() { c.LSN = c.Env.Store.Shown() }

func runKeys(c *Ctx) error {
	pattern := c.Arg(1)
	mark, n := c.Out.ArrayLater(), 0
	err := c.view().Walk(c.Client.DB, func(name []byte, _ object.Type) bool {
		if c.matches(pattern, name) {
			c.Out.Bulk(name)
			n++
		}
		return true
	})
	if err != nil {
		return err
	}
	c.Out.SetLen(mark, n)
	c.shows()
	return nil
}

// scanOptions are the options after the cursor of SCAN, HSCAN, SSCAN and ZSCAN.
type scanOptions struct {
	match    []byte // nil: all
	count    int
	typ      string // "": all
	noValues bool
}

// Bounds of COUNT: its default, and the most elements that one call visits.
const (
	scanCount    = 10
	scanCountMax = math.MaxInt32
)

// parseScan reads the options of SCAN if of is object.None. Otherwise of is the type of a
// collection, and the options are those of HSCAN, SSCAN or ZSCAN.
func parseScan(a Cursor, of object.Type) (scanOptions, error) {
	o := scanOptions{count: scanCount}
	for a.More() {
		switch {
		case a.Word("COUNT"):
			n := a.Int()
			if n < 1 {
				a.Fail(ErrSyntax)
			}
			o.count = int(min(n, scanCountMax))
		case a.Word("MATCH"):
			if o.match = a.Bytes(); globAll(o.match) {
				o.match = nil
			}
		case of == object.None && a.Word("TYPE"):
			o.typ = strings.ToLower(string(a.Bytes()))
		case a.Word("NOVALUES"):
			o.noValues = true
			if of != object.TypeHash {
				a.Fail(ErrNoValues)
			}
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o, a.Err()
}

// takes reports whether the walk shows a key. A type that does not exist has no keys.
func (o *scanOptions) takes(c *Ctx, name []byte, typ object.Type) bool {
	return o.matches(c, name) && (o.typ == "" || typ.String() == o.typ)
}

// matches reports whether a name or an element matches the pattern of MATCH.
func (o *scanOptions) matches(c *Ctx, name []byte) bool {
	return o.match == nil || c.matches(o.match, name)
}

func runScan(c *Ctx) error {
	cursor, ok := ParseUint(c.Arg(1))
	if !ok {
		return ErrCursor
	}
	o, err := parseScan(c.Cursor(2), object.None)
	if err != nil {
		return err
	}
	return c.scan(&o, cursor, c.view().Scan, nil)
}

// scan runs one step of a walk over the keys. It replies with the next cursor and with the keys
// that match the options. If may is not nil, it leaves out the keys for which may returns false.
func (c *Ctx) scan(o *scanOptions, cursor uint64, step scanStep, may func(name []byte) bool) error {
	var names []byte // one after another; the cursor's reply comes before theirs
	var ends []int
	next, err := step(c.Client.DB, cursor, o.count, func(name []byte, typ object.Type) {
		if o.takes(c, name, typ) && (may == nil || may(name)) {
			names = append(names, name...)
			ends = append(ends, len(names))
		}
	})
	if err != nil {
		return err
	}
	c.Out.Array(2)
	c.Out.BulkUint(next)
	c.Out.Array(len(ends))
	from := 0
	for _, end := range ends {
		c.Out.Bulk(names[from:end])
		from = end
	}
	c.shows()
	return nil
}

// scanStep is a step of a walk, such as storage.View.Scan.
type scanStep func(db int, cursor uint64, count int,
	visit func(name []byte, typ object.Type)) (next uint64, err error)

func runRandomKey(c *Ctx) error {
	key, ok, err := c.view().RandomKey(c.Client.DB)
	switch {
	case err != nil:
		return err
	case ok:
		c.Out.Bulk(key)
	default:
		c.Out.Null()
	}
	c.shows()
	return nil
}
