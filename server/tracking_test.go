package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

// tracks opens a RESP3 connection that tracks with the given options.
func (ts *testServer) tracks(options string) *client {
	ts.t.Helper()
	c := ts.dial()
	c.do("HELLO 3")
	if got := c.do("CLIENT TRACKING ON " + options); got != "+OK" {
		ts.t.Fatal(got)
	}
	return c
}

// TestTrackingNotifies: a client is told of changes by others, of its own changes after the reply,
// and of keys that expire by themselves.
func TestTrackingNotifies(t *testing.T) {
	ts := start(t)
	a, all, b := ts.tracks(""), ts.tracks("BCAST"), ts.dial()
	b.do("MSET k 1 l 1")
	all.expect(">2 invalidate *2 k l")
	a.send("GET k\nSET k 2\nGET k\nMULTIPLY\n")
	a.expect("1", "+OK", ">2 invalidate *1 k", "2",
		"-ERR unknown command 'MULTIPLY', with args beginning with: ")
	all.expect(">2 invalidate *1 k")
	b.do("SET k 3")
	a.expect(">2 invalidate *1 k")
	all.expect(">2 invalidate *1 k")
	// In one transaction, so the key still exists when it is read.
	a.send("MULTI\nSET short 1 PX 300\nGET short\nEXEC\n")
	a.expect("+OK", "+QUEUED", "+QUEUED", "*2 +OK 1")
	all.expect(">2 invalidate *1 short")
	a.expect(">2 invalidate *1 short")
	all.expect(">2 invalidate *1 short")
	b.do("FLUSHALL")
	a.expect(">2 invalidate _")
	all.expect(">2 invalidate _")
}

// TestTrackingBehindATask: a change during a client's task is reported after the task's reply,
// which may show the old value.
func TestTrackingBehindATask(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use)
	a, b := ts.tracks(""), ts.dial()
	a.do("GET k")
	a.send("RANDOMKEY\nGET k\n")
	await.For(t, "the task runs", g.runs)
	b.do("SET k 1")
	close(g.gate)
	a.expect("+OK", ">2 invalidate *1 k", "1")
	ts.onLoop(func(l *loop) {
		if len(l.kept) > 0 {
			t.Error("messages are kept for nobody")
		}
	})
}

// TestTrackingExclusive: a change is reported after the reply also when EXEC runs beside the loop,
// and for changes within EXEC.
func TestTrackingExclusive(t *testing.T) {
	still, goOn := stopped(t)
	ts := start(t, still)
	a, b := ts.tracks(""), ts.dial()
	b.do("MSET k 1 l 1")
	a.send("MULTI\nKEYS *\nDEBUG SLEEP 0.2\nGET k\nSET l 2\nGET short\nSET short 1 PX 1\nEXEC\n")
	a.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED")
	await.Until(t, "the transaction runs", func() (runs bool) {
		ts.onLoop(func(l *loop) { runs = l.globalRuns() })
		return runs
	})
	b.send("SET k 2\n")
	ts.waits(b, forTask)
	goOn()
	got := a.reply()
	if !strings.HasPrefix(got, "*6 *2 ") || !strings.HasSuffix(got, " +OK 1 +OK _ +OK") {
		t.Errorf("EXEC replies %s", got)
	}
	b.expect("+OK") // which may have run before the loop knew that the transaction has ended
	messages := []string{a.reply(), a.reply()}
	slices.Sort(messages)
	if want := []string{">2 invalidate *1 k", ">2 invalidate *1 short"}; !slices.Equal(messages,
		want) {
		t.Errorf("got %q, want %q", messages, want)
	}
}

// TestTrackingOfTheGone: a transaction that outlives its client leaves no tracking data behind.
func TestTrackingOfTheGone(t *testing.T) {
	still, goOn := stopped(t)
	ts := start(t, still)
	a, b := ts.dial(), ts.dial()
	s := ts.sessionOf(a)
	a.send("MULTI\nKEYS *\nDEBUG SLEEP 0.2\nCLIENT TRACKING ON\nSUBSCRIBE c\nEXEC\n")
	a.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED")
	await.Until(t, "the transaction runs", func() (runs bool) {
		ts.onLoop(func(l *loop) {
			if runs = l.globalRuns(); runs {
				l.close(s)
			}
		})
		return runs
	})
	goOn()
	b.do("SET k 1") // waits for its end
	if info := b.do("INFO clients"); !strings.Contains(info,
		"tracking_clients:0\r\npubsub_clients:0\r\n") {
		t.Error(info)
	}
}

// TestTrackingKeepsLittle: messages kept for a client count as its output.
func TestTrackingKeepsLittle(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use)
	defer close(g.gate)
	b := ts.dial()
	if got := b.do(`CONFIG SET client-output-buffer-limit "normal 100000 0 0"`); got != "+OK" {
		t.Fatal(got)
	}
	a := ts.tracks("BCAST")
	s := ts.sessionOf(a)
	a.send("RANDOMKEY\n")
	await.For(t, "the task runs", g.runs)
	for range 20 {
		b.do("SET " + strings.Repeat("k", 10000) + " v")
	}
	await.Until(t, "the client is cut", func() (cut bool) {
		ts.onLoop(func(l *loop) { cut = s.state == closed && len(l.kept) == 0 })
		return cut
	})
}

// TestTrackingWaitsForTheLog: a change of a key is reported only when no crash can undo it. The
// client that made the change gets the message after its reply, under the same condition.
func TestTrackingWaitsForTheLog(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	a, b := ts.tracks(""), ts.dial()
	s := ts.sessionOf(a)
	a.do("GET k")
	slowDisk(t, ts, d)
	release := d.hold()
	b.send("SET k 1\n")
	await.Until(t, "the message waits", func() (waits bool) {
		ts.onLoop(func(l *loop) {
			waits = len(s.out.needs) > 0 && len(s.out.ready(l.durable)) == 0
		})
		return waits
	})
	release()
	a.expect(">2 invalidate *1 k")
	b.expect("+OK")
}

// TestTrackingEnds: tracking ends with the connection, and with RESET.
func TestTrackingEnds(t *testing.T) {
	ts := start(t)
	a, b, c := ts.tracks(""), ts.tracks("BCAST PREFIX x"), ts.dial()
	c.do("HELLO 3")
	a.do("GET k")
	_ = b.Close()
	a.send("RESET\n")
	a.expect("+RESET")
	await.Until(t, "nobody tracks", func() bool {
		return strings.Contains(c.do("INFO clients"), "tracking_clients:0")
	})
	c.do("SET k 1")
	a.do("PING")
}

// TestTrackingFloods: so many keys change at once that the messages of one pass exceed earlyOutput,
// and the server checks the output of its clients. That check reads the table of trackers, so the
// sender must not hold the table's lock. A message of each key arrives.
func TestTrackingFloods(t *testing.T) {
	const script = "for i = 1, #KEYS do redis.call('set', KEYS[i], 'v', 'pxat', ARGV[1]) end"
	names, pairs := make([]string, 2500), []string{"MSET"}
	for i := range names {
		names[i] = fmt.Sprintf("a-key-of-24-bytes-%06d", i)
		pairs = append(pairs, names[i], "v")
	}
	expire := append([]string{"EVAL", script, fmt.Sprint(len(names))}, names...)
	for _, options := range []string{"", "BCAST", "BCAST PREFIX a", "OPTIN", "REDIRECT"} {
		t.Run("set/"+options, func(t *testing.T) { floods(t, options, pairs, names) })
		t.Run("expired/"+options, func(t *testing.T) {
			floods(t, options, append(expire, fmt.Sprint(floodTime+1000)), names)
		})
	}
}

// floodTime is the time on the clock of floods until all keys have been read.
const floodTime = 1_700_000_000_000

// floods makes a tracking client read all keys, changes them with another client, and waits for a
// message of each key.
func floods(t *testing.T, options string, change, names []string) {
	clk := clock.NewFake(floodTime)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	hears, other := ts.dial(), ts.dial()
	hears.do("HELLO 3")
	reads := hears
	if options == "REDIRECT" {
		reads = ts.dial()
		options += fmt.Sprint(" ", ts.sessionOf(hears).client.ID)
	}
	expires := change[0] == "EVAL"
	if expires {
		other.raw(multibulk(change...))
		other.reply()
	}
	if got := reads.do("CLIENT TRACKING ON " + options); got != "+OK" {
		t.Fatal(got)
	}
	if options == "OPTIN" {
		reads.do("CLIENT CACHING YES")
	}
	reads.raw(multibulk(append([]string{"MGET"}, names...)...))
	reads.reply()
	if expires {
		clk.Advance(2 * time.Second)
	} else {
		other.raw(multibulk(change...))
	}
	for heard := map[string]bool{}; len(heard) < len(names); {
		words := strings.Fields(hears.reply())
		if len(words) < 4 || words[0] != ">2" {
			t.Fatalf("heard of %d keys, then %.100q", len(heard), words)
		}
		for _, name := range words[3:] {
			heard[name] = true
		}
	}
}

// TestTrackingOfCrowded: a long read finds elements that are due, and must wait because other long
// reads run. A client that tracks the key is informed all the same.
func TestTrackingOfCrowded(t *testing.T) {
	gate, clk := make(chan struct{}), clock.NewFake(1_700_000_000_000)
	ts := start(t, gated(gate), func(o *storage.Options) { o.Clock = clk })
	ts.onLoop(func(l *loop) { l.env.LimitTasks(1) })
	c, reader, other := ts.dial(), ts.dial(), ts.dial()
	c.do("DEBUG SET-ACTIVE-EXPIRE 0")
	c.do("SADD s x")
	add := "ZADD z"
	for i := range 2000 {
		add += fmt.Sprintf(" %d m%d", i, i)
	}
	c.do(add)
	c.do("EXPIREMEMBER z m1 1")
	a := ts.tracks("")
	if got := a.do("ZSCORE z m1"); got != ",1" {
		t.Fatal(got)
	}
	other.send("SUNION s\n")
	ts.waits(other, forOwnTask)
	clk.Advance(2 * time.Second)
	reader.send("ZRANGE z 0 -1\n")
	ts.waits(reader, forTask)
	a.expect(">2 invalidate *1 z")
	close(gate)
	other.expect("*1 x")
	if got := reader.reply(); !strings.HasPrefix(got, "*1999 ") {
		t.Errorf("%.20s", got)
	}
}

// TestTrackingOfALargeSort: SORT orders a list by very many other keys. A client that tracks the
// list still hears of its change.
func TestTrackingOfALargeSort(t *testing.T) {
	ts := start(t)
	a, b := ts.tracks(""), ts.dial()
	elements := []string{"RPUSH", "l"}
	for range 10_001 {
		elements = append(elements, "x")
	}
	b.raw(multibulk(elements...))
	b.expect(":10001")
	a.send("SORT_RO l BY weight:* ALPHA LIMIT 0 1\n")
	a.expect("*1 x")
	b.do("RPUSH l y")
	a.expect(">2 invalidate *1 l")
}
