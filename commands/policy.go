package commands

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"keyp/features/policies"
	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// This file contains KEYP.POLICY. A policy is a rule about the deadlines of the keys whose names
// match a pattern. For example, it gives them a time to live.

const (
	errNoPolicy      Error = "ERR no such policy"
	errPolicyName    Error = "ERR a policy's name has 1 to 128 bytes, in UTF-8 and without control characters"
	errPolicyNeeds   Error = "ERR a policy needs PATTERN"
	errPolicyPattern Error = "ERR a policy's pattern has 1 to 512 bytes"
	errPolicyEmpty   Error = "ERR a policy needs at least one of DEFAULT, MAX, JITTER, SLIDE, REQUIRE and MAXAGE"
	errPolicyJitter  Error = "ERR JITTER is between 1 and 90 percent"
	errPolicyMax     Error = "ERR MAX needs CUT or REFUSE"
	errPolicyOver    Error = "ERR DEFAULT, SLIDE and LIMIT must not be longer than MAX"
	errPolicySlide   Error = "ERR LIMIT must not be shorter than SLIDE"
	errPolicyLimit   Error = "ERR LIMIT comes right behind SLIDE and its time"
	errPolicyExcess  Error = "ERR CUT and REFUSE come right behind MAX and its time"
	errPolicies      Error = "ERR there are as many policies as there can be"
)

const (
	policyNameMax    = 128
	policyPatternMax = 512
	policiesMax      = 1000
	// policyTimeMax is the longest time that a policy may give to keys, 292,000 years, in ms.
	policyTimeMax = math.MaxInt64 / 1000
)

const policyChange = Write | Admin

var policyCommands = []Spec{{
	Name: "KEYP.POLICY", Group: KeypGroup, Since: "0.1.0", Arity: -2,
	Summary: "Manages rules about the deadlines of keys.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "SET", Group: KeypGroup, Since: "0.1.0", Arity: -3, Flags: policyChange | DenyOOM,
			Scope:      Global,
			Summary:    "Makes a policy, or replaces the one of that name.",
			Complexity: "O(N) in the number of policies.",
			Args: []Arg{
				stringArg("name"), patternArg("pattern").after("PATTERN"),
				intArg("db").after("DB").opt(),
				oneOf("mode", word("WARN"), word("ENFORCE")).opt(),
				stringArg("default").after("DEFAULT").opt(),
				block("longest", stringArg("max").after("MAX"),
					oneOf("over", word("CUT"), word("REFUSE"))).opt(),
				intArg("percent").after("JITTER").opt(),
				block("sliding", stringArg("slide").after("SLIDE"),
					stringArg("limit").after("LIMIT").opt()).opt(),
				word("REQUIRE").opt(),
				block("aging", stringArg("maxage").after("MAXAGE"), streamRefsArg.opt()).opt(),
			},
			Run: setPolicy,
		},
		{
			Name: "GET", Group: KeypGroup, Since: "0.1.0", Arity: 3, Scope: OnLoop,
			Summary: "Shows a policy, and how often it did what.", Complexity: "O(1)",
			Args: []Arg{stringArg("name")},
			Run: func(c *Ctx) error {
				if p := c.Env.policies.Load().Named(c.Arg(2)); p != nil &&
					c.takesRule(p.Pattern, mayRead, nil) {
					policy{p}.reply(c)
				} else {
					c.Out.Null()
				}
				return nil
			},
		},
		{
			Name: "DEL", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: policyChange,
			Scope:      Global,
			Summary:    "Deletes a policy; deadlines stay as they are.",
			Complexity: "O(N) in the number of policies.",
			Args:       []Arg{stringArg("name")},
			Run: func(c *Ctx) error {
				had := c.Env.policies.Load().Named(c.Arg(2))
				if had != nil {
					if err := c.mayRule(had.Pattern, had.DB); err != nil {
						return err
					}
					if err := c.keepPolicy(string(c.Arg(2)), nil); err != nil {
						return err
					}
					c.Env.setPolicies(c.Env.policies.Load().Without(had))
				}
				c.bit(had != nil)
				return nil
			},
		},
		{
			Name: "LIST", Group: KeypGroup, Since: "0.1.0", Arity: 2, Scope: OnLoop,
			Summary:    "Shows the policies whose pattern the user may read, by database, those first that go before others.",
			Complexity: "O(N) in the number of policies.",
			Run: func(c *Ctx) error {
				all := slices.DeleteFunc(c.Env.policies.Load().List(),
					func(p *policies.Policy) bool { return !c.takesRule(p.Pattern, mayRead, nil) })
				c.Out.Array(len(all))
				for _, p := range all {
					policy{p}.reply(c)
				}
				return nil
			},
		},
		{
			Name: "TEST", Group: KeypGroup, Since: "0.1.0", Arity: 3, Flags: ReadOnly,
			Summary:    "Shows which policies a key matches, and what would become of a write without a deadline.",
			Complexity: "O(N) in the number of policies.",
			Keys:       []KeySpec{Key(2, RO)},
			Args:       []Arg{keyArg("key")},
			Run:        testPolicy,
		},
		{
			Name: "APPLY", Group: KeypGroup, Since: "0.1.0", Arity: -3, Flags: policyChange,
			Scope:      Unlocked,
			Summary:    "Applies a policy to the existing keys, some with each call.",
			Complexity: "O(1) for a call, O(N) in the number of keys for a whole walk.",
			Args: []Arg{stringArg("name"), intArg("cursor").after("CURSOR").opt(),
				intArg("count").after("COUNT").opt()},
			Tips: []string{tipSpecial},
			Run:  applyPolicy,
		},
		helpFor("KEYP.POLICY", KeypGroup, "0.1.0", Loading|Stale,
			"SET <name> PATTERN <pattern> [DB <n>] [WARN|ENFORCE] [DEFAULT <time>] [MAX <time> CUT|REFUSE] [JITTER <percent>] [SLIDE <time> [LIMIT <time>]] [REQUIRE] [MAXAGE <time> [KEEPREF|DELREF|ACKED]]",
			"    Make or replace a policy. Times are milliseconds, or have a unit: 90s, 30m, 12h, 7d.",
			"GET <name>", "    Show a policy, and how often it did what.",
			"DEL <name>", "    Delete a policy; deadlines stay as they are.",
			"LIST", "    Show all policies, by database, those first that go before others.",
			"TEST <key>",
			"    Show which policies a key matches, and what would become of a write without a deadline.",
			"APPLY <name> [CURSOR <cursor>] [COUNT <n>]",
			"    Have a policy decide on existing keys, some with each call."),
	},
}}

// policy is a Policy with the methods that KEYP.POLICY needs.
type policy struct{ *policies.Policy }

// errRefused returns the error of a command that a policy refuses.
func errRefused(r policies.Refused) Error {
	if r.Deadline == ttl.None {
		return Error("POLICY the policy '" + r.Policy.Name + "' requires a deadline")
	}
	return Error("POLICY the policy '" + r.Policy.Name + "' allows a time to live of " +
		strconv.FormatInt(r.Policy.Max, 10) + " ms at most")
}

// setPolicies replaces the policies.
func (e *Env) setPolicies(s *policies.Set) {
	e.policies.Store(s)
	policies.Use(e.Store, s)
}

// policyTime takes the time of an option, up to most ms.
func (a *Cursor) policyTime(option string, most int64) int64 {
	wrong := Error("ERR " + option +
		" is a positive number of milliseconds, or has a unit: ms, s, m, h or d")
	ms := a.Duration(1, wrong)
	if ms > most {
		a.Fail(wrong)
	}
	return ms
}

// parsePolicy parses the arguments of KEYP.POLICY SET from the name on. db is the client's
// database.
func (e *Env) parsePolicy(c Cursor, db int) (policy, error) {
	a := options{Cursor: c}
	p := policy{&policies.Policy{DB: db}}
	name := a.Bytes()
	p.Name = string(name)
	for a.More() {
		switch {
		case a.option("PATTERN", 1):
			p.Pattern = bytes.Clone(a.Bytes())
		case a.option("DB", 1):
			p.DB = a.database(e)
		case a.option("WARN", 0, "ENFORCE"):
			p.Enforce = false
		case a.option("ENFORCE", 0, "WARN"):
			p.Enforce = true
		case a.option("DEFAULT", 1):
			p.Default = a.policyTime("DEFAULT", policyTimeMax)
		case a.option("MAX", 1):
			p.Max = a.policyTime("MAX", policyTimeMax)
			if p.Refuse = a.option("REFUSE", 0, "CUT"); !p.Refuse && !a.option("CUT", 0, "REFUSE") {
				a.Fail(errPolicyMax)
			}
		case a.option("JITTER", 1):
			if p.Jitter = a.IntFrom(1, errPolicyJitter); p.Jitter > 90 {
				a.Fail(errPolicyJitter)
			}
		case a.option("SLIDE", 1):
			p.Slide = a.policyTime("SLIDE", policyTimeMax)
			if a.option("LIMIT", 1) {
				p.Limit = a.policyTime("LIMIT", policyTimeMax)
			}
		case a.option("LIMIT", 0):
			a.Fail(errPolicyLimit)
		case a.option("CUT", 0, "REFUSE"), a.option("REFUSE", 0, "CUT"):
			a.Fail(errPolicyExcess)
		case a.option("MAXAGE", 1):
			p.MaxAge = a.policyTime("MAXAGE", object.MaxStreamAge)
			refs := streamRefs(0)
			refs.option(&a.Cursor)
			p.AgeRefs = uint8(max(refs, keepRef))
		case a.option("REQUIRE", 0):
			p.Require = true
		default:
			a.end()
		}
	}
	if err := a.Err(); err != nil {
		return policy{}, err
	}
	return p, p.check()
}

func (p policy) check() error {
	switch {
	case p.Name == "" || len(p.Name) > policyNameMax || !utf8.ValidString(p.Name) ||
		strings.ContainsFunc(p.Name, unicode.IsControl):
		return errPolicyName // metrics have it as a label, and errors in their line
	case p.Pattern == nil:
		return errPolicyNeeds
	case len(p.Pattern) == 0 || len(p.Pattern) > policyPatternMax:
		return errPolicyPattern
	case p.Default|p.Max|p.Jitter|p.Slide|p.MaxAge == 0 && !p.Require:
		return errPolicyEmpty
	case p.Max != 0 && max(p.Default, p.Slide, p.Limit) > p.Max:
		return errPolicyOver
	case p.Limit != 0 && p.Limit < p.Slide:
		return errPolicySlide
	}
	return nil
}

// words returns the arguments of KEYP.POLICY SET that make the policy, from the name on.
func (p policy) words() (words [][]byte) {
	add := func(text ...string) {
		for _, t := range text {
			words = append(words, []byte(t))
		}
	}
	number := func(word string, n int64) {
		if n != 0 {
			add(word, strconv.FormatInt(n, 10))
		}
	}
	add(p.Name, "PATTERN", string(p.Pattern), "DB", strconv.Itoa(p.DB), p.mode())
	number("DEFAULT", p.Default)
	if number("MAX", p.Max); p.Max != 0 {
		add(p.over())
	}
	number("JITTER", p.Jitter)
	number("SLIDE", p.Slide)
	number("LIMIT", p.Limit)
	if number("MAXAGE", p.MaxAge); p.MaxAge != 0 {
		add(refsName(object.StreamRefs(p.AgeRefs)))
	}
	if p.Require {
		add("REQUIRE")
	}
	return words
}

func (p policy) mode() string {
	if p.Enforce {
		return "ENFORCE"
	}
	return "WARN"
}

func (p policy) over() string {
	if p.Refuse {
		return "REFUSE"
	}
	return "CUT"
}

// reply replies with a map of a policy and its counts.
func (p policy) reply(c *Ctx) {
	numbers := append([]PolicyCount{
		{"default", p.Default}, {"max", p.Max}, {"jitter", p.Jitter}, {"slide", p.Slide},
		{"limit", p.Limit},
	}, p.counts()...)
	fields := 6 + len(numbers)
	if p.MaxAge != 0 {
		fields += 3
	}
	c.Out.Map(fields)
	c.textField("name", p.Name)
	c.textField("pattern", string(p.Pattern))
	c.intField("db", int64(p.DB))
	c.textField("mode", p.mode())
	c.textField("over", p.over())
	c.Out.BulkString("require")
	c.bit(p.Require)
	for _, f := range numbers {
		c.intField(f.Of, f.N)
	}
	if p.MaxAge != 0 {
		c.intField("max-age", p.MaxAge)
		c.textField("max-age-condition", refsName(object.StreamRefs(p.AgeRefs)))
		c.intField("aged", p.Counts.Aged.Load())
	}
}

// PolicyCount is the number of times that a policy has had an effect since it was set. For a policy
// that only warns, it counts the effects that the policy would have had.
type PolicyCount struct {
	Of string
	N  int64
}

func (p policy) counts() []PolicyCount {
	n := &p.Counts
	return []PolicyCount{
		{"defaulted", n.Defaulted.Load()}, {"cut", n.Cut.Load()}, {"jittered", n.Jittered.Load()},
		{"refused", n.Refused.Load()}, {"slid", n.Slid.Load()},
	}
}

func setPolicy(c *Ctx) error {
	p, err := c.Env.parsePolicy(c.Cursor(2), c.Client.DB)
	if err != nil {
		return err
	}
	if err := c.mayRule(p.Pattern, p.DB); err != nil {
		return err
	}
	now := c.Env.policies.Load()
	if old := now.Named(c.Arg(2)); old != nil {
		if err := c.mayRule(old.Pattern, old.DB); err != nil {
			return err
		}
	}
	if now.Len() == policiesMax && now.Named(c.Arg(2)) == nil {
		return errPolicies
	}
	if err := c.keepPolicy(p.Name, p.words()); err != nil {
		return err
	}
	c.Env.setPolicies(now.With(p.Policy))
	c.Out.OK()
	return nil
}

// testPolicy replies with a map. It has the names of the policies that match the key; the first of
// them applies. It also has the time to live in ms that the key would get if it were written
// without a deadline now. -1 means none, and -2 that the command would be refused.
func testPolicy(c *Ctx) error {
	k := c.Keys[0]
	var names []string
	for _, p := range c.Env.policies.Load().Of(k.DB) {
		if globMatch(p.Pattern, k.Name) {
			names = append(names, p.Name)
		}
	}
	left := ttl.Persistent
	if len(names) > 0 {
		p := c.Env.policies.Load().Named([]byte(names[0]))
		switch v := p.Decide(c.Txn.Now(), ttl.None, false, k.Hash); {
		case !p.Enforce:
		case v.Refused:
			left = ttl.Missing
		case v.Deadline != ttl.None:
			left = v.Deadline - c.Txn.Now()
		}
	}
	c.Out.Map(2)
	c.Out.BulkString("policies")
	c.Out.Array(len(names))
	c.bulkStrings(names)
	c.intField("ttl", left)
	return nil
}

// applyPolicy applies a policy to some keys, from a position of SCAN on. It replies with the next
// position (0 at the end), the number of keys to which the policy applies, and the number of
// changed deadlines. If the policy only warns, the last number counts the deadlines that it would
// change.
func applyPolicy(c *Ctx) error {
	p := c.Env.policies.Load().Named(c.Arg(2))
	if p == nil {
		return errNoPolicy
	}
	if err := c.mayRule(p.Pattern, p.DB); err != nil {
		return err
	}
	cursor, count := uint64(0), int64(100)
	a := options{Cursor: c.Cursor(3)}
	for a.More() {
		switch {
		case a.option("CURSOR", 1):
			cursor = a.scanCursor(a.Bytes())
		case a.option("COUNT", 1):
			count = min(a.IntFrom(1, errWalkCount), scanCountMax)
		default:
			a.end()
		}
	}
	if err := a.Err(); err != nil {
		return err
	}
	var keys []storage.Key
	next, err := c.view().Scan(p.DB, cursor, int(count), func(name []byte, _ object.Type) {
		if c.Env.policies.Load().Find(p.DB, name) == p {
			keys = append(keys, c.Env.Store.Key(p.DB, bytes.Clone(name)))
		}
	})
	if err != nil {
		return err
	}
	changed := int64(0)
	for some := range slices.Chunk(keys, policyStep) {
		n, err := c.applyTo(p, some)
		if err != nil {
			return err
		}
		changed += n
	}
	c.Out.Array(3)
	c.Out.BulkUint(next)
	c.Out.Int(int64(len(keys)))
	c.Out.Int(changed)
	return nil
}

// policyStep is the number of keys that get other deadlines while their shards are locked.
const policyStep = 32

// applyTo is a step of applyPolicy. It is a transaction of its own, unless the command is part of
// one.
func (c *Ctx) applyTo(p *policies.Policy, keys []storage.Key) (changed int64, err error) {
	t := c.Txn
	if t != nil {
		if err := c.load(keys); err != nil {
			return 0, err
		}
	} else {
		t = c.Env.Store.NewTxn()
		if err := c.Env.beginBeside(t, keys); err != nil {
			return 0, err
		}
		defer func() {
			t.By = c.Client.ID
			c.Env.Tracking.ranIn(c, t)
			c.LSN = max(c.LSN, t.End())
		}()
	}
	for _, k := range keys {
		if policies.Apply(t, k, p) {
			changed++
		}
	}
	return changed, nil
}

// Policies are in the store's system database. The key is this prefix and the policy's name. The
// value is a JSON array of the arguments of KEYP.POLICY SET from the name on, each in base64.
const policyKey = "policy:"

// keepPolicy stores a policy for restarts, as part of the command's transaction. Without words it
// removes the policy.
func (c *Ctx) keepPolicy(name string, words [][]byte) error {
	k := c.Env.Store.SystemKey(policyKey + name)
	c.Txn.Use([]storage.Key{k})
	if err := c.load([]storage.Key{k}); err != nil {
		return err
	}
	if words == nil {
		c.Txn.Delete(k, storage.Event{})
		return nil
	}
	text, err := json.Marshal(words)
	if err != nil {
		return err
	}
	c.Txn.SetString(k, text, ttl.Deadline{}, storage.Event{})
	return nil
}

// PolicyNames returns the names of the policies that a store has.
func PolicyNames(s *storage.Store) ([]string, error) {
	names, err := keptNames(s, policyKey)
	for i := range names {
		names[i] = names[i][len(policyKey):]
	}
	return names, err
}

// loadPolicies reads the policies that keepPolicy stored, when the server starts. One that cannot
// be read stays in the store, and the reason is logged.
func (e *Env) loadPolicies() {
	kept, err := keptStrings(e.Store, policyKey)
	if err != nil {
		e.Log.Error("policies cannot be read", "error", err)
	}
	var all []*policies.Policy
	for _, text := range kept {
		var words [][]byte
		err := json.Unmarshal([]byte(text), &words)
		var p policy
		if err == nil {
			p, err = e.parsePolicy(Cursor{args: words}, 0)
		}
		if err != nil {
			e.Log.Error("a policy is not understood and left out; it stays on disk", "policy",
				clip([]byte(text), 128), "error", err)
			continue
		}
		all = append(all, p.Policy)
	}
	e.setPolicies(policies.NewSet(all))
}
