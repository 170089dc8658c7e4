package server

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// rough is a connection that sends pieces of any length, with pauses. Once armed, it may be cut or
// have a bit flipped.
type rough struct {
	net.Conn
	random *rand.Rand
	armed  bool
	// after counts the bytes that still go through unchanged. After them comes the fault.
	after int
	flip  bool // the fault is a flipped bit, not the end
	hurt  bool
}

func (r *rough) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(len(p), n+1+r.random.IntN(4000))]
		if r.armed && !r.hurt && len(piece) > r.after {
			r.hurt = true
			if !r.flip {
				_, _ = r.Conn.Write(piece[:r.after])
				return n, r.Conn.Close()
			}
			piece = append([]byte(nil), piece...)
			piece[r.after] ^= 1 << r.random.IntN(8)
		}
		if r.armed {
			r.after -= len(piece)
		}
		if _, err := r.Conn.Write(piece); err != nil {
			return n, err
		}
		n += len(piece)
		if r.random.IntN(20) == 0 {
			await.Pass(time.Microsecond) // so that the pieces arrive one by one
		}
	}
	return n, nil
}

// TestTLSStreams sends the bytes of clients in arbitrary pieces, and makes clients read slowly,
// with messages between replies. Each client gets its own replies, in order. Other connections are
// cut, or have one bit flipped on the way. Then none of their later input runs. No connection
// leaves anything behind. KEYP_TLS_LONG=1 makes the test run longer.
func TestTLSStreams(t *testing.T) {
	rounds, seed := 6, testkit.Seed(t)
	if os.Getenv("KEYP_TLS_LONG") == "1" {
		rounds = 1500
	}
	a := testkit.NewAuthority(t)
	ts := startTLS(t, a)
	ts.mustDialTLS(a.Trust()).do("PING")
	files, routines := descriptors(t), runtime.NumGoroutine()
	var hurt, whole int
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		if tlsStream(t, ts, a, random) {
			whole++
		} else {
			hurt++
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	await.Until(t, "nothing is left", func() bool {
		return descriptors(t) <= files && runtime.NumGoroutine() <= routines
	})
	t.Logf("%d connections came to their end, %d were hurt", whole, hurt)
}

// tlsStream runs one connection, and reports whether it stayed undamaged.
func tlsStream(t *testing.T, ts *testServer, a *testkit.Authority, random *rand.Rand) (whole bool) {
	raw, publisher := dial(t, "tcp", ts.tlsAddr()), ts.dial()
	defer raw.Close()
	defer publisher.Close()
	if tcp := raw.Conn.Conn.(*net.TCPConn); random.IntN(2) == 0 {
		if err := tcp.SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
	}
	r := &rough{Conn: raw.Conn.Conn, random: random}
	cfg := a.Trust()
	cfg.MaxVersion = uint16(tls.VersionTLS12 + random.IntN(2))
	conn := tls.Client(r, cfg)
	c := newClient(t, conn, 16+random.IntN(5000))
	key := fmt.Sprint("last", random.Uint64())
	c.send("HELLO 3\nSUBSCRIBE news\nSET " + key + " -1\n")
	for range 3 {
		if got := c.reply(); got[0] == '-' || got[0] == '(' {
			t.Fatal(got)
		}
	}
	var commands []string
	var wants []string
	for i := range 1 + random.IntN(60) {
		word := strings.Repeat(fmt.Sprint(i, " "), random.IntN(1<<random.IntN(14)))
		commands = append(commands, multibulk("ECHO", word), multibulk("SET", key, fmt.Sprint(i)))
		wants = append(wants, word, "+OK")
	}
	r.armed, r.after, r.flip = random.IntN(2) == 0, random.IntN(len(strings.Join(commands, ""))),
		random.IntN(2) == 0
	allowed := -1 // what SET may have left, if it is to come before the fault
	for i, length := 0, 0; i < len(commands); i++ {
		if length += len(commands[i]); length <= r.after && i%2 == 1 {
			allowed = i / 2
		}
	}
	go func() {
		for len(commands) > 0 {
			n := 1 + random.IntN(len(commands))
			if _, err := conn.Write([]byte(strings.Join(commands[:n], ""))); err != nil {
				return
			}
			commands = commands[n:]
		}
		_ = conn.CloseWrite()
	}()
	for i := 0; i < 5; i++ {
		if got := publisher.do(fmt.Sprintf("PUBLISH news %d", i)); got != ":1" && got != ":0" {
			t.Fatal(got)
		}
	}
	news, got := 0, 0
	for {
		text, err := readReply(c.r)
		if err != nil {
			break // at the end, or because the connection was hurt
		}
		if strings.HasPrefix(text, ">3 message news ") {
			if !strings.HasSuffix(text, fmt.Sprint(" ", news)) {
				t.Errorf("message %d is %q", news, text)
			}
			news++
			continue
		}
		if got >= len(wants) || text != wants[got] {
			t.Errorf("reply %d is %.50q", got, text)
			return false
		}
		got++
	}
	if !r.armed && got < len(wants) {
		t.Errorf("%d replies of %d came, and the connection was whole", got, len(wants))
	}
	if last, err := strconv.Atoi(publisher.do("GET " + key)); r.armed &&
		(err != nil || last > allowed) {
		t.Errorf("SET %d has run, %v, and the last before the fault was %d", last, err, allowed)
	}
	return !r.armed
}
