package commands

import (
	"slices"
	"strings"
)

// keypCommands are Keyp's own: questions about time that Redis has no commands for. They belong to
// the selected database, and show the keys whose deadline the user may ask for (PEXPIRETIME).
var keypCommands = []Spec{
	{
		Name: "KEYP.UNTIMED", Group: KeypGroup, Since: "0.1.0",
		Summary:    "Lists the keys without a deadline, some with each call.",
		Complexity: "O(N) in COUNT for a call, O(N) in the number of keys for a whole walk.",
		Arity:      -1, Flags: ReadOnly, Scope: Unlocked, Categories: keypCategories,
		Args: keypArgs,
		Tips: []string{tipRandom, tipSpecial},
		Run:  runUntimed,
	},
	{
		Name: "KEYP.EXPIRING", Group: KeypGroup, Since: "0.1.0",
		Summary:    "Lists keys, or the elements of one key, in the order of their deadlines, from one instant on and before another, some with each call.",
		Complexity: "O(log(N)+M) where N is the number of keys with a deadline and M is COUNT.",
		Arity:      -3, Flags: ReadOnly, Categories: keypCategories,
		Keys:     []KeySpec{{Flags: RO, Find: expiringKey}},
		Escalate: expiringScope,
		Args:     slices.Concat([]Arg{stringArg("from"), stringArg("to")}, keypArgs[:2], []Arg{keyArg("key").after("ELEMENTS").opt()}, keypArgs[2:]),
		Tips:     []string{tipRandom, tipSpecial},
		Run:      runExpiring,
	},
	{
		Name: "KEYP.TIMELINE", Group: KeypGroup, Since: "0.1.0",
		Summary:    "Counts keys by when they are due next, in equal spans of time.",
		Complexity: "O(B*log(N)) where B is the number of buckets and N of keys with a deadline. O(N) with MATCH, or for users that may not see all keys.",
		Arity:      -4, Flags: ReadOnly, Scope: Unlocked, Categories: keypCategories,
		Args: []Arg{stringArg("from"), stringArg("to"), intArg("buckets"), patternArg("pattern").after("MATCH").opt()},
		Tips: []string{tipRandom, tipSpecial},
		Run:  runTimeline,
	},
}

// keypCategories are the ACL categories of what reads the whole keyspace.
var keypCategories = []string{"@keyspace", "@keyp"}

var keypArgs = []Arg{
	patternArg("pattern").after("MATCH").opt(),
	stringArg("type").after("TYPE").opt(),
	intArg("count").after("COUNT").opt(),
	stringArg("cursor").after("CURSOR").opt(),
}

// Bounds of COUNT: what it is when not given, and the most that one call looks at. A cursor is at
// most keypCursorMax bytes long.
const (
	keypCount     = 100
	keypCountMax  = 10_000
	keypCursorMax = 64
)

// keypOptions are those of a walk.
type keypOptions struct {
	scanOptions
	cursor []byte // nil: from the begin
}

// keypOption reads an option that all walks have; false if the next argument is none.
func (o *keypOptions) keypOption(a *Cursor) bool {
	switch {
	case a.Word("MATCH"):
		if o.match = a.Bytes(); globAll(o.match) {
			o.match = nil
		}
	case a.Word("TYPE"):
		o.typ = strings.ToLower(string(a.Bytes()))
	case a.Word("COUNT"):
		n := a.Int()
		if n < 1 {
			a.Fail(ErrSyntax)
		}
		o.count = int(min(n, keypCountMax))
	case a.Word("CURSOR"):
		if o.cursor = a.Bytes(); len(o.cursor) > keypCursorMax {
			a.Fail(ErrCursor)
		}
	default:
		return false
	}
	return true
}

// parseUntimed reads the arguments of KEYP.UNTIMED.
func parseUntimed(a Cursor) (o keypOptions, cursor uint64, err error) {
	o.count = keypCount
	for a.More() {
		if !o.keypOption(&a) {
			a.Fail(ErrSyntax)
		}
	}
	if o.cursor != nil {
		var ok bool
		if cursor, ok = ParseUint(o.cursor); !ok {
			a.Fail(ErrCursor)
		}
	}
	return o, cursor, a.Err()
}

func runUntimed(c *Ctx) error {
	o, cursor, err := parseUntimed(c.Cursor(1))
	if err != nil {
		return err
	}
	return c.scan(&o.scanOptions, cursor, c.view().Untimed, c.maySee())
}

// maySee reports of names whether the client may ask for their deadlines: its rights are those at
// the begin of the call.
func (c *Ctx) maySee() func(name []byte) bool {
	p := c.Client.user.permissions()
	return func(name []byte) bool { return c.Env.maySee(p, name) }
}
