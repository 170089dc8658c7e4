package server

import (
	"strings"
	"sync/atomic"
	"testing"

	"keyp/commands"
	"keyp/internal/testkit/await"
	"keyp/storage"
	"keyp/storage/object"
)

// TestPanicOfStoreEndsServer: a panic that comes out of the store ends the server, whichever way
// the command runs, since nobody knows what the store has left locked.
func TestPanicOfStoreEndsServer(t *testing.T) {
	for name, call := range map[string][]string{"inline": {"SET", "a", "v"},
		"beside the loop": {"MSET", "a", "v"}} {
		t.Run(name, func(t *testing.T) {
			var once atomic.Bool
			// The panic leaves locks held. Closing the store at the end of the test would wait for
			// background work that wants them.
			ts := start(t, func(o *storage.Options) {
				o.NoBackground = true
			}, func(e *commands.Env) {
				beside(e, "MSET")
				e.Store.SetEvents(storage.EventString)
				e.Store.Listen(func(storage.Happened) {
					if once.CompareAndSwap(false, true) { // as the transaction ends
						panic("in a test")
					}
				})
			})
			c := ts.dial()
			c.raw(multibulk(call...))
			if got := c.reply(); got != "(eof)" {
				t.Fatalf("the command is answered: %s", got)
			}
			if err := await.For(t, "the server ends", ts.done); err == nil ||
				!strings.Contains(err.Error(), "internal error in the store: in a test") {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}

// TestPanicOfStoreInTransaction: within EXEC a panic fails only its own command, as the transaction
// holds the locks.
func TestPanicOfStoreInTransaction(t *testing.T) {
	ts := start(t, func(e *commands.Env) {
		e.Table.Lookup([]byte("KEYS")).Run = func(c *commands.Ctx) error {
			return c.Txn.View().Walk(0, func([]byte, object.Type) bool { panic("in a test") })
		}
	})
	c := ts.dial()
	c.send("MULTI\nSET a 1\nKEYS *\nSET b 2\nEXEC\nMGET a b\n")
	c.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3 +OK -ERR internal error +OK", "*2 1 2")
}

// TestPanicOfLoop: a panic in code that belongs to no session ends the server with an error, but
// not the process.
func TestPanicOfLoop(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.send("SET a 1\n")
	c.expect("+OK")
	ts.onLoop(func(l *loop) { l.box.post(func() { panic("in a test") }) })
	if err := await.For(t, "the server ends", ts.done); err == nil ||
		!strings.Contains(err.Error(), "internal error: in a test") {
		t.Errorf("the server ended with %v", err)
	}
	ts.done <- nil
}
