package members

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"keyp/internal/testkit/await"
)

// Line is the quality of the network path from one member to another. The zero value is as fast as
// this machine.
//
// In each direction, all connections that one member has opened to another share the rate, as they
// would share a cable. A message on one of them waits while bytes of another are sent. Delays are
// drawn for each connection, so messages on different connections may overtake each other. The
// bytes of one connection stay in order, as with TCP, even if packets are delayed, lost or
// repeated.
type Line struct {
	Delay  time.Duration // of each byte, at least
	Jitter time.Duration // most that is added to that
	Rate   int           // bytes a second; 0: any number
}

const (
	// lineSlice is the time for which one connection has a line at a time.
	lineSlice = 10 * time.Millisecond
	// lineHolds is the maximum number of bytes that a connection has on its way. A sender of
	// more waits, or finds the connection full.
	lineHolds = 1 << 20
)

// cable is a line in one direction, between two members.
type cable struct {
	mu struct {
		sync.Mutex
		line Line
		free time.Time // when it has sent what was sent so far
	}
}

func (c *cable) set(l Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.line = l
}

func (c *cable) line() Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.line
}

// arrival returns the time at which data that is sent now arrives, if the cable is free.
func (c *cable) arrival(rng *rand.Rand) time.Time {
	l := c.line()
	if l.Jitter > 0 {
		l.Delay += time.Duration(rng.Int64N(int64(l.Jitter)))
	}
	return time.Now().Add(l.Delay)
}

// reserve returns how many of n bytes may be sent now, and the time at which they have been sent.
func (c *cable) reserve(n int) (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate := c.mu.line.Rate
	if rate == 0 {
		return n, time.Time{}
	}
	n = min(n, max(1, int(int64(rate)*int64(lineSlice)/int64(time.Second))))
	if now := time.Now(); c.mu.free.Before(now) {
		c.mu.free = now
	}
	c.mu.free = c.mu.free.Add(time.Duration(int64(n) * int64(time.Second) / int64(rate)))
	return n, c.mu.free
}

// parcel is the data of one read, on its way.
type parcel struct {
	bytes   []byte
	arrives time.Time
}

// carry copies the data of one side of a connection over a cable, until that side ends or the other
// one accepts no more.
func (p *Proxy) carry(to net.Conn, in io.Reader, from uint64, c *cable, rng *rand.Rand) {
	const most = 64 << 10
	way := make(chan parcel, lineHolds/most)
	var done sync.WaitGroup
	done.Go(func() {
		defer to.Close()
		for next := range way {
			await.PassUntil(next.arrives)
			if !p.deliver(to, next.bytes, from, c) {
				break
			}
		}
		for range way { // whoever reads goes on until it notices
			continue
		}
	})
	for {
		b := make([]byte, most)
		n, err := in.Read(b)
		if n > 0 {
			way <- parcel{b[:n], c.arrival(rng)}
		}
		if err != nil {
			break
		}
	}
	close(way)
	done.Wait()
}

// deliver writes data that has arrived, at the rate of the cable. It reports whether the other side
// accepts it.
func (p *Proxy) deliver(to net.Conn, b []byte, from uint64, c *cable) bool {
	for len(b) > 0 {
		n, gone := c.reserve(len(b))
		await.PassUntil(gone)
		p.open(from)
		if _, err := to.Write(b[:n]); err != nil {
			return false
		}
		b = b[n:]
	}
	return true
}
