package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/resp"
)

// fillStream makes a stream of n entries, and a group with the consumers one and two. Consumer one
// has read all entries except the last fresh ones.
func (h *harness) fillStream(key string, n, fresh int) {
	h.t.Helper()
	for from := 1; from <= n; {
		h.do("MULTI")
		for range 2000 {
			h.do("XADD", key, fmt.Sprint("1-", from), "field", "value")
			from++
		}
		h.do("EXEC")
	}
	h.do("XGROUP", "CREATE", key, "g", "0")
	if n > fresh {
		h.do("XREADGROUP", "GROUP", "g", "one", "COUNT", fmt.Sprint(n-fresh), "STREAMS", key, ">")
	}
	h.do("XGROUP", "CREATECONSUMER", key, "g", "two")
}

// TestStreamTasks: a command that reads or changes much of a stream runs as a task, with the same
// effect as in EXEC.
func TestStreamTasks(t *testing.T) {
	h := newHarness(t)
	const base, key, within = "{s}base", "{s}task", "{s}within"
	h.fillStream(base, 14_000, 2000)
	h.clock.Advance(10 * time.Millisecond)
	for _, tt := range []struct {
		command string
		scope   Scope // 0: it is none
	}{
		{"XREADGROUP GROUP g two STREAMS KEY >", Global},
		{"XREADGROUP GROUP g two BLOCK 0 STREAMS KEY >", Global},
		{"XREADGROUP GROUP g two NOACK STREAMS KEY >", Global},
		{"XREADGROUP GROUP g two CLAIM 5 STREAMS KEY >", Global},
		{"XREADGROUP GROUP g one STREAMS KEY 0", Global},
		{"XREADGROUP GROUP g one COUNT 999 STREAMS KEY 0", 0},
		{"XREADGROUP GROUP g two COUNT 999 STREAMS KEY >", 0},
		{"XREADGROUP GROUP g two MAXCOUNT 999 STREAMS KEY >", 0},
		{"XREADGROUP GROUP none two STREAMS KEY >", 0},
		{"XREAD STREAMS KEY 0", Pinned},
		{"XREAD BLOCK 0 STREAMS none KEY $ 1-10", Pinned},
		{"XREAD COUNT 999 STREAMS KEY 0", 0},
		{"XREAD STREAMS KEY x", 0},
		{"XRANGE KEY - +", Pinned},
		{"XAUTOCLAIM KEY g two 0 0 COUNT 1000000", Global},
		{"XAUTOCLAIM KEY g two 0 0 COUNT 999", 0},
		{"XGROUP DESTROY KEY g", Global},
		{"XGROUP DELCONSUMER KEY g one", Global},
		{"XGROUP DELCONSUMER KEY g two", 0},
		{"XPENDING KEY g - + 1000000", Pinned},
		{"XPENDING KEY g IDLE 100000 - + 1", Pinned},
		{"XPENDING KEY g", 0},
		{"XINFO STREAM KEY FULL COUNT 0", Pinned},
		{"XINFO STREAM KEY FULL", 0},
		{"XTRIM KEY MAXLEN 0 DELREF", Global},
		{"XTRIM KEY MAXLEN 0", 0},
		{"XADD KEY MAXLEN 0 ACKED 2-1 a b", Global},
	} {
		reply := map[string]string{}
		for _, k := range []string{key, within} {
			h.do("COPY", base, k, "REPLACE")
		}
		words := func(k string) []string {
			return strings.Fields(strings.ReplaceAll(tt.command, "KEY", k))
		}
		h.do("MULTI")
		h.do(words(within)...)
		reply[within] = strings.ReplaceAll(h.do("EXEC"), within, key)
		if got := h.env.Dispatch(h.given(words(key)...)); (got == Task) != (tt.scope != 0) ||
			got == Task && h.ctx.Scope != tt.scope {
			t.Errorf("%s: outcome %d, scope %d, want %d", tt.command, got, h.ctx.Scope, tt.scope)
			continue
		} else if got == Task {
			var task Ctx
			h.env.StartTask(&h.ctx, &task, h.ctx.Out, h.store.NewTxn(), false)
			if h.env.RunTask(&task, h.confined.onLoop) {
				t.Errorf("%s: it has not run", tt.command)
			}
			h.env.EndTask(&task)
			task.RunEmitted()
		}
		text, _ := render(h.ctx.Out.Buf)
		reply[key] = "[" + text + "]"
		if reply[key] != reply[within] {
			t.Errorf("%s: the reply is %.100s, within EXEC %.100s", tt.command,
				reply[key], reply[within])
		}
		if h.dump(key) != h.dump(within) {
			t.Errorf("%s: the stream is another one than within EXEC", tt.command)
		}
	}
}

// given prepares the harness's context for a call.
func (h *harness) given(args ...string) *Ctx {
	c := &h.ctx
	c.Args, c.Past = byteArgs(args...), Past{}
	c.Out.Truncate(0)
	return c
}

// TestStreamTaskFindsNothing: the entries for a task may be gone before it begins. Then the command
// is dispatched again, and waits like any other.
func TestStreamTaskFindsNothing(t *testing.T) {
	h := newHarness(t)
	h.fillStream("s", 2000, 2000)
	call := []string{"XREADGROUP", "GROUP", "g", "two", "BLOCK", "0", "STREAMS", "s", ">"}
	if got := h.env.Dispatch(h.given(call...)); got != Task {
		t.Fatalf("outcome %d", got)
	}
	task, out := Ctx{}, resp.Writer{Proto: 2}
	h.env.StartTask(&h.ctx, &task, &out, h.store.NewTxn(), false)
	if got := h.do("XTRIM", "s", "MAXLEN", "0"); got != "2000" {
		t.Errorf("XTRIM before the task has begun: %s", got)
	}
	if !h.env.RunTask(&task, h.confined.onLoop) || out.Len() != 0 {
		t.Errorf("it has run, and replied %q", out.Buf)
	}
	h.env.EndTask(&task)
	c := h.given(call...)
	c.Past.Offloads = 1
	if got := h.env.Dispatch(c); got != Wait || c.Reason != ForUnblock {
		t.Errorf("outcome %d, reason %d", got, c.Reason)
	}
}

// TestStreamTaskCountsOnce: a task finds nothing, and its command then waits. MONITOR shows the
// command only once. Its key lookups count as if it had waited at once.
func TestStreamTaskCountsOnce(t *testing.T) {
	h, _, _, other := hosted(t)
	h.fillStream("s", 2000, 2000)
	me := h.client
	h.client, h.ctx.Client = h.env.Clients[2], h.env.Clients[2]
	h.run("MONITOR -> +OK")
	h.client, h.ctx.Client = me, me
	call := []string{"XREADGROUP", "GROUP", "g", "two", "BLOCK", "0", "STREAMS", "s", ">"}
	dispatch := func(want Outcome, offloads int) {
		t.Helper()
		c := h.given(call...)
		c.Past.Offloads = offloads
		if got := h.env.Dispatch(c); got != want {
			t.Fatalf("outcome %d", got)
		}
		c.RunEmitted()
	}
	hits := func() int64 { return h.env.Stats.Hits.Load() }
	before := hits()
	dispatch(Task, 0)
	task, out := Ctx{}, resp.Writer{Proto: 2}
	h.env.StartTask(&h.ctx, &task, &out, h.store.NewTxn(), false)
	h.do("XTRIM", "s", "MAXLEN", "0")
	if !h.env.RunTask(&task, h.confined.onLoop) {
		t.Fatal("it has run")
	}
	h.env.EndTask(&task)
	task.RunEmitted()
	dispatch(Wait, 1)
	asTask := hits() - before
	if shown := other.shown(); strings.Count(shown, "XREADGROUP") != 1 {
		t.Errorf("shown:\n%s", shown)
	}
	before = hits()
	dispatch(Wait, 0)
	if atOnce := hits() - before; asTask != atOnce || atOnce == 0 {
		t.Errorf("%d hits as a task, %d at once", asTask, atOnce)
	}
}

// TestTaskWithoutResultCountsOnce: a command that stored nothing as a task runs again. MONITOR
// shows it once, and its key lookups count once.
func TestTaskWithoutResultCountsOnce(t *testing.T) {
	h, _, _, other := hosted(t)
	for i := range 4000 {
		h.do("RPUSH", "l", fmt.Sprint(i, strings.Repeat("x", 90)))
	}
	me := h.client
	h.client, h.ctx.Client = h.env.Clients[2], h.env.Clients[2]
	h.run("MONITOR -> +OK")
	h.client, h.ctx.Client = me, me
	call := []string{"SORT", "l", "ALPHA", "STORE", "dst"}
	if got := h.env.Dispatch(h.given(call...)); got != Task {
		t.Fatalf("outcome %d", got)
	}
	task, out := Ctx{}, resp.Writer{Proto: 2}
	h.env.StartTask(&h.ctx, &task, &out, h.store.NewTxn(), false)
	h.do("FLUSHALL")
	if !h.env.RunTask(&task, nil) || out.Len() != 0 {
		t.Errorf("it has run, and replied %q", out.Buf)
	}
	h.env.EndTask(&task)
	task.RunEmitted()
	if n := h.env.Stats.Hits.Load(); n != 0 {
		t.Errorf("%d hits of a run that came to nothing", n)
	}
	if shown := other.shown(); shown != "" {
		t.Errorf("shown:\n%s", shown)
	}
	h.do(call...)
	h.ctx.RunEmitted()
	if shown := other.shown(); strings.Count(shown, "SORT") != 1 {
		t.Errorf("shown:\n%s", shown)
	}
	if n := h.env.Stats.Misses.Load(); n != 1 {
		t.Errorf("%d misses", n)
	}
}

// TestIdempotentsInPortions: one command removes a limited number of the expired idempotent IDs.
// The other expired IDs are ignored, too.
func TestIdempotentsInPortions(t *testing.T) {
	h := newHarness(t)
	for i := range 3 * manyIdempotents {
		h.do("XADD", "s", "IDMP", fmt.Sprint("producer", i), "id", "*", "a", "b")
	}
	h.clock.Advance((idempotenceTime + 1) * time.Second)
	tracked := func() string {
		_, rest, _ := strings.Cut(h.do("XINFO", "STREAM", "s"), `"iids-tracked", `)
		n, _, _ := strings.Cut(rest, ",")
		return n
	}
	last := fmt.Sprint("producer", 3*manyIdempotents-1)
	for i, want := range []int{2*manyIdempotents + 1, manyIdempotents + 1} {
		h.do("XADD", "s", "IDMP", last, "id", "*", "a", "b")
		if got := h.do("XLEN", "s"); got != fmt.Sprint(3*manyIdempotents+1) {
			t.Errorf("%d: the stream has %s entries", i, got)
		}
		if got := tracked(); got != fmt.Sprint(want) {
			t.Errorf("%d: %s idempotent IDs are left, want %d", i, got, want)
		}
	}
	h.reopen()
	h.do("XADD", "s", "IDMP", last, "id", "*", "a", "b")
	if got := h.do("XLEN", "s") + " " + tracked(); got != fmt.Sprint(3*manyIdempotents+1, 1) {
		t.Errorf("entries and idempotent IDs at the end: %s", got)
	}
}

// TestGroupsDoNotChangeStreams: a change of groups is not a change of the key for clients that
// watch or cache it. But waiting clients look at the key again.
func TestGroupsDoNotChangeStreams(t *testing.T) {
	h := newHarness(t)
	h.run(`
		XADD s 1-1 a 1 -> "1-1"
		XADD s 1-2 a 1 -> "1-2"
		XGROUP CREATE s g 0 -> +OK
		WATCH s -> +OK
	`)
	h.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
	h.run(`
		XNACK s g FAIL IDS 1 1-1 -> 1
		XGROUP SETID s g 0 -> +OK
		XACK s g 1-2 -> 1
		XGROUP DESTROY s g -> 1
		MULTI -> +OK
		XLEN s -> +QUEUED
		EXEC -> [2]
		WATCH s -> +OK
		XGROUP DESTROY s g -> 0
		XGROUP CREATE s g 0 -> +OK
		XGROUP DESTROY s g -> 1
		XDEL s 1-1 -> 1
		MULTI -> +OK
		XLEN s -> +QUEUED
		EXEC -> nilarray
	`)
}
