package commands

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"keyp/resp"
	"keyp/storage"
)

// manyNames are the names of keys for a command of very many keys; some of them twice.
func manyNames() [][]byte {
	var names [][]byte
	for i := range manyElements + 100 {
		names = append(names, fmt.Appendf(nil, "key:%d", i))
	}
	return append(names, names[3], names[40], names[3], names[9000])
}

// manyCall is a command on very many keys; with values each of them is another.
func manyCall(name string) [][]byte {
	args := byteArgs(name)
	for i, key := range manyNames() {
		args = append(args, key)
		switch {
		case !strings.HasPrefix(name, "MSET"):
		case i%1000 == 3:
			args = append(args, bytes.Repeat([]byte("large"), 1000+i))
		default:
			args = append(args, fmt.Appendf(nil, "value of %d", i))
		}
	}
	return args
}

// fillMany has keys of all kinds under some of the names.
func (h *harness) fillMany() {
	mset := byteArgs("MSET")
	for i := 20; i < manyElements; i++ {
		if i%5 != 0 {
			mset = append(mset, fmt.Appendf(nil, "key:%d", i), fmt.Appendf(nil, "old %d", i))
		}
	}
	h.raw(mset[:8001]...)
	h.raw(append(byteArgs("MSET"), mset[8001:]...)...)
	h.raw(append(byteArgs("RPUSH", "key:0"), numbered(200, "", "")...)...)
	h.run(`
		SET key:1 value PX 500 -> +OK
		SET key:2 value EX 1000 -> +OK
		HSET key:3 a 1 b 2 -> 2
		HPEXPIRE key:3 500 FIELDS 1 a -> [1]
		HSET key:4 a 1 -> 1
		HPEXPIRE key:4 500 FIELDS 1 a -> [1]
		SADD key:5 x y -> 2
		SET expired value PX 1 -> +OK
		SET key:6 value PX 1 -> +OK
		SET stays value -> +OK
		advance 10ms
	`)
	h.do("SET", "key:7", strings.Repeat("x", 20_000), "EX", "50")
	h.raw(append(byteArgs("SADD", "key:9000"), numbered(100, "", "")...)...)
	h.heard()
}

// asJob runs a command as the job that it is, and gives its reply.
func (h *harness) asJob(args [][]byte) string {
	h.t.Helper()
	c := &Ctx{Env: h.env, Client: h.client, Args: args, Spec: h.env.Table.Of(args), Out: &resp.Writer{Proto: 2}}
	if c.Scope = c.scope(); c.Scope != Unlocked {
		h.t.Fatalf("%s is no job", args[0])
	}
	h.env.RunJob(c, nil)
	if c.LSN > h.store.Log().End() {
		h.t.Errorf("the reply waits for %d, the log ends at %d", c.LSN, h.store.Log().End())
	}
	text, _ := render(c.Out.Buf)
	return text
}

// withoutExpired are events without those of keys that have expired, which come when these are found.
func withoutExpired(events string) string {
	list := strings.Fields(events)
	return strings.Join(slices.DeleteFunc(list, func(e string) bool {
		return strings.HasPrefix(e, "expired:") || strings.HasPrefix(e, "hexpired:") || e == "del:key:4"
	}), " ")
}

// TestWriteMany: commands that write very many keys are jobs, and have the replies, effects and events, in the same
// order, that they have in a transaction, where they run in one go; over restarts too. What others change after the
// job has looked at it counts.
func TestWriteMany(t *testing.T) {
	for _, meanwhile := range []string{
		"", "SET key:25 changed; SET key:30 new; DEL key:21; PEXPIRE key:22 100000; PERSIST key:2; RENAME key:0 key:23; RENAME key:24 elsewhere; " +
			"COPY key:7 key:5 REPLACE; DEL key:26; RPUSH key:26 a; HSET key:35 f v; DEL key:3; SREM key:9000 1 2 3",
		"PEXPIRE key:27 600; advance 1s", "FLUSHALL; SET key:50 v", "SELECT 1; SET key:1 other; SELECT 0; SWAPDB 0 1", "all",
	} {
		for _, name := range []string{"DEL", "UNLINK", "MSET", "MSETNX"} {
			if meanwhile != "" && (name == "DEL" || meanwhile == "all" && name == "MSETNX") {
				continue // UNLINK does the same
			}
			t.Run(name+" "+meanwhile, func(t *testing.T) {
				args := manyCall(name)
				var replies, events, states []string
				for _, job := range []bool{true, false} {
					h := newHarness(t)
					h.fillMany()
					mine := h.client
					others := func() {
						h.client, h.ctx.Client = &Client{ID: 2, Proto: 2, Authenticated: true, user: identity{h.env.users.byDefault}}, mine
						h.ctx.Client = h.client
						for _, line := range strings.Split(meanwhile, "; ") {
							switch {
							case line == "":
							case line == "all":
								h.raw(append(byteArgs("MSET"), numbered(4000, "key:", "changed")...)...)
							case strings.HasPrefix(line, "advance "):
								h.run(line)
							default:
								h.runOne(line)
							}
						}
						h.client, h.ctx.Client = mine, mine
						h.heard()
					}
					freed := h.env.Stats.LazyFreed.Load()
					if job {
						h.whenLooked(1, others)
						replies = append(replies, "["+h.asJob(args)+"]")
					} else {
						others()
						h.do("MULTI")
						h.raw(args...)
						replies = append(replies, h.do("EXEC"))
					}
					events = append(events, withoutExpired(h.heard()))
					state := func() string {
						return fmt.Sprint(h.digest("DIGEST"), h.do("DBSIZE"), h.do("PTTL", "key:2"), h.do("TYPE", "key:0"))
					}
					h.do("EXISTS", "expired", "key:1", "key:4", "key:6", "key:27") // removes what is due
					states = append(states, fmt.Sprint(state(), h.env.Stats.LazyFreed.Load()-freed))
					was := state()
					h.save = len(replies) == 2
					h.reopen()
					if now := state(); now != was {
						t.Errorf("after a restart there is %s, before %s", now, was)
					}
				}
				if replies[0] != replies[1] {
					t.Errorf("it replies %s, want %s", replies[0], replies[1])
				}
				if states[0] != states[1] {
					t.Errorf("it leaves %s, want %s", states[0], states[1])
				}
				if events[0] != events[1] {
					t.Errorf("its events differ: %d and %d bytes\n%.300s\n%.300s", len(events[0]), len(events[1]), events[0], events[1])
				}
			})
		}
	}
}

// TestWriteManyRefuses: what is wrong with a call is said as for few keys.
func TestWriteManyRefuses(t *testing.T) {
	h := newHarness(t)
	h.raw(manyCall("MSET")...)
	if got := h.asJob(manyCall("MSET")[:manyElements+2]); got != "-ERR wrong number of arguments for 'mset' command" {
		t.Errorf("MSET of a key without a value: %s", got)
	}
	end := h.store.Log().End()
	if got := h.asJob(manyCall("MSETNX")); got != "0" {
		t.Errorf("MSETNX of keys that are there: %s", got)
	}
	h.asJob(append(byteArgs("DEL"), numbered(manyElements+1, "none:", "")...))
	if h.store.Log().End() != end {
		t.Error("commands that do nothing are in the log")
	}
}

// TestWriteManyIsSeen: WATCH, clients with tracking and those who wait for a key see what a job changes.
func TestWriteManyIsSeen(t *testing.T) {
	for _, name := range []string{"DEL", "MSET"} {
		cs := newCachers(t)
		cs.fillMany()
		cs.play(`
			a: CLIENT TRACKING on -> +OK
			a: GET key:21 -> "old 21"
			a: GET stays -> "value"
			c: CLIENT TRACKING on BCAST PREFIX key:88 -> +OK
			b: WATCH key:22 -> +OK
			b: MULTI -> +OK
			b: PING -> +QUEUED
			old: WATCH stays -> +OK
			old: MULTI -> +OK
			old: PING -> +QUEUED
		`)
		d := &Client{ID: 5, Conn: &fakeConn{}, Proto: 3, Authenticated: true, user: identity{cs.env.users.byDefault}}
		cs.env.Clients[d.ID], cs.clients["d"] = d, d
		cs.client, cs.ctx.Client = d, d
		cs.raw(manyCall(name)...)
		cs.play("pass")
		if got := cs.heard("a"); got != "[key:21]]" {
			t.Errorf("%s: a client with tracking heard %s", name, got)
		}
		want := 0
		for i := range manyElements + 100 {
			exists := i >= 20 && i < manyElements && i%5 != 0 || i == 9000
			if strings.HasPrefix(fmt.Sprintf("key:%d", i), "key:88") && (exists || name == "MSET") {
				want++
			}
		}
		if got := cs.heard("c"); strings.Count(got, "key:") != want {
			t.Errorf("%s: a client with a prefix heard of %d keys, want %d: %.200s", name, strings.Count(got, "key:"), want, got)
		}
		cs.play(`
			b: EXEC -> null
			old: EXEC -> [+PONG]
		`)
	}
}

// TestWriteManyIsAtomic: others see all of what a job changes, or nothing, and what they change meanwhile is before
// it or behind it.
func TestWriteManyIsAtomic(t *testing.T) {
	h := newHarness(t)
	h.store.SetEvents(0)
	names := manyNames()
	var stop atomic.Bool
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop.Store(true)
	for r := range 2 {
		txn := h.store.NewTxn()
		readers.Go(func() {
			for n := r; !stop.Load(); n += 17 {
				var keys []storage.Key
				for i := range 6 {
					keys = append(keys, h.store.Key(0, names[(n+i*1709)%(manyElements+100)]))
				}
				if !h.store.Begin(txn, keys) {
					t.Error("keys are not in memory")
					return
				}
				seen := map[string]bool{}
				for _, k := range keys {
					value := "none"
					if item, ok := txn.Get(k); ok {
						data, _ := item.String()
						value = string(data)
					}
					seen[value] = true
				}
				txn.End()
				if len(seen) != 1 {
					t.Errorf("keys of one change have the values %v", seen)
					return
				}
			}
		})
	}
	for round := range 5 {
		args := byteArgs("MSET")
		for _, key := range names {
			args = append(args, key, strconv.AppendInt(nil, int64(round), 10))
		}
		if got := h.asJob(args); got != "+OK" {
			t.Errorf("MSET replies %s", got)
		}
		if got := h.asJob(append(byteArgs("DEL"), names...)); got != strconv.Itoa(manyElements+100) {
			t.Errorf("DEL replies %s", got)
		}
	}
}
