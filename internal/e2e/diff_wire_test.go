package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"keyp/internal/testkit/await"
)

// failer has the methods of *testing.T and *rapid.T that helpers need.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// reply is one reply: its exact bytes and its parsed content.
type reply struct {
	raw   string
	kind  byte   // the first byte: + - : $ * and RESP3's _ # , ( = ! % ~ >
	text  string // of a scalar
	null  bool   // $-1, *-1 or _
	items []reply
}

// isError returns true if the reply is an error.
func (r reply) isError() bool { return r.kind == '-' || r.kind == '!' }

// number returns the number in an integer reply. ok is false for any other reply.
func (r reply) number() (n int64, ok bool) {
	if r.kind != ':' {
		return 0, false
	}
	n, err := strconv.ParseInt(r.text, 10, 64)
	return n, err == nil
}

// texts returns the texts of an array's items.
func (r reply) texts() []string {
	list := make([]string, len(r.items))
	for i, item := range r.items {
		list[i] = item.text
	}
	return list
}

// fields returns the values of a map reply by the texts of their keys. In RESP2 the reply is a flat
// array.
func (r reply) fields() map[string]reply {
	m := make(map[string]reply, len(r.items)/2)
	for i := 0; i+1 < len(r.items); i += 2 {
		m[r.items[i].text] = r.items[i+1]
	}
	return m
}

// unordered returns the reply's bytes with its items sorted, for sets and maps whose order means
// nothing. size is the number of items that belong together (2 for a map).
func (r reply) unordered(size int) string {
	var groups []string
	for group := range slices.Chunk(r.items, size) {
		var b strings.Builder
		for _, item := range group {
			b.WriteString(item.raw)
		}
		groups = append(groups, b.String())
	}
	slices.Sort(groups)
	return fmt.Sprintf("%c%d %q", r.kind, len(r.items), groups)
}

// wire is a raw connection. It does not interpret what is sent and received.
type wire struct {
	*await.Conn
	in *bufio.Reader
}

func dialWire(addr string) (*wire, error) {
	conn, err := await.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, in: bufio.NewReader(conn)}, nil
}

// encode writes a command as clients do.
func encode(args ...string) string { return string(appendCommand(nil, args...)) }

func appendCommand(b []byte, args ...string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(args)), 10), "\r\n"...)
	for _, arg := range args {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(arg)), 10), "\r\n"...)
		b = append(append(b, arg...), "\r\n"...)
	}
	return b
}

func (w *wire) send(raw string) error {
	_, err := io.WriteString(w, raw)
	return err
}

// receive reads one reply.
func (w *wire) receive() (reply, error) {
	return readReply(w.in)
}

// doAll sends commands together and returns their replies.
func (w *wire) doAll(commands [][]string) ([]reply, error) {
	var b []byte
	for _, args := range commands {
		b = appendCommand(b, args...)
	}
	sent := make(chan error, 1)
	go func() { sent <- w.send(string(b)) }() // the server may wait until replies are read
	replies := make([]reply, len(commands))
	for i := range replies {
		var err error
		if replies[i], err = w.receive(); err != nil {
			return nil, fmt.Errorf("%q: %w", commands[i], err)
		}
	}
	return replies, <-sent
}

// do sends one command and returns its reply.
func (w *wire) do(args ...string) (reply, error) {
	if err := w.send(encode(args...)); err != nil {
		return reply{}, err
	}
	return w.receive()
}

// rest returns everything that arrives until the server closes the connection. A reset counts as
// closing, since a server that closes with unread input causes one.
func (w *wire) rest() (string, error) {
	all, err := io.ReadAll(w.in)
	if err != nil && isReset(err) {
		err = nil
	}
	return string(all), err
}

// isReset returns true if the other side closed the connection while we were still writing.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// errNotReply is returned for bytes that are no reply.
var errNotReply = errors.New("not a reply")

func readReply(in *bufio.Reader) (reply, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return reply{}, fmt.Errorf("%w: %q", errNotReply, line)
	}
	r := reply{raw: line, kind: line[0], text: line[1 : len(line)-2]}
	switch r.kind {
	case '+', '-', ':', ',', '#', '(':
		return r, nil
	case '_':
		r.null = true
		return r, nil
	}
	n, err := strconv.Atoi(r.text)
	if err != nil || n < -1 {
		return reply{}, fmt.Errorf("%w: %q", errNotReply, line)
	}
	if n < 0 {
		r.null, r.text = true, ""
		return r, nil
	}
	switch r.kind {
	case '$', '=', '!':
		return r, r.readBulk(in, n)
	case '*', '~', '>':
		return r, r.readItems(in, n)
	case '%':
		return r, r.readItems(in, 2*n)
	}
	return reply{}, fmt.Errorf("%w: %q", errNotReply, line)
}

func (r *reply) readBulk(in *bufio.Reader, n int) error {
	body := make([]byte, n+2)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	if string(body[n:]) != "\r\n" {
		return fmt.Errorf("%w: %d bytes do not end with a new line", errNotReply, n)
	}
	r.raw += string(body)
	r.text = string(body[:n])
	return nil
}

func (r *reply) readItems(in *bufio.Reader, n int) error {
	r.text = ""
	var raw strings.Builder
	raw.WriteString(r.raw)
	for range n {
		item, err := readReply(in)
		if err != nil {
			return err
		}
		raw.WriteString(item.raw)
		r.items = append(r.items, item)
	}
	r.raw = raw.String()
	return nil
}
