package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"keyp/internal/clock"
)

// This file measures how a server copes with commands and clients that overload it. Examples are
// KEYS on very many keys, a value of 256 MiB, and clients that do not read replies.

const (
	// abuseLead is the time in ms before and after each abuse (a command that overloads the server)
	// in which GETs are still measured.
	abuseLead = 150
	// abuseSample is the time in ms between two readings of the server's memory.
	abuseSample = 10
)

// abuser is the client that overloads the server.
type abuser struct {
	ctx   context.Context
	s     *server
	n     int // elements of a large value
	main  net.Conn
	conns []net.Conn // closed when the abuse has ended
}

// measureAbuses measures two things for each abuse: the latency of GETs that other clients send
// meanwhile, and the growth of the server's memory. If the server refuses an abuse, that is a
// failure, and the other abuses are still measured.
func measureAbuses(b *bench, ctx context.Context, w workload, s *server) ([]reading, error) {
	if err := b.load(ctx, s, keyPrefix, max(w.keys, readerKeys), nil); err != nil {
		return nil, err
	}
	var readings []reading
	for _, what := range abuses {
		a := &abuser{ctx: ctx, s: s, n: int(w.keys)}
		noticed, grown, err := a.measure(b, what)
		for _, conn := range a.conns {
			conn.Close()
		}
		if errors.Is(err, errWrong) {
			failure := fmt.Sprintf("%s, %s: %s: %v", w, s.name, what.name, err)
			b.failures = append(b.failures, failure)
			continue
		}
		if err != nil {
			return readings, fmt.Errorf("%s: %w", what.name, err)
		}
		readings = append(readings, reading{what.name + ": GET p99", "ms", millis(noticed.P99)},
			reading{what.name + ": GET max", "ms", millis(noticed.Max)},
			reading{what.name + ": memory", "MiB", mebibytes(grown)})
	}
	return readings, nil
}

// measure runs one abuse together with GETs. It returns the latencies of the GETs, and by how many
// bytes the server's memory grew.
func (a *abuser) measure(b *bench, what abuse) (got noticed, grown int64, err error) {
	if a.main, err = a.dial(); err != nil {
		return got, 0, err
	}
	if what.prepare != nil {
		if err := what.prepare(a); err != nil {
			return got, 0, fmt.Errorf("preparing: %w", err)
		}
	}
	if err := a.s.waitIdle(a.ctx); err != nil {
		return got, 0, err
	}
	gets, err := b.startReaders(a.ctx, a.s)
	if err != nil {
		return got, 0, err
	}
	defer gets.stop()
	from, before := clock.System.Now(), a.s.rssAnon()
	ended := make(chan error, 1)
	go func() {
		err := pause(a.ctx, from+abuseLead)
		if err == nil {
			err = what.do(a)
		}
		if err == nil {
			err = pause(a.ctx, clock.System.Now()+abuseLead)
		}
		ended <- err
	}()
	for {
		grown = max(grown, a.s.rssAnon()-before)
		select {
		case err := <-ended:
			if err == nil {
				got, err = gets.end(from)
			}
			return got, grown, err
		case <-time.After(abuseSample * time.Millisecond):
		}
	}
}

// dial opens a connection that stays until the abuse has ended, or the user ends the run.
func (a *abuser) dial() (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", a.s.addr, a.s.timeout)
	if err != nil {
		return nil, err
	}
	a.conns = append(a.conns, conn)
	context.AfterFunc(a.ctx, func() { conn.Close() })
	return conn, nil
}

// endOfReplies is the text of an ECHO after the requests, which marks the end of their replies.
const endOfReplies = "abuse-ends-here"

// ask sends encoded commands, and reads until all are answered. It does not parse replies and only
// finds their end. If the first reply is an error, ask returns it with errWrong.
func (a *abuser) ask(requests []byte) error {
	conn := a.main
	if err := conn.SetDeadline(time.Now().Add(a.s.timeout)); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(append(requests, encode("ECHO", endOfReplies)...))
		written <- err
	}()
	end := redcon.AppendBulkString(nil, endOfReplies)
	in := make([]byte, 256<<10)
	var last []byte
	var refused error
	for first := true; !bytes.HasSuffix(last, end); first = false {
		n, err := conn.Read(in)
		if err != nil {
			conn.Close()
			return errors.Join(err, <-written)
		}
		if first && in[0] == '-' {
			line, _, _ := bytes.Cut(in[:n], []byte("\r\n"))
			refused = fmt.Errorf("%w: %.200s", errWrong, line)
		}
		last = append(last, in[max(0, n-len(end)):n]...)
		last = last[max(0, len(last)-len(end)):]
	}
	return errors.Join(refused, <-written)
}

// abuse is one way to overload a server.
type abuse struct {
	name    string
	prepare step // called before the measurement; may be nil
	do      step
}

// step is a part of an abuse.
type step func(a *abuser) error

// abuses contains all abuses. They run in this order, and some use data that earlier ones have
// made. Most numbers in the names are those for a million elements (see scaled).
var abuses = []abuse{
	// Long reads.
	{"KEYS *", nil, send("KEYS", "*")},
	{"SMEMBERS", fill("SADD large:set member:#"), send("SMEMBERS", "large:set")},
	{"SORT", fill("RPUSH large:list element:#"), send("SORT", "large:list", "ALPHA")},
	{"EXISTS of 1M keys", nil, wide(1_000_000, "none:#", "EXISTS")},
	// Long writes.
	{"SUNIONSTORE", fill("SADD large:set:2 other:#"),
		send("SUNIONSTORE", "stored", "large:set", "large:set:2")},
	{"ZREMRANGEBYRANK of half", fill("ZADD large:zset # member:#"), func(a *abuser) error {
		return send("ZREMRANGEBYRANK", "large:zset", "0", strconv.Itoa(a.n/2))(a)
	}},
	{"MSET of 100k keys", nil, wide(100_000, "set:# x", "MSET")},
	{"DEL of 100k keys", nil, wide(100_000, "set:#", "DEL")},
	{"MULTI of 100k commands", nil, func(a *abuser) error {
		b := append(encode("MULTI"), pipeline(a.scaled(100_000), "SET multi:# x")...)
		return a.ask(append(b, encode("EXEC")...))
	}},
	{"FLUSHDB", func(a *abuser) error {
		return errors.Join(send("SELECT", "1")(a), fill("SET flushed:# x")(a))
	}, send("FLUSHDB")},
	// Large collections.
	{"checkpoint", fill("HSET large:hash field:# #"), func(a *abuser) error {
		return errors.Join(send("BGSAVE")(a), a.s.waitIdle(a.ctx))
	}},
	{"DEL of a set, a list and a hash", nil, send("DEL", "large:set", "large:list", "large:hash")},
	{"expiry of a set", nil, send("PEXPIRE", "stored", "1")},
	// Huge strings.
	{"SET of 256 MiB", nil, func(a *abuser) error {
		return send("SET", "string", strings.Repeat("x", a.scaled(256<<20)))(a)
	}},
	{"GET of 256 MiB", nil, send("GET", "string")},
	{"APPEND to 256 MiB", nil, send("APPEND", "string", "x")},
	// Input.
	{"1M GETs at once", nil, func(a *abuser) error {
		return a.ask(pipeline(a.n, "GET key:000000000000"))
	}},
	{"1M SETs at once", nil, func(a *abuser) error {
		return a.ask(pipeline(a.n, "SET piped x"))
	}},
	{"2000 half-sent commands", nil,
		connect(2000, "*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$100000\r\n"+strings.Repeat("x", 20_000))},
	{"8000 idle connections", nil, connect(8000, "")},
	// Clients that do not read.
	{"GETs of 1 MiB unread", send("SET", "one", strings.Repeat("x", 1<<20)),
		unread(pipeline(10_000, "GET one"), nil)},
	{"SUBSCRIBE unread", nil, unread(encode("SUBSCRIBE", "news"),
		encode("PUBLISH", "news", strings.Repeat("x", 1<<20)))},
	// Scripts. The server may refuse these requests.
	{"a script that allocates", nil,
		refusable(send("EVAL", "local t = {} for i = 1, 1e7 do t[i] = 'x' .. i end", "0"))},
	{"a script that loops", nil, killed(send("EVAL", "while true do end", "0"))},
}

// scaled returns n, or less in proportion if there are fewer than a million elements.
func (a *abuser) scaled(n int) int { return max(1, min(n, n*a.n/1_000_000)) }

// encode returns a command in RESP.
func encode(args ...string) []byte {
	b := redcon.AppendArray(nil, len(args))
	for _, arg := range args {
		b = redcon.AppendBulkString(b, arg)
	}
	return b
}

// pipeline returns n commands in RESP. Each one has its own number in place of every #.
func pipeline(n int, command string) (b []byte) {
	for i := range n {
		b = append(b, encode(numbered(command, i)...)...)
	}
	return b
}

// numbered returns the words of a text with a number in place of every #.
func numbered(text string, i int) []string {
	return strings.Fields(strings.ReplaceAll(text, "#", strconv.Itoa(i)))
}

// send returns a step that sends one command.
func send(args ...string) step {
	return func(a *abuser) error { return a.ask(encode(args...)) }
}

// fill returns a step that sends a command abuser.n times. The number in place of every #
// is a different one each time.
func fill(command string) step {
	return func(a *abuser) error { return a.ask(pipeline(a.n, command)) }
}

// wide returns a step that sends one command with very many arguments. It repeats the words of more
// n times, or fewer times in proportion (scaled).
func wide(n int, more, command string) step {
	return func(a *abuser) error {
		args := []string{command}
		for i := range a.scaled(n) {
			args = append(args, numbered(more, i)...)
		}
		return a.ask(encode(args...))
	}
}

// connect returns a step that opens n connections, each of which sends text and nothing more.
func connect(n int, text string) step {
	return func(a *abuser) error {
		for range a.scaled(n) {
			c, err := a.dial()
			if err != nil {
				return err
			}
			if _, err := c.Write([]byte(text)); err != nil {
				return err
			}
		}
		return nil
	}
}

// unread returns a step with a client that sends requests for two seconds and never reads.
// Meanwhile another client sends others, and reads their replies.
func unread(requests, others []byte) step {
	return func(a *abuser) error {
		deaf, err := a.dial()
		if err != nil {
			return err
		}
		until := clock.System.Now() + int64(a.scaled(2000))
		if err := deaf.SetWriteDeadline(time.UnixMilli(until)); err != nil {
			return err
		}
		_, _ = deaf.Write(requests) // the server may stop reading, or close the connection
		for others != nil && clock.System.Now() < until {
			if err := a.ask(others); err != nil {
				return err
			}
		}
		return pause(a.ctx, until)
	}
}

// refusable returns a step that succeeds even if the server refuses do.
func refusable(do step) step {
	return func(a *abuser) error {
		if err := do(a); !errors.Is(err, errWrong) {
			return err
		}
		return nil
	}
}

// killed returns a step that runs do, and ends it by SCRIPT KILL after a second.
func killed(do step) step {
	return func(a *abuser) error {
		ended := make(chan error, 1)
		go func() { ended <- refusable(do)(a) }()
		err := pause(a.ctx, clock.System.Now()+1000)
		client := a.s.dial()
		defer client.Close()
		return errors.Join(err, client.ScriptKill(a.ctx).Err(), <-ended)
	}
}
