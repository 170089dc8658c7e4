package commands

import "math"

var listElementCommands = []Spec{
	{
		Name: "LINDEX", Group: ListGroup, Since: "1.0.0",
		Summary:    "Replies the element at an index of a list.",
		Complexity: "O(log C) for a list of C chunks.",
		Arity:      3, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), intArg("index")},
		Run:  runLIndex,
	},
	{
		Name: "LSET", Group: ListGroup, Since: "1.0.0",
		Summary:    "Gives the element at an index of a list another value.",
		Complexity: "O(log C) for a list of C chunks.",
		Arity:      4, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), intArg("index"), stringArg("element")},
		Run:  runLSet,
	},
	{
		Name: "LINSERT", Group: ListGroup, Since: "2.2.0",
		Summary:    "Adds an element before or after the first one of a given value.",
		Complexity: "O(N) in the number of elements before the one that is looked for.",
		Arity:      5, Flags: Write | DenyOOM,
		Keys: []KeySpec{Key(1, RW|Insert)},
		Args: []Arg{keyArg("key"), oneOf("where", word("BEFORE"), word("AFTER")),
			stringArg("pivot"), stringArg("element")},
		Run: runLInsert,
	},
	{
		Name: "LREM", Group: ListGroup, Since: "1.0.0",
		Summary:    "Removes elements of a given value, from the head or from the tail on.",
		Complexity: "O(N) in the length of the list.",
		Arity:      4, Flags: Write,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), intArg("count"), stringArg("element")},
		Run:  runLRem,
	},
	{
		Name: "LPOS", Group: ListGroup, Since: "6.0.6",
		Summary:    "Replies the indexes of the elements of a given value.",
		Complexity: "O(N) in the number of elements compared.",
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{
			keyArg("key"), stringArg("element"),
			intArg("rank").after("RANK").opt(),
			intArg("num-matches").after("COUNT").opt(),
			intArg("len").after("MAXLEN").opt(),
		},
		Offload: largeValues,
		Run:     runLPos,
	},
}

var (
	eventLSet    = listEvent("lset")
	eventLInsert = listEvent("linsert")
	eventLRem    = listEvent("lrem")
)

// The errors of LINDEX, LSET, LPOS and LREM.
const (
	errIndexRange  Error = "ERR index out of range"
	errZeroRank    Error = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list"
	errPosCount    Error = "ERR COUNT can't be negative"
	errPosMaxLen   Error = "ERR MAXLEN can't be negative"
	errNoOpposite  Error = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
	lowestOpposite       = -math.MaxInt64
)

// signed takes an integer whose negation is also valid.
func (a *Cursor) signed() int {
	n := a.Int()
	if n < lowestOpposite {
		a.Fail(errNoOpposite)
	}
	return int(n)
}

// listIndex converts an index of a client, which counts from the tail if it is negative. ok is
// false if a list of that length has no such element.
func listIndex(index int64, length int) (at int, ok bool) {
	if index < 0 {
		index += int64(length)
	}
	return int(index), index >= 0 && index < int64(length)
}

// runLIndex reads the key before it parses the index, as Redis does.
func runLIndex(c *Ctx) error {
	l, err := c.readList(c.Keys[0])
	if err != nil {
		return err
	}
	if l.Len() == 0 {
		c.Out.Null()
		return nil
	}
	index, ok := ParseInt(c.Arg(2))
	if !ok {
		return ErrNotInteger
	}
	at, ok := listIndex(index, l.Len())
	if !ok {
		c.Out.Null()
		return nil
	}
	_, val := l.At(at)
	c.Out.Bulk(val)
	return nil
}

func runLSet(c *Ctx) error {
	k := c.Keys[0]
	l, err := c.Txn.List(k)
	if err != nil {
		return err
	}
	if !l.Exists() {
		return ErrNoSuchKey
	}
	index, ok := ParseInt(c.Arg(2))
	if !ok {
		return ErrNotInteger
	}
	at, ok := listIndex(index, l.Value().Len())
	if !ok {
		return errIndexRange
	}
	l.SetAt(at, c.Arg(3))
	c.Txn.Notify(k, eventLSet)
	c.Out.OK()
	return nil
}

// runLInsert replies with the list's new length, -1 if the list has no such element, and 0 if the
// key is missing.
func runLInsert(c *Ctx) error {
	a := c.Cursor(2)
	after := a.Word("AFTER")
	if !after && !a.Word("BEFORE") {
		return ErrSyntax
	}
	k := c.Keys[0]
	l, err := c.Txn.List(k)
	if err != nil {
		return err
	}
	if !l.Exists() {
		c.Out.Int(0)
		return nil
	}
	found := l.Value().Positions(a.Bytes(), 1, 1, 0)
	if len(found) == 0 {
		c.Out.Int(-1)
		return nil
	}
	at := found[0]
	if after {
		at++
	}
	l.Insert(at, a.Bytes())
	c.Txn.Notify(k, eventLInsert)
	c.Out.Int(int64(l.Value().Len()))
	return nil
}

func runLRem(c *Ctx) error {
	a := c.Cursor(2)
	count := a.signed()
	if err := a.Err(); err != nil {
		return err
	}
	k := c.Keys[0]
	l, err := c.Txn.List(k)
	if err != nil {
		return err
	}
	n := l.RemoveEqual(a.Bytes(), count)
	if n > 0 {
		c.Txn.Notify(k, eventLRem)
	}
	c.Out.Int(int64(n))
	return nil
}

// posOptions are the options after LPOS's element. Without COUNT the reply is one index.
type posOptions struct {
	rank, count, maxlen int
	many                bool
}

func parsePos(a Cursor) (posOptions, error) {
	o := posOptions{rank: 1, count: 1}
	for a.More() {
		last := a.Len() == 1
		switch {
		case last:
			a.Fail(ErrSyntax)
		case a.Word("RANK"):
			if o.rank = a.signed(); o.rank == 0 {
				a.Fail(errZeroRank)
			}
		case a.Word("COUNT"):
			o.count, o.many = int(a.IntFrom(0, errPosCount)), true
		case a.Word("MAXLEN"):
			o.maxlen = int(a.IntFrom(0, errPosMaxLen))
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o, a.Err()
}

func runLPos(c *Ctx) error {
	o, err := parsePos(c.Cursor(3))
	if err != nil {
		return err
	}
	l, err := c.readList(c.Keys[0])
	if err != nil {
		return err
	}
	found := l.Positions(c.Arg(2), o.rank, o.count, o.maxlen)
	switch {
	case o.many:
		c.Out.Array(len(found))
		for _, at := range found {
			c.Out.Int(int64(at))
		}
	case len(found) > 0:
		c.Out.Int(int64(found[0]))
	default:
		c.Out.Null()
	}
	return nil
}
