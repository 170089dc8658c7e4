package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/storage"
)

// lease acquires a lease for an owner, and returns its token.
func (c *client) lease(key, owner string, ms int) (token int64) {
	c.t.Helper()
	reply := c.do(fmt.Sprintf("KEYP.LEASE ACQUIRE %s %s %d", key, owner, ms))
	if n, err := fmt.Sscanf(reply, "*2 :%d", &token); n != 1 {
		c.t.Fatalf("ACQUIRE: %s, %v", reply, err)
	}
	return token
}

// granted reads the reply to an ACQUIRE that has waited.
func (c *client) granted() (token int64) {
	c.t.Helper()
	reply := c.reply()
	if n, err := fmt.Sscanf(reply, "*2 :%d", &token); n != 1 {
		c.t.Fatalf("ACQUIRE: %s, %v", reply, err)
	}
	return token
}

// TestLeaseInOrder: clients that wait for a lease get it in the order in which they came, for
// whatever reason it ends. Clients that have left are skipped, and no new client gets it first.
func TestLeaseInOrder(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c := ts.dial()
	last := c.lease("l", "first", 1_000_000)
	wait := func(owner string) *client {
		return ts.blocks("KEYP.LEASE ACQUIRE l " + owner + " 1000000 WAIT 0")
	}
	second, dead, third, fourth := wait("second"), wait("dead"), wait("third"), wait("fourth")
	fifth, timed, unblocked := wait("fifth"),
		ts.blocks("KEYP.LEASE ACQUIRE l timed 1000000 WAIT 600"), wait("unblocked")
	info := c.do("KEYP.LEASE INFO l")
	for _, want := range []string{"state held owner first", "waiting :7", "owner second client :",
		"owner dead client :", " since :1700000000000"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO has no %q: %s", want, info)
		}
	}
	if strings.Index(info, "owner fourth") > strings.Index(info, "owner fifth") {
		t.Errorf("INFO has the queue in another order: %s", info)
	}
	dead.Close()
	waitBlocked(ts, 6)
	handed := func(to *client, how string) {
		t.Helper()
		token := to.granted()
		if token <= last {
			t.Errorf("after %s the token is %d, and was %d", how, token, last)
		}
		last = token
	}
	if got := c.do(fmt.Sprint("KEYP.LEASE RELEASE l ", last)); got != ":1" {
		t.Errorf("RELEASE: %s", got)
	}
	handed(second, "RELEASE")
	c.do("DEL l")
	handed(third, "DEL")
	// One transaction releases the lease and tries to acquire it.
	c.send(fmt.Sprintf("MULTI\nKEYP.LEASE RELEASE l %d\nKEYP.LEASE ACQUIRE l new 1000\nEXEC\n",
		last))
	c.expect("+OK", "+QUEUED", "+QUEUED", "*2 :1 *-1")
	handed(fourth, "a transaction")
	c.do("PEXPIRE l 1")
	clk.Advance(time.Millisecond)
	handed(fifth, "its deadline")
	clk.Advance(600 * time.Millisecond)
	timed.expect("*-1")
	if got := c.do("KEYP.LEASE INFO l"); !strings.Contains(got, "waiting :1 ") {
		t.Errorf("INFO: %s", got)
	}
	c.do("FLUSHALL")
	handed(unblocked, "FLUSHALL")
	waitBlocked(ts, 0)
}

// TestLeaseSameOwner: an owner may wait on several connections, because it lost the first one and
// the server did not notice. It gets its lease on all of them, and other waiting clients keep their
// order.
func TestLeaseSameOwner(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	token := c.lease("l", "holder", 1_000_000)
	lost := ts.blocks("KEYP.LEASE ACQUIRE l again 1000000 WAIT 0")
	other := ts.blocks("KEYP.LEASE ACQUIRE l other 1000000 WAIT 0")
	again := ts.blocks("KEYP.LEASE ACQUIRE l again 1000000 WAIT 0")
	c.do(fmt.Sprint("KEYP.LEASE RELEASE l ", token))
	token = lost.granted()
	if got := again.granted(); got != token {
		t.Errorf("the second connection has token %d, the first %d", got, token)
	}
	waitBlocked(ts, 1)
	// If a lease is moved from another key, its owner gets it, too.
	moved := ts.blocks("KEYP.LEASE ACQUIRE l moved 1000000 WAIT 0")
	c.lease("elsewhere", "moved", 1_000_000)
	c.do("RENAME elsewhere l")
	token = moved.granted()
	waitBlocked(ts, 1)
	c.do(fmt.Sprint("KEYP.LEASE RELEASE l ", token))
	other.granted()
	waitBlocked(ts, 0)
}

// TestLeaseFirstLeaves: the lease is free, but the first waiting client leaves before its command
// could run. The next client gets the lease then.
func TestLeaseFirstLeaves(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	token := c.lease("l", "holder", 1_000_000)
	first := ts.blocks("KEYP.LEASE ACQUIRE l first 1000 WAIT 0")
	second := ts.blocks("KEYP.LEASE ACQUIRE l second 1000 WAIT 0")
	// The pause prevents that first is served at once.
	c.send(fmt.Sprintf("MULTI\nKEYP.LEASE RELEASE l %d\nCLIENT PAUSE 1000000 WRITE\nEXEC\n", token))
	c.expect("+OK", "+QUEUED", "+QUEUED", "*2 :1 +OK")
	first.Close()
	waitBlocked(ts, 1)
	c.do("CLIENT UNPAUSE")
	second.granted()
	waitBlocked(ts, 0)
}

// TestLeaseAtDeadlineWithoutReaper: a waiting client gets the lease at its deadline, after its
// delay, even if only commands remove expired keys. The next client, which is the first one then,
// gets it in the same way.
func TestLeaseAtDeadlineWithoutReaper(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock, o.NoBackground = clk, true })
	c := ts.dial()
	c.lease("l", "first", 1000)
	second := ts.blocks("KEYP.LEASE ACQUIRE l second 2000 WAIT 0 DELAY 500")
	third := ts.blocks("KEYP.LEASE ACQUIRE l third 1000 WAIT 0")
	clk.Advance(time.Second)
	token := second.granted()
	if got := c.do(fmt.Sprint("KEYP.LEASE RENEW l ", token, " 3000")); got != ":1700000004000" {
		t.Errorf("RENEW: %s", got)
	}
	clk.Advance(3499 * time.Millisecond)
	if got := c.do("KEYP.LEASE INFO l"); !strings.Contains(got, "state delayed") ||
		!strings.Contains(got, "waiting :1 ") {
		t.Errorf("INFO: %s", got)
	}
	clk.Advance(time.Millisecond)
	if got := third.granted(); got <= token {
		t.Errorf("token %d after %d", got, token)
	}
}

// TestLeaseShorterDelay: the first waiting client gets the lease when its delay ends, even if the
// delay was shortened. The owner whose lease has expired waits, too, and gets nothing before its
// turn.
func TestLeaseShorterDelay(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock, o.NoBackground = clk, true })
	c := ts.dial()
	if got := c.do("KEYP.LEASE ACQUIRE l holder 1000 DELAY 60000"); !strings.HasSuffix(got,
		":1700000001000") {
		t.Fatalf("ACQUIRE: %s", got)
	}
	clk.Advance(time.Second)
	first := ts.blocks("KEYP.LEASE ACQUIRE l first 1000 WAIT 0")
	holder := ts.blocks("KEYP.LEASE ACQUIRE l holder 1000 WAIT 0")
	if got := c.do("PEXPIRE l 5000"); got != ":1" {
		t.Fatalf("PEXPIRE: %s", got)
	}
	clk.Advance(5 * time.Second)
	token := first.granted()
	clk.Advance(time.Second)
	if got := holder.granted(); got <= token {
		t.Errorf("token %d after %d", got, token)
	}
}
