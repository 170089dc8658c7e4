package web

import (
	"container/list"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
)

// MaxConns bounds the connections, and so the requests at a time.
const MaxConns = 64

// conns bounds the number of connections. A new connection over the limit replaces the one that has
// been silent for longest. A connection is silent while no request is in progress: before its first
// whole request, between requests, and while it sends a body after the reply. So a client that
// opens connections and sends nothing, or sends slowly, does not keep others out. While all
// connections have requests in progress, a new one is closed. Such requests end soon, except for
// the streams of open pages, of which there are fewer than connections (maxStreams, maxEvents).
type conns struct {
	most int

	mu struct {
		sync.Mutex
		at     map[net.Conn]*list.Element // nil for a connection with a request in progress
		silent *list.List                 // of net.Conn, the longest silent first
	}
}

func newConns(most int) *conns {
	c := &conns{most: most}
	c.mu.at, c.mu.silent = map[net.Conn]*list.Element{}, list.New()
	return c
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// drop reads and discards the body of a request after its reply. If the connection were closed
// while the client still sends, the client could lose the reply. Meanwhile the connection counts as
// silent.
func (c *conns) drop(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok || control.Flush() != nil || control.SetReadDeadline(inTime(dropTime)) != nil {
		return
	}
	c.note(conn, http.StateIdle)
	// Ends with the body, at the deadline, or when the connection makes room.
	_, _ = io.Copy(io.Discard, r.Body)
}

// note implements http.Server.ConnState.
func (c *conns) note(conn net.Conn, state http.ConnState) {
	if victim := c.change(conn, state); victim != nil {
		if secure, ok := victim.(*tls.Conn); ok {
			// The plain connection has no TLS alert to send, so its Close never waits
			// for the client.
			victim = secure.NetConn()
		}
		_ = victim.Close() // its error does not matter
	}
}

// change records a connection's state, and returns the connection that must be closed to make room,
// if any.
func (c *conns) change(conn net.Conn, state http.ConnState) (victim net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place, known := c.mu.at[conn]
	if known {
		delete(c.mu.at, conn)
		if place != nil {
			c.mu.silent.Remove(place)
		}
	}
	switch state {
	case http.StateNew:
		if len(c.mu.at) >= c.most {
			oldest := c.mu.silent.Front()
			if oldest == nil {
				return conn
			}
			victim = c.mu.silent.Remove(oldest).(net.Conn)
			delete(c.mu.at, victim)
		}
		c.mu.at[conn] = c.mu.silent.PushBack(conn)
	case http.StateIdle:
		if known { // else it was closed to make room
			c.mu.at[conn] = c.mu.silent.PushBack(conn)
		}
	case http.StateActive:
		if known {
			c.mu.at[conn] = nil
		}
	}
	return victim
}
