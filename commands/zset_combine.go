package commands

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"keyp/storage"
	"keyp/storage/object"
)

// zsetCombineCommands combine several sorted sets into one. They also accept sets, whose members
// all have the score 1.
var zsetCombineCommands = []Spec{
	combineCommand("ZUNION", "Replies the members that any of several sorted sets has.",
		unionComplexity, zunion),
	combineStoreCommand("ZUNIONSTORE", "2.0.0",
		"Stores the members that any of several sorted sets has.", unionComplexity, zunion),
	combineCommand("ZINTER", "Replies the members that all of several sorted sets have.",
		smallestComplexity, zinter),
	combineStoreCommand("ZINTERSTORE", "2.0.0",
		"Stores the members that all of several sorted sets have.", smallestComplexity, zinter),
	combineCommand("ZDIFF", "Replies the members that the first of several sorted sets has alone.",
		firstComplexity, zdiff),
	combineStoreCommand("ZDIFFSTORE", "6.2.0",
		"Stores the members that the first of several sorted sets has alone.",
		firstComplexity, zdiff),
	{
		Name: "ZINTERCARD", Group: SortedSet, Since: "7.0.0",
		Summary:    "Counts the members that all of several sorted sets have.",
		Complexity: "O(NK), N being the size of the smallest of K inputs.",
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{NumKeys(1, RO|Access)},
		Args: []Arg{intArg("numkeys"), keyArg("key").many(),
			intArg("limit").after("LIMIT").opt()},
		Offload: largeValues,
		Run:     runZInterCard,
	},
}

const (
	unionComplexity    = "O(N log M), N being the sum of the sizes of the inputs and M that of the result."
	smallestComplexity = "O(NK + M log M), N being the size of the smallest of K inputs and M that of the result."
	firstComplexity    = "O(NK + M log M), N being the size of the first of K inputs and M that of the result."
)

// combineCommand declares a command that replies with the result of op for its keys.
func combineCommand(name, summary, complexity string, op combination) Spec {
	return Spec{
		Name: name, Group: SortedSet, Since: "6.2.0",
		Summary:    summary,
		Complexity: complexity,
		History:    op.history(),
		Arity:      -3, Flags: ReadOnly,
		Keys:    []KeySpec{NumKeys(1, RO|Access)},
		Args:    append(op.args(intArg("numkeys"), keyArg("key").many()), withScores),
		Offload: largeValues,
		Run:     combineReply(op),
	}
}

// combineStoreCommand declares a command that stores the result of op for its other keys under its
// first key.
func combineStoreCommand(name, since, summary, complexity string, op combination) Spec {
	return Spec{
		Name: name, Group: SortedSet, Since: since,
		Summary:    summary,
		Complexity: complexity,
		History:    op.history(),
		Arity:      -4, Flags: Write | DenyOOM,
		Keys:    []KeySpec{Key(1, OW|Update), NumKeys(2, RO|Access)},
		Args:    op.args(keyArg("destination"), intArg("numkeys"), keyArg("key").many()),
		Offload: largeValues,
		Run:     combineStore(op, strings.ToLower(name)),
	}
}

const errWeight Error = "ERR weight value is not a float"

// scored is an input: a sorted set or a set, or neither for a missing key.
type scored struct {
	z      *object.ZSet
	set    *object.Set
	weight float64
}

func (s *scored) len() int {
	switch {
	case s.z != nil:
		return s.z.Len()
	case s.set != nil:
		return s.set.Len()
	}
	return 0
}

// each calls fn for each member and its score until fn returns false.
func (s *scored) each(fn func(member []byte, score float64) bool) {
	switch {
	case s.z != nil:
		s.z.Range(0, s.z.Len(), false, func(member []byte, score float64, _ int64) bool {
			return fn(member, score)
		})
	case s.set != nil:
		s.set.Walk(func(member, _ []byte, _ int64) bool { return fn(member, 1) })
	}
}

// find returns a member's score, or false if there is no such member.
func (s *scored) find(member []byte) (score float64, ok bool) {
	switch {
	case s.z != nil:
		score, _, ok = s.z.Score(member)
	case s.set != nil:
		_, ok = s.set.Has(member)
		score = 1
	}
	return score, ok
}

// readScored reads the inputs. It returns an error if a key holds neither a sorted set nor a set.
func (c *Ctx) readScored(keys []storage.Key) ([]scored, error) {
	inputs := make([]scored, len(keys))
	for i, k := range keys {
		inputs[i].weight = 1
		item, ok := c.read(k)
		if !ok {
			continue
		}
		switch v := item.Value().(type) {
		case *object.ZSet:
			inputs[i].z = v
		case *object.Set:
			inputs[i].set = v
		default:
			return nil, ErrWrongType
		}
	}
	return inputs, nil
}

// combination is the operation of a command on its inputs, and its options.
type combination struct {
	of       func(inputs []scored, how aggregate) *object.ZSet
	weighted bool // WEIGHTS and AGGREGATE
}

var (
	zunion = combination{of: unite, weighted: true}
	zinter = combination{of: intersect, weighted: true}
	zdiff  = combination{of: subtract}
)

// args returns the grammar of the keys with that of the options.
func (op combination) args(args ...Arg) []Arg {
	if op.weighted {
		args = append(args, intArg("weight").many().after("WEIGHTS").opt(),
			oneOf("aggregate", word("SUM"), word("MIN"), word("MAX"),
				word("COUNT").since("8.8.0")).after("AGGREGATE").opt())
	}
	return args
}

func (op combination) history() [][2]string {
	if op.weighted {
		return [][2]string{{"8.8.0", "Added `COUNT` aggregate option."}}
	}
	return nil
}

// aggregate is the way in which the scores of a member become one score.
type aggregate uint8

const (
	aggregateSum aggregate = iota
	aggregateMin
	aggregateMax
	aggregateCount // of the inputs' weights, whatever the scores are
)

// weigh returns the score of a member in an input with a weight, for the aggregation.
func (how aggregate) weigh(score, weight float64) float64 {
	if how == aggregateCount {
		return weight
	}
	return score * weight
}

// add combines two scores into one. The sum of opposite infinities is 0.
func (how aggregate) add(score, other float64) float64 {
	switch how {
	case aggregateMin:
		if other < score {
			return other
		}
		return score
	case aggregateMax:
		if other > score {
			return other
		}
		return score
	}
	return number(score + other)
}

// number returns f, or 0 if f is NaN.
func number(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// bySize orders inputs, the smallest first; inputs of the same size keep their order.
func bySize(inputs []scored) {
	slices.SortStableFunc(inputs, func(a, b scored) int { return cmp.Compare(a.len(), b.len()) })
}

// unite visits the inputs from the smallest to the largest, because sums depend on their order.
func unite(inputs []scored, how aggregate) *object.ZSet {
	bySize(inputs)
	result := &object.ZSet{}
	for i := range inputs {
		in := &inputs[i]
		in.each(func(member []byte, score float64) bool {
			score = number(how.weigh(score, in.weight))
			if before, _, ok := result.Score(member); ok {
				score = how.add(before, score)
			}
			result.Set(member, score, 0)
			return true
		})
	}
	return result
}

func intersect(inputs []scored, how aggregate) *object.ZSet {
	result := &object.ZSet{}
	eachCommon(inputs, how, func(member []byte, score float64) bool {
		result.Set(member, score, 0)
		return true
	})
	return result
}

// eachCommon calls fn for each member that all inputs have, until fn returns false.
func eachCommon(inputs []scored, how aggregate, fn func(member []byte, score float64) bool) {
	bySize(inputs)
	inputs[0].each(func(member []byte, score float64) bool {
		score = number(how.weigh(score, inputs[0].weight))
		for i := range inputs[1:] {
			in := &inputs[1+i]
			other, ok := in.find(member)
			if !ok {
				return true
			}
			score = how.add(score, how.weigh(other, in.weight))
		}
		return fn(member, score)
	})
}

func subtract(inputs []scored, _ aggregate) *object.ZSet {
	result := &object.ZSet{}
	inputs[0].each(func(member []byte, score float64) bool {
		for i := range inputs[1:] {
			if _, ok := inputs[1+i].find(member); ok {
				return true
			}
		}
		result.Set(member, score, 0)
		return true
	})
	return result
}

// inputs takes the number of keys and the keys from the cursor, and opens keys in their place. The
// error for a key of another type comes before that for an invalid option.
func (c *Ctx) inputs(a *Cursor, keys []storage.Key) ([]scored, error) {
	n := a.Int()
	if a.Err() == nil && n < 1 {
		a.Fail(Error("ERR at least 1 input key is needed for '" + c.Spec.full + "' command"))
	}
	a.Skip(n)
	if a.Err() != nil {
		return nil, a.Err()
	}
	return c.readScored(keys)
}

// combine parses all arguments from the number of keys on, and returns the result of the operation.
func (op combination) combine(c *Ctx, at int, keys []storage.Key,
	mayShow bool) (result *object.ZSet, scores bool, err error) {
	a := c.Cursor(at)
	inputs, err := c.inputs(&a, keys)
	if err != nil {
		return nil, false, err
	}
	how := aggregateSum
	for a.More() {
		switch {
		case op.weighted && a.Len() > len(inputs) && a.Word("WEIGHTS"):
			a.weights(inputs)
		case op.weighted && a.Len() > 1 && a.Word("AGGREGATE"):
			how = a.aggregate()
		case mayShow && a.Word("WITHSCORES"):
			scores = true
		default:
			a.Fail(ErrSyntax)
		}
	}
	if a.Err() != nil {
		return nil, false, a.Err()
	}
	return op.of(inputs, how), scores, nil
}

// weights takes a weight for each input.
func (a *Cursor) weights(inputs []scored) {
	for i := range inputs {
		weight, ok := ParseFloat(a.Bytes())
		if !ok {
			a.Fail(errWeight)
		}
		inputs[i].weight = weight
	}
}

// aggregate takes SUM, MIN, MAX or COUNT; anything else is ErrSyntax.
func (a *Cursor) aggregate() aggregate {
	switch {
	case a.Word("SUM"):
		return aggregateSum
	case a.Word("MIN"):
		return aggregateMin
	case a.Word("MAX"):
		return aggregateMax
	case a.Word("COUNT"):
		return aggregateCount
	}
	a.Fail(ErrSyntax)
	return aggregateSum
}

func combineReply(op combination) func(*Ctx) error {
	return func(c *Ctx) error {
		z, scores, err := op.combine(c, 1, c.Keys, true)
		if err != nil {
			return err
		}
		replyMembers(c, z, 0, z.Len(), false, scores)
		return nil
	}
}

func combineStore(op combination, event string) func(*Ctx) error {
	ev := storage.Event{Class: storage.EventZSet, Name: event}
	return func(c *Ctx) error {
		z, _, err := op.combine(c, 2, c.Keys[1:], false)
		if err != nil {
			return err
		}
		c.storeZSet(z, ev)
		return nil
	}
}

func runZInterCard(c *Ctx) error {
	a := c.Cursor(1)
	inputs, err := c.inputs(&a, c.Keys)
	if err != nil {
		return err
	}
	limit, err := a.limit()
	if err != nil {
		return err
	}
	n := int64(0)
	eachCommon(inputs, aggregateSum, func([]byte, float64) bool {
		n++
		return n != limit
	})
	c.Out.Int(n)
	return nil
}
