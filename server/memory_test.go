package server

import (
	"fmt"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
)

// checkMemory checks that the counted memory is the sum of the sessions' memory, and that each
// session is in the list for its size.
func (ts *testServer) checkMemory() {
	ts.t.Helper()
	ts.onLoop(func(l *loop) {
		total, listed := 0, 0
		for _, s := range l.sessions {
			if s == nil {
				continue
			}
			total += s.counted
			if now := s.Memory(); s.counted != now && !s.touched && !s.queued {
				ts.t.Errorf("client %d takes %d bytes, %d are counted", s.client.ID, now, s.counted)
			}
		}
		if total != l.memory.total {
			ts.t.Errorf("%d bytes are counted, sessions have %d", l.memory.total, total)
		}
		for class, list := range l.memory.classes {
			for at, s := range list {
				if listed++; s.class != class || s.place != at || s.state == closed ||
					s.client.NoEvict {
					ts.t.Errorf("client %d is at %d of class %d: %+v", s.client.ID, at, class, s)
				}
			}
		}
		if listed > l.count {
			ts.t.Errorf("%d of %d sessions are listed", listed, l.count)
		}
	})
}

// TestClientsThatReadNothing: many clients ask for a large value and do not read. No limit is
// configured, but the memory of all these clients stays below the server's own limit. Others are
// served.
func TestClientsThatReadNothing(t *testing.T) {
	const limit, value, clients = 40 << 20, 12 << 20, 12
	most := 0
	ts := start(t, func(l *loop) { l.memory.limit = limit })
	c, keeps := ts.dial(), ts.dial()
	c.raw(multibulk("SET", "k", strings.Repeat("v", value)))
	c.expect("+OK")
	if got := keeps.do("CLIENT NO-EVICT ON"); got != "+OK" {
		t.Fatal(got)
	}
	keeps.send("GET k\n")
	for range clients {
		ts.dial().send("GET k\n")
	}
	await.Until(t, "all are answered or closed", func() bool {
		ts.onLoop(func(l *loop) { most = max(most, l.memory.total) })
		if got := c.do("PING"); got != "+PONG" {
			t.Fatal(got)
		}
		return strings.Count(c.do("CLIENT LIST"), "cmd=get")+
			int(ts.env.Stats.EvictedClients.Load()) == clients+1
	})
	if most > limit+value+1<<20 {
		t.Errorf("clients took %d bytes", most)
	}
	ts.checkMemory()
	evicted := ts.env.Stats.EvictedClients.Load()
	if evicted == 0 || evicted == clients {
		t.Errorf("%d clients were evicted", evicted)
	}
	await.Until(t, "INFO has as many", func() bool { // one more may be evicted meanwhile
		evicted = ts.env.Stats.EvictedClients.Load()
		return strings.Contains(c.do("INFO stats"), fmt.Sprintf("evicted_clients:%d\r\n", evicted))
	})
	if !strings.Contains(ts.log.String(), "all clients together take more than maxmemory-clients") {
		t.Error("the log does not say why clients were closed")
	}
	if got := keeps.reply(); len(got) != value {
		t.Errorf("one that is not to be evicted got %d bytes: %.100q", len(got), got)
	}
}

// TestMaxMemoryClients sets the limit while clients hold each kind of memory that counts. The
// clients with the most memory are closed.
func TestMaxMemoryClients(t *testing.T) {
	const large = 600 << 10
	argument := strings.Repeat("x", large)
	kinds := map[string]string{
		"input":         "*2\r\n$4\r\nECHO\r\n$9000000\r\n" + argument,
		"arguments":     "*1000000\r\n" + strings.Repeat("$0\r\n\r\n", 40_000),
		"transaction":   "*1\r\n$5\r\nMULTI\r\n" + multibulk("ECHO", argument),
		"many commands": "*1\r\n$5\r\nMULTI\r\n" + strings.Repeat("PING\r\n", 8000),
		"watches":       multibulk("WATCH", argument),
		"channels":      multibulk("SUBSCRIBE", argument),
		"patterns":      multibulk("PSUBSCRIBE", argument),
		"prefixes": "HELLO 3\r\n" + multibulk("CLIENT", "TRACKING", "ON", "BCAST",
			"PREFIX", argument),
		"waits":      multibulk("BLPOP", argument, "0"),
		"attributes": multibulk("CLIENT", "SETNAME", argument),
	}
	ts := start(t)
	admin, small := ts.dial(), ts.dial()
	small.do("WATCH k")
	sessions := map[string]*session{}
	for kind, text := range kinds {
		c := ts.dial()
		c.do("PING")
		sessions[kind] = ts.sessionOf(c)
		c.raw(text)
		go func() { // so that none waits for room
			for c.reply()[0] != '(' {
			}
		}()
	}
	await.Until(t, "all hold what they sent", func() (all bool) {
		ts.onLoop(func(l *loop) {
			all = true
			for _, s := range sessions {
				all = all && s.counted > large/2 && s.out.pending() == 0
			}
		})
		return all
	})
	ts.checkMemory()
	if got := admin.do("CONFIG SET maxmemory 100mb maxmemory-clients 1%"); got != "+OK" {
		t.Fatal(got)
	}
	await.Until(t, "enough are closed", func() (enough bool) {
		ts.onLoop(func(l *loop) { enough = l.memory.total <= 1<<20 })
		return enough
	})
	if got := small.do("PING"); got != "+PONG" {
		t.Errorf("one that holds little got %q", got)
	}
	if got := admin.do("CONFIG SET maxmemory-clients 1"); got != "+OK" { // stands for the least
		t.Fatal(got)
	}
	await.Until(t, "the others are closed", func() (gone bool) {
		ts.onLoop(func(l *loop) {
			gone = true
			for kind, s := range sessions {
				if s.state != closed {
					gone = false
					t.Log(kind, "is there")
				}
			}
		})
		return gone
	})
	if got := admin.do("CLIENT LIST"); strings.Count(got, "\n") != 2 {
		t.Error(got)
	}
	ts.checkMemory()
}

// TestManyEvicted: if almost all clients must be closed, that takes several iterations of the loop.
func TestManyEvicted(t *testing.T) {
	const clients = 400
	ts := start(t)
	var list []*client
	for range clients {
		c := ts.dial()
		c.raw(multibulk("SUBSCRIBE", strings.Repeat("c", 1000)))
		c.reply()
		list = append(list, c)
	}
	keeps := ts.dial()
	keeps.do("CLIENT NO-EVICT ON")
	keeps.raw(multibulk("WATCH", strings.Repeat("k", 256<<10)))
	keeps.expect("+OK")
	keeps.do("CONFIG SET maxmemory-clients 300000")
	await.Until(t, "all but one are closed", func() (done bool) {
		ts.onLoop(func(l *loop) { done = l.memory.total <= l.memory.limit })
		return done
	})
	keeps.do("CONFIG SET maxmemory-clients 130kb")
	await.Until(t, "nobody is left to go", func() bool {
		return strings.Contains(ts.log.String(), "none of them may be evicted")
	})
	if got := keeps.do("PING"); got != "+PONG" {
		t.Error(got)
	}
	if n := ts.env.Stats.EvictedClients.Load(); n != clients {
		t.Errorf("%d of %d were evicted", n, clients)
	}
	for _, c := range list[:3] {
		c.expect("(eof)")
	}
	ts.checkMemory()
}

// TestEndlessReplies: a reply that is larger than the limit is never built, whatever command makes
// it. Its client is closed, and others are served.
func TestEndlessReplies(t *testing.T) {
	const most = 1 << 20
	ts := start(t)
	c := ts.dial()
	c.raw(multibulk("SET", "k", strings.Repeat("v", 64<<10)) + multibulk("SADD", "s", "member", ""))
	c.expect("+OK", ":2")
	get := "MGET" + strings.Repeat(" k", 1000)
	tables := "local t = {1} for i = 1, 60 do t = {t, t} end return t"
	for _, hard := range []string{"0", "900000"} {
		c.do("CONFIG SET client-output-buffer-limit \"normal " + hard + " 0 0\"")
		ts.onLoop(func(*loop) { ts.env.MaxReply.Store(most) })
		for n, text := range []string{
			get + "\n",
			"MULTI\n" + get + "\nGET k\nEXEC\n",
			"MULTI\nDBSIZE\n" + get + "\nEXEC\n",
			"SRANDMEMBER s -9000000000000000000\n",
			strings.ReplaceAll(multibulk("EVAL", tables, "0"), "\r\n", "\n"),
		} {
			before := ts.env.Stats.OutputBufferLimit.Load()
			long := ts.dial()
			long.send(text)
			for got := ""; got != "(eof)"; {
				if got = long.reply(); got[0] != '+' && got[0] != '(' {
					t.Fatalf("%d: a reply of %d bytes", n, len(got))
				}
			}
			if ts.env.Stats.OutputBufferLimit.Load() != before+1 {
				t.Errorf("%d: it is not counted", n)
			}
			if got := c.do("PING"); got != "+PONG" {
				t.Fatal(got)
			}
		}
	}
	for _, why := range []string{"whose reply is longer than there is memory for",
		"reached client-output-buffer-limit"} {
		if n := strings.Count(ts.log.String(), why); n != 5 {
			t.Errorf("%d times in the log: %s", n, why)
		}
	}
	c.do(`CONFIG SET client-output-buffer-limit "normal 0 0 0"`)
	ts.onLoop(func(*loop) { ts.env.MaxReply.Store(most) })
	c.raw(multibulk(append([]string{"EVAL",
		"return {#redis.call('MGET', unpack(ARGV, 1, 2)), redis.pcall('MGET', unpack(ARGV))}", "0"},
		strings.Fields(get)[1:101]...)...))
	if got := c.reply(); !strings.Contains(got, "not enough memory") {
		t.Errorf("a script got %.100q", got)
	}
}
