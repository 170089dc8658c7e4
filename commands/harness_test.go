package commands

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/resp"
	"keyp/storage"
	"keyp/storage/wal"
)

// tb has the methods of *testing.T, *testing.B and *rapid.T that the harness needs.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// epoch is the time at which a harness's clock starts: 2023-11-14 22:13:20, in Unix ms.
const epoch int64 = 1_700_000_000_000

// harness is a server without sockets, with its store in a directory. It has one client, and a
// clock that only tests move.
type harness struct {
	t       tb
	dir     string
	save    bool       // restarts end with a checkpoint; without, the log is replayed
	log     io.Writer  // what the server logs; nil: nowhere
	giveUp  bool       // the time of a command that waits is up at once
	bare    bool       // nothing runs beside the commands: keys stay on disk until they are brought
	fs      vfs.FS     // of the log, if not the system's
	sync    wal.Policy // when its writes are durable
	segment int64      // bytes of the log's segments; 0: 64 KiB
	clock   *clock.Fake
	cfg     *config.Config // nil: the default one
	store   *storage.Store
	env     *Env
	client  *Client
	ctx     Ctx

	ofLoop   *OfLoop   // of the environment
	confined *confined // its handlers

	mu     sync.Mutex // for events: the reaper raises them too
	events []string   // raised since last asked for: "name:key", "name:key@db" outside database 0
}

// newHarness opens a store of its own. The store is checked and closed when the test ends.
func newHarness(t testing.TB) *harness { return configured(t, nil) }

// configured is like newHarness, with this configuration instead of the default one. The harness
// must not restart.
func configured(t testing.TB, cfg *config.Config) *harness {
	t.Helper()
	h := &harness{t: t, dir: testkit.MemoryDir(t), clock: clock.NewFake(epoch), save: true,
		sync: wal.No, cfg: cfg}
	h.open()
	t.Cleanup(func() {
		h.t = t
		h.close()
	})
	return h
}

func (h *harness) open() {
	h.t.Helper()
	cfg := h.cfg
	if cfg == nil {
		cfg = config.New()
	}
	SetThresholds(cfg)
	log := slog.New(slog.NewTextHandler(cmp.Or(h.log, io.Discard), nil))
	store, _, err := storage.Open(storage.Options{
		FS: h.fs, Dir: h.dir, Clock: h.clock, Logger: log,
		Databases: 16, Shards: 4, Sync: h.sync, SegmentSize: cmp.Or(h.segment, 64<<10),
		InitialMmap:  64 << 20,
		NoBackground: h.bare, Hooks: Features,
	})
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	// Without active expiry, keys expire when a command finds them, so the order of the events is
	// fixed. Tests of the reaper turn it on again.
	store.SetActiveExpire(false)
	h.store = store
	h.env = NewEnv(store, cfg, log, h.clock)
	if err := h.env.LoadCluster(); err != nil {
		h.t.Fatalf("%v", err)
	}
	h.ofLoop, h.confined = h.env.OfLoop, confine(h)
	store.Listen(h.hear)
	store.SetEvents(
		storage.EventGeneric | storage.EventString | storage.EventList | storage.EventHash |
			storage.EventSet | storage.EventZSet | storage.EventStream | storage.EventExpired)
	h.client = &Client{ID: 1}
	h.env.Reset(h.client)
	h.ctx = Ctx{Client: h.client, Out: &resp.Writer{Proto: 2}, Txn: store.NewTxn()}
}

func (h *harness) close() {
	h.t.Helper()
	if err := h.store.Check(); err != nil {
		h.t.Errorf("check: %v", err)
	}
	if err := h.store.Close(h.save); err != nil {
		h.t.Errorf("close: %v", err)
	}
}

// reopen restarts the server. The client keeps its address, database and protocol.
func (h *harness) reopen() {
	h.t.Helper()
	db, proto, addr := h.client.DB, h.client.Proto, h.client.Addr
	h.close()
	h.open()
	h.client.DB, h.client.Proto, h.client.Addr = db, proto, addr
}

// digest returns the reply to a DEBUG command about values.
func (h *harness) digest(args ...string) string {
	h.t.Helper()
	h.client.Addr = "127.0.0.1:1" // others may not ask
	text := h.do(append([]string{"DEBUG"}, args...)...)
	if strings.HasPrefix(text, "-") {
		h.t.Fatalf("DEBUG %q: %s", args, text)
	}
	return text
}

func (h *harness) hear(e storage.Happened) {
	text := e.Name + ":" + string(e.Key)
	if e.DB != 0 {
		text += "@" + strconv.Itoa(e.DB)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, text)
}

// heard returns the events since the last call, in order.
func (h *harness) heard() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.events, " ")
	h.events = nil
	return text
}

// raw runs a command as a session would, and returns the bytes of the reply.
func (h *harness) raw(args ...[]byte) []byte {
	h.t.Helper()
	defer func(was *OfLoop) { h.env.OfLoop = was }(h.env.OfLoop)
	h.env.OfLoop = h.ofLoop // which is not there in the middle of a task
	c := &h.ctx
	c.Args, c.Out.Proto = args, h.client.Proto
	c.Out.Truncate(0)
	c.Out.Full = false
	for try := range 6 {
		c.Past = Past{}
		if try == 5 {
			c.Past.Loads = lateLoads
		}
		switch out := h.env.Dispatch(c); out {
		case Done:
			if c.LSN > h.store.Log().End() {
				h.t.Errorf("%q: the reply waits for %d, the log ends at %d", args, c.LSN,
					h.store.Log().End())
			}
			return c.Out.Buf
		case Load:
			loaded := make(chan error, 1)
			h.store.LoadWith(c.Keys, c.Runs, func(err error) { loaded <- err })
			if h.bare {
				h.store.Manual().Serve()
			}
			if err := await.For(h.t, "the load ends", loaded); err != nil {
				h.t.Fatalf("%q: load: %v", args, err)
			}
		case Wait:
			if c.Reason != ForUnblock {
				h.t.Fatalf("%q: it waits for reason %d", args, c.Reason)
			}
			h.unblocks(&c.Wait)
			if h.giveUp || len(c.Wait.Keys) == 0 {
				c.GiveUp(false)
				return c.Out.Buf
			}
			return []byte("+(blocked)\r\n")
		case Task:
			var task Ctx
			h.env.StartTask(c, &task, c.Out, h.store.NewTxn(), false)
			if h.env.RunTask(&task, h.confined.onLoop) {
				h.t.Errorf("%q: its keys have changed", args)
			}
			h.env.EndTask(&task)
			task.RunEmitted()
			return c.Out.Buf
		default:
			h.t.Fatalf("%q: outcome %v", args, out)
		}
	}
	h.t.Fatalf("%q: its keys were loaded again and again and are still missing", args)
	return nil
}

// do runs a command, and returns the reply in the notation of the tables.
func (h *harness) do(args ...string) string {
	h.t.Helper()
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = []byte(arg)
	}
	text, rest := render(h.raw(list...))
	if len(rest) > 0 {
		h.t.Errorf("%q: the reply has something behind it: %q", args, rest)
	}
	return text
}

// runOne runs a command in the notation of the tables, and returns its reply.
func (h *harness) runOne(command string) string {
	h.t.Helper()
	words, ok := resp.SplitArgs([]byte(command))
	if !ok {
		h.t.Fatalf("%s: unbalanced quotes", command)
	}
	text, _ := render(h.raw(words...))
	return text
}

// run runs a table with one step for each line:
//
//	SET k v EX 5 -> +OK     a command (quoted as in redis.conf) and its reply as render writes it
//	does SET k v            a command with any reply but an error
//	events -> set:k         the events since the last such line
//	advance 5s              the clock moves
//	reopen                  the server restarts
//	proto 3 / select 1      the choice of the client, which a restart keeps
//	config name value       CONFIG SET
//	user name               as if AUTH had been given for an existing user
//	# …                     a comment
func (h *harness) run(table string) {
	h.t.Helper()
	for n, line := range strings.Split(table, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		step, want, isCommand := strings.Cut(line+" ", " -> ")
		words, ok := resp.SplitArgs([]byte(step))
		if !ok {
			h.t.Fatalf("line %d: %s: unbalanced quotes", n+1, line)
		}
		args := make([]string, len(words))
		for i := range words {
			args[i] = string(words[i])
		}
		switch {
		case isCommand && args[0] == "events":
			if got := h.heard(); got != strings.TrimSpace(want) {
				h.t.Errorf("line %d: events: %s, want %s", n+1, got, want)
			}
		case isCommand:
			if got := h.do(args...); got != strings.TrimSpace(want) {
				h.t.Errorf("line %d: %s\n  reply %s\n  want  %s", n+1, step, got, want)
			}
		default:
			if err := h.step(args); err != nil {
				h.t.Fatalf("line %d: %s: %v", n+1, line, err)
			}
		}
	}
}

func (h *harness) step(args []string) error {
	h.t.Helper()
	switch {
	case len(args) == 1 && args[0] == "reopen":
		h.reopen()
	case len(args) > 1 && args[0] == "does":
		if reply := h.do(args[1:]...); reply[0] == '-' {
			return fmt.Errorf("reply %s", reply)
		}
	case len(args) == 2 && args[0] == "advance":
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		h.clock.Advance(d)
	case len(args) == 2 && args[0] == "proto":
		h.client.Proto, _ = strconv.Atoi(args[1])
	case len(args) == 2 && args[0] == "select":
		h.client.DB, _ = strconv.Atoi(args[1])
	case len(args) == 2 && args[0] == "user":
		u := h.env.users.find([]byte(args[1]))
		if u == nil {
			return fmt.Errorf("no such user")
		}
		h.client.user.become(u)
	case len(args) == 3 && args[0] == "config":
		return h.env.Config.Set(config.Pair{Name: args[1], Value: args[2]})
	default:
		return fmt.Errorf("no such step")
	}
	return nil
}

// table runs a table in a store of its own. A table with restarts runs twice: the data file and the
// log are two ways by which data comes back.
func table(t *testing.T, steps string) {
	t.Helper()
	newHarness(t).run(steps)
	if strings.Contains(steps, "reopen\n") {
		h := newHarness(t)
		h.save = false
		h.run(steps)
	}
}

// render returns the first reply in b as text, and the rest of b:
//
//	+OK  -ERR …  7  "bulk"  nil (RESP2 null)  nilarray  null (RESP3)  [a, b]
//	{k: v}  ~[set]  >[push]  ,1.5  #t  (12345678901234567890  =txt:"verbatim"
func render(b []byte) (text string, rest []byte) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return fmt.Sprintf("no reply: %q", b), nil
	}
	body := string(line[1:])
	n, _ := strconv.Atoi(body)
	switch line[0] {
	case '+', '-', ',', '#', '(':
		return string(line), rest
	case ':':
		return body, rest
	case '_':
		return "null", rest
	case '$', '=':
		if n < 0 {
			return "nil", rest
		}
		if len(rest) < n+2 {
			return fmt.Sprintf("cut short: %q", b), nil
		}
		data := string(rest[:n])
		if line[0] == '=' {
			return "=" + data[:4] + strconv.Quote(data[4:]), rest[n+2:]
		}
		return strconv.Quote(data), rest[n+2:]
	case '*', '~', '>':
		if n < 0 {
			return "nilarray", rest
		}
		items := make([]string, n)
		for i := range items {
			items[i], rest = render(rest)
		}
		prefix := strings.TrimPrefix(string(line[0]), "*")
		return prefix + "[" + strings.Join(items, ", ") + "]", rest
	case '%':
		pairs := make([]string, n)
		for i := range pairs {
			var key string
			key, rest = render(rest)
			pairs[i], rest = render(rest)
			pairs[i] = key + ": " + pairs[i]
		}
		return "{" + strings.Join(pairs, ", ") + "}", rest
	}
	return fmt.Sprintf("no reply: %q", b), nil
}

// unblocks waits until a blocked command may go on, if that depends on the log or on the time.
func (h *harness) unblocks(wait *BlockedOn) {
	switch {
	case wait.LSN > 0:
		if err := h.store.Log().Settled(context.Background(), wait.LSN); err != nil {
			h.t.Fatalf("WAITAOF: %v", err)
		}
	case len(wait.Keys) == 0 && !h.giveUp:
		for began := h.clock.Mono(); (h.clock.Mono() - began).Milliseconds() < wait.Timeout; {
			reached, stop := h.clock.Until(h.clock.Now() + 1)
			await.For(h.t, "the moment comes", reached)
			stop()
		}
	}
}
