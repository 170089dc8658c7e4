package server

import (
	"fmt"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
	"keyp/storage"
)

// apart returns n keys that are in different shards.
func (ts *testServer) apart(n int) (keys []string) {
	seen := map[uint16]bool{}
	for i := 0; len(keys) < n; i++ {
		name := fmt.Sprint("k", i)
		if shard := ts.store.Key(0,
			[]byte(name)).Slot / (storage.Slots / storage.DefaultShards); !seen[shard] {
			seen[shard] = true
			keys = append(keys, name)
		}
	}
	return keys
}

// loops runs a script on a connection. The script calls GET for the keys. loops returns when the
// script is in an endless loop.
func (ts *testServer) loops(declared string, keys ...string) *client {
	ts.t.Helper()
	source := ""
	for _, k := range keys {
		source += "redis.call('GET', '" + k + "') "
	}
	c := ts.dial()
	args := []string{"EVAL",
		source + "redis.log(redis.LOG_WARNING, 'the script has its keys') while true do end", "0"}
	if declared != "" {
		args[2] = "1"
		args = append(args, declared)
	}
	before := strings.Count(ts.log.String(), "the script has its keys")
	c.raw(multibulk(args...))
	await.Until(ts.t, "the script has its keys", func() bool {
		return strings.Count(ts.log.String(), "the script has its keys") > before
	})
	return c
}

// killed ends the script of loops.
func (ts *testServer) killed(c *client) {
	ts.t.Helper()
	if got := ts.dial().do("SCRIPT KILL"); got != "+OK" {
		ts.t.Errorf("SCRIPT KILL: %s", got)
	}
	if got := c.reply(); !strings.HasPrefix(got, "-ERR Script killed by user with SCRIPT KILL...") {
		ts.t.Errorf("the script replies %s", got)
	}
}

// TestBeside: while a script runs, clients that do not need its touched or declared keys are
// served, with all kinds of commands. Clients that need one of these keys, or all keys, wait.
func TestBeside(t *testing.T) {
	ts := start(t)
	keys := ts.apart(4)
	touched, declared, free, other := keys[0], keys[1], keys[2], keys[3]
	script := ts.loops(declared, touched)
	a := ts.dial()
	for _, exchange := range [][2]string{
		{"SET " + free + " 1", "+OK"}, {"GET " + free, "1"},
		{"MSET " + free + " 2 " + other + " 3", "+OK"},
		{"PING", "+PONG"}, {"SELECT 1", "+OK"}, {"SET " + free + " 4", "+OK"}, {"SELECT 0", "+OK"},
		{"PUBLISH c m", ":0"},
		{"WATCH " + other, "+OK"}, {"MULTI", "+OK"}, {"INCR " + free, "+QUEUED"},
		{"PING", "+QUEUED"}, {"EXEC", "*2 :3 +PONG"},
		{"SORT " + free + "list", "*0"}, {"RENAME " + other + " " + other, "+OK"},
	} {
		if got := a.do(exchange[0]); got != exchange[1] {
			t.Errorf("beside the script %s gives %q, want %q", exchange[0], got, exchange[1])
		}
	}
	var waits []*client
	for i, command := range []string{
		"GET " + touched, "SET " + declared + " 1", "MGET " + free + " " + touched, "DBSIZE",
		"KEYS *", "FLUSHDB", "INFO", "SCAN 0",
		"EVAL return 0", "BLPOP " + touched + " 0", "WATCH " + touched, "CLIENT LIST",
		"MULTI\nKEYS *\nEXEC", "MULTI\nGET " + touched + "\nEXEC",
	} {
		c := ts.dial()
		c.send(command + "\n")
		ts.waiting(i + 1)
		waits = append(waits, c)
	}
	if got := a.do("GET " + free); got != "3" {
		t.Errorf("GET gives %q", got)
	}
	ts.killed(script)
	waits[0].expect("$-1")
	waits[1].expect("+OK")
	waits[2].expect("*2 3 $-1")
	waits[3].expect(":3")
	if got := a.do("GET " + free); got != "$-1" {
		t.Errorf("behind FLUSHDB there is %q", got)
	}
}

// TestBesideBlocked: blocked clients are served while a script runs, unless the script has locked
// one of their keys. Then they are served after the script, in their order.
func TestBesideBlocked(t *testing.T) {
	ts := start(t)
	keys := ts.apart(3)
	touched, free, other := keys[0], keys[1], keys[2]
	both := ts.blocks("BLPOP " + free + " " + touched + " 0")
	second := ts.blocks("BLPOP " + free + " 0")
	alone := ts.blocks("BLPOP " + other + " 0")
	timed := ts.dial() // on a busy machine its wait is over before anybody could see it wait
	timed.send("BLPOP " + touched + " 0.1\n")
	a := ts.dial()
	await.Until(t, "all four have begun", func() bool {
		return strings.Count(a.do("CLIENT LIST"), "cmd=blpop") == 4
	})
	script := ts.loops("", touched)
	if got := a.do("RPUSH " + other + " x"); got != ":1" {
		t.Errorf("RPUSH: %s", got)
	}
	alone.expect("*2 " + other + " x")
	timed.expect("*-1")
	if got := ts.dial().do("BLPOP " + other + " 0.01"); got != "*-1" {
		t.Errorf("BLPOP: %s", got)
	}
	if got := a.do("RPUSH " + free + " y z"); got != ":2" {
		t.Errorf("RPUSH: %s", got)
	}
	both.silent(ts)
	second.silent(ts)
	ts.killed(script)
	both.expect("*2 " + free + " y")
	second.expect("*2 " + free + " z")
}

// TestBesideBusy: once a script has run for too long, commands that need its keys, or all keys, get
// an error. Commands on other keys do not.
func TestBesideBusy(t *testing.T) {
	ts := busyServer(t)
	keys := ts.apart(2)
	touched, free := keys[0], keys[1]
	a, blocked := ts.dial(), ts.blocks("BLPOP "+free+" 0")
	script := ts.loops("", touched)
	waitBusy(t, a)
	for _, exchange := range [][2]string{
		{"SET " + free + " 1", "+OK"}, {"GET " + free, "1"}, {"DEL " + free, ":1"},
		{"RPUSH " + free + " x", ":1"},
		{"GET " + touched, busyScript}, {"MGET " + free + " " + touched, busyScript},
		{"DBSIZE", busyScript}, {"EVAL return 0", busyScript},
		{"MULTI", "+OK"}, {"GET " + free, busyScript}, {"DISCARD", "+OK"},
	} {
		if got := a.do(exchange[0]); got != exchange[1] {
			t.Errorf("%s gives %q, want %q", exchange[0], got, exchange[1])
		}
	}
	blocked.expect("*2 " + free + " x")
	ts.killed(script)
	if got := a.do("PING"); got != "+PONG" {
		t.Errorf("PING: %s", got)
	}
}
