package commands

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"keyp/resp"
)

// ruleError is the reason why a rule is refused, in Redis's words.
type ruleError string

func (e ruleError) Error() string { return string(e) }

const (
	errRuleSyntax   ruleError = "Syntax error"
	errRuleCommand  ruleError = "Unknown command or category name in ACL"
	errRuleKeys     ruleError = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
	errRuleChannels ruleError = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
	errRuleNoPass   ruleError = "The password you are trying to remove from the user does not exist"
	errRuleHash     ruleError = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
	errRuleFirstArg ruleError = "Allowing first-arg of a subcommand is not supported"
)

// keyAccess is the kind of access to keys that a key pattern allows.
type keyAccess uint8

const (
	mayRead keyAccess = 1 << iota
	mayWrite
)

type keyPattern struct {
	text   []byte
	access keyAccess
}

func (p keyPattern) String() string {
	switch p.access {
	case mayRead:
		return "%R~" + string(p.text)
	case mayWrite:
		return "%W~" + string(p.text)
	}
	return "~" + string(p.text)
}

// selector is one set of permissions: a command must pass all of its checks. A user has a selector
// of its own and may have more; a command may run if one of them allows it.
type selector struct {
	commands []uint64 // a bit for each Spec.id
	// By Spec.id: first arguments that are allowed for a command that is otherwise forbidden.
	firstArgs map[int][]string
	byDefault bool // rules begins at +@all, not at -@all
	// The rules for commands after the leading +@all or -@all (see byDefault). Rules that no
	// longer have an effect are removed.
	rules     []string
	allKeys   bool
	keys      []keyPattern
	allTopics bool // all channels
	channels  [][]byte
}

// newSelector returns a selector that allows no commands and no keys, but all channels if allTopics
// (acl-pubsub-default) says so.
func newSelector(t *Table, allTopics bool) *selector {
	return &selector{commands: make([]uint64, (len(t.specs)+63)/64), allTopics: allTopics}
}

func (s *selector) clone() *selector {
	c := *s
	c.commands, c.rules, c.keys, c.channels = slices.Clone(s.commands), slices.Clone(s.rules),
		slices.Clone(s.keys), slices.Clone(s.channels)
	c.firstArgs = maps.Clone(s.firstArgs)
	for id, list := range c.firstArgs {
		c.firstArgs[id] = slices.Clone(list)
	}
	return &c
}

// apply changes the selector as one rule says.
func (s *selector) apply(t *Table, rule string) error {
	op := []byte(rule)
	switch {
	case isWord(op, "ALLKEYS"), rule == "~*":
		s.allKeys, s.keys = true, nil
	case isWord(op, "RESETKEYS"):
		s.allKeys, s.keys = false, nil
	case isWord(op, "ALLCHANNELS"), rule == "&*":
		s.allTopics, s.channels = true, nil
	case isWord(op, "RESETCHANNELS"):
		s.allTopics, s.channels = false, nil
	case isWord(op, "ALLCOMMANDS"), isWord(op, "+@ALL"):
		s.start(true)
	case isWord(op, "NOCOMMANDS"), isWord(op, "-@ALL"):
		s.start(false)
	case rule[0] == '~', rule[0] == '%':
		return s.addKeys(rule)
	case rule[0] == '&':
		return s.addChannels(rule[1:])
	case strings.HasPrefix(rule, "+@"), strings.HasPrefix(rule, "-@"):
		return s.setCategory(t, rule)
	case rule[0] == '+', rule[0] == '-':
		return s.setCommand(t, rule)
	default:
		return errRuleSyntax
	}
	return nil
}

// start allows all commands, or none.
func (s *selector) start(all bool) {
	word := uint64(0)
	if all {
		word = ^word
	}
	for i := range s.commands {
		s.commands[i] = word
	}
	s.byDefault, s.rules, s.firstArgs = all, nil, nil
}

// addKeys applies a rule for keys: ~pattern, or a form such as %R~pattern.
func (s *selector) addKeys(rule string) error {
	if s.allKeys {
		return errRuleKeys
	}
	text, access := rule[1:], mayRead|mayWrite
	if rule[0] == '%' {
		var letters string
		letters, text, _ = strings.Cut(text, "~")
		access = 0
		for _, letter := range strings.ToUpper(letters) {
			bit := map[rune]keyAccess{'R': mayRead, 'W': mayWrite}[letter]
			if bit == 0 || access&bit != 0 {
				return errRuleSyntax
			}
			access |= bit
		}
	}
	if access == 0 || hasSpaces(text) {
		return errRuleSyntax
	}
	for i := range s.keys {
		if string(s.keys[i].text) == text {
			s.keys[i].access |= access
			return nil
		}
	}
	s.keys = append(s.keys, keyPattern{[]byte(text), access})
	return nil
}

func (s *selector) addChannels(pattern string) error {
	switch {
	case s.allTopics:
		return errRuleChannels
	case hasSpaces(pattern):
		return errRuleSyntax
	case !channelAmong(s.channels, []byte(pattern), true):
		s.channels = append(s.channels, []byte(pattern))
	}
	return nil
}

// hasSpaces reports whether text has characters that a rule cannot contain.
func hasSpaces(text string) bool { return strings.ContainsAny(text, " \t\n\v\f\r\x00") }

// setCategory applies +@category or -@category.
func (s *selector) setCategory(t *Table, rule string) error {
	category := strings.ToLower(rule[1:])
	if !slices.Contains(aclCategories, category[1:]) {
		return errRuleCommand
	}
	for _, spec := range t.specs {
		if slices.Contains(spec.categories(), category) {
			s.set(spec, rule[0] == '+')
		}
	}
	s.remember(rule[0], category)
	return nil
}

// setCommand applies +command or -command, also with |subcommand, or +command|first-argument.
func (s *selector) setCommand(t *Table, rule string) error {
	name, allow := rule[1:], rule[0] == '+'
	at := strings.LastIndexByte(name, '|')
	if at >= 0 && allow {
		container := t.inRule(name[:at])
		switch {
		case container == nil:
			return errRuleCommand
		case container.parent != nil:
			return errRuleFirstArg
		case at == len(name)-1, hasSpaces(name):
			return errRuleSyntax
		case len(container.Sub) == 0:
			s.allowFirstArg(container.id, name[at+1:])
			s.remember('+', strings.ToLower(name))
			return nil
		}
	}
	spec := t.inRule(name)
	if spec == nil || at >= 0 && spec.parent == nil {
		return errRuleCommand
	}
	s.set(spec, allow)
	s.remember(rule[0], spec.full)
	return nil
}

// inRule finds the command that a user's rule names, such as "get" or "config|get" in any case.
// Rules use the declared name of a command, not the name that rename-command gave it.
func (t *Table) inRule(name string) *Spec {
	of, sub, found := strings.Cut(strings.ToLower(name), "|")
	spec := t.declared[of]
	if spec == nil || !found {
		return spec
	}
	return spec.sub([]byte(sub))
}

// set allows or forbids a command, and the subcommands of a container.
func (s *selector) set(spec *Spec, allow bool) {
	s.setBit(spec.id, allow)
	delete(s.firstArgs, spec.id)
	for i := range spec.Sub {
		s.setBit(spec.Sub[i].id, allow)
	}
}

func (s *selector) setBit(id int, allow bool) {
	if allow {
		s.commands[id/64] |= 1 << (id % 64)
	} else {
		s.commands[id/64] &^= 1 << (id % 64)
	}
}

func (s *selector) bit(id int) bool { return s.commands[id/64]&(1<<(id%64)) != 0 }

func (s *selector) allowFirstArg(id int, arg string) {
	if slices.ContainsFunc(s.firstArgs[id], func(other string) bool {
		return strings.EqualFold(other, arg)
	}) {
		return
	}
	if s.firstArgs == nil {
		s.firstArgs = map[int][]string{}
	}
	s.firstArgs[id] = append(s.firstArgs[id], arg)
}

// remember notes a rule for commands. It replaces earlier rules for the same commands or for a part
// of them. The other rules keep their order, which decides their result.
func (s *selector) remember(sign byte, what string) {
	s.rules = slices.DeleteFunc(s.rules, func(old string) bool {
		return old[1:] == what || strings.HasPrefix(old[1:], what+"|")
	})
	s.rules = append(s.rules, string(sign)+what)
}

// commandRules returns the rules that describe the allowed commands.
func (s *selector) commandRules() []string {
	first := "-@all"
	if s.byDefault {
		first = "+@all"
	}
	return append([]string{first}, s.rules...)
}

func (s *selector) keyRules() []string {
	if s.allKeys {
		return []string{"~*"}
	}
	list := make([]string, len(s.keys))
	for i, p := range s.keys {
		list[i] = p.String()
	}
	return list
}

func (s *selector) channelRules() []string {
	if s.allTopics {
		return []string{"&*"}
	}
	list := make([]string, len(s.channels))
	for i, pattern := range s.channels {
		list[i] = "&" + string(pattern)
	}
	return list
}

// words returns the rules that turn a new selector into this one.
func (s *selector) words() []string {
	list := s.keyRules()
	if !s.allTopics {
		list = append(list, "resetchannels")
	}
	return append(append(list, s.channelRules()...), s.commandRules()...)
}

// all reports whether the selector allows everything.
func (s *selector) all(t *Table) bool {
	for _, spec := range t.specs {
		if !s.bit(spec.id) {
			return false
		}
	}
	return s.allKeys && s.allTopics
}

// parseSelector reads "(rule rule …)".
func parseSelector(t *Table, text string, allTopics bool) (*selector, error) {
	rules, ok := resp.SplitArgs([]byte(text[1 : len(text)-1]))
	if !ok {
		return nil, errRuleSyntax
	}
	s := newSelector(t, allTopics)
	for _, rule := range rules {
		if len(rule) == 0 {
			return nil, errRuleSyntax
		}
		if err := s.apply(t, string(rule)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// text returns the selector in the form that parseSelector reads.
func (s *selector) text() string {
	words := s.words()
	for i, word := range words {
		if strings.ContainsAny(word, `"'\`) || strings.HasSuffix(word, ")") {
			// The word would end the selector if it were not quoted.
			words[i] = string(appendQuoted(nil, []byte(word)))
		}
	}
	return "(" + strings.Join(words, " ") + ")"
}

// mergeSelectors joins the arguments of a selector that was split into several. For a parenthesis
// that is not closed it returns the unmatched text.
func mergeSelectors(args []string) (merged []string, unmatched string) {
	open := -1
	for i, arg := range args {
		switch {
		case open < 0 && strings.HasPrefix(arg, "(") && !strings.HasSuffix(arg, ")"):
			open = i
		case open < 0:
			merged = append(merged, arg)
		case strings.HasSuffix(arg, ")"):
			merged = append(merged, strings.Join(args[open:i+1], " "))
			open = -1
		}
	}
	if open >= 0 {
		return nil, args[open]
	}
	return merged, ""
}

// takesKey reports whether the selector allows this access to a key.
func (s *selector) takesKey(name []byte, need keyAccess) bool {
	return s.allKeys || slices.ContainsFunc(s.keys, func(p keyPattern) bool {
		return p.access&need == need && globMatch(p.text, name)
	})
}

// takesAllKeys reports whether the selector allows this access to every key.
func (s *selector) takesAllKeys(need keyAccess) bool {
	return s.allKeys || slices.ContainsFunc(s.keys, func(p keyPattern) bool {
		return p.access&need == need && string(p.text) == "*"
	})
}

// takesPattern reports whether the selector allows this access to every key that matches a pattern.
// It compares only the two patterns. Either they are the same, or the selector's pattern ends with
// its only wildcard. Then the other pattern must begin with the text before that wildcard.
func (s *selector) takesPattern(pattern []byte, need keyAccess) bool {
	return s.allKeys || slices.ContainsFunc(s.keys, func(p keyPattern) bool {
		if p.access&need != need {
			return false
		}
		text := []byte(p.text)
		prefix, all := bytes.CutSuffix(text, []byte("*"))
		return bytes.Equal(text, pattern) ||
			all && !bytes.ContainsAny(prefix, `*?[\`) && bytes.HasPrefix(pattern, prefix)
	})
}

// takesChannel reports whether the selector allows a channel. With literal, name is a pattern to
// subscribe to, and the selector must list that very pattern.
func (s *selector) takesChannel(name []byte, literal bool) bool {
	return s.allTopics || channelAmong(s.channels, name, literal)
}

func channelAmong(patterns [][]byte, name []byte, literal bool) bool {
	return slices.ContainsFunc(patterns, func(p []byte) bool {
		if literal {
			return bytes.Equal(p, name)
		}
		return globMatch(p, name)
	})
}

// runs reports whether the selector allows the command with these arguments.
func (s *selector) runs(spec *Spec, args [][]byte) bool {
	return spec.Is(NoAuth) || s.bit(spec.id) ||
		len(args) > 1 && slices.ContainsFunc(s.firstArgs[spec.id], func(first string) bool {
			return bytes.EqualFold(args[1], []byte(first))
		})
}
