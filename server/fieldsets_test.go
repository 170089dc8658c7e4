package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestFieldsetsInTransactions: HIMPORT PREPARE stores a list of field names (a fieldset) for a
// client, and HIMPORT SET uses it. These lists change only on the event loop, which counts their
// memory. That holds even while a transaction of the client runs on another goroutine.
func TestFieldsetsInTransactions(t *testing.T) {
	const sets = 100
	ts := start(t)
	c := ts.dial()
	s := ts.sessionOf(c)
	memory := func() (n int) {
		ts.onLoop(func(l *loop) { n = l.env.ClientMemory(&s.client) })
		return n
	}
	before := memory()
	c.do("MULTI")
	c.do(`EVAL "local n = 0 for i = 1, 3000000 do n = n + i end" 0`)
	for i := range sets {
		c.do(fmt.Sprintf("HIMPORT PREPARE fields%d a b c", i))
		c.do(fmt.Sprintf("HIMPORT SET h fields%d 1 2 3", i))
	}
	c.send("EXEC\n")
	done := make(chan string, 1)
	go func() { done <- c.reply() }()
	for ended := false; !ended; {
		select {
		case got := <-done:
			if ended = true; strings.Count(got, "+OK") != 2*sets {
				t.Errorf("EXEC replies %.200s", got)
			}
		default:
			memory()
		}
	}
	if grown := memory() - before; grown < sets*100 {
		t.Errorf("%d fieldsets take %d bytes", sets, grown)
	}
	c.do("HIMPORT DISCARDALL")
	if after := memory(); after != before {
		t.Errorf("a client without fieldsets takes %d bytes, and took %d", after, before)
	}
}
