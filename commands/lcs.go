package commands

import "math/bits"

var lcsCommands = []Spec{
	{
		Name: "LCS", Group: StringGroup, Since: "7.0.0",
		Summary:    "Finds a longest common subsequence of two strings.",
		Complexity: "O(N*M) in the lengths of the two strings.",
		Arity:      -3, Flags: ReadOnly,
		Keys: []KeySpec{{Flags: RO | Access, Begin: 1, Last: 1}},
		Args: []Arg{
			keyArg("key1"), keyArg("key2"),
			word("LEN").opt(), word("IDX").opt(),
			intArg("min-match-len").after("MINMATCHLEN").opt(),
			word("WITHMATCHLEN").opt(),
		},
		Offload: largeProduct,
		Run:     runLCS,
	},
}

// lcsOptions are the options after LCS's keys.
type lcsOptions struct {
	length   bool  // LEN
	index    bool  // IDX
	minMatch int64 // MINMATCHLEN
	withLen  bool  // WITHMATCHLEN
}

func parseLCS(a Cursor) (lcsOptions, error) {
	var o lcsOptions
	for a.More() {
		switch {
		case a.Word("LEN"):
			o.length = true
		case a.Word("IDX"):
			o.index = true
		case a.Word("WITHMATCHLEN"):
			o.withLen = true
		case a.Word("MINMATCHLEN"):
			o.minMatch = a.Int()
		default:
			a.Fail(ErrSyntax)
		}
	}
	if o.length && o.index {
		a.Fail(ErrLCSBoth)
	}
	return o, a.Err()
}

func runLCS(c *Ctx) error {
	a, _, errA := c.readString(c.Keys[0])
	b, _, errB := c.readString(c.Keys[1])
	if errA != nil || errB != nil {
		return ErrLCSType
	}
	o, err := parseLCS(c.Cursor(3))
	if err != nil {
		return err
	}
	if !lcsFits(len(a), len(b), c.Env.maxBulk()) {
		return ErrLCSMemory
	}
	switch {
	case o.length:
		c.Out.Int(int64(lcsTable(a, b, nil)))
	case o.index:
		replyMatches(c, a, b, &o)
	default:
		replySubsequence(c, a, b)
	}
	return nil
}

// lcsFits applies Redis's limit: a table of 4 bytes for every pair of positions must not exceed
// limit bytes. Keyp's table has a bit for each pair, but the limit bounds the time as well.
func lcsFits(a, b int, limit int64) bool {
	high, low := bits.Mul64(uint64(a)+1, uint64(b)+1)
	return high == 0 && low <= uint64(limit)/4
}

// lcsPath has a bit for each pair of positions whose bytes differ. It is for the way back to the
// start of a longest common subsequence. At such a pair, the way takes a step back in a if the bit
// is set, and otherwise in b.
type lcsPath struct {
	width int
	bits  []uint64
}

func newLCSPath(a, b int) *lcsPath { return &lcsPath{width: b, bits: make([]uint64, (a*b+63)/64)} }

func (p *lcsPath) set(i, j int) {
	at := i*p.width + j
	p.bits[at/64] |= 1 << (at % 64)
}

func (p *lcsPath) leavesA(i, j int) bool {
	at := i*p.width + j
	return p.bits[at/64]>>(at%64)&1 != 0
}

// lcsTable returns the length of the longest common subsequence. If path is not nil, it also fills
// in path. It keeps only one row of the table of lengths. row[j] is the length for the part of a
// that was processed so far, and the first j bytes of b.
func lcsTable(a, b []byte, path *lcsPath) int {
	row := make([]uint32, len(b)+1)
	for i, x := range a {
		var diagonal, left uint32 // of the row before at j-1; of this row at j-1
		for j, y := range b {
			up := row[j+1]
			switch {
			case x == y:
				left = diagonal + 1
			case up > left:
				left = up
				if path != nil {
					path.set(i, j)
				}
			}
			row[j+1], diagonal = left, up
		}
	}
	return int(row[len(b)])
}

// lcsBack walks from the ends of a and b to their starts. It calls run for each common piece of n
// bytes, at a[i:] and b[j:], the last piece first.
func lcsBack(a, b []byte, path *lcsPath, run func(i, j, n int)) {
	i, j, n := len(a), len(b), 0
	for i > 0 && j > 0 {
		if a[i-1] == b[j-1] {
			i, j, n = i-1, j-1, n+1
			continue
		}
		if n > 0 {
			run(i, j, n)
			n = 0
		}
		if path.leavesA(i-1, j-1) {
			i--
		} else {
			j--
		}
	}
	if n > 0 {
		run(i, j, n)
	}
}

func replySubsequence(c *Ctx, a, b []byte) {
	path := newLCSPath(len(a), len(b))
	at := lcsTable(a, b, path)
	found := make([]byte, at)
	lcsBack(a, b, path, func(i, _, n int) {
		at -= n
		copy(found[at:], a[i:i+n])
	})
	c.Out.Bulk(found)
}

// replyMatches writes the common pieces as pairs of first and last position, and the
// length of all of them, too short ones included.
func replyMatches(c *Ctx, a, b []byte, o *lcsOptions) {
	path := newLCSPath(len(a), len(b))
	length := lcsTable(a, b, path)
	c.Out.Map(2)
	c.Out.BulkString("matches")
	mark, matches := c.Out.ArrayLater(), 0
	lcsBack(a, b, path, func(i, j, n int) {
		if int64(n) < o.minMatch {
			return
		}
		matches++
		if o.withLen {
			c.Out.Array(3)
		} else {
			c.Out.Array(2)
		}
		for _, from := range [...]int{i, j} {
			c.Out.Array(2)
			c.Out.Int(int64(from))
			c.Out.Int(int64(from + n - 1))
		}
		if o.withLen {
			c.Out.Int(int64(n))
		}
	})
	c.Out.SetLen(mark, matches)
	c.Out.BulkString("len")
	c.Out.Int(int64(length))
}
