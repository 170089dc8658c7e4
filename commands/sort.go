package commands

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"keyp/storage"
	"keyp/storage/object"
)

// sortCommands are SORT and SORT_RO.
var sortCommands = []Spec{
	{
		Name: "SORT", Group: Generic, Since: "1.0.0",
		Summary:    "Replies the elements of a list, set or sorted set in order, or values that belong to them, or stores these as a list.",
		Complexity: "O(N + N*log(N) + M) for N elements of which M are replied; O(N + M) with a BY that has no asterisk.",
		Arity:      -2, Flags: Write | DenyOOM | Dangerous,
		Categories: sortCategories,
		Keys: []KeySpec{
			Key(1, RO|Access),
			{Flags: RO | Access, Find: noArgument},
			{Flags: OW | Update, Find: sortTarget},
		},
		Args:     append(slices.Clip(sortArgs), keyArg("destination").after("STORE").opt().of(3)),
		Escalate: sortScope,
		Offload:  largeSort,
		Run:      runSort,
	},
	{
		Name: "SORT_RO", Group: Generic, Since: "7.0.0",
		Summary:    "Replies the elements of a list, set or sorted set in order, or values that belong to them.",
		Complexity: "O(N + N*log(N) + M) for N elements of which M are replied; O(N + M) with a BY that has no asterisk.",
		Arity:      -2, Flags: ReadOnly | Dangerous,
		Categories: sortCategories,
		Keys:       []KeySpec{Key(1, RO|Access), {Flags: RO | Access, Find: noArgument}},
		Args:       sortArgs,
		Escalate:   sortScope,
		Offload:    largeSort,
		Run:        runSort,
	},
}

var (
	sortCategories = []string{"@set", "@sortedset", "@list"}
	sortArgs       = []Arg{
		keyArg("key"),
		patternArg("by-pattern").after("BY").opt().of(2),
		block("limit", intArg("offset"), intArg("count")).after("LIMIT").opt(),
		patternArg("get-pattern").after("GET").opt().manyTimes().of(2),
		oneOf("order", word("ASC"), word("DESC")).opt(),
		Arg{Name: "sorting", Type: ArgToken, Token: "ALPHA", Optional: true},
	}
	eventSortStore = listEvent("sortstore")
)

const (
	// errScores is the error for a value to sort by that is not a number.
	errScores  Error = "ERR One or more scores can't be converted into double"
	errSortBy  Error = "ERR BY option of SORT denied due to insufficient ACL permissions."
	errSortGet Error = "ERR GET option of SORT denied due to insufficient ACL permissions."
)

// noArgument is a KeySpec.Find for keys that no argument names.
func noArgument([][]byte) (first, last int) { return 0, -1 }

// sortTarget finds the key after the last STORE.
func sortTarget(args [][]byte) (first, last int) {
	first, last = noArgument(nil)
	for i := 2; i < len(args); i++ {
		switch {
		case isWord(args[i], "LIMIT"):
			i += 2
		case isWord(args[i], "BY"), isWord(args[i], "GET"):
			i++
		case isWord(args[i], "STORE") && i+1 < len(args):
			i++
			first, last = i, i
		}
	}
	return first, last
}

// sortScope returns the scope of a SORT. A pattern that leads to other keys may lead to any keys.
func sortScope(c *Ctx) Scope {
	o, _ := parseSort(c.Cursor(2), true, nil) // the handler reports what is wrong
	if o.by.roams() || slices.ContainsFunc(o.get, pattern.roams) {
		return AllKeys
	}
	return KeysOnly
}

// largeSort is the Offload of a SORT that looks up no other keys.
func largeSort(c *Ctx) bool { return c.Scope == KeysOnly && largeValues(c) }

// pattern names the value that belongs to an element. The element replaces the first '*' of the
// pattern. The result names a key with a string, or a field of a hash.
type pattern struct {
	text          []byte // nil: there is no pattern
	star          bool
	before, after []byte // the '*'
	field         []byte // after "->"; nil: the value is a string
}

func parsePattern(text []byte) pattern {
	p := pattern{text: text}
	if p.before, p.after, p.star = bytes.Cut(text, []byte("*")); !p.star {
		return p
	}
	if name, field, ok := bytes.Cut(p.after, []byte("->")); ok && len(field) > 0 {
		p.after, p.field = name, field
	}
	return p
}

// roams reports whether the pattern leads to other keys. A pattern without '*' leads nowhere.
func (p pattern) roams() bool { return p.star }

// self reports whether the pattern means the element itself.
func (p pattern) self() bool { return string(p.text) == "#" }

// sortPattern returns an error if the user may not read the keys of a pattern. It also returns an
// error if these keys may be in other slots than the command's key.
func (c *Ctx) sortPattern(p pattern, by bool) error {
	switch {
	case by && !p.star:
		return nil
	case !c.Client.user.permissions().readsAllKeys(c.Spec, c.Args):
		if by {
			return errSortBy
		}
		return errSortGet
	case c.Env.clustered() && !p.self() && patternSlot(p.text) != int(storage.Slot(c.Arg(1))):
		if by {
			return errSortBySlot
		}
		return errSortGetSlot
	}
	return nil
}

// sortOptions are the options of SORT, which follow the key.
type sortOptions struct {
	desc, alpha   bool
	offset, count int64 // count is negative for all
	by            pattern
	get           []pattern
	target        bool // the key is the command's second
}

// parseSort parses the options. patterns returns the error of a pattern of BY or GET, whose keys no
// check has seen. If patterns is nil, patterns are not checked.
func parseSort(a Cursor, mayStore bool,
	patterns func(p pattern, by bool) error) (sortOptions, error) {
	check := func(p pattern, by bool) pattern {
		if patterns != nil {
			if err := patterns(p, by); err != nil {
				a.Fail(err)
			}
		}
		return p
	}
	o := sortOptions{count: -1}
	for a.More() {
		left := a.Len() - 1
		switch {
		case a.Word("ASC"):
			o.desc = false
		case a.Word("DESC"):
			o.desc = true
		case a.Word("ALPHA"):
			o.alpha = true
		case left >= 2 && a.Word("LIMIT"):
			o.offset, o.count = a.Int(), a.Int()
		case left >= 1 && mayStore && a.Word("STORE"):
			a.Bytes()
			o.target = true
		case left >= 1 && a.Word("BY"):
			o.by = check(parsePattern(a.Bytes()), true)
		case left >= 1 && a.Word("GET"):
			o.get = append(o.get, check(parsePattern(a.Bytes()), false))
		default:
			a.Fail(ErrSyntax)
		}
	}
	return o, a.Err()
}

// limits returns the part of n elements that LIMIT selects: from index first, up to but not
// including end.
func (o *sortOptions) limits(n int) (first, end int) {
	start, count := min(max(o.offset, 0), int64(n)), min(o.count, int64(n))
	if count < 0 {
		return int(start), n
	}
	return int(start), int(min(start+count, int64(n)))
}

// sortItem is an element. With ALPHA it also has the text by which it is sorted, or nil if BY leads
// to no value.
type sortItem struct{ elem, by []byte }

// sortRank represents an item during the sort, which may have a million items. It is small, has no
// pointers, and usually suffices to order two items. Ranks are equal or in the order of their
// items.
type sortRank struct {
	rank uint64
	item int32
}

// lookup has the keys to which a pattern leads, for PrefetchKeys items at a time.
type lookup struct {
	pattern
	keys  [storage.PrefetchKeys]storage.Key
	names []byte
}

// sorting is a SORT under way.
type sorting struct {
	*Ctx
	sortOptions
	items  []sortItem // in the end those to reply
	ranks  []sortRank
	absent []storage.Key // not in memory
	err    error         // of the data file
	// The missing keys, if somebody listens for them. Their events are raised only when it is
	// certain that the command does not run again.
	missed []storage.Key
	texts  []byte // the last copies of elements, values and names
}

func runSort(c *Ctx) error {
	o, err := parseSort(c.Cursor(2), c.Spec.Is(Write), c.sortPattern)
	if err != nil {
		return err
	}
	if err := c.load(c.Keys); err != nil {
		return err
	}
	s := &sorting{Ctx: c, sortOptions: o, texts: []byte{}}
	err = s.run()
	if err != errNeedKeys {
		for _, k := range s.missed {
			c.Txn.Notify(k, eventKeyMiss)
		}
	}
	return err
}

func (s *sorting) run() error {
	ordered, err := s.load()
	if err != nil {
		return err
	}
	if !ordered {
		if err := s.scores(); err != nil {
			return err
		}
		s.sort()
	}
	if s.target {
		return s.storeResult()
	}
	return s.reply()
}

// load reads the elements. ordered is true if they need no sorting. With a BY without '*' they are
// in their own order, reversed with DESC, and cut to the limits.
func (s *sorting) load() (ordered bool, err error) {
	item, ok := s.Txn.Get(s.Keys[0])
	if !ok {
		s.miss(s.Keys[0])
		return true, nil
	}
	s.hits++
	ordered = s.by.text != nil && !s.by.star
	switch v := item.Value().(type) {
	case *object.List:
		s.loadList(v, ordered)
	case *object.ZSet:
		s.loadZSet(v, ordered)
	case *object.Set:
		if ordered && (s.target || s.inScript()) { // a set's own order is none to keep
			ordered, s.alpha, s.by = false, true, pattern{}
		}
		s.loadSet(v, ordered)
	default:
		return false, ErrWrongType
	}
	return ordered, nil
}

func (s *sorting) loadList(l *object.List, ordered bool) {
	first, end, from, reverse := 0, l.Len(), 0, false
	if ordered {
		first, end = s.limits(l.Len())
		from, reverse = first, s.desc
	}
	if first == end {
		return
	}
	if reverse {
		from = l.Len() - 1 - first
	}
	s.items = make([]sortItem, 0, end-first)
	l.Each(from, reverse, func(_ int, _ int64, val []byte) bool {
		s.items = append(s.items, sortItem{elem: val})
		return len(s.items) < end-first
	})
}

func (s *sorting) loadZSet(z *object.ZSet, ordered bool) {
	first, end, reverse := 0, z.Len(), false
	if ordered {
		first, end = s.limits(z.Len())
		if reverse = s.desc; reverse {
			first, end = z.Len()-end, z.Len()-first
		}
	}
	s.items = make([]sortItem, 0, end-first)
	z.Range(first, end, reverse, func(member []byte, _ float64, _ int64) bool {
		s.items = append(s.items, sortItem{elem: member})
		return true
	})
}

func (s *sorting) loadSet(v *object.Set, ordered bool) {
	first, end := 0, v.Len()
	if ordered {
		first, end = s.limits(v.Len())
	}
	spelled := v.Encoding() == "intset" // each member then stands in the same memory
	s.items = make([]sortItem, 0, end-first)
	i := 0
	v.Walk(func(member, _ []byte, _ int64) bool {
		if i >= end {
			return false
		}
		if i++; i > first {
			if spelled {
				member = s.keep(member)
			}
			s.items = append(s.items, sortItem{elem: member})
		}
		return true
	})
}

// keep copies a text for the time of the command. The copy is not nil.
func (s *sorting) keep(text []byte) []byte {
	const most = 64 << 10 // what is there does not move, as that takes long where it is much
	if len(s.texts)+len(text) > cap(s.texts) {
		s.texts = make([]byte, 0, max(min(2*cap(s.texts), most), 64, len(text)))
	}
	at := len(s.texts)
	s.texts = append(s.texts, text...)
	return s.texts[at:len(s.texts):len(s.texts)]
}

// miss counts a missing key.
func (s *sorting) miss(k storage.Key) {
	if s.misses++; s.Txn.Hears(eventKeyMiss) {
		k.Name = s.keep(k.Name)
		s.missed = append(s.missed, k)
	}
}

// ahead computes the keys to which a pattern leads from item i on. It prefetches the memory that
// the look-ups of these keys read.
func (s *sorting) ahead(l *lookup, i int) {
	items := s.items[i:min(i+len(l.keys), len(s.items))]
	l.names = l.names[:0]
	var ends [len(l.keys)]int
	for n := range items {
		l.names = append(append(append(l.names, l.before...), items[n].elem...), l.after...)
		ends[n] = len(l.names)
	}
	from := 0
	for n := range items {
		l.keys[n] = s.Env.Store.Key(s.Keys[0].DB, l.names[from:ends[n]:ends[n]])
		from = ends[n]
	}
	s.Txn.Prefetch(l.keys[:len(items)])
}

// value looks up the value that belongs to item i. ok is false if there is none, the key has
// another type, or the key is not in memory, which is recorded. It must be called for the items in
// order. The bytes are valid until the next call.
func (s *sorting) value(l *lookup, i int) (val []byte, ok bool) {
	if l.self() {
		return s.items[i].elem, true
	}
	if !l.star {
		return nil, false
	}
	at := i % len(l.keys)
	if at == 0 {
		s.ahead(l, i)
	}
	k := l.keys[at]
	if !s.Txn.Resident(k) && !s.loadLate(k) {
		return nil, false
	}
	item, found := s.Txn.Get(k)
	if !found {
		s.miss(k)
		return nil, false
	}
	s.hits++
	return l.of(item, s.Txn.Now())
}

// of returns the value that a pattern selects in the item of its key, at now (Unix ms).
func (p pattern) of(item storage.Item, now int64) (val []byte, ok bool) {
	if p.field == nil {
		val, err := item.String()
		return val, err == nil
	}
	h, isHash := item.Value().(*object.Hash)
	if !isHash {
		return nil, false
	}
	val, deadline, ok := h.Get(p.field)
	return val, ok && (deadline == 0 || deadline > now)
}

// loadLate records a key that is not in memory. With final it reads the key instead.
func (s *sorting) loadLate(k storage.Key) bool {
	if s.final {
		if s.err == nil {
			s.err = s.Txn.Load(k)
		}
		return s.err == nil
	}
	k.Name = s.keep(k.Name)
	s.absent = append(s.absent, k)
	return false
}

// complete returns an error if a value could not be looked up.
func (s *sorting) complete() error {
	if len(s.absent) > 0 {
		s.Keys = s.absent
		return errNeedKeys
	}
	return s.err
}

// scores looks up the values by which the elements are sorted. An element without a value counts as
// 0; with ALPHA it comes before all others.
func (s *sorting) scores() error {
	s.ranks = make([]sortRank, len(s.items))
	valid, by := true, lookup{pattern: s.by}
	for i := range s.items {
		item := &s.items[i]
		val, ok := item.elem, true
		if s.by.star {
			if val, ok = s.value(&by, i); ok && s.alpha {
				val = s.keep(val)
			}
		}
		var rank uint64
		switch {
		case s.alpha && ok:
			item.by = val
			rank = textRank(val)
		case !s.alpha:
			var score float64
			if ok && len(val) > 0 { // an empty one is 0
				score, ok = ParseFloat(val)
				valid = valid && ok
			}
			rank = floatRank(score)
		}
		s.ranks[i] = sortRank{rank, int32(i)}
	}
	if err := s.complete(); err != nil {
		return err
	}
	if !valid {
		return errScores
	}
	return nil
}

// floatRank returns a number whose order is that of f.
func floatRank(f float64) uint64 {
	const sign = 1 << 63
	if f == 0 {
		f = 0 // and not -0
	}
	bits := math.Float64bits(f)
	if bits&sign != 0 {
		return ^bits
	}
	return bits | sign
}

// textRank returns a number whose order is that of the text's first eight bytes.
func textRank(text []byte) uint64 {
	var first [8]byte
	copy(first[:], text)
	return binary.BigEndian.Uint64(first[:])
}

// sort sorts the elements, and keeps those within the limits. Elements with the same number are in
// the order of their bytes. Elements with the same text keep their order.
func (s *sorting) sort() {
	sign := 1
	if s.desc {
		sign = -1
	}
	slices.SortFunc(s.ranks, func(a, b sortRank) int {
		order := cmp.Compare(a.rank, b.rank)
		if order == 0 {
			order = s.compare(&s.items[a.item], &s.items[b.item])
		}
		if order == 0 {
			return int(a.item - b.item)
		}
		return sign * order
	})
	first, end := s.limits(len(s.items))
	sorted := make([]sortItem, end-first)
	for i := range sorted {
		sorted[i] = s.items[s.ranks[first+i].item]
	}
	s.items = sorted
}

// compare orders items of the same rank.
func (s *sorting) compare(a, b *sortItem) int {
	switch {
	case !s.alpha:
		return bytes.Compare(a.elem, b.elem)
	case a.by == nil && b.by != nil:
		return -1
	case a.by != nil && b.by == nil:
		return 1
	}
	return bytes.Compare(a.by, b.by)
}

// lookups returns a lookup for each GET pattern.
func (s *sorting) lookups() []lookup {
	list := make([]lookup, len(s.get))
	for i := range s.get {
		list[i].pattern = s.get[i]
	}
	return list
}

// reply replies with the elements, or with the values of the GET patterns for each, and null for a
// missing value.
func (s *sorting) reply() error {
	get := s.lookups()
	s.Out.Array(len(s.items) * max(len(s.get), 1))
	for i := range s.items {
		if len(s.get) == 0 {
			s.Out.Bulk(s.items[i].elem)
		}
		for j := range get {
			if val, ok := s.value(&get[j], i); ok {
				s.Out.Bulk(val)
			} else {
				s.Out.Null()
			}
		}
	}
	return s.complete()
}

// storeResult stores a list of the elements that reply would write, with empty elements for nulls.
// It replies with the length of the list. If the list is empty, it deletes the target.
func (s *sorting) storeResult() error {
	l, get := &object.List{}, s.lookups()
	for i := range s.items {
		if len(s.get) == 0 {
			l.PushBack(s.items[i].elem)
		}
		for j := range get {
			val, _ := s.value(&get[j], i)
			l.PushBack(val)
		}
	}
	if err := s.complete(); err != nil {
		return err
	}
	n := l.Len()
	s.overwrite(s.Keys[1], l, eventSortStore)
	s.Out.Int(int64(n))
	return nil
}
