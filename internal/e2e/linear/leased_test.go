package linear

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// leased is the workload of leases. A client acts for an owner that it shares with other clients.
// It knows the tokens in the replies to it.
type leased struct {
	tokens [groups][groupKeys]int64
}

// grant is the reply of ACQUIRE.
type grant struct{ token, deadline int64 }

const (
	owners               = 6
	errNotHeld   refusal = "LEASE the lease is not held with this token"
	errNotRun    refusal = "LEASE not run: a lease that the transaction depends on is not held"
	acquireVerb          = "ACQUIRE"
	leaseCommand         = "KEYP.LEASE"
)

var leaseVerbs = []string{acquireVerb, "RENEW", "RELEASE", "CHECK", "DEL"}

func (*leased) first() []command { return nil }

func (*leased) last() (list []command) {
	for key := range groupKeys {
		list = append(list, command{verb: acquireVerb, key: key, data: "last", ttl: 1000})
	}
	return list
}

func (l *leased) draw(c *client, group int, _ string, _ int) command {
	cmd := command{key: c.rng.IntN(groupKeys)}
	cmd.ttl = 1 + c.rng.Int64N(200)
	if c.rng.IntN(8) == 0 {
		cmd.ttl = 3_600_000
	}
	cmd.token = max(l.tokens[group][cmd.key], 1)
	switch c.rng.IntN(16) {
	case 0, 1, 2, 3, 4, 5, 6:
		cmd.verb, cmd.data = acquireVerb, fmt.Sprint("o", c.id%owners)
	case 7, 8, 9:
		cmd.verb = "RENEW"
	case 10, 11:
		cmd.verb = "RELEASE"
	case 12:
		cmd.verb = "DEL"
	default:
		cmd.verb = "CHECK"
	}
	return cmd
}

func (*leased) words(group int, cmd command) []any {
	key := keyName(group, cmd.key)
	switch cmd.verb {
	case acquireVerb:
		return []any{leaseCommand, cmd.verb, key, cmd.data, fmt.Sprint(cmd.ttl)}
	case "RENEW":
		return []any{leaseCommand, cmd.verb, key, fmt.Sprint(cmd.token), fmt.Sprint(cmd.ttl)}
	case "DEL":
		return []any{cmd.verb, key}
	}
	return []any{leaseCommand, cmd.verb, key, fmt.Sprint(cmd.token)}
}

func (l *leased) read(group int, cmd command, reply any) any {
	list, ok := reply.([]any)
	if !ok || cmd.verb != acquireVerb || len(list) != 2 {
		return reply
	}
	token, _ := list[0].(int64)
	deadline, _ := list[1].(int64)
	l.tokens[group][cmd.key] = token
	return grant{token, deadline}
}

// TestLeasesLinearizable: clients acquire, renew, check and release leases, while the server is
// killed and its clock steps. One order explains all replies, across all kills. In that order each
// lease has one owner at a time, and its tokens increase.
func TestLeasesLinearizable(t *testing.T) {
	check(t, leases)
}

var leases = trial{model: leaseModel, fresh: func() workload {
	return &leased{}
}, verbs: leaseVerbs, steps: true}

// leaseCell is the state of a key. Its deadline is between lo and hi, in Unix ms. A token of 0 is
// unknown, since the reply was lost. last is the highest token of the key in any reply.
type leaseCell struct {
	owner       string // "": the lease is free
	past        bool   // the clock has stepped since: the lease may have ended before
	token, last int64
	lo, hi      int64
}

// leaseGroup is the state of a group.
type leaseGroup struct {
	cells [groupKeys]leaseCell
	moment
}

// leaseBranch is a state in which an operation runs, at some time between from and to.
type leaseBranch struct {
	leaseGroup
	from, to int64
}

var leaseModel = (&porcupine.NondeterministicModel{
	Partition: byGroup,
	Init:      func() []any { return []any{leaseGroup{}} },
	Equal:     func(a, b any) bool { return a == b },
	Step: func(s, input, output any) (next []any) {
		for _, n := range s.(leaseGroup).after(input.(call), output.(outcome)) {
			next = append(next, n)
		}
		return next
	},
	DescribeOperation: func(input, output any) string {
		return describe(&leased{}, input.(call), output.(outcome))
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

func (s leaseGroup) after(c call, o outcome) (next []leaseGroup) {
	if o.lost {
		next = append(next, s)
	}
	for _, b := range s.begin(c) {
		if b.run(c, o) && b.from <= b.to {
			b.moment = s.moment.next(c, b.from)
			if !slices.Contains(next, b.leaseGroup) {
				next = append(next, b.leaseGroup)
			}
		}
	}
	return next
}

// begin decides which of the operation's leases have expired. If the bounds leave that open, there
// is a branch for each case.
func (s leaseGroup) begin(c call) []leaseBranch {
	passed := s.passed(c)
	for i := range s.cells {
		if k := &s.cells[i]; k.owner != "" && k.lo <= passed {
			k.past = true
		}
	}
	branches := []leaseBranch{{s, s.earliest(c), c.to}}
	for key := range groupKeys {
		if !slices.ContainsFunc(c.commands, func(cmd command) bool { return cmd.key == key }) {
			continue
		}
		var decided []leaseBranch
		for _, b := range branches {
			k := b.cells[key]
			if k.owner == "" {
				decided = append(decided, b)
				continue
			}
			live, gone := b, b
			gone.from = max(b.from, k.lo)
			gone.cells[key] = leaseCell{last: k.last}
			live.to = min(b.to, k.hi-1)
			live.cells[key].lo = max(k.lo, b.from+1)
			live.cells[key].past = false
			if k.past {
				gone.from = b.from
			}
			decided = append(decided, live, gone)
		}
		branches = decided
	}
	return slices.DeleteFunc(branches, func(b leaseBranch) bool { return b.from > b.to })
}

// run applies the commands, and returns true if the replies can be right.
func (b *leaseBranch) run(c call, o outcome) bool {
	ended := false
	for i, cmd := range c.commands {
		var reply any
		if !o.lost {
			reply = o.replies[i]
		}
		if ended {
			if !o.lost && reply != errNotRun {
				return false
			}
			continue
		}
		k := &b.cells[cmd.key]
		held := k.owner != "" && k.token == cmd.token
		switch {
		case cmd.verb == acquireVerb:
			if !b.acquire(k, cmd, reply, o.lost) {
				return false
			}
		case cmd.verb == "DEL":
			if !o.lost && reply != bit(k.owner != "") {
				return false
			}
			*k = leaseCell{last: k.last}
		case cmd.verb == "RELEASE":
			if !o.lost && reply != bit(held) {
				return false
			}
			if held {
				*k = leaseCell{last: k.last}
			}
		case !held: // CHECK and RENEW
			if !o.lost && reply != errNotHeld {
				return false
			}
			ended = c.way == "EXEC"
		case cmd.verb == "CHECK":
			if !o.lost && reply != "OK" {
				return false
			}
		default:
			if !b.renew(k, cmd, reply, o.lost) {
				return false
			}
		}
	}
	return true
}

func bit(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// counts narrows the time of the operation by a deadline that is ttl after that time.
func (b *leaseBranch) counts(deadline, ttl int64) bool {
	b.from, b.to = max(b.from, deadline-ttl), min(b.to, deadline-ttl)
	return b.from <= b.to
}

func (b *leaseBranch) renew(k *leaseCell, cmd command, reply any, lost bool) bool {
	if lost {
		k.lo, k.hi = b.from+cmd.ttl, b.to+cmd.ttl
		return true
	}
	deadline, ok := reply.(int64)
	k.lo, k.hi = deadline, deadline
	return ok && b.counts(deadline, cmd.ttl)
}

func (b *leaseBranch) acquire(k *leaseCell, cmd command, reply any, lost bool) bool {
	g, granted := reply.(grant)
	switch {
	case k.owner != "" && k.owner != cmd.data:
		return lost || reply == nil
	case !lost && !granted:
		return false
	case k.owner == "" && lost:
		*k = leaseCell{owner: cmd.data, last: k.last, lo: b.from + cmd.ttl, hi: b.to + cmd.ttl}
		return true
	case k.owner == "":
		if g.token <= k.last || !b.counts(g.deadline, cmd.ttl) {
			return false
		}
		*k = leaseCell{owner: cmd.data, token: g.token, last: g.token,
			lo: g.deadline, hi: g.deadline}
		return true
	case lost: // by its owner, again: the later of two deadlines
		k.lo, k.hi = max(k.lo, b.from+cmd.ttl), max(k.hi, b.to+cmd.ttl)
		return true
	}
	if k.token == 0 && g.token > k.last {
		k.token, k.last = g.token, g.token
	}
	if g.token != k.token || g.deadline < max(k.lo, b.from+cmd.ttl) ||
		g.deadline > max(k.hi, b.to+cmd.ttl) {
		return false
	}
	if g.deadline > k.hi && !b.counts(g.deadline, cmd.ttl) {
		return false
	}
	b.to = min(b.to, g.deadline-cmd.ttl)
	k.lo, k.hi = g.deadline, g.deadline
	return true
}

// TestLeaseChecker: the checker detects histories that must not happen, and accepts those that may.
func TestLeaseChecker(t *testing.T) {
	const ms = 1_000_000
	op := func(from, to int64, way string, commands []command, replies ...any) porcupine.Operation {
		return porcupine.Operation{
			Input:  call{way: way, commands: commands, from: from, to: to},
			Output: outcome{lost: replies == nil, replies: replies},
			Call:   from * ms, Return: to * ms,
		}
	}
	acquire := func(owner string, ttl int64) []command {
		return []command{{verb: acquireVerb, data: owner, ttl: ttl}}
	}
	with := func(verb string, token, ttl int64) []command {
		return []command{{verb: verb, token: token, ttl: ttl}}
	}
	got := func(token, deadline int64) any { return grant{token, deadline} }
	none := []any{nil}
	first := op(1, 1, "", acquire("a", 100), got(5, 101))
	type history []porcupine.Operation
	// in moves an operation to the second regime of the clock, after its step. If first is 0, the
	// operation may run before or after the step.
	in := func(first int, op porcupine.Operation, from, to int64) porcupine.Operation {
		c := op.Input.(call)
		c.from, c.to = from, to
		c.span = span{clock{{}, {from: time.UnixMilli(20)}}, first, 1}
		op.Input = c
		return op
	}
	check := func(token int64, reply any) porcupine.Operation {
		return op(50, 50, "", with("CHECK", token, 0), reply)
	}
	short := op(1, 1, "", acquire("a", 15), got(5, 16))
	for _, tt := range []struct {
		name string
		ok   bool
		history
	}{
		{"held when the clock is set back", true, history{first, in(1, check(5, "OK"), -50, -50)}},
		{"ended when the clock is set back", false,
			history{first, in(1, check(5, errNotHeld), -50, -50)}},
		{"ended unseen, and the clock is set back", true,
			history{short, in(1, check(5, errNotHeld), -50, -50)}},
		{"held or ended before the clock is set back", true,
			history{short, in(1, check(5, "OK"), -50, -50)}},
		{"held, and not any more", false, history{short, in(1, check(5, "OK"), -50, -50),
			in(1, op(51, 51, "", with("CHECK", 5, 0), errNotHeld), -49, -49)}},
		{"ended, and back", false, history{short, in(0, check(5, errNotHeld), -50, 50),
			in(1, op(51, 51, "", with("CHECK", 5, 0), "OK"), -49, -49)}},
		{"ended when the clock is set forward", true,
			history{first, in(1, check(5, errNotHeld), 150, 150)}},
		{"held when the clock is set forward", false,
			history{first, in(1, check(5, "OK"), 150, 150)}},
		{"held or ended amid a step", true, history{first, in(0, check(5, "OK"), 50, 150),
			in(0, check(5, errNotHeld), 50, 150)}},
		{"one after the other", true, history{first, op(2, 3, "", with("RELEASE", 5, 0), int64(1)),
			op(4, 4, "", acquire("b", 10), got(6, 14))}},
		{"refused", true, history{first, op(2, 3, "", acquire("b", 10), none...)}},
		{"two holders", false, history{first, op(2, 2, "", acquire("b", 10), got(6, 12))}},
		{"held beyond its end", false, history{first, op(101, 102, "", with("CHECK", 5, 0), "OK")}},
		{"ended too early", false,
			history{first, op(99, 100, "", with("CHECK", 5, 0), errNotHeld)}},
		{"refused when free", false, history{first, op(101, 102, "", acquire("b", 10), none...)}},
		{"the same token for another owner", false,
			history{first, op(101, 101, "", acquire("b", 10), got(5, 111))}},
		{"a lower token", false, history{first, op(101, 101, "", acquire("b", 10), got(4, 111))}},
		{"the same owner again", true, history{first, op(2, 2, "", acquire("a", 200), got(5, 202)),
			op(150, 151, "", with("CHECK", 5, 0), "OK")}},
		{"the same owner again, for less", true,
			history{first, op(2, 2, "", acquire("a", 10), got(5, 101))}},
		{"the same owner again, and less is left", false,
			history{first, op(2, 2, "", acquire("a", 10), got(5, 12))}},
		{"the same owner with another token", false,
			history{first, op(2, 2, "", acquire("a", 200), got(6, 202))}},
		{"renewed", true, history{first, op(2, 2, "", with("RENEW", 5, 10), int64(12)),
			op(12, 12, "", acquire("b", 10), got(6, 22))}},
		{"renewed and forgotten", false, history{first, op(2, 2, "", with("RENEW", 5, 200),
			int64(202)), op(150, 150, "", acquire("b", 10), got(6, 160))}},
		{"renewed after its end", false,
			history{first, op(101, 101, "", with("RENEW", 5, 200), int64(301))}},
		{"released by another token", false,
			history{first, op(2, 3, "", with("RELEASE", 4, 0), int64(1))}},
		{"released and forgotten", false, history{first, op(2, 3, "", with("RELEASE", 5, 0),
			int64(1)), op(4, 5, "", with("CHECK", 5, 0), "OK")}},
		{"lost and granted", true, history{op(1, 5, "", acquire("a", 100)),
			op(6, 7, "", acquire("b", 10), none...), op(8, 8, "", acquire("a", 10), got(7, 103))}},
		{"lost, and its token granted again", false, history{op(1, 2, "", acquire("a", 10)), op(3,
			3, "", acquire("a", 10), got(7, 13)), op(20, 20, "", acquire("b", 10), got(7, 30))}},
		{"lost and not granted", true, history{op(1, 5, "", acquire("a", 100)),
			op(6, 6, "", acquire("b", 10), got(5, 16))}},
		{"EXEC ended", true, history{first,
			op(2, 3, "EXEC", append(with("CHECK", 4, 0), with("RELEASE", 5, 0)...), errNotHeld,
				errNotRun), op(4, 5, "", with("CHECK", 5, 0), "OK")}},
		{"EXEC not ended", false,
			history{first, op(2, 3, "EXEC", append(with("CHECK", 4, 0), with("RELEASE", 5, 0)...),
				errNotHeld, int64(1))}},
		{"EXEC ended without reason", false,
			history{first, op(2, 3, "EXEC", append(with("CHECK", 5, 0), with("RELEASE", 5, 0)...),
				"OK", errNotRun)}},
		{"a script goes on", true,
			history{first, op(2, 3, "EVAL", append(with("CHECK", 4, 0), with("RELEASE", 5, 0)...),
				errNotHeld, int64(1))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if ok := porcupine.CheckOperations(leaseModel, tt.history); ok != tt.ok {
				t.Errorf("linearizable: %v", ok)
			}
		})
	}
}
