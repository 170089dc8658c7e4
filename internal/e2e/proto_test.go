package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Keyp answers input on a socket, right or wrong, with the same bytes as Redis. It also closes the
// connection, keeps it open or waits for more in the same cases.

// protoCases are inputs for a fresh connection. Inputs that Keyp treats differently from Redis are
// not here: a NUL in an inline command, lines over 64 KB. See package resp.
var protoCases = []struct{ name, input string }{
	// Multibulk headers.
	{"count of no command", "*0\r\nPING\r\n"},
	{"negative count", "*-1\r\nPING\r\n"},
	{"very negative count", "*-9223372036854775808\r\nPING\r\n"},
	{"count too large", "*1048577\r\n"},
	{"count beyond 32 bits", "*2147483648\r\n"},
	{"count beyond 64 bits", "*9223372036854775808\r\n"},
	{"count without a number", "*\r\nPING\r\n"},
	{"count that is a word", "*abc\r\n"},
	{"count with a plus", "*+1\r\n$4\r\nPING\r\n"},
	{"count with a space", "* 1\r\n$4\r\nPING\r\n"},
	{"count with a zero in front", "*01\r\n$4\r\nPING\r\n"},
	{"count with only a new line", "*1\n$4\r\nPING\r\n"},
	{"largest count allowed, nothing behind it", "*1048576\r\n"},

	// Bulk headers.
	{"negative length", "*1\r\n$-1\r\n"},
	{"length -2", "*2\r\n$3\r\nGET\r\n$-2\r\n"},
	{"huge length", "*2\r\n$3\r\nGET\r\n$536870913\r\n"},
	{"length beyond 64 bits", "*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n"},
	{"length that is a word", "*1\r\n$abc\r\n"},
	{"length without a number", "*1\r\n$\r\n"},
	{"length with a plus", "*1\r\n$+4\r\nPING\r\n"},
	{"length with a zero in front", "*1\r\n$04\r\nPING\r\n"},
	{"missing dollar", "*1\r\nPING\r\n"},
	{"colon in place of a dollar", "*1\r\n:4\r\n"},
	{"star in place of a dollar", "*1\r\n*1\r\n"},
	{"empty line in place of a dollar", "*1\r\n\r\n$4\r\nPING\r\n"},
	{"body shorter than its length", "*1\r\n$6\r\nPING\r\n"},
	{"body longer than its length", "*1\r\n$3\r\nPING\r\n"},
	{"body that is not ended", "*1\r\n$4\r\nPINGxxPING\r\n"},
	{"empty arguments", "*2\r\n$0\r\n\r\n$0\r\n\r\n"},
	{"empty name", "*1\r\n$0\r\n\r\n"},
	{"binary arguments", "*2\r\n$4\r\nECHO\r\n$5\r\n\x00\r\n\xff\x01\r\n"},

	// Incomplete input.
	{"star only", "*"},
	{"half a header", "*2\r\n$3\r\nGE"},
	{"all but the last byte", "*1\r\n$4\r\nPING\r"},
	{"half an inline command", "PIN"},

	// Inline commands.
	{"inline", "PING\r\n"},
	{"inline with a new line only", "PING\nPING\n"},
	{"empty lines", "\r\n\r\n\n\r\n"},
	{"lines of blanks", "   \r\n\t\r\n"},
	{"blanks around", "  PING  \r\n"},
	{"several words", "SET inline:key some\\ value\r\nSET a b c d\r\nGET a\r\n"},
	{"double quotes", "ECHO \"a b\\n\\r\\t\\x41\\\"\\\\ \\q\"\r\n"},
	{"single quotes", "ECHO 'it\\'s \"fine\" \\n'\r\n"},
	{"quotes within a word", "ECHO a\"b c\"\r\n"},
	{"empty quotes", "ECHO \"\"\r\nECHO ''\r\n"},
	{"double quote not closed", "ECHO \"abc\r\n"},
	{"single quote not closed", "ECHO 'abc\r\n"},
	{"text behind a quote", "ECHO \"a\"b\r\n"},
	{"lower case", "ping\r\n"},
	{"unknown command", "NOSUCH a b\r\nPING\r\n"},
	{"a stray dollar", "$4\r\nPING\r\n"},
	{"a reply instead of a command", "+OK\r\n-ERR x\r\n:1\r\n"},
	{"HTTP POST", "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a b\r\n"},
	{"a Host header", "Host: localhost\r\nPING\r\n"},
	{"bytes that are no text", "\xff\xfe\x01\x02\r\n"},
	{"inline of 60 KB", "ECHO " + strings.Repeat("x", 60<<10) + "\r\n"},
	{"inline of 60 KB that does not end", strings.Repeat("x", 60<<10)},
	{"inline of 100 KB that does not end", strings.Repeat("x", 100<<10)},

	// Pipelines.
	{"pipeline", "PING\r\n*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n"},
	{"command errors in the middle",
		"SET p 1\r\nSET p\r\nNOSUCH\r\nINCR p\r\nINCRBY p x\r\nGET p\r\n"},
	{"protocol error in the middle", "SET p 1\r\nINCR p\r\n*1\r\n$-5\r\nPING\r\n"},
	{"quote error in the middle", "PING\r\nECHO \"x\r\nPING\r\n"},
	{"QUIT in the middle", "PING\r\nQUIT\r\nPING\r\n"},
	{"many", strings.Repeat("PING\r\n", 3000)},
	{"many with values", strings.Repeat(encode("SET", "v", strings.Repeat("v", 1000))+
		encode("GET", "v"), 500)},

	// State of the connection.
	{"HELLO in a pipeline", "HELLO 3 x\r\nHELLO 9\r\nGET none\r\nHELLO 2 SETNAME\r\nGET none\r\n"},
	{"SELECT in a pipeline", "SELECT 3\r\nSET s 3\r\nSELECT 99\r\nGET s\r\nSELECT 0\r\nGET s\r\n"},
	{"CLIENT REPLY",
		"CLIENT REPLY SKIP\r\nPING\r\nPING\r\nCLIENT REPLY OFF\r\nPING\r\nSET off 1\r\nCLIENT REPLY ON\r\nGET off\r\n"},
	{"RESET in a pipeline", "SELECT 2\r\nCLIENT SETNAME n\r\nRESET\r\nCLIENT GETNAME\r\n"},
}

// protoClosing are inputs after which the client always closes its direction.
var protoClosing = []struct{ name, input string }{
	// With more input behind it, Redis's answer depends on how the network cuts it.
	{"count of 100 KB", "*" + strings.Repeat("1", 100<<10)},
	{"length of 100 KB", "*1\r\n$" + strings.Repeat("1", 100<<10)},
	// Redis forgets to close when there is no error to send.
	{"CLIENT REPLY OFF and an error", "CLIENT REPLY OFF\r\nNOSUCH\r\n*1\r\n$-1\r\n"},
}

// unauthenticatedProto are inputs for a server with requirepass, before AUTH. HELLO without AUTH is
// not here: its error names <proto> from 7.2 on.
var unauthenticatedProto = []struct{ name, input string }{
	{"commands", "GET k\r\nPING\r\nNOSUCH\r\nSET k\r\nCONFIG GET x\r\n"},
	{"ten arguments", encode("MGET", "1", "2", "3", "4", "5", "6", "7", "8", "9")},
	{"eleven arguments", encode("MGET", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")},
	{"an argument of 16 KB", encode("SET", "k", strings.Repeat("x", 16384))},
	{"an argument over 16 KB", encode("SET", "k", strings.Repeat("x", 16385))},
	{"AUTH in a pipeline", "AUTH bad\r\nGET k\r\nAUTH secret\r\nGET k\r\n" + encode("MGET", "1",
		"2", "3", "4", "5", "6", "7", "8", "9", "10")},
	{"AUTH forms",
		"AUTH\r\nAUTH a b c\r\nAUTH default bad\r\nAUTH nobody secret\r\nAUTH default secret\r\nPING\r\n"},
	{"HELLO", "HELLO 2 AUTH default\r\nHELLO 2 AUTH default bad\r\nQUIT\r\n"},
	{"QUIT", "QUIT\r\nPING\r\n"},
	{"RESET", "AUTH secret\r\nRESET\r\nGET k\r\n"},
	{"protocol error", "*1\r\n$-1\r\n"},
}

func TestProtoLikeRedis(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	for _, tt := range protoCases {
		compareProto(t, s, tt.name, tt.input, allWays)
	}
	for _, tt := range protoClosing {
		compareProto(t, s, tt.name, tt.input, allWays[:2])
	}
}

func TestProtoUnauthenticatedLikeRedis(t *testing.T) {
	t.Parallel()
	s := bothServers(t, "--requirepass", "secret")
	for _, tt := range unauthenticatedProto {
		compareProto(t, s, tt.name, tt.input, allWays)
	}
}

// way is how an input is sent. After a time of quiet without output, the server is taken to wait
// for more input.
type way struct {
	name string
	talk func(addr, input string, quiet time.Duration) (string, error)
}

// allWays are the ways to send an input: at once, then closing the client's direction; the same in
// small pieces; with the connection left open.
var allWays = []way{
	{"then closed", func(addr, input string, _ time.Duration) (string, error) {
		return halfClose(addr, input, len(input))
	}},
	{"in pieces", func(addr, input string, _ time.Duration) (string, error) {
		return halfClose(addr, input, 1+len(input)/50)
	}},
	{"left open", leaveOpen},
}

func compareProto(t *testing.T, s *both, name, input string, ways []way) {
	t.Helper()
	for _, way := range ways {
		// On a busy machine a slow server may seem to wait for input. Then try once more.
		var keyp, redis string
		for _, quiet := range []time.Duration{250 * time.Millisecond, time.Minute} {
			var errs [2]error
			var wg sync.WaitGroup
			wg.Go(func() { keyp, errs[0] = way.talk(s.keypServer.Addr(), input, quiet) })
			wg.Go(func() { redis, errs[1] = way.talk(s.redisServer.Addr(), input, quiet) })
			wg.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatalf("%s, %s: %v", name, way.name, err)
			}
			if keyp == redis || !strings.HasSuffix(keyp, "waits") && !strings.HasSuffix(redis,
				"waits") {
				break
			}
		}
		if keyp != redis {
			t.Errorf("%s, %s: %s\nkeyp  %s\nredis %s", name, way.name, brief(input),
				brief(keyp), brief(redis))
		}
	}
}

// halfClose sends an input in pieces and closes that direction. It returns all that the server
// sends until it closes its own direction.
func halfClose(addr, input string, piece int) (string, error) {
	c, err := dialWire(addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	for len(input) > 0 {
		n := min(piece, len(input))
		if err := c.send(input[:n]); isReset(err) {
			break // the server has seen enough
		} else if err != nil {
			return "", err
		}
		input = input[n:]
	}
	_ = c.CloseWrite() // fails when the server has closed already
	return c.rest()
}

// leaveOpen sends an input and then another command. The answer shows whether the server has closed
// the connection, goes on, or waits for the rest of a command.
func leaveOpen(addr, input string, quiet time.Duration) (string, error) {
	c, err := dialWire(addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.send(input); err != nil && !isReset(err) {
		return "", err
	}
	const end = "the end of the input"
	if err := c.send(encode("ECHO", end)); err != nil && !isReset(err) {
		return "", err
	}
	var all strings.Builder
	for {
		if err := c.Listen(quiet); err != nil {
			return "", err
		}
		chunk := make([]byte, 64<<10)
		n, err := c.in.Read(chunk)
		all.Write(chunk[:n])
		switch {
		case strings.HasSuffix(all.String(), end+"\r\n"):
			return all.String() + "goes on", nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return all.String() + "waits", nil
		case err != nil:
			return all.String() + "closed", nil
		}
	}
}

// TestProtoEveryCut: the replies are the same wherever the network cuts a pipeline.
func TestProtoEveryCut(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	input := encode("SET", "k", "v\r\n*1\r\n") + "GET k\r\n" + encode("GET", "k") +
		"ECHO \"a b\"\r\n\r\n*0\r\n" + encode("DEL", "k", "none")
	want, err := halfClose(s.redisServer.Addr(), input, len(input))
	if err != nil {
		t.Fatal(err)
	}
	c := s.keyp
	for cut := 1; cut < len(input); cut++ {
		for _, part := range []string{input[:cut], input[cut:]} {
			if err := c.send(part); err != nil {
				t.Fatal(err)
			}
		}
		var got strings.Builder
		for got.Len() < len(want) {
			r, err := c.receive()
			if err != nil {
				t.Fatalf("cut at %d: %v after %q", cut, err, got.String())
			}
			got.WriteString(r.raw)
		}
		if got.String() != want {
			t.Fatalf("cut at %d: %q, want %q", cut, got.String(), want)
		}
	}
}

// TestProtoHalfCloseGetsAll: a client that sends a long pipeline and closes its
// direction at once gets every reply, in order.
func TestProtoHalfCloseGetsAll(t *testing.T) {
	t.Parallel()
	s := bothServers(t)
	const n = 20000
	var input strings.Builder
	for i := range n {
		fmt.Fprintf(&input, "ECHO %d\r\n", i)
	}
	for _, addr := range []string{s.keypServer.Addr(), s.redisServer.Addr()} {
		got, err := halfClose(addr, input.String(), input.Len())
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(got, "\r\n")
		if len(lines) != 2*n+1 || lines[2*n-1] != fmt.Sprint(n-1) {
			t.Errorf("%s: %d of %d replies came", addr, len(lines)/2, n)
		}
	}
}
