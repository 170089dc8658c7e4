package commands

import (
	"keyp/storage"
	"keyp/storage/object"
)

// popEnd is an end of a list or of a sorted set, from which commands pop elements.
type popEnd interface {
	// popOne pops an element of the value in k and replies with the key and the element.
	// popSome pops up to count elements and replies with the key and an array of them. If the
	// key is missing, found is false and they reply with nothing. For another type they return
	// ErrWrongType.
	popOne(c *Ctx, k storage.Key) (found bool, err error)
	popSome(c *Ctx, k storage.Key, count int64) (found bool, err error)
	// holds returns the type of the values that have this end.
	holds() object.Type
}

// popFirst calls pop for the first of the command's keys in which it finds something.
func (c *Ctx) popFirst(pop func(c *Ctx,
	k storage.Key) (found bool, err error)) (found bool, err error) {
	for _, k := range c.Keys {
		if found, err = pop(c, k); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

var timeoutHistory = [][2]string{{"6.0.0",
	"`timeout` is interpreted as a double instead of an integer."}}

// blockingPopCommand completes the declaration of a command that pops one element, or waits.
func blockingPopCommand(s Spec, end popEnd) Spec {
	s.History, s.Arity = timeoutHistory, -3
	s.Keys = []KeySpec{{Flags: RW | Access | Delete, Begin: 1, Last: -2}} // all but the timeout
	s.Args = []Arg{keyArg("key").many(), doubleArg("timeout")}
	s.Run = blockingPop(end)
	return s
}

// blockingPop returns the handler of BLPOP and its like, which reply with a null array on timeout.
func blockingPop(end popEnd) func(*Ctx) error {
	return func(c *Ctx) error {
		timeout, err := c.lastTimeout()
		if err != nil {
			return err
		}
		if found, err := c.popFirst(end.popOne); found || err != nil {
			return err
		}
		return c.block(c.Keys, end.holds(), timeout)
	}
}

// The errors of commands with a number of keys and a number of elements to pop.
const (
	errNumKeys  Error = "ERR numkeys should be greater than 0"
	errPopCount Error = "ERR count should be greater than 0"
)

// multiPop contains the arguments of LMPOP, ZMPOP, BLMPOP and BZMPOP, except the keys and the
// timeout.
type multiPop struct {
	end   popEnd
	count int64
}

// parseMultiPop reads the arguments from the number of keys on; readEnd takes the word that names
// an end.
func parseMultiPop(a Cursor, readEnd func(*Cursor) popEnd) (multiPop, error) {
	a.Skip(a.IntFrom(1, errNumKeys))
	o := multiPop{end: readEnd(&a), count: 1}
	for given := false; a.More(); given = true {
		if given || a.Len() == 1 || !a.Word("COUNT") {
			a.Fail(ErrSyntax)
		}
		o.count = a.IntFrom(1, errPopCount)
	}
	return o, a.Err()
}

func (o multiPop) pop(c *Ctx, k storage.Key) (found bool, err error) {
	return o.end.popSome(c, k, o.count)
}

const (
	listPopComplexity = "O(N + M) for N keys and M elements taken."
	zsetPopComplexity = "O(K + M log N), K being the keys, M the members to remove and N the size of the sorted set."
)

// multiPopCommand declares a command that pops elements from one of the given ends.
func multiPopCommand(name string, group Group, summary, complexity string, run func(*Ctx) error,
	ends ...Arg) Spec {
	return Spec{
		Name: name, Group: group, Since: "7.0.0",
		Summary:    summary,
		Complexity: complexity,
		Arity:      -4, Flags: Write,
		Keys: []KeySpec{NumKeys(1, RW|Access|Delete)},
		Args: []Arg{intArg("numkeys"), keyArg("key").many(), oneOf("where", ends...),
			intArg("count").after("COUNT").opt()},
		Run: run,
	}
}

// blockingForm returns a declaration of multiPopCommand with a timeout as an additional first
// argument.
func blockingForm(s Spec) Spec {
	s.Arity, s.Flags = -5, Write|Blocking
	s.Keys = []KeySpec{NumKeys(2, RW|Access|Delete)}
	s.Args = append([]Arg{doubleArg("timeout")}, s.Args...)
	return s
}

// popFromFirst returns the handler of LMPOP and ZMPOP. It replies with a null array if no key has
// elements.
func popFromFirst(readEnd func(*Cursor) popEnd) func(*Ctx) error {
	return func(c *Ctx) error {
		o, err := parseMultiPop(c.Cursor(1), readEnd)
		if err != nil {
			return err
		}
		found, err := c.popFirst(o.pop)
		if err == nil && !found {
			c.Out.NullArray()
		}
		return err
	}
}

// blockingPopFromFirst returns the handler of BLMPOP and BZMPOP, whose timeout comes first.
func blockingPopFromFirst(readEnd func(*Cursor) popEnd) func(*Ctx) error {
	return func(c *Ctx) error {
		o, err := parseMultiPop(c.Cursor(2), readEnd)
		if err != nil {
			return err
		}
		timeout, err := c.firstTimeout()
		if err != nil {
			return err
		}
		if found, err := c.popFirst(o.pop); found || err != nil {
			return err
		}
		return c.block(c.Keys, o.end.holds(), timeout)
	}
}
