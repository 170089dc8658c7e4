package commands

import (
	"math"
	"math/rand/v2"
)

// randomOptions are the arguments of HRANDFIELD, SRANDMEMBER and ZRANDMEMBER after the key.
type randomOptions struct {
	one    bool  // no count is given: one element, not as an array, or null
	count  int64 // different elements; negative: as many elements, which may repeat
	paired bool  // with the value or score of each element
}

// parseRandom reads the count, if there is one, and the word that asks for pairs.
func parseRandom(a Cursor, word string) (randomOptions, error) {
	if !a.More() {
		return randomOptions{one: true}, nil
	}
	o := randomOptions{count: int64(a.signed())}
	o.paired = a.Word(word)
	if a.Len() > 0 {
		a.Fail(ErrSyntax)
	}
	if o.paired && (o.count < -math.MaxInt64/2 || o.count > math.MaxInt64/2) {
		a.Fail(ErrIntRange)
	}
	return o, a.Err()
}

// random replies with random elements of size elements, according to o. announce begins an array of
// n elements; reply writes element i. With a negative count it ends early if the reply exceeds the
// limit for a client.
func (c *Ctx) random(o randomOptions, size int, announce func(n int), reply func(i int)) {
	switch {
	case o.one && size == 0:
		c.Out.Null()
	case o.one:
		reply(rand.IntN(size))
	case o.count < 0 && size > 0:
		announce(int(-o.count))
		for n := o.count; n < 0 && !c.Out.Full; n++ {
			reply(rand.IntN(size))
		}
	default:
		n := int(max(0, min(o.count, int64(size))))
		announce(n)
		sample(size, n, reply)
	}
}

// sample visits k of the numbers below n, where 0 <= k <= n. It visits each at most once, and all
// choices are equally likely.
func sample(n, k int, visit func(i int)) {
	if k > n/3 {
		for i := 0; k > 0; i++ {
			if rand.IntN(n-i) < k {
				visit(i)
				k--
			}
		}
		return
	}
	// Floyd's algorithm: a number that was taken already is replaced by high, which cannot have
	// been taken yet.
	taken := make(map[int]struct{}, k)
	for high := n - k; high < n; high++ {
		i := rand.IntN(high + 1)
		if _, again := taken[i]; again {
			i = high
		}
		taken[i] = struct{}{}
		visit(i)
	}
}
