// Package policies implements rules about the deadlines of keys. A policy gives a deadline to keys
// that are written without one. It can also cut or refuse late deadlines, or move the deadlines of
// keys that are read. The store asks for its decisions (storage.Governor).
package policies

import (
	"math"
	"math/bits"
	"sync/atomic"

	"keyp/ttl"
)

// Policy is a rule about the deadlines of the keys of a database that match a pattern. It applies
// when a command writes a key, or reads it (Slide). Replayed data and data from elsewhere stay
// unchanged. Times are in ms, 0 for none. A Policy does not change, except for its counters.
type Policy struct {
	Name    string
	DB      int
	Pattern []byte // a glob pattern of names
	// Enforce means that the policy is applied. Otherwise its decisions are only counted and
	// logged.
	Enforce bool
	// Default is the time to live of a key that is written without a deadline.
	Default int64
	// Max is the longest time to live. A later deadline is cut to it, or refused if Refuse is set
	// and a command asks for that deadline.
	Max    int64
	Refuse bool
	// Jitter shortens the time until a new deadline by up to this percentage.
	Jitter int64
	// Slide is the time to live that a key with a deadline gets again after it was read. The new
	// deadline is at most Limit after the write that gave the key its deadline.
	Slide, Limit int64
	// Require refuses to make a key without a deadline.
	Require bool
	// MaxAge is the maximum age of the entries of streams that have none of their own. AgeRefs is
	// the setting for groups in that case, with the values of object.StreamRefs.
	MaxAge  int64
	AgeRefs uint8

	Counts Counts
	// literals is the number of bytes of Pattern that stand for themselves. NewSet counts them.
	literals int
	// Logged is when the policy's effect was last logged, as a reading of the clock's Mono, or 0
	// for never. Unlogged is how often the policy would have had an effect since then.
	Logged, Unlogged atomic.Int64
}

// Counts counts a policy's effects, or those that it would have if it were enforced.
type Counts struct {
	Defaulted, Cut, Jittered, Refused, Slid, Aged atomic.Int64
}

// Verdict is a policy's decision about a deadline.
type Verdict struct {
	// Deadline is the deadline that the key gets, in Unix ms; ttl.None for none.
	Deadline int64
	// Refused means that the command must fail.
	Refused bool
	// Defaulted, Cut and Jittered tell why Deadline differs from the command's.
	Defaulted, Cut, Jittered bool
}

// Changed reports whether the policy changes the deadline or refuses the command.
func (v Verdict) Changed() bool { return v.Refused || v.Defaulted || v.Cut || v.Jittered }

// Decide returns the policy's decision about a key that is written at now with a deadline, ttl.None
// for none. kept means that the key keeps its deadline, or its lack of one, because the write does
// not set it. hash is a hash of the key's name.
func (p *Policy) Decide(now, deadline int64, kept bool, hash uint64) (v Verdict) {
	v.Deadline = deadline
	fresh := !kept
	if deadline == ttl.None {
		switch {
		case p.Default != 0:
			v.Deadline, v.Defaulted, fresh = after(now, p.Default), true, true
		case p.Require && fresh:
			v.Refused = true
			return v
		default:
			return v
		}
	}
	if last := after(now, p.Max); p.Max != 0 && v.Deadline > last {
		if p.Refuse && fresh {
			v.Refused = true
			return v
		}
		if !p.Refuse {
			v.Deadline, v.Cut = last, true
		}
	}
	if less := p.shorter(now, v.Deadline, hash); fresh && less > 0 {
		v.Deadline, v.Jittered = v.Deadline-less, true
	}
	return v
}

// shorter returns by how many ms a deadline is moved earlier. It depends only on the key, the
// deadline and the time left, and is distributed evenly.
func (p *Policy) shorter(now, deadline int64, hash uint64) int64 {
	if p.Jitter == 0 || deadline <= now {
		return 0
	}
	left := uint64(deadline) - uint64(now)
	most := left / 100 * uint64(p.Jitter)
	const odd = 0x9e3779b97f4a7c15
	mixed := (hash ^ uint64(deadline)) * odd
	mixed = (mixed ^ mixed>>32) * odd
	less, _ := bits.Mul64(mixed^mixed>>29, most+1)
	return int64(less)
}

// SlideTo returns the deadline that a key gets when it is read at now. deadline is its present one,
// and written is when a write gave it one, in Unix ms. The deadline moves only if it moves by at
// least a tenth of Slide.
func (p *Policy) SlideTo(now, deadline, written int64) int64 {
	if p.Slide == 0 || deadline == ttl.None {
		return deadline
	}
	to := after(now, p.Slide)
	if p.Limit != 0 {
		to = min(to, after(written, p.Limit))
	}
	if to <= deadline || to-deadline < max(p.Slide/10, 1) {
		return deadline
	}
	return to
}

// after returns the instant d after at, or the end of time.
func after(at, d int64) int64 {
	if at > math.MaxInt64-d {
		return math.MaxInt64
	}
	return at + d
}
