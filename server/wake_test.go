package server

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"keyp/internal/testkit/await"
)

// withoutCron stops the periodic pass, which would hide a lost wake-up.
func withoutCron(l *loop) { l.timers.stop(&l.cron) }

// TestNoWakeUpIsLost lets several goroutines post while the loop may be falling asleep. Nothing
// else wakes the loop.
func TestNoWakeUpIsLost(t *testing.T) {
	ts := start(t, withoutCron)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 2000 {
				done := make(chan struct{})
				ts.loop.box.post(func() { close(done) })
				select {
				case <-done:
				case <-await.Over():
					t.Errorf("goroutine %d: post %d was never run", g, i)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestNoEventIsLost makes sessions stall, wait and continue with only their own events to drive
// them.
func TestNoEventIsLost(t *testing.T) {
	ts := start(t, withoutCron)
	value := strings.Repeat("v", 100_000)
	c := ts.dial()
	c.raw(multibulk("SET", "k", value))
	c.expect("+OK")
	var all sync.WaitGroup
	for g := range 4 {
		c := ts.dial()
		all.Go(func() {
			const n = 200
			go func() {
				for i := range n {
					text := multibulk("GET", "k") + multibulk("SET", "own"+strconv.Itoa(g),
						strconv.Itoa(i))
					if i%20 == 0 {
						text += multibulk("DEBUG", "SLEEP", "0")
					}
					if _, err := c.Write([]byte(text)); err != nil {
						return
					}
				}
			}()
			for i := range n {
				wants := []string{value, "+OK"}
				if i%20 == 0 {
					wants = append(wants, "+OK")
				}
				for _, want := range wants {
					if got := c.reply(); got != want {
						t.Errorf("client %d, round %d: got %.100q", g, i, got)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// TestResetConnections resets the connections of clients in the middle of everything.
func TestResetConnections(t *testing.T) {
	ts := start(t)
	steady := ts.dial()
	steady.raw(multibulk("SET", "k", strings.Repeat("v", 1<<20)))
	steady.expect("+OK")
	for i := range 40 {
		c := ts.dial()
		switch i % 4 {
		case 0:
			c.raw(strings.Repeat(multibulk("GET", "k"), 20))
		case 1:
			c.raw("*2\r\n$3\r\nGET\r\n$10\r\nhalf")
		case 2:
			c.send("DEBUG SLEEP 0.01\nPING\n")
		case 3:
			c.raw(strings.Repeat("INCR n\r\n", 5000))
		}
		if err := c.Conn.Conn.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := steady.do("PING"); got != "+PONG" {
			t.Fatal(got)
		}
	}
	await.Until(t, "all broken connections are gone", func() (gone bool) {
		ts.onLoop(func(l *loop) {
			gone = l.count == 1 && len(l.env.Clients) == 1 && l.tasks.count == 0
		})
		return gone
	})
}
