package commands

import (
	"cmp"
	"slices"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

var geoSearchCommands = []Spec{
	geoCommand("GEOSEARCH", "6.2.0", "Replies the members in a circle or a box.", -7, ReadOnly,
		&geoForm{search: true}, []KeySpec{Key(1, RO|Access)},
		slices.Concat([]Arg{keyArg("key")}, geoSearchArgs, geoWithArgs)),
	geoCommand("GEOSEARCHSTORE", "6.2.0",
		"Stores the members in a circle or a box, and replies how many they are.",
		-8, Write|DenyOOM,
		&geoForm{search: true, stores: true}, []KeySpec{Key(1, OW|Update), Key(2, RO|Access)},
		slices.Concat([]Arg{keyArg("destination"), keyArg("source")}, geoSearchArgs,
			[]Arg{word("STOREDIST").opt()})),
	geoCommand("GEORADIUS", "3.2.0",
		"Replies or stores the members in a circle around a place; GEOSEARCH does more.",
		-6, Write|DenyOOM,
		&geoForm{mayStore: true}, geoRadiusKeys(6), slices.Concat(geoRadiusArgs, geoTargetArgs)),
	geoCommand("GEORADIUS_RO", "3.2.10",
		"Replies the members in a circle around a place; GEOSEARCH does more.", -6, ReadOnly,
		&geoForm{}, []KeySpec{Key(1, RO|Access)}, geoRadiusArgs),
	geoCommand("GEORADIUSBYMEMBER", "3.2.0",
		"Replies or stores the members in a circle around a member; GEOSEARCH does more.",
		-5, Write|DenyOOM,
		&geoForm{byMember: true, mayStore: true}, geoRadiusKeys(5),
		slices.Concat(geoMemberArgs, geoTargetArgs)),
	geoCommand("GEORADIUSBYMEMBER_RO", "3.2.10",
		"Replies the members in a circle around a member; GEOSEARCH does more.", -5, ReadOnly,
		&geoForm{byMember: true}, []KeySpec{Key(1, RO|Access)}, geoMemberArgs),
}

func geoCommand(name, since, summary string, arity int, flags Flags, form *geoForm, keys []KeySpec,
	args []Arg) Spec {
	spec := Spec{
		Name: name, Group: Geo, Since: since,
		Summary:    summary,
		Complexity: "O(N+log(M)), N being the members in the cells that have the area, and M the size of the sorted set.",
		History:    [][2]string{{"7.0.0", "Added support for uppercase unit names."}},
		Arity:      arity, Flags: flags,
		Keys: keys, Args: args,
		Offload: form.large,
		Run:     form.run,
	}
	if !form.search {
		spec.History = append([][2]string{{"6.2.0", "Added the `ANY` option for `COUNT`."}},
			spec.History...)
	}
	return spec
}

var (
	geoOrderArg   = oneOf("order", word("ASC"), word("DESC")).opt()
	geoWithArgs   = []Arg{word("WITHCOORD").opt(), word("WITHDIST").opt(), word("WITHHASH").opt()}
	geoPlace      = block("fromlonlat", doubleArg("longitude"), doubleArg("latitude"))
	geoSearchArgs = []Arg{
		oneOf("from", stringArg("member").after("FROMMEMBER"), geoPlace.after("FROMLONLAT")),
		oneOf("by", block("circle", doubleArg("radius").after("BYRADIUS"), geoUnit),
			block("box", doubleArg("width").after("BYBOX"), doubleArg("height"), geoUnit)),
		geoOrderArg,
		block("count-block", intArg("count").after("COUNT"), word("ANY").opt()).opt(),
	}
	geoOldArgs = slices.Concat([]Arg{doubleArg("radius"), geoUnit}, geoWithArgs,
		[]Arg{block("count-block", intArg("count").after("COUNT"),
			word("ANY").opt().since("6.2.0")).opt(), geoOrderArg})
	geoRadiusArgs = slices.Concat([]Arg{keyArg("key"), doubleArg("longitude"),
		doubleArg("latitude")}, geoOldArgs)
	geoMemberArgs = slices.Concat([]Arg{keyArg("key"), stringArg("member")}, geoOldArgs)
	geoTargetArgs = []Arg{keyArg("storekey").after("STORE").opt().of(2),
		keyArg("storedistkey").after("STOREDIST").opt().of(3)}

	eventGeoSearchStore = storage.Event{Class: storage.EventZSet, Name: "geosearchstore"}
	eventGeoRadiusStore = storage.Event{Class: storage.EventZSet, Name: "georadiusstore"}
)

// The errors of searches.
const (
	errGeoRadius      Error = "ERR need numeric radius"
	errGeoRadiusSign  Error = "ERR radius cannot be negative"
	errGeoWidth       Error = "ERR need numeric width"
	errGeoHeight      Error = "ERR need numeric height"
	errGeoBoxSign     Error = "ERR height or width cannot be negative"
	errGeoCount       Error = "ERR COUNT must be > 0"
	errGeoAny         Error = "ERR the ANY argument requires COUNT argument"
	errGeoRadiusStore Error = "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
	errGeoSearchStore Error = "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
)

// geoRadiusKeys returns the keys of a command whose options begin at the argument options.
func geoRadiusKeys(options int) []KeySpec {
	return []KeySpec{
		Key(1, RO|Access),
		{Flags: OW | Update, Begin: options, Find: geoTarget, Word: "STORE"},
		{Flags: OW | Update, Begin: options, Find: noArgument, Word: "STOREDIST"},
	}
}

// geoTarget returns the position of the last key after STORE or STOREDIST. Only that one is used.
func geoTarget(args [][]byte) (first, last int) {
	first, last = noArgument(nil)
	for i := 5; i+1 < len(args); i++ {
		if isWord(args[i], "STORE") || isWord(args[i], "STOREDIST") {
			i++
			first, last = i, i
		}
	}
	return first, last
}

// geoForm is the form of a search's arguments.
type geoForm struct {
	search   bool // GEOSEARCH and GEOSEARCHSTORE: place and area are options
	stores   bool // GEOSEARCHSTORE: its target is the first key
	byMember bool // a member replaces the longitude and the latitude
	mayStore bool // STORE and STOREDIST are options
}

// geoSearch contains the arguments of a search.
type geoSearch struct {
	shape      geoShape
	unit       float64 // in metres
	dist       bool    // WITHDIST
	hash       bool    // WITHHASH
	coord      bool    // WITHCOORD
	sorted     int     // 1: ASC, -1: DESC
	any        bool
	count      int64 // 0: all
	target     *storage.Key
	storesDist bool
}

// source returns the key of the sorted set, and the index of its argument.
func (f *geoForm) source(c *Ctx) (arg int, key storage.Key) {
	if f.stores {
		return 2, c.Keys[1]
	}
	return 1, c.Keys[0]
}

// parse parses the arguments of a search in z.
func (f *geoForm) parse(c *Ctx, z *object.ZSet) (q geoSearch, err error) {
	arg, _ := f.source(c)
	a := c.Cursor(arg + 1)
	var from, by bool
	switch {
	case f.search:
	case !f.byMember:
		q.shape.at = a.place()
		q.circle(&a)
	case z.Len() == 0:
		a.Skip(3) // Redis does not look at them either
	default:
		q.around(&a, z)
		q.circle(&a)
	}
	if f.stores {
		q.target = &c.Keys[0]
	}
	var isMember, box bool
	for a.More() {
		switch {
		case a.Word("WITHDIST"):
			q.dist = true
		case a.Word("WITHHASH"):
			q.hash = true
		case a.Word("WITHCOORD"):
			q.coord = true
		case a.Word("ANY"):
			q.any = true
		case a.Word("ASC"):
			q.sorted = 1
		case a.Word("DESC"):
			q.sorted = -1
		case a.Len() > 1 && a.Word("COUNT"):
			if q.count = a.Int(); a.Err() == nil && q.count <= 0 {
				a.Fail(errGeoCount)
			}
		case f.mayStore && a.Len() > 1 && a.Word("STORE"):
			a.Bytes()
			q.target, q.storesDist = &c.Keys[1], false
		case f.mayStore && a.Len() > 1 && a.Word("STOREDIST"):
			a.Bytes()
			q.target, q.storesDist = &c.Keys[1], true
		case f.stores && a.Word("STOREDIST"):
			q.storesDist = true
		case f.search && a.Len() > 1 && (!from || isMember) && a.Word("FROMMEMBER"):
			from, isMember = true, true
			if z.Len() == 0 {
				a.Bytes()
			} else {
				q.around(&a, z)
			}
		case f.search && a.Len() > 2 && !isMember && a.Word("FROMLONLAT"):
			from = true
			q.shape.at = a.place()
		case f.search && a.Len() > 2 && !box && a.Word("BYRADIUS"):
			by = true
			q.circle(&a)
		case f.search && a.Len() > 3 && (!by || box) && a.Word("BYBOX"):
			by, box = true, true
			q.box(&a)
		default:
			a.Fail(ErrSyntax)
		}
	}
	switch {
	case a.Err() != nil:
		return q, a.Err()
	case q.target != nil && (q.dist || q.hash || q.coord):
		if f.search {
			return q, errGeoSearchStore
		}
		return q, errGeoRadiusStore
	case f.search && !from:
		return q, Error("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for " +
			clip(c.Arg(0), 128))
	case f.search && !by:
		return q, Error("ERR exactly one of BYRADIUS and BYBOX can be specified for " +
			clip(c.Arg(0), 128))
	case q.any && q.count == 0:
		return q, errGeoAny
	}
	if q.count > 0 && q.sorted == 0 && !q.any {
		q.sorted = 1 // the nearest ones
	}
	return q, nil
}

// around reads a member, whose place becomes the centre of the search. A missing member is an
// error.
func (q *geoSearch) around(a *Cursor, z *object.ZSet) {
	p, ok := placeOfMember(z, a.Bytes())
	if !ok {
		a.Fail(errGeoMember)
	}
	q.shape.at = p
}

// length reads a number. If the argument is not a number, the error is err.
func (a *Cursor) length(err error) float64 {
	ok := a.err == nil
	f := a.Float()
	if ok && a.err == ErrNotFloat {
		a.err = err
	}
	return f
}

func (q *geoSearch) circle(a *Cursor) {
	radius := a.length(errGeoRadius)
	if radius < 0 {
		a.Fail(errGeoRadiusSign)
	}
	q.unit = a.unit()
	q.shape.box, q.shape.radius = false, radius*q.unit
}

func (q *geoSearch) box(a *Cursor) {
	width, height := a.length(errGeoWidth), a.length(errGeoHeight)
	if width < 0 || height < 0 {
		a.Fail(errGeoBoxSign)
	}
	q.unit = a.unit()
	q.shape.box, q.shape.width, q.shape.height = true, width*q.unit, height*q.unit
}

// large reports whether a search visits so many members that it should run as a task.
func (f *geoForm) large(c *Ctx) bool {
	_, k := f.source(c)
	if c.Txn.Largest([]storage.Key{k}) < largeValue {
		return false
	}
	z, err := c.Txn.ZSet(k)
	if err != nil {
		return false
	}
	q, err := f.parse(c, z.Value())
	if err != nil {
		return false
	}
	n := 0
	for _, cell := range q.shape.cells() {
		from, to := ranksOf(z.Value(), cell)
		n += to - from
	}
	return n >= manyElements
}

// ranksOf returns the ranks of a cell's members: from, up to but not including to.
func ranksOf(z *object.ZSet, c cell) (from, to int) {
	low, high := c.scores()
	return z.RankOfScore(low, false), z.RankOfScore(high, false)
}

// geoFound is a member that a search has found.
type geoFound struct {
	member []byte
	score  float64
	place  point
	metres float64
}

// find returns copies of the members in the area: by distance if the search is sorted, or else in
// the order of the cells. COUNT limits their number.
func (q *geoSearch) find(z *object.ZSet) (found []geoFound) {
	for _, cell := range q.shape.cells() {
		from, to := ranksOf(z, cell)
		z.Range(from, to, false, func(member []byte, score float64, _ int64) bool {
			p := placeOf(score)
			if metres, ok := q.shape.distance(p); ok {
				found = append(found, geoFound{slices.Clone(member), score, p, metres})
			}
			return !q.any || int64(len(found)) < q.count
		})
		if q.any && int64(len(found)) >= q.count {
			break
		}
	}
	if q.sorted != 0 {
		slices.SortStableFunc(found, func(a, b geoFound) int {
			return q.sorted * cmp.Compare(a.metres, b.metres)
		})
	}
	if q.count > 0 && int64(len(found)) > q.count {
		found = found[:q.count]
	}
	return found
}

func (f *geoForm) run(c *Ctx) error {
	_, k := f.source(c)
	z, err := c.readZSet(k)
	if err != nil {
		return err
	}
	q, err := f.parse(c, z)
	if err != nil {
		return err
	}
	var found []geoFound
	if z.Len() > 0 {
		found = q.find(z)
	}
	if q.target == nil {
		q.reply(c, found)
		return nil
	}
	result := &object.ZSet{}
	for _, m := range found {
		score := m.score
		if q.storesDist {
			score = m.metres / q.unit
		}
		result.Set(m.member, score, ttl.None)
	}
	event := eventGeoRadiusStore
	if f.search {
		event = eventGeoSearchStore
	}
	c.overwrite(*q.target, result, event)
	c.Out.Int(int64(len(found)))
	return nil
}

func (q *geoSearch) reply(c *Ctx, found []geoFound) {
	fields := 1
	for _, with := range []bool{q.dist, q.hash, q.coord} {
		if with {
			fields++
		}
	}
	c.Out.Array(len(found))
	for _, m := range found {
		if fields > 1 {
			c.Out.Array(fields)
		}
		c.Out.Bulk(m.member)
		if q.dist {
			c.distance(m.metres, q.unit)
		}
		if q.hash {
			c.Out.Int(int64(m.score))
		}
		if q.coord {
			c.place(m.place)
		}
	}
}
