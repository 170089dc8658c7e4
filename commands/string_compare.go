package commands

import (
	"bytes"
	"fmt"

	"github.com/zeebo/xxh3"

	"keyp/storage"
)

// compareCommands use a string's digest. With it a client can change or delete the string only if
// it is unchanged since the client read it.
var compareCommands = []Spec{
	{
		Name: "DIGEST", Group: StringGroup, Since: "8.4.0",
		Summary:    "Replies the digest of a string: its 64-bit XXH3 hash as 16 hexadecimal digits.",
		Complexity: "O(N) in the length of the string.",
		Arity:      2, Flags: ReadOnly | Fast,
		Keys:    []KeySpec{Key(1, RO|Access)},
		Args:    []Arg{keyArg("key")},
		Offload: largeValues,
		Run:     runDigest,
	},
	{
		Name: "DELEX", Group: StringGroup, Since: "8.4.0",
		Summary:    "Deletes a key, if asked only when its string or digest is, or is not, the given one.",
		Complexity: "O(1); with `IFDEQ` and `IFDNE` O(N) in the length of the string.",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{{Begin: 1, Flags: RW | Delete | VariableFlags, Vary: delExFlags}},
		Args: []Arg{
			keyArg("key"),
			oneOf("condition", compareArgs("")...).opt(),
		},
		Run: runDelEx,
	},
}

const (
	errDigest        Error = "ERR must be exactly 16 hexadecimal characters"
	errDelCondition  Error = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"
	errDelNeedString Error = "ERR Key should be of string type if conditions are specified"
)

// when is the kind of a condition on the key.
type when uint8

const (
	always      when = iota
	ifMissing        // NX
	ifExists         // XX
	ifEqual          // IFEQ: the key exists and holds this value (from here on the value matters)
	ifNotEqual       // IFNE: it does not, or there is no key
	ifDigest         // IFDEQ: the key exists and its value has this digest
	ifNotDigest      // IFDNE: it does not, or there is no key
)

// compareOptions are the conditions that compare the value of the key.
var compareOptions = [...]struct {
	word string
	when when
	arg  Arg
}{
	{"IFEQ", ifEqual, stringArg("ifeq-value")},
	{"IFNE", ifNotEqual, stringArg("ifne-value")},
	{"IFDEQ", ifDigest, stringArg("ifdeq-digest")},
	{"IFDNE", ifNotDigest, stringArg("ifdne-digest")},
}

// compareArgs returns the grammar of compareOptions, after other alternatives.
func compareArgs(since string, others ...Arg) []Arg {
	for _, o := range compareOptions {
		others = append(others, o.arg.after(o.word).since(since))
	}
	return others
}

// stringCondition says whether a string command acts on its key; the zero value always does.
type stringCondition struct {
	when  when
	match []byte // of those that compare
}

// option takes a condition from a, if the next argument is one. A repeated condition replaces the
// earlier one. Two different conditions are a syntax error.
func (w *stringCondition) option(a *Cursor) bool {
	switch {
	case a.Word("NX"):
		w.only(ifMissing, a)
	case a.Word("XX"):
		w.only(ifExists, a)
	default:
		return w.compareOption(a)
	}
	return true
}

// compareOption is option for the conditions that compare.
func (w *stringCondition) compareOption(a *Cursor) bool {
	for i := range compareOptions {
		o := &compareOptions[i]
		if a.Word(o.word) {
			w.only(o.when, a)
			w.match = a.Bytes()
			return true
		}
	}
	return false
}

func (w *stringCondition) only(to when, a *Cursor) {
	if w.when != always && w.when != to {
		a.Fail(ErrSyntax)
	}
	w.when = to
}

// comparing reports whether the condition compares the value of the key. Then the key must be a
// string.
func (w *stringCondition) comparing() bool { return w.when >= ifEqual }

// holds reports whether the condition is true for a key with the value old, or for a missing one. A
// digest in the condition is checked only when it is compared, and then only its length.
func (w *stringCondition) holds(old []byte, exists bool) (bool, error) {
	switch w.when {
	case ifMissing:
		return !exists, nil
	case ifExists:
		return exists, nil
	case ifEqual:
		return exists && bytes.Equal(old, w.match), nil
	case ifNotEqual:
		return !exists || !bytes.Equal(old, w.match), nil
	case ifDigest, ifNotDigest:
		equal := false
		if exists {
			d := digest(old)
			if len(w.match) != len(d) {
				return false, errDigest
			}
			equal = bytes.EqualFold(d, w.match)
		}
		return equal == (w.when == ifDigest), nil
	}
	return true, nil
}

// digest returns the reply to DIGEST for a string.
func digest(value []byte) []byte { return fmt.Appendf(nil, "%016x", xxh3.Hash(value)) }

func runDigest(c *Ctx) error {
	value, ok, err := c.readString(c.Keys[0])
	switch {
	case err != nil:
		return err
	case ok:
		c.Out.Bulk(digest(value))
	default:
		c.Out.Null()
	}
	return nil
}

// delExFlags returns the flags of DELEX's key. DELEX reads the key if it depends on the value.
func delExFlags(args [][]byte) KeyFlags {
	if len(args) == 2 {
		return RM | Delete
	}
	return RW | Access | Delete
}

// runDelEx deletes a key of any type. With a condition the key must hold a string. A missing key is
// never an error.
func runDelEx(c *Ctx) error {
	k := c.Keys[0]
	if n := len(c.Args); n != 2 && n != 4 {
		return errArity(c.Spec.full)
	}
	item, exists := c.Txn.Get(k)
	if exists && len(c.Args) == 4 {
		value, err := item.String()
		if err != nil {
			return errDelNeedString
		}
		var w stringCondition
		a := c.Cursor(2)
		if !w.compareOption(&a) {
			return errDelCondition
		}
		if exists, err = w.holds(value, true); err != nil {
			return err
		}
	}
	if !exists {
		c.Out.Int(0)
		return nil
	}
	c.Txn.Delete(k, storage.Deleted)
	c.Out.Int(1)
	return nil
}
