package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/storage"
)

// job reads the reply to KEYP.DELAY POP, which has waited for a job of a delay queue. It checks the
// job, and returns its receipt, with which the client acknowledges the job.
func (c *client) job(id, payload string, deliveries int) (receipt string) {
	c.t.Helper()
	reply := c.reply()
	words := strings.Fields(reply)
	if len(words) != 6 || words[2] != id || words[3] != payload ||
		words[5] != fmt.Sprint(":", deliveries) {
		c.t.Fatalf("POP: %s, want job %s (%s), delivered %d times", reply, id, payload, deliveries)
	}
	return words[4]
}

// TestDelayInOrder: waiting clients get jobs in the order in which they came, as soon as the jobs
// are due, for whatever reason. Clients that have left are skipped.
func TestDelayInOrder(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c := ts.dial()
	wait := func(options string) *client { return ts.blocks("KEYP.DELAY POP q BLOCK " + options) }
	first, dead, second := wait("0 VISIBILITY 1000000"), wait("0 NOACK"),
		wait("0 VISIBILITY 1000000")
	timed, third, fourth, fifth := wait("600 NOACK"), wait("0 VISIBILITY 1000000"),
		wait("0 VISIBILITY 200"), wait("0 VISIBILITY 1000000")
	if got := c.do("KEYP.DELAY INFO q"); !strings.Contains(got, "waiting :7") {
		t.Errorf("INFO: %s", got)
	}
	c.do("KEYP.DELAY ADD q b +500 two")
	c.do("KEYP.DELAY ADD q a +100 one")
	dead.Close()
	waitBlocked(ts, 6)
	clk.Advance(100 * time.Millisecond)
	first.job("a", "one", 1)
	clk.Advance(400 * time.Millisecond)
	receipt := second.job("b", "two", 1)
	clk.Advance(100 * time.Millisecond)
	timed.expect("*-1")
	// A job that is given back goes to the next client at once.
	c.do("KEYP.DELAY NACK q " + receipt)
	third.job("b", "two", 2)
	// Another job becomes due at another time than first planned.
	c.do("KEYP.DELAY ADD q d +1000000 four")
	c.do("KEYP.DELAY RESCHEDULE q d +50")
	clk.Advance(50 * time.Millisecond)
	fourth.job("d", "four", 1)
	// The job is not acknowledged in time.
	clk.Advance(200 * time.Millisecond)
	fifth.job("d", "four", 2)
	waitBlocked(ts, 0)
	// The next jobs arrive after the queue was deleted and created again.
	sixth := wait("0 VISIBILITY 1000000 COUNT 10")
	c.do("DEL q")
	c.send("MULTI\nKEYP.DELAY ADD q e 0 five\nKEYP.DELAY ADD q f 0 six\nKEYP.DELAY POP q NOACK\nEXEC\n")
	c.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3 :1 :1 *-1")
	if got := sixth.reply(); !strings.HasPrefix(got, "*2 *4 e five ") ||
		!strings.Contains(got, " *4 f six ") {
		t.Errorf("POP COUNT: %s", got)
	}
}

// TestDelayFirstLeaves: only the first waiting client checks the queue when a job is due. When it
// leaves, the next one does.
func TestDelayFirstLeaves(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c := ts.dial()
	first, second := ts.blocks("KEYP.DELAY POP q BLOCK 0 NOACK"),
		ts.blocks("KEYP.DELAY POP q BLOCK 0 NOACK")
	c.do("KEYP.DELAY ADD q a +1000 one")
	first.Close()
	waitBlocked(ts, 1)
	clk.Advance(time.Second)
	if got := second.reply(); got != "*1 *4 a one $-1 :1" {
		t.Errorf("POP: %s", got)
	}
}

// TestDelayDeadLettersWhileWaiting: a job with no deliveries left becomes a dead letter when it is
// due. This wakes a client that waits for dead letters.
func TestDelayDeadLettersWhileWaiting(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c := ts.dial()
	c.do("KEYP.DELAY ADD q a 0 one")
	c.do("KEYP.DELAY POP q VISIBILITY 500")
	reader := ts.blocks("XREAD BLOCK 0 STREAMS dead $")
	waiting := ts.blocks("KEYP.DELAY POP q BLOCK 0 NOACK MAXDELIVERIES 1 DEADLETTER dead")
	clk.Advance(500 * time.Millisecond)
	if got := reader.reply(); !strings.Contains(got,
		"id a payload one queue q deliveries 1 due 1700000000500") {
		t.Errorf("the dead letters: %s", got)
	}
	c.do("KEYP.DELAY ADD q b 0 two")
	if got := waiting.reply(); got != "*1 *4 b two $-1 :1" {
		t.Errorf("POP: %s", got)
	}
}

// TestDelayDueAtTimeout: if the clock is set ahead and a job becomes due, a waiting client gets the
// job at the end of its wait at the latest.
func TestDelayDueAtTimeout(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c := ts.dial()
	c.do("KEYP.DELAY ADD q a +60000 one")
	first, second := ts.blocks("KEYP.DELAY POP q BLOCK 1000 NOACK"),
		ts.blocks("KEYP.DELAY POP q BLOCK 1000 NOACK")
	clk.Set(1_700_000_070_000)
	clk.Advance(time.Second)
	if got := first.reply(); got != "*1 *4 a one $-1 :1" {
		t.Errorf("the first that waits: %s", got)
	}
	second.expect("*-1")
}
