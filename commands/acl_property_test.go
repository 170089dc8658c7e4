package commands

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// aclCall is a call with the keys and channels that it uses. These are written by hand, so that the
// test does not depend on the commands' declarations.
type aclCall struct {
	text     string // its name is what stands before the first key or channel
	name     string
	reads    string // keys whose value it gives or uses
	writes   string // keys that it changes
	names    string // keys that it only says are there
	channels string
	patterns string // to subscribe to
}

var aclCalls = []aclCall{
	{text: "get a", name: "get", reads: "a"},
	{text: "get ab", name: "get", reads: "ab"},
	{text: "set a 1", name: "set", writes: "a"},
	{text: "set b 1 get", name: "set", reads: "b", writes: "b"},
	{text: "incr ab", name: "incr", reads: "ab", writes: "ab"},
	{text: "del a b", name: "del", writes: "a b"},
	{text: "exists a b", name: "exists", names: "a b"},
	{text: "type ab", name: "type", names: "ab"},
	{text: "mget a b ab", name: "mget", reads: "a b ab"},
	{text: "mset a 1 ab 2", name: "mset", writes: "a ab"},
	{text: "copy a b", name: "copy", reads: "a", writes: "b"},
	{text: "rename a b", name: "rename", reads: "a", writes: "a b"},
	{text: "zunionstore ab 2 a b", name: "zunionstore", reads: "a b", writes: "ab"},
	{text: "sinter a b", name: "sinter", reads: "a b"},
	{text: "lpush b x", name: "lpush", writes: "b"},
	{text: "blmove a b left right 0", name: "blmove", reads: "a", writes: "a b"},
	{text: "hset a f v", name: "hset", writes: "a"},
	{text: "hget ab f", name: "hget", reads: "ab"},
	{text: "eval x 2 a b", name: "eval", reads: "a b", writes: "a b"},
	{text: "eval_ro x 1 ab", name: "eval_ro", reads: "ab"},
	{text: "eval x 3 a b", name: "eval"}, // which fails
	{text: "object encoding a", name: "object|encoding", names: "a"},
	{text: "object freq b", name: "object|freq", names: "b"},
	{text: "config get x", name: "config|get"},
	{text: "config set x y", name: "config|set"},
	{text: "config resetstat", name: "config|resetstat"},
	{text: "client id", name: "client|id"},
	{text: "client list", name: "client|list"},
	{text: "select 0", name: "select"},
	{text: "select 1", name: "select"},
	{text: "keys *", name: "keys"},
	{text: "ping", name: "ping"},
	{text: "flushall", name: "flushall"},
	{text: "multi", name: "multi"},
	{text: "publish a m", name: "publish", channels: "a"},
	{text: "spublish ab m", name: "spublish", channels: "ab"},
	{text: "subscribe a ab", name: "subscribe", channels: "a ab"},
	{text: "ssubscribe b", name: "ssubscribe", channels: "b"},
	{text: "psubscribe a*", name: "psubscribe", patterns: "a*"},
	{text: "psubscribe ab*", name: "psubscribe", patterns: "ab*"},
	{text: "psubscribe a b", name: "psubscribe", patterns: "a b"},
	{text: "unsubscribe a", name: "unsubscribe"},
}

// modelSelector decides by going through the rules one by one.
type modelSelector struct {
	rules      []string
	categories map[string][]string
}

// allows reports whether the rules allow a command. The last rule that matches the command decides.
func (m *modelSelector) allows(call aclCall) bool {
	container, _, _ := strings.Cut(call.name, "|")
	words := strings.Fields(call.text)
	for _, rule := range slices.Backward(m.rules) {
		sign, what := rule[0], rule[1:]
		if sign != '+' && sign != '-' {
			continue
		}
		members := []string{what}
		if what[0] == '@' {
			members = m.categories[what[1:]]
		}
		switch {
		case what == "@all", slices.Contains(members, call.name),
			slices.Contains(members, container):
			return sign == '+'
		case what == call.name+"|"+words[len(words)-1] && len(words) == 2:
			return true
		}
	}
	return false
}

// key reports whether the rules allow access to a key. A pattern must grant both reading and
// writing if the command does both.
func (m *modelSelector) key(name string, read, write bool) bool {
	access := map[string][2]bool{} // what each pattern grants in the end
	for _, rule := range m.rules {
		letters, pattern, found := strings.Cut(rule, "~")
		switch {
		case rule == "resetkeys":
			clear(access)
		case rule == "~*":
			access = map[string][2]bool{"*": {true, true}}
		case found && (letters == "" || letters[0] == '%'):
			before := access[pattern]
			access[pattern] = [2]bool{
				before[0] || letters == "" || strings.Contains(letters, "R"),
				before[1] || letters == "" || strings.Contains(letters, "W"),
			}
		}
	}
	for pattern, may := range access {
		if ok, _ := path.Match(pattern, name); ok && (!read || may[0]) && (!write || may[1]) {
			return true
		}
	}
	return false
}

func (m *modelSelector) channel(name string, literal bool) bool {
	allowed := false
	for _, rule := range m.rules {
		if rule == "resetchannels" {
			allowed = false
		}
		if pattern, found := strings.CutPrefix(rule, "&"); found {
			ok, _ := path.Match(pattern, name)
			allowed = allowed || pattern == "*" || literal && pattern == name || !literal && ok
		}
	}
	return allowed
}

func (m *modelSelector) decide(call aclCall) bool {
	if !m.allows(call) {
		return false
	}
	words := func(text string) []string { return strings.Fields(text) }
	for _, name := range slices.Concat(words(call.reads), words(call.writes), words(call.names)) {
		read, write := slices.Contains(words(call.reads), name),
			slices.Contains(words(call.writes), name)
		if !m.key(name, read, write) {
			return false
		}
	}
	for _, name := range words(call.channels) {
		if !m.channel(name, false) {
			return false
		}
	}
	for _, name := range words(call.patterns) {
		if !m.channel(name, true) {
			return false
		}
	}
	return true
}

// drawRules draws rules in an order that a selector accepts.
func drawRules(t *rapid.T, categories []string) []string {
	pool := []string{
		"~a", "~a*", "~b", "%R~a", "%R~a*", "%W~a*", "%W~b", "%RW~b", "%R~b", "~*", "resetkeys",
		"&a", "&a*", "&b", "&ab", "&*", "resetchannels", "+@all", "-@all",
		"+object", "-object", "+config", "-config", "+config|get", "-config|get", "-config|set",
		"+config|set", "-object|freq", "+object|freq",
		"+client|id", "-client|list", "+client", "+select|0", "+select|1", "-select", "+select",
	}
	for _, call := range aclCalls {
		pool = append(pool, "+"+call.name, "-"+call.name)
	}
	for _, category := range categories {
		pool = append(pool, "+@"+category, "-@"+category)
	}
	rule := rapid.SampledFrom(pool)
	var rules []string
	for range rapid.IntRange(0, 12).Draw(t, "rules") {
		drawn := rule.Draw(t, "rule")
		// A pattern after "allow all" is refused.
		if drawn != "~*" && strings.ContainsAny(drawn, "~") {
			rules = append(rules, "resetkeys")
		}
		if drawn != "&*" && drawn[0] == '&' {
			rules = append(rules, "resetchannels")
		}
		rules = append(rules, drawn)
	}
	return rules
}

// TestACLDecisions: users may do what a simple reading of their rules allows. The rules that ACL
// LIST shows make the same users again.
func TestACLDecisions(t *testing.T) {
	h := newHarness(t)
	us := &h.env.users
	categories := map[string][]string{}
	for _, spec := range us.table.specs {
		for _, category := range spec.categories() {
			categories[category[1:]] = append(categories[category[1:]], spec.full)
		}
	}
	decide := func(t *rapid.T, p *permissions, what string, models []*modelSelector) {
		for _, call := range aclCalls {
			args := byteArgs(strings.Fields(call.text)...)
			want := slices.ContainsFunc(models, func(m *modelSelector) bool {
				return m.decide(call)
			})
			d, _ := p.check(us.table.Of(args), args)
			if (d == allowed) != want {
				t.Fatalf("%s, %s: %s is allowed: %v, should be: %v", strings.Join(p.words(), " "),
					what, call.text, d == allowed, want)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var models []*modelSelector
		rules := drawRules(t, aclCategories)
		models = append(models, &modelSelector{rules, categories})
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "selectors") {
			more := drawRules(t, aclCategories)
			models = append(models, &modelSelector{more, categories})
			rules = append(rules, "("+strings.Join(more, " ")+")")
		}
		p, err := us.parse(rules)
		if err != nil {
			t.Fatalf("%q: %v", rules, err)
		}
		us.give(&user{}, p)
		decide(t, p, "as set", models)
		again, err := us.parse(p.words())
		if err != nil {
			t.Fatalf("%q: %v", p.words(), err)
		}
		us.give(&user{}, again)
		decide(t, again, "as described", models)
		if !slices.Equal(again.words(), p.words()) {
			t.Fatalf("%q becomes %q", p.words(), again.words())
		}
	})
}
