package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// The differential test of blocking commands: on both servers several connections wait while others
// push. After each step the same connections wait on both servers, and all others have got the same
// replies.
//
// Redis 7.0.15 serves a waiter from the key that changed. In Redis 7.2 and later, and in Keyp, the
// waiter's command runs again from its first key. To avoid the difference, a command that names
// several keys names only keys that never hold another type, and no step fills two keys. One case
// is left: a served command that moves an element (BLMOVE) may fill a second key. A client that
// waits for both keys then gets different replies, and the data differ. The test detects that
// (movedBefore) and ends the case.

const (
	blockWaiters = 6 // the last two speak RESP3
	blockSteps   = 80
)

func TestDiffBlocking(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	s.runBlocking(t, popping, nil)
}

// blockKind is a family of blocking commands, with the commands that serve their waiters.
type blockKind struct {
	begin       [][]string // what there is first
	wait        func(g *gen, brief bool) []string
	wake        func(g *gen) []string
	transaction func(g *gen) [][]string
	behind      func(g *gen) []string // a command that follows one that waits
	values      func() [][]string     // what is compared in the end
}

var popping = blockKind{
	wait: func(g *gen, brief bool) []string {
		if brief {
			return drawBlocking(g, g.from("0.001", "0.01", "1e-5"))
		}
		return drawBlocking(g, g.from("0", "100", "1e3"))
	},
	wake:        drawWaking,
	transaction: drawTransaction,
	behind: func(g *gen) []string {
		return []string{g.from("LLEN", "EXISTS", "LPOP"), g.from(blockLists...)}
	},
	values: func() (list [][]string) {
		for _, key := range append(append([]string{"m"}, blockLists...), blockZSets...) {
			list = append(list, []string{"TYPE", key}, []string{"LRANGE", key, "0", "-1"},
				[]string{"ZRANGE", key, "0", "-1", "WITHSCORES"})
		}
		return list
	},
}

// TestDiffBlockingFromDisk is the differential run while keys leave memory as soon as they can.
func TestDiffBlockingFromDisk(t *testing.T) {
	t.Parallel()
	onlyLong(t)
	s := forgetful(t)
	s.runBlocking(t, popping, func() { s.unload(t) })
}

// runBlocking runs cases. If between is not nil, it is called every few steps.
func (s *both) runBlocking(t *testing.T, kind blockKind, between func()) {
	cases := diffShare(t, 6)
	if between != nil {
		cases = max(1, cases/6)
	}
	apart := uint64(0)
	diffSeeds(t, cases, func(seed uint64) ([]string, error) {
		g, r := seeded(seed), newBlockRun(t, s, kind)
		r.fromDisk = between != nil
		defer r.close()
		for step := range blockSteps {
			if between != nil && step%loseEvery == loseEvery-1 {
				between()
			}
			if err := r.step(g); err != nil {
				return r.history, err
			}
			if r.apart {
				apart++
				return nil, nil
			}
		}
		return r.history, r.compareAll()
	})
	t.Logf("%d of %d cases ended where the servers serve from different keys", apart, cases)
	if cases > 3 && apart > cases/2 {
		t.Error("most cases ended early")
	}
}

// blockRun is one running case.
type blockRun struct {
	blockKind
	control pair
	waiters []*blockWaiter
	history []string
	// fromDisk is true if keys may be on disk. A waiter is then served after its key is loaded, and
	// commands that were sent after the waiter's command run in the meantime.
	fromDisk bool
	apart    bool // they have served somebody from different keys, as they may
}

// blockWaiter is a connection that may wait.
type blockWaiter struct {
	pair
	number int
	ids    [2]string // on keyp and on redis
	args   []string  // what it has sent last
	owed   int       // replies to that and to what was sent behind it
	// The replies of this step. got has the replies to args, and is nil while the connection still
	// waits. behind has the replies to the command after args, if they differ.
	got, behind []reply
}

func newBlockRun(t *testing.T, s *both, kind blockKind) *blockRun {
	r := &blockRun{blockKind: kind, control: s.pair}
	for _, c := range s.sides() {
		s.mustDo(t, c, "FLUSHALL")
		for _, args := range kind.begin {
			s.mustDo(t, c, args...)
		}
	}
	for i := range blockWaiters {
		w := &blockWaiter{number: i}
		w.keyp, w.redis = s.dial(t)
		for side, c := range w.sides() {
			w.ids[side] = s.mustDo(t, c, "CLIENT", "ID").text
			if i >= blockWaiters-2 {
				s.mustDo(t, c, "HELLO", "3")
			}
		}
		r.waiters = append(r.waiters, w)
	}
	return r
}

// step makes a connection wait, or changes something.
func (r *blockRun) step(g *gen) error {
	w := r.waiters[g.IntN(len(r.waiters))]
	switch {
	case w.owed > 0 && g.chance(10):
		return r.unblock(w, g.from("", "TIMEOUT", "ERROR"))
	case g.chance(10):
		return r.exec(r.transaction(g))
	case w.owed > 0 || g.chance(40):
		return r.change(r.wake(g))
	case g.chance(8): // nobody else changes anything before the time is up
		return r.await(w, r.wait(g, true), nil, true)
	}
	var behind []string
	if g.chance(25) {
		behind = r.behind(g)
		if r.fromDisk {
			behind = []string{"ECHO", behind[1]}
		}
	}
	return r.await(w, r.wait(g, false), behind, false)
}

// await sends a blocking command, and perhaps another command after it. It waits until both servers
// have replied or the connection waits on them.
func (r *blockRun) await(w *blockWaiter, args, behind []string, brief bool) error {
	r.history = append(r.history, fmt.Sprintf("%d: %q %q", w.number, args, behind))
	raw := encode(args...)
	w.args, w.owed = args, 1
	if behind != nil {
		raw += encode(behind...)
		w.owed = 2
	}
	for side, c := range w.sides() {
		if err := c.send(raw); err != nil {
			return err
		}
		for !brief {
			replied, err := c.ready()
			if err != nil {
				return err
			}
			waits, err := r.waits(w, side)
			if err != nil {
				return err
			}
			if replied || waits {
				break
			}
		}
	}
	if brief {
		w.got, w.behind = nil, nil
		if err := r.receive(w); err != nil {
			return err
		}
		return w.differs()
	}
	return r.settle()
}

// ready returns true if a reply has arrived.
func (w *wire) ready() (bool, error) {
	if err := w.Listen(time.Millisecond); err != nil {
		return false, err
	}
	defer w.Patient()
	_, err := w.in.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// waits returns true if a connection waits on a server.
func (r *blockRun) waits(w *blockWaiter, side int) (bool, error) {
	c := [2]*wire{r.control.keyp, r.control.redis}[side]
	list, err := c.do("CLIENT", "LIST", "ID", w.ids[side])
	_, flags, _ := strings.Cut(list.text, " flags=")
	flags, _, _ = strings.Cut(flags, " ")
	return strings.Contains(flags, "b"), err
}

// change sends a command that may wake a waiter.
func (r *blockRun) change(args []string) error {
	return errors.Join(r.agree(args), r.settle())
}

// exec runs commands as a transaction. Waiters see only its result.
func (r *blockRun) exec(commands [][]string) error {
	for _, args := range slices.Concat([][]string{{"MULTI"}}, commands, [][]string{{"EXEC"}}) {
		if err := r.agree(args); err != nil {
			return err
		}
	}
	return r.settle()
}

// agree sends a command to both servers and compares the replies.
func (r *blockRun) agree(args []string) error {
	keyp, redis, err := r.control.ask(args...)
	r.history = append(r.history, fmt.Sprintf("%q: %s", args, brief(redis.raw)))
	if err != nil {
		return err
	}
	if keyp.raw != redis.raw {
		return fmt.Errorf("%q\nkeyp  %s\nredis %s", args, brief(keyp.raw), brief(redis.raw))
	}
	return nil
}

func (r *blockRun) unblock(w *blockWaiter, how string) error {
	for side, c := range []*wire{r.control.keyp, r.control.redis} {
		args := []string{"CLIENT", "UNBLOCK", w.ids[side]}
		if how != "" {
			args = append(args, how)
		}
		if reply, err := c.do(args...); err != nil || reply.raw != ":1\r\n" {
			return fmt.Errorf("%q: %s, %w", args, brief(reply.raw), err)
		}
	}
	r.history = append(r.history, fmt.Sprintf("%d is unblocked %s", w.number, how))
	return r.settle()
}

// settle finds the connections that still wait. It receives and compares the replies of the others.
// Keyp may have to read keys from disk before it serves a waiter.
func (r *blockRun) settle() (err error) {
	for _, w := range r.waiters {
		w.got, w.behind = nil, nil
	}
	var differ error
	if !await.Reached(func() bool {
		differ, err = r.look()
		return err != nil || differ == nil || r.apart
	}) {
		return differ
	}
	return err
}

// look receives the replies that have arrived. It returns how the servers differ at the moment, as
// they may not have finished the step yet.
func (r *blockRun) look() (differ, err error) {
	for _, w := range r.waiters {
		if w.owed == 0 {
			continue
		}
		var waits [2]bool
		for side := range waits {
			if waits[side], err = r.waits(w, side); err != nil {
				return nil, err
			}
		}
		switch {
		case waits[0] != waits[1]:
			differ = fmt.Errorf("%d waits with keyp: %v, with redis: %v", w.number,
				waits[0], waits[1])
		case !waits[0]:
			if err := r.receive(w); err != nil {
				return nil, err
			}
		}
	}
	if r.apart = slices.ContainsFunc(r.waiters, r.movedBefore); r.apart {
		return nil, nil
	}
	if differ == nil {
		for _, w := range r.waiters {
			err = errors.Join(err, w.differs())
		}
	}
	return differ, err
}

// movedBefore returns true if the servers served a waiter for several lists from different lists,
// which is allowed: Redis from the list that has changed, and Keyp from one that the waiter names
// earlier. Another waiter has moved its element to that list in the same step.
func (r *blockRun) movedBefore(w *blockWaiter) bool {
	if w.got == nil {
		return false
	}
	texts := func(side int) []string { // the key, then the elements
		items := w.got[side].items
		if len(items) == 2 && len(items[1].items) > 0 {
			return append([]string{items[0].text}, items[1].texts()...)
		}
		return w.got[side].texts()
	}
	keyp, redis := texts(0), texts(1)
	if len(keyp) != 2 || len(redis) < 2 {
		return false
	}
	ours, theirs := slices.Index(w.args, keyp[0]), slices.Index(w.args, redis[0])
	return ours > 0 && ours < theirs && slices.ContainsFunc(r.waiters, func(m *blockWaiter) bool {
		return m.got != nil && (m.args[0] == "BLMOVE" || m.args[0] == "BRPOPLPUSH") &&
			m.args[2] == keyp[0] &&
			m.got[0].raw == m.got[1].raw && m.got[0].text == keyp[1]
	})
}

// differs returns an error if the replies of the step differ.
func (w *blockWaiter) differs() error {
	for _, got := range [][]reply{w.got, w.behind} {
		if got != nil && got[0].raw != got[1].raw {
			return fmt.Errorf("%d\nkeyp  %s\nredis %s", w.number, brief(got[0].raw),
				brief(got[1].raw))
		}
	}
	return nil
}

// receive receives all pending replies of a connection. It keeps the replies to the blocking
// command, and compares those to the commands after it.
func (r *blockRun) receive(w *blockWaiter) error {
	for first := true; w.owed > 0; w.owed-- {
		var got []reply
		for side, c := range w.sides() {
			reply, err := c.receive()
			if err != nil {
				return fmt.Errorf("%d, %s: %w", w.number, []string{"keyp", "redis"}[side], err)
			}
			got = append(got, reply)
		}
		r.history = append(r.history, fmt.Sprintf("%d gets %s", w.number, brief(got[1].raw)))
		switch {
		case first:
			w.got, first = got, false
		case got[0].raw != got[1].raw:
			w.behind = got
		}
	}
	return nil
}

// compareAll compares the data at the end of a case.
func (r *blockRun) compareAll() error {
	for _, args := range r.values() {
		if err := r.change(args); err != nil {
			return err
		}
	}
	return nil
}

// close closes the connections.
func (r *blockRun) close() {
	for _, w := range r.waiters {
		_, _ = w.keyp.Close(), w.redis.Close() // all that was to be read has been
	}
}

var (
	blockLists = []string{"l0", "l1", "l2", "l3"}
	blockZSets = []string{"z0", "z1", "z2"}
)

// drawBlocking draws a command that waits if it finds no element. Keys for lists hold a list or
// nothing, keys for sorted sets hold a sorted set or nothing, and m holds anything.
func drawBlocking(g *gen, timeout string) []string {
	some := func(names []string) []string {
		if g.chance(25) {
			return []string{"m"}
		}
		list := make([]string, 1+g.IntN(3))
		for i := range list {
			list[i] = g.from(names...)
		}
		return list
	}
	end := func() string { return g.from("LEFT", "RIGHT") }
	numbered := func(name string, keys []string, end string) []string {
		args := append(append([]string{name, timeout, fmt.Sprint(len(keys))}, keys...), end)
		if g.chance(50) {
			args = append(args, "COUNT", g.between(1, 3))
		}
		return args
	}
	source := g.from(g.from(blockLists...), g.from(blockLists...), "m")
	destination := g.from(g.from(blockLists...), g.from(blockLists...), "m")
	switch g.IntN(8) {
	case 0, 1:
		return append(append([]string{g.from("BLPOP", "BRPOP")}, some(blockLists)...), timeout)
	case 2:
		return append(append([]string{g.from("BZPOPMIN", "BZPOPMAX")}, some(blockZSets)...),
			timeout)
	case 3:
		return numbered("BLMPOP", some(blockLists), end())
	case 4:
		return numbered("BZMPOP", some(blockZSets), g.from("MIN", "MAX"))
	case 5:
		return []string{"BRPOPLPUSH", source, destination, timeout}
	default:
		return []string{"BLMOVE", source, destination, end(), end(), timeout}
	}
}

// drawTransaction draws a transaction that fills one key at most. The key may appear, disappear and
// appear again. A blocking command in it does not wait.
func drawTransaction(g *gen) [][]string {
	key := g.from(append([]string{"m", "m"}, blockLists...)...)
	commands := [][]string{}
	for range 1 + g.IntN(5) {
		switch g.IntN(7) {
		case 0, 1, 2:
			commands = append(commands,
				[]string{g.from("LPUSH", "RPUSH"), key, "v" + g.between(0, 99)})
		case 3:
			commands = append(commands, []string{g.from("LPOP", "DEL"), key})
		case 4:
			commands = append(commands, one(g,
				[]string{"BLPOP", key, "0"}, []string{"BLMOVE", key, key, "LEFT", "RIGHT", "0"},
				[]string{"BRPOPLPUSH", key, key, "1"}, []string{"BLMPOP", "0", "1", key, "LEFT"},
				[]string{"BZPOPMIN", "m", "0"}, []string{"BZMPOP", "0", "1", "m", "MAX"}))
		case 5:
			commands = append(commands, []string{"DBSIZE"}) // which needs the whole keyspace
		default:
			if key == "m" {
				commands = append(commands, []string{"DEL", key},
					[]string{"ZADD", key, "1", "a", "2", "b"})
			}
		}
	}
	return commands
}

// drawWaking draws a command that fills one key at most.
func drawWaking(g *gen) []string {
	list, zset := g.from(blockLists...), g.from(blockZSets...)
	values := func() (some []string) {
		for range 1 + g.IntN(3) {
			some = append(some, "v"+g.between(0, 99))
		}
		return some
	}
	scored := func(key string) []string {
		args := []string{"ZADD", key}
		for _, v := range values() {
			args = append(args, g.between(0, 9), v)
		}
		return args
	}
	switch g.IntN(16) {
	case 0, 1, 2, 3:
		return append([]string{g.from("LPUSH", "RPUSH"), list}, values()...)
	case 4, 5:
		return scored(zset)
	case 6:
		return append([]string{g.from("LPUSH", "RPUSH"), "m"}, values()...)
	case 7:
		return scored("m")
	case 8:
		return one(g, []string{"SET", "m", "x"}, []string{"DEL", "m"}, []string{"DEL", "m"},
			[]string{"PEXPIREAT", "m", "1"})
	case 9:
		return []string{g.from("LPOP", "RPOP"), list}
	case 10:
		return []string{g.from("RENAME", "COPY", "RENAMENX", "RPOPLPUSH"), list,
			g.from(blockLists...)}
	case 11:
		return []string{g.from("ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"), zset, "1",
			g.from(blockZSets...)}
	case 12:
		return []string{"SORT", list, "ALPHA", "STORE", g.from(blockLists...)}
	case 13:
		return []string{"ZRANGESTORE", zset, g.from(blockZSets...), "0", g.between(0, 2)}
	case 14:
		return []string{"LTRIM", list, g.between(0, 1), g.between(0, 3)}
	default:
		return []string{"ZPOPMIN", zset}
	}
}
