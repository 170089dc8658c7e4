package commands

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

var setAlgebraCommands = []Spec{
	setsCommand("SINTER", "Replies the members that all of several sets have.",
		interComplexity, intersection),
	{
		Name: "SINTERCARD", Group: SetGroup, Since: "7.0.0",
		Summary:    "Counts the members that all of several sets have, up to a limit.",
		Complexity: interComplexity,
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{NumKeys(1, RO|Access)},
		Args: []Arg{intArg("numkeys"), keyArg("key").many(),
			intArg("limit").after("LIMIT").opt()},
		Offload: largeValues,
		Run:     countSets(intersection, false),
	},
	{
		Name: "SUNIONCARD", Group: SetGroup, Since: "8.10.0",
		Summary:    "Counts the members that any of several sets has, up to a limit, or estimates how many they are.",
		Complexity: sumComplexity,
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{NumKeys(1, RO|Access)},
		Args: []Arg{intArg("numkeys"), keyArg("key").many(), word("APPROX").opt(),
			intArg("limit").after("LIMIT").opt()},
		Offload: largeValues,
		Run:     countSets(union, true),
	},
	{
		Name: "SDIFFCARD", Group: SetGroup, Since: "8.10.0",
		Summary:    "Counts the members of a set that none of several others has, up to a limit.",
		Complexity: sumComplexity,
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{NumKeys(1, RO|Access)},
		Args: []Arg{intArg("numkeys"), keyArg("key").many(),
			intArg("limit").after("LIMIT").opt()},
		Offload: largeValues,
		Run:     countSets(difference, false),
	},
	setsStoreCommand("SINTERSTORE",
		"Stores the members that all of several sets have, and replies how many they are.",
		interComplexity, OW|Update, intersection),
	setsCommand("SUNION", "Replies the members that any of several sets has.",
		sumComplexity, union),
	setsStoreCommand("SUNIONSTORE",
		"Stores the members that any of several sets has, and replies how many they are.",
		sumComplexity, OW|Update, concatenation),
	setsCommand("SDIFF", "Replies the members of a set that none of several others has.",
		sumComplexity, difference),
	setsStoreCommand("SDIFFSTORE",
		"Stores the members of a set that none of several others has, and replies how many they are.",
		sumComplexity, OW|Update, difference),
}

const (
	interComplexity = "O(N*M) at worst, N members in the smallest of M sets."
	sumComplexity   = "O(N) in the members of all sets."
)

// setsCommand declares a command that replies with the result of an operation on its keys.
func setsCommand(name, summary, complexity string, of setOperation) Spec {
	return Spec{
		Name: name, Group: SetGroup, Since: "1.0.0",
		Summary:    summary,
		Complexity: complexity,
		Arity:      -2, Flags: ReadOnly,
		Keys:    []KeySpec{KeysFrom(1, 1, RO|Access)},
		Args:    []Arg{keyArg("key").many()},
		Tips:    []string{tipRandomOrder},
		Offload: largeValues,
		Run:     replySets(of),
	}
}

// setsStoreCommand declares a command that stores the result of an operation on its other keys
// under its first key.
func setsStoreCommand(name, summary, complexity string, target KeyFlags, of setOperation) Spec {
	return Spec{
		Name: name, Group: SetGroup, Since: "1.0.0",
		Summary:    summary,
		Complexity: complexity,
		Arity:      -3, Flags: Write | DenyOOM,
		Keys:    []KeySpec{Key(1, target), KeysFrom(2, 1, RO|Access)},
		Args:    []Arg{keyArg("destination"), keyArg("key").many()},
		Offload: largeValues,
		Run:     storeSets(of, storage.Event{Class: storage.EventSet, Name: strings.ToLower(name)}),
	}
}

// membersOf iterates over a set's members. Each is valid until the next one.
func membersOf(s *object.Set) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s.Walk(func(m, _ []byte, _ int64) bool { return yield(m) })
	}
}

// readSets is readSet for several keys. It returns ErrWrongType if any key has another type.
func (c *Ctx) readSets(keys []storage.Key) ([]*object.Set, error) {
	sets := make([]*object.Set, len(keys))
	for i, k := range keys {
		var err error
		if sets[i], err = c.readSet(k); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// setOperation returns the members of the result for at least one set. It copies as few of them as
// possible. Each is valid until the next one.
type setOperation func(sets []*object.Set) iter.Seq[[]byte]

// replySets returns a handler that replies with the result of an operation on the command's keys.
func replySets(of setOperation) func(*Ctx) error {
	return func(c *Ctx) error {
		sets, err := c.readSets(c.Keys)
		if err != nil {
			return err
		}
		mark, n := c.Out.SetLater(), 0
		for m := range of(sets) {
			c.Out.Bulk(m)
			n++
		}
		c.Out.SetLen(mark, n)
		return nil
	}
}

// storeSets returns a handler that stores the result of an operation on the command's other keys
// under its first key. If the result is empty, it deletes that key. The members of the result have
// no deadlines. The operation may return a member more than once.
func storeSets(of setOperation, ev storage.Event) func(*Ctx) error {
	return func(c *Ctx) error {
		sets, err := c.readSets(c.Keys[1:])
		if err != nil {
			return err
		}
		result := &object.Set{}
		for m := range of(sets) {
			result.Add(m, ttl.None)
		}
		n := result.Len()
		c.overwrite(c.Keys[0], result, ev)
		c.Out.Int(int64(n))
		return nil
	}
}

// The errors of SINTERCARD and its like.
const (
	errManyKeys Error = "ERR Number of keys can't be greater than number of args"
	errLimit    Error = "ERR LIMIT can't be negative"
)

// limit takes LIMIT, and fails for anything else. 0 means no limit.
func (a *Cursor) limit() (limit int64, err error) {
	limit, _, err = a.limitOr("")
	return limit, err
}

// limitOr is limit, but also takes a word, unless word is empty.
func (a *Cursor) limitOr(word string) (limit int64, found bool, err error) {
	for a.More() {
		switch {
		case a.Word("LIMIT"):
			limit = a.IntFrom(0, errLimit)
		case word != "" && a.Word(word):
			found = true
		default:
			a.Fail(ErrSyntax)
		}
	}
	return limit, found, a.Err()
}

// countSets returns a handler that replies with the number of members in the result of an
// operation, up to a limit. If estimates is true, APPROX makes it reply with the estimate of a
// HyperLogLog.
func countSets(of setOperation, estimates bool) func(*Ctx) error {
	word := ""
	if estimates {
		word = "APPROX"
	}
	return func(c *Ctx) error {
		a := c.Cursor(1)
		numkeys := a.IntFrom(1, errNumKeys)
		if a.Err() == nil && numkeys > int64(a.Len()) {
			a.Fail(errManyKeys)
		}
		a.Skip(numkeys)
		limit, approx, err := a.limitOr(word)
		if err != nil {
			return err
		}
		sets, err := c.readSets(c.Keys)
		if err != nil {
			return err
		}
		var n int64
		if approx {
			if n = estimate(sets); limit > 0 {
				n = min(n, limit)
			}
		} else {
			for range of(sets) {
				if n++; n == limit {
					break
				}
			}
		}
		c.Out.Int(n)
		return nil
	}
}

// estimate estimates how many members sets have together. It does not keep the members that it has
// seen.
func estimate(sets []*object.Set) int64 {
	var registers [sketchRegisters]byte
	for m := range concatenation(sets) {
		i, v := registerOf(m)
		registers[i] = max(registers[i], v)
	}
	return int64(cardinality(&registers))
}

// intersection returns the members of the smallest set that are in all others. It checks smaller
// sets first.
func intersection(sets []*object.Set) iter.Seq[[]byte] {
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b *object.Set) int { return cmp.Compare(a.Len(), b.Len()) })
	return func(yield func([]byte) bool) {
		for m := range membersOf(sets[0]) {
			if inAll(sets[1:], m) && !yield(m) {
				return
			}
		}
	}
}

func inAll(sets []*object.Set, m []byte) bool {
	for _, s := range sets {
		if _, ok := s.Has(m); !ok {
			return false
		}
	}
	return true
}

func inAny(sets []*object.Set, m []byte) bool {
	for _, s := range sets {
		if _, ok := s.Has(m); ok {
			return true
		}
	}
	return false
}

// concatenation returns the members of all sets, one set after another. It may return a member more
// than once.
func concatenation(sets []*object.Set) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, s := range sets {
			for m := range membersOf(s) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// union returns the members of the first set, then those of the others that have not occurred yet.
// Sets of integers are sorted, as in Redis.
func union(sets []*object.Set) iter.Seq[[]byte] {
	if !slices.ContainsFunc(sets, func(s *object.Set) bool {
		return s.Len() > 0 && s.Encoding() != "intset"
	}) {
		all := &object.Set{}
		for m := range concatenation(sets) {
			all.Add(m, ttl.None)
		}
		return membersOf(all)
	}
	return func(yield func([]byte) bool) {
		seen := []*object.Set{sets[0], {}} // the second: what the sets between first and last add
		for i, s := range sets {
			for m := range membersOf(s) {
				again := i > 0 && inAny(seen, m)
				if !again && i > 0 && i < len(sets)-1 {
					seen[1].Add(m, ttl.None)
				}
				if !again && !yield(m) {
					return
				}
			}
		}
	}
}

// difference returns the members of the first set that are in no other set. It first unites the
// other sets if that is less work.
func difference(sets []*object.Set) iter.Seq[[]byte] {
	first, others := sets[0], sets[1:]
	total := 0
	for _, s := range others {
		total += s.Len()
	}
	if len(others) > 1 && first.Len()*len(others)/2 > total {
		all := &object.Set{}
		for m := range concatenation(others) {
			all.Add(m, ttl.None)
		}
		others = []*object.Set{all}
	}
	return func(yield func([]byte) bool) {
		for m := range membersOf(first) {
			if !inAny(others, m) && !yield(m) {
				return
			}
		}
	}
}
