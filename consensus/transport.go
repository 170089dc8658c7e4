package consensus

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
)

// Receiver gets the messages that arrive.
type Receiver interface {
	// Receive gets messages of one member, in the order in which they came over one connection. It
	// does not keep the list.
	Receive(messages []*Message)
	// Unreachable reports that messages to a member may be lost.
	Unreachable(id uint64)
	// Gone reports that the connection over which a member sends votes and heartbeats has ended,
	// and that there is no other one.
	Gone(id uint64)
}

// TransportOptions configure a Transport.
type TransportOptions struct {
	Me       Member
	Listener net.Listener // the transport closes it
	Receiver Receiver
	Secret   []byte // of the cluster; nil: there is none
	// TLS is used by both sides, so each side needs a certificate. If it is nil, connections are
	// plain, and without a secret only those within this machine are accepted.
	TLS *tls.Config
	// Serve answers a call of another member, or of a stranger (from is 0), by writing to w. The
	// caller gets the text of an error. ctx ends when the caller has gone. If Serve is nil, calls
	// are refused.
	Serve  func(ctx context.Context, from uint64, request []byte, w io.Writer) error
	Random io.Reader    // nonces; crypto/rand.Reader if nil
	Logger *slog.Logger // slog.Default() if nil

	times *times // of tests
}

// times are the transport's timeouts and intervals.
type times struct {
	shake     time.Duration // for a connection with its handshake
	write     time.Duration // for a write
	idle      time.Duration // between idle frames
	silence   time.Duration // until a connection is closed over which no whole frame has come
	firstWait time.Duration // before the next attempt to connect, doubled each time
	mostWait  time.Duration
}

var usualTimes = times{
	shake: 5 * time.Second, write: 10 * time.Second, idle: 5 * time.Second,
	silence:   15 * time.Second,
	firstWait: 20 * time.Millisecond, mostWait: 500 * time.Millisecond,
}

const (
	// strangers bounds the connections before the end of their handshake. One more replaces the
	// oldest. A member's handshake takes a moment, so somebody who opens many connections and
	// sends nothing does not keep members out.
	strangers = 256
	// refusedEvery is the least time between two log lines about refused connections, because
	// anybody can cause them.
	refusedEvery = 10 * time.Second
	// acceptWait is how long nothing is accepted after a failure, as when there are no file
	// descriptors.
	acceptWait = 100 * time.Millisecond
	// batch bounds the messages that are received together.
	batch = 256
)

// A frame of KindIdle has no body. Each side of a connection sends one at intervals, so that the
// other side notices if it has gone.

// Transport is a Network of TCP connections.
type Transport struct {
	o     TransportOptions
	times times
	peers atomic.Pointer[map[uint64]*remote]
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu struct {
		sync.Mutex
		conns map[net.Conn]struct{} // those that others have opened
		// Those whose other side has proved nothing yet, the oldest first.
		strangers []net.Conn
		ins       map[inKey]net.Conn // and the newest of each member, once it has shaken hands
		calls     map[uint64]int     // being answered, by the calling member
		refused   int                // since the log has said so
		said      time.Duration      // when that was; 0: never
	}
}

type inKey struct {
	from    uint64
	channel Channel
}

// remote is another member.
type remote struct {
	addr  string
	links [Snapshots + 1]*link // by channel
}

// NewTransport begins to accept connections. SetPeers makes it open connections to members.
func NewTransport(o TransportOptions) (*Transport, error) {
	if o.TLS != nil && (o.TLS.ClientAuth != tls.RequireAndVerifyClientCert ||
		o.TLS.InsecureSkipVerify) {
		return nil,
			errors.New("consensus: TLS between members needs certificates of both sides, which are checked")
	}
	t := &Transport{o: o, times: usualTimes}
	if o.times != nil {
		t.times = *o.times
	}
	if t.o.Logger == nil {
		t.o.Logger = slog.Default()
	}
	t.mu.conns, t.mu.ins, t.mu.calls = map[net.Conn]struct{}{}, map[inKey]net.Conn{},
		map[uint64]int{}
	t.peers.Store(&map[uint64]*remote{})
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.done.Go(t.accept)
	return t, nil
}

func (o *TransportOptions) random() io.Reader {
	if o.Random == nil {
		return rand.Reader
	}
	return o.Random
}

// SetPeers sets the other members and their addresses. It closes the connections to members that
// are no longer among them. SetPeers and Close must be called by the same goroutine.
func (t *Transport) SetPeers(addrs map[uint64]string) {
	before, after := *t.peers.Load(), map[uint64]*remote{}
	for id, addr := range addrs {
		if r := before[id]; r != nil && r.addr == addr {
			after[id] = r
		} else if id != t.o.Me.Node && t.ctx.Err() == nil {
			after[id] = t.connect(id, addr)
		}
	}
	t.peers.Store(&after)
	for id, r := range before {
		if after[id] != r {
			r.close()
		}
	}
}

func (t *Transport) connect(id uint64, addr string) *remote {
	r := &remote{addr: addr}
	for channel := Votes; channel <= Snapshots; channel++ {
		l := newLink(t, id, addr, channel)
		r.links[channel] = l
		t.done.Go(l.run)
	}
	return r
}

func (r *remote) close() {
	for _, l := range r.links[Votes:] {
		l.close()
	}
}

// Send queues a message for Flush. It returns false if the message is lost, because there is no
// connection or too much waits for it.
func (t *Transport) Send(m *Message) bool {
	channel, ok := channelOf(m.Raft.GetType())
	r := (*t.peers.Load())[m.Raft.GetTo()]
	return ok && r != nil && r.links[channel].put(m)
}

// Flush sends as many of the queued messages as it can without blocking. The links' writers send
// the remaining ones.
func (t *Transport) Flush() {
	for _, r := range *t.peers.Load() {
		for _, l := range r.links[Votes:] {
			l.flush()
		}
	}
}

// Close ends all connections, and returns when all goroutines of the transport have ended.
func (t *Transport) Close() error {
	t.stop()
	err := t.o.Listener.Close()
	for _, r := range *t.peers.Load() {
		r.close()
	}
	t.mu.Lock()
	for c := range t.mu.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.done.Wait()
	return err
}

// inTime returns the instant after d, for deadlines.
func inTime(d time.Duration) time.Time { return time.UnixMilli(clock.System.Now()).Add(d) }

// accept takes connections of others.
func (t *Transport) accept() {
	for {
		c, err := t.o.Listener.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			t.o.Logger.Warn("no connection of another member can be accepted", "error", err)
			select {
			case <-time.After(acceptWait):
			case <-t.ctx.Done():
				return
			}
			continue
		}
		if t.admit(c) {
			t.done.Go(func() { t.serve(c) })
		}
	}
}

// admit notes a connection, so that Close ends it.
func (t *Transport) admit(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		c.Close()
		return false
	}
	if len(t.mu.strangers) == strangers {
		t.mu.strangers[0].Close() // a member tries again
		t.mu.strangers = slices.Delete(t.mu.strangers, 0, 1)
	}
	t.mu.strangers = append(t.mu.strangers, c)
	t.mu.conns[c] = struct{}{}
	return true
}

// greeted removes a connection from the strangers after its handshake.
func (t *Transport) greeted(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.mu.strangers, c); i >= 0 {
		t.mu.strangers = slices.Delete(t.mu.strangers, i, i+1)
	}
}

// refuse logs that a connection ended during its handshake, at most once in refusedEvery.
func (t *Transport) refuse(c net.Conn, err error) {
	now := clock.System.Mono()
	t.mu.Lock()
	t.mu.refused++
	n := t.mu.refused
	if t.mu.said != 0 && now-t.mu.said < refusedEvery {
		t.mu.Unlock()
		return
	}
	t.mu.refused, t.mu.said = 0, now
	t.mu.Unlock()
	t.o.Logger.Info("a connection to the port for members was refused", "address", c.RemoteAddr(),
		"error", err, "refused", n)
}

// serve receives messages or a call over a connection that another member has opened.
func (t *Transport) serve(c net.Conn) {
	secured, in, from, channel, err := t.greet(c)
	t.greeted(c)
	known := err == nil
	if known {
		err = t.receive(c, secured, in, from, channel)
	}
	c.Close()
	gone := false
	t.mu.Lock()
	delete(t.mu.conns, c)
	for key, other := range t.mu.ins {
		if other == c {
			gone = gone || key.channel == Votes
			delete(t.mu.ins, key)
		}
	}
	t.mu.Unlock()
	if gone && t.ctx.Err() == nil {
		t.o.Receiver.Gone(from)
	}
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
	case !known:
		t.refuse(c, err)
	default:
		t.o.Logger.Info("a connection of another member has ended", "address", c.RemoteAddr(),
			"member", from, "error", err)
	}
}

// receive receives another member's messages, or its call, until the connection ends.
func (t *Transport) receive(c, secured net.Conn, in *bufio.Reader, from uint64,
	channel Channel) error {
	if channel == Calls {
		return t.answer(c, secured, in, from)
	}
	key := inKey{from, channel}
	t.mu.Lock()
	old := t.mu.ins[key]
	t.mu.ins[key] = c
	t.mu.Unlock()
	if old != nil { // the other side has lost it
		old.Close()
	}
	var messages []*Message
	for {
		if err := c.SetReadDeadline(inTime(t.times.silence)); err != nil {
			return err
		}
		messages = messages[:0]
		for {
			m, err := t.next(secured, in, from, channel)
			if err != nil {
				return err
			}
			if m != nil {
				messages = append(messages, m)
			}
			if len(messages) == batch || !Whole(in) {
				break
			}
		}
		if len(messages) > 0 {
			t.o.Receiver.Receive(messages)
			clear(messages)
		}
	}
}

// greet does the called side's part of a handshake, with TLS if it is set.
func (t *Transport) greet(
	c net.Conn) (secured net.Conn, in *bufio.Reader, from uint64, channel Channel, err error) {
	if err := c.SetDeadline(inTime(t.times.shake)); err != nil {
		return nil, nil, 0, 0, err
	}
	secured = c
	if t.o.TLS != nil {
		s := tls.Server(c, t.o.TLS)
		if err := s.HandshakeContext(t.ctx); err != nil {
			return nil, nil, 0, 0, err
		}
		secured = s
	} else if err := t.o.mayBePlain(c); err != nil {
		return nil, nil, 0, 0, err
	}
	in = bufio.NewReaderSize(secured, 1<<10)
	if from, channel, err = Answer(in, secured, t.o.Me, t.o.Secret, t.o.random()); err != nil {
		return nil, nil, from, channel, err
	}
	if channel == Entries { // much comes at once
		in = bufio.NewReaderSize(in, 256<<10)
	}
	return secured, in, from, channel, c.SetDeadline(time.Time{})
}

// mayBePlain returns an error for a connection without a secret and TLS, unless both ends are on
// this machine.
func (o *TransportOptions) mayBePlain(c net.Conn) error {
	if len(o.Secret) == 0 && !MayBePlain(c.LocalAddr(), c.RemoteAddr()) {
		return errors.New("consensus: without a secret or TLS members talk within one machine only")
	}
	return nil
}

// next reads a frame and returns its message. It answers an idle frame, and returns nil for it.
func (t *Transport) next(c net.Conn, in *bufio.Reader, from uint64,
	channel Channel) (*Message, error) {
	f, err := ReadFrame(in, frameLimit(channel))
	if err != nil {
		return nil, err
	}
	if f.Kind == KindIdle {
		if err := c.SetWriteDeadline(inTime(t.times.write)); err != nil {
			return nil, err
		}
		return nil, writeFrame(c, KindIdle, nil)
	}
	m, err := ParseMessage(f)
	if err != nil {
		return nil, err
	}
	if on, ok := channelOf(m.Raft.GetType()); !ok || on != channel || m.Raft.GetFrom() != from ||
		m.Raft.GetTo() != t.o.Me.Node {
		return nil, fmt.Errorf("%w: it is not for this connection", ErrMessage)
	}
	return m, nil
}

// frameLimit returns the longest frame of a channel. Messages on Votes have no entries.
func frameLimit(channel Channel) int {
	if channel == Votes {
		return 4 << 10
	}
	return MaxFrame
}
