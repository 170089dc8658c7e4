package commands

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"keyp/resp"
	"keyp/storage"
	"keyp/ttl"
)

// TestOffloadStores: commands such as SUNIONSTORE run as tasks if their keys are large. They store
// the same as in EXEC, where they run on the event loop. The result is still there after a restart.
func TestOffloadStores(t *testing.T) {
	h := newHarness(t)
	const n = 4000
	pad := strings.Repeat("x", 70)
	for i := range n {
		h.do("SADD", "s", fmt.Sprint(i, pad))
		h.do("SADD", "s2", fmt.Sprint(i+n/2, pad))
		h.do("ZADD", "z", fmt.Sprint(i%100), fmt.Sprint(i, pad))
		h.do("RPUSH", "l", fmt.Sprint(i, pad))
	}
	h.do("SET", "text", strings.Repeat("text", largeValue))
	h.do("SET", "small", "x")
	h.do("PEXPIRE", "text", "100000")
	for _, command := range []string{
		"SUNIONSTORE DST s s2", "SINTERSTORE DST s s2", "SDIFFSTORE DST s s2", "SDIFFSTORE DST s s",
		"ZUNIONSTORE DST 2 z s WEIGHTS 2 1", "ZINTERSTORE DST 2 z s2", "ZDIFFSTORE DST 2 z s2",
		"ZRANGESTORE DST z 5 3000",
		"SORT l ALPHA DESC STORE DST", "COPY s DST REPLACE", "COPY text DST REPLACE", "COPY l DST",
		"SET DST " + strings.Repeat("set", largeStore/2),
	} {
		for _, before := range []string{"", "SET DST old", "SADD DST old", "COPY s2 DST"} {
			reply := map[string]string{}
			dumps := map[string]string{}
			for _, dst := range []string{"within", "offloaded"} {
				h.do("DEL", dst)
				if before != "" {
					h.do(strings.Fields(strings.ReplaceAll(before, "DST", dst))...)
				}
				words := strings.Fields(strings.ReplaceAll(command, "DST", dst))
				if dst == "within" {
					h.do("MULTI")
					h.do(words...)
					reply[dst] = strings.Trim(h.do("EXEC"), "[]")
				} else {
					reply[dst] = h.do(words...)
				}
				dumps[dst] = h.do("OBJECT", "ENCODING", dst) + h.do("PTTL", dst) + h.do("SORT", dst,
					"ALPHA") + h.do("GET", dst) + h.do("TYPE", dst)
			}
			if reply["offloaded"] != reply["within"] || dumps["offloaded"] != dumps["within"] {
				t.Errorf("%.60s behind %q gives %s offloaded, %s within EXEC, or other values",
					command, before, reply["offloaded"], reply["within"])
			}
		}
		h.do("COPY", "offloaded", fmt.Sprintf("kept:%.60s", command))
	}
	dumps := func() (all string) {
		for _, k := range strings.Fields(strings.NewReplacer("[", "", "]", "", `"`, "", ",",
			" ").Replace(h.do("KEYS", "s*"))) {
			all += k + h.do("SORT", k, "ALPHA")
		}
		return all + h.do("SORT", "offloaded", "ALPHA") +
			h.do("SORT", "kept:SORT l ALPHA DESC STORE DST", "ALPHA")
	}
	want := dumps()
	h.reopen()
	if got := dumps(); got != want {
		t.Error("after a restart there is something else")
	}
}

// TestOffloadDeadlines: while a task reads a value, other commands can read it until one of its
// elements expires. After that they wait. The task's reply has all elements that were there when it
// began.
func TestOffloadDeadlines(t *testing.T) {
	h := newHarness(t)
	fields := byteArgs("HSET", "h")
	for i := range 2 * largeCount {
		fields = append(fields, fmt.Appendf(nil, "field%d", i), []byte(strings.Repeat("v", 200)))
	}
	h.raw(fields...)
	h.do("HPEXPIRE", "h", "100", "FIELDS", "1", "field7")
	h.do("HPEXPIRE", "h", "50", "FIELDS", "1", "field8")
	h.clock.Advance(60 * time.Millisecond) // field8 goes before the command begins
	dispatch := func(args ...string) Outcome {
		h.ctx.Args = byteArgs(args...)
		h.ctx.Out.Truncate(0)
		return h.env.Dispatch(&h.ctx)
	}
	if got := dispatch("HGETALL", "h"); got != Task {
		t.Fatalf("HGETALL: outcome %d", got)
	}
	task, out := Ctx{}, resp.Writer{Proto: 2}
	h.env.StartTask(&h.ctx, &task, &out, h.store.NewTxn(), false)
	if got := dispatch("HGET", "h", "field7"); got != Done {
		t.Errorf("a read before the deadline: outcome %d", got)
	}
	h.clock.Advance(time.Second)
	h.store.Reap()
	for _, args := range [][]string{
		{"HGET", "h", "field7"}, {"HLEN", "h"}, {"EXISTS", "none", "h"}, {"HGETALL", "h"},
		{"HSET", "h", "a", "b"}, {"WATCH", "h"},
		{"SORT", "none", "BY", "nosort*", "GET", "h->field7"}, {"SORT", "none", "BY", "x*"},
	} {
		if got := dispatch(args...); got != Wait || h.ctx.Reason != ForTask {
			t.Errorf("%v behind the deadline: outcome %d", args, got)
		}
	}
	if got := dispatch("SET", "other", "x"); got != Done {
		t.Errorf("another key: outcome %d", got)
	}
	if h.env.RunTask(&task, nil) {
		t.Error("it has done nothing")
	}
	h.env.EndTask(&task)
	if got := string(out.Buf[:6]); got != fmt.Sprintf("*%d\r", 2*(2*largeCount-1)) {
		t.Errorf("the reply begins with %q", got)
	}
	if got := h.do("HGET", "h", "field7") + h.do("HLEN", "h"); got != fmt.Sprint("nil",
		2*largeCount-2) {
		t.Errorf("afterwards there is %s", got)
	}
}

// TestOffloadWithoutResult: an element of the value expires before a task can store its result.
// Then the task has no effect. In the end the command runs on the event loop.
func TestOffloadWithoutResult(t *testing.T) {
	h := newHarness(t)
	for i := range 4000 {
		h.do("SADD", "s", fmt.Sprint(i, strings.Repeat("x", 90)))
	}
	h.do("SADD", "s", "due")
	h.do("EXPIREMEMBER", "s", "due", "10")
	c := &h.ctx
	c.Args = byteArgs("SUNIONSTORE", "dst", "s")
	if got := h.env.Dispatch(c); got != Task {
		t.Fatalf("outcome %d", got)
	}
	task, out := Ctx{}, resp.Writer{Proto: 2}
	h.env.StartTask(c, &task, &out, h.store.NewTxn(), false)
	h.clock.Advance(10 * time.Second)
	if !h.env.RunTask(&task, nil) || out.Len() != 0 {
		t.Errorf("it has run, and replied %q", out.Buf)
	}
	h.env.EndTask(&task)
	if got := h.do("EXISTS", "dst"); got != "0" {
		t.Error("it has changed something")
	}
	c.Args, c.Past.Offloads = byteArgs("SUNIONSTORE", "dst", "s"), maxOffloads
	c.Out.Truncate(0)
	if got := h.env.Dispatch(c); got != Done || string(c.Out.Buf) != ":4000\r\n" {
		t.Errorf("outcome %d, reply %q", got, c.Out.Buf)
	}
}

// TestOffloadRestore: RESTORE of a large value runs as a task, with the same effect as RESTORE of a
// small one.
func TestOffloadRestore(t *testing.T) {
	h := newHarness(t)
	const n = 3000
	h.do("XGROUP", "CREATE", "stream", "g", "$", "MKSTREAM")
	texts := random(n * 40)
	for i := range n {
		text := texts[i*40 : i*40+40]
		h.do("XGROUP", "CREATECONSUMER", "stream", "g", text)
		h.do("HSET", "hash", text, "v")
		h.do("ZADD", "zset", fmt.Sprint(i%100), text)
		h.do("RPUSH", "list", text)
	}
	h.do("HPEXPIRE", "hash", "100000", "FIELDS", "1", texts[:40])
	h.do("SET", "string", random(2*largeStore))
	keys := []string{"stream", "hash", "zset", "list", "string"}
	for _, key := range keys {
		p := h.dump(key)
		task := func(want, events string, args ...string) {
			t.Helper()
			h.heard()
			h.ctx.Args = byteArgs(append([]string{"RESTORE"}, args...)...)
			h.ctx.Past = Past{}
			if got := h.env.Dispatch(&h.ctx); got != Task || h.ctx.Scope != Pinned {
				t.Fatalf("RESTORE of a %s: outcome %d", key, got)
			}
			h.ctx.Txn.End()
			if got := h.do(append([]string{"RESTORE"}, args...)...); got != want {
				t.Errorf("RESTORE of a %s with %.50q: %s, want %s", key, args[3:], got, want)
			}
			if got := h.heard(); got != events {
				t.Errorf("RESTORE of a %s with %.50q raises %s, want %s", key,
					args[3:], got, events)
			}
		}
		task("+OK", "restore:dst", "dst", "0", p)
		must(t, h, "-1", "PTTL", "dst")
		task("-BUSYKEY Target key name already exists.", "", "dst", "0", p)
		task("+OK", "restore:dst", "dst", "5000", p, "REPLACE", "IDLETIME", "100")
		must(t, h, "5000", "PTTL", "dst")
		must(t, h, "100", "OBJECT", "IDLETIME", "dst")
		if got := h.dump("dst"); got != p {
			t.Errorf("%s: %.100q came back, not %.100q", key, got, p)
		}
		task("-ERR DUMP payload version or checksum are wrong", "", "dst", "0", p[:len(p)-1]+"x",
			"REPLACE")
		must(t, h, "1", "EXISTS", "dst")
		task("+OK", "del:dst", "dst", "1", p, "REPLACE", "ABSTTL")
		must(t, h, "0", "EXISTS", "dst")
		task("+OK", "", "dst", "1", p, "ABSTTL")
		task("+OK", "restore:kept:"+key, "kept:"+key, "0", p)
	}
	h.reopen()
	for _, key := range keys {
		if a, b := h.digest("DIGEST-VALUE", key), h.digest("DIGEST-VALUE", "kept:"+key); a != b {
			t.Errorf("after a restart the %s is another one", key)
		}
	}
}

// random returns bytes that cannot be compressed.
func random(n int) string {
	rng, b := rand.New(rand.NewPCG(1, 1)), make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// TestOffloadRestoreAgain: if the key of a RESTORE task is created while it runs, the task has no
// effect. RESTORE then runs again and finds the key.
func TestOffloadRestoreAgain(t *testing.T) {
	h := newHarness(t)
	h.do("SET", "string", random(2*largeStore))
	p := h.dump("string")
	for _, options := range [][]string{{}, {"REPLACE"}, {"REPLACE", "IDLETIME", "5"}} {
		h.do("DEL", "dst")
		c := &h.ctx
		c.Args, c.Past = byteArgs(append([]string{"RESTORE", "dst", "0", p}, options...)...), Past{}
		c.Out.Truncate(0)
		if got := h.env.Dispatch(c); got != Task {
			t.Fatalf("outcome %d", got)
		}
		task, out := Ctx{}, resp.Writer{Proto: 2}
		h.env.StartTask(c, &task, &out, h.store.NewTxn(), false)
		k, txn := h.store.Key(0, []byte("dst")), h.store.NewTxn()
		if !h.store.Begin(txn, []storage.Key{k}) {
			t.Fatal("the key is not known")
		}
		txn.SetString(k, []byte("meanwhile"), ttl.Deadline{}, storage.Event{})
		txn.End()
		if !h.env.RunTask(&task, nil) || out.Len() != 0 {
			t.Errorf("it has run, and replied %q", out.Buf)
		}
		h.env.EndTask(&task)
		must(t, h, `"meanwhile"`, "GET", "dst")
	}
}
