package commands

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/testkit"
	"keyp/storage/wal"
)

// fuzzed is a server with keys of every type, and a client that sends it any commands.
type fuzzed struct {
	*harness
	maker
	t    *testing.T
	logs bytes.Buffer
	host *fakeHost
	sent []string // for the report
}

// The limits of one command on keys of this size: seconds of processor time, and allocated bytes.
// They allow for the sizes in proto-max-bulk-len and fuzzReply.
const (
	fuzzSeconds = 2
	fuzzBytes   = 48 << 20
	fuzzCalls   = 64 // commands of one run
	fuzzReply   = 1 << 20
)

func newFuzzed(t *testing.T, data []byte) *fuzzed {
	f := &fuzzed{t: t, host: &fakeHost{}}
	// The limits in this configuration stay the same after reopen.
	f.harness = &harness{t: t, dir: testkit.MemoryDir(t), clock: clock.NewFake(epoch), sync: wal.No,
		log: &f.logs, giveUp: true, cfg: config.New()}
	f.open()
	t.Cleanup(f.close)
	f.Dice = testkit.Dice{Data: data}
	f.specs = runnable(f.env.Table)
	f.options = f.env.Config.Match(func(name string) bool { return !keptOptions[name] })
	f.connect()
	for _, line := range strings.Split(strings.TrimSpace(fuzzStore), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			if got := f.all(line); strings.HasPrefix(got, "-") {
				t.Fatalf("%s: %s", line, got)
			}
		}
	}
	f.dumps = map[string]string{
		"serialized-value": f.dump(f.From([]string{"h", "s", "l", "ht", "st", "zt", "z", "ints"})),
	}
	f.clock.Advance(200 * time.Millisecond) // what is due is due
	return f
}

// fuzzStore creates the keys that the calls use.
const fuzzStore = `
	CONFIG SET proto-max-bulk-len 1mb hash-max-listpack-entries 4 set-max-listpack-entries 4 set-max-intset-entries 6 zset-max-listpack-entries 4 list-max-listpack-size 4
	SET s "hello world"
	SET n 10
	SET f 3.5
	SET soon v PX 5000
	PFADD hll a b c
	PFADD hlld a b c
	PFDEBUG TODENSE hlld
	SET due v PX 100
	SET w_1 3
	SET w_2 1
	HSET h a 1 b 2 n 10
	HSET hl a 1 b 2 c 3 d 4 e 5 f hello
	HSET ht a 1 b 2 c 3
	HPEXPIRE ht 100 FIELDS 1 a
	HPEXPIRE ht 5000 FIELDS 1 b
	SADD set a b c
	SADD st a b 1
	EXPIREMEMBER st a 1
	SADD ints 1 2 3
	ZADD z 1 a 2 b 2 c
	ZADD zl 0 a 0 b 0 c 0 d 0 e
	ZADD zt 1 a 2 b
	EXPIREMEMBER zt a 1
	XADD x 1-1 a 1
	XADD x 1-2 a 2 b 3
	XADD x 2-0 c 4
	XGROUP CREATE x g 0
	XGROUP CREATE x h 1-1
	XREADGROUP GROUP g c COUNT 2 STREAMS x >
	XADD x IDMP p 1 * a 1
	XGROUP CREATE xe g $ MKSTREAM
	RPUSH l 1 2 3
	RPUSH ll a b c 1 2 hello 3 a b
	SCRIPT LOAD "return 1"
	FUNCTION LOAD "#!lua name=lib\nredis.register_function('f',function(k,a) return a end)"
`

// connect replaces all clients by new ones: the client that sends the commands, and a second one.
func (f *fuzzed) connect() {
	for _, c := range f.env.Clients {
		f.env.Gone(c)
	}
	f.env.Host = f.host
	// Earlier commands may have changed the users.
	f.env.users.replace(map[string]*permissions{defaultUser: f.env.plainDefault()})
	f.client = &Client{
		ID: 1, Conn: &fakeConn{}, Addr: "127.0.0.1:1001", LAddr: "127.0.0.1:6379",
		user: identity{f.env.users.byDefault}, Proto: 2 + f.N(2),
		Authenticated: true,
	}
	f.ctx.Client, f.ctx.Out.Max = f.client, fuzzReply
	f.env.MaxReply.Store(fuzzReply)
	f.env.Clients[1] = f.client
	f.env.Clients[2] = &Client{
		ID: 2, Conn: &fakeConn{}, Addr: "127.0.0.1:1002", LAddr: "127.0.0.1:6379",
		user: identity{f.env.users.byDefault}, Proto: 3, Authenticated: true,
	}
}

// step performs one random action of a client, the clock or a restart.
func (f *fuzzed) step() {
	switch f.N(16) {
	case 0:
		f.clock.Advance(time.Duration(1+f.N(6000)) * time.Millisecond)
	case 1, 2:
		f.transaction()
	case 3, 4:
		f.send(append([]string{"EVAL", "return redis." + f.From([]string{"pcall", "call"}) +
			"(unpack(ARGV))", "0"}, f.call()...))
	case 5:
		if f.One(4) {
			f.save = f.One(2)
			f.reopen()
			f.connect()
		}
	default:
		f.send(f.call())
	}
	if conn := f.client.Conn.(*fakeConn); conn.killed || f.client.Closing || f.One(24) {
		f.connect()
	}
}

func (f *fuzzed) transaction() {
	f.send([]string{"MULTI"})
	for range f.N(5) {
		f.send(f.call())
	}
	f.send([]string{f.From([]string{"EXEC", "EXEC", "EXEC", "DISCARD"})})
}

// send runs one command, and checks what holds for every command.
func (f *fuzzed) send(args []string) {
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = []byte(arg)
	}
	f.sent = append(f.sent, fmt.Sprintf("%.300q", args))
	before, proto := used(), f.client.Proto
	f.ctx.Spec = nil
	reply := bytes.Clone(f.raw(list...))
	f.env.Observe(&f.ctx, 0, time.Millisecond)
	f.ctx.RunEmitted()
	after := used()
	f.checkArguments(args, list)
	if took := after.cpu - before.cpu; took > fuzzSeconds*time.Second {
		f.fail("takes %v of processor time", took)
	}
	if took := after.heap - before.heap; took > fuzzBytes {
		f.fail("allocates %d MB", took>>20)
	}
	if f.client.Proto != proto || f.hello() {
		proto = 0
	}
	f.checkReplies(reply, proto)
	for _, c := range f.env.Clients {
		f.checkPushed(c)
	}
	if f.env.Stats.Panics.Load() > 0 || bytes.Contains(reply, []byte(ErrInternal)) ||
		bytes.Contains(reply, []byte(ErrUnread)) {
		f.fail("fails within: %s", f.logs.String())
	}
}

// checkArguments: a command does not write to its arguments, which may be a script's strings. It
// does not keep them either: checkArguments overwrites them, and the store's check would notice a
// change.
func (f *fuzzed) checkArguments(args []string, list [][]byte) {
	for i, arg := range list {
		if string(arg) != args[i] {
			f.fail("argument %d has become %.300q", i, arg)
		}
		for at := range arg {
			arg[at] = '#'
		}
	}
}

// hello reports whether one of the latest commands may have changed the protocol in the middle of
// the reply.
func (f *fuzzed) hello() bool {
	for _, line := range f.sent[max(0, len(f.sent)-6):] {
		if line = strings.ToLower(line); strings.Contains(line, `"hello"`) ||
			strings.Contains(line, `"reset"`) {
			return true
		}
	}
	return false
}

// checkReplies: the command has exactly one complete and valid reply, unless its declaration allows
// others.
func (f *fuzzed) checkReplies(reply []byte, proto int) {
	least, most := 1, 1
	switch spec := f.ctx.Spec; {
	case spec == nil:
	case spec.Is(Pushes):
		most = 1 << 20 // each channel is confirmed
	case spec.full == "client|reply", spec.full == "shutdown", spec.full == "monitor":
		// CLIENT REPLY, SHUTDOWN and MONITOR may have no reply, as in Redis.
		least = 0
	case spec.Is(execs) && f.inTransaction("subscribe", "client|reply", "client\" \"reply"):
		return // their replies are not one each, as with Redis
	}
	if f.ctx.Out.Full {
		return // it would have been longer than it may be
	}
	n := 0
	for rest := reply; len(rest) > 0; n++ {
		var err error
		if rest, err = testkit.Reply(rest, proto); err != nil {
			f.fail("replies what is no reply: %v", err)
		}
	}
	if n < least || n > most {
		f.fail("gives %d replies: %.2000q", n, reply)
	}
}

// inTransaction reports whether one of the latest commands contains one of the texts.
func (f *fuzzed) inTransaction(texts ...string) bool {
	latest := strings.ToLower(strings.Join(f.sent[max(0, len(f.sent)-12):], "\n"))
	return slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(latest, text)
	})
}

// checkPushed: each further message to a client is exactly one complete reply.
func (f *fuzzed) checkPushed(c *Client) {
	conn := c.Conn.(*fakeConn)
	for _, message := range conn.pushed {
		if rest, err := testkit.Reply([]byte(message), 0); err != nil || len(rest) > 0 {
			f.fail("pushes %q: %v", message, err)
		}
	}
	conn.pushed = nil
}

func (f *fuzzed) fail(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("%s\nafter\n\t%s", fmt.Sprintf(format, args...), strings.Join(f.sent, "\n\t"))
}

// usage is the amount of processor time and memory that the process has used so far.
type usage struct {
	cpu  time.Duration
	heap uint64 // bytes allocated
}

func used() usage {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // cannot fail for oneself
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return usage{time.Duration(r.Utime.Nano() + r.Stime.Nano()), sample[0].Value.Uint64()}
}

// randomRuns is the number of runs in TestRandomCommands. Each has about 50 commands.
var randomRuns = environment("KEYP_RANDOM_RUNS", 8)

// TestRandomCommands makes the same runs as FuzzCommands from a seed, and many more of them in the
// same time. KEYP_RANDOM_RUNS is their number, and KEYP_RANDOM_SEED is the first seed.
func TestRandomCommands(t *testing.T) {
	first := environment("KEYP_RANDOM_SEED", testkit.Seed(t))
	keepLimits(t)
	for seed := first; seed < first+randomRuns; seed++ {
		t.Run(fmt.Sprintf("KEYP_RANDOM_SEED=%d", seed), func(t *testing.T) {
			data := make([]byte, 700)
			rng := rand.New(rand.NewPCG(seed, 0))
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			runCommands(t, data)
		})
		if t.Failed() {
			return
		}
	}
}

// environment returns a number from the environment, or otherwise.
func environment(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// keepLimits restores the process's limits when the test ends.
func keepLimits(t testing.TB) { t.Cleanup(func() { SetThresholds(config.New()) }) }

func runCommands(t *testing.T, data []byte) {
	run := newFuzzed(t, data)
	for range fuzzCalls {
		if run.Over() {
			break
		}
		run.step()
	}
}

// FuzzCommands sends valid and invalid calls of every command to keys of every type. Each gets
// exactly one complete reply in its protocol. None fails internally, or takes too much time or
// memory. The store is valid afterwards.
func FuzzCommands(f *testing.F) {
	keepLimits(f)
	seeds := rand.NewChaCha8([32]byte{'f', 'u', 'z', 'z'})
	for range 4 {
		data := make([]byte, 400)
		_, _ = seeds.Read(data)
		f.Add(data)
	}
	f.Fuzz(runCommands)
}
