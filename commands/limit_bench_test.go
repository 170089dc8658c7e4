package commands

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// BenchmarkLimits measures calls of rate limits (KEYP.LIMIT), and INCR and SET with a deadline for
// comparison. It uses each of 100,000 keys in turn, in random order. A millisecond passes after
// every 200 commands.
func BenchmarkLimits(b *testing.B) {
	const many = 100_000
	for _, c := range []struct {
		name  string
		key   int // its place among the arguments
		args  []string
		first []string // makes a key; nil: args does
	}{
		{"INCR", 1, []string{"INCR", ""}, []string{"SET", "", "1", "EX", "36000"}},
		{"SET EX", 1, []string{"SET", "", "1", "EX", "3600"}, nil},
		{"TOKENS", 2, []string{"KEYP.LIMIT", "TAKE", "", "1", "TOKENS", "1000", "1000", "3600000"},
			nil},
		{"TOKENS of a millisecond", 2, []string{"KEYP.LIMIT", "TAKE", "", "1", "TOKENS", "1000000",
			"1000000", "1000"}, nil},
		{"WINDOW", 2, []string{"KEYP.LIMIT", "TAKE", "", "1", "WINDOW", "100000", "60000"}, nil},
		{"WINDOW APPROX", 2, []string{"KEYP.LIMIT", "TAKE", "", "1", "WINDOW", "100000", "60000",
			"APPROX"}, nil},
		{"UNTIL", 2, []string{"KEYP.LIMIT", "TAKE", "", "1", "UNTIL", "100000000", "4102444800000"},
			nil},
		{"CL.THROTTLE", 1, []string{"CL.THROTTLE", "", "1000", "1000", "3600"}, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newHarness(b)
			h.store.SetEvents(0)
			h.store.SetActiveExpire(true)
			var names [many][]byte
			for i, n := range rand.New(rand.NewPCG(1, 1)).Perm(many) {
				names[i] = strconv.AppendInt([]byte("limit:"), int64(n), 10)
			}
			i := 0
			run := func(args [][]byte, key int) {
				args[key] = names[i%many]
				h.ctx.Args = args
				h.ctx.Out.Truncate(0)
				if h.env.Dispatch(&h.ctx) != Done {
					b.Fatalf("%q did not run", args)
				}
				if i++; i%200 == 0 {
					h.clock.Advance(time.Millisecond)
				}
			}
			args := byteArgs(c.args...)
			for range many {
				if c.first == nil {
					run(args, c.key)
				} else {
					run(byteArgs(c.first...), 1)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				run(args, c.key)
			}
		})
	}
}
