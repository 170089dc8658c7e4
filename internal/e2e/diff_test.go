package e2e

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The differential run: generated commands go to Keyp and to redis-server in
// lockstep, over RESP2 and RESP3 connections that share the data, and every reply is
// compared byte for byte. What depends on the time or on chance is compared within
// bounds; what is meant to differ stands in known.
//
// KEYP_DIFF_CASES sets how many cases are run.

const (
	diffCases = 150
	diffSteps = 60
	// apart is how much later than the other a server may count from, in ms.
	apart = 5000
	// margin is how long after a deadline both servers are asked again, in ms: Redis
	// keeps a key through the whole millisecond of its deadline.
	margin = 3
	// bulkLimit is proto-max-bulk-len: as low as Redis lets it be.
	bulkLimit = 1 << 20
)

// diffCase is what rapid draws and shrinks.
type diffCase struct {
	absolute bool
	steps    []step
}

var drawCase = rapid.Custom(func(t *rapid.T) diffCase {
	c := diffCase{absolute: rapid.Bool().Draw(t, "absolute")}
	one := rapid.Custom(func(t *rapid.T) step {
		g := &gen{T: t, absolute: c.absolute}
		s := step{conn: rapid.IntRange(0, 1).Draw(t, "conn"), args: g.command()}
		s.wait = g.wait
		return s
	})
	c.steps = rapid.SliceOfN(one, 1, diffSteps).Draw(t, "steps")
	return c
})

func TestDiffCommands(t *testing.T) {
	s := bothServers(t, "--proto-max-bulk-len", strconv.Itoa(bulkLimit))
	setChecks(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCase.Draw(rt, "case")
		run := newDiffRun(rt, s, c.absolute)
		defer run.close()
		for i, step := range c.steps {
			run.step(i, step)
		}
		run.compareAll()
	})
}

// setChecks sets rapid's number of cases for this test.
func setChecks(t *testing.T) {
	t.Helper()
	checks := strconv.Itoa(diffCases)
	if more := os.Getenv("KEYP_DIFF_CASES"); more != "" {
		checks = more
	}
	const name = "rapid.checks"
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, checks); err != nil {
		t.Fatalf("KEYP_DIFF_CASES=%s: %v", checks, err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, before); err != nil {
			t.Error(err)
		}
	})
}

// diffRun is one case: a RESP2 and a RESP3 connection to each server, which are empty.
type diffRun struct {
	t        failer
	log      func(format string, args ...any)
	absolute bool
	conns    [2]pair
}

// pair is a connection to each server.
type pair struct{ keyp, redis *wire }

func newDiffRun(t *rapid.T, s *both, absolute bool) *diffRun {
	r := &diffRun{t: t, log: t.Logf, absolute: absolute}
	for i := range r.conns {
		for side, server := range map[**wire]string{&r.conns[i].keyp: s.keypServer.Addr(), &r.conns[i].redis: s.redisServer.Addr()} {
			conn, err := dialWire(server)
			if err != nil {
				t.Fatalf("connect: %v", err)
			}
			*side = conn
		}
	}
	for _, c := range []*wire{r.conns[1].keyp, r.conns[1].redis} {
		s.mustDo(t, c, "HELLO", "3")
		s.mustDo(t, c, "FLUSHALL")
	}
	return r
}

func (r *diffRun) close() {
	for _, p := range r.conns {
		for _, c := range []*wire{p.keyp, p.redis} {
			if c != nil {
				_ = c.Close() // all that was to be read has been
			}
		}
	}
}

// both sends a command to both servers, then reads both replies.
func (r *diffRun) both(p pair, args ...string) (keyp, redis reply) {
	r.t.Helper()
	raw := encode(args...)
	for _, c := range []*wire{p.keyp, p.redis} {
		if err := c.send(raw); err != nil {
			r.t.Fatalf("%q: send: %v", args, err)
		}
	}
	keyp, err := p.keyp.receive()
	if err != nil {
		r.t.Fatalf("%q: keyp: %v", args, err)
	}
	redis, err = p.redis.receive()
	if err != nil {
		r.t.Fatalf("%q: redis: %v", args, err)
	}
	return keyp, redis
}

func (r *diffRun) step(index int, s step) {
	r.t.Helper()
	p := r.conns[s.conn]
	args := s.resolve(index, time.Now())
	if strings.EqualFold(args[0], "DBSIZE") {
		r.dropExpired(p)
	}
	keyp, redis := r.both(p, args...)
	if s.wait {
		time.Sleep((near + margin) * time.Millisecond)
	}
	if strings.EqualFold(args[0], "SCAN") && !keyp.isError() && !redis.isError() {
		keyp, redis = r.walk(p.keyp, args, keyp), r.walk(p.redis, args, redis)
	}
	r.log("%d RESP%d %q: %s", index, s.conn+2, args, brief(redis.raw))
	if reason := knownDifference(args, keyp, redis); reason != "" {
		return
	}
	if !r.same(p, args, keyp, redis) {
		r.t.Fatalf("step %d, RESP%d: %q\nkeyp  %s\nredis %s", index, s.conn+2, args, brief(keyp.raw), brief(redis.raw))
	}
}

// dropExpired makes Redis remove its expired keys, which DBSIZE counts otherwise.
func (r *diffRun) dropExpired(p pair) {
	r.t.Helper()
	if _, err := p.redis.do("SCAN", "0", "COUNT", "100000"); err != nil {
		r.t.Fatalf("SCAN: %v", err)
	}
}

// walk goes on with a SCAN to its end and gives all keys, each once, as one reply.
func (r *diffRun) walk(c *wire, args []string, first reply) reply {
	r.t.Helper()
	all := map[string]reply{}
	next := slices.Clone(args)
	for page, round := first, 0; ; round++ {
		if len(page.items) != 2 || round > 1000 {
			r.t.Fatalf("%q: round %d: %s", next, round, brief(page.raw))
		}
		for _, key := range page.items[1].items {
			all[key.text] = key
		}
		if next[1] = page.items[0].text; next[1] == "0" {
			break
		}
		var err error
		if page, err = c.do(next...); err != nil {
			r.t.Fatalf("%q: %v", next, err)
		}
	}
	keys := reply{kind: '*'}
	for _, key := range all {
		keys.items = append(keys.items, key)
	}
	keys.raw = keys.unordered(1)
	return keys
}

// same compares the replies to a command.
func (r *diffRun) same(p pair, args []string, keyp, redis reply) bool {
	r.t.Helper()
	if keyp.raw == redis.raw {
		return true
	}
	k, integer := keyp.number()
	other, bothIntegers := redis.number()
	closeBy := integer && bothIntegers && k > 0 && other > 0
	switch strings.ToUpper(args[0]) {
	case "KEYS":
		return keyp.kind == '*' && keyp.unordered(1) == redis.unordered(1)
	case "TTL":
		return closeBy && within(k, other, 1+apart/1000)
	case "PTTL":
		return closeBy && within(k, other, apart)
	case "EXPIRETIME":
		return !r.absolute && closeBy && within(k, other, 1+apart/1000)
	case "PEXPIRETIME":
		return !r.absolute && closeBy && within(k, other, apart)
	case "OBJECT": // IDLETIME in seconds
		return integer && bothIntegers && within(k, other, 1+apart/1000)
	case "RANDOMKEY":
		return r.isKey(p.keyp, keyp) && r.isKey(p.redis, redis)
	}
	return false
}

func within(a, b, most int64) bool { return a-b <= most && b-a <= most }

// isKey says whether a reply is the name of a key.
func (r *diffRun) isKey(c *wire, name reply) bool {
	r.t.Helper()
	exists, err := c.do("EXISTS", name.text)
	if err != nil {
		r.t.Fatalf("EXISTS: %v", err)
	}
	n, ok := exists.number()
	return ok && n == 1 && !name.null
}

// compareAll compares everything that is there: names, values, encodings, deadlines.
func (r *diffRun) compareAll() {
	r.t.Helper()
	p := r.conns[1]
	for db := range 16 {
		r.agree(p, "SELECT", strconv.Itoa(db))
		keys := r.agree(p, "KEYS", "*")
		for _, key := range keys.texts() {
			r.agree(p, "GET", key)
			r.agree(p, "PEXPIRETIME", key)
			r.agree(p, "OBJECT", "ENCODING", key)
		}
		r.dropExpired(p)
		r.agree(p, "DBSIZE")
	}
}

func (r *diffRun) agree(p pair, args ...string) reply {
	r.t.Helper()
	keyp, redis := r.both(p, args...)
	if !r.same(p, args, keyp, redis) && knownDifference(args, keyp, redis) == "" {
		r.t.Fatalf("at the end: %q\nkeyp  %s\nredis %s", args, brief(keyp.raw), brief(redis.raw))
	}
	return redis
}

// brief is a text for a message.
func brief(text string) string {
	if len(text) > 300 {
		return strconv.Quote(text[:300]) + "… (" + strconv.Itoa(len(text)) + " bytes)"
	}
	return strconv.Quote(text)
}

// difference is an intended one: Keyp follows a later Redis, or has a reason.
type difference struct {
	reason  string
	applies func(name string, args []string, keyp, redis reply) bool
}

var known = []difference{
	{
		reason: "a number that INCRBYFLOAT leaves is kept as an integer at once, not only after the next restart",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return name == "OBJECT" && keyp.text == "int" && redis.text == "embstr"
		},
	},
	{
		reason: "an empty cursor is none: so says Redis from 7.4 on",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return name == "SCAN" && len(args) > 1 && args[1] == "" && keyp.text == "ERR invalid cursor"
		},
	},
}

// knownDifference gives the reason why these replies may differ; "" when they may not.
func knownDifference(args []string, keyp, redis reply) string {
	if keyp.raw == redis.raw {
		return ""
	}
	for _, d := range known {
		if d.applies(strings.ToUpper(args[0]), args, keyp, redis) {
			return d.reason
		}
	}
	return ""
}
