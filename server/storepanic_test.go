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

// TestPanicOfStoreEndsServer: a panic that gets out of the store ends the server, as nobody knows
// what it has left locked, whichever way the command runs.
func TestPanicOfStoreEndsServer(t *testing.T) {
	for name, call := range map[string][]string{"inline": {"SET", "a", "v"},
		"beside the loop": {"MSET", "a", "v"}} {
		t.Run(name, func(t *testing.T) {
			var once atomic.Bool
			// What the panic has left locked stays so: the test's close of the store would wait for
			// who wants that in the background.
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

// TestPanicOfStoreInTransaction: within EXEC it costs its command alone, as the transaction has
// what is locked.
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

// TestPanicOfLoop: a panic in what belongs to no session ends the server with an error, and not the
// process.
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
