package commands

var hashRandomCommands = []Spec{{
	Name: "HRANDFIELD", Group: HashGroup, Since: "6.2.0",
	Summary:    "Replies random fields of a hash: different ones, or with a negative count any.",
	Complexity: "O(N) in the number of fields replied.",
	Arity:      -2, Flags: ReadOnly,
	Keys: []KeySpec{Key(1, RO|Access)},
	Args: []Arg{keyArg("key"),
		block("options", intArg("count"), word("WITHVALUES").opt()).opt()},
	Tips:    []string{tipRandom},
	Offload: largeRandom,
	Run:     runHRandField,
}}

// runHRandField runs HRANDFIELD. With WITHVALUES the reply has each value after its field; in RESP3
// each field and its value are a pair.
func runHRandField(c *Ctx) error {
	o, err := parseRandom(c.Cursor(2), "WITHVALUES")
	if err != nil {
		return err
	}
	h, err := c.readHash(c.Keys[0])
	if err != nil {
		return err
	}
	c.random(o, h.Len(), func(n int) { c.pairArray(n, o.paired) }, func(i int) {
		field, val, _ := h.At(i)
		c.beginPair(o.paired)
		c.Out.Bulk(field)
		if o.paired {
			c.Out.Bulk(val)
		}
	})
	return nil
}
