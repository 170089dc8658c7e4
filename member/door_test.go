package member

import (
	"net"
	"sync"
	"testing"
)

// door is a port of this machine that stays open while its server restarts, so that no other
// process takes it.
type door struct {
	net.Listener
	mu struct {
		sync.Mutex
		to *gate
	}
}

func newDoor(t testing.TB) *door {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if !d.pass(c) {
				c.Close()
			}
		}
	}()
	return d
}

func (d *door) port() int { return d.Addr().(*net.TCPAddr).Port }

func (d *door) pass(c net.Conn) bool {
	d.mu.Lock()
	to := d.mu.to
	d.mu.Unlock()
	if to == nil {
		return false
	}
	select {
	case to.conns <- c:
		return true
	case <-to.closed:
		return false
	}
}

// open returns the listener of a process.
func (d *door) open() (net.Listener, error) {
	g := &gate{door: d, conns: make(chan net.Conn), closed: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.to = g
	return g, nil
}

// gate is the listener of a process.
type gate struct {
	door   *door
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.conns:
		return c, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

func (g *gate) Close() error {
	g.once.Do(func() {
		close(g.closed)
		g.door.mu.Lock()
		defer g.door.mu.Unlock()
		if g.door.mu.to == g {
			g.door.mu.to = nil
		}
	})
	return nil
}

func (g *gate) Addr() net.Addr { return g.door.Addr() }
