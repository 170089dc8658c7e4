package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/resp"
)

// TestDueBetween: a command with large keys runs on another goroutine than the event loop's. Its
// keys expire at some moment before it begins, or while it runs. The command's effects are those of
// a run with the keys or of a run without them, never a mixture.
func TestDueBetween(t *testing.T) {
	h := newHarness(t)
	const n = 3000
	at := func() string { return fmt.Sprint(h.clock.Now() + 1000) }
	text := strings.Repeat("x", 300)
	lists, hashes, sets, zsets := []string{"RPUSH", "list"}, []string{"HSET", "hash"},
		[]string{"SADD", "set"}, []string{"ZADD", "zset"}
	for i := range n {
		one := fmt.Sprint(i, text)
		lists, sets = append(lists, one), append(sets, one)
		hashes, zsets = append(hashes, one, one), append(zsets, fmt.Sprint(i), one)
	}
	// fill makes the keys of a command.
	fill := func(command string) {
		h.do("FLUSHALL")
		for _, args := range [][]string{lists, hashes, sets, zsets,
			{"SET", "string", strings.Repeat(text, 5000)}, {"PFADD", "hll", "a"},
			append([]string{"ZADD", "geo"}, zsets[2:]...)} {
			if key := args[1]; slices.Contains(strings.Fields(command), key) {
				h.do(args...)
				h.do("PEXPIREAT", key, at())
			}
		}
		h.do("SET", "other", strings.Repeat(text, 5000))
	}
	tasks := 0
	for _, command := range []string{
		"BITOP NOT dst string", "BITOP AND dst string string", "BITOP OR dst string other",
		"BITCOUNT string", "BITPOS string 1",
		"GET string", "GETRANGE string 1 -1", "STRLEN string", "COPY string dst", "COPY list dst",
		"COPY hash dst", "DUMP string", "DUMP zset",
		"SUNIONSTORE dst set", "SINTERSTORE dst set set", "SDIFFSTORE dst set none", "SUNION set",
		"SMEMBERS set", "SRANDMEMBER set 100000",
		"ZUNIONSTORE dst 1 zset", "ZINTERSTORE dst 2 zset set", "ZDIFFSTORE dst 1 zset",
		"ZRANGESTORE dst zset 0 -1", "ZRANGE zset 0 -1", "ZUNION 1 zset",
		"LRANGE list 0 -1", "SORT list ALPHA", "SORT list ALPHA STORE dst",
		"SORT set BY nosort STORE dst", "LPOS list x COUNT 0 MAXLEN 0",
		"HGETALL hash", "HKEYS hash", "HVALS hash", "HRANDFIELD hash -1000", "PFCOUNT hll",
		"PFMERGE dst hll",
		"GEOSEARCHSTORE dst geo FROMLONLAT 0 0 BYRADIUS 30000 km",
		"GEOSEARCH geo FROMLONLAT 0 0 BYRADIUS 30000 km",
		"LCS string other LEN", "RENAME string dst", "OBJECT ENCODING string",
		"MEMORY USAGE zset SAMPLES 0", "DEBUG DIGEST-VALUE zset",
		"GETDEL string", "SETRANGE string 0 y", "APPEND string y", "LREM list 0 x",
		"LINSERT list BEFORE x y",
	} {
		for when := range 3 { // before it is dispatched, before it begins, after that
			fill(command)
			due := func(at int) {
				if at == when {
					h.clock.Advance(2 * time.Second)
				}
			}
			due(0)
			c := h.given(strings.Fields(command)...)
			outcome := h.env.Dispatch(c)
			reply := c.Out.Buf
			if outcome == Task {
				tasks++
				task, out := Ctx{}, resp.Writer{Proto: 2}
				due(1)
				h.env.StartTask(c, &task, &out, h.store.NewTxn(), false)
				due(2)
				nothing := h.env.RunTask(&task, h.confined.onLoop)
				h.env.EndTask(&task)
				if reply = out.Buf; nothing {
					reply = []byte(h.do(strings.Fields(command)...))
				}
			}
			if strings.Contains(string(reply[:min(len(reply), 100)]), "internal error") ||
				strings.Contains(string(reply[:min(len(reply), 100)]), string(ErrUnread)) {
				t.Errorf("%s, due at moment %d: %.100s", command, when, reply)
			}
			if err := h.store.Check(); err != nil {
				t.Errorf("%s, due at moment %d: %v", command, when, err)
			}
		}
	}
	if panics := h.env.Stats.Panics.Load(); panics > 0 || tasks < 60 {
		t.Errorf("%d panics in %d tasks", panics, tasks)
	}
}
