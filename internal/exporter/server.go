package exporter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"keyp/internal/rdb"
	"keyp/resp"
)

// This file reads all keys of a running server through a connection, with SCAN and DUMP.

const (
	// scanCount is the COUNT of each SCAN.
	scanCount = 512
	// windowKeys bounds how many keys are read at a time. windowBytes bounds the size of their
	// values, as estimated from the mean so far. Keys come in the order of a hash, so the mean
	// is representative.
	windowKeys  = 64
	windowBytes = 4 << 20
	// keyTries is how often a key is read again if it changes meanwhile. After that it is read
	// in a transaction, during which the server does nothing else.
	keyTries = 10
	// maxLine (bytes) and maxDepth bound a reply. pieceBytes bounds the memory that is
	// allocated before its bytes have arrived.
	maxLine    = 64 << 10
	maxDepth   = 8
	pieceBytes = 1 << 20
)

// Server is a running server of Keyp, reached by a connection.
type Server struct {
	conn net.Conn
	in   *bufio.Reader
	out  resp.Writer
	dbs  []database
	// values and bytes are the number and the size of values so far. window is how many keys
	// the next commands ask for.
	values, bytes int64
	window        int
}

// database is a database that has keys.
type database struct {
	number int
	keys   int64
}

// reply is a reply of the server.
type reply struct {
	kind byte
	text []byte // of a simple or bulk string, an error, or the digits of a number
	null bool
	list []reply
}

// NewServer checks that the server is Keyp, and returns an error if it is not.
func NewServer(conn net.Conn) (*Server, error) {
	s := &Server{conn: conn, in: bufio.NewReaderSize(conn, maxLine), window: 1}
	got, err := s.ask("INFO", "server")
	switch {
	case err != nil:
		return nil, err
	case !bytes.Contains(got.text, []byte("keyp_version:")):
		return nil,
			errors.New(
				"it is no server of Keyp; `redis-cli --rdb FILE` has one of Redis write a file")
	}
	if _, err := s.ask("CLIENT", "NO-TOUCH", "ON"); err != nil {
		// Otherwise the reads would count as uses, and policies would move deadlines.
		return nil, err
	}
	got, err = s.ask("INFO", "keyspace")
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(got.text), "\r\n") {
		var db database
		if n, _ := fmt.Sscanf(line, "db%d:keys=%d,", &db.number, &db.keys); n == 2 {
			s.dbs = append(s.dbs, db)
		}
	}
	return s, nil
}

// Size returns the number of keys at the time when NewServer asked for it.
func (s *Server) Size() (n int64, _ error) {
	for _, db := range s.dbs {
		n += db.keys
	}
	return n, nil
}

// Libraries implements Source.
func (s *Server) Libraries() ([]string, error) {
	got, err := s.ask("FUNCTION", "DUMP")
	if err != nil {
		return nil, err
	}
	sources, problem, err := rdb.DecodeLibraries(got.text)
	if problem != "" {
		err = errors.New(problem)
	}
	return sources, err
}

// Rules implements Source.
func (s *Server) Rules() (rules []Rule, err error) {
	for _, of := range []struct{ command, what string }{{"KEYP.POLICY", "policies"},
		{"KEYP.OUTBOX", "outboxes"}} {
		got, err := s.ask(of.command, "LIST")
		if err != nil {
			return nil, err
		}
		for _, one := range got.list {
			rules = append(rules, Rule{of.what, string(one.field("name").text)})
		}
	}
	return rules, nil
}

// Each implements Source. It visits each key that exists during the whole export.
func (s *Server) Each(ctx context.Context, visit func(*Key) error) error {
	for _, db := range s.dbs {
		if _, err := s.ask("SELECT", strconv.Itoa(db.number)); err != nil {
			return err
		}
		for cursor := "0"; ; {
			got, err := s.ask("SCAN", cursor, "COUNT", strconv.Itoa(scanCount))
			if err != nil {
				return err
			}
			if len(got.list) != 2 || got.list[1].kind != '*' {
				return errReply
			}
			if err := s.keys(ctx, db.number, got.list[1].list, visit); err != nil {
				return err
			}
			if cursor = string(got.list[0].text); cursor == "0" {
				break
			}
		}
	}
	return nil
}

// keys visits the keys with these names.
func (s *Server) keys(ctx context.Context, db int, names []reply, visit func(*Key) error) error {
	for len(names) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(names), s.window)
		keys, err := s.read(names[:n])
		if err != nil {
			return err
		}
		if err := s.readAges(keys); err != nil {
			return err
		}
		for i := range keys {
			keys[i].DB = db
			s.values, s.bytes = s.values+1, s.bytes+int64(len(keys[i].Payload))
			if err := visit(&keys[i]); err != nil {
				return err
			}
		}
		mean := s.bytes/max(s.values, 1) + 1
		s.window = int(min(int64(2*s.window), windowKeys, max(windowBytes/mean, 1)))
		names = names[n:]
	}
	return nil
}

// read returns keys. The value and the deadline of each are from the same instant.
func (s *Server) read(names []reply) ([]Key, error) {
	keys, same, err := s.watched(names)
	if err != nil || same {
		return keys, err
	}
	keys = nil
	for i := range names {
		one, err := s.alone(names[i : i+1])
		if err != nil {
			return nil, err
		}
		keys = append(keys, one...)
	}
	return keys, nil
}

// watched returns keys. If one of them has changed meanwhile, same is false.
func (s *Server) watched(names []reply) (keys []Key, same bool, err error) {
	for _, name := range names {
		s.add([]byte("WATCH"), name.text)
		s.add([]byte("DUMP"), name.text)
		s.add([]byte("PEXPIRETIME"), name.text)
	}
	s.add([]byte("MULTI"))
	s.add([]byte("EXEC"))
	if err := s.send(); err != nil {
		return nil, false, err
	}
	for _, name := range names {
		if _, err := s.reply(); err != nil {
			return nil, false, err
		}
		payload, err := s.reply()
		if err != nil {
			return nil, false, err
		}
		deadline, err := s.reply()
		if err != nil {
			return nil, false, err
		}
		if keys, err = appendKey(keys, name, payload, deadline); err != nil {
			return nil, false, err
		}
	}
	if _, err := s.reply(); err != nil {
		return nil, false, err
	}
	ran, err := s.reply()
	return keys, !ran.null, err
}

// alone reads a single key. If the key changes too often, it reads the key in a transaction.
func (s *Server) alone(name []reply) ([]Key, error) {
	for range keyTries {
		keys, same, err := s.watched(name)
		if err != nil || same {
			return keys, err
		}
	}
	s.add([]byte("MULTI"))
	s.add([]byte("DUMP"), name[0].text)
	s.add([]byte("PEXPIRETIME"), name[0].text)
	s.add([]byte("EXEC"))
	if err := s.send(); err != nil {
		return nil, err
	}
	for range 3 {
		if _, err := s.reply(); err != nil {
			return nil, err
		}
	}
	got, err := s.reply()
	if err != nil {
		return nil, err
	}
	if len(got.list) != 2 {
		return nil, errReply
	}
	return appendKey(nil, name[0], got.list[0], got.list[1])
}

// appendKey appends a key, unless the key no longer exists.
func appendKey(keys []Key, name, payload, deadline reply) ([]Key, error) {
	at, err := strconv.ParseInt(string(deadline.text), 10, 64)
	switch {
	case err != nil || payload.kind != '$':
		return nil, errReply
	case payload.null || at == -2:
		return keys, nil
	case at == -1:
		at = 0
	}
	return append(keys, Key{Name: name.text, Deadline: at, Payload: payload.text}), nil
}

// readAges finds out which streams have an age.
func (s *Server) readAges(keys []Key) error {
	var streams []*Key
	for i := range keys {
		if k := &keys[i]; len(k.Payload) > 0 && rdb.TypeOf(k.Payload) == rdb.Stream {
			streams = append(streams, k)
			s.add([]byte("XINFO"), []byte("STREAM"), k.Name)
		}
	}
	if err := s.send(); err != nil {
		return err
	}
	for _, k := range streams {
		got, err := s.readReply(0)
		if err != nil {
			return err
		}
		k.Aged = got.field("max-age").text != nil // also if it is no stream any more
	}
	return nil
}

// field returns a field of a map, which is an array in RESP2. A missing field is an empty reply.
func (r reply) field(name string) reply {
	for i := 0; i+1 < len(r.list); i += 2 {
		if string(r.list[i].text) == name {
			return r.list[i+1]
		}
	}
	return reply{}
}

var errReply = errors.New("the server's reply is none of Keyp's")

// ask sends one command and returns its reply.
func (s *Server) ask(args ...string) (reply, error) {
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = []byte(arg)
	}
	s.add(list...)
	if err := s.send(); err != nil {
		return reply{}, err
	}
	got, err := s.reply()
	if err != nil {
		err = fmt.Errorf("%s: %w", args[0], err)
	}
	return got, err
}

func (s *Server) add(args ...[]byte) {
	s.out.Array(len(args))
	for _, arg := range args {
		s.out.Bulk(arg)
	}
}

func (s *Server) send() error {
	if s.out.Len() == 0 {
		return nil
	}
	_, err := s.conn.Write(s.out.Buf)
	s.out.Truncate(0)
	return err
}

// reply reads a reply. An error reply is an error.
func (s *Server) reply() (reply, error) {
	got, err := s.readReply(0)
	if err == nil && got.kind == '-' {
		err = fmt.Errorf("the server replies %q", got.text)
	}
	return got, err
}

func (s *Server) readReply(depth int) (r reply, err error) {
	line, err := s.in.ReadSlice('\n')
	switch {
	case err != nil:
		return r, fmt.Errorf("the server's replies end: %w", err)
	case len(line) < 3 || depth > maxDepth:
		return r, errReply
	}
	r.kind, line = line[0], line[1:len(line)-2]
	switch r.kind {
	case '+', '-', ':':
		r.text = slices.Clone(line)
		return r, nil
	case '$', '*':
	default:
		return r, errReply
	}
	n, err := strconv.Atoi(string(line))
	switch {
	case err != nil:
		return r, errReply
	case n < 0:
		r.null = true
	case r.kind == '$':
		r.text, err = s.bulk(n)
	default:
		for ; n > 0 && err == nil; n-- {
			var one reply
			one, err = s.readReply(depth + 1)
			r.list = append(r.list, one)
		}
	}
	return r, err
}

// bulk reads n bytes and the end of the line.
func (s *Server) bulk(n int) ([]byte, error) {
	text := make([]byte, 0, min(n, pieceBytes))
	for len(text) < n {
		from := len(text)
		text = slices.Grow(text, min(n-from, pieceBytes))
		text = text[:min(n, cap(text))]
		if _, err := io.ReadFull(s.in, text[from:]); err != nil {
			return nil, fmt.Errorf("the server's replies end: %w", err)
		}
	}
	_, err := s.in.Discard(2)
	return text, err
}
