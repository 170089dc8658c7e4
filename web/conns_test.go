package web

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
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

// counted is a connection that counts what is written to it.
type counted struct {
	net.Conn
	writes atomic.Int64
	closed atomic.Bool
}

func (c *counted) Write(b []byte) (int, error) { c.writes.Add(1); return c.Conn.Write(b) }
func (c *counted) Close() error                { c.closed.Store(true); return c.Conn.Close() }

// A connection with TLS that makes room is closed without a farewell: its client may not read, and
// whoever accepts connections would wait for that.
func TestConnsTLS(t *testing.T) {
	authority := testkit.NewAuthority(t)
	cert, key := authority.Issue("server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer far.Close()
	wire := &counted{Conn: near}
	victim := tls.Server(wire, &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true})
	greeted := make(chan error, 1)
	go func() { greeted <- tls.Client(far, authority.Trust()).Handshake() }()
	if err := victim.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := await.For(t, "the handshake ends", greeted); err != nil {
		t.Fatal(err)
	}
	before := wire.writes.Load()
	c := newConns(1)
	c.note(victim, http.StateNew)
	other, end := net.Pipe()
	defer end.Close()
	defer other.Close()
	c.note(other, http.StateNew)
	if wire.writes.Load() != before || !wire.closed.Load() {
		t.Errorf("%d writes to it, closed: %v", wire.writes.Load()-before, wire.closed.Load())
	}
}
