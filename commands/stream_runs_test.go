package commands

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/storage/format"
)

// coldTwins makes two streams with the same entries, groups and pending entries. Most entries of
// the first stream are only on disk.
func (h *harness) coldTwins(cold, warm string) {
	h.t.Helper()
	for _, key := range []string{cold, warm} {
		h.do("DEL", key)
		h.do("MULTI")
		for i := 1; i <= 2000; i++ {
			h.do("XADD", key, fmt.Sprint("1-", i), "field", fmt.Sprint("value ", i),
				"other", "text")
		}
		h.do("XGROUP", "CREATE", key, "g", "0")
		h.do("XREADGROUP", "GROUP", "g", "one", "COUNT", "900", "STREAMS", key, ">")
		h.do("XDEL", key, "1-5", "1-6", "1-300", "1-1990")
		h.do("EXEC")
	}
	h.heard()
	if err := h.store.Checkpoint(); err != nil {
		h.t.Fatalf("checkpoint: %v", err)
	}
	for range 2 { // the first time some had been used
		h.store.Manual().Leave(1)
	}
	h.read(warm)
}

// read brings all entries of a stream into memory.
func (h *harness) read(key string) {
	h.t.Helper()
	for from := 1; from <= 2000; from += 50 {
		h.do("XRANGE", key, fmt.Sprint("1-", from), fmt.Sprint("1-", from+50), "COUNT", "60")
	}
}

// absentEntries returns the number of a stream's entries that are only on disk.
func (h *harness) absentEntries(key string) (n int) {
	k := h.store.Key(0, []byte(key))
	txn := h.store.NewTxn()
	if !h.store.Begin(txn, []storage.Key{k}) {
		h.t.Fatalf("%s is not in memory", key)
	}
	defer txn.End()
	if s, err := txn.Stream(k); err == nil {
		n, _ = s.Value().Absent()
	}
	return n
}

// coldCommands are commands that need entries of a stream, KEY. Those with a * need none, or so
// many that they are read one run after the other.
var coldCommands = []string{
	"*XLEN KEY", "*XADD KEY 2-1 field value", "*XADD KEY MAXLEN ~ 1000 2-1 field value",
	"*XTRIM KEY MAXLEN ~ 1000", "*XPENDING KEY g",
	"*XACK KEY g 1-7 1-8", "*XINFO GROUPS KEY", "*XGROUP SETID KEY g 1-1000",
	"*XGROUP DESTROY KEY g", "*XTRIM KEY MAXLEN 0", "*DEL KEY",
	"*XDEL KEY 3-3", "*XRANGE KEY 2-1 +", "*EXPIRE KEY 100", "*TYPE KEY", "*OBJECT ENCODING KEY",
	"*XSETID KEY 5-5", "*XRANGE KEY - +",
	"*DUMP KEY", "*DEBUG DIGEST-VALUE KEY",
	"XRANGE KEY - + COUNT 3", "XRANGE KEY 1-250 1-350", "XRANGE KEY 1-1650 + COUNT 400",
	"XREVRANGE KEY 1-1000 - COUNT 150", "XREVRANGE KEY + - COUNT 150",
	"XINFO STREAM KEY", "XINFO STREAM KEY FULL COUNT 5", "XREAD COUNT 120 STREAMS KEY 1-500",
	"XREAD MAXCOUNT 5 STREAMS KEY 0",
	"XREADGROUP GROUP g two COUNT 120 STREAMS KEY >",
	"XREADGROUP GROUP g one COUNT 120 STREAMS KEY 1-200",
	"XREADGROUP GROUP g two CLAIM 0 COUNT 20 STREAMS KEY >",
	"XTRIM KEY MAXLEN 1000", "XTRIM KEY MINID 1-777", "XADD KEY MAXLEN 999 2-1 field value",
	"XADD KEY MINID 1-430 2-1 field value",
	"XTRIM KEY MAXLEN 1900 ACKED", "XTRIM KEY MINID 1-130 DELREF",
	"XDEL KEY 1-1 1-2 1-777 1-300 1-1999",
	"XDELEX KEY DELREF IDS 3 1-1 1-800 1-300", "XACKDEL KEY g IDS 3 1-1 1-800 1-5",
	"XCLAIM KEY g two 0 1-5 1-7 1-800", "XCLAIM KEY g two 0 1-1200 FORCE JUSTID",
	"XAUTOCLAIM KEY g two 0 1-290 COUNT 30", "XNACK KEY g FAIL IDS 3 1-5 1-7 1-800",
	"XIDMPRECORD KEY pid iid 1-900",
}

// TestColdCommands: on a stream whose entries are only on disk, commands have the same replies and
// effects as on one in memory. The test runs them directly, in transactions and in scripts. The
// needed entries are read outside the event loop.
func TestColdCommands(t *testing.T) {
	h := newHarness(t)
	h.bare = true
	h.reopen()
	const cold, warm = "{s}cold", "{s}warm"
	for i, command := range coldCommands {
		ways := []string{"alone", "exec", "script"}
		if !testkit.Long() {
			ways = []string{"alone", ways[1+i%2]}
		}
		for _, way := range ways {
			none := strings.HasPrefix(command, "*")
			call := func(key string) string {
				args := strings.Fields(strings.ReplaceAll(strings.TrimPrefix(command, "*"), "KEY",
					key))
				switch way {
				case "exec":
					h.do("MULTI")
					h.do(args...)
					return h.do("EXEC")
				case "script":
					return h.do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "1",
						key}, args...)...)
				}
				return h.do(args...)
			}
			h.coldTwins(cold, warm)
			h.clock.Advance(10 * time.Millisecond)
			before := h.store.Stats().Loads
			absent := h.absentEntries(cold)
			if absent < 1000 {
				t.Fatalf("%d entries are only on disk", absent)
			}
			if way == "alone" && !none {
				var args [][]byte
				for _, arg := range strings.Fields(strings.ReplaceAll(command, "KEY", cold)) {
					args = append(args, []byte(arg))
				}
				h.ctx.Args, h.ctx.Past = args, Past{}
				h.ctx.Out.Truncate(0)
				if out := h.env.Dispatch(&h.ctx); out != Load || len(h.ctx.Runs) == 0 {
					t.Fatalf("%q: the outcome is %d, with %d runs to load", command, out,
						len(h.ctx.Runs))
				}
				loaded := make(chan error, 1)
				h.store.LoadWith(h.ctx.Keys, h.ctx.Runs, func(err error) { loaded <- err })
				h.store.Manual().Serve()
				if err := await.For(t, "the load ends", loaded); err != nil {
					t.Fatal(err)
				}
				before = h.store.Stats().Loads
			}
			got, want := call(cold), call(warm)
			if got = strings.ReplaceAll(got, cold, warm); got != want {
				t.Errorf("%q, %s: it replies %.300s, and for a stream in memory %.300s",
					command, way, got, want)
			}
			reads := h.store.Stats().Loads - before
			switch {
			case strings.Contains(command, "MINID 1-130"):
				// This command needs further entries once it knows how many to remove.
			case way == "alone" && !none && reads > 0:
				t.Errorf("%q: %d reads more with the runs that it wanted", command, reads)
			case !none && way != "alone" && reads == 0:
				t.Errorf("%q, %s: nothing was read", command, way)
			}
			a, b := h.digest("DIGEST-VALUE", cold), h.digest("DIGEST-VALUE", warm)
			if a != b {
				t.Errorf("%q, %s: the streams differ after it", command, way)
			}
			if err := h.store.Check(); err != nil {
				t.Fatalf("%q, %s: %v", command, way, err)
			}
		}
	}
}

// TestDamagedRunReplies: a command that needs entries that are damaged on disk replies with an
// error and changes nothing. Other commands still work.
func TestDamagedRunReplies(t *testing.T) {
	h := newHarness(t)
	h.bare = true
	h.reopen()
	const cold, warm = "{s}cold", "{s}warm"
	h.coldTwins(cold, warm)
	path := filepath.Join(h.dir, format.DataName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := []byte("value 1000")
	for at := 0; ; at++ {
		next := bytes.Index(data[at:], text)
		if next < 0 {
			break
		}
		at += next
		if _, err := f.WriteAt([]byte{'V'}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	within := func(args ...string) string {
		h.do("MULTI")
		h.do(args...)
		return h.do("EXEC")
	}
	failed := "-" + string(ErrUnread)
	if got := h.do("XRANGE", cold, "-", "+"); got != failed {
		t.Errorf("a walk over all gives %.200s", got)
	}
	for _, args := range [][]string{
		{"XDEL", cold, "1-1", "1-1000"}, {"XTRIM", cold, "MAXLEN", "1050"},
		{"XRANGE", cold, "1-950", "+", "COUNT", "3"},
		{"XCLAIM", cold, "g", "two", "0", "1-7", "1-999", "FORCE"}, {"COPY", cold, "{s}copy"},
		{"DUMP", cold}, {"XREADGROUP", "GROUP", "g", "two", "STREAMS", cold, ">"},
		{"XREAD", "STREAMS", cold, "0"},
	} {
		if got := within(args...); got != "["+failed+"]" {
			t.Errorf("%v gives %.200s", args, got)
		}
	}
	for _, step := range []struct{ command, reply string }{
		{"XLEN " + cold, "1996"}, {"EXISTS {s}copy", "0"}, {"XADD " + cold + " 2-1 f v", `"2-1"`},
		{"XDEL " + cold + " 1-7", "1"},
		{"XRANGE " + cold + " 1-8 1-8", `[["1-8", ["field", "value 8", "other", "text"]]]`},
		{"XTRIM " + cold + " MAXLEN 500", "1496"},
		{"DEL " + cold + " " + warm, "2"},
	} {
		if got := h.do(strings.Fields(step.command)...); got != step.reply {
			t.Errorf("%s replies %.200s, want %s", step.command, got, step.reply)
		}
	}
	if got := h.do("XPENDING", cold, "g"); !strings.HasPrefix(got, "-NOGROUP") {
		t.Errorf("XPENDING replies %s", got)
	}
	if err := h.store.Checkpoint(); err != nil {
		t.Fatal(err)
	}
}
