package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"keyp/internal/config"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// startTLS runs a server with a plain listener and one with TLS.
func startTLS(t *testing.T, a *testkit.Authority, settings ...setting) *testServer {
	t.Helper()
	return start(t, append([]setting{withTLS{"127.0.0.1", a.ServerArgs()}}, settings...)...)
}

// tlsAddr returns the address of the TLS listener.
func (ts *testServer) tlsAddr() string { return ts.Addrs()[1] }

// dialTLS connects and performs the handshake.
func (ts *testServer) dialTLS(cfg *tls.Config) (*client, error) {
	ts.t.Helper()
	c := dial(ts.t, "tcp", ts.tlsAddr())
	conn := tls.Client(c.Conn.Conn, cfg)
	return newClient(ts.t, conn, 1<<16), conn.HandshakeContext(await.Context(ts.t))
}

func (ts *testServer) mustDialTLS(cfg *tls.Config) *client {
	ts.t.Helper()
	c, err := ts.dialTLS(cfg)
	if err != nil {
		ts.t.Fatal(err)
	}
	return c
}

// descriptors counts the sockets of this process.
func descriptors(t *testing.T) (sockets int) {
	const dir = "/proc/self/fd/"
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Skip("descriptors cannot be counted here")
	}
	for _, fd := range list {
		if to, err := os.Readlink(dir + fd.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return sockets
}

func TestTLSServes(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			cfg := a.Trust()
			cfg.MinVersion, cfg.MaxVersion = version, version
			c := ts.mustDialTLS(cfg)
			if got := c.do("PING"); got != "+PONG" {
				t.Fatal(got)
			}
			info := c.do("CLIENT INFO")
			if !strings.Contains(info, " laddr="+ts.tlsAddr()+" ") ||
				!strings.Contains(info, " addr="+c.LocalAddr().String()+" ") {
				t.Error(info)
			}
			// A pipeline longer than a record, and its replies in order.
			const n = 2000
			var b strings.Builder
			for i := range n {
				b.WriteString(multibulk("ECHO", fmt.Sprint(i)))
			}
			go c.raw(b.String())
			for i := range n {
				c.expect(fmt.Sprint(i))
			}
			big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MB
			go c.raw(multibulk("SET", "big", big) + multibulk("GET", "big"))
			c.expect("+OK", big)
		})
	}
	if info := ts.dial().do("INFO server"); !strings.Contains(info,
		"listener1:name=tls,bind="+ts.tlsAddr()) {
		t.Error(info)
	}
}

// TestTLSMemoryDuringHandshake: the memory of a client can be requested at any time, although only
// the handshake's goroutine may use the wire until the handshake has ended.
func TestTLSMemoryDuringHandshake(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a)
	s := ts.sessionOf(ts.dial())
	ts.onLoop(func(*loop) {
		plain := s.Memory()
		s.tls = &secure{greet: &greeting{}}
		before := s.Memory()
		s.tls.wire.out = make([]byte, 50_000) // as the goroutine may do meanwhile
		if after := s.Memory(); after != before || before <= plain {
			t.Errorf("%d bytes without TLS, %d in a handshake, %d when that has written",
				plain, before, after)
		}
		s.tls = nil
	})
	done := make(chan struct{})
	go func() { // for the race detector
		defer close(done)
		for range 20 {
			if c, err := tls.Dial("tcp", ts.tlsAddr(), a.Trust()); err == nil {
				_ = c.Close()
			}
		}
	}()
	for lists := ts.dial(); ; {
		lists.do("CLIENT LIST")
		select {
		case <-done:
			return
		default:
		}
	}
}

// TestTLSHalfClose: a client that closes its own side still gets its replies, and then the server's
// close_notify.
func TestTLSHalfClose(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a)
	c := ts.mustDialTLS(a.Trust())
	c.send("SET k v\nGET k\n")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.expect("+OK", "v", "(eof)")
	c = ts.mustDialTLS(a.Trust())
	c.send("PING\nQUIT\nPING\n")
	c.expect("+PONG", "+OK", "(eof)")
}

// TestTLSSlowReader: a client that does not read stalls only its own commands, which go on when it
// reads. Nothing is lost or mixed up.
func TestTLSSlowReader(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a)
	other := ts.dial()
	value := strings.Repeat("v", 100_000)
	other.raw(multibulk("SET", "k", value))
	other.expect("+OK")
	c := ts.mustDialTLS(a.Trust())
	const n = 120
	c.raw(strings.Repeat("GET k\r\n", n))
	await.Until(t, "the session stalls", func() bool {
		stalled := false
		ts.onLoop(func(l *loop) {
			for _, s := range l.sessions {
				if s != nil && s.tls != nil {
					stalled = s.stalled && s.full
					if sealed := len(s.tls.wire.out) - s.tls.wire.sent; sealed > maxSealed {
						t.Errorf("%d bytes are sealed", sealed)
					}
				}
			}
		})
		return stalled
	})
	if got := other.do("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	for range n {
		c.expect(value)
	}
}

// TestTLSOutputLimit: unread output counts as on a plain connection.
func TestTLSOutputLimit(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a, "client-output-buffer-limit=normal 10mb 0 0")
	other := ts.dial()
	other.raw(multibulk("SET", "k", strings.Repeat("v", 8<<20)))
	other.expect("+OK")
	c := ts.mustDialTLS(a.Trust())
	c.raw(strings.Repeat("GET k\r\n", 4) + "MGET k k\r\n")
	if n, err := io.Copy(io.Discard, c); n >= 6*8<<20 {
		t.Errorf("%d bytes came, %v", n, err)
	}
	if !strings.Contains(ts.log.String(), "client-output-buffer-limit") {
		t.Error("the log does not say why")
	}
}

func TestTLSClientCertificates(t *testing.T) {
	a, stranger := testkit.NewAuthority(t), testkit.NewAuthority(t)
	cert, key := a.Issue("client")
	foreignCert, foreignKey := stranger.Issue("client")
	right, none := a.Trust(cert, key), a.Trust()
	wrong := a.Trust()
	wrong.Certificates = stranger.Trust(foreignCert, foreignKey).Certificates
	// The client shows its certificate even though the server does not name the authority.
	wrong.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &wrong.Certificates[0], nil
	}
	for _, tt := range []struct {
		option             string
		right, wrong, none bool
	}{{"no", true, true, true}, {"yes", true, false, false}, {"optional", true, false, true}} {
		ts := startTLS(t, a, "tls-auth-clients="+tt.option)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, try := range []struct {
				name string
				cfg  *tls.Config
				want bool
			}{{"right", right, tt.right}, {"wrong", wrong, tt.wrong}, {"none", none, tt.none}} {
				cfg := try.cfg.Clone()
				cfg.MinVersion, cfg.MaxVersion = version, version
				c, err := ts.dialTLS(cfg)
				got := "+PONG"
				if err == nil {
					got = c.do("PING")
				} else {
					got = err.Error()
				}
				if (got == "+PONG") != try.want || got != "+PONG" && !strings.Contains(got,
					"remote error: tls: ") {
					t.Errorf("tls-auth-clients %s, %s, certificate %s: %s", tt.option,
						tls.VersionName(version), try.name, got)
				}
			}
		}
		if got := ts.dial().do("PING"); got != "+PONG" {
			t.Error(got)
		}
	}
}

// TestTLSBadHandshakes: input that is no handshake ends its connection and leaves nothing behind.
// The server logs this, but not too often.
func TestTLSBadHandshakes(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a)
	ts.mustDialTLS(a.Trust()).do("PING")
	files, routines := descriptors(t), runtime.NumGoroutine()
	var conns []*client
	for i := range 200 {
		c := dial(t, "tcp", ts.tlsAddr())
		switch i % 5 {
		case 0: // says nothing, and goes
		case 1:
			c.raw("PING\r\n")
		case 2:
			c.raw("\x16\x03\x01\x02\x00\x01\x00") // begins, and goes
		case 3:
			c.raw("\x16\x03\x01\x40\x00" + strings.Repeat("\xff", 100))
		case 4:
			c.raw("\x80\x2e\x01\x00\x02" + strings.Repeat("\x00", 50))
		}
		conns = append(conns, c)
	}
	for i, c := range conns {
		if i%5 == 1 || i%5 == 4 {
			if _, err := io.Copy(io.Discard, c); err != nil &&
				!strings.Contains(err.Error(), "reset") {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	await.Until(t, "nothing is left", func() bool {
		return descriptors(t) <= files && runtime.NumGoroutine() <= routines
	})
	if n := strings.Count(ts.log.String(), "level=WARN msg=\"a TLS handshake failed\""); n == 0 ||
		n > 20 {
		t.Errorf("%d lines in the log", n)
	}
	if got := ts.mustDialTLS(a.Trust()).do("PING"); got != "+PONG" {
		t.Error(got)
	}
}

// TestTLSGreetingTime: a connection that does not finish its handshake counts as a client, is
// listed as one, and is dropped after a time limit.
func TestTLSGreetingTime(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a, "maxclients=3")
	plain := ts.dial()
	plain.do("PING")
	slow := []*client{dial(t, "tcp", ts.tlsAddr()), dial(t, "tcp", ts.tlsAddr())}
	slow[1].raw("\x16\x03\x01\x02\x00\x01\x00")
	await.Until(t, "both are seen", func() bool {
		return strings.Count(plain.do("CLIENT LIST"), "id=") == 3
	})
	ts.dial().expect("-ERR max number of clients reached")
	if got := dial(t, "tcp", ts.tlsAddr()).reply(); got != "(eof)" {
		t.Errorf("beyond maxclients: %s", got)
	}
	ts.onLoop(func(l *loop) { // as if the time had come
		for _, s := range l.sessions {
			if s != nil && s.state == forHandshake {
				l.timers.set(s.idle, l.mono)
			}
		}
	})
	for _, c := range slow {
		if got := c.reply(); got != "(eof)" {
			t.Errorf("a handshake that takes too long: %s", got)
		}
		_ = c.Close()
	}
	await.Until(t, "there is room", func() bool {
		c, err := ts.dialTLS(a.Trust())
		return err == nil && c.do("PING") == "+PONG"
	})
	if !strings.Contains(ts.log.String(), "it takes too long") {
		t.Error("the log does not say why")
	}
}

// TestTLSKill: CLIENT KILL ends connections in any state and leaves nothing behind.
func TestTLSKill(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a)
	plain := ts.dial()
	plain.do("PING")
	ts.mustDialTLS(a.Trust()).do("PING")
	files, routines := descriptors(t), runtime.NumGoroutine()
	half, ready, blocked := dial(t, "tcp", ts.tlsAddr()), ts.mustDialTLS(a.Trust()),
		ts.mustDialTLS(a.Trust())
	half.raw("\x16\x03\x01\x02\x00\x01\x00")
	blocked.send("BLPOP nothing 0\n")
	if got := ready.do("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	await.Until(t, "one is blocked", func() bool {
		return strings.Contains(plain.do("INFO clients"), "blocked_clients:1")
	})
	for _, c := range []*client{half, ready, blocked} {
		if got := plain.do("CLIENT KILL ADDR " + c.LocalAddr().String()); got != ":1" &&
			got != "+OK" {
			t.Error(got)
		}
		if got := c.reply(); got != "(eof)" && !strings.Contains(got, "reset") {
			t.Error(got)
		}
		_ = c.Close()
	}
	await.Until(t, "nothing is left", func() bool {
		return descriptors(t) <= files && runtime.NumGoroutine() <= routines
	})
}

// TestTLSReload: CONFIG SET uses a new certificate for new connections. If the files are invalid,
// it leaves everything as it was.
func TestTLSReload(t *testing.T) {
	a, next := testkit.NewAuthority(t), testkit.NewAuthority(t)
	ts := startTLS(t, a)
	old := ts.mustDialTLS(a.Trust())
	cert, key := next.Issue("server")
	if got, want := old.do("CONFIG SET tls-cert-file "+cert),
		"-ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - "+
			errUpdateTLS.Error(); !strings.HasPrefix(got, want) {
		t.Errorf("a certificate without its key: %s", got)
	}
	ts.mustDialTLS(a.Trust()).do("PING")
	if got := old.do("CONFIG SET tls-cert-file " + cert + " tls-key-file " + key); got != "+OK" {
		t.Fatal(got)
	}
	if _, err := ts.dialTLS(a.Trust()); err == nil {
		t.Error("the old certificate is still in use")
	}
	if got := ts.mustDialTLS(next.Trust()).do("PING"); got != "+PONG" {
		t.Error(got)
	}
	if got := old.do("PING"); got != "+PONG" {
		t.Errorf("a connection from before: %s", got)
	}
}

// TestTLSStop: a stop does not wait for handshakes, and clients see a proper end of the connection.
func TestTLSStop(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a, neverGiveUp)
	half, ready := dial(t, "tcp", ts.tlsAddr()), ts.mustDialTLS(a.Trust())
	half.raw("\x16\x03\x01\x02\x00\x01\x00")
	ready.do("PING")
	ts.stop()
	if got := ready.reply(); got != "(eof)" {
		t.Errorf("at the end: %s", got)
	}
}

// TestTLSProtectedMode: a client from outside completes the handshake and then sees why it is
// refused.
func TestTLSProtectedMode(t *testing.T) {
	a := testkit.NewAuthority(t)
	host := outsideAddress()
	if host == "" {
		t.Skip("this machine has no address but loopback")
	}
	ts, err := prepareServer(t, t.TempDir(), []string{"127.0.0.1:0"}, withTLS{host, a.ServerArgs()})
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	conn := ts.mustDialTLS(a.Trust())
	text, err := io.ReadAll(conn)
	if string(text) != denied || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// TestTLSSealedBound: the output that the TLS protocol produces by itself is bounded.
func TestTLSSealedBound(t *testing.T) {
	w := &wire{fd: -1}
	piece := make([]byte, 1000)
	for {
		if _, err := w.Write(piece); err != nil {
			if !errors.Is(err, errTooMuchSealed) {
				t.Fatal(err)
			}
			break
		}
		if len(w.out) > maxSealed {
			t.Fatalf("%d bytes are sealed", len(w.out))
		}
	}
}

// TestTLSPortAlone: with port 0 the server listens for TLS only.
func TestTLSPortAlone(t *testing.T) {
	port := strconv.Itoa(testkit.FreePort(t))
	a := testkit.NewAuthority(t)
	settings := []setting{"port=0", "tls-port=" + port}
	args := a.ServerArgs()
	for ; len(args) > 0; args = args[2:] {
		settings = append(settings, args[0][2:]+"="+args[1])
	}
	ts, err := prepareServer(t, t.TempDir(), nil, settings...)
	if err != nil {
		t.Fatal(err)
	}
	ts.run()
	if got := ts.Addrs(); len(got) != 1 || got[0] != "127.0.0.1:"+port ||
		fmt.Sprint(ts.Port()) != port {
		t.Errorf("listening on %q, port %d", got, ts.Port())
	}
	conn, err := tls.Dial("tcp", ts.Addrs()[0], a.Trust())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := newClient(t, conn, 1<<16)
	if got := c.do("PING"); got != "+PONG" {
		t.Error(got)
	}
	if info := c.do("INFO server"); !strings.Contains(info, "tcp_port:"+port) {
		t.Error(info)
	}
	if _, err := prepareServer(t, t.TempDir(), nil, "port=0", "tls-port=16352"); err == nil ||
		!strings.Contains(err.Error(), "no tls-cert-file") {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestTLSOldVersions: TLS versions before 1.2 are refused, and so are versions that are not
// configured.
func TestTLSOldVersions(t *testing.T) {
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a, "tls-protocols=TLSv1.3")
	speaks := func(version uint16) bool {
		cfg := a.Trust()
		cfg.MinVersion, cfg.MaxVersion = version, version
		c, err := ts.dialTLS(cfg)
		if err != nil && !strings.Contains(err.Error(), "protocol version not supported") {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		return err == nil && c.do("PING") == "+PONG"
	}
	for _, only := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
		for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
			if got := speaks(version); got != (version == only) {
				t.Errorf("with %s alone, %s is spoken: %v", tls.VersionName(only),
					tls.VersionName(version), got)
			}
		}
		if err := ts.cfg.Set(config.Pair{Name: "tls-protocols", Value: "TLSv1.2"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTLSResumption: a client may resume its session if tls-session-caching allows it, but not
// after the requirements for clients have changed.
func TestTLSResumption(t *testing.T) {
	a := testkit.NewAuthority(t)
	cert, key := a.Issue("client")
	ts := startTLS(t, a, "tls-auth-clients=yes")
	cfg := a.Trust(cert, key)
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	// resumes connects, and reports whether the session of the last connection was resumed.
	resumes := func() bool {
		c := ts.mustDialTLS(cfg)
		if got := c.do("PING"); got != "+PONG" { // reads the next ticket too
			t.Fatal(got)
		}
		return c.Conn.Conn.(*tls.Conn).ConnectionState().DidResume
	}
	set := func(name, value string) {
		if err := ts.cfg.Set(config.Pair{Name: name, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	if first, second := resumes(), resumes(); first || !second {
		t.Errorf("resumed: first %v, second %v", first, second)
	}
	set("tls-ca-cert-file", testkit.NewAuthority(t).File)
	if c, err := ts.dialTLS(cfg); err == nil {
		if got := c.do("PING"); got == "+PONG" {
			t.Error("a session of a client whose authority is trusted no more goes on")
		}
	}
	set("tls-ca-cert-file", a.File)
	set("tls-session-caching", "no")
	if first, second := resumes(), resumes(); first || second {
		t.Errorf("without caching: resumed: first %v, second %v", first, second)
	}
}
