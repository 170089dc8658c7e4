package server

import (
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
)

// TestLargeReadGroup: while XREADGROUP delivers very many entries, commands on keys in other shards
// than the stream's still run. Commands on keys in the stream's shard run afterwards.
func TestLargeReadGroup(t *testing.T) {
	runs, gate := make(chan struct{}, 2), make(chan struct{})
	ts := start(t, func(e *commands.Env) {
		spec := e.Table.Lookup([]byte("XREADGROUP"))
		run := spec.Run
		spec.Run = func(c *commands.Ctx) error {
			if c.Scope == commands.Global {
				runs <- struct{}{}
				<-gate
			}
			return run(c)
		}
	})
	p := ts.dial()
	const entries = 2000
	if got :=
		p.do("EVAL 'for i = 1, ARGV[1] do redis.call(\"XADD\", KEYS[1], \"1-\" .. i, \"a\", \"b\") end return redis.call(\"XLEN\", KEYS[1])' 1 s 2000"); got != ":2000" {
		t.Fatal(got)
	}
	p.do("XGROUP CREATE s g 0")
	p.do("SET a x")
	reader := ts.dial()
	reader.send(
		"XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nXREADGROUP GROUP g c BLOCK 0 STREAMS s >\n")
	await.For(t, "the task has its key", runs)
	if got := p.do("APPEND a y"); got != ":2" {
		t.Errorf("beside it: %s", got)
	}
	replies := ts.behindTask("XLEN s", "XPENDING s g", "EVAL 'return redis.call(\"GET\", \"a\")' 0",
		"DBSIZE")
	close(gate)
	replies(":2000", "*4 :2000 1-1 1-2000 *1 *2 c 2000", "xy", ":2")
	if got := reader.reply(); len(got) < entries*len("*2 1-1 *2 a b") {
		t.Errorf("the reply is %.100q", got)
	}
	ts.waits(reader, forUnblock)
	p.do("XADD s 2-1 a b")
	reader.expect("*1 *2 s *1 *2 2-1 *2 a b")
	ts.noTasks()
}
