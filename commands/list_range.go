package commands

var listRangeCommands = []Spec{
	{
		Name: "LRANGE", Group: ListGroup, Since: "1.0.0",
		Summary:    "Replies a range of a list's elements.",
		Complexity: "O(log C + N) for N elements of a list of C chunks.",
		Arity:      4, Flags: ReadOnly,
		Keys: []KeySpec{Key(1, RO|Access)},
		Args: []Arg{keyArg("key"), intArg("start"), intArg("stop")},
		Run:  runLRange,
	},
	{
		Name: "LTRIM", Group: ListGroup, Since: "1.0.0",
		Summary:    "Removes all elements of a list but a range of them.",
		Complexity: "O(N) in the number of elements removed.",
		Arity:      4, Flags: Write,
		Keys: []KeySpec{Key(1, RW|Delete)},
		Args: []Arg{keyArg("key"), intArg("start"), intArg("stop")},
		Run:  runLTrim,
	},
}

var eventLTrim = listEvent("ltrim")

// listRange is a range of indexes, as a client gives them. Both ends are included, and negative
// indexes count from the tail.
type listRange struct{ start, stop int64 }

func parseListRange(a Cursor) (listRange, error) {
	r := listRange{a.Int(), a.Int()}
	return r, a.Err()
}

// of returns the range in a list of that length: the first index and the number of elements.
func (r listRange) of(length int) (from, n int) {
	size := int64(length)
	start, stop := r.start, r.stop
	if start < 0 {
		start = max(start+size, 0)
	}
	if stop < 0 {
		stop += size
	}
	stop = min(stop, size-1)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop - start + 1)
}

func runLRange(c *Ctx) error {
	r, err := parseListRange(c.Cursor(2))
	if err != nil {
		return err
	}
	l, err := c.readList(c.Keys[0])
	if err != nil {
		return err
	}
	from, n := r.of(l.Len())
	each := l.Bytes() / max(l.Len(), 1)
	if c.offloads(n, largeCount) || c.offloads(n*each, largeValue) {
		return errOffload
	}
	c.elements(l, from, n, false)
	return nil
}

func runLTrim(c *Ctx) error {
	r, err := parseListRange(c.Cursor(2))
	if err != nil {
		return err
	}
	k := c.Keys[0]
	l, err := c.Txn.List(k)
	if err != nil {
		return err
	}
	if l.Exists() {
		length := l.Value().Len()
		from, n := r.of(length)
		l.RemoveRange(from+n, length)
		l.RemoveRange(0, from)
		c.Txn.Notify(k, eventLTrim)
	}
	c.Out.OK()
	return nil
}
