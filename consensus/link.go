package consensus

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"keyp/internal/clock"
)

// maxQueued bounds the frames that wait for a connection, in bytes; a single message may be larger.
// Beyond it messages are dropped, and the Raft library sends them again. It is more than maxUnread,
// the most bytes of entries that the library sends a follower without an answer. So entries are not
// dropped only because a follower is far away.
const maxQueued = 12 << 20

// keepBuffer is the largest buffer that a link keeps while nothing waits.
const keepBuffer = 1 << 20

// link is this member's connection to another one, for one channel.
//
// The sending goroutine itself writes as much as the system accepts without blocking. The link's
// writer writes the rest, and everything with TLS. So a follower that does not read blocks nobody.
type link struct {
	t       *Transport
	to      uint64
	addr    string
	channel Channel
	ctx     context.Context
	close   context.CancelFunc
	kick    chan struct{} // the writer has something to do

	mu struct {
		sync.Mutex
		conn    net.Conn        // nil: there is none
		direct  syscall.RawConn // to write without waiting; nil: only the writer writes
		queue   []byte          // frames whose writing has not begun
		spare   []byte          // the buffer that was written last
		rest    []byte          // of the buffer that a sender has begun to write
		writing bool            // a goroutine writes, and also writes what others add to queue
	}
}

func newLink(t *Transport, to uint64, addr string, channel Channel) *link {
	l := &link{t: t, to: to, addr: addr, channel: channel, kick: make(chan struct{}, 1)}
	l.ctx, l.close = context.WithCancel(t.ctx)
	return l
}

// put encodes a message, which flush sends. It returns false if the message is lost.
func (l *link) put(m *Message) bool {
	size := 256 + len(m.Raft.Context)
	for _, e := range m.Raft.Entries {
		size += 32 + len(e.Data)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.conn == nil {
		return false
	}
	waits := len(l.mu.queue) + len(l.mu.rest)
	if waits > 0 && waits+size > maxQueued {
		return false
	}
	var err error
	if l.mu.queue, err = AppendMessage(l.mu.queue, m); err != nil {
		l.t.o.Logger.Error("a message to another member is lost", "member", l.to, "error", err)
	}
	return err == nil
}

// flush writes as many of the waiting bytes as it can without blocking.
func (l *link) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.queue) == 0 || l.mu.writing || l.mu.conn == nil {
		return
	}
	if l.mu.direct == nil {
		l.wake()
		return
	}
	l.mu.writing = true
	for len(l.mu.queue) > 0 {
		b, direct := l.take(), l.mu.direct
		l.mu.Unlock()
		n, err := writeNow(direct, b)
		l.mu.Lock()
		if l.mu.direct != direct {
			return // that connection has ended meanwhile
		}
		if err != nil {
			l.mu.conn.Close() // this ends listen
		}
		if n < len(b) {
			l.mu.rest = b[n:]
			l.wake() // writing stays true: the writer takes over
			return
		}
		l.keep(b)
	}
	l.mu.writing = false
}

// take returns the waiting bytes, and leaves an empty queue. mu is locked.
func (l *link) take() []byte {
	b := l.mu.queue
	l.mu.queue, l.mu.spare = l.mu.spare[:0], nil
	return b
}

// keep keeps a buffer for later. mu is locked.
func (l *link) keep(b []byte) {
	if cap(b) <= keepBuffer {
		l.mu.spare = b[:0]
	}
}

func (l *link) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// writeNow writes as much as the system accepts without blocking.
func writeNow(c syscall.RawConn, b []byte) (n int, err error) {
	outer := c.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), b)
		return true // never wait and retry
	})
	if n < 0 {
		n = 0
	}
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return n, errors.Join(outer, err)
}

// run keeps a connection open.
func (l *link) run() {
	pause, warned := l.t.times.firstWait, false
	for l.ctx.Err() == nil {
		began := clock.System.Mono()
		err := l.session()
		if l.ctx.Err() != nil {
			return
		}
		if clock.System.Mono()-began > 2*l.t.times.mostWait {
			pause = l.t.times.firstWait
		}
		if errors.Is(err, ErrVersion) && l.channel == Votes && !warned {
			l.t.o.Logger.Warn("another member runs a version of Keyp that this one cannot talk to",
				"member", l.to, "address", l.addr, "error", err)
			warned = true
		}
		l.t.o.Logger.Debug("no connection to another member", "member", l.to, "address", l.addr,
			"channel", l.channel, "error", err)
		select {
		case <-time.After(pause):
		case <-l.ctx.Done():
		}
		pause = min(2*pause, l.t.times.mostWait)
	}
}

// session opens a connection, and returns when it has ended.
func (l *link) session() error {
	ctx, cancel := context.WithTimeout(l.ctx, l.t.times.shake)
	defer cancel()
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(l.ctx, func() { plain.Close() })
	defer stop()
	defer plain.Close()
	c, in, err := greetMember(ctx, &l.t.o, l.t.times.shake, plain, l.addr, l.to, l.channel)
	if err != nil {
		return err
	}
	var done sync.WaitGroup
	ended := make(chan struct{})
	l.begin(plain, c)
	done.Go(func() { l.write(plain, c, ended) })
	err = l.listen(plain, in)
	plain.Close()
	close(ended)
	done.Wait()
	l.end()
	l.t.o.Receiver.Unreachable(l.to)
	return err
}

// greetMember does the caller's side of the handshake, with TLS if it is set.
func greetMember(ctx context.Context, o *TransportOptions, shake time.Duration, plain net.Conn,
	addr string, to uint64, channel Channel) (c net.Conn, in *bufio.Reader, err error) {
	if err := plain.SetDeadline(inTime(shake)); err != nil {
		return nil, nil, err
	}
	c = plain
	if o.TLS != nil {
		cfg := o.TLS.Clone()
		if cfg.ServerName == "" {
			if cfg.ServerName, _, err = net.SplitHostPort(addr); err != nil {
				return nil, nil, err
			}
		}
		s := tls.Client(plain, cfg)
		if err := s.HandshakeContext(ctx); err != nil {
			return nil, nil, err
		}
		c = s
	} else if err := o.mayBePlain(plain); err != nil {
		return nil, nil, err
	}
	in = bufio.NewReaderSize(c, 1<<10)
	if err := Call(in, c, o.Me, to, channel, o.Secret, o.random()); err != nil {
		return nil, nil, err
	}
	return c, in, plain.SetDeadline(time.Time{})
}

// begin makes the connection available to senders.
func (l *link) begin(plain, c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.conn = plain
	if tcp, ok := c.(*net.TCPConn); ok {
		if direct, err := tcp.SyscallConn(); err == nil {
			l.mu.direct = direct
		}
	}
}

// end drops the connection and the waiting frames.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.conn, l.mu.direct, l.mu.queue, l.mu.spare, l.mu.rest, l.mu.writing = nil, nil,
		nil, nil, nil, false
}

// listen reads the other side's idle frames. It returns when they stop or the connection ends.
func (l *link) listen(plain net.Conn, in *bufio.Reader) error {
	for {
		if err := plain.SetReadDeadline(inTime(l.t.times.silence)); err != nil {
			return err
		}
		f, err := ReadFrame(in, handshakeLimit)
		if err != nil {
			return err
		}
		if f.Kind != KindIdle {
			return fmt.Errorf("%w: nothing is to be said here", ErrMessage)
		}
	}
}

// write writes the bytes that senders have left, and an idle frame at intervals.
func (l *link) write(plain, c net.Conn, ended <-chan struct{}) {
	idle := time.NewTicker(l.t.times.idle)
	defer idle.Stop()
	for {
		select {
		case <-ended:
			return
		case <-idle.C:
			l.mu.Lock()
			l.mu.queue = AppendFrame(l.mu.queue, KindIdle, 0, nil)
			l.mu.Unlock()
		case <-l.kick:
		}
		if err := l.drain(plain, c); err != nil {
			plain.Close() // which ends listen
			return
		}
	}
}

// drain writes everything that waits, unless a sender is writing.
func (l *link) drain(plain, c net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.writing && l.mu.rest == nil {
		return nil
	}
	l.mu.writing = true
	for len(l.mu.rest) > 0 || len(l.mu.queue) > 0 {
		b := l.mu.rest
		if l.mu.rest = nil; len(b) == 0 {
			b = l.take()
		}
		l.mu.Unlock()
		err := l.writeAll(plain, c, b)
		l.mu.Lock()
		if err != nil {
			return err // and writing stays true: nobody writes any more
		}
		l.keep(b)
	}
	l.mu.writing = false
	return plain.SetWriteDeadline(time.Time{})
}

// writeAll writes b in pieces, each with its own deadline: a slow connection is not a broken one.
func (l *link) writeAll(plain, c net.Conn, b []byte) error {
	const piece = 256 << 10
	for len(b) > 0 {
		if err := plain.SetWriteDeadline(inTime(l.t.times.write)); err != nil {
			return err
		}
		n, err := c.Write(b[:min(piece, len(b))])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
