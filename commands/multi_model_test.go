package commands

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/vfs"
	"keyp/storage/wal"
)

// execCalls are commands whose replies depend only on the data.
var execCalls = []string{
	"SET a 1", "SET b x PX 700", "SET {a}c y", "GET a", "GET b", "GETDEL {a}c", "INCR a",
	"APPEND b z", "DEL a l", "MSET a 5 b 6 c 7",
	"RPUSH l 1 2 3", "LPOP l", "LRANGE l 0 -1", "LMOVE l m LEFT RIGHT", "HSET h f 1 g 2",
	"HDEL h f", "HGET h g",
	"HPEXPIRE h 300 FIELDS 1 g", "SADD s 1 2", "SREM s 1 2", "SCARD s", "ZADD z 1 m 2 n",
	"ZPOPMIN z", "ZRANGE z 0 -1",
	"RENAME a b", "RENAME l a", "COPY b c", "MOVE b 1", "EXPIRE a 1", "PERSIST a", "PTTL a",
	"PTTL b", "EXISTS a b c l h s z m", "TYPE a",
	"SELECT 1", "SELECT 0", "SELECT 99", "BLPOP l nolist 0", "LPUSH b 1", "EXPIRE nokey 5",
	"XADD q MAXLEN 5 1-* f v", "XADD q 1-* f w", "XGROUP CREATE q g 0 MKSTREAM",
	"XGROUP CREATE q {a}g $", "XGROUP CREATECONSUMER q g c",
	"XREADGROUP GROUP g c COUNT 1 STREAMS q >", "XREADGROUP GROUP {a}g c NOACK STREAMS q >",
	"XACK q g 1-0 1-1", "XNACK q g FAIL IDS 1 1-0",
	"XDEL q 1-1", "XTRIM q MAXLEN 1", "XSETID q 1-9", "XGROUP SETID q g 0",
	"XGROUP DELCONSUMER q g c", "XGROUP DESTROY q g", "XRANGE q - +",
	"SETBIT a 9 1", "SETRANGE b 3 x", "PFADD p x y", "PFADD p z", "GEOADD z 13 38 m",
	"SORT l", "SORT s ALPHA", "SORT l BY w*", // from here on such as need a global task
	"DBSIZE", "KEYS a", "SCAN 0 COUNT 100 MATCH b", "FLUSHDB", "SWAPDB 0 1",
}

// execKeys are all keys of execCalls.
var execKeys = []string{"a", "b", "c", "{a}c", "l", "m", "h", "s", "z", "q", "p"}

// dumpAll returns the content of the store without expired keys.
func (h *harness) dumpAll() string {
	h.t.Helper()
	mine := h.client.DB
	defer func() { h.client.DB = mine }()
	var b strings.Builder
	for db := range 2 {
		h.client.DB = db
		for _, key := range execKeys {
			fmt.Fprintln(&b, db, key, h.do("PEXPIRETIME", key), h.do("DUMP", key),
				h.do("HPEXPIRETIME", key, "FIELDS", "1", "g"))
		}
	}
	return b.String()
}

// TestExecIsSequence: EXEC has the same effects and replies as its commands one after another, also
// over restarts. If a watched key has changed, it does nothing.
func TestExecIsSequence(t *testing.T) {
	together, apart := newHarness(t), newHarness(t)
	rapid.Check(t, func(t *rapid.T) {
		for _, h := range []*harness{together, apart} {
			h.t = t
			h.client.DB = 0
			h.do("FLUSHALL")
		}
		for range rapid.IntRange(1, 6).Draw(t, "transactions") {
			calls := rapid.SliceOfN(rapid.SampledFrom(execCalls), 0, 8).Draw(t, "calls")
			watched := rapid.SampledFrom([]string{"", "", "nobody", "somebody"}).Draw(t, "watched")
			if watched != "" {
				together.do("WATCH", "a", "h")
			}
			if watched == "somebody" {
				together.second("SET", "a", "other")
				apart.second("SET", "a", "other")
			}
			together.do("MULTI")
			var want []string
			for _, call := range calls {
				words := strings.Fields(call)
				if got := together.do(words...); got != "+QUEUED" {
					t.Fatalf("%s: %s", call, got)
				}
				if watched != "somebody" {
					if words[0] == "BLPOP" {
						words[len(words)-1] = "0.001"
						if reply := apart.do(words...); reply == "+(blocked)" {
							want = append(want, "nilarray")
						} else {
							want = append(want, reply)
						}
						continue
					}
					want = append(want, apart.do(words...))
				}
			}
			expected := "[" + strings.Join(want, ", ") + "]"
			if watched == "somebody" {
				expected = "nilarray"
			}
			if got := together.do("EXEC"); got != expected {
				t.Fatalf("%q:\n got  %s\n want %s", calls, got, expected)
			}
			restart := rapid.IntRange(0, 19).Draw(t, "restart")
			pause := rapid.SampledFrom([]int{0, 0, 100, 800}).Draw(t, "pause")
			for _, h := range []*harness{together, apart} {
				if h.step([]string{"advance", strconv.Itoa(pause) + "ms"}); restart < 2 {
					h.save = restart == 0
					h.reopen()
				}
			}
			if got, want := together.dumpAll(), apart.dumpAll(); got != want {
				t.Fatalf("%q: what is there\n%s\nand should be\n%s", calls, got, want)
			}
		}
	})
}

// TestEveryChangeIsWatched: a client that watches a key sees each change of it, whichever commands
// the transaction runs before the change. A change to the groups of a stream does not count.
func TestEveryChangeIsWatched(t *testing.T) {
	h := newHarness(t)
	shown := func(db int, key string) string {
		defer func(mine int) { h.client.DB = mine }(h.client.DB)
		h.client.DB = db
		if h.do("TYPE", key) == "+stream" {
			return h.do("XRANGE", key, "-", "+") + h.do("PEXPIRETIME", key)
		}
		return h.do("DUMP", key) + h.do("PEXPIRETIME", key) + h.do("HPEXPIRETIME", key,
			"FIELDS", "1", "g")
	}
	type watcher struct {
		*Client
		key, before string
	}
	changes := 0
	rapid.Check(t, func(t *rapid.T) {
		h.t = t
		h.client.DB = 0
		h.do("FLUSHALL")
		key := rapid.SampledFrom(execKeys).Draw(t, "key")
		some := slices.DeleteFunc(slices.Clone(execCalls), func(call string) bool {
			return !slices.Contains(strings.Fields(call)[1:], key)
		})
		for range rapid.IntRange(1, 12).Draw(t, "transactions") {
			var watchers []watcher
			for db := range 2 {
				for _, key := range execKeys {
					w := watcher{h.other(db), key, shown(db, key)}
					h.doAs(w.Client, "WATCH", key)
					watchers = append(watchers, w)
				}
			}
			calls := rapid.SliceOfN(rapid.SampledFrom(some), 1, 8).Draw(t, "calls")
			h.do("MULTI")
			for _, call := range calls {
				h.do(strings.Fields(call)...)
			}
			reply := h.do("EXEC")
			for _, w := range watchers {
				_, seen := h.env.Changes.watches(w.Client)
				h.env.Gone(w.Client)
				if after := shown(w.DB, w.key); after != w.before {
					if changes++; !seen {
						t.Fatalf("%q %s:\nunseen, %s of database %d became\n%s, was\n%s", calls,
							reply, w.key, w.DB, after, w.before)
					}
				}
			}
			h.step([]string{"advance", rapid.SampledFrom([]string{"0s", "100ms", "800ms"}).Draw(t,
				"pause")})
		}
	})
	if changes == 0 {
		t.Error("nothing has changed: this shows nothing")
	}
}

// TestExecAndCrash: after a crash, each transaction is there completely or not at all. All durable
// ones are there.
func TestExecAndCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := newHarness(t)
	h.close()
	fs := vfs.NewMem()
	h.dir = t.TempDir() // the first one has a data file that knows of its log
	h.fs, h.bare, h.sync = fs, true, wal.Always
	h.segment = 64 << 10 // each crash copies the segments, filled or not
	h.open()
	var states []string // after each transaction since the last commit
	state := func() string {
		var b strings.Builder
		for i := range 30 {
			fmt.Fprintf(&b, "%s %s ", h.do("GET", fmt.Sprint("k", i)),
				h.do("LRANGE", fmt.Sprint("l", i), "0", "-1"))
		}
		return b.String()
	}
	states = append(states, state())
	lost := 0
	for round := range 60 {
		for n := range rng.IntN(6) + 1 {
			h.do("MULTI")
			for range rng.IntN(12) {
				i := fmt.Sprint(rng.IntN(30))
				one := [][]string{
					{"SET", "k" + i, fmt.Sprint(round, ".", n)}, {"DEL", "k" + i, "l" + i},
					{"RPUSH", "l" + i, fmt.Sprint(round), fmt.Sprint(n)},
					{"APPEND", "k" + i, strings.Repeat("x", rng.IntN(3000))},
					{"RENAME", "l" + i, "l" + fmt.Sprint(rng.IntN(30))},
					{"DBSIZE"}, {"LPOP", "l" + i},
				}[rng.IntN(7)]
				h.do(one...)
			}
			if got := h.do("EXEC"); got[0] != '[' {
				t.Fatal(got)
			}
			states = append(states, state())
			if rng.IntN(3) == 0 {
				if err := h.store.Log().Commit(); err != nil {
					t.Fatal(err)
				}
				states = states[len(states)-1:]
			}
		}
		fs = fs.Crash(rng)
		if err := h.store.Close(false); err != nil {
			t.Fatal(err)
		}
		h.fs = fs
		h.open()
		got := state()
		at := -1
		for i, want := range states {
			if got == want {
				at = i
			}
		}
		if at < 0 {
			t.Fatalf("round %d: after the crash there is\n%s\nwhich no transaction left; the last was\n%s",
				round, got, states[len(states)-1])
		}
		lost += len(states) - 1 - at
		states = []string{got}
		if err := h.store.Log().Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if lost == 0 {
		t.Error("no crash lost a transaction that was not durable: this shows nothing")
	}
}
