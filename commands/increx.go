package commands

import (
	"math"
	"strconv"

	"keyp/resp"
	"keyp/storage"
	"keyp/ttl"
)

var increxCommands = []Spec{{
	Name: "INCREX", Group: StringGroup, Since: "8.8.0",
	Summary:    "Adds to the number that a key holds, within bounds, and sets its time to live.",
	Complexity: "O(1)",
	Arity:      -2, Flags: Write | DenyOOM | Fast,
	Keys: []KeySpec{Key(1, RW|Access|Update)},
	Args: []Arg{
		keyArg("key"),
		oneOf("increment", doubleArg("float").after("BYFLOAT"),
			intArg("integer").after("BYINT")).opt(),
		word("SATURATE").opt(),
		stringArg("lowerbound").after("LBOUND").opt(),
		stringArg("upperbound").after("UBOUND").opt(),
		expiryArgs(word("PERSIST")), word("ENX").opt(),
	},
	Run: runIncrEx,
}}

const (
	errENX          Error = "ERR ENX flag requires an expiration"
	errBounds       Error = "ERR LBOUND can't be greater than UBOUND"
	errAppliedInt   Error = "ERR applied increment would overflow"
	errAppliedFloat Error = "ERR applied increment would be Infinity"
	textNotInteger        = " is not an integer or out of range"
	textNotFloat          = " is not a valid float"
	increxIncrement       = "Increment"
	increxLower           = "LBOUND"
	increxUpper           = "UBOUND"
)

// increxOptions are the arguments after INCREX's key. Numbers that are not given are nil.
type increxOptions struct {
	by, low, high []byte
	float         bool
	saturate      bool
	enx           bool
	expiry        expiry // or PERSIST
}

// parseIncrEx reads the options, each of which may be given once.
func parseIncrEx(a Cursor) (increxOptions, error) {
	var o increxOptions
	number := func(to *[]byte) {
		if *to != nil {
			a.Fail(ErrSyntax)
		}
		*to = append([]byte{}, a.Bytes()...)
	}
	flag := func(to *bool) {
		if *to {
			a.Fail(ErrSyntax)
		}
		*to = true
	}
	for a.More() {
		expires := o.expiry.form != nil || o.expiry.other
		switch {
		case a.Word("BYINT"):
			number(&o.by)
		case a.Word("BYFLOAT"):
			o.float = true
			number(&o.by)
		case a.Word("LBOUND"):
			number(&o.low)
		case a.Word("UBOUND"):
			number(&o.high)
		case a.Word("SATURATE"):
			flag(&o.saturate)
		case a.Word("ENX"):
			flag(&o.enx)
		case !expires && o.expiry.option(&a, "PERSIST"):
		default:
			a.Fail(ErrSyntax)
		}
	}
	switch {
	case o.enx && o.expiry.other:
		a.Fail(ErrSyntax)
	case o.enx && o.expiry.form == nil:
		a.Fail(errENX)
	}
	return o, a.Err()
}

func runIncrEx(c *Ctx) error {
	o, err := parseIncrEx(c.Cursor(2))
	if err != nil {
		return err
	}
	if o.float {
		return increxFloat(c, &o)
	}
	return increxInt(c, &o)
}

// intOption parses an integer. It returns otherwise if b is nil.
func intOption(b []byte, otherwise int64, name string) (int64, error) {
	if b == nil {
		return otherwise, nil
	}
	n, ok := ParseInt(b)
	if !ok {
		return 0, Error("ERR " + name + textNotInteger)
	}
	return n, nil
}

func increxInt(c *Ctx, o *increxOptions) error {
	by, err := intOption(o.by, 1, increxIncrement)
	if err != nil {
		return err
	}
	low, err := intOption(o.low, math.MinInt64, increxLower)
	if err != nil {
		return err
	}
	high, err := intOption(o.high, math.MaxInt64, increxUpper)
	switch {
	case err != nil:
		return err
	case low > high:
		return errBounds
	}
	deadline, err := o.expiry.deadline(c.Txn)
	if err != nil {
		return err
	}
	value, exists, err := c.String(c.Keys[0])
	if err != nil {
		return err
	}
	var n int64
	if exists {
		if n, exists = ParseInt(value); !exists {
			return ErrNotInteger
		}
	}
	sum, within := sumWithin(n, by, low, high)
	if !within && !o.saturate {
		c.Out.Array(2)
		c.Out.Int(n)
		c.Out.Int(0)
		return nil
	}
	applied := sum - n
	if (sum > n) != (applied > 0) {
		return errAppliedInt
	}
	c.Out.Array(2)
	c.Out.Int(sum)
	c.Out.Int(applied)
	var digits [20]byte
	c.storeCounted(o, strconv.AppendInt(digits[:0], sum, 10), deadline)
	return nil
}

// sumWithin returns n+by and true, or the bound that the sum exceeds and false.
func sumWithin(n, by, low, high int64) (sum int64, within bool) {
	sum = n + by
	switch {
	case by > 0 && sum < n:
		return high, false
	case by < 0 && sum > n:
		return low, false
	}
	bounded := max(low, min(sum, high))
	return bounded, bounded == sum
}

// floatOption is intOption for a floating point number.
func floatOption(b []byte, otherwise resp.LongDouble, name string) (resp.LongDouble, error) {
	if b == nil {
		return otherwise, nil
	}
	x, ok := resp.ParseLongDouble(b)
	if !ok {
		return x, Error("ERR " + name + textNotFloat)
	}
	return x, nil
}

func increxFloat(c *Ctx, o *increxOptions) error {
	var zero resp.LongDouble
	by, err := floatOption(o.by, zero, increxIncrement)
	if err != nil {
		return err
	}
	most := resp.MaxLongDouble()
	least, _ := zero.Sub(most)
	low, err := floatOption(o.low, least, increxLower)
	if err != nil {
		return err
	}
	high, err := floatOption(o.high, most, increxUpper)
	switch {
	case err != nil:
		return err
	case low.Cmp(high) > 0:
		return errBounds
	}
	deadline, err := o.expiry.deadline(c.Txn)
	if err != nil {
		return err
	}
	value, exists, err := c.String(c.Keys[0])
	if err != nil {
		return err
	}
	n := zero
	if exists {
		if n, exists = resp.ParseLongDouble(value); !exists {
			return ErrNotFloat
		}
	}
	sum, within := n.Add(by)
	switch {
	case !within && by.Cmp(zero) > 0, within && sum.Cmp(high) > 0:
		sum, within = high, false
	case !within, sum.Cmp(low) < 0:
		sum, within = low, false
	}
	if !within && !o.saturate {
		c.Out.Array(2)
		c.Out.LongDouble(n)
		c.Out.LongDouble(zero)
		return nil
	}
	applied, ok := sum.Sub(n)
	if !ok {
		return errAppliedFloat
	}
	c.Out.Array(2)
	c.Out.LongDouble(sum)
	c.Out.LongDouble(applied)
	c.storeCounted(o, sum.Append(nil), deadline)
	return nil
}

// storeCounted stores the new value with the deadline that the options ask for.
func (c *Ctx) storeCounted(o *increxOptions, value []byte, deadline ttl.Deadline) {
	k, ev := c.Keys[0], eventIncrBy
	if o.float {
		ev = eventIncrByFloat
	}
	was, _ := c.Txn.Deadline(k)
	switch {
	case o.expiry.other && was != ttl.None:
		c.Txn.SetString(k, value, ttl.Deadline{}, ev)
		if is, _ := c.Txn.Deadline(k); is == ttl.None { // no policy gave it another one
			c.Txn.Notify(k, storage.DeadlineRemoved)
		}
	case o.expiry.form == nil, o.enx && was != ttl.None:
		c.Txn.SetString(k, value, ttl.At(was), ev)
	default:
		c.storeUntil(k, value, deadline, ev)
	}
}
