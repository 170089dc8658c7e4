package server

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// inputMaker generates input for a connection, and knows how many replies it must get.
type inputMaker struct {
	testkit.Dice
	b    bytes.Buffer
	asks int    // replies
	ends string // the error that ends the connection; "": none does
}

// calls are commands with one reply each, valid and invalid ones.
var calls = [][]string{
	{"PING"}, {"ping", "x"}, {"PING", "a", "b"}, {"ECHO", "a\r\nb"}, {"ECHO", ""},
	{"SET", "k", "v"}, {"GET", "k"}, {"GET"}, {"NOSUCH", "\r\n$5\r\n"}, {""}, {"", ""},
	{"INCR", "n"}, {"INCR", "k"}, {"MGET", "k", "n", "none"}, {"LPUSH", "l", "a"},
	{"LRANGE", "l", "0", "3"}, {"DEL", "l"}, {"HELLO", "2"}, {"SELECT", "0"}, {"SELECT", "99"},
	{"CLIENT", "GETNAME"}, {"CLIENT", "NOSUCH"}, {"COMMAND", "COUNT"}, {"EVAL", "return {1,'a'}",
		"0"}, {"EVAL", "x x", "0"}, {"MULTI"}, {"EXEC"}, {"DISCARD"}, {"WATCH", "k"},
	{"BLPOP", "none", "0.001"}, {"KEYS", "*"}, {"ECHO", strings.Repeat("x", 20_000)}, {"MSET", "a"},
	{"RESET"}, {"CONFIG", "GET", "port"}, {"\x00\xff"},
}

// wrongs are inputs that end a connection, with their errors.
var wrongs = [][2]string{
	{"*1\r\n$-1\r\n", "invalid bulk length"}, {"*x\r\n", "invalid multibulk length"},
	{"*2147483648\r\n", "invalid multibulk length"}, {"*1\r\n:1\r\n", "expected '$', got ':'"},
	{"GET \"a\r\n", "unbalanced quotes in request"},
	{"*1\r\n$99999999999999999999\r\n", "invalid bulk length"},
	{"*2\r\n$3\r\nGET\r\n$536870913\r\n", "invalid bulk length"},
	{"*-9223372036854775809\r\n", "invalid multibulk length"},
	{"*1\r\n$" + strings.Repeat("1", 70_000), "too big bulk count string"},
	{strings.Repeat("a", 70_000), "too big inline request"},
}

// add adds a command, an empty one, or invalid input.
func (m *inputMaker) add() {
	switch m.N(16) {
	case 0:
		m.b.WriteString(m.From([]string{"\r\n", "\n", "*0\r\n", "*-1\r\n", "  \t\r\n",
			"*-9223372036854775808\r\n"}))
		return
	case 1:
		if m.One(8) {
			wrong := wrongs[m.N(len(wrongs))]
			m.b.WriteString(wrong[0])
			m.ends = wrong[1]
			m.asks++
			return
		}
	}
	args := calls[m.N(len(calls))]
	m.asks++
	if len(args) < 2 || len(args[1]) < 1000 && m.One(3) {
		for _, arg := range args {
			fmt.Fprintf(&m.b, "%s ", quoted(arg))
		}
		m.b.WriteString(m.From([]string{"\r\n", "\n"}))
		return
	}
	m.b.WriteString(multibulk(args...))
}

// quoted quotes an argument for an inline command.
func quoted(arg string) string {
	var b strings.Builder
	for i := range len(arg) {
		fmt.Fprintf(&b, "\\x%02x", arg[i])
	}
	return `"` + b.String() + `"`
}

// send sends the input in pieces.
func (m *inputMaker) send(conn net.Conn, cuts []byte) error {
	rest := m.b.Bytes()
	for _, cut := range cuts {
		n := min(len(rest), 1+int(cut)*int(cut)/16)
		if _, err := conn.Write(rest[:n]); err != nil {
			return err
		}
		if rest = rest[n:]; cut%8 == 0 {
			await.Pass(10 * time.Microsecond) // so that the pieces arrive one by one, at times
		}
	}
	_, err := conn.Write(rest)
	return err
}

// FuzzSession sends pipelines of all kinds of commands to a server, cut anywhere, with other input
// between and after them. Each command gets one complete reply, in order. Invalid input gets an
// error, and then the connection ends.
func FuzzSession(f *testing.F) {
	seeds := rand.NewChaCha8([32]byte{'s', 'e', 's', 's'})
	for i := range 12 {
		data, cuts := make([]byte, 20+i*20), make([]byte, i*3)
		_, _ = seeds.Read(data)
		_, _ = seeds.Read(cuts)
		f.Add(data, cuts, []byte("*3\r\n$1\r\n"[:i%9]))
	}
	ts := start(f)
	f.Fuzz(func(t *testing.T, data, cuts, tail []byte) {
		m := inputMaker{Dice: testkit.Dice{Data: data}}
		for !m.Over() && m.ends == "" {
			m.add()
		}
		if m.ends == "" {
			m.b.WriteString(multibulk("DISCARD") + multibulk("ECHO", theEnd))
			m.asks += 2
		}
		conn, err := await.Dial("tcp", ts.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sent := make(chan error, 1)
		go func() { sent <- m.send(conn, cuts[:min(len(cuts), 200)]) }()
		got, err := received(conn)
		if err != nil && m.ends == "" {
			t.Fatalf("%v, after %.300q", err, got)
		}
		if err := <-sent; err != nil && m.ends == "" {
			t.Fatal(err)
		}
		checkReplies(t, got, m.asks, m.ends)
		if m.ends == "" {
			sendTail(t, conn, tail[:min(len(tail), 100)])
		}
	})
}

// theEnd is the last reply.
const theEnd = "that was all of it"

// received reads up to the end of the connection, or up to the last reply.
func received(conn net.Conn) ([]byte, error) {
	var got []byte
	for piece := make([]byte, 64<<10); ; {
		n, err := conn.Read(piece)
		got = append(got, piece[:n]...)
		switch {
		case err == io.EOF:
			return got, nil
		case err != nil, bytes.HasSuffix(got, []byte(theEnd+"\r\n")):
			return got, err
		}
	}
}

// sendTail sends any input without names of commands, and closes the client's side. The server
// sends only complete replies.
func sendTail(t *testing.T, conn *await.Conn, tail []byte) {
	t.Helper()
	_, err := conn.Write(bytes.Map(func(c rune) rune {
		if c >= 'A' && c <= 'z' || c > 126 {
			return 'x'
		}
		return c
	}, tail))
	if err == nil {
		err = conn.CloseWrite()
	}
	if err != nil {
		return // it was an error, and the connection is gone
	}
	got, _ := io.ReadAll(conn)
	for len(got) > 0 {
		if got, err = testkit.Reply(got, 2); err != nil {
			t.Fatalf("%v, after %q", err, tail)
		}
	}
}

// checkReplies checks the number of replies. If an error ended the connection, the last reply must
// be this error.
func checkReplies(t *testing.T, got []byte, want int, ends string) {
	t.Helper()
	n, last := 0, []byte(nil)
	for rest := got; len(rest) > 0; n++ {
		last = rest
		var err error
		if rest, err = testkit.Reply(rest, 2); err != nil {
			t.Fatal(err)
		}
	}
	if n != want {
		t.Fatalf("%d replies, not %d: %.2000q", n, want, got)
	}
	if wrong := "-ERR Protocol error: " + ends + "\r\n"; ends != "" && string(last) != wrong {
		t.Fatalf("the last reply is %.200q, not %q", last, wrong)
	}
}
