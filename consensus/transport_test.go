package consensus

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// mailbox is a Receiver that keeps the received messages.
type mailbox struct {
	mu struct {
		sync.Mutex
		got         []*Message
		unreachable map[uint64]int
		gone        map[uint64]int
		blocked     bool
	}
	open chan struct{} // a blocked mailbox waits for it
}

func newMailbox() *mailbox {
	b := &mailbox{open: make(chan struct{})}
	b.mu.unreachable, b.mu.gone = map[uint64]int{}, map[uint64]int{}
	return b
}

func (b *mailbox) Receive(messages []*Message) {
	b.mu.Lock()
	b.mu.got = append(b.mu.got, messages...)
	blocked := b.mu.blocked
	b.mu.Unlock()
	if blocked {
		<-b.open
	}
}

func (b *mailbox) Unreachable(id uint64) {
	b.mu.Lock()
	b.mu.unreachable[id]++
	b.mu.Unlock()
}

func (b *mailbox) Gone(id uint64) {
	b.mu.Lock()
	b.mu.gone[id]++
	b.mu.Unlock()
}

func (b *mailbox) messages() []*Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.got)
}

// patient returns times that are so long that no connection ends because this machine is slow.
func patient() *times {
	p := usualTimes
	p.shake, p.write, p.silence = await.Bound, await.Bound, await.Bound
	return &p
}

// quick returns short times, for tests in which the times must run out.
func quick() *times {
	return &times{
		shake: 100 * time.Millisecond, write: 100 * time.Millisecond, idle: 20 * time.Millisecond,
		silence:   100 * time.Millisecond,
		firstWait: time.Millisecond, mostWait: 10 * time.Millisecond,
	}
}

// stand is a member's transport in a test.
type stand struct {
	*Transport
	box  *mailbox
	addr string
}

func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newStand starts a transport. change may change its options.
func newStand(t testing.TB, node uint64, change func(o *TransportOptions)) *stand {
	t.Helper()
	box := newMailbox()
	o := TransportOptions{Me: Member{Cluster: 7, Node: node}, Receiver: box,
		Secret: []byte("secret"), Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	if o.Listener == nil {
		o.Listener = listen(t, "127.0.0.1:0")
	}
	tr, err := NewTransport(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return &stand{tr, box, o.Listener.Addr().String()}
}

// raftMessage returns a message of a kind. Its index distinguishes it from others.
func raftMessage(kind pb.MessageType, from, to, index uint64, data ...[]byte) *Message {
	m := &pb.Message{Type: &kind, From: &from, To: &to, Index: &index}
	for _, d := range data {
		m.Entries = append(m.Entries, &pb.Entry{Data: d, Index: &index})
	}
	return &Message{Group: 1, Raft: m}
}

// deliver sends a message again and again, as a group does, until a message of that kind has
// arrived.
func deliver(t testing.TB, from *stand, to *stand, m *Message) {
	t.Helper()
	await.Until(t, "a message arrives", func() bool {
		from.Send(m)
		from.Flush()
		return slices.ContainsFunc(to.box.messages(), func(got *Message) bool {
			return got.Raft.GetType() == m.Raft.GetType() &&
				got.Raft.GetIndex() == m.Raft.GetIndex() &&
				slices.EqualFunc(got.Raft.Entries, m.Raft.Entries, func(a, b *pb.Entry) bool {
					return bytes.Equal(a.Data, b.Data)
				})
		})
	})
}

func certificates(t testing.TB, a *testkit.Authority, name string) *tls.Config {
	t.Helper()
	cert, key := a.Issue(name)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(a.File)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("the authority's certificate: %v", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
}

func TestTransport(t *testing.T) {
	authority := testkit.NewAuthority(t)
	for _, kind := range []struct {
		name   string
		change func(o *TransportOptions)
	}{
		{"with a secret", nil},
		{"within the machine", func(o *TransportOptions) { o.Secret = nil }},
		{"with TLS", func(o *TransportOptions) { o.TLS = certificates(t, authority, "member") }},
		{"with TLS and no secret", func(o *TransportOptions) {
			o.TLS, o.Secret = certificates(t, authority, "member"), nil
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			change := func(o *TransportOptions) {
				if kind.change != nil {
					kind.change(o)
				}
				o.times = patient()
			}
			a, b := newStand(t, 1, change), newStand(t, 2, change)
			a.SetPeers(map[uint64]string{2: b.addr})
			b.SetPeers(map[uint64]string{1: a.addr})
			deliver(t, a, b, raftMessage(pb.MsgHeartbeat, 1, 2, 1))
			deliver(t, a, b, raftMessage(pb.MsgSnap, 1, 2, 2))
			deliver(t, a, b, raftMessage(pb.MsgApp, 1, 2, 3, bytes.Repeat([]byte("x"), MaxEntry)))
			deliver(t, b, a, raftMessage(pb.MsgAppResp, 2, 1, 4))
			// The messages of one connection come in order, and none is missing while the
			// connection is there and has room. The large entry may have been sent several times.
			l := (*a.peers.Load())[2].links[Entries]
			await.Until(t, "nothing waits to be sent", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.mu.queue) == 0 && len(l.mu.rest) == 0 && !l.mu.writing
			})
			const many = 2000
			first := len(b.box.messages())
			for i := range uint64(many) {
				if !a.Send(raftMessage(pb.MsgApp, 1, 2, 100+i, []byte("entry"))) {
					t.Fatalf("message %d is lost", i)
				}
				if i%7 == 0 {
					a.Flush()
				}
			}
			a.Flush()
			var got []uint64
			await.Until(t, "all messages arrive", func() bool {
				got = nil
				for _, m := range b.box.messages()[first:] {
					if i := m.Raft.GetIndex(); m.Raft.GetType() == pb.MsgApp && i >= 100 {
						got = append(got, i)
					}
				}
				return len(got) == many
			})
			if !slices.IsSorted(got) {
				t.Errorf("they are not in order: %v", got)
			}
		})
	}
}

// TestTransportStrangers: a caller that is not a member of the cluster delivers nothing. Members
// still do.
func TestTransportStrangers(t *testing.T) {
	authority, foreign := testkit.NewAuthority(t), testkit.NewAuthority(t)
	withTLS := func(a *testkit.Authority) func(o *TransportOptions) {
		return func(o *TransportOptions) { o.TLS, o.times = certificates(t, a, "member"), quick() }
	}
	for _, kind := range []struct {
		name            string
		member, tresser func(o *TransportOptions)
	}{
		{"another secret", nil, func(o *TransportOptions) { o.Secret = []byte("guess") }},
		{"no secret", nil, func(o *TransportOptions) { o.Secret = nil }},
		{"another cluster", nil, func(o *TransportOptions) { o.Me.Cluster = 8 }},
		{"a certificate of another authority", withTLS(authority), withTLS(foreign)},
		{"no TLS", withTLS(authority), nil},
		{"no certificate", withTLS(authority), func(o *TransportOptions) {
			withTLS(authority)(o)
			o.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
				error) {
				return &tls.Certificate{}, nil
			}
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			a, b := newStand(t, 1, kind.member), newStand(t, 2, kind.member)
			b.SetPeers(map[uint64]string{1: a.addr})
			tries := 0
			stranger := newStand(t, 2, func(o *TransportOptions) {
				if kind.tresser != nil {
					kind.tresser(o)
				}
				o.times = quick()
			})
			stranger.SetPeers(map[uint64]string{1: a.addr})
			await.Until(t, "some attempts", func() bool {
				if stranger.Send(raftMessage(pb.MsgHeartbeat, 2, 1, 666)) {
					t.Fatal("a stranger has a connection")
				}
				tries++
				return tries > 50
			})
			deliver(t, b, a, raftMessage(pb.MsgHeartbeat, 2, 1, 1))
			for _, m := range a.box.messages() {
				if m.Raft.GetIndex() == 666 {
					t.Error("a stranger's message was delivered")
				}
			}
		})
	}
	o := TransportOptions{TLS: certificates(t, authority, "member")}
	o.TLS.ClientAuth = tls.VerifyClientCertIfGiven
	if _, err := NewTransport(o); err == nil {
		t.Error("TLS that asks callers for no certificate is taken")
	}
}

// call opens a connection to a member by hand, as another one.
func call(t *testing.T, to *stand, as uint64, channel Channel) (*await.Conn, *bufio.Reader) {
	t.Helper()
	c, err := await.Dial("tcp", to.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	in := bufio.NewReader(c)
	if err := Call(in, c, Member{Cluster: 7, Node: as}, to.o.Me.Node, channel, to.o.Secret,
		rand.Reader); err != nil {
		t.Fatal(err)
	}
	return c, in
}

// ends waits until the other side has closed a connection.
func ends(t *testing.T, what string, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Errorf("%s: the connection stays", what)
	}
}

// TestTransportCrowd: many silent connections do not keep a member out, and refused connections do
// not fill the log.
func TestTransportCrowd(t *testing.T) {
	var lines bytes.Buffer // written by one goroutine at a time, and read after Close
	a := newStand(t, 1, func(o *TransportOptions) {
		o.times, o.Logger = patient(), slog.New(slog.NewTextHandler(&lines, nil))
	})
	crowd := make([]net.Conn, 2*strangers)
	for i := range crowd {
		c, err := await.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd[i] = c
	}
	// The new member connects once for each channel. Each connection replaces one of the silent
	// ones.
	b := newStand(t, 2, func(o *TransportOptions) { o.times = patient() })
	b.SetPeers(map[uint64]string{1: a.addr})
	deliver(t, b, a, raftMessage(pb.MsgHeartbeat, 2, 1, 1))
	ends(t, "the oldest", crowd[0])
	for _, c := range crowd[strangers+int(Calls):] {
		if _, err := c.Write(bytes.Repeat([]byte("?"), 64)); err != nil {
			t.Fatal(err)
		}
		ends(t, "garbage", c)
	}
	a.Close()
	if n := strings.Count(lines.String(), "was refused"); n == 0 || n > strangers/4 {
		t.Errorf("%d lines for %d connections:\n%s", n, strangers, lines.String())
	}
}

// TestTransportGarbage: a connection that delivers invalid bytes is closed, and none of them are
// delivered.
func TestTransportGarbage(t *testing.T) {
	a := newStand(t, 1, nil)
	for _, c := range []struct {
		what string
		wire []byte
	}{
		{"noise", bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 100)},
		{"a frame that is too long before the handshake", le.AppendUint32(nil, MaxFrame)},
	} {
		conn, err := await.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(c.wire) // it may be closed already
		ends(t, c.what, conn)
		conn.Close()
	}
	wire := func(m *Message) []byte {
		b, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	heartbeat := wire(raftMessage(pb.MsgHeartbeat, 2, 1, 1))
	damaged := bytes.Clone(heartbeat)
	damaged[len(damaged)-1] ^= 1
	for _, c := range []struct {
		what    string
		channel Channel
		wire    []byte
	}{
		{"a damaged frame", Votes, damaged},
		{"a frame over the limit", Entries, le.AppendUint32(nil, MaxFrame+1)},
		{"a large frame among votes", Votes,
			wire(raftMessage(pb.MsgHeartbeat, 2, 1, 1, make([]byte, 5<<10)))},
		{"entries among votes", Votes, wire(raftMessage(pb.MsgApp, 2, 1, 1))},
		{"votes among entries", Entries, heartbeat},
		{"a message of another member", Votes, wire(raftMessage(pb.MsgHeartbeat, 3, 1, 1))},
		{"a message to another member", Votes, wire(raftMessage(pb.MsgHeartbeat, 2, 3, 1))},
		{"a message that no member sends", Votes, wire(raftMessage(pb.MsgHup, 2, 1, 1))},
		{"a handshake again", Votes, AppendFrame(nil, KindHello, 0, make([]byte, helloSize))},
	} {
		conn, _ := call(t, a, 2, c.channel)
		conn.Write(c.wire)
		ends(t, c.what, conn)
	}
	if got := a.box.messages(); len(got) != 0 {
		t.Errorf("%d messages were delivered: %v", len(got), got)
	}
	conn, _ := call(t, a, 2, Votes)
	conn.Write(heartbeat)
	await.Until(t, "a good message arrives", func() bool { return len(a.box.messages()) == 1 })
}

// TestTransportHalfOpen: both the caller and the called side close a connection whose other side
// has become silent, also before the handshake. A connection without messages stays open.
func TestTransportHalfOpen(t *testing.T) {
	hasty := newStand(t, 1, func(o *TransportOptions) { o.times = quick() })
	stranger, err := await.Dial("tcp", hasty.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	ends(t, "somebody who does not shake hands", stranger)
	// The test does the handshake itself, and must have time for it.
	a := newStand(t, 1, func(o *TransportOptions) {
		o.times = quick()
		o.times.shake = await.Bound
	})
	silent, _ := call(t, a, 2, Votes)
	ends(t, "a caller that is silent", silent)
	begun, _ := call(t, a, 2, Votes)
	begun.Write(AppendFrame(nil, KindIdle, 0, nil)[:frameHeader-1])
	ends(t, "a frame that is not whole", begun)

	// The called side does the handshake, and then neither reads nor writes.
	deaf := listen(t, "127.0.0.1:0")
	defer deaf.Close()
	calls := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := deaf.Accept()
			if err != nil {
				return
			}
			Answer(bufio.NewReader(c), c, Member{Cluster: 7, Node: 3}, a.o.Secret, rand.Reader)
			calls <- c
		}
	}()
	a.SetPeers(map[uint64]string{3: deaf.Addr().String()})
	for range 3 * Snapshots { // so each link has called again
		defer await.For(t, "a call", calls).Close()
	}
	await.Until(t, "the group is notified", func() bool {
		a.box.mu.Lock()
		defer a.box.mu.Unlock()
		return a.box.mu.unreachable[3] > 0
	})

	// Both sides send idle frames: the caller at intervals, the called side in return.
	a = newStand(t, 1, func(o *TransportOptions) {
		o.times = patient()
		o.times.idle = quick().idle
	})
	asked, in := call(t, a, 4, Votes)
	for range 3 {
		asked.Write(AppendFrame(nil, KindIdle, 0, nil))
		if f, err := ReadFrame(in, handshakeLimit); err != nil || f.Kind != KindIdle {
			t.Fatalf("%v, %v", f, err)
		}
	}
	called := listen(t, "127.0.0.1:0")
	defer called.Close()
	said := make(chan Kind, 3*Snapshots)
	go func() {
		for {
			c, err := called.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			Answer(in, c, Member{Cluster: 7, Node: 5}, a.o.Secret, rand.Reader)
			go func() {
				defer c.Close()
				for {
					f, err := ReadFrame(in, handshakeLimit)
					if err != nil {
						return
					}
					select {
					case said <- f.Kind:
					default:
					}
				}
			}()
		}
	}()
	a.SetPeers(map[uint64]string{5: called.Addr().String()})
	for range 3 * Snapshots {
		if k := await.For(t, "an idle frame", said); k != KindIdle {
			t.Errorf("a frame of kind %d", k)
		}
	}
}

// TestTransportSlowReader: a member that does not read blocks neither senders nor other members.
// The number of bytes that wait for it is limited.
func TestTransportSlowReader(t *testing.T) {
	authority := testkit.NewAuthority(t)
	for _, secured := range []bool{false, true} {
		with := func(o *TransportOptions) {
			if secured {
				o.TLS = certificates(t, authority, "member")
			}
		}
		a, good := newStand(t, 1, with), newStand(t, 2, with)
		slow := newStand(t, 3, with)
		slow.box.mu.blocked = true
		t.Cleanup(func() { close(slow.box.open) })
		a.SetPeers(map[uint64]string{2: good.addr, 3: slow.addr})
		deliver(t, a, good, raftMessage(pb.MsgHeartbeat, 1, 2, 1))
		entry := make([]byte, 1<<20)
		sent := 0
		await.Until(t, "no more is taken for the member that does not read", func() bool {
			if a.Send(raftMessage(pb.MsgApp, 1, 3, 2, entry)) {
				sent++
			} else if sent > 0 {
				return true
			}
			a.Flush()
			return false
		})
		l := (*a.peers.Load())[3].links[Entries]
		l.mu.Lock()
		waits := len(l.mu.queue) + len(l.mu.rest)
		l.mu.Unlock()
		if waits > maxQueued+len(entry)+1024 {
			t.Errorf("%d bytes wait", waits)
		}
		deliver(t, a, good, raftMessage(pb.MsgApp, 1, 2, 3, []byte("entry")))
		// The message uses another connection, and then blocks the reader of that connection.
		deliver(t, a, slow, raftMessage(pb.MsgHeartbeat, 1, 3, 4))
	}
}

// TestTransportReconnects: a member gets messages soon after it has come back, also at another
// address.
func TestTransportReconnects(t *testing.T) {
	a := newStand(t, 1, nil)
	b := newStand(t, 2, nil)
	a.SetPeers(map[uint64]string{2: b.addr})
	deliver(t, a, b, raftMessage(pb.MsgHeartbeat, 1, 2, 1))
	b.Close()
	await.Until(t, "the connection has ended", func() bool {
		return !a.Send(raftMessage(pb.MsgHeartbeat, 1, 2, 2))
	})
	b = newStand(t, 2, func(o *TransportOptions) { o.Listener = listen(t, b.addr) })
	deliver(t, a, b, raftMessage(pb.MsgHeartbeat, 1, 2, 3))
	moved := newStand(t, 2, nil)
	a.SetPeers(map[uint64]string{2: moved.addr})
	deliver(t, a, moved, raftMessage(pb.MsgHeartbeat, 1, 2, 4))
	a.SetPeers(nil)
	if a.Send(raftMessage(pb.MsgHeartbeat, 1, 2, 5)) {
		t.Error("a member that is no more has a connection")
	}
	// A second connection for the same member and channel replaces the first one, which the caller
	// may have lost.
	first, _ := call(t, moved, 3, Votes)
	call(t, moved, 3, Votes)
	ends(t, "the first of two connections", first)
}

// TestTransportEnds: after Close no goroutine is left, whatever the transport was doing.
func TestTransportEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		a, b := newStand(t, 1, nil), newStand(t, 2, nil)
		gone := listen(t, "127.0.0.1:0")
		gone.Close()
		a.SetPeers(map[uint64]string{2: b.addr, 3: gone.Addr().String()})
		b.SetPeers(map[uint64]string{1: a.addr})
		stranger, err := await.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		deliver(t, a, b, raftMessage(pb.MsgHeartbeat, 1, 2, 1))
		a.Close()
		b.Close()
		a.SetPeers(map[uint64]string{2: b.addr})
		stranger.Close()
	}
	await.Until(t, "all goroutines have ended", func() bool {
		return runtime.NumGoroutine() <= before
	})
}

// FuzzTransport sends a member any bytes after a handshake. The member delivers complete messages
// for itself. Anything else ends the connection.
func FuzzTransport(f *testing.F) {
	wire, err := AppendMessage(nil, raftMessage(pb.MsgHeartbeat, 2, 1, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Add(append(AppendFrame(nil, KindIdle, 0, nil), wire...))
	f.Add(AppendFrame(nil, KindProof, 0, []byte("body")))
	f.Fuzz(func(t *testing.T, wire []byte) {
		tr := &Transport{o: TransportOptions{Me: Member{Cluster: 7, Node: 1}}, times: usualTimes}
		one, other := net.Pipe()
		go io.Copy(io.Discard, other)
		defer other.Close()
		defer one.Close()
		in := bufio.NewReader(bytes.NewReader(wire))
		for {
			m, err := tr.next(one, in, 2, Votes)
			if err != nil {
				return
			}
			if m != nil && (m.Raft.GetFrom() != 2 || m.Raft.GetTo() != 1 ||
				len(m.Raft.Entries)*10 > 4<<10) {
				t.Fatalf("%v", m)
			}
		}
	})
}
