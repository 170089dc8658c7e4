package server

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"keyp/internal/testkit/await"
)

// TestPublishReachesAll: many subscribers of both protocols hear all messages in order.
func TestPublishReachesAll(t *testing.T) {
	ts := start(t)
	var list []*client
	for i := range 20 {
		c := ts.dial()
		if i%2 == 0 {
			c.do("HELLO 3")
		}
		c.do("SUBSCRIBE news")
		list = append(list, c)
	}
	var publishers sync.WaitGroup
	for p := range 2 {
		c := ts.dial()
		publishers.Go(func() {
			for i := range 200 {
				c.send(fmt.Sprintf("PUBLISH news %d-%d\n", p, i))
			}
			for range 200 {
				c.expect(":20")
			}
		})
	}
	for i, c := range list {
		header := "*3"
		if i%2 == 0 {
			header = ">3"
		}
		next := [2]int{}
		for range 400 {
			got := c.reply()
			from, number, _ := strings.Cut(strings.TrimPrefix(got, header+" message news "), "-")
			p, err := strconv.Atoi(from)
			if err != nil || number != strconv.Itoa(next[p]) {
				t.Fatalf("subscriber %d: %q, want number %v", i, got, next)
			}
			next[p]++
		}
	}
	publishers.Wait()
}

// TestPublishToOneself: a client that publishes to itself gets the message after the reply.
func TestPublishToOneself(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.do("HELLO 3")
	c.send("SUBSCRIBE a b\nPUBLISH a 1\nGET none\nUNSUBSCRIBE\nPUBLISH a 2\n")
	c.expect(">3 subscribe a :1", ">3 subscribe b :2", ":1", ">3 message a 1", "_",
		">3 unsubscribe a :1", ">3 unsubscribe b :0", ":0")
}

// TestRepliesOffLeaveMessages: CLIENT REPLY affects replies only, not pushed messages.
func TestRepliesOffLeaveMessages(t *testing.T) {
	ts := start(t)
	c, p := ts.dial(), ts.dial()
	c.send("CLIENT REPLY OFF\nSUBSCRIBE\nSUBSCRIBE a\nPING\n")
	c.expect("*3 subscribe a :1")
	p.do("PUBLISH a 1")
	c.expect("*3 message a 1")
	c.send("PING\nUNSUBSCRIBE\nPING\nCLIENT REPLY ON\nPING\n")
	c.expect("*3 unsubscribe a :0", "+OK", "+PONG")
	c.send("CLIENT REPLY SKIP\nSUBSCRIBE a\nPING\n")
	c.expect("*3 subscribe a :1", "*2 pong ")
}

// TestGoneSubscribers: a client that disconnects, is killed or quits does not count as a receiver
// any more.
func TestGoneSubscribers(t *testing.T) {
	ts := start(t)
	p := ts.dial()
	receivers := func(want string) {
		t.Helper()
		await.Until(t, "receivers "+want, func() bool { return p.do("PUBLISH a x") == want })
	}
	gone, quits, killed, stays := ts.dial(), ts.dial(), ts.dial(), ts.dial()
	for _, c := range []*client{gone, quits, killed, stays} {
		c.send("CLIENT ID\nSUBSCRIBE a\nPSUBSCRIBE *\n")
	}
	id := killed.reply()[1:]
	receivers(":8")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	receivers(":6")
	quits.send("QUIT\n")
	receivers(":4")
	p.do("CLIENT KILL ID " + id)
	receivers(":2")
	stays.send("RESET\n")
	receivers(":0")
	if got := p.do("PUBSUB NUMPAT"); got != ":0" {
		t.Errorf("%s patterns are left", got)
	}
}

// publish returns the reply to PUBLISH of a message of any length.
func (c *client) publish(channel, message string) string {
	c.t.Helper()
	c.raw(multibulk("PUBLISH", channel, message))
	return c.reply()
}

// TestSlowSubscriberIsCut: the server closes a slow subscriber at the limit of its class.
// Publishers and other subscribers go on, and a client of class normal with as much output stays.
func TestSlowSubscriberIsCut(t *testing.T) {
	ts := start(t)
	p, slow, good := ts.dial(), ts.dial(), ts.dial()
	if got := p.do(`CONFIG SET client-output-buffer-limit "pubsub 1000000 0 0"`); got != "+OK" {
		t.Fatal(got)
	}
	slow.do("SUBSCRIBE a")
	good.do("SUBSCRIBE a")
	s := ts.sessionOf(slow)
	message := strings.Repeat("x", 100_000)
	want := "*3 message a " + message
	for i := 0; p.publish("a", message) == ":2"; i++ {
		good.expect(want)
		if i > 1000 {
			t.Fatal("a subscriber that reads nothing is never cut")
		}
		ts.onLoop(func(*loop) {
			if n := s.out.pending(); n > 1_200_000 {
				t.Errorf("%d bytes wait for it", n)
			}
		})
	}
	good.expect(want)
	if got := p.do("PUBLISH a last"); got != ":1" {
		t.Errorf("%s receivers", got)
	}
	if n := ts.env.Stats.OutputBufferLimit.Load(); n != 1 {
		t.Errorf("%d clients cut", n)
	}
}

// TestSlowSubscriberIsCutAtTheSoftLimit: the server closes a slow subscriber when the time of the
// soft limit is up.
func TestSlowSubscriberIsCutAtTheSoftLimit(t *testing.T) {
	ts := start(t)
	p, slow := ts.dial(), ts.dial()
	if got := p.do(`CONFIG SET client-output-buffer-limit "pubsub 0 100000 60"`); got != "+OK" {
		t.Fatal(got)
	}
	slow.do("SUBSCRIBE a")
	s := ts.sessionOf(slow)
	message := strings.Repeat("x", 1_000_000)
	for over := false; !over; {
		p.publish("a", message)
		ts.onLoop(func(*loop) { over = s.full && s.out.pending() > 100_000 })
	}
	ts.onLoop(func(l *loop) {
		s.softSince = 0
		l.checkSoftLimit(s)
		if s.softSince != l.mono {
			t.Error("its time has not begun")
		}
		s.softSince = l.mono - 59*time.Second
		if l.checkSoftLimit(s); !s.takes() {
			t.Error("it was cut before its time was up")
		}
		s.softSince = l.mono - 61*time.Second
		if l.checkSoftLimit(s); s.takes() {
			t.Error("it was not cut")
		}
	})
}

// TestSubscribersAreNotIdle: the idle timeout does not apply to subscribers.
func TestSubscribersAreNotIdle(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.do("SUBSCRIBE a")
	ts.mayRest(c)
}

// TestScriptsPublish: scripts publish while other clients come and go. Some scripts take so long
// that the loop moves to another goroutine. A published message keeps its place among the events of
// the script's writes.
func TestScriptsPublish(t *testing.T) {
	ts := start(t, "notify-keyspace-events=E$")
	l, c, other := ts.dial(), ts.dial(), ts.dial()
	l.send("SUBSCRIBE a __keyevent@0__:set\n")
	l.expect("*3 subscribe a :1", "*3 subscribe __keyevent@0__:set :2")
	const rounds = 100
	const script = `redis.call('SET', 'k', ARGV[1])
		local n = redis.call('PUBLISH', 'a', ARGV[1])
		redis.call('SET', 'l', ARGV[1])
		for i = 1, tonumber(ARGV[2]) do end
		return n`
	for i := range rounds {
		turns := "0"
		if i%10 == 0 {
			turns = "500000"
		}
		c.raw(multibulk("EVAL", script, "0", "x", turns))
		other.send("SUBSCRIBE b\nPSUBSCRIBE b*\nUNSUBSCRIBE\nPUNSUBSCRIBE\n")
	}
	for range rounds {
		c.expect(":1")
		l.expect("*3 message __keyevent@0__:set k", "*3 message a x",
			"*3 message __keyevent@0__:set l")
		other.expect("*3 subscribe b :1", "*3 psubscribe b* :2", "*3 unsubscribe b :1",
			"*3 punsubscribe b* :0")
	}
}
