package commands

import (
	"math"
	"math/rand/v2"
)

var hashRandomCommands = []Spec{{
	Name: "HRANDFIELD", Group: HashGroup, Since: "6.2.0",
	Summary:    "Replies random fields of a hash: different ones, or with a negative count any.",
	Complexity: "O(N) in the number of fields replied.",
	Arity:      -2, Flags: ReadOnly,
	Keys: []KeySpec{Key(1, RO|Access)},
	Args: []Arg{keyArg("key"), block("options", intArg("count"), word("WITHVALUES").opt()).opt()},
	Tips: []string{tipRandom},
	Long: longRandom,
	Run:  runHRandField,
}}

func runHRandField(c *Ctx) error {
	if len(c.Args) > 2 {
		return randomFields(c)
	}
	h, err := c.readHash(c.Keys[0])
	if err != nil {
		return err
	}
	if h.Len() == 0 {
		c.Out.Null()
		return nil
	}
	field, _, _ := h.At(rand.IntN(h.Len()))
	c.Out.Bulk(field)
	return nil
}

// parseRandomFields reads what follows the key of HRANDFIELD.
func parseRandomFields(a Cursor) (count int64, values bool, err error) {
	count = a.Int()
	if count == math.MinInt64 {
		a.Fail(errCountRange)
	}
	values = a.Word("WITHVALUES")
	if a.Len() > 0 {
		a.Fail(ErrSyntax)
	}
	if values && (count < -math.MaxInt64/2 || count > math.MaxInt64/2) {
		a.Fail(ErrIntRange)
	}
	return count, values, a.Err()
}

// randomFields is HRANDFIELD with a count. With values a reply has twice the elements, or
// in RESP3 a pair for each field.
func randomFields(c *Ctx) error {
	count, values, err := parseRandomFields(c.Cursor(2))
	if err != nil {
		return err
	}
	h, err := c.readHash(c.Keys[0])
	if err != nil {
		return err
	}
	pairs := values && c.Out.Proto >= 3
	list := func(n int) {
		if values && !pairs {
			n *= 2
		}
		c.Out.Array(n)
	}
	reply := func(i int) {
		if pairs {
			c.Out.Array(2)
		}
		field, val, _ := h.At(i)
		c.Out.Bulk(field)
		if values {
			c.Out.Bulk(val)
		}
	}
	if count < 0 && h.Len() > 0 {
		list(int(-count))
		drawAgain(c, h.Len(), -count, reply)
		return nil
	}
	n := int(max(0, min(count, int64(h.Len()))))
	list(n)
	sample(h.Len(), n, reply)
	return nil
}
