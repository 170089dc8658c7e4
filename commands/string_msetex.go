package commands

import "math"

var msetexCommands = []Spec{{
	Name: "MSETEX", Group: StringGroup, Since: "8.4.0",
	Summary:    "Stores several strings at once, with a condition and a time to live for all of them if asked.",
	Complexity: "O(N) in the number of keys.",
	Arity:      -4, Flags: Write | DenyOOM,
	Keys: []KeySpec{{Flags: OW | Update, Begin: 1, Num: true, Step: 2}},
	Args: []Arg{
		intArg("numkeys"),
		block("data", keyArg("key"), stringArg("value")).many(),
		oneOf("condition", word("NX"), word("XX")).opt(),
		expiryArgs(word("KEEPTTL")),
	},
	Run: runMSetEx,
}}

const (
	errPairCount Error = "ERR invalid numkeys value"
	errKeyPairs  Error = "ERR wrong number of key-value pairs"
)

// msetexOptions are the options after MSETEX's pairs.
type msetexOptions struct {
	condition stringCondition // none, NX or XX
	expiry    expiry          // or KEEPTTL
}

func parseMSetEx(a Cursor) (msetexOptions, error) {
	var o msetexOptions
	for a.More() {
		switch {
		case a.Word("NX"):
			o.condition.only(ifMissing, &a)
		case a.Word("XX"):
			o.condition.only(ifExists, &a)
		case o.expiry.option(&a, "KEEPTTL"):
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o, a.Err()
}

// runMSetEx replies with 1 if it has stored all keys. If one of them does not meet the condition,
// it stores none and replies with 0.
func runMSetEx(c *Ctx) error {
	n, ok := ParseInt(c.Arg(1))
	switch {
	case !ok || n < 1 || n > math.MaxInt32:
		return errPairCount
	case n > int64(len(c.Args)-2)/2:
		return errKeyPairs
	}
	o, err := parseMSetEx(c.Cursor(2 + 2*int(n)))
	if err != nil {
		return err
	}
	deadline, err := o.expiry.deadline(c.Txn)
	if err != nil {
		return err
	}
	for _, k := range c.EachKey {
		_, exists := c.Txn.Peek(k)
		if met, _ := o.condition.holds(nil, exists); !met { // compares nothing, so cannot fail
			c.Out.Int(0)
			return nil
		}
		if !o.expiry.other || !exists {
			c.Txn.MayWrite(k, deadline.At)
		}
	}
	for i, k := range c.EachKey {
		c.storeKeeping(k, c.Arg(2*i+3), deadline, o.expiry.other)
	}
	c.Out.Int(1)
	return nil
}
