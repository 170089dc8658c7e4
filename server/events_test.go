package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

// listen subscribes to all keyspace events.
func (ts *testServer) listen(proto int) *client {
	ts.t.Helper()
	c := ts.dial()
	c.do(fmt.Sprintf("HELLO %d", proto))
	c.do("PSUBSCRIBE __key*")
	return c
}

func TestKeyspaceEvents(t *testing.T) {
	ts := start(t, "notify-keyspace-events=KEA")
	c := ts.dial()
	c.do("SET before 1")
	for proto, header := range map[int]string{2: "*4 pmessage __key* ", 3: ">4 pmessage __key* "} {
		l := ts.listen(proto)
		c.send("SET a 1\nSELECT 3\nRPUSH l 1 2\nLPOP l 2\nSELECT 0\n")
		for _, want := range []string{
			"__keyspace@0__:a set", "__keyevent@0__:set a",
			"__keyspace@3__:l rpush", "__keyevent@3__:rpush l",
			"__keyspace@3__:l lpop", "__keyevent@3__:lpop l", "__keyspace@3__:l del", "__keyevent@3__:del l",
		} {
			l.expect(header + want)
		}
		c.expect("+OK", "+OK", ":2", "*2 1 2", "+OK")
	}
	c.do("CONFIG SET notify-keyspace-events E$")
	l := ts.listen(2)
	c.do("RPUSH x 1")
	c.do("SET b 1")
	l.expect("*4 pmessage __key* __keyevent@0__:set b")
	c.do("CONFIG SET notify-keyspace-events A") // neither K nor E
	c.do("SET b 2")
	c.do("PUBLISH __key-end x")
	l.expect("*4 pmessage __key* __key-end x")
}

// TestEventsComeBehindTheReply of the client that listens and changes keys itself.
func TestEventsComeBehindTheReply(t *testing.T) {
	ts := start(t, "notify-keyspace-events=E$")
	c := ts.listen(3)
	c.send("SET a 1\nGET a\nMSET b 1 c 2\n")
	const event = ">4 pmessage __key* __keyevent@0__:set "
	c.expect("+OK", event+"a", "1", "+OK", event+"b", event+"c")
}

// TestEventsWaitForTheLog: those of undurable writes do not leave, those of what reads find do.
func TestEventsWaitForTheLog(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use, "notify-keyspace-events=EAm")
	l, writer := ts.listen(2), ts.dial()
	slowDisk(t, ts, d)
	l.dropUntil("end", func() { ts.dial().do("PUBLISH __key-end end") })
	release := d.hold()
	reader := ts.dial()
	if got := reader.do("GET none"); got != "$-1" {
		t.Fatal(got)
	}
	l.expect("*4 pmessage __key* __keyevent@0__:keymiss none")
	writer.send("SET a 1\n")
	await.Until(t, "the write has run", func() (ran bool) {
		ts.onLoop(func(l *loop) { ran = l.log.End() > l.log.Durable() })
		return ran
	})
	l.quiet()
	release()
	l.expect("*4 pmessage __key* __keyevent@0__:set a")
	writer.expect("+OK")
}

// dropUntil reads replies up to one that ends so; begin has it sent.
func (c *client) dropUntil(end string, begin func()) {
	c.t.Helper()
	begin()
	for got := c.reply(); !strings.HasSuffix(got, " "+end); got = c.reply() {
		if strings.HasPrefix(got, "(") {
			c.t.Fatal(got)
		}
	}
}

// TestExpiredEvents: the reaper's come without a command, durable, one for each key, and those
// of elements too.
func TestExpiredEvents(t *testing.T) {
	fake := clock.NewFake(1_700_000_000_000)
	ts := start(t, "notify-keyspace-events=Exh", func(o *storage.Options) { o.Clock = fake })
	c, l := ts.dial(), ts.listen(2)
	for i := range 100 {
		c.do(fmt.Sprintf("SET k%d v PX %d", i, 1000+i/2))
	}
	c.do("HSET h f v g w")
	l.expect("*4 pmessage __key* __keyevent@0__:hset h")
	c.do("HPEXPIRE h 2000 FIELDS 1 f")
	l.expect("*4 pmessage __key* __keyevent@0__:hexpire h")
	fake.Advance(1100 * time.Millisecond)
	seen := map[string]bool{}
	for range 100 {
		key, found := strings.CutPrefix(l.reply(), "*4 pmessage __key* __keyevent@0__:expired k")
		if !found || seen[key] {
			t.Fatalf("%q, %v", key, found)
		}
		seen[key] = true
	}
	fake.Advance(time.Second)
	l.expect("*4 pmessage __key* __keyevent@0__:hexpired h")
	if got := c.do("HGETALL h"); got != "*2 g w" {
		t.Error(got)
	}
}

// TestEventsAreNotMadeForNobody: the store raises them only while somebody is subscribed.
func TestEventsAreNotMadeForNobody(t *testing.T) {
	ts := start(t, "notify-keyspace-events=KEA")
	raised := 0
	ts.onLoop(func(*loop) { ts.store.Listen(func(storage.Happened) { raised++ }) })
	c := ts.dial()
	c.do("SET a 1")
	l := ts.dial()
	l.do("SUBSCRIBE x")
	c.do("SET a 2")
	l.do("UNSUBSCRIBE")
	c.do("SET a 3")
	l.do("SSUBSCRIBE x")
	c.do("SET a 4")
	ts.onLoop(func(*loop) {
		if raised != 1 {
			t.Errorf("%d events were raised", raised)
		}
	})
}

// TestEventsAreNotForgotten: a ring may be taken for the log's, so what was raised amid a pass
// keeps the loop from sleeping by itself.
func TestEventsAreNotForgotten(t *testing.T) {
	ts := start(t, "notify-keyspace-events=KEA")
	ts.listen(2)
	ts.onLoop(func(l *loop) {
		txn := ts.store.NewTxn()
		k := ts.store.Key(0, []byte("a"))
		if !ts.store.Begin(txn, []storage.Key{k}) {
			t.Error("the key is not in memory")
			return
		}
		txn.SetString(k, []byte("v"), 0, storage.Event{Class: storage.EventString, Name: "set"})
		txn.End()
		l.box.quiet()
		if wait := l.timeout(); wait != 0 {
			t.Errorf("the loop sleeps for %v", wait)
		}
	})
}
