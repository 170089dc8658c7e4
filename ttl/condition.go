package ttl

// Condition is the set of options that decide whether a deadline may replace
// another. The empty set always allows it.
type Condition uint8

// The options of EXPIRE and the like.
const (
	NX Condition = 1 << iota // only when there is no deadline yet
	XX                       // only when there is one
	GT                       // only when the new one is later
	LT                       // only when the new one is earlier
)

// Check returns ErrConditionNX or ErrConditionGTLT if the options cannot be combined. XX can be
// combined with GT or LT.
func (c Condition) Check() error {
	switch {
	case c&NX != 0 && c&(XX|GT|LT) != 0:
		return ErrConditionNX
	case c&GT != 0 && c&LT != 0:
		return ErrConditionGTLT
	}
	return nil
}

// Allows reports whether the deadline new may replace old. If old is None, it counts as infinitely
// late. new is never None.
func (c Condition) Allows(old, new int64) bool {
	switch {
	case c&NX != 0 && old != None,
		c&XX != 0 && old == None,
		c&GT != 0 && (old == None || new <= old),
		c&LT != 0 && old != None && new >= old:
		return false
	}
	return true
}
