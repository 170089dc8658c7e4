package object

import (
	"bytes"
	"math"
	"slices"
)

// ZSet is a sorted set. Element keys are members, element values are scores, and members may have
// deadlines. Members are ranked from 0 by score and then by their bytes. Slices that it returns are
// valid until it changes, and must not be passed back to it.
//
// Ranks count all members, also those that are due and were not removed yet.
type ZSet struct{ members }

func zsetRule() rule {
	l := thresholds.Load()
	return rule{scored: true, entries: l.ZSetEntries, size: l.ZSetValue}
}

// Type returns TypeZSet.
func (z *ZSet) Type() Type { return TypeZSet }

// Put sets a member that replay or a load from disk has read. It returns an error if the score is
// not valid.
func (z *ZSet) Put(elem, val []byte, deadline int64) error {
	if len(val) != 8 || math.IsNaN(ScoreOf(val)) {
		return errBadElement
	}
	z.Set(elem, ScoreOf(val), deadline)
	return nil
}

// Set sets a member's score, which is not NaN, and deadline (0: none), and reports whether the
// member is new. The score -0 becomes 0.
func (z *ZSet) Set(member []byte, score float64, deadline int64) (created bool) {
	var val [8]byte
	return z.put(zsetRule(), member, AppendScore(val[:0], score), deadline)
}

// Score returns a member's score and deadline (0: none); ok is false if there is no such member.
func (z *ZSet) Score(member []byte) (score float64, deadline int64, ok bool) {
	e, ok := z.get(member)
	if !ok {
		return 0, 0, false
	}
	return ScoreOf(e.val), e.deadline, true
}

// Delete removes a member and reports whether it existed.
func (z *ZSet) Delete(member []byte) bool { return z.delete(member) }

// RemoveRange removes the members of the ranks from from up to but not including to. It passes each
// to fn before the removal. Ranks that do not exist are ignored.
func (z *ZSet) RemoveRange(from, to int, fn func(member []byte)) {
	from, to = max(from, 0), min(to, z.Len())
	switch {
	case from >= to:
	case z.big != nil:
		z.big.removeRanks(from, to, func(e entry) { fn(e.key) })
	default:
		off := z.small.at(from)
		for range to - from {
			e := entryAt(z.small[off:])
			fn(e.key)
			z.small.remove(off, e.size)
		}
	}
}

// Except returns a sorted set of the same form without the members of the ranks from from up to but
// not including to.
func (z *ZSet) Except(from, to int) *ZSet {
	rest := &ZSet{}
	if z.big != nil {
		rest.grow(zsetRule())
	}
	keep := func(member []byte, score float64, deadline int64) bool {
		rest.Set(member, score, deadline)
		return true
	}
	z.Range(0, from, false, keep)
	z.Range(to, z.Len(), false, keep)
	return rest
}

// Rank returns the number of members before this one; ok is false if there is no such member.
func (z *ZSet) Rank(member []byte) (rank int, ok bool) {
	e, ok := z.get(member)
	if !ok {
		return 0, false
	}
	if z.big != nil {
		var p path
		z.big.seekScore(&p, scoreKey(ScoreOf(e.val)), member)
		return p.rank(), true
	}
	_, rank = z.small.seek(lessThan(ScoreOf(e.val), member))
	return rank, true
}

// RankOfScore returns the number of members whose score is below score; with above, those with the
// score itself are included. So [RankOfScore(min, false), RankOfScore(max, true)) are the ranks of
// the scores from min to max, both included.
func (z *ZSet) RankOfScore(score float64, above bool) int {
	if z.big == nil {
		_, rank := z.small.seek(func(e entry) bool {
			s := ScoreOf(e.val)
			return s < score || above && s == score
		})
		return rank
	}
	var p path
	want := scoreKey(score + 0)
	z.big.scores.seek(&p, func(key uint64, _ uint32) bool {
		return key < want || above && key == want
	})
	return p.rank()
}

// RankOfLex returns the number of members below member; with above, member itself is included. All
// scores must be the same. Otherwise it returns the rank of one place where the order of members
// changes sides.
func (z *ZSet) RankOfLex(member []byte, above bool) int {
	before := func(e entry) bool {
		c := bytes.Compare(e.key, member)
		return c < 0 || above && c == 0
	}
	if z.big == nil {
		_, rank := z.small.seek(before)
		return rank
	}
	var p path
	z.big.scores.seek(&p, func(_ uint64, pos uint32) bool { return before(z.big.entry(pos)) })
	return p.rank()
}

// At returns the member of a rank, which must be below Len.
func (z *ZSet) At(rank int) (member []byte, score float64, deadline int64) {
	z.Range(rank, rank+1, false, func(m []byte, s float64, d int64) bool {
		member, score, deadline = m, s, d
		return true
	})
	return member, score, deadline
}

// Range visits the members of the ranks from from up to but not including to, until fn returns
// false. With reverse the last one comes first. Ranks that do not exist are ignored.
func (z *ZSet) Range(from, to int, reverse bool,
	fn func(member []byte, score float64, deadline int64) bool) {
	z.each(from, to, reverse, func(e entry) bool { return fn(e.key, ScoreOf(e.val), e.deadline) })
}

// Walk visits all members in order until fn returns false.
func (z *ZSet) Walk(fn func(elem, val []byte, deadline int64) bool) {
	z.each(0, z.Len(), false, func(e entry) bool { return fn(e.key, e.val, e.deadline) })
}

func (z *ZSet) each(from, to int, reverse bool, fn func(e entry) bool) {
	from, to = max(from, 0), min(to, z.Len())
	switch {
	case from >= to:
	case z.big != nil:
		z.eachBig(from, to, reverse, fn)
	default:
		z.eachSmall(from, to, reverse, fn)
	}
}

func (z *ZSet) eachBig(from, to int, reverse bool, fn func(e entry) bool) {
	var p path
	if reverse {
		z.big.scores.seekRank(&p, to-1)
	} else {
		z.big.scores.seekRank(&p, from)
	}
	for range to - from {
		_, pos, _ := p.entry()
		if !fn(z.big.entry(pos)) {
			return
		}
		if reverse {
			p.prev()
		} else {
			p.next()
		}
	}
}

func (z *ZSet) eachSmall(from, to int, reverse bool, fn func(e entry) bool) {
	off := z.small.at(from)
	var starts []int // of the entries, for the way back
	for range to - from {
		e := entryAt(z.small[off:])
		if reverse {
			starts = append(starts, off)
		} else if !fn(e) {
			return
		}
		off += e.size
	}
	for _, off := range slices.Backward(starts) {
		if !fn(entryAt(z.small[off:])) {
			return
		}
	}
}

// Reserve prepares for a command that adds n members; the longest has size bytes. As in Redis, the
// sorted set becomes large at once if they are too many or too long for a small one. This is so
// even if the members exist already.
func (z *ZSet) Reserve(n, size int) {
	if r := zsetRule(); z.big == nil && (n > r.entries || size > r.size) {
		z.grow(r)
	}
}

// Encoding returns the reply of OBJECT ENCODING.
func (z *ZSet) Encoding() string {
	if z.big != nil {
		return "skiplist"
	}
	return "listpack"
}
