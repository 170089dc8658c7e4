package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/ttl"
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
			"__keyspace@3__:l lpop", "__keyevent@3__:lpop l", "__keyspace@3__:l del",
			"__keyevent@3__:del l",
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

// TestFieldEvents: events of hashes name the fields that changed, on four kinds of channels, even
// without K or E.
func TestFieldEvents(t *testing.T) {
	fake := clock.NewFake(1_700_000_000_000)
	ts := start(t, "notify-keyspace-events=STIVh", func(o *storage.Options) { o.Clock = fake })
	c, l := ts.dial(), ts.dial()
	l.do("PSUBSCRIBE *")
	expect := func(command, event, key string, fields ...string) {
		t.Helper()
		c.do(command)
		var list []string
		for _, f := range fields {
			list = append(list, fmt.Sprintf("%d:%s", len(f), f))
		}
		joined := strings.Join(list, ",")
		const header = "*4 pmessage * __subkey"
		l.expect(header+"space@0__:"+key+" "+event+"|"+joined,
			header+fmt.Sprintf("event@0__:%s %d:%s|%s", event, len(key), key, joined))
		for _, f := range fields {
			l.expect(header + "spaceitem@0__:" + key + "\n" + f + " " + event)
		}
		l.expect(header + "spaceevent@0__:" + event + "|" + key + " " + joined)
	}
	expect("HSET hash f 1 field:2 2 f 3", "hset", "hash", "f", "field:2", "f")
	expect("HSETNX hash g 4", "hset", "hash", "g")
	expect("HINCRBY hash g 1", "hincrby", "hash", "g")
	expect("HINCRBYFLOAT hash g 1.5", "hincrbyfloat", "hash", "g")
	expect("HDEL hash none f", "hdel", "hash", "f")
	expect("HPEXPIRE hash 100 FIELDS 3 none g field:2", "hexpire", "hash", "g", "field:2")
	expect("HPERSIST hash FIELDS 2 none g", "hpersist", "hash", "g")
	expect("HGETEX hash PERSIST FIELDS 2 g field:2", "hpersist", "hash", "field:2")
	expect("HGETDEL hash FIELDS 2 none g", "hdel", "hash", "g")
	expect("HMSET due a 1 b 2 c 3", "hset", "due", "a", "b", "c")
	expect("HPEXPIRE due 100 FIELDS 2 a c", "hexpire", "due", "a", "c")
	c.do("HDEL hash none")
	c.do("SADD set m")
	c.do("HIMPORT PREPARE fields x y")
	fake.Advance(200 * time.Millisecond)
	expect("PING", "hexpired", "due", "a", "c")
	expect("HIMPORT SET made fields 1 2", "hset", "made", "x", "y")
	c.do("CONFIG SET notify-keyspace-events SVh")
	c.do("HSETEX new EX 100 FIELDS 2 x 1 y 2")
	for _, event := range []string{"hset", "hexpire"} {
		l.expect("*4 pmessage * __subkeyspace@0__:new "+event+"|1:x,1:y",
			"*4 pmessage * __subkeyspaceevent@0__:"+event+"|new 1:x,1:y")
	}
	c.do("CONFIG SET notify-keyspace-events Ih")
	// A key with a line break has no channel of this kind.
	c.raw("*4\r\n$4\r\nHSET\r\n$3\r\na\nb\r\n$1\r\nf\r\n$1\r\nv\r\n")
	c.reply()
	c.do("CONFIG SET notify-keyspace-events Th$")
	c.do("SET string v")
	c.do("HDEL new x")
	l.expect("*4 pmessage * __subkeyevent@0__:hdel 3:new|1:x")
}

// TestOverwritten: if a command replaces a whole value, perhaps with another type, an event reports
// it. Most commands send it before their own event.
func TestOverwritten(t *testing.T) {
	ts := start(t, "notify-keyspace-events=EAoc")
	c, l := ts.dial(), ts.dial()
	l.do("PSUBSCRIBE *")
	var payload string
	for _, step := range []struct{ command, events string }{
		{"SET a 1", "set"},
		{"SET a 2", "overwritten set"},
		{"SET a 2 EX 100", "overwritten set expire"},
		{"SET a 2 KEEPTTL", "overwritten set"},
		{"SETEX a 100 v", "overwritten set expire"},
		{"GETSET a 5", "overwritten set"},
		{"INCR a", "incrby"},
		{"APPEND a x", "append"},
		{"SETRANGE a 0 y", "setrange"},
		{"SETBIT a 0 1", "setbit"},
		{"SETNX a v", ""},
		{"RPUSH l 3 1 2", "rpush"},
		{"MSET l 1 m 2", "overwritten type_changed set set"},
		{"MSETEX 1 l 1 EX 10", "overwritten set expire"},
		{"SADD s a", "sadd"},
		{"SUNIONSTORE l s", "overwritten type_changed sunionstore"},
		{"SUNIONSTORE l s s", "overwritten sunionstore"},
		{"SUNIONSTORE l none", "del"},
		{"SUNIONSTORE l none", ""},
		{"SORT s ALPHA STORE m", "overwritten type_changed sortstore"},
		{"ZADD z 1 a", "zadd"},
		{"ZUNIONSTORE m 1 z", "overwritten type_changed zunionstore"},
		{"ZRANGESTORE m z 0 -1", "overwritten zrangestore"},
		{"GEOADD g 1 1 p", "zadd"},
		{"GEOSEARCHSTORE m g FROMLONLAT 1 1 BYRADIUS 1 m", "overwritten geosearchstore"},
		{"BITOP NOT m a", "overwritten type_changed set"},
		{"COPY a n", "copy_to"},
		{"COPY a n", ""},
		{"COPY a n REPLACE", "copy_to overwritten"},
		{"COPY s n REPLACE", "copy_to overwritten type_changed"},
		{"RENAME a b", "rename_from rename_to"},
		{"RENAME s b", "rename_from rename_to overwritten type_changed"},
		{"RENAME n b", "rename_from rename_to overwritten"},
		{"RENAMENX b c", "rename_from rename_to"},
		{"MOVE c 1", "move_from move_to"},
		{"SET big 1", "set"},
		{"SET big " + strings.Repeat("x", 2<<20), "overwritten set"}, // by a task
		{"RESTORE m 0 PAYLOAD REPLACE", "restore overwritten"},
		{"RESTORE z 0 PAYLOAD REPLACE", "restore overwritten type_changed"},
		{"RESTORE new 0 PAYLOAD", "restore"},
	} {
		if payload == "" && strings.HasPrefix(step.command, "RESTORE") {
			payload = c.do("DUMP m")
		}
		args := strings.Split(step.command, " ")
		request := fmt.Sprintf("*%d\r\n", len(args))
		for _, arg := range args {
			if arg == "PAYLOAD" {
				arg = payload
			}
			request += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
		}
		c.raw(request)
		if got := c.reply(); strings.HasPrefix(got, "-") {
			t.Errorf("%.60s: %s", step.command, got)
		}
		c.do("PUBLISH end end")
		var heard []string
		for got := l.reply(); !strings.HasSuffix(got, " end end"); got = l.reply() {
			_, event, _ := strings.Cut(got, "__:")
			event, _, _ = strings.Cut(event, " ")
			heard = append(heard, event)
		}
		if got := strings.Join(heard, " "); got != step.events {
			t.Errorf("%.60s: events %s, want %s", step.command, got, step.events)
		}
	}
}

// TestEventsComeBehindTheReply: a client that listens and changes keys itself gets each event after
// the reply.
func TestEventsComeBehindTheReply(t *testing.T) {
	ts := start(t, "notify-keyspace-events=E$")
	c := ts.listen(3)
	c.send("SET a 1\nGET a\nMSET b 1 c 2\n")
	const event = ">4 pmessage __key* __keyevent@0__:set "
	c.expect("+OK", event+"a", "1", "+OK", event+"b", event+"c")
}

// TestEventsWaitForTheLog: events of writes that are not durable are held back. Events of reads are
// not.
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
	l.silent(ts)
	release()
	l.expect("*4 pmessage __key* __keyevent@0__:set a")
	writer.expect("+OK")
}

// dropUntil calls begin, and then reads replies up to one that ends with end.
func (c *client) dropUntil(end string, begin func()) {
	c.t.Helper()
	begin()
	for got := c.reply(); !strings.HasSuffix(got, " "+end); got = c.reply() {
		if strings.HasPrefix(got, "(") {
			c.t.Fatal(got)
		}
	}
}

// TestExpiredEvents: keys that the reaper removes cause one event each, without a command. So do
// expired elements.
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

// TestEventsAreNotMadeForNobody: the store creates events only while a client is subscribed.
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

// TestEventsAreNotForgotten: pending events keep the loop from sleeping, even if their wake-up call
// was mistaken for one about the log.
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
		txn.SetString(k, []byte("v"), ttl.Deadline{},
			storage.Event{Class: storage.EventString, Name: "set"})
		txn.End()
		l.box.quiet()
		if wait := l.timeout(); wait != 0 {
			t.Errorf("the loop sleeps for %v", wait)
		}
	})
}
