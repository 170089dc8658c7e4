package linear

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// ruled is the workload of strings with deadlines under policies (KEYP.POLICY) and outbox rules
// (KEYP.OUTBOX). The keys are in groups, and the expiries of a group's keys are reported to a
// stream. By a policy, reads move the deadline of a group's first key. By another one the second
// key always has a deadline, which is near.
type ruled struct{ keyed }

// The rules of the keys of a group, in ms.
const (
	slidKey, slide            = 0, 150
	boundKey, byDefault, most = 1, 200, 250
)

// allReported is no real command. It is at the end of a history, and requires that all expired keys
// have an entry.
const allReported = "ALL REPORTED"

// outbox has the entries in the stream of a group's outbox at the end of a history, by key.
type outbox [groupKeys][]expiry

// expiry is an entry of an outbox.
type expiry struct {
	data     string
	deadline int64
}

// entries is a set of a key's entries in an outbox.
type entries [8]uint64

func (e *entries) has(i int) bool { return e[i/64]>>(i%64)&1 != 0 }

func (e *entries) add(i int) { e[i/64] |= 1 << (i % 64) }

func (e *entries) count() (n int64) {
	for _, some := range e {
		n += int64(bits.OnesCount64(some))
	}
	return n
}

// last reads all keys and deletes them, so that nothing expires afterwards.
func (ruled) last() (list []command) {
	for _, cmd := range (keyed{}).last() {
		if list = append(list, cmd); cmd.verb == "PEXPIRETIME" {
			list = append(list, command{verb: "DEL", key: cmd.key})
		}
	}
	return list
}

func outboxName(group int) string { return fmt.Sprint("expired:", group) }

// makeRules makes the policies and the outboxes.
func (ruled) makeRules(t *testing.T, s *testkit.Server) {
	t.Helper()
	c := s.Client(2)
	for _, line := range []string{
		fmt.Sprintf("KEYP.POLICY SET slid PATTERN *:k%d ENFORCE SLIDE %d", slidKey, slide),
		fmt.Sprintf("KEYP.POLICY SET bound PATTERN *:k%d ENFORCE DEFAULT %d MAX %d CUT", boundKey,
			byDefault, most),
	} {
		run(t, c.Do(ctx, words(line)...).Err())
	}
	for group := range groups {
		name := outboxName(group)
		run(t, c.Do(ctx, words(fmt.Sprintf("KEYP.OUTBOX SET %s PATTERN %s* STREAM %s VALUE 100",
			name, strings.TrimSuffix(keyName(group, 0), "0"), name))...).Err())
	}
}

func words(line string) (list []any) {
	for _, word := range strings.Fields(line) {
		list = append(list, word)
	}
	return list
}

func run(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readOutboxes waits until all expiries are in the streams, and adds these entries to all
// operations of the history.
func (ruled) readOutboxes(t *testing.T, s *testkit.Server, rec *recorder) {
	t.Helper()
	c := s.Client(2)
	var boxes [groups]outbox
	for group := range groups {
		name := outboxName(group)
		await.Until(t, "all entries are in the stream", func() bool {
			state, err := c.Do(ctx, "KEYP.OUTBOX", "GET", name).Result()
			return err == nil && strings.Contains(fmt.Sprint(state), "waiting 0")
		})
		list, err := c.XRange(ctx, name, "-", "+").Result()
		run(t, err)
		for _, m := range list {
			text := func(field string) string { s, _ := m.Values[field].(string); return s }
			deadline, err := strconv.ParseInt(text("deadline"), 10, 64)
			run(t, err)
			key := -1
			for i := range groupKeys {
				if text("key") == keyName(group, i) {
					key = i
				}
			}
			if key < 0 || len(boxes[group][key]) == 64*len(entries{}) {
				t.Fatalf("an entry too many: %v", m.Values)
			}
			boxes[group][key] = append(boxes[group][key], expiry{text("value"), deadline})
		}
	}
	for i := range rec.history {
		op := rec.history[i].Input.(call)
		op.outbox = &boxes[op.group]
		rec.history[i].Input = op
	}
	for group := range groups {
		var o outcome
		op := call{group: group, outbox: &boxes[group]}
		for key := range groupKeys {
			op.commands = append(op.commands, command{verb: allReported, key: key})
			o.replies = append(o.replies, int64(len(boxes[group][key])))
		}
		at := time.Now()
		rec.add(clients, op, o, at, time.Now())
	}
}

// expires applies a key's expiry. With an outbox the expiry must have an entry that no other expiry
// of the key has used. There is a branch for each possible entry.
func (b branch) expires(o *outbox, key int, k cell) (branches []branch) {
	if o == nil {
		return []branch{b}
	}
	last := int64(0)
	for i, e := range o[key] {
		if b.reported[key].has(i) || e.data != k.data || e.deadline < k.lo || e.deadline > k.hi ||
			e.deadline == last {
			continue
		}
		last = e.deadline
		with := b
		with.reported[key].add(i)
		with.from = max(b.from, e.deadline)
		branches = append(branches, with)
	}
	return branches
}

// followRules applies the rules to the result of a command. before is the state of the key before
// the command.
func (b branch) followRules(o *outbox, cmd command, before cell) []branch {
	if o == nil {
		return []branch{b}
	}
	k := &b.cells[cmd.key]
	switch {
	case cmd.verb == "PEXPIRE" && cmd.ttl <= 0 && before.there:
		return b.expires(o, cmd.key, cell{data: before.data, lo: b.from + cmd.ttl,
			hi: b.to + cmd.ttl})
	case cmd.key == boundKey:
		switch {
		case !k.there || cmd.verb == "GET" || cmd.verb == "PEXPIRETIME":
		case k.lo == 0:
			k.lo, k.hi = b.from+byDefault, b.to+byDefault
		case cmd.ttl > most:
			k.lo, k.hi = b.from+most, b.to+most
		}
	case cmd.key == slidKey && before.there && before.lo != 0 &&
		(cmd.verb == "GET" || cmd.verb == "INCR" || cmd.verb == "SETNX"):
		return b.slides(cmd.key, cmd.verb != "GET")
	}
	return []branch{b}
}

// slides applies a command that reads a key. Its deadline moves if it moves by at least a tenth of
// slide. If mayStay is true, it may also stay.
func (b branch) slides(key int, mayStay bool) []branch {
	const least = slide / 10
	moved, stays := b, b
	k := b.cells[key]
	moved.from = max(b.from, k.lo-slide+least)
	moved.cells[key].lo, moved.cells[key].hi = moved.from+slide, b.to+slide
	if !mayStay {
		stays.to = min(b.to, k.hi-slide+least)
	}
	return []branch{moved, stays}
}
