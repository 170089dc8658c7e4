package commands

import (
	"strings"
	"testing"
)

// TestGlob: patterns, such as those of KEYS, match the same strings as in Redis.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"**", "", true},
		{"?", "", false},
		{"*", "anything at all", true},
		{"h?llo", "hello", true},
		{"h?llo", "hllo", false},
		{"h*llo", "heeeello", true},
		{"h*llo", "hllo", true},
		{"h*llo", "hll", false},
		{"h[ae]llo", "hallo", true},
		{"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hallo", true},
		{"h[^e]llo", "hello", false},
		{"h[a-b]llo", "hbllo", true},
		{"h[b-a]llo", "hallo", true},
		{"h[a-b]llo", "hcllo", false},
		{`h\*llo`, "h*llo", true},
		{`h\*llo`, "hello", false},
		{`h\?`, "h?", true},
		{`a\`, `a\`, true},
		{`\a`, `a`, true},
		{`[\]]`, "]", true},
		{`[a\-z]`, "-", true},
		{`[a\-z]`, "m", false},
		{"[]", "a", false},
		{"[]a", "a", false},
		{"[^]", "a", true},
		{"[^]", "", false},
		{"[abc", "b", true},
		{"[abc", "d", false},
		{"[a-]", "_", true}, // from a down to ]
		{"[a-]", "b", false},
		{"[a-]b", "_b", false}, // the set is not closed, so b belongs to it
		{"[", "[", false},
		{"[^", "x", true},
		{`[\`, `\`, true},
		{"[--0]", ".", true},
		{"*[0-9]*", "abc7def", true},
		{"*?", "a", true},
		{"*?", "", false},
		{"a*b*c", "aXXbYYc", true},
		{"a*b*c", "aXXbYY", false},
		{"*ab", "aab", true},
		{"\x00*\xff", "\x00\x01\xff", true},
		{"user:[0-9]*:{tag}", "user:12:{tag}", true},
	} {
		if got := globMatch([]byte(c.pattern), []byte(c.s)); got != c.want {
			t.Errorf("globMatch(%q, %q) = %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

// TestGlobStarsAreCheap: a pattern with many stars must not take exponential time. Recursion over
// the stars would need about 30000^20 steps here and never return.
func TestGlobStarsAreCheap(t *testing.T) {
	s := []byte(strings.Repeat("a", 30000))
	if globMatch([]byte(strings.Repeat("a*", 20)+"b"), s) {
		t.Error("matched a string without b")
	}
	if !globMatch([]byte(strings.Repeat("a*", 20)), s) {
		t.Error("did not match")
	}
}

// globReference follows the definition. It matches one element at a time, and tries every length
// for a star.
func globReference(pattern, s []byte) bool {
	switch {
	case len(pattern) == 0:
		return len(s) == 0
	case pattern[0] == '*':
		for n := range len(s) + 1 {
			if globReference(pattern[1:], s[n:]) {
				return true
			}
		}
		return false
	case len(s) == 0:
		return false
	}
	set, rest := referenceElement(pattern)
	return set[s[0]] && globReference(rest, s[1:])
}

// referenceElement returns the bytes that the pattern's first element matches, and the rest of the
// pattern.
func referenceElement(pattern []byte) (set [256]bool, rest []byte) {
	first, rest := pattern[0], pattern[1:]
	switch {
	case first == '?':
		for i := range set {
			set[i] = true
		}
		return set, rest
	case first == '\\' && len(rest) > 0:
		set[rest[0]] = true
		return set, rest[1:]
	case first != '[':
		set[first] = true
		return set, rest
	}
	inverse := len(rest) > 0 && rest[0] == '^'
	if inverse {
		rest = rest[1:]
	}
	for len(rest) > 0 && rest[0] != ']' {
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			set[rest[1]] = true
			rest = rest[2:]
		case len(rest) > 2 && rest[1] == '-':
			from, to := int(rest[0]), int(rest[2])
			if from > to {
				from, to = to, from
			}
			for b := from; b <= to; b++ {
				set[b] = true
			}
			rest = rest[3:]
		default:
			set[rest[0]] = true
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		rest = rest[1:]
	}
	if inverse {
		for i := range set {
			set[i] = !set[i]
		}
	}
	return set, rest
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"a*b?c", "axxbyc"}, {"[a-]", "_"}, {"[^]", "q"}, {`\`, `\`}, {"**a**", "bab"}, {`[\`, `\`},
		{"*[^a]*b", "ccb"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, pattern, s []byte) {
		if len(pattern) > 12 || len(s) > 12 { // the reference is exponential
			return
		}
		if got, want := globMatch(pattern, s), globReference(pattern, s); got != want {
			t.Errorf("globMatch(%q, %q) = %v, want %v", pattern, s, got, want)
		}
	})
}

// TestCostlyPatterns: every command with a pattern from a client refuses one that takes too many
// steps. So do EXEC and scripts that run such a command.
func TestCostlyPatterns(t *testing.T) {
	name, pattern := strings.Repeat("a", 1_000_000), "*"+strings.Repeat("a", 20_000)+"b"
	// A set is compared with each byte, even of a short name.
	set := "*[" + strings.Repeat("x", 1<<20) + "]"
	h, _, _, _ := hosted(t)
	for _, args := range [][]string{
		{"SET", name, "v"},
		{"SET", "due", "v", "PX", "1000"},
		{"HSET", "h", name, "v"},
		{"HPEXPIRE", "h", "1000", "FIELDS", "1", name},
		{"SADD", "s", name},
		{"ZADD", "z", "1", name},
		{"FUNCTION", "LOAD",
			"#!lua name=library_with_a_name\nredis.register_function('f', function() end)"},
	} {
		if got := h.do(args...); strings.HasPrefix(got, "-") {
			t.Fatal(got)
		}
	}
	h.do("PEXPIRE", name, "1000")
	h.as(2)
	h.do("SUBSCRIBE", name)
	h.do("PSUBSCRIBE", pattern)
	h.do("PSUBSCRIBE", "*a")
	h.as(1)
	for _, args := range [][]string{
		{"KEYS", pattern},
		{"SCAN", "0", "MATCH", pattern},
		{"SCAN", "0", "MATCH", pattern, "COUNT", "1000"},
		{"HSCAN", "h", "0", "MATCH", pattern},
		{"SSCAN", "s", "0", "MATCH", pattern},
		{"ZSCAN", "z", "0", "MATCH", pattern},
		{"KEYP.EXPIRING", "-", "+", "MATCH", pattern},
		{"KEYP.EXPIRING", "-", "+", "ELEMENTS", "h", "MATCH", pattern},
		{"KEYP.TIMELINE", "-", "+", "1", "MATCH", pattern},
		{"CONFIG", "GET", set},
		{"COMMAND", "LIST", "FILTERBY", "PATTERN", set},
		{"FUNCTION", "LIST", "LIBRARYNAME", set},
		{"DEBUG", "STRINGMATCH-LEN", pattern, name},
		{"EVAL", "return redis.call('HSCAN', KEYS[1], 0, 'MATCH', ARGV[1])", "1", "h", pattern},
	} {
		if got := h.do(args...); !strings.Contains(got, "matching this pattern takes too long") {
			t.Errorf("%.50q: %.100s", args, got)
		}
	}
	h.do("PERSIST", name)
	if got := h.do("KEYP.UNTIMED", "MATCH", pattern); !strings.Contains(got,
		"matching this pattern takes too long") {
		t.Errorf("KEYP.UNTIMED: %.100s", got)
	}
	// All commands of an EXEC share the steps of one command. Those that need no steps still run.
	h.do("MULTI")
	h.do("HSCAN", "h", "0", "MATCH", pattern)
	h.do("HSCAN", "h", "0", "MATCH", "none")
	if got := h.do("EXEC"); !strings.HasSuffix(got, `for names of this length, ["0", []]]`) {
		t.Errorf("EXEC: %.200s", got)
	}
	if got := h.do("PUBLISH", name, "m"); got != "2" {
		t.Errorf("%s clients hear of the channel, not the one that subscribes to it and the one to its end",
			got)
	}
	if got := h.do("PUBSUB", "CHANNELS", pattern); !strings.Contains(got,
		"matching this pattern takes too long") {
		t.Errorf("PUBSUB CHANNELS: %.100s", got)
	}
}
