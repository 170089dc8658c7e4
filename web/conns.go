package web

import (
	"container/list"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
)

// MaxConns bounds the connections, and with them the requests at a time.
const MaxConns = 64

// conns bounds the connections. One that comes when there are too many takes the place of the one
// that has been silent for longest: that has sent no whole request, or none since its last reply,
// or that has a reply and still sends a body that nobody reads. So a client that opens connections
// and sends nothing, or slowly, does not keep others out. While all have requests under way a new
// one is closed: they end soon, but for the streams of pages that are open, of which there are
// fewer (maxStreams).
type conns struct {
	most int

	mu struct {
		sync.Mutex
		at     map[net.Conn]*list.Element // nil for one that has a request under way
		silent *list.List                 // of net.Conn, the one that was silent first at the front
	}
}

func newConns(most int) *conns {
	c := &conns{most: most}
	c.mu.at, c.mu.silent = map[net.Conn]*list.Element{}, list.New()
	return c
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// drop takes the rest of a request that has its reply and whose body was not read: if the
// connection were closed under what its client still sends, the client could lose the reply.
// Meanwhile the connection counts as silent.
func (c *conns) drop(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok || control.Flush() != nil || control.SetReadDeadline(inTime(dropTime)) != nil {
		return
	}
	c.note(conn, http.StateIdle)
	_, _ = io.Copy(io.Discard, r.Body) // ends with the body, at the deadline, or when the connection makes room
}

// note is http.Server.ConnState.
func (c *conns) note(conn net.Conn, state http.ConnState) {
	if victim := c.change(conn, state); victim != nil {
		if secure, ok := victim.(*tls.Conn); ok {
			victim = secure.NetConn() // which has no alert to send, and so never waits for its client
		}
		_ = victim.Close() // there is no more to do for it
	}
}

// change notes a connection's state, and returns the connection that is to be closed for it, if
// any.
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
