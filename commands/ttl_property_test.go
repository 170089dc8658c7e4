package commands

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
	"keyp/ttl"
)

// These tests check the correctness properties of Keyp's TTL design through commands and storage.
// The test moves the clock, and restarts the server in between. rapid runs each property with at
// least 100 cases.

// property runs prop for each case on an empty keyspace. All cases use the same store, so the clock
// and the log continue from the case before.
func property(t *testing.T, name string, prop func(t *rapid.T, h *harness)) {
	t.Run(name, func(t *testing.T) {
		h := newHarness(t)
		rapid.Check(t, func(t *rapid.T) {
			h.t = t
			h.store.SetActiveExpire(false)
			must(t, h, "+OK", "FLUSHALL")
			h.heard()
			prop(t, h)
		})
	})
}

var (
	anyKey = rapid.OneOf(rapid.StringN(0, 20, 40),
		rapid.StringMatching(`\{[a-z]\}[a-z0-9:]{1,8}`))
	anyValue = rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("abc")),
		0, 40000, 40000))
	anyTTL = rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 100_000),
		rapid.Int64Range(1, 1<<40))
	anyWait = rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 200_000))
)

// way is a command that gives a key a deadline, n of its units from now.
type way struct {
	name string
	unit ttl.Unit
	args func(key, value string, now, n int64) []string
	sets bool // it sets the value too
}

var ways = []way{
	{"EXPIRE", ttl.Seconds, relative("EXPIRE"), false},
	{"PEXPIRE", ttl.Milliseconds, relative("PEXPIRE"), false},
	{"EXPIREAT", ttl.Seconds, absolute("EXPIREAT", ttl.Seconds), false},
	{"PEXPIREAT", ttl.Milliseconds, absolute("PEXPIREAT", ttl.Milliseconds), false},
	{"SETEX", ttl.Seconds, setFirst("SETEX"), true},
	{"PSETEX", ttl.Milliseconds, setFirst("PSETEX"), true},
	{"SET EX", ttl.Seconds, option("SET", "EX"), true},
	{"SET PX", ttl.Milliseconds, option("SET", "PX"), true},
	{"GETEX EX", ttl.Seconds, option("GETEX", "EX"), false},
	{"GETEX PX", ttl.Milliseconds, option("GETEX", "PX"), false},
}

func relative(name string) func(string, string, int64, int64) []string {
	return func(key, _ string, _, n int64) []string { return []string{name, key, decimal(n)} }
}

func absolute(name string, unit ttl.Unit) func(string, string, int64, int64) []string {
	return func(key, _ string, now, n int64) []string {
		return []string{name, key, decimal(now/int64(unit) + n)}
	}
}

func setFirst(name string) func(string, string, int64, int64) []string {
	return func(key, value string, _, n int64) []string {
		return []string{name, key, decimal(n), value}
	}
}

func option(name, word string) func(string, string, int64, int64) []string {
	return func(key, value string, _, n int64) []string {
		if name == "SET" {
			return []string{name, key, value, word, decimal(n)}
		}
		return []string{name, key, word, decimal(n)}
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func drawWay(t *rapid.T) way {
	return rapid.Custom(func(t *rapid.T) way {
		return ways[rapid.IntRange(0, len(ways)-1).Draw(t, "way")]
	}).Draw(t, "command")
}

// expireIn creates key with value and a deadline, by a random command. It returns the deadline.
func expireIn(t *rapid.T, h *harness, key, value string) (deadline int64) {
	t.Helper()
	w, n, now := drawWay(t), anyTTL.Draw(t, "ttl"), h.clock.Now()
	if !w.sets {
		must(t, h, `+OK`, "SET", key, value)
	}
	args := w.args(key, value, now, n)
	if reply := h.do(args...); reply != "1" && reply != "+OK" && reply != strconv.Quote(value) {
		t.Fatalf("%.60q: %.100s", args, reply)
	}
	if w.name == "EXPIREAT" { // counts from the start of the second
		now -= now % 1000
	}
	return now + n*int64(w.unit)
}

func must(t tb, h *harness, want string, args ...string) {
	t.Helper()
	if got := h.do(args...); got != want {
		t.Fatalf("%.80q: %.100s, want %.100s", args, got, want)
	}
}

// advance moves the clock by ms, which may be more than a time.Duration holds.
func advance(h *harness, ms int64) { h.clock.Set(h.clock.Now() + ms) }

// maybeReopen restarts the server in some cases.
func maybeReopen(t *rapid.T, h *harness) {
	if n := rapid.IntRange(0, 9).Draw(t, "reopen"); n < 2 {
		h.save = n == 0
		h.reopen()
	}
}

func TestPropertySetting(t *testing.T) {
	property(t, "Feature: ttl-commands, Property 1: TTL Setting Consistency",
		func(t *rapid.T, h *harness) {
			advance(h, anyWait.Draw(t, "start"))
			key, value := anyKey.Draw(t, "key"), anyValue.Draw(t, "value")
			for range rapid.IntRange(1, 3).Draw(t, "times") { // the last one counts
				deadline := expireIn(t, h, key, value)
				left := deadline - h.clock.Now()
				if left <= 0 { // EXPIREAT of the present second: deleted at once
					must(t, h, "-2", "TTL", key)
					continue
				}
				must(t, h, decimal(left), "PTTL", key)
				must(t, h, decimal((left+500)/1000), "TTL", key)
				must(t, h, decimal(deadline), "PEXPIRETIME", key)
				must(t, h, decimal((deadline+500)/1000), "EXPIRETIME", key)
				must(t, h, strconv.Quote(value), "GET", key)
			}
		})
}

func TestPropertyQuery(t *testing.T) {
	property(t, "Feature: ttl-commands, Property 2: TTL Query Accuracy",
		func(t *rapid.T, h *harness) {
			key := anyKey.Draw(t, "key")
			deadline := expireIn(t, h, key, "v")
			last := deadline - h.clock.Now()
			for range rapid.IntRange(1, 8).Draw(t, "questions") {
				advance(h, anyWait.Draw(t, "wait"))
				maybeReopen(t, h)
				left := deadline - h.clock.Now()
				if left <= 0 {
					must(t, h, "-2", "PTTL", key)
					must(t, h, "-2", "TTL", key)
					must(t, h, "-2", "PEXPIRETIME", key)
					return
				}
				if left > last {
					t.Fatalf("the remaining time rose from %d to %d", last, left)
				}
				last = left
				must(t, h, decimal(left), "PTTL", key)
				must(t, h, decimal((left+500)/1000), "TTL", key)
				must(t, h, decimal(deadline), "PEXPIRETIME", key)
			}
		})
}

func TestPropertyPersist(t *testing.T) {
	property(t, "Feature: ttl-commands, Property 3: Persist Operation Idempotency",
		func(t *rapid.T, h *harness) {
			key, value := anyKey.Draw(t, "key"), anyValue.Draw(t, "value")
			deadline := expireIn(t, h, key, value)
			advance(h, anyWait.Draw(t, "wait"))
			maybeReopen(t, h)
			if deadline <= h.clock.Now() {
				must(t, h, "0", "PERSIST", key)
				must(t, h, "-2", "TTL", key)
				return
			}
			must(t, h, "1", "PERSIST", key)
			for range rapid.IntRange(1, 3).Draw(t, "again") {
				must(t, h, "0", "PERSIST", key)
				must(t, h, "-1", "TTL", key)
				must(t, h, "-1", "PEXPIRETIME", key)
				must(t, h, strconv.Quote(value), "GET", key)
				maybeReopen(t, h)
			}
			advance(h, deadline-h.clock.Now()) // when it would have ended
			must(t, h, strconv.Quote(value), "GET", key)
		})
}

// questions are commands that have the same reply for an expired key as for a missing one.
var questions = []struct {
	want string
	args []string // the key stands for "k"
}{
	{"nil", []string{"GET", "k"}},
	{"[nil]", []string{"MGET", "k"}},
	{"0", []string{"EXISTS", "k"}},
	{"+none", []string{"TYPE", "k"}},
	{"0", []string{"STRLEN", "k"}},
	{`""`, []string{"GETRANGE", "k", "0", "-1"}},
	{"-2", []string{"TTL", "k"}},
	{"-2", []string{"PTTL", "k"}},
	{"-2", []string{"EXPIRETIME", "k"}},
	{"0", []string{"TOUCH", "k"}},
	{"0", []string{"DEL", "k"}},
	{"0", []string{"UNLINK", "k"}},
	{"nil", []string{"GETDEL", "k"}},
	{"nil", []string{"GETEX", "k", "PERSIST"}},
	{"0", []string{"EXPIRE", "k", "100"}},
	{"0", []string{"PERSIST", "k"}},
	{"-ERR no such key", []string{"RENAME", "k", "elsewhere"}},
	{"0", []string{"COPY", "k", "elsewhere"}},
	{"0", []string{"MOVE", "k", "1"}},
	{"nil", []string{"OBJECT", "ENCODING", "k"}},
	{"nil", []string{"SET", "k", "v", "XX"}},
	{`["0", []]`, []string{"SCAN", "0", "COUNT", "100000"}},
	{"[]", []string{"KEYS", "*"}},
	{"nil", []string{"RANDOMKEY"}},
}

func TestPropertyExpiration(t *testing.T) {
	property(t, "Feature: ttl-commands, Property 4: Expiration Consistency",
		func(t *rapid.T, h *harness) {
			key := anyKey.Draw(t, "key")
			deadline := expireIn(t, h, key, anyValue.Draw(t, "value"))
			if left := deadline - h.clock.Now(); left > 0 {
				advance(h, left-1)
				must(t, h, "1", "EXISTS", key) // to the last millisecond
				advance(h, 1)
			}
			if rapid.Bool().Draw(t, "later") {
				advance(h, anyWait.Draw(t, "wait"))
			}
			maybeReopen(t, h)
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(questions)-1), 1,
				5).Draw(t, "questions") {
				args := append([]string(nil), questions[i].args...)
				if len(args) > 1 && args[1] == "k" {
					args[1] = key
				} else if len(args) > 2 && args[0] == "OBJECT" {
					args[2] = key
				}
				must(t, h, questions[i].want, args...)
			}
			// The key is removed, not only hidden.
			h.store.SetActiveExpire(true)
			await.Until(t, "no key and no deadline is left", func() bool {
				keys, expires := h.store.Count(0)
				return keys == 0 && expires == 0
			})
			maybeReopen(t, h)
			must(t, h, "nil", "GET", key)
		})
}

func TestPropertyRoundTrip(t *testing.T) {
	property(t, "Feature: ttl-commands, Property 5: TTL Persistence Round-trip",
		func(t *rapid.T, h *harness) {
			type entry struct {
				value    string
				deadline int64
			}
			model := map[string]entry{}
			for range rapid.IntRange(1, 6).Draw(t, "keys") {
				key, value := anyKey.Draw(t, "key"), anyValue.Draw(t, "value")
				if rapid.IntRange(0, 3).Draw(t, "persistent") == 0 {
					must(t, h, "+OK", "SET", key, value)
					model[key] = entry{value, ttl.None}
				} else {
					model[key] = entry{value, expireIn(t, h, key, value)}
				}
			}
			for range rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "restarts") {
				advance(h, anyWait.Draw(t, "wait"))
				h.save = rapid.Bool().Draw(t, "checkpoint")
				h.reopen()
				for key, e := range model {
					if ttl.Expired(e.deadline, h.clock.Now()) {
						must(t, h, "nil", "GET", key)
						must(t, h, "-2", "PTTL", key)
						continue
					}
					must(t, h, decimal(ttl.ExpireTimeMS(e.deadline, h.clock.Now())),
						"PEXPIRETIME", key)
					must(t, h, decimal(ttl.RemainingMS(e.deadline, h.clock.Now())), "PTTL", key)
					must(t, h, strconv.Quote(e.value), "GET", key)
				}
			}
		})
}

// invalid draws a TTL command with wrong arguments, and returns it with the expected error.
func invalid(t *rapid.T, key string) (args []string, want string) {
	name := rapid.SampledFrom([]string{"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"}).Draw(t,
		"command")
	notNumber := rapid.SampledFrom([]string{"", "abc", "1.5", " 1", "1 ", "+1", "01",
		"9223372036854775808", "0x10", "1e3"}).Draw(t, "number")
	lower := map[string]string{"EXPIRE": "expire", "PEXPIRE": "pexpire", "EXPIREAT": "expireat",
		"PEXPIREAT": "pexpireat"}[name]
	switch rapid.IntRange(0, 6).Draw(t, "mistake") {
	case 0:
		return []string{name, key}, fmt.Sprintf("-ERR wrong number of arguments for '%s' command",
			lower)
	case 1:
		return []string{name, key, notNumber}, "-ERR value is not an integer or out of range"
	case 2:
		return []string{name, key, "100", "FOO"}, "-ERR Unsupported option FOO"
	case 3:
		other := rapid.SampledFrom([]string{"XX", "GT", "LT"}).Draw(t, "other")
		return []string{name, key, "100", "NX", other},
			"-ERR NX and XX, GT or LT options at the same time are not compatible"
	case 4:
		return []string{name, key, "100", "GT", "LT"},
			"-ERR GT and LT options at the same time are not compatible"
	case 5:
		if name == "PEXPIREAT" { // takes every number
			return []string{name, key, notNumber}, "-ERR value is not an integer or out of range"
		}
		return []string{name, key, "9223372036854775807"},
			fmt.Sprintf("-ERR invalid expire time in '%s' command", lower)
	default:
		name := rapid.SampledFrom([]string{"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME",
			"PERSIST"}).Draw(t, "query")
		lower := map[string]string{"TTL": "ttl", "PTTL": "pttl", "EXPIRETIME": "expiretime",
			"PEXPIRETIME": "pexpiretime", "PERSIST": "persist"}[name]
		return []string{name, key, "member", "extra"},
			fmt.Sprintf("-ERR wrong number of arguments for '%s' command", lower)
	}
}

func TestPropertyValidation(t *testing.T) {
	property(t, "Feature: ttl-commands, Property 6: Command Validation Consistency",
		func(t *rapid.T, h *harness) {
			key := anyKey.Draw(t, "key")
			exists := rapid.Bool().Draw(t, "exists")
			if exists {
				must(t, h, "+OK", "SET", key, "v")
				if rapid.Bool().Draw(t, "deadline") {
					must(t, h, "1", "EXPIRE", key, "1000")
				}
			}
			h.heard()
			before := h.do("PEXPIRETIME", key)
			end := h.store.Log().End()
			for range rapid.IntRange(1, 5).Draw(t, "mistakes") {
				args, want := invalid(t, key)
				must(t, h, want, args...)
			}
			if events := h.heard(); events != "" {
				t.Fatalf("events: %s", events)
			}
			if h.store.Log().End() != end {
				t.Fatalf("a refused command wrote to the log")
			}
			must(t, h, before, "PEXPIRETIME", key)
			value := "nil"
			if exists {
				value = `"v"`
			}
			must(t, h, value, "GET", key)
		})
}
