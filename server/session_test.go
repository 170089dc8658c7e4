package server

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyp/internal/clock"
	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/storage"
)

func TestPipelinesOfAnyDepth(t *testing.T) {
	ts := start(t)
	for _, depth := range []int{1, 2, 16, 1000, 50_000} {
		c := ts.dial()
		var b strings.Builder
		for i := range depth {
			b.WriteString(multibulk("SET", "k"+strconv.Itoa(i), strconv.Itoa(i)))
			b.WriteString(multibulk("GET", "k"+strconv.Itoa(i)))
		}
		go func() { _, _ = io.WriteString(c, b.String()) }()
		for i := range depth {
			c.expect("+OK", strconv.Itoa(i))
		}
	}
}

func TestCommandsCutAnywhere(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	text := multibulk("SET", "key", "a value\r\n with $5 in it") + "GET key\r\n" + multibulk("PING")
	for i := range len(text) {
		c.raw(text[i : i+1])
	}
	c.expect("+OK", "a value\r\n with $5 in it", "+PONG")
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	for range 50 {
		at := rng.IntN(len(text))
		c.raw(text[:at])
		c.raw(text[at:])
		c.expect("+OK", "a value\r\n with $5 in it", "+PONG")
	}
}

func TestClientsInterleaved(t *testing.T) {
	ts := start(t)
	a, b := ts.dial(), ts.dial()
	a.send("SELECT 1\nSET k from-a\n")
	b.raw("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\nfro")
	a.expect("+OK", "+OK")
	a.send("GET k\n")
	b.raw("m-b\r\nGET k\r\n")
	b.expect("+OK", "from-b")
	a.expect("from-a")
}

// TestOnePass: the server reads the input of many clients before it runs any of it. No reply shows
// that, whatever databases the clients use, and even if one client's CLIENT KILL ends another
// client.
func TestOnePass(t *testing.T) {
	ts := start(t)
	var list []*client
	for i := range 40 {
		c := ts.dial()
		c.do("SELECT " + strconv.Itoa(i%3))
		list = append(list, c)
	}
	victim := ts.dial()
	id := victim.do("CLIENT ID")[1:]
	list[39].do("CLIENT SETNAME last")
	ready, release := make(chan struct{}), make(chan struct{})
	go ts.onLoop(func(*loop) {
		close(ready)
		<-release
	})
	await.For(t, "the loop waits", ready)
	for i, c := range list {
		switch i {
		case 5:
			c.send("CLIENT KILL ID " + id + "\n")
		case 20:
			c.send("INCR own20\n*nonsense\n")
		default:
			c.send(fmt.Sprintf("INCR own%d\nGET own%d\n", i, i))
		}
	}
	victim.send("SET victim lives\n")
	if err := list[7].CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(release)
	for i, c := range list {
		c.expect(":1")
		switch i {
		case 5:
		case 20:
			c.expect("-ERR Protocol error: invalid multibulk length")
		default:
			c.expect("1")
		}
	}
	if got := victim.reply(); got != "+OK" && got[0] != '(' {
		t.Error(got)
	}
}

func TestHalfCloseGetsAllReplies(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	const n = 20_000
	text := strings.Repeat("INCR n\r\n", n) + "DEBUG SLEEP 0.05\r\nGET n\r\nSET unfinished"
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, text)
		if err == nil {
			err = c.CloseWrite()
		}
		sent <- err
	}()
	for i := range n {
		c.expect(":" + strconv.Itoa(i+1))
	}
	c.expect("+OK", strconv.Itoa(n), "(eof)")
	if err := await.For(t, "all is sent", sent); err != nil {
		t.Fatal(err)
	}
}

func TestQuitAnswersWhatCameBefore(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.send("SET a 1\nGET a\nQUIT\nSET a 2\n")
	c.expect("+OK", "1", "+OK", "(eof)")
	if got := ts.dial().do("GET a"); got != "1" {
		t.Fatalf("a command behind QUIT ran: a is %q", got)
	}
}

func TestProtocolErrors(t *testing.T) {
	for _, test := range []struct{ input, want string }{
		{"*1\r\n$-2\r\n", "-ERR Protocol error: invalid bulk length"},
		{"*1\r\n$99999999999999\r\n", "-ERR Protocol error: invalid bulk length"},
		{"*99999999999\r\n", "-ERR Protocol error: invalid multibulk length"},
		{"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'"},
		{"SET \"a\r\n", "-ERR Protocol error: unbalanced quotes in request"},
		{strings.Repeat("x", 70_000), "-ERR Protocol error: too big inline request"},
	} {
		t.Run(test.want, func(t *testing.T) {
			ts := start(t)
			other, c := ts.dial(), ts.dial()
			other.raw("*2\r\n$4\r\nECHO\r\n$2\r\nh")
			// Unread input after the error must not take the replies away.
			c.send("SET before 1\n")
			c.raw(test.input + strings.Repeat("y", 200_000))
			c.expect("+OK", test.want, "(eof)")
			other.raw("i\r\n")
			other.expect("hi")
		})
	}
}

// TestProtocolErrorStaysWithItsClient: a protocol error of one client does not affect the next
// client, even if the error is in the last byte that was sent.
func TestProtocolErrorStaysWithItsClient(t *testing.T) {
	ts := start(t)
	for _, input := range []string{"ECHO \"a\r\n", "*1\r\n$-2\r\n", "*1\r\n:\r\n", "*x\r\n",
		strings.Repeat("x", 70_000)} {
		c := ts.dial()
		c.raw(input)
		if got := c.reply(); !strings.HasPrefix(got, "-ERR Protocol error: ") {
			t.Fatalf("%.20q: %q", input, got)
		}
		c.expect("(eof)")
		for range pooledReaders + 1 {
			if got := ts.dial().do("PING"); got != "+PONG" {
				t.Fatalf("after %.20q another client's PING gets %q", input, got)
			}
		}
	}
}

func TestProtocolErrorWithRepliesOff(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.raw("CLIENT REPLY OFF\r\nNOSUCH\r\n*1\r\n$-2\r\n")
	c.expect("(eof)")
}

// TestHTTPIsHungUp: the server does not run the body of an HTTP request that a browser was made to
// send.
func TestHTTPIsHungUp(t *testing.T) {
	ts := start(t)
	for _, request := range []string{
		"POST / HTTP/1.1\nHost: localhost\n\nSET a 1\n", "post x\nSET a 1\n", "host: x\nSET a 1\n",
	} {
		c := ts.dial()
		c.send(request)
		c.expect("(eof)")
	}
	c := ts.dial()
	c.send("GET / HTTP/1.1\nHost: localhost\n\nSET a 1\n")
	c.expect("-ERR wrong number of arguments for 'get' command", "(eof)")
	if got := ts.dial().do("EXISTS a"); got != ":0" {
		t.Fatalf("a request's body ran: EXISTS a is %q", got)
	}
	if n := strings.Count(ts.log.String(), "speaks HTTP"); n != 1 {
		t.Fatalf("%d lines in the log", n)
	}
}

func TestEmptyCommandsAreIgnored(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.raw("*-1\r\n*0\r\n\r\nPING\r\n")
	c.expect("+PONG")
}

func TestUnauthenticatedLimits(t *testing.T) {
	ts := start(t, "requirepass=secret")
	c := ts.dial()
	c.raw("*11\r\n")
	c.expect("-ERR Protocol error: unauthenticated multibulk length", "(eof)")
	c = ts.dial()
	c.raw("*2\r\n$3\r\nGET\r\n$20000\r\n")
	c.expect("-ERR Protocol error: unauthenticated bulk length", "(eof)")
	c = ts.dial()
	long := strings.Repeat("v", 20_000)
	c.raw("GET a\r\nAUTH secret\r\n" + multibulk("SET", "a", long) + "GET a\r\n")
	c.expect("-NOAUTH Authentication required.", "+OK", "+OK", long)
}

func TestReplyModes(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.send("CLIENT REPLY OFF\nSET a 1\nNOSUCH\nDEBUG SLEEP 0\nCLIENT REPLY ON\nGET a\n")
	c.expect("+OK", "1")
	c.send("CLIENT REPLY SKIP\nSET a 2\nGET a\nCLIENT REPLY SKIP\nKEYS *\nGET a\n")
	c.expect("2", "2")
}

func TestRESP3(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.send("GET missing\nHELLO 3\nGET missing\nRANDOMKEY\n")
	c.expect("$-1")
	if got := c.reply(); !strings.HasPrefix(got, "%") || !strings.Contains(got, "proto :3") {
		t.Fatalf("HELLO 3 answered %q", got)
	}
	c.expect("_", "_")
}

func TestPanicInHandlerCostsItsCommandAlone(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.send("SET a 1\nDEBUG PANIC\nGET a\n")
	c.expect("+OK", "-ERR internal error", "1")
	if n := ts.env.Stats.Panics.Load(); n != 1 {
		t.Fatalf("%d panics counted", n)
	}
}

// TestPanicOfSessionCostsItAlone: when the loop's own code panics for one session, only that
// session ends.
func TestPanicOfSessionCostsItAlone(t *testing.T) {
	ts := start(t)
	a, b := ts.dial(), ts.dial()
	a.do("PING")
	b.do("PING")
	ts.onLoop(func(l *loop) {
		for _, s := range l.sessions {
			if s != nil && s.client.Addr == a.LocalAddr().String() {
				l.isolate(s, func(*session) { panic("in a test") })
			}
		}
	})
	a.expect("(eof)")
	if got := b.do("PING"); got != "+PONG" {
		t.Fatalf("another client got %q", got)
	}
	if !strings.Contains(ts.log.String(), "in a test") {
		t.Fatal("the panic is not in the log")
	}
}

func TestSlowCommandsKeepTheirPlace(t *testing.T) {
	clk := clock.NewFake(1_700_000_000_000)
	ts := start(t, func(o *storage.Options) { o.Clock = clk })
	c, other := ts.dial(), ts.dial()
	c.send("SET a 1\nDEBUG SLEEP 0.2\nGET a\nKEYS *\nSET a 2\nDEBUG PANIC\nRANDOMKEY\n")
	c.expect("+OK")
	if got := other.do("PING"); got != "+PONG" {
		t.Fatalf("beside a slow command: %q", got)
	}
	c.silent(ts)
	await.Until(t, "the sleep ends", func() bool {
		clk.Advance(100 * time.Millisecond)
		return strings.Contains(other.do("CLIENT LIST"), "cmd=randomkey")
	})
	c.expect("+OK", "1", "*1 a", "+OK", "-ERR internal error", "a")
}

func TestMoreSlowCommandsThanWorkers(t *testing.T) {
	ts := start(t)
	var clients []*client
	for range 5 * maxUnlocked {
		c := ts.dial()
		c.send("DEBUG SLEEP 0.01\nKEYS *\nPING\n")
		clients = append(clients, c)
	}
	for _, c := range clients {
		c.expect("+OK", "*0", "+PONG")
	}
	ts.onLoop(func(l *loop) {
		if l.unlocked() > maxUnlocked || l.tasks.count != 0 {
			t.Errorf("%d workers, %d tasks", l.unlocked(), l.tasks.count)
		}
	})
}

func TestSlowCommandOfClosedClient(t *testing.T) {
	g := &unlockedGate{}
	ts := start(t, g.use)
	c := ts.dial()
	c.send("RANDOMKEY\nSET late 1\n")
	await.For(t, "the task runs", g.runs)
	if got := ts.dial().do("CLIENT KILL ADDR " + c.LocalAddr().String()); got != ":1" {
		t.Fatalf("CLIENT KILL: %q", got)
	}
	c.expect("(eof)")
	close(g.gate)
	fresh := ts.dial() // may well have the same descriptor
	await.Until(t, "the command ends", func() (ended bool) {
		ts.onLoop(func(l *loop) { ended = l.tasks.count == 0 })
		return ended
	})
	fresh.send("GET late\n")
	fresh.expect("$-1")
}

func TestClientPause(t *testing.T) {
	ts := start(t)
	a, b := ts.dial(), ts.dial()
	if got := a.do("CLIENT PAUSE 100000 WRITE"); got != "+OK" {
		t.Fatal(got)
	}
	b.send("GET a\nSET a 1\nGET a\n")
	b.expect("$-1")
	await.Until(t, "the write is held", func() (held bool) {
		ts.onLoop(func(l *loop) { held = len(l.waitlist) == 1 })
		return held
	})
	if got := a.do("GET a"); got != "$-1" {
		t.Fatalf("a held write shows: %q", got)
	}
	a.send("CLIENT UNPAUSE\nGET a\n")
	b.expect("+OK", "1")
	a.expect("+OK")
	a.reply() // of GET, before or behind the write

	began := time.Now()
	if got := a.do("CLIENT PAUSE 150 ALL"); got[0] == '-' {
		t.Fatal(got)
	}
	if got := b.do("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	if took := time.Since(began); took < 149*time.Millisecond {
		t.Fatalf("a pause of 150 ms took %v", took)
	}
}

func TestKillOfPausedClient(t *testing.T) {
	ts := start(t)
	a, b := ts.dial(), ts.dial()
	a.do("CLIENT PAUSE 100000 WRITE")
	b.send("SET a 1\n")
	await.Until(t, "the write is held", func() (held bool) {
		ts.onLoop(func(l *loop) { held = len(l.waitlist) == 1 })
		return held
	})
	a.do("CLIENT KILL ADDR " + b.LocalAddr().String())
	b.expect("(eof)")
	a.do("CLIENT UNPAUSE")
	if got := a.do("GET a"); got != "$-1" {
		t.Fatalf("the command of a closed client ran: %q", got)
	}
}

// TestReusedDescriptor connects and closes clients quickly while their slow replies are under way.
// Nobody may get another client's reply.
func TestReusedDescriptor(t *testing.T) {
	ts := start(t)
	for i := range 200 {
		c := ts.dial()
		c.send(fmt.Sprintf("SET k%d %d\nKEYS k%d\n", i, i, i))
		if i%2 == 0 {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		c.expect("+OK", fmt.Sprintf("*1 k%d", i))
	}
	await.Until(t, "all tasks are back", func() (done bool) {
		ts.onLoop(func(l *loop) { done = l.tasks.count == 0 })
		return done
	})
}

// TestReplySkip: whatever command CLIENT REPLY SKIP precedes, the remaining replies are those of
// Redis.
func TestReplySkip(t *testing.T) {
	ts := start(t)
	for input, want := range map[string]string{
		"CLIENT REPLY SKIP\nRESET\nPING\n":                                                     "+PONG",
		"CLIENT REPLY SKIP\nNOSUCH\nPING\n":                                                    "+PONG",
		"CLIENT REPLY OFF\nRESET\nPING\n":                                                      "+RESET +PONG",
		"CLIENT REPLY SKIP\nCLIENT REPLY OFF\nRESET\nPING\n":                                   "+RESET +PONG",
		"CLIENT REPLY SKIP\nCLIENT REPLY SKIP\nRESET\nPING\n":                                  "+PONG",
		"CLIENT REPLY SKIP\nMULTI\nRESET\nPING\n":                                              "+RESET +PONG",
		"MULTI\nCLIENT REPLY SKIP\nRESET\nPING\n":                                              "+OK +QUEUED +RESET +PONG",
		"CLIENT REPLY SKIP\nMULTI\nCLIENT REPLY SKIP\nEXEC\nPING\nRESET\nPING\n":               "+QUEUED *1 +RESET +PONG",
		"CLIENT REPLY SKIP\nHELLO 3\nPING\n":                                                   "+PONG",
		"CLIENT REPLY SKIP\nCLIENT REPLY SKIP\nCLIENT REPLY ON\nCLIENT REPLY SKIP\nPING\nPING": "+OK +PONG",
	} {
		c := ts.dial()
		c.send(input + "\nQUIT\n")
		var got []string
		for line, err := c.r.ReadString('\n'); err == nil && line != "+OK\r\n" ||
			len(got) == 0; line, err = c.r.ReadString('\n') {
			got = append(got, strings.TrimSpace(line))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", input, got, want)
		}
	}
}

// TestKillsItselfInTask: a client kills its own connection in a transaction that goes on beside the
// loop. It still gets the reply before the connection ends.
func TestKillsItselfInTask(t *testing.T) {
	ts := start(t, "enable-debug-command=yes")
	c := ts.dial()
	id := c.do("CLIENT ID")[1:]
	c.send("MULTI\nKEYS *\nCLIENT KILL ID " + id + " SKIPME no\nDEBUG SLEEP 0.1\nEXEC\nPING\n")
	c.expect("+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3 *0 :1 +OK", "(eof)")
}
