package web

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// A new connection takes the place of the one that has been silent for longest, but never of one
// with a request in progress.
func TestConns(t *testing.T) {
	c := newConns(3)
	conn := func() net.Conn {
		a, b := net.Pipe()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		return a
	}
	one, two, three, four, five, six, seven := conn(), conn(), conn(), conn(),
		conn(), conn(), conn()
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

// counted is a connection that counts the bytes written to it.
type counted struct {
	net.Conn
	writes atomic.Int64
	closed atomic.Bool
}

func (c *counted) Write(b []byte) (int, error) { c.writes.Add(1); return c.Conn.Write(b) }
func (c *counted) Close() error                { c.closed.Store(true); return c.Conn.Close() }

// A TLS connection that makes room is closed without an alert. Its client may not read, and the
// goroutine that accepts connections would wait for the alert to be sent.
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
	victim := tls.Server(wire, &tls.Config{Certificates: []tls.Certificate{pair},
		SessionTicketsDisabled: true})
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

// Any number of requests whose bodies never arrive are refused at once, and do not keep others out.
func TestUnsentBodies(t *testing.T) {
	authority := testkit.NewAuthority(t)
	plain := keyp(t)
	secure := keypWith(t, testkit.Options{TLS: authority, Args: []string{"--http-tls", "yes"}})
	const length, host = "Content-Length: 9\r\n", "Host: localhost\r\n"
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"GET":                {"GET /healthz HTTP/1.1\r\n" + host + length + "\r\n", 413},
		"GET with a part":    {"GET /healthz HTTP/1.1\r\n" + host + length + "\r\nabc", 413},
		"HEAD":               {"HEAD /healthz HTTP/1.1\r\n" + host + length + "\r\n", 413},
		"a page that is not": {"GET /nothing HTTP/1.1\r\n" + host + length + "\r\n", 413},
		"POST elsewhere":     {"POST /healthz HTTP/1.1\r\n" + host + length + "\r\n", 405},
		"OPTIONS": {"OPTIONS /dashboard/run HTTP/1.1\r\n" + host + length + "\r\n",
			405},
		"a wrong password": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Authorization: Basic eDp5\r\n" + length + "\r\n", 401},
		"another authentication": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Authorization: Bearer x\r\n" + length + "\r\n", 401},
		"no token": {"POST /dashboard/run HTTP/1.1\r\n" + host + length + "\r\n",
			403},
		"another site": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Origin: http://evil.example\r\n" + length + "\r\n", 403},
		"a name": {"POST /dashboard/run HTTP/1.1\r\nHost: evil.example\r\n" +
			length + "\r\n", 403},
		"a long body": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Content-Length: 300000\r\n\r\n", 403},
		"chunks": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", 403},
		"GET with chunks": {"GET /metrics HTTP/1.1\r\n" + host +
			"Transfer-Encoding: chunked\r\n\r\n", 413},
		"Expect": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Expect: 100-continue\r\n" + length + "\r\n", 403},
		"HTTP/1.0": {"POST /dashboard/run HTTP/1.0\r\n" + host + length + "\r\n",
			403},
		"HTTP/1.0 that is kept": {"GET /healthz HTTP/1.0\r\n" + host +
			"Connection: keep-alive\r\n" + length + "\r\n", 413},
		"that is to be the last": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Connection: close\r\n" + length + "\r\n", 403},
		"that is kept explicitly": {"POST /dashboard/run HTTP/1.1\r\n" + host +
			"Connection: keep-alive\r\n" + length + "\r\n", 403},
	} {
		servers := []*served{plain, secure}
		if !testkit.Long() && name != "a long body" {
			servers = servers[:1] // handshakes take most of the time
		}
		for _, s := range servers {
			open := func(head string) (net.Conn, int) {
				wire, err := await.Dial("tcp", s.http)
				if err != nil {
					t.Fatal(err)
				}
				conn := net.Conn(wire)
				if s == secure {
					conn = tls.Client(wire, authority.Trust())
				}
				if _, err := io.WriteString(conn, head); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				answer, err := http.ReadResponse(bufio.NewReader(conn),
					&http.Request{Method: head[:strings.IndexByte(head, ' ')]})
				if err != nil {
					t.Fatalf("%s: there is no reply: %v", name, err)
				}
				if text, err := io.ReadAll(answer.Body); err != nil {
					t.Fatalf("%s: %q, and %v", name, text, err)
				}
				return conn, answer.StatusCode
			}
			var held []net.Conn
			for i := range MaxConns + 1 {
				conn, status := open(c.head)
				if held = append(held, conn); status != c.status {
					t.Fatalf("%s: request %d gets %d, want %d", name, i, status, c.status)
				}
			}
			conn, status := open("GET /healthz HTTP/1.1\r\n" + host + "\r\n")
			if status != 200 {
				t.Errorf("%s: beside them /healthz replies %d", name, status)
			}
			for _, conn := range append(held, conn) {
				_ = conn.Close() // it may be closed already
			}
		}
	}
}

// A client that sends a long body before it reads the reply also gets the refusal.
func TestRefusalBehindBody(t *testing.T) {
	s := keyp(t)
	body := strings.Repeat("x", 1<<20)
	for _, head := range []string{"HTTP/1.0\r\n", "HTTP/1.1\r\nConnection: close\r\n",
		"HTTP/1.1\r\n"} {
		conn, err := await.Dial("tcp", s.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn,
			"POST /dashboard/run %sHost: localhost\r\nContent-Length: %d\r\n\r\n%s", head,
			len(body), body); err != nil {
			t.Errorf("%q: %v", head, err)
		}
		text, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(text), " 403 Forbidden\r\n") ||
			!strings.HasSuffix(string(text), "load it again\n") {
			t.Errorf("%q: %q, %v", head, text, err)
		}
	}
}
