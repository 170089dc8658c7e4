package linear

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of one group of keys. Operations never use keys of two groups. So a history is
// linearizable if the history of each group is.
//
// Deadlines. An operation runs at one time of the wall clock, between its request and its reply. So
// the model has bounds for that time, and for the deadline that the operation sets. Each reply that
// depends on them narrows the bounds. The model refuses a reply that no value within the bounds
// explains. It never refuses a right reply. Wrong replies that it accepts are wrong by less than
// the operation took.
//
// Lost operations got no reply, because the server was killed. They have taken effect before the
// end of the process or never will. The model continues with both cases. So it refuses a history in
// which a lost operation takes effect only after the restart.

const groupKeys = 3

// cell is the state of a key. Its deadline is between lo and hi, in Unix ms. Both are 0 if there is
// none.
type cell struct {
	there  bool
	data   string
	lo, hi int64
}

// state is the state of a group. Everything that happens later happens at the time now or after it.
type state struct {
	cells    [groupKeys]cell
	now      int64
	reported [groupKeys]entries // of the outbox: those whose expiry has happened
}

// command is one command of an operation.
type command struct {
	verb string
	key  int    // within the group
	data string // of SET, SETNX and XADD
	ttl  int64  // ms, of SET, 0: none, and of PEXPIRE
	// token is the argument of RENEW, RELEASE and CHECK.
	token int64
	streamOptions
	jobOptions
}

// call is an operation: a command, or several as one transaction or script. If it ran, it ran
// between from and to, in Unix ms.
type call struct {
	group    int
	way      string // "", "EXEC", "EVAL"
	commands []command
	from, to int64
	outbox   *outbox // nil: there are no rules
	ledBy            // by the clocks of a group that are apart
	span
}

// waited returns the time for which a blocking command has waited, if it got no entry before its
// timeout. Timers count in milliseconds.
func (c call) waited(o outcome) time.Duration {
	const early = 2 * time.Millisecond
	if len(c.commands) == 1 && c.commands[0].block > 0 && !o.lost && o.replies[0] == nil {
		return max(c.commands[0].block-early, 0)
	}
	return 0
}

// outcome has the replies to an operation's commands: int64, string, nil, an error, or a result of
// workload.read. A lost operation has none.
type outcome struct {
	lost    bool
	replies []any
}

// refusal is an error in a reply.
type refusal string

const errNotInteger refusal = "ERR value is not an integer or out of range"

var model = (&porcupine.NondeterministicModel{
	Partition: byGroup,
	Init:      func() []any { return []any{state{}} },
	Equal:     func(a, b any) bool { return a == b },
	Step: func(s, input, output any) (next []any) {
		for _, n := range s.(state).after(input.(call), output.(outcome)) {
			next = append(next, n)
		}
		return next
	},
	DescribeOperation: func(input, output any) string {
		return describe(keyed{}, input.(call), output.(outcome))
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

func byGroup(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	for _, o := range history {
		group := o.Input.(call).group
		for len(parts) <= group {
			parts = append(parts, nil)
		}
		parts[group] = append(parts[group], o)
	}
	return slices.DeleteFunc(parts, func(p []porcupine.Operation) bool { return len(p) == 0 })
}

// describe returns an operation as it was sent, with its replies.
func describe(w workload, c call, o outcome) string {
	var b strings.Builder
	b.WriteString(c.way)
	for i, cmd := range c.commands {
		for _, word := range w.words(c.group, cmd) {
			fmt.Fprintf(&b, " %v", word)
		}
		if !o.lost {
			fmt.Fprintf(&b, " → %v;", o.replies[i])
		}
	}
	if o.lost {
		b.WriteString(" → lost")
	}
	return strings.TrimSpace(b.String())
}

// after returns the possible states after an operation with this outcome. There are none if the
// outcome is impossible.
func (s state) after(c call, o outcome) (next []state) {
	if o.lost {
		next = append(next, s)
	}
	for _, b := range begin(s, c) {
		for _, b := range b.run(c, o) {
			if b.state.now = b.from; c.ledBy.is() {
				// The next leader's time may be behind this leader's time by the duration of a
				// message.
				b.state.now = 0
			}
			if !slices.Contains(next, b.state) {
				next = append(next, b.state)
			}
		}
	}
	return next
}

// branch is a state in which an operation runs, at some time between from and to.
type branch struct {
	state
	from, to int64
}

// begin decides which of the operation's keys have expired. If the bounds leave that open, there is
// a branch for each case.
func begin(s state, c call) []branch {
	branches := []branch{{s, max(c.from, s.now), c.to}}
	for key := range groupKeys {
		if !slices.ContainsFunc(c.commands, func(cmd command) bool { return cmd.key == key }) {
			continue
		}
		var decided []branch
		for _, b := range branches {
			k := b.cells[key]
			if k.lo == 0 {
				decided = append(decided, b)
				continue
			}
			live, gone := b, b
			gone.from = max(b.from, k.lo)
			gone.cells[key] = cell{}
			live.to = min(b.to, k.hi-1)
			live.cells[key].lo = max(k.lo, b.from+1)
			decided = append(append(decided, live), gone.expires(c.outbox, key, k)...)
		}
		branches = decided
	}
	return slices.DeleteFunc(branches, branch.impossible)
}

// impossible returns true if there is no possible time for the operation.
func (b branch) impossible() bool { return b.from > b.to }

// run applies the commands, and returns the possible states afterwards. There are none if the
// replies are wrong.
func (b branch) run(c call, o outcome) []branch {
	branches := []branch{b}
	for i, cmd := range c.commands {
		var next []branch
		for _, b := range branches {
			if before := b.cells[cmd.key]; b.reply(cmd, o, i) {
				next = append(next, b.followRules(c.outbox, cmd, before)...)
			}
		}
		branches = slices.DeleteFunc(next, branch.impossible)
	}
	return branches
}

// reply applies a command, and returns true if its reply can be right.
func (b *branch) reply(cmd command, o outcome, i int) bool {
	k := &b.cells[cmd.key]
	if cmd.verb == "PEXPIRETIME" && k.lo != 0 {
		return o.lost || b.learn(k, o.replies[i])
	}
	want := b.apply(k, cmd)
	return o.lost || o.replies[i] == want
}

// learn sets the deadline of a live key to that in a reply, and returns true if it is possible.
func (b *branch) learn(k *cell, reply any) bool {
	deadline, ok := reply.(int64)
	if !ok || deadline < k.lo || deadline > k.hi {
		return false
	}
	k.lo, k.hi = deadline, deadline
	b.to = min(b.to, deadline-1)
	return b.from <= b.to
}

// apply runs a command on a key that has not expired, and returns its reply.
func (b *branch) apply(k *cell, cmd command) any {
	switch cmd.verb {
	case "GET":
		if !k.there {
			return nil
		}
		return k.data
	case "SET":
		*k = cell{there: true, data: cmd.data}
		if cmd.ttl != 0 {
			k.lo, k.hi = b.from+cmd.ttl, b.to+cmd.ttl
		}
		return "OK"
	case "SETNX":
		if k.there {
			return int64(0)
		}
		*k = cell{there: true, data: cmd.data}
		return int64(1)
	case "INCR":
		n := int64(0)
		if k.there {
			var err error
			if n, err = strconv.ParseInt(k.data, 10, 64); err != nil {
				return errNotInteger
			}
		}
		k.there, k.data = true, strconv.FormatInt(n+1, 10)
		return n + 1
	case allReported:
		return b.reported[cmd.key].count()
	case "PEXPIRETIME": // of a key without a deadline: see reply
		if !k.there {
			return int64(-2)
		}
		return int64(-1)
	}
	return b.applyToPresent(k, cmd)
}

// applyToPresent runs commands that return 1 if they had an effect, and otherwise 0.
func (b *branch) applyToPresent(k *cell, cmd command) any {
	done := k.there
	switch cmd.verb {
	case "DEL":
		*k = cell{}
	case "PEXPIRE":
		if done && cmd.ttl <= 0 {
			*k = cell{}
		} else if done {
			k.lo, k.hi = b.from+cmd.ttl, b.to+cmd.ttl
		}
	case "PERSIST":
		done = k.lo != 0
		k.lo, k.hi = 0, 0
	default:
		panic("no such command: " + cmd.verb)
	}
	if done {
		return int64(1)
	}
	return int64(0)
}
