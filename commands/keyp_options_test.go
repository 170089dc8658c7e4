package commands

import (
	"slices"
	"strings"
	"testing"
)

// optionSamples are example values for options and arguments. An option that is not listed takes
// its own name as a value.
var optionSamples = map[string]string{
	"from": "-", "to": "-", "start": "-", "end": "-", "due": "+1", "cursor": "0", "type": "hash",
	"default": "1", "max": "1",
	"slide": "1", "limit": "1", "maxage": "1",
}

// forms returns all ways to write an argument of the grammar.
func (a Arg) forms() (all [][]string) {
	switch a.Type {
	case ArgToken:
		return [][]string{{a.Token}}
	case ArgOneOf:
		for _, one := range a.Args {
			all = append(all, one.forms()...)
		}
	case ArgBlock:
		all = [][]string{nil}
		for _, part := range a.Args {
			var longer [][]string
			for _, begin := range all {
				if part.Optional {
					longer = append(longer, begin)
				}
				for _, form := range part.forms() {
					longer = append(longer, slices.Concat(begin, form))
				}
			}
			all = longer
		}
	default:
		value := a.Name
		if sample, ok := optionSamples[a.Name]; ok {
			value = sample
		} else if a.Type == ArgInteger {
			value = "1"
		} else if a.Type == ArgPattern {
			value = "*"
		}
		all = [][]string{{value}}
	}
	if a.Token != "" {
		for i := range all {
			all[i] = slices.Concat([]string{a.Token}, all[i])
		}
	}
	return all
}

// tokens returns the fixed words of an argument.
func (a Arg) tokens() (all []string) {
	if a.Token != "" {
		all = append(all, a.Token)
	}
	for _, part := range a.Args {
		all = append(all, part.tokens()...)
	}
	return all
}

// TestOptionsOnce makes wrong calls of all commands of Keyp. It gives an option twice, two
// alternatives, an option without its last value, and an unknown option. Each error names the
// option.
func TestOptionsOnce(t *testing.T) {
	h := newHarness(t)
	h.do("KEYP.POLICY", "SET", "name", "PATTERN", "*", "REQUIRE") // for APPLY
	tried := 0
	for _, spec := range h.env.Table.specs {
		if spec.Group != KeypGroup || len(spec.Sub) > 0 ||
			!slices.ContainsFunc(spec.Args, func(a Arg) bool { return len(a.tokens()) > 0 }) {
			continue
		}
		call := strings.Split(strings.ToUpper(spec.full), "|")
		var options []Arg
		for _, a := range spec.Args {
			if len(a.tokens()) == 0 || a.Multiple { // a limit may be repeated
				call = append(call, a.forms()[0]...)
			} else {
				options = append(options, a)
			}
		}
		fails := func(want string, words ...string) {
			t.Helper()
			tried++
			args := slices.Concat(call, words)
			if got := h.do(args...); !strings.HasPrefix(got, "-ERR ") ||
				!strings.Contains(got, want) {
				t.Errorf("%s: %s, want an error with %q", strings.Join(args, " "), got, want)
			}
		}
		fails("'NOPE' is no option here", "NOPE")
		for _, a := range options {
			for _, form := range a.forms() {
				for _, again := range a.forms() {
					want := form[0] + " and " + again[0] + " exclude each other"
					if form[0] == again[0] {
						want = form[0] + " is given twice"
					}
					fails(want, slices.Concat(form, again)...)
				}
				for _, token := range a.tokens()[1:] { // of what is behind the option
					if a.Type == ArgBlock && slices.Contains(form, token) {
						fails(token, slices.Concat(form, []string{token, "1"})...)
					}
				}
				if last := len(form) - 1; !slices.Contains(a.tokens(), form[last]) {
					name := form[0]
					for _, word := range form[:last] {
						if slices.Contains(a.tokens(), word) {
							name = word
						}
					}
					fails(name+" needs ", form[:last]...)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d calls were tried", tried)
	}
}

// TestOptionsPlace uses options of KEYP.POLICY SET that are allowed only after another option.
func TestOptionsPlace(t *testing.T) {
	table(t, `
		KEYP.POLICY SET a PATTERN * LIMIT 1h -> -ERR LIMIT comes right behind SLIDE and its time
		KEYP.POLICY SET a PATTERN * LIMIT 1h SLIDE 1h -> -ERR LIMIT comes right behind SLIDE and its time
		KEYP.POLICY SET a PATTERN * SLIDE 1h DEFAULT 1h LIMIT 2h -> -ERR LIMIT comes right behind SLIDE and its time
		KEYP.POLICY SET a PATTERN * SLIDE 1h LIMIT 2h LIMIT 2h -> -ERR LIMIT is given twice
		KEYP.POLICY SET a PATTERN * CUT -> -ERR CUT and REFUSE come right behind MAX and its time
		KEYP.POLICY SET a PATTERN * MAX 1h CUT REFUSE -> -ERR CUT and REFUSE exclude each other
		KEYP.POLICY SET a PATTERN * MAX 1h REFUSE REFUSE -> -ERR REFUSE is given twice
		KEYP.POLICY SET a PATTERN PATTERN ENFORCE REQUIRE -> +OK
		KEYP.OUTBOX SET r PATTERN MAXLEN STREAM STREAM MAXLEN 2 -> +OK
		KEYP.POLICY APPLY a COUNT 0 -> -ERR COUNT is a number of 1 or more
		KEYP.POLICY APPLY a CURSOR 8796093022207 -> ["0", 0, 0]
		KEYP.POLICY APPLY a CURSOR 8796093022208 -> -ERR invalid cursor
		KEYP.POLICY APPLY a CURSOR 18446744073709551615 -> -ERR invalid cursor
		KEYP.UNTIMED CURSOR 8796093022207 -> ["0", []]
		KEYP.UNTIMED CURSOR 8796093022208 -> -ERR invalid cursor
		KEYP.EXPIRING - + TYPE bogus -> -ERR TYPE is string, list, set, zset, hash, stream, lease, limit or delay
		KEYP.EXPIRING 0 +1h -> -ERR from and to are -, + or Unix milliseconds
		SCAN 0 TYPE bogus -> ["0", []]
	`)
}
