package consensus

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"

	"keyp/internal/testkit/await"
)

// outcome is how a handshake ended for both sides.
type outcome struct {
	call, answer error
	from         uint64
	channel      Channel
}

// dice returns a source of reproducible nonces.
func dice(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// shake runs a handshake of two members. on gets each frame, in order, and may change its body. It
// is called by one side at a time.
func shake(caller, called Member, to uint64, callersSecret, calledsSecret string,
	on func(n int, body []byte)) (o outcome) {
	a, b := net.Pipe()
	n := 0
	end := func(c net.Conn) *meddler {
		return &meddler{Conn: c, on: func(body []byte) { n++; on(n, body) }}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.from, o.channel, o.answer = Answer(bufio.NewReader(b), end(b), called,
			[]byte(calledsSecret), dice(2))
		b.Close()
	}()
	o.call = Call(bufio.NewReader(a), end(a), caller, to, Entries, []byte(callersSecret), dice(1))
	a.Close()
	<-done
	return o
}

// meddler changes the frames that are written, and makes their checksums fit.
type meddler struct {
	net.Conn
	on func(body []byte)
}

func (m *meddler) Write(b []byte) (int, error) {
	b = bytes.Clone(b)
	m.on(b[frameHeader:])
	return m.Conn.Write(sealFrame(b, 0))
}

var (
	one, two = Member{Cluster: 7, Node: 1}, Member{Cluster: 7, Node: 2}
	asItIs   = func(int, []byte) {}
)

func TestHandshake(t *testing.T) {
	for _, c := range []struct {
		name           string
		caller, called Member
		to             uint64
		callers        string
		calleds        string
		call, answer   error
	}{
		{"a secret", one, two, 2, "secret", "secret", nil, nil},
		{"no secret", one, two, 2, "", "", nil, nil},
		{"another secret", one, two, 2, "secret", "Secret", io.EOF, ErrSecret},
		{"the caller has none", one, two, 2, "", "secret", io.EOF, ErrSecret},
		{"the called has none", one, two, 2, "secret", "", io.EOF, ErrSecret},
		{"another member is meant", one, two, 3, "secret", "secret", io.EOF, ErrMember},
		{"another cluster", Member{Cluster: 8, Node: 1}, two, 2, "secret", "secret",
			io.EOF, ErrMember},
		{"a member calls itself", two, two, 2, "secret", "secret", io.EOF, ErrMember},
	} {
		o := shake(c.caller, c.called, c.to, c.callers, c.calleds, asItIs)
		if !errors.Is(o.call, c.call) || !errors.Is(o.answer, c.answer) {
			t.Errorf("%s: the caller has %v, the called %v", c.name, o.call, o.answer)
		}
		if c.answer == nil && (o.from != c.caller.Node || o.channel != Entries) {
			t.Errorf("%s: member %d calls for channel %d", c.name, o.from, o.channel)
		}
	}
}

// TestPropertyHandshakeChanged changes any bit of a frame, and its checksum. The handshake fails
// for the side that gets this frame, or for the one that gets the next.
func TestPropertyHandshakeChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := rapid.IntRange(1, 4).Draw(t, "frame")
		o := shake(one, two, 2, "secret", "secret", func(n int, body []byte) {
			if n == frame {
				bit := rapid.IntRange(0, 8*len(body)-1).Draw(t, "bit")
				body[bit/8] ^= 1 << (bit % 8)
			}
		})
		if o.call == nil || frame < 4 && o.answer == nil {
			t.Fatalf("frame %d is changed: the caller has %v, the called %v", frame,
				o.call, o.answer)
		}
	})
}

// TestHandshakeReplayed: a recorded handshake does not succeed again, because the called side uses
// another nonce.
func TestHandshakeReplayed(t *testing.T) {
	var sent [][]byte
	shake(one, two, 2, "secret", "secret", func(n int, body []byte) {
		sent = append(sent, bytes.Clone(body))
	})
	if len(sent) != 4 {
		t.Fatalf("%d frames", len(sent))
	}
	wire := AppendFrame(AppendFrame(nil, KindHello, 0, sent[0]), KindProof, 0, sent[2])
	for seed, want := range map[byte]error{2: nil, 3: ErrSecret} { // with the same nonce it would
		_, _, err := Answer(bufio.NewReader(bytes.NewReader(wire)), io.Discard, two,
			[]byte("secret"), dice(seed))
		if !errors.Is(err, want) {
			t.Errorf("nonce %d: %v", seed, err)
		}
	}
}

// TestHandshakeReflected: a caller refuses its own proof if the other side sends it back.
func TestHandshakeReflected(t *testing.T) {
	var sent [][]byte
	shake(one, two, 2, "secret", "secret", func(n int, body []byte) {
		sent = append(sent, bytes.Clone(body))
	})
	wire := AppendFrame(AppendFrame(nil, KindAnswer, 0, sent[1]), KindProof, 0, sent[2])
	err := Call(bufio.NewReader(bytes.NewReader(wire)), io.Discard, one, 2, Entries,
		[]byte("secret"), dice(1))
	if !errors.Is(err, ErrSecret) {
		t.Errorf("the caller has %v", err)
	}
}

// TestHandshakeBounds: a stranger cannot make a member allocate memory for a large frame, or accept
// a message as a hello.
func TestHandshakeBounds(t *testing.T) {
	for _, c := range []struct {
		wire []byte
		want error
	}{
		{AppendFrame(nil, KindHello, 0, make([]byte, handshakeLimit)), ErrFrame},
		{AppendFrame(nil, KindMessage, 0, make([]byte, helloSize)), ErrVersion},
		{AppendFrame(nil, KindHello, 0, make([]byte, helloSize-1)), ErrVersion},
		{AppendFrame(nil, KindHello, 0, make([]byte, helloSize)), ErrVersion},
	} {
		_, _, err := Answer(bufio.NewReader(bytes.NewReader(c.wire)), io.Discard, two, nil, dice(2))
		if !errors.Is(err, c.want) {
			t.Errorf("%d bytes: %v", len(c.wire), err)
		}
	}
}

// TestHandshakeVersions: two members with different versions learn each other's version, whichever
// of them calls. Neither sends a proof.
func TestHandshakeVersions(t *testing.T) {
	hello := func(version byte, size int) []byte {
		return append([]byte{version}, make([]byte, size-1)...)
	}
	for _, c := range []struct {
		name, words string
		hello       []byte
	}{
		{"a newer caller", "another version of the protocol: 2, and this one 1",
			hello(2, helloSize)},
		{"an older caller", "another version of the protocol: 0, and this one 1",
			hello(0, helloSize)},
		{"a newer caller that says more", "another version of the protocol",
			hello(2, helloSize+16)},
		{"an older caller that says less", "another version of the protocol",
			hello(0, helloSize-16)},
	} {
		var answer bytes.Buffer
		_, _,
			err := Answer(bufio.NewReader(bytes.NewReader(AppendFrame(nil, KindHello, 0, c.hello))),
			&answer, two, []byte("secret"), dice(2))
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.name, err)
		}
		if want := AppendFrame(nil, KindAnswer, 0, []byte{protocolVersion}); !bytes.Equal(
			answer.Bytes(), want) {
			t.Errorf("%s: the answer is %q", c.name, answer.Bytes())
		}
	}
	for _, c := range []struct {
		name, words string
		answer      []byte
	}{
		{"the called says its version", "another version of the protocol: 2, and this one 1",
			[]byte{2}},
		{"the called says more", "another version of the protocol", make([]byte, answerSize+8)},
		{"the called says less", "another version of the protocol", make([]byte, answerSize-8)},
	} {
		var said bytes.Buffer
		wire := AppendFrame(AppendFrame(nil, KindAnswer, 0, c.answer), KindProof, 0,
			make([]byte, sha256.Size))
		err := Call(bufio.NewReader(bytes.NewReader(wire)), &said, one, 2, Entries,
			[]byte("secret"), dice(1))
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.name, err)
		}
		if f, err := ReadFrame(bufio.NewReader(&said), handshakeLimit); err != nil ||
			f.Kind != KindHello || said.Len() > 0 {
			t.Errorf("%s: the caller goes on after %v (%v)", c.name, f, err)
		}
	}
	o := shake(one, two, 2, "secret", "secret", func(n int, body []byte) {
		if n == 1 {
			body[0] = 2
		}
	})
	if !errors.Is(o.call, ErrVersion) || !errors.Is(o.answer, ErrVersion) {
		t.Errorf("the caller has %v, the called %v", o.call, o.answer)
	}
}

// TestTransportVersions: a member refuses another one with a different version, whichever of them
// calls. It logs that, and delivers none of its messages. Its other connections still work.
func TestTransportVersions(t *testing.T) {
	var lines logLines
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	newer := listen(t, "127.0.0.1:0")
	defer newer.Close()
	go func() { // it takes calls, and says which version it has
		for {
			c, err := newer.Accept()
			if err != nil {
				return
			}
			if _, err := ReadFrame(bufio.NewReader(c), handshakeLimit); err == nil {
				_ = writeFrame(c, KindAnswer, []byte{2})
			}
			c.Close()
		}
	}()
	a := newStand(t, 1, func(o *TransportOptions) {
		o.times, o.Logger = quick(), logger
		o.times.shake = await.Bound // the test shakes hands itself
	})
	b := newStand(t, 2, func(o *TransportOptions) { o.times = quick() })
	a.SetPeers(map[uint64]string{2: b.addr, 3: newer.Addr().String()})
	await.Until(t, "the caller's log says so", func() bool {
		return strings.Contains(lines.String(),
			"another member runs a version of Keyp that this one cannot talk to") &&
			strings.Contains(lines.String(), "member=3") && strings.Contains(lines.String(),
			"another version of the protocol: 2, and this one 1")
	})
	c, err := await.Dial("tcp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := le.AppendUint64(le.AppendUint64(le.AppendUint64([]byte{2, byte(Entries)}, 7), 3), 1)
	if err := writeFrame(c, KindHello, append(hello, make([]byte, nonceSize)...)); err != nil {
		t.Fatal(err)
	}
	m, err := AppendMessage(nil, raftMessage(pb.MsgApp, 3, 1, 5, []byte("data")))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(m) // which may have ended
	in := bufio.NewReader(c)
	if f, err := ReadFrame(in, handshakeLimit); err != nil || f.Kind != KindAnswer ||
		!bytes.Equal(f.Body, []byte{protocolVersion}) {
		t.Errorf("the answer is %v, %v", f, err)
	}
	if _, err := ReadFrame(in, handshakeLimit); err == nil {
		t.Error("the connection goes on")
	}
	await.Until(t, "the log of who was called says so", func() bool {
		return strings.Contains(lines.String(),
			"a connection to the port for members was refused") && strings.Count(lines.String(),
			"another version of the protocol: 2, and this one 1") >= 2
	})
	deliver(t, a, b, raftMessage(pb.MsgApp, 1, 2, 6, []byte("data")))
	if got := a.box.messages(); len(got) > 0 {
		t.Errorf("a member takes %v from one of another version", got)
	}
	if n := strings.Count(lines.String(), "cannot talk to"); n != 1 {
		t.Errorf("the log says %d times that a member cannot be talked to", n)
	}
}

func TestMayBePlain(t *testing.T) {
	ip := func(s string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(s)} }
	for _, c := range []struct {
		local, remote net.Addr
		want          bool
	}{
		{ip("127.0.0.1"), ip("127.0.0.2"), true},
		{ip("::1"), ip("::1"), true},
		{ip("::ffff:127.0.0.1"), ip("127.0.0.1"), true},
		{ip("127.0.0.1"), ip("10.0.0.1"), false},
		{ip("10.0.0.1"), ip("127.0.0.1"), false},
		{ip("0.0.0.0"), ip("0.0.0.0"), false},
		{&net.IPAddr{IP: net.ParseIP("127.0.0.1")}, ip("127.0.0.1"), false},
	} {
		if got := MayBePlain(c.local, c.remote); got != c.want {
			t.Errorf("%v and %v: %v", c.local, c.remote, got)
		}
	}
}
