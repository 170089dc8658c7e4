package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"keyp/internal/testkit/await"
	_ "keyp/internal/testkit/setup"
)

func TestScan(t *testing.T) {
	tests := []struct {
		in   string
		want string
	}{
		{"+OK\r\n", "+OK"},
		{"+\r\n", "+"},
		{"-ERR no such thing\r\n", "-ERR no such thing"},
		{":0\r\n", ":0"},
		{":-42\r\n", ":-42"},
		{":9223372036854775807\r\n", ":9223372036854775807"},
		{":-9223372036854775808\r\n", ":-9223372036854775808"},
		{"$-1\r\n", "$-1 (null)"},
		{"$0\r\n\r\n", `$""`},
		{"$5\r\na\r\nbc\r\n", `$"a\r\nbc"`},
	}
	for _, tt := range tests {
		for cut := range tt.in {
			if _, n, err := Scan([]byte(tt.in[:cut])); n != 0 || err != nil {
				t.Errorf("Scan(%q) = %d, %v, want a wait for more", tt.in[:cut], n, err)
			}
		}
		reply, n, err := Scan([]byte(tt.in + "+next\r\n"))
		if err != nil || n != len(tt.in) || reply.String() != tt.want {
			t.Errorf("Scan(%q) = %v, %d, %v, want %s", tt.in, reply, n, err, tt.want)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	for _, in := range []string{
		"\n", "\r\n", "x\n", "+OK\n", ":\r\n", ":1x\r\n", ":99999999999999999999\r\n",
		"$-2\r\n", "$\r\n", "$99999999999\r\n", "$2\r\nabc\r\n", "*1\r\n:1\r\n", "HTTP/1.1 400\r\n",
	} {
		if reply, n, err := Scan([]byte(in)); !errors.Is(err, ErrProtocol) {
			t.Errorf("Scan(%q) = %v, %d, %v, want ErrProtocol", in, reply, n, err)
		}
	}
}

func TestAppend(t *testing.T) {
	got := AppendCommand(nil, "SET", "k", "")
	if want := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"; string(got) != want {
		t.Errorf("AppendCommand = %q, want %q", got, want)
	}
	got = AppendInt(nil, -1234)
	if want := "$5\r\n-1234\r\n"; string(got) != want {
		t.Errorf("AppendInt = %q, want %q", got, want)
	}
}

// A client reads replies larger than its buffer, several in a row, in pieces.
func TestClient(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	large := strings.Repeat("v", 100_000)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var answer string
			switch {
			case bytes.HasPrefix(line, []byte("GET")):
				answer = "$100000\r\n" + large + "\r\n"
			case bytes.HasPrefix(line, []byte("DBSIZE")):
				answer = ":12\r\n"
			case bytes.HasPrefix(line, []byte("BAD")):
				answer = "-ERR bad\r\n"
			default:
				continue
			}
			for part := range strings.SplitAfterSeq(answer, "\n") {
				if _, err := conn.Write([]byte(part)); err != nil {
					return
				}
			}
		}
	}()

	c, err := Dial(context.Background(), listener.Addr().String(), await.Bound)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if reply, err := c.Do("GET", "k"); err != nil || string(reply.Text) != large {
			t.Fatalf("GET = %v, %v", reply, err)
		}
		if n, err := c.Int("DBSIZE"); err != nil || n != 12 {
			t.Fatalf("DBSIZE = %d, %v", n, err)
		}
		if _, err := c.Int("BAD"); err == nil || !strings.Contains(err.Error(), "ERR bad") {
			t.Fatalf("an error reply where a number belongs: %v", err)
		}
	}
}

// TestScanArray: cut anywhere it is incomplete, whole it gives its parts and its length.
func TestScanArray(t *testing.T) {
	const whole = "*3\r\n$7\r\nmessage\r\n$-1\r\n:12\r\n"
	for cut := range len(whole) {
		if _, n, err := ScanArray(nil, []byte(whole[:cut])); n != 0 || err != nil {
			t.Fatalf("%q: %d, %v", whole[:cut], n, err)
		}
	}
	parts, n, err := ScanArray(nil, []byte(whole+"+more"))
	if err != nil || n != len(whole) || len(parts) != 3 || string(parts[0].Text) != "message" || !parts[1].Null || parts[2].Int != 12 {
		t.Errorf("%v, %d, %v", parts, n, err)
	}
	for _, wrong := range []string{"+OK\r\n", "*x\r\n", "*-1\r\n", "*1\r\n*1\r\n"} {
		if _, _, err := ScanArray(nil, []byte(wrong)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
