package policies

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
	"keyp/ttl"
)

// instants draws a time: a usual one, or one near the largest possible time.
func instants(t *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 1_000_000),
		rapid.Int64Range(math.MaxInt64-1000, math.MaxInt64)).Draw(t, label)
}

// spans draws a duration for an option of a policy, often 0.
func spans(t *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 1_000_000),
		rapid.Just(int64(math.MaxInt64))).Draw(t, label)
}

// within adds like a policy: a sum beyond the largest time is the largest time.
func within(at, d int64) int64 {
	if sum := uint64(at) + uint64(d); sum < math.MaxInt64 {
		return int64(sum)
	}
	return math.MaxInt64
}

// TestPolicyDecide compares the decisions of policies with their documentation.
func TestPolicyDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Policy{
			Default: spans(t, "default"), Max: spans(t, "max"),
			Refuse:  rapid.Bool().Draw(t, "refuse"),
			Jitter:  rapid.Int64Range(0, 90).Draw(t, "jitter"),
			Require: rapid.Bool().Draw(t, "require"),
		}
		now, kept, hash := instants(t, "now"), rapid.Bool().Draw(t, "kept"),
			rapid.Uint64().Draw(t, "hash")
		asked := ttl.None
		if rapid.Bool().Draw(t, "timed") {
			asked = within(now, rapid.Int64Range(1, 2_000_000).Draw(t, "left"))
		}
		got := p.Decide(now, asked, kept, hash)

		want, fresh := Verdict{Deadline: asked}, !kept
		if asked == ttl.None && p.Default > 0 {
			want.Deadline, want.Defaulted, fresh = within(now, p.Default), true, true
		}
		tooLate := p.Max > 0 && want.Deadline != ttl.None && want.Deadline > within(now, p.Max)
		switch {
		case want.Deadline == ttl.None:
			want.Refused = p.Require && fresh
		case tooLate && p.Refuse:
			want.Refused = fresh
		case tooLate:
			want.Deadline, want.Cut = within(now, p.Max), true
		}
		if got.Refused != want.Refused {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if want.Refused {
			return
		}
		if got.Defaulted != want.Defaulted || got.Cut != want.Cut {
			t.Fatalf("%+v, want %+v", got, want)
		}
		less := want.Deadline - got.Deadline
		if most := (want.Deadline - now) / 100 * p.Jitter; less < 0 ||
			less > 0 && (!fresh || want.Deadline == ttl.None || less > most) {
			t.Fatalf("%d ms before %d, %d at most; %+v", less, want.Deadline, most, got)
		}
		if got.Jittered != (less > 0) || got.Changed() != (got.Deadline != asked ||
			got.Defaulted || got.Cut) {
			t.Fatalf("%d before %+v", less, got)
		}
		if again := p.Decide(now, asked, kept, hash); again != got {
			t.Fatalf("once %+v, then %+v", got, again)
		}
	})
}

// TestPolicyJitterSpreads: jitter spreads equal deadlines evenly over its whole range.
func TestPolicyJitterSpreads(t *testing.T) {
	const now, left, keys, parts = 1_700_000_000_000, 1_000_000, 100_000, 10
	p := &Policy{Jitter: 50}
	counts := [parts]int{}
	for i := range uint64(keys) {
		v := p.Decide(now, now+left, false, i*0x9e3779b97f4a7c15)
		counts[min((now+left-v.Deadline)*parts/(left/2), parts-1)]++
	}
	for i, n := range counts {
		if n < keys/parts*9/10 || n > keys/parts*11/10 {
			t.Errorf("part %d of %d: %d of %d keys", i, parts, n, keys)
		}
	}
}

// TestPolicySlide: a use moves the deadline to now plus Slide, but not beyond Limit. It moves by at
// least a tenth of Slide.
func TestPolicySlide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Policy{Slide: spans(t, "slide"), Limit: spans(t, "limit")}
		now := instants(t, "now")
		written := now - rapid.Int64Range(0, min(now, 2_000_000)).Draw(t, "since")
		was := rapid.OneOf(rapid.Just(ttl.None),
			rapid.Int64Range(now, within(now, 2_000_000))).Draw(t, "deadline")
		want := was
		if p.Slide > 0 && was != ttl.None {
			to := within(now, p.Slide)
			if p.Limit > 0 {
				to = min(to, within(written, p.Limit))
			}
			if to > was && to-was >= max(p.Slide/10, 1) {
				want = to
			}
		}
		if got := p.SlideTo(now, was, written); got != want {
			t.Fatalf("%+v moves %d, written at %d, to %d at %d; want %d", p, was, written, got, now,
				want)
		}
	})
}
