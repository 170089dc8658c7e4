package web

import (
	"net"
	"net/http"
	"testing"
)

// A new connection takes the place of the one that has been silent for longest, never that of one with
// a request under way.
func TestConns(t *testing.T) {
	c := newConns(3)
	conn := func() net.Conn {
		a, b := net.Pipe()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		return a
	}
	one, two, three, four, five, six, seven := conn(), conn(), conn(), conn(), conn(), conn(), conn()
	step := func(conn net.Conn, state http.ConnState, want net.Conn) {
		t.Helper()
		if got := c.change(conn, state); got != want {
			t.Errorf("%v: another connection is closed than should be", state)
		}
	}
	step(one, http.StateNew, nil)
	step(two, http.StateNew, nil)
	step(three, http.StateNew, nil)
	step(one, http.StateActive, nil)
	step(four, http.StateNew, two)
	step(two, http.StateClosed, nil)
	step(one, http.StateIdle, nil)
	step(five, http.StateNew, three)
	step(four, http.StateActive, nil)
	step(five, http.StateActive, nil)
	step(six, http.StateNew, one)
	step(one, http.StateIdle, nil) // it was just about to be closed
	step(six, http.StateActive, nil)
	step(seven, http.StateNew, seven)
	step(seven, http.StateClosed, nil)
	step(five, http.StateClosed, nil)
	step(seven, http.StateNew, nil)
	if len(c.mu.at) != 3 || c.mu.silent.Len() != 1 {
		t.Errorf("%d connections, %d of them silent", len(c.mu.at), c.mu.silent.Len())
	}
}
