package object

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// Limit is the value of a key with rate limits (KEYP.LIMIT). A call names several limits in a list.
// The value stores how much each limit has admitted, by the limit's place in that list. It also
// stores the reservations. A reservation counts until it is confirmed, returned or due.
//
//	element key        element value                                        deadline
//	1 place            kind, numbers of the state (limitState)              none
//	2 place time BE    what a sliding window admitted at that time          none
//	3 id               cost, definitions of the limits (appendHeld)         its own
//
// Numbers are varints without a sign, times Unix milliseconds. The definitions of limits are
// arguments of each call, which interprets the stored numbers by its own definitions
// (limitrule.go).
type Limit struct {
	states []limitState
	held   *reservations // nil: there are none
}

// OneLimit is the memory of a value with one limit. It can be a field of another struct, so that
// the value needs no allocation of its own.
type OneLimit struct {
	limit Limit
	room  [1]limitState
}

// Limit returns the value, without elements.
func (l *OneLimit) Limit() *Limit {
	l.limit.states = l.room[:0]
	return &l.limit
}

// NewLimit returns a value without elements that has room for a number of limits.
func NewLimit(limits int) *Limit { return &Limit{states: make([]limitState, 0, limits)} }

// Prefetch reads the memory that an admission reads first. Its result has no meaning.
func (l *Limit) Prefetch() LimitKind {
	if len(l.states) == 0 {
		return 0
	}
	return l.states[0].kind
}

// The first bytes of element keys. Elements with LimitTagHeld are reservations; only they have
// deadlines.
const (
	limitTagState = 1 + iota
	limitTagAdmitted
	LimitTagHeld
)

// MaxLimits is the largest number of limits of a call.
const MaxLimits = 16

// MaxLimitID is the largest length of a reservation's id, in bytes.
const MaxLimitID = 256

// These bounds of numbers make sure that no sum overflows; products have 128 bits. Bounded checks
// the sums if elements do not come from this store.
const (
	MaxLimitCount = 1_000_000_000_000 // of a cost, a burst, a rate, a max
	MaxLimitSpan  = 1_000_000_000_000 // ms
	maxLimitTime  = 1<<58 - 1
)

// limitState has the amounts that one limit has admitted. The numbers are
//
//	TOKENS          arrival, part, rate: the theoretical arrival time is arrival ms, and part/rate of one more
//	WINDOW          span: for how long what was admitted counts, in ms
//	WINDOW APPROX   span, cell, now, before: what was admitted in cell number cell, from cell*span ms on, and in the one before it
//	UNTIL           end, used: what was admitted in the window that ends then
type limitState struct {
	kind    LimitKind // 0: this limit is as if it had never been asked
	numbers [4]int64
	window  *admissions // of a WINDOW; nil: there are none
}

// numbersOf gives how many numbers the state of each kind has.
var numbersOf = [...]int{LimitTokens: 3, LimitWindow: 1, LimitApprox: 4, LimitUntil: 2}

// admissions are amounts by time, the oldest first.
type admissions struct {
	list []admission
	head int   // those before it are gone
	sum  int64 // of all amounts
}

type admission struct{ at, amount int64 }

func (a *admissions) live() []admission {
	if a == nil {
		return nil
	}
	return a.list[a.head:]
}

func (a *admissions) find(at int64) (i int, ok bool) {
	return slices.BinarySearchFunc(a.live(), at, func(e admission, at int64) int {
		switch {
		case e.at < at:
			return -1
		case e.at > at:
			return 1
		}
		return 0
	})
}

// set sets the amount of a time.
func (a *admissions) set(at, amount int64) {
	i, ok := a.find(at)
	if ok {
		e := &a.list[a.head+i]
		a.sum += amount - e.amount
		e.amount = amount
		return
	}
	if len(a.list) == cap(a.list) && a.head > len(a.list)/2 {
		a.list, a.head = a.list[:copy(a.list, a.live())], 0
	}
	a.sum += amount
	a.list = slices.Insert(a.list, a.head+i, admission{at, amount})
}

// remove removes a time.
func (a *admissions) remove(at int64) {
	i, ok := a.find(at)
	if !ok {
		return
	}
	a.sum -= a.list[a.head+i].amount
	if i == 0 {
		a.head++
	} else {
		a.list = slices.Delete(a.list, a.head+i, a.head+i+1)
	}
}

// reservations are costs that are held.
type reservations struct {
	members
	sums []int64 // of the costs, by the places of the limits that they count for
}

var heldRule = rule{entries: 64, size: 512}

// count adds a reservation's cost to the sums of its limits, or subtracts it if by is -1.
func (r *reservations) count(val []byte, by int64) {
	cost, rest, _ := limitNumber(val)
	limits, _, _ := limitNumber(rest)
	for len(r.sums) < int(limits) {
		r.sums = append(r.sums, 0)
	}
	for i := range limits {
		r.sums[i] += by * cost
	}
}

func (r *reservations) set(elem, val []byte, deadline int64) {
	if e, ok := r.get(elem); ok {
		r.count(e.val, -1)
	}
	r.put(heldRule, elem, val, deadline)
	r.count(val, 1)
}

func (r *reservations) drop(elem []byte) {
	if e, ok := r.get(elem); ok {
		r.count(e.val, -1)
		r.delete(elem)
	}
}

// Type returns TypeLimit.
func (l *Limit) Type() Type { return TypeLimit }

// Encoding returns the reply of OBJECT ENCODING.
func (l *Limit) Encoding() string { return "limit" }

// namesLimit reports whether elem can be the key of an element of a limit.
func namesLimit(elem []byte) bool {
	if len(elem) < 2 {
		return false
	}
	switch elem[0] {
	case limitTagState:
		return len(elem) == 2 && elem[1] < MaxLimits
	case limitTagAdmitted:
		return len(elem) == 10 && elem[1] < MaxLimits &&
			binary.BigEndian.Uint64(elem[2:]) <= maxLimitTime
	default:
		return elem[0] == LimitTagHeld && len(elem) <= 1+MaxLimitID
	}
}

func limitStateKey(place int) [2]byte { return [2]byte{limitTagState, byte(place)} }

func limitAdmittedKey(place int, at int64) (key [10]byte) {
	key[0], key[1] = limitTagAdmitted, byte(place)
	binary.BigEndian.PutUint64(key[2:], uint64(at))
	return key
}

// LimitHeldKey appends the key of the element for the reservation with this id.
func LimitHeldKey(dst, id []byte) []byte { return append(append(dst, LimitTagHeld), id...) }

// LimitHeldID returns the id of a reservation from the key of its element.
func LimitHeldID(elem []byte) []byte { return elem[1:] }

// limitNumber reads a number up to 1<<58.
func limitNumber(b []byte) (n int64, rest []byte, ok bool) {
	v, size := binary.Uvarint(b)
	if size <= 0 || v > maxLimitTime {
		return 0, nil, false
	}
	return int64(v), b[size:], true
}

// state returns the state of the limit at a place. It creates the state if there is none.
func (l *Limit) state(place int) *limitState {
	for len(l.states) <= place {
		l.states = append(l.states, limitState{})
	}
	return &l.states[place]
}

// Put sets an element that replay or a load from disk has read. It returns an error if the element
// is not valid.
func (l *Limit) Put(elem, val []byte, deadline int64) error {
	if !namesLimit(elem) || (elem[0] == LimitTagHeld) != (deadline != 0) {
		return errBadElement
	}
	switch elem[0] {
	case limitTagState:
		s, ok := parseLimitState(val)
		if !ok {
			return errBadElement
		}
		to := l.state(int(elem[1]))
		to.kind, to.numbers = s.kind, s.numbers
	case limitTagAdmitted:
		amount, rest, ok := limitNumber(val)
		if !ok || len(rest) > 0 || amount < 1 || amount > MaxLimitCount {
			return errBadElement
		}
		to := l.state(int(elem[1]))
		if to.window == nil {
			to.window = &admissions{}
		}
		to.window.set(int64(binary.BigEndian.Uint64(elem[2:])), amount)
	default:
		if _, _, ok := parseHeld(val); !ok {
			return errBadElement
		}
		l.reservations().set(elem, val, deadline)
	}
	return nil
}

// Bounded reports whether the sum of the admissions and that of the reservations are so small that
// no further sum overflows. Admissions and reservations of this store keep them small. For elements
// from elsewhere, Bounded must be called after each element.
func (l *Limit) Bounded() bool {
	for i := range l.states {
		if w := l.states[i].window; w != nil && w.sum > maxLimitTime {
			return false
		}
	}
	return l.heldFor(0) <= maxLimitTime // each reservation counts for the first limit
}

func (l *Limit) reservations() *reservations {
	if l.held == nil {
		l.held = &reservations{}
	}
	return l.held
}

// Remove removes an element, if it exists.
func (l *Limit) Remove(elem []byte) {
	if !namesLimit(elem) {
		return
	}
	if elem[0] == LimitTagHeld {
		if l.held != nil {
			l.held.drop(elem)
			l.dropHeld()
		}
		return
	}
	if int(elem[1]) >= len(l.states) {
		return
	}
	s := &l.states[elem[1]]
	if elem[0] == limitTagState {
		s.kind, s.numbers = 0, [4]int64{}
	} else if s.window != nil {
		s.window.remove(int64(binary.BigEndian.Uint64(elem[2:])))
		if len(s.window.live()) == 0 {
			s.window = nil
		}
	}
}

// dropHeld sets held to nil if no reservation is left.
func (l *Limit) dropHeld() {
	if l.held != nil && l.held.Len() == 0 {
		l.held = nil
	}
}

// Element returns an element's value and deadline; ok is false if there is no such element.
func (l *Limit) Element(elem []byte) (val []byte, deadline int64, ok bool) {
	if !namesLimit(elem) {
		return nil, 0, false
	}
	if elem[0] == LimitTagHeld {
		if l.held == nil {
			return nil, 0, false
		}
		return l.held.Element(elem)
	}
	if int(elem[1]) >= len(l.states) {
		return nil, 0, false
	}
	s := &l.states[elem[1]]
	if elem[0] == limitTagState {
		return s.append(nil), 0, s.kind != 0
	}
	if s.window == nil {
		return nil, 0, false
	}
	i, ok := s.window.find(int64(binary.BigEndian.Uint64(elem[2:])))
	if !ok {
		return nil, 0, false
	}
	return s.window.live()[i].append(nil), 0, true
}

func (e admission) append(b []byte) []byte { return binary.AppendUvarint(b, uint64(e.amount)) }

// append appends the value of the state's element.
func (s *limitState) append(b []byte) []byte {
	b = append(b, byte(s.kind))
	for _, n := range s.numbers[:numbersOf[s.kind]] {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func parseLimitState(b []byte) (s limitState, ok bool) {
	if len(b) == 0 || b[0] == 0 || int(b[0]) >= len(numbersOf) {
		return s, false
	}
	s.kind = LimitKind(b[0])
	rest := b[1:]
	for i := range numbersOf[s.kind] {
		if s.numbers[i], rest, ok = limitNumber(rest); !ok {
			return s, false
		}
	}
	return s, len(rest) == 0 && s.valid()
}

func (s *limitState) valid() bool {
	n := &s.numbers
	switch s.kind {
	case LimitTokens:
		return n[2] >= 1 && n[2] <= MaxLimitCount && n[1] < n[2]
	case LimitWindow:
		return n[0] >= 1 && n[0] <= MaxLimitSpan
	case LimitApprox:
		return n[0] >= 1 && n[0] <= MaxLimitSpan && n[1] <= maxLimitTime/n[0] &&
			n[2] <= MaxLimitCount && n[3] <= MaxLimitCount
	default:
		return n[1] >= 1 && n[1] <= MaxLimitCount
	}
}

// Walk visits all elements until fn returns false.
func (l *Limit) Walk(fn func(elem, val []byte, deadline int64) bool) {
	if l.walkStates(fn) && l.walkAdmitted(0, 0, fn) && l.held != nil {
		l.held.Walk(fn)
	}
}

func (l *Limit) walkStates(fn func(elem, val []byte, deadline int64) bool) bool {
	for place := range l.states {
		key := limitStateKey(place)
		if s := &l.states[place]; s.kind != 0 && !fn(key[:], s.append(nil), 0) {
			return false
		}
	}
	return true
}

// walkAdmitted visits the admissions of windows, from a place and a time on.
func (l *Limit) walkAdmitted(place int, at int64,
	fn func(elem, val []byte, deadline int64) bool) bool {
	var val [binary.MaxVarintLen64]byte
	for ; place < len(l.states); place, at = place+1, 0 {
		w := l.states[place].window
		from, _ := w.find(at)
		for _, e := range w.live()[from:] {
			key := limitAdmittedKey(place, e.at)
			if !fn(key[:], e.append(val[:0]), 0) {
				return false
			}
		}
	}
	return true
}

// The parts of a cursor of Scan: which kind of elements comes next, and the place among them.
const (
	limitCursorKind     = 62
	limitCursorAdmitted = 1 << limitCursorKind
	limitCursorHeld     = 2 << limitCursorKind
	limitCursorPlace    = 58
)

// Scan visits about count elements from cursor on. States come first, then admissions of windows,
// then reservations. It returns the next cursor; 0: there are no more.
func (l *Limit) Scan(cursor uint64, count int,
	fn func(elem, val []byte, deadline int64)) (next uint64) {
	if cursor == 0 {
		l.walkStates(func(elem, val []byte, deadline int64) bool {
			fn(elem, val, deadline)
			count--
			return true
		})
		cursor = limitCursorAdmitted
	}
	if cursor < limitCursorHeld {
		place, at := int(cursor>>limitCursorPlace&(MaxLimits-1)), int64(cursor&maxLimitTime)
		whole := l.walkAdmitted(place, at, func(elem, val []byte, deadline int64) bool {
			if count <= 0 {
				next = limitCursorAdmitted | uint64(
					elem[1])<<limitCursorPlace | binary.BigEndian.Uint64(elem[2:])
				return false
			}
			fn(elem, val, deadline)
			count--
			return true
		})
		if !whole {
			return next
		}
		cursor = limitCursorHeld
	}
	switch {
	case l.held == nil:
		return 0
	case count <= 0:
		return cursor
	}
	if next = l.held.Scan(cursor&^(3<<limitCursorKind), count, fn); next != 0 {
		next |= limitCursorHeld
	}
	return next
}

// Len returns the number of elements.
func (l *Limit) Len() (n int) {
	for i := range l.states {
		s := &l.states[i]
		if s.kind != 0 {
			n++
		}
		n += len(s.window.live())
	}
	if l.held != nil {
		n += l.held.Len()
	}
	return n
}

// Bytes returns the memory used, in bytes.
func (l *Limit) Bytes() int {
	n := int(unsafe.Sizeof(*l)) + cap(l.states)*int(unsafe.Sizeof(limitState{}))
	for i := range l.states {
		if w := l.states[i].window; w != nil {
			n += int(unsafe.Sizeof(*w)) + cap(w.list)*int(unsafe.Sizeof(admission{}))
		}
	}
	if l.held != nil {
		n += int(unsafe.Sizeof(*l.held)) - int(unsafe.Sizeof(l.held.members)) + l.held.Bytes() +
			8*cap(l.held.sums)
	}
	return n
}

// Earliest returns the first deadline of a reservation; 0 if there is none.
func (l *Limit) Earliest() int64 {
	if l.held == nil {
		return 0
	}
	return l.held.Earliest()
}

// Deadlines visits the deadlines of reservations that are later than after, in order and each once,
// until visit returns false.
func (l *Limit) Deadlines(after int64, visit func(deadline int64) bool) {
	if l.held != nil {
		l.held.Deadlines(after, visit)
	}
}

// DueAt visits the ids of the reservations that have this deadline, as members.DueAt does.
func (l *Limit) DueAt(deadline int64, from uint32, most int,
	visit func(id []byte, hash uint32) bool) (next uint32, more bool) {
	if l.held == nil {
		return 0, false
	}
	return l.held.DueAt(deadline, from, most, func(elem []byte, hash uint32) bool {
		return visit(LimitHeldID(elem), hash)
	})
}

// LenAt returns the number of elements that are not due at now.
func (l *Limit) LenAt(now int64) int {
	n := l.Len()
	if l.held != nil {
		n += l.held.LenAt(now) - l.held.Len()
	}
	return n
}

// Due removes at most limit reservations that are due at now, the earliest first. It passes each to
// fn and returns how many they are.
func (l *Limit) Due(now int64, limit int, fn func(elem, val []byte, deadline int64)) int {
	if l.held == nil {
		return 0
	}
	n := l.held.Due(now, limit, func(elem, val []byte, deadline int64) {
		l.held.count(val, -1)
		fn(elem, val, deadline)
	})
	l.dropHeld()
	return n
}

// Clone returns a copy.
func (l *Limit) Clone() Value {
	c := &Limit{states: slices.Clone(l.states)}
	for i := range c.states {
		if w := c.states[i].window; w != nil {
			c.states[i].window = &admissions{list: slices.Clone(w.live()), sum: w.sum}
		}
	}
	if r := l.held; r != nil {
		c.held = &reservations{members: r.clone(), sums: slices.Clone(r.sums)}
	}
	return c
}
