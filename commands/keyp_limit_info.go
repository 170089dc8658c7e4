package commands

import "keyp/storage/object"

var limitInfoCommand = Spec{
	Name: "INFO", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: ReadOnly,
	Summary:    "Shows what the limits of a key count, and its first reservations.",
	Complexity: "O(1); of a WINDOW in how many times of admissions do not count any more.",
	Keys:       []KeySpec{Key(2, RO|Access)},
	Args:       []Arg{keyArg("key")},
	Run:        limitInfo,
}

// limitHeldShown is the maximum number of reservations (calls that hold a part of the limit until
// they end) that KEYP.LIMIT INFO shows.
const limitHeldShown = 100

// limitKinds are the words for kinds of limits.
var limitKinds = [...]string{
	object.LimitTokens: "tokens", object.LimitWindow: "window", object.LimitApprox: "approx",
	object.LimitUntil: "until",
}

// limitInfo replies with a map. A field is null if it depends on the definition of a limit, or does
// not belong to its kind.
func limitInfo(c *Ctx) error {
	v, err := c.peekLimits()
	if err != nil {
		return err
	}
	counts := v.Counts(c.Txn.Now())
	c.Out.Map(3)
	c.Out.BulkString("limits")
	c.Out.Array(len(counts))
	for i := range counts {
		c.replyLimitCount(&counts[i])
	}
	c.intField("reservations", int64(v.HeldLen()))
	c.Out.BulkString("held")
	c.Out.Array(min(v.HeldLen(), limitHeldShown))
	shown := 0
	v.EachHeldInOrder(func(id []byte, cost, deadline int64) bool {
		c.Out.Array(3)
		c.Out.Bulk(id)
		c.Out.Int(cost)
		c.Out.Int(deadline)
		shown++
		return shown < limitHeldShown
	})
	return nil
}

func (c *Ctx) replyLimitCount(n *object.LimitCount) {
	number := func(name string, value int64, known bool) {
		c.Out.BulkString(name)
		if known {
			c.Out.Int(value)
		} else {
			c.Out.Null()
		}
	}
	c.Out.Map(5)
	c.Out.BulkString("kind")
	if n.Kind == 0 {
		c.Out.Null()
	} else {
		c.Out.BulkString(limitKinds[n.Kind])
	}
	number("admitted", n.Admitted, n.Kind != object.LimitTokens)
	c.intField("reserved", n.Held)
	number("span", n.Span, n.Span > 0)
	c.intField("whole", n.Whole)
}
