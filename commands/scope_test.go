package commands

import (
	"math/rand/v2"
	"testing"
	"time"

	"keyp/internal/testkit/await"
	"keyp/storage"
)

// confined runs each handler without access to anything that its Scope excludes. If the scope
// excludes the event loop's state, the host and the connection are nil, so a handler that uses them
// panics. The store panics if a key's shard is not locked. Ctx.view panics if the scope excludes
// the keyspace. While a handler of a scope without keys runs, another transaction has locked the
// whole keyspace.
type confined struct {
	h    *harness
	loop reach // of the command that is not part of another one
	lent bool  // the loop runs a part of a task
}

func confine(h *harness) *confined {
	cf := &confined{h: h}
	h.env.Testing.onLoop = cf.onLoop
	for _, spec := range h.env.Table.specs {
		if run := spec.Run; run != nil {
			spec.Run = func(c *Ctx) error {
				defer cf.enter(c).leave()
				return run(c)
			}
		}
	}
	return cf
}

// onLoop is passed to RunTask. It runs the parts of a task that need the event loop.
func (cf *confined) onLoop(fn func()) bool {
	e := cf.h.env
	defer func(lent bool, host Host, ofLoop *OfLoop) {
		cf.lent, e.Host, e.OfLoop = lent, host, ofLoop
	}(cf.lent, e.Host, e.OfLoop)
	cf.lent, e.Host, e.OfLoop = true, cf.loop.host, cf.loop.ofLoop
	fn()
	return true
}

// reach holds the parts of the event loop that a handler may use.
type reach struct {
	c      *Ctx
	client *Client
	conn   Conn
	host   Host
	ofLoop *OfLoop
	held   *storage.Txn // has the keyspace, which the scope does not
	stuck  *time.Timer
}

// enter removes everything that c's scope does not have, until leave.
func (cf *confined) enter(c *Ctx) reach {
	e, client := c.Env, c.Client
	had := reach{c: c, client: client, conn: client.Conn, host: e.Host, ofLoop: e.OfLoop}
	if !c.Nested && c.Scope < KeysOnly {
		had.held = e.Store.NewTxn()
		e.Store.BeginAll(had.held)
		had.stuck = time.AfterFunc(await.Bound, func() {
			panic(c.Spec.full + " waits for keys that its scope does not have")
		})
	}
	if !c.Nested {
		cf.loop = had
	}
	if c.onLoop != nil && c.Nested && c.Scope.lent() != cf.lent {
		cf.h.t.Errorf("%s: runs on the loop: %v", c.Spec.full, cf.lent)
	}
	switch c.Scope {
	case OnLoop, Counts:
		e.Host, e.OfLoop = cf.loop.host, cf.loop.ofLoop
		return had
	case ArgsOnly:
		c.Client = nil
	case 0:
		cf.h.t.Errorf("%s has no scope", c.Spec.full)
	}
	e.Host, e.OfLoop = nil, nil
	if c.Scope != OwnClient {
		client.Conn = nil
	}
	return had
}

func (had reach) leave() {
	e := had.c.Env
	if had.held != nil {
		had.stuck.Stop()
		had.held.End()
	}
	e.Host, e.OfLoop, had.c.Client, had.client.Conn = had.host, had.ofLoop, had.client, had.conn
}

// TestScopes runs random calls of every command. Each may use only what its scope contains.
func TestScopes(t *testing.T) {
	keepLimits(t)
	rng := rand.New(rand.NewPCG(13, 0))
	data := make([]byte, 1<<17)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	run := newFuzzed(t, data)
	for _, spec := range run.specs {
		for range 12 {
			run.send(run.of(spec))
			run.connect()
		}
	}
	if run.Over() {
		t.Error("the calls of the last commands were not random")
	}
}

// TestScopesAreConfined: a handler that uses more than its scope contains fails.
func TestScopesAreConfined(t *testing.T) {
	for _, tt := range []struct {
		name    string
		declare Scope
		args    []string
	}{
		{"client|list", OwnClient, []string{"CLIENT", "LIST"}},
		{"client|pause", OwnClient, []string{"CLIENT", "PAUSE", "0"}},
		{"ping", ArgsOnly, []string{"PING"}},
		{"client|kill", Unlocked, []string{"CLIENT", "KILL", "ID", "2"}},
		{"dbsize", OnLoop, []string{"DBSIZE"}},
		{"keys", OwnClient, []string{"KEYS", "*"}},
		{"sort", KeysOnly, []string{"SORT", "l", "BY", "w_*"}},
		{"client|list", Global, []string{"CLIENT", "LIST"}},
		{"acl|log", Unlocked, []string{"ACL", "LOG"}},
		{"monitor", Unlocked, []string{"MONITOR"}},
	} {
		h, _, _, _ := hosted(t)
		h.do("RPUSH", "l", "1", "2", "3", "4", "5", "6", "7", "8")
		spec := h.env.Table.Of(byteArgs(tt.args...))
		if spec.full != tt.name {
			t.Fatalf("%s is %s", tt.args, spec.full)
		}
		if h.do(tt.args...); h.env.Stats.Panics.Load() != 0 {
			t.Errorf("%s, as it is declared: fails within", tt.args)
		}
		h.do("RESET")
		spec.Scope, spec.Escalate = tt.declare, nil
		if h.do(tt.args...); h.env.Stats.Panics.Load() == 0 {
			t.Errorf("%s, if its scope were %d: nothing fails", tt.args, tt.declare)
		}
	}
}

// TestBlockingRunsInline: a blocked session waits in the lines of keys or for a timer, and its
// command runs again between the commands of others. So a blocking command is never a task,
// whatever its scope. Exceptions are a part of a transaction, and a command that finds much before
// it waits (Ctx.mayOffload).
func TestBlockingRunsInline(t *testing.T) {
	h := newHarness(t)
	seen := 0
	for _, spec := range h.env.Table.specs {
		if !spec.Is(Blocking) || spec.Run == nil {
			continue
		}
		seen++
		if spec.Offload != nil || spec.Escalate != nil ||
			spec.Scope != KeysOnly && spec.Scope != OwnClient && spec.Scope != OnLoop {
			t.Errorf("%s, which may wait, has scope %d, or may have another one or become a task",
				spec.full, spec.Scope)
		}
	}
	if seen < 9 {
		t.Errorf("only %d commands are declared to be blocking", seen)
	}
}
