package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"keyp/internal/clock"
)

// abuse is one way to overload a server.
type abuse struct {
	name    string
	prepare step // called before the measurement; may be nil
	do      step
}

// step is a part of an abuse.
type step func(a *abuser) error

// abuses has one or two abuses for each mechanism of a server. They run in this order, and some use
// what an earlier one has made. Numbers are those of a million elements.
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
	// Scripts. The server may refuse what they want.
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

// fill returns a step that sends a command for each of a million elements.
func fill(command string) step {
	return func(a *abuser) error { return a.ask(pipeline(a.n, command)) }
}

// wide returns a step that sends one command with very many arguments: n times the words of more.
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
		_, _ = deaf.Write(requests) // the server may stop to read, or close the connection
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
