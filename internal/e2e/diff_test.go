package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// The differential test: generated commands go to Keyp and to redis-server in lockstep, over RESP2
// and RESP3 connections that share the data. Every reply is compared byte for byte. Results that
// depend on time or chance are compared within bounds. Intended differences are listed in known. A
// failing case is shortened before it is shown.
//
//	KEYP_DIFF_CASES   number of cases of the test in memory; other tests run a part of that number
//	KEYP_DIFF_SEED    the seed of the first case, to repeat one

const (
	diffSteps = 60
	// apart is the largest delay between the two servers' starts of a deadline, in ms. It is longer
	// than the time between two commands on a busy machine, and shorter than the difference between
	// any two deadlines of a case.
	apart = 15_000
	// margin is the time after a deadline, in ms, before both servers are asked again. Redis keeps
	// a key through the whole millisecond of its deadline.
	margin = 3
	// loseEvery is the number of steps between losses of memory.
	loseEvery = 15
	// bulkLimit is the value of proto-max-bulk-len, the lowest that Redis accepts.
	bulkLimit = 1 << 20
)

// diffCases returns the value of KEYP_DIFF_CASES.
func diffCases(t *testing.T) uint64 {
	t.Helper()
	if testkit.Long() {
		return testkit.Number(t, "KEYP_DIFF_CASES", 120)
	}
	return testkit.Number(t, "KEYP_DIFF_CASES", 40)
}

// diffCase is a sequence of commands for two empty servers.
type diffCase struct {
	absolute bool
	steps    []step
}

func drawCase(seed uint64, few bool, pool []generator) diffCase {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 0)), few: few, pool: pool}
	g.absolute = g.chance(50)
	c := diffCase{absolute: g.absolute}
	for range diffSteps {
		s := step{conn: g.IntN(2), args: g.command()}
		s.wait, g.wait = g.wait, false
		c.steps = append(c.steps, s)
	}
	return c
}

func TestDiffCommands(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...), keypServer: testkit.Keyp(t, bulkFlag...)}
	s.runCases(t, diffCases(t), nil)
}

// forgetful returns both servers. Its Keyp has so little memory that keys leave it as soon as they
// can.
func forgetful(t *testing.T) *both {
	t.Helper()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...),
		keypServer: testkit.Keyp(t, append(bulkFlag, "--maxmemory", "1")...)}
	s.keyp, s.redis = s.dial(t)
	return s
}

// unload waits until all keys have left the memory of a forgetful Keyp.
func (s *both) unload(t *testing.T) {
	t.Helper()
	s.mustDo(t, s.keyp, "SAVE")
	await.Until(t, "all keys leave memory", func() bool {
		return strings.Contains(s.mustDo(t, s.keyp, "INFO", "memory").text, "\nresident_keys:0\r\n")
	})
}

// onlyLong skips a test, except in long runs. The test repeats another one with keys from disk, as
// TestDiffCommandsFromDisk does for single commands.
func onlyLong(t *testing.T) {
	t.Helper()
	if !testkit.Long() {
		t.Skip("it repeats another test with keys from disk: make check runs it")
	}
}

// TestDiffCommandsFromDisk: without memory for values, keys leave memory again and again and are
// read from disk. All replies are the same.
func TestDiffCommandsFromDisk(t *testing.T) {
	t.Parallel()
	s := forgetful(t)
	s.runCases(t, diffShare(t, 15), func(r *diffRun) error {
		s.unload(t)
		r.history = append(r.history, "all keys leave keyp's memory")
		return nil
	})
}

// TestDiffCommandsOverRestarts is the same test while Keyp is killed and started again between
// commands.
func TestDiffCommandsOverRestarts(t *testing.T) {
	t.Parallel()
	s := &both{redisServer: testkit.Redis(t, bulkFlag...)}
	s.keypServer = testkit.Keyp(t, append(bulkFlag, "--wal-segment-size", "1mb")...)
	s.runCases(t, diffShare(t, 4), func(r *diffRun) error { return r.restartWithLimits(s) })
}

var bulkFlag = []string{"--proto-max-bulk-len", strconv.Itoa(bulkLimit)}

// runCases runs generated cases. If between is not nil, it is called every few steps, and makes
// Keyp lose what it has in memory.
func (s *both) runCases(t *testing.T, cases uint64, between func(*diffRun) error) {
	t.Helper()
	s.run(t, cases, false, between)
}

// run is like runCases. If few is true, all types are used on few keys.
func (s *both) run(t *testing.T, cases uint64, few bool, between func(*diffRun) error) {
	t.Helper()
	s.runDrawn(t, cases, func(seed uint64) diffCase { return drawCase(seed, few, nil) }, between)
}

// runOf is like runCases, but uses only the given generators.
func (s *both) runOf(t *testing.T, cases uint64, pool []generator, between func(*diffRun) error) {
	t.Helper()
	s.runDrawn(t, cases, func(seed uint64) diffCase { return drawCase(seed, false, pool) }, between)
}

func (s *both) runDrawn(t *testing.T, cases uint64, draw func(seed uint64) diffCase,
	between func(*diffRun) error) {
	t.Helper()
	run := func(c diffCase) ([]string, error) {
		return inTime(func(slack int) ([]string, error) {
			return s.runCase(c, int64(slack), between)
		})
	}
	diffSeeds(t, cases, func(seed uint64) (history []string, err error) {
		c := draw(seed)
		if _, err := run(c); err != nil {
			_, history, err = shorten(c, err, run)
			return history, err
		}
		return nil, nil
	})
}

// diffShare returns the number of cases to run divided by parts, but at least 1.
func diffShare(t *testing.T, parts uint64) uint64 {
	t.Helper()
	return max(1, uint64(often(int(diffCases(t)/parts))))
}

// diffSeeds runs cases by their seeds. If a case fails, run returns its history.
func diffSeeds(t *testing.T, cases uint64, run func(seed uint64) (history []string, err error)) {
	t.Helper()
	first := testkit.Number(t, "KEYP_DIFF_SEED", testkit.Seed(t))
	for i := range cases {
		if history, err := run(first + i); err != nil {
			t.Fatalf("KEYP_DIFF_SEED=%d:\n%s\n%v", first+i, strings.Join(history, "\n"), err)
		}
	}
}

// errLate means that a key's deadline came too early: before both servers had received the command
// that sets or reads the key. Their replies may then differ.
var errLate = errors.New("the machine is too slow for a deadline of the case")

// inTime runs a case. While the machine is too slow for the case, it runs the case again with a
// larger slack, the factor of short deadlines.
func inTime(run func(slack int) ([]string, error)) (history []string, err error) {
	for slack := 1; slack <= 1024; slack *= 4 {
		if history, err = run(slack); !errors.Is(err, errLate) {
			break
		}
	}
	return history, err
}

// seeded returns the generator of a case.
func seeded(seed uint64) *gen { return &gen{Rand: rand.New(rand.NewPCG(seed, 0))} }

// shorten removes the steps from a failing case that are not needed for the failure. It returns the
// history and error of the shorter case.
func shorten(c diffCase, err error,
	run func(diffCase) ([]string, error)) (diffCase, []string, error) {
	end := time.Now().Add(30 * time.Second)
	var history []string
	for size := len(c.steps); size >= 1; size /= 2 {
		for at := 0; at < len(c.steps) && time.Now().Before(end); {
			shorter := diffCase{c.absolute,
				slices.Concat(c.steps[:at], c.steps[min(at+size, len(c.steps)):])}
			if steps, failure := run(shorter); failure != nil {
				c, history, err = shorter, steps, failure
			} else {
				at += size
			}
		}
	}
	return c, history, err
}

// pair has a connection to each server.
type pair struct{ keyp, redis *wire }

func (p *pair) sides() [2]*wire { return [2]*wire{p.keyp, p.redis} }

// diffRun is one running case, with a RESP2 and a RESP3 connection to each server.
type diffRun struct {
	absolute bool
	slack    int64
	reloaded bool // Keyp may have lost what it keeps only in memory
	conns    [2]pair
	history  []string
	ears     *ears // nil: events are not compared
}

// runCase returns the commands and replies of a case, and an error if the servers differ.
func (s *both) runCase(c diffCase, slack int64,
	between func(*diffRun) error) (history []string, err error) {
	r := &diffRun{absolute: c.absolute, slack: slack, reloaded: between != nil}
	defer r.close()
	if err := r.open(s); err != nil {
		return nil, err
	}
	for _, clean := range [][]string{{"FLUSHALL"}, usualLimits} {
		keyp, redis, err := r.conns[1].ask(clean...)
		if err != nil || keyp.text != "OK" || redis.text != "OK" {
			return nil, fmt.Errorf("%s: %s, %s, %w", clean[0], keyp.text, redis.text, err)
		}
	}
	if s.listens {
		if err := r.listen(); err != nil {
			return nil, err
		}
		defer r.ears.close()
	}
	for i, step := range c.steps {
		if between != nil && i%loseEvery == loseEvery-1 {
			if err := between(r); err != nil {
				return r.history, err
			}
		}
		if err := r.step(i, step); err != nil {
			return r.history, err
		}
	}
	if err := r.compareAll(); err != nil || r.ears == nil {
		return r.history, err
	}
	return r.history, r.compareExpired()
}

// restart kills and starts Keyp, and connects to both servers again.
func (r *diffRun) restart(s *both) error {
	r.close()
	s.keypServer.Kill()
	s.keypServer.Start()
	r.history = append(r.history, "keyp is killed and started")
	return r.open(s)
}

// open connects to both servers.
func (r *diffRun) open(s *both) error {
	for i := range r.conns {
		for side, server := range map[**wire]string{&r.conns[i].keyp: s.keypServer.Addr(),
			&r.conns[i].redis: s.redisServer.Addr()} {
			conn, err := dialWire(server)
			if err != nil {
				return err
			}
			*side = conn
		}
	}
	for _, c := range []*wire{r.conns[1].keyp, r.conns[1].redis} {
		if hello, err := c.do("HELLO", "3"); err != nil || hello.kind != '%' {
			return fmt.Errorf("HELLO 3: %s, %w", brief(hello.raw), err)
		}
	}
	return nil
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

// ask sends a command to both servers, then reads both replies.
func (p pair) ask(args ...string) (keyp, redis reply, err error) {
	raw := encode(args...)
	if err := errors.Join(p.keyp.send(raw), p.redis.send(raw)); err != nil {
		return keyp, redis, fmt.Errorf("%q: send: %w", args, err)
	}
	if keyp, err = p.keyp.receive(); err != nil {
		return keyp, redis, fmt.Errorf("%q: keyp: %w", args, err)
	}
	if redis, err = p.redis.receive(); err != nil {
		return keyp, redis, fmt.Errorf("%q: redis: %w", args, err)
	}
	return keyp, redis, nil
}

func (r *diffRun) step(index int, s step) error {
	p := r.conns[s.conn]
	now := time.Now()
	args := s.resolve(index, now, r.slack)
	switch strings.ToUpper(args[0]) {
	case "DBSIZE", "SORT", "SORT_RO":
		// SORT in 7.0.15 fails for a number that a SCAN before it could not read.
		if err := p.dropExpired(); err != nil {
			return err
		}
	}
	keyp, redis, err := p.ask(args...)
	if err != nil {
		return err
	}
	if !keyp.isError() && !redis.isError() {
		for _, command := range consumersOf(args) {
			if _, _, err := p.ask(command...); err != nil {
				return err
			}
		}
	}
	if r.ears != nil && s.soon() && time.Since(now) >= time.Duration(r.slack)*time.Millisecond {
		return errLate // of a deadline that has passed other events come
	}
	if s.wait {
		await.Pass(time.Duration(near*r.slack+margin) * time.Millisecond)
	}
	if r.ears != nil { // a command that replaces a key that is due would take its expiry away
		if err := p.dropExpired(); err != nil {
			return err
		}
	}
	if w, ok := walks[strings.ToUpper(args[0])]; ok && !keyp.isError() && !redis.isError() {
		if keyp, err = w.finish(p.keyp, args, keyp); err != nil {
			return err
		}
		if redis, err = w.finish(p.redis, args, redis); err != nil {
			return err
		}
	}
	r.history = append(r.history, fmt.Sprintf("%d RESP%d %q: %s", index, s.conn+2, args,
		brief(redis.raw)))
	if r.ears == nil {
		return r.compare(p, args, keyp, redis)
	}
	if knownDifference(args, keyp, redis) == "" {
		if err := r.compareEvents(args); err != nil {
			return err
		}
	}
	if err := r.compare(p, args, keyp, redis); err != nil {
		return err
	}
	return r.ears.forget(r)
}

// dropExpired makes Redis remove its expired keys, which DBSIZE would count. It waits until Keyp
// has removed its own, which takes a while on a busy machine.
func (p pair) dropExpired() error {
	if _, err := p.redis.do("SCAN", "0", "COUNT", "100000"); err != nil {
		return err
	}
	var failed error
	await.Reached(func() bool {
		keys, err := p.keyp.do("KEYS", "*")
		size, err2 := p.keyp.do("DBSIZE")
		n, _ := size.number()
		failed = errors.Join(err, err2)
		return failed != nil || int(n) == len(keys.items)
	})
	return failed
}

// walk is a command that visits all elements in steps. cursor is the index of its cursor argument,
// and size the number of items of a reply that belong together.
type walk struct{ cursor, size int }

var walks = map[string]walk{"SCAN": {1, 1}, "HSCAN": {2, 2}, "SSCAN": {2, 1}, "ZSCAN": {2, 2}}

// finish continues a walk to its end. It returns all that the walk visits as one reply, each item
// once and in arbitrary order.
func (w walk) finish(c *wire, args []string, page reply) (reply, error) {
	all := map[string][]reply{}
	next := slices.Clone(args)
	for round := 0; ; round++ {
		if len(page.items) != 2 || len(page.items[1].items)%w.size != 0 || round > 10_000 {
			return reply{}, fmt.Errorf("%q: round %d: %s", next, round, brief(page.raw))
		}
		for item := range slices.Chunk(page.items[1].items, w.size) {
			all[item[0].text] = item
		}
		if next[w.cursor] = page.items[0].text; next[w.cursor] == "0" {
			break
		}
		var err error
		if page, err = c.do(next...); err != nil {
			return reply{}, err
		}
	}
	whole := reply{kind: '*'}
	for _, item := range all {
		whole.items = append(whole.items, item...)
	}
	whole.raw = whole.unordered(w.size)
	return whole, nil
}

// compare returns an error if the replies to a command differ where they must not.
func (r *diffRun) compare(p pair, args []string, keyp, redis reply) error {
	if keyp.raw == redis.raw || knownDifference(args, keyp, redis) != "" {
		return nil
	}
	alike, err := r.alike(p, args, keyp, redis)
	if err == nil && !alike {
		err = fmt.Errorf("%q\nkeyp  %s\nredis %s", args, brief(keyp.raw), brief(redis.raw))
	}
	return err
}

// alike compares replies that depend on time or chance.
func (r *diffRun) alike(p pair, args []string, keyp, redis reply) (bool, error) {
	k, integer := keyp.number()
	other, bothIntegers := redis.number()
	integer = integer && bothIntegers
	positive := integer && k > 0 && other > 0
	switch strings.ToUpper(args[0]) {
	case "KEYS":
		return keyp.kind == '*' && keyp.unordered(1) == redis.unordered(1), nil
	case "TTL":
		return positive && within(k, other, 1+apart/1000), nil
	case "PTTL":
		return positive && within(k, other, apart), nil
	case "EXPIRETIME":
		return !r.absolute && positive && within(k, other, 1+apart/1000), nil
	case "PEXPIRETIME":
		return !r.absolute && positive && within(k, other, apart), nil
	case "HGETALL", "HKEYS", "HVALS", "HRANDFIELD":
		return r.alikeHash(p, args, keyp, redis)
	case "SMEMBERS", "SINTER", "SUNION", "SDIFF", "SPOP", "SRANDMEMBER":
		return r.alikeSet(p, args, keyp, redis)
	case "SORT", "SORT_RO":
		return alikeSort(args, keyp, redis), nil
	case "DUMP":
		return p.alikeDump(keyp, redis)
	case "ZADD", "ZINCRBY", "ZSCORE", "ZMSCORE", "ZRANGE", "ZREVRANGE", "ZRANGEBYSCORE",
		"ZREVRANGEBYSCORE", "ZPOPMIN", "ZPOPMAX",
		"ZMPOP", "ZUNION", "ZINTER", "ZDIFF", "ZSCAN", "ZRANDMEMBER":
		return p.alikeZSet(args, keyp, redis)
	case "XPENDING", "XINFO":
		return alikeStream(args, keyp, redis), nil
	case "OBJECT":
		if redis.text == "hashtable" || redis.text == "skiplist" {
			return r.reloaded && keyp.text == "listpack", nil // as with Redis after a restart
		}
		if redis.text == "raw" {
			// As with Redis after a restart.
			return r.reloaded && (keyp.text == "embstr" || keyp.text == "int"), nil
		}
		if r.reloaded && (keyp.text == "skiplist" || keyp.text == "hashtable" ||
			keyp.text == "listpack") && (redis.text == "listpack" || redis.text == "intset") {
			// Keyp uses the limits that apply when it reads the value.
			return p.outgrown(args[2])
		}
		// IDLETIME in seconds; in Redis small integers share a value, idle since the start.
		return integer && k >= 0 && k <= other+1+apart/1000, nil
	case "RANDOMKEY":
		return p.areKeys(keyp, redis)
	}
	return false, nil
}

// outgrown returns true if a value exceeds the limits of small values. The limits may be lower than
// when the value was made.
func (p pair) outgrown(key string) (bool, error) {
	kind, err := p.redis.do("TYPE", key)
	if err != nil {
		return false, err
	}
	read, each, prefix := []string{"HGETALL", key}, 2, "hash-max-listpack-"
	switch kind.text {
	case "zset":
		read, each, prefix = []string{"ZRANGE", key, "0", "-1"}, 1, "zset-max-listpack-"
	case "set":
		read, each, prefix = []string{"SMEMBERS", key}, 1, "set-max-intset-"
	}
	value, err := p.redis.do(read...)
	if err != nil {
		return false, err
	}
	limits, err := p.redis.do("CONFIG", "GET", prefix+"*")
	if err != nil {
		return false, err
	}
	for option := range slices.Chunk(limits.texts(), 2) {
		most, err := strconv.Atoi(option[1])
		if err != nil {
			return false, err
		}
		if strings.HasSuffix(option[0], "-entries") {
			if len(value.items)/each > most {
				return true, nil
			}
		} else if slices.ContainsFunc(value.texts(), func(text string) bool {
			return len(text) > most
		}) {
			return true, nil
		}
	}
	return false, nil
}

func within(a, b, most int64) bool { return a-b <= most && b-a <= most }

// areKeys returns true if both replies are names of existing keys.
func (p pair) areKeys(keyp, redis reply) (bool, error) {
	if keyp.null || redis.null {
		return false, nil
	}
	for _, key := range []string{keyp.text, redis.text} { // one at a time: they may be of two slots
		ours, theirs, err := p.ask("EXISTS", key)
		if err != nil || ours.raw != ":1\r\n" || theirs.raw != ours.raw {
			return false, err
		}
	}
	return true, nil
}

// compareAll compares all data: names, values, encodings and deadlines.
func (r *diffRun) compareAll() error {
	p := r.conns[1]
	for db := range 16 {
		if _, err := r.agree(p, "SELECT", strconv.Itoa(db)); err != nil {
			return err
		}
		keys, err := r.agree(p, "KEYS", "*")
		if err != nil {
			return err
		}
		for _, key := range keys.texts() {
			for _, value := range wholeValues {
				if _, err := r.agree(p, value(key)...); err != nil {
					return err
				}
			}
			for _, command := range [][]string{{"TYPE"}, {"PEXPIRETIME"}, {"OBJECT", "ENCODING"}} {
				if _, err := r.agree(p, append(command, key)...); err != nil {
					return err
				}
			}
		}
		if err := p.dropExpired(); err != nil {
			return err
		}
		if _, err := r.agree(p, "DBSIZE"); err != nil {
			return err
		}
	}
	return nil
}

// agree sends a command to both servers. It returns the reply of Redis, and an error if the replies
// differ.
func (r *diffRun) agree(p pair, args ...string) (reply, error) {
	keyp, redis, err := p.ask(args...)
	if err == nil {
		err = r.compare(p, args, keyp, redis)
	}
	if err != nil {
		return redis, fmt.Errorf("at the end: %w", err)
	}
	return redis, nil
}

// brief shortens a text for a message.
func brief(text string) string {
	if len(text) > 300 {
		return strconv.Quote(text[:300]) + "… (" + strconv.Itoa(len(text)) + " bytes)"
	}
	return strconv.Quote(text)
}

// difference is an intended difference: Keyp follows a later version of Redis, or has another
// reason.
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
		reason: "a small list is a listpack from 7.2 on",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return name == "OBJECT" && keyp.text == "listpack" && redis.text == "quicklist"
		},
	},
	{
		reason: "a SORT leaves a sorted set as it is, where Redis makes a large one of it",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return name == "OBJECT" && args[len(args)-1] == "nz" && keyp.text == "listpack" &&
				redis.text == "skiplist"
		},
	},
	{
		reason: "a small set is a listpack from 7.2 on, and what is left of a large one may become small again",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return name == "OBJECT" && (keyp.text == "listpack" || keyp.text == "intset") &&
				redis.text == "hashtable"
		},
	},
	{
		reason: "TTL, PTTL and PERSIST take a member, as with KeyDB",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return (name == "TTL" || name == "PTTL" || name == "PERSIST") && len(args) == 3 &&
				strings.Contains(redis.text, "wrong number")
		},
	},
	{
		reason: "ZRANK and ZREVRANK take WITHSCORE from 7.2 on",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return (name == "ZRANK" || name == "ZREVRANK") && len(args) == 4 &&
				keyp.text == "ERR syntax error"
		},
	},
	{
		reason: "an empty cursor is none: so says Redis from 7.4 on",
		applies: func(name string, args []string, keyp, redis reply) bool {
			w, ok := walks[name]
			return ok && len(args) > w.cursor && args[w.cursor] == "" &&
				keyp.text == "ERR invalid cursor"
		},
	},
	{
		reason: "XREAD takes the ID + from 7.4 on",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return strings.HasPrefix(name, "XREAD") &&
				(slices.Contains(args, "+") || strings.HasPrefix(redis.text,
					"ERR Unbalanced") && strings.HasPrefix(keyp.text, "ERR Unbalanced"))
		},
	},
	{
		reason: "GETRANGE with an end before the string's first byte is empty from 8.0 on",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return (name == "GETRANGE" || name == "SUBSTR") && keyp.kind == '$' && !keyp.null &&
				keyp.text == "" && len(redis.text) == 1
		},
	},
	{
		reason: "coordinates have the shortest form from 8.0 on",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return strings.HasPrefix(name, "GEO") && sameNumbers(keyp, redis)
		},
	},
	{
		reason: "newer versions look at the range of bits before they look whether the key exists",
		applies: func(name string, args []string, keyp, redis reply) bool {
			return (name == "BITCOUNT" || name == "BITPOS") && keyp.kind == '-' &&
				(redis.raw == ":0\r\n" || redis.raw == ":-1\r\n" ||
					redis.text == "WRONGTYPE Operation against a key holding the wrong kind of value")
		},
	},
}

// knownDifference returns the reason why these replies may differ, or "" if they must not.
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
