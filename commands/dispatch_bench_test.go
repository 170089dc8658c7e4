package commands

import (
	"fmt"
	"testing"
)

// hotCommands are the most frequent commands of a loaded server.
var hotCommands = []struct {
	name string
	args []string
}{
	{"GET", []string{"GET", "key"}},
	{"GET missing", []string{"GET", "none"}},
	{"SET", []string{"SET", "key", "a value of some twenty bytes"}},
	{"SET EX", []string{"SET", "key", "a value of some twenty bytes", "EX", "100"}},
	{"INCR", []string{"INCR", "counter"}},
	{"EXPIRE", []string{"EXPIRE", "key", "100"}},
	{"TTL", []string{"TTL", "key"}},
	{"DEL missing", []string{"DEL", "none"}},
	{"LIMIT TOKENS", []string{"KEYP.LIMIT", "TAKE", "bucket", "1", "TOKENS", "100000000",
		"1000000", "1000"}},
	{"LIMIT UNTIL", []string{"KEYP.LIMIT", "TAKE", "day", "1", "UNTIL", "100000000",
		"4102444800000"}},
	{"LIMIT WINDOW", []string{"KEYP.LIMIT", "TAKE", "window", "1", "WINDOW", "100000000", "1000"}},
	{"CL.THROTTLE", []string{"CL.THROTTLE", "cell", "100000000", "1000000", "1"}},
}

// hot prepares a store for hotCommands, with policies, and returns a function that runs a command.
func hot(tb testing.TB, policies ...string) (run func(args [][]byte)) {
	h := newHarness(tb)
	h.store.SetEvents(0) // as in a server that nobody listens to
	for i, policy := range policies {
		h.run(fmt.Sprintf("KEYP.POLICY SET p%d PATTERN %s -> +OK", i, policy))
	}
	h.do("SET", "key", "a value of some twenty bytes", "EX", "1000")
	h.do("SET", "counter", "1000000")
	c := &h.ctx
	return func(args [][]byte) {
		c.Args = args
		c.Out.Truncate(0)
		if h.env.Dispatch(c) != Done {
			tb.Fatalf("%q did not run", args)
		}
	}
}

// TestHotCommandsDoNotAllocate: a command allocates nothing between its arguments and its reply.
// Only the log's buffer takes memory, which grows until it is written, and not for each command.
func TestHotCommandsDoNotAllocate(t *testing.T) {
	for _, policies := range [][]string{nil, hotPolicies} {
		run := hot(t, policies...)
		for _, c := range hotCommands {
			args := byteArgs(c.args...)
			if n := testing.AllocsPerRun(2000, func() { run(args) }); n != 0 {
				t.Errorf("%s with %q: %v allocations", c.name, policies, n)
			}
		}
	}
}

// hotPolicies are one policy for the keys of hotCommands and one for other keys.
var hotPolicies = []string{"{session:}* ENFORCE REQUIRE",
	"[kc]* ENFORCE DEFAULT 1000s MAX 1d CUT JITTER 10 SLIDE 1000s"}

func BenchmarkPolicies(b *testing.B) {
	for _, c := range hotCommands[:6] {
		for _, p := range []struct {
			name     string
			policies []string
		}{{"without", nil}, {"others'", hotPolicies[:1]}, {"with", hotPolicies}} {
			b.Run(c.name+" "+p.name, func(b *testing.B) {
				run := hot(b, p.policies...)
				args := byteArgs(c.args...)
				for b.Loop() {
					run(args)
				}
			})
		}
	}
}

func BenchmarkDispatch(b *testing.B) {
	for _, c := range hotCommands {
		b.Run(c.name, func(b *testing.B) {
			run := hot(b)
			args := byteArgs(c.args...)
			b.ReportAllocs()
			for b.Loop() {
				run(args)
			}
		})
	}
}

func BenchmarkGlob(b *testing.B) {
	s := []byte("session:0123456789abcdef:profile")
	for _, pattern := range []string{"session:*", "*:profile", "session:*[0-9a-f]*:prof?le",
		"*z*"} {
		b.Run(fmt.Sprintf("%q", pattern), func(b *testing.B) {
			p := []byte(pattern)
			b.ReportAllocs()
			for b.Loop() {
				globMatch(p, s)
			}
		})
	}
}
