package commands

import (
	"math"

	"keyp/storage"
)

// KEYP.TIMELINE counts the keys that expire in each of several equal spans of time. timelineMax is
// the maximum number of spans.
const timelineMax = 10_000

const errBuckets Error = "ERR the number of buckets is not from 1 to 10000"

// timelineArgs are the arguments of KEYP.TIMELINE.
type timelineArgs struct {
	from, until storage.Instant
	buckets     int
	match       []byte // nil: all names
}

// parseTimeline reads the arguments of KEYP.TIMELINE.
func parseTimeline(c Cursor) (o timelineArgs, err error) {
	a := options{Cursor: c}
	empty := false
	switch {
	case a.Word("-"):
		o.from.Open = true
	case a.Word("+"):
		empty = true
	default:
		o.from.At = a.instant()
	}
	switch {
	case a.Word("-"):
		empty = true
	case a.Word("+"):
		o.until.Open = true
	default:
		o.until.At = a.instant()
	}
	if empty { // it begins at the end of time, or ends at its beginning
		o.until = storage.Instant{At: math.MinInt64}
	}
	n := a.IntFrom(1, errBuckets)
	if n > timelineMax {
		a.Fail(errBuckets)
	}
	o.buckets = int(n)
	for a.More() {
		if !a.option("MATCH", 1) {
			a.end()
		} else if o.match = a.Bytes(); globAll(o.match) {
			o.match = nil
		}
	}
	return o, a.Err()
}

func runTimeline(c *Ctx) error {
	o, err := parseTimeline(c.Cursor(1))
	if err != nil {
		return err
	}
	var match func(name []byte) bool
	if o.match != nil || !c.Client.user.permissions().free {
		may := c.maySee()
		match = func(name []byte) bool {
			return (o.match == nil || c.matches(o.match, name)) && may(name)
		}
	}
	list, err := c.view().Timeline(c.Client.DB, o.from, o.until, o.buckets, match)
	if err != nil {
		return err
	}
	c.Out.Array(len(list))
	for _, s := range list {
		c.Out.Array(4)
		for _, n := range []int64{s.From, s.Estimate, s.Low, s.High} {
			c.Out.Int(n)
		}
	}
	c.shows()
	return nil
}
