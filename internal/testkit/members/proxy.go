package members

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"

	"keyp/consensus"
	"keyp/internal/testkit/await"
)

// Proxy forwards the connections of other members to one member. It learns from the first frame of
// a connection which member opened it.
type Proxy struct {
	port   int
	target string
	seed   uint64
	mu     struct {
		sync.Mutex
		cuts   map[uint64]bool
		healed chan struct{} // closed when there are no cuts any more
		conns  map[net.Conn]uint64
		cables map[cableKey]*cable
		conn   uint64 // the number of the last connection's direction
	}
}

// cableKey identifies one direction of the connections that a member opens: its own messages, or
// the answers to it.
type cableKey struct {
	from    uint64
	answers bool
}

// newProxy starts a proxy for a port of this machine. It runs until the test ends.
func newProxy(t testing.TB, port int, seed uint64) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{port: l.Addr().(*net.TCPAddr).Port,
		target: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), seed: seed}
	p.mu.cuts, p.mu.conns, p.mu.healed = map[uint64]bool{}, map[net.Conn]uint64{},
		make(chan struct{})
	p.mu.cables = map[cableKey]*cable{}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.heal()
		p.mu.Lock()
		for c := range p.mu.conns {
			c.Close()
		}
		p.mu.Unlock()
		done.Wait()
	})
	return p
}

// cut stops all data from a member, and the answers to it.
func (p *Proxy) cut(from uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.cuts[from] = true
}

// heal ends all cuts. It closes the connections that were cut, since a network does not keep lost
// data.
func (p *Proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, from := range p.mu.conns {
		if p.mu.cuts[from] {
			c.Close()
		}
	}
	clear(p.mu.cuts)
	close(p.mu.healed)
	p.mu.healed = make(chan struct{})
}

// cable returns the cable for a direction of a member's connections.
func (p *Proxy) cable(key cableKey) *cable {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.cables[key] == nil {
		p.mu.cables[key] = &cable{}
	}
	return p.mu.cables[key]
}

// dice returns the random numbers for one direction of the next connection. Runs with the same seed
// and the same number of earlier connections get the same numbers.
func (p *Proxy) dice() *rand.Rand {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.conn++
	return rand.New(rand.NewPCG(p.seed, p.mu.conn))
}

// open waits while a member is cut off.
func (p *Proxy) open(from uint64) {
	for {
		p.mu.Lock()
		is, healed := p.mu.cuts[from], p.mu.healed
		p.mu.Unlock()
		if !is {
			return
		}
		<-healed
	}
}

// pass forwards a connection in both directions.
func (p *Proxy) pass(caller net.Conn) {
	defer caller.Close()
	in := bufio.NewReader(caller)
	p.note(caller, 0)
	defer p.forget(caller)
	f, err := consensus.ReadFrame(in, 1<<10)
	if err != nil || f.Kind != consensus.KindHello || len(f.Body) < 18 {
		return
	}
	from := binary.LittleEndian.Uint64(f.Body[10:])
	p.note(caller, from)
	p.open(from)
	called, err := await.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer called.Close()
	p.note(called.Conn, from)
	defer p.forget(called.Conn)
	var both sync.WaitGroup
	first := consensus.AppendFrame(nil, f.Kind, f.Group, f.Body)
	says, answered := p.cable(cableKey{from, false}), p.cable(cableKey{from, true})
	there, back := p.dice(), p.dice()
	both.Go(func() {
		p.carry(called.Conn, io.MultiReader(bytes.NewReader(first), in), from, says, there)
	})
	both.Go(func() { p.carry(caller, called.Conn, from, answered, back) })
	both.Wait()
}

func (p *Proxy) note(c net.Conn, from uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.conns[c] = from
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, c)
}
