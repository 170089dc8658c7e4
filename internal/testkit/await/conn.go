package await

import (
	"net"
	"sync/atomic"
	"time"
)

// Conn is a connection on which each Read and each Write fails after Bound. Listen sets another
// time limit for reads, and Patient restores Bound.
type Conn struct {
	net.Conn
	ownRead atomic.Bool
}

// Dial connects to addr and waits for Bound at most.
func Dial(network, addr string) (*Conn, error) {
	conn, err := net.DialTimeout(network, addr, Bound)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn}, nil
}

func (c *Conn) Read(b []byte) (int, error) {
	if !c.ownRead.Load() {
		if err := c.Conn.SetReadDeadline(time.Now().Add(Bound)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

func (c *Conn) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(Bound)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Listen makes reads fail after d, for tests that expect nothing to come. Data that comes later is
// missed, but no correct test fails. Patient ends that.
func (c *Conn) Listen(d time.Duration) error {
	c.ownRead.Store(true)
	return c.Conn.SetReadDeadline(time.Now().Add(d))
}

// Patient makes reads wait for Bound again.
func (c *Conn) Patient() { c.ownRead.Store(false) }

// CloseWrite closes the direction to the other side.
func (c *Conn) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }
