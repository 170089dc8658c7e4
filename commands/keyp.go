package commands

import (
	"slices"

	"keyp/storage"
)

// keypCommands list and count keys by their deadlines. They work on the selected database. They
// show only keys whose deadline the user may read, as with PEXPIRETIME.
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
		Args: slices.Concat([]Arg{stringArg("from"), stringArg("to")}, keypArgs[:2],
			[]Arg{keyArg("key").after("ELEMENTS").opt()}, keypArgs[2:]),
		Tips: []string{tipRandom, tipSpecial},
		Run:  runExpiring,
	},
	{
		Name: "KEYP.TIMELINE", Group: KeypGroup, Since: "0.1.0",
		Summary:    "Counts keys by when they are due next, in equal spans of time.",
		Complexity: "O(B*log(N)) where B is the number of buckets and N of keys with a deadline. O(N) with MATCH, or for users that may not see all keys.",
		Arity:      -4, Flags: ReadOnly, Scope: Unlocked, Categories: keypCategories,
		Args: []Arg{stringArg("from"), stringArg("to"), intArg("buckets"),
			patternArg("pattern").after("MATCH").opt()},
		Tips: []string{tipRandom, tipSpecial},
		Run:  runTimeline,
	},
}

// keypCategories are the ACL categories of commands that read the whole keyspace.
var keypCategories = []string{"@keyspace", "@keyp"}

var keypArgs = []Arg{
	patternArg("pattern").after("MATCH").opt(),
	stringArg("type").after("TYPE").opt(),
	intArg("count").after("COUNT").opt(),
	stringArg("cursor").after("CURSOR").opt(),
}

// The default of COUNT, and the maximum number of keys that one call reads. A cursor is at most
// keypCursorMax bytes long.
const (
	keypCount     = 100
	keypCountMax  = 10_000
	keypCursorMax = 64
)

// keypOptions are the options of a walk.
type keypOptions struct {
	scanOptions
	cursor []byte // nil: from the beginning
}

const errWalkCount Error = "ERR COUNT is a number of 1 or more"

// keypOption reads an option that all walks have. It returns false if the next argument is none.
func (o *keypOptions) keypOption(a *options) bool {
	switch {
	case a.option("MATCH", 1):
		if o.match = a.Bytes(); globAll(o.match) {
			o.match = nil
		}
	case a.option("TYPE", 1):
		o.typ = a.typeName().String()
	case a.option("COUNT", 1):
		o.count = int(min(a.IntFrom(1, errWalkCount), keypCountMax))
	case a.option("CURSOR", 1):
		if o.cursor = a.Bytes(); len(o.cursor) > keypCursorMax {
			a.Fail(ErrCursor)
		}
	default:
		return false
	}
	return true
}

// parseUntimed reads the arguments of KEYP.UNTIMED.
func parseUntimed(c Cursor) (o keypOptions, cursor uint64, err error) {
	a := options{Cursor: c}
	o.count = keypCount
	for a.More() {
		if !o.keypOption(&a) {
			a.end()
		}
	}
	if o.cursor != nil {
		cursor = a.scanCursor(o.cursor)
	}
	return o, cursor, a.Err()
}

// scanCursor reads a position of SCAN. A position after all keys is an error, because SCAN never
// returns one.
func (a *options) scanCursor(b []byte) uint64 {
	cursor, ok := ParseUint(b)
	if !ok || cursor >= storage.SlotCursor(storage.Slots) {
		a.Fail(ErrCursor)
	}
	return cursor
}

func runUntimed(c *Ctx) error {
	o, cursor, err := parseUntimed(c.Cursor(1))
	if err != nil {
		return err
	}
	return c.scan(&o.scanOptions, cursor, c.view().Untimed, c.maySee())
}

// maySee returns a function that reports whether the client may ask for the deadline of a name. It
// uses the rights of the user as of the call of maySee.
func (c *Ctx) maySee() func(name []byte) bool {
	p := c.Client.user.permissions()
	return func(name []byte) bool { return c.Env.maySee(p, name) }
}
