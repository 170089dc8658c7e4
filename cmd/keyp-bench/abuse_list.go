package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"keyp/internal/clock"
)

const mebi = 1 << 20

// fillStep is how many elements a command adds while a collection is filled.
const fillStep = 500

// collectionKind is a type of collection.
type collectionKind struct {
	name    string
	fill    string                              // the command that adds elements
	element func(args []string, n int) []string // appends element n as arguments of fill
}

var collectionKinds = []collectionKind{
	{"hash", "HSET", func(args []string, n int) []string {
		return append(args, "field:"+strconv.Itoa(n), strconv.Itoa(n))
	}},
	{"set", "SADD", func(args []string, n int) []string {
		return append(args, "member:"+strconv.Itoa(n))
	}},
	{"sorted set", "ZADD", func(args []string, n int) []string {
		return append(args, strconv.Itoa(n), "member:"+strconv.Itoa(n))
	}},
	{"list", "RPUSH", func(args []string, n int) []string {
		return append(args, "element:"+strconv.Itoa(n))
	}},
}

// large returns the key of the large collection of this kind.
func (k collectionKind) large() string { return "large:" + k.name }

// fillLarge returns a step that makes the large collections of the named kinds, or of all kinds if
// none is named.
func fillLarge(kinds ...string) func(*abuser) error {
	return func(a *abuser) error {
		for _, k := range collectionKinds {
			if len(kinds) > 0 && !slices.Contains(kinds, k.name) {
				continue
			}
			if err := a.fillOne(k, k.large(), 0); err != nil {
				return err
			}
		}
		return nil
	}
}

// eachLarge returns a step that runs a command on the large collection of each kind.
func eachLarge(name string, args ...string) func(*abuser) error {
	return func(a *abuser) error {
		for _, k := range collectionKinds {
			if err := a.run(append([]string{name, k.large()}, args...)...); err != nil {
				return err
			}
		}
		return nil
	}
}

// largeAbuses use all four large collections.
var largeAbuses = []abuse{
	{name: "a checkpoint of all", prepare: fillLarge(), do: func(a *abuser) error {
		if err := a.run("BGSAVE"); err != nil {
			return err
		}
		return a.b.waitIdle(a.ctx, []*target{a.t})
	}},
	{name: "DEL of each", do: eachLarge("DEL")},
	{name: "expiry of each", prepare: fillLarge(), do: eachLarge("PEXPIRE", "1")},
}

// fillOne replaces the key by a collection with a.n elements. The elements have the numbers from
// first on.
func (a *abuser) fillOne(k collectionKind, key string, first int) error {
	if err := a.run("DEL", key); err != nil {
		return err
	}
	var requests []byte
	for n := 0; n < a.n; n += fillStep {
		args := []string{k.fill, key}
		for i := n; i < min(n+fillStep, a.n); i++ {
			args = k.element(args, first+i)
		}
		requests = appendCommand(requests, args...)
		if len(requests) >= mebi || n+fillStep >= a.n {
			if err := a.main.ask(requests); err != nil {
				return err
			}
			requests = requests[:0]
		}
	}
	return nil
}

// filled returns a step that makes a second collection of a kind, which shares half of its elements
// with the first one.
func filled(kind string) func(*abuser) error {
	return func(a *abuser) error {
		for _, k := range collectionKinds {
			if k.name == kind {
				return a.fillOne(k, k.large()+":2", a.n/2)
			}
		}
		return fmt.Errorf("no kind %q", kind)
	}
}

// repeated returns a step that sends a command n times in one pipeline.
func repeated(n func(a *abuser) int, args ...string) func(*abuser) error {
	return func(a *abuser) error {
		return a.main.ask(pipeline(n(a), args...))
	}
}

// manyArgs returns a step that sends a command with n more arguments. Each one is the prefix with a
// number.
func manyArgs(n func(a *abuser) int, prefix string, args ...string) func(*abuser) error {
	return func(a *abuser) error {
		b := redcon.AppendArray(nil, len(args)+n(a))
		for _, arg := range args {
			b = redcon.AppendBulkString(b, arg)
		}
		for i := range n(a) {
			b = redcon.AppendBulkString(b, prefix+strconv.Itoa(i))
		}
		return a.main.ask(b)
	}
}

func elements(a *abuser) int { return a.n }

// part returns a function that returns a percentage of the number of elements.
func part(percent int) func(*abuser) int {
	return func(a *abuser) int { return a.n * percent / 100 }
}

// bytesOf returns a size in bytes in proportion to the number of elements: mib MiB for a million.
func bytesOf(a *abuser, mib int) int { return max(1024, mib*a.n/1_000_000*mebi) }

// readAbuses are commands that read very many elements.
var readAbuses = []abuse{
	{name: "KEYS *", do: command("KEYS", "*"), times: 2},
	{name: "KEYS with a bomb of stars", do: command("KEYS", strings.Repeat("*a", 500)+"b"),
		times: 2},
	{name: "SMEMBERS", prepare: fillLarge("set"), do: command("SMEMBERS", "large:set"), times: 2},
	{name: "HGETALL", prepare: fillLarge("hash"), do: command("HGETALL", "large:hash"), times: 2},
	{name: "LRANGE 0 -1", prepare: fillLarge("list"), do: command("LRANGE", "large:list", "0",
		"-1"), times: 2},
	{name: "ZRANGE 0 -1", prepare: fillLarge("sorted set"),
		do: command("ZRANGE", "large:sorted set", "0", "-1", "WITHSCORES"), times: 2},
	{name: "SORT", do: command("SORT", "large:list", "ALPHA")},
	{name: "SORT BY", do: command("SORT", "large:list", "ALPHA", "BY", "x:*", "LIMIT", "0", "10")},
	{name: "SUNION", prepare: filled("set"), do: command("SUNION", "large:set", "large:set:2")},
	{name: "SINTERCARD", do: command("SINTERCARD", "2", "large:set", "large:set:2")},
	{name: "SDIFF", do: command("SDIFF", "large:set", "large:set:2")},
	{name: "ZUNION", prepare: filled("sorted set"), do: command("ZUNION", "2", "large:sorted set",
		"large:sorted set:2", "WITHSCORES")},
	{name: "LPOS of what is not there", do: command("LPOS", "large:list", "nothing"), times: 5},
	{name: "SRANDMEMBER of all", do: func(a *abuser) error {
		return a.run("SRANDMEMBER", "large:set", strconv.Itoa(-a.n))
	}},
	{name: "DUMP", do: command("DUMP", "large:hash")},
	{name: "MGET of 100k keys", do: manyArgs(part(10), "key:", "MGET")},
	{name: "EXISTS of 1M keys", do: manyArgs(elements, "none:", "EXISTS")},
}

// writeAbuses are commands that change very many elements.
var writeAbuses = []abuse{
	{
		name: "SUNIONSTORE", prepare: steps(fillLarge("set"), filled("set")),
		do: command("SUNIONSTORE", "stored", "large:set", "large:set:2"),
	},
	{name: "SORT … STORE", prepare: fillLarge("list"), do: command("SORT", "large:list", "ALPHA",
		"STORE", "stored")},
	{
		name: "ZUNIONSTORE", prepare: steps(fillLarge("sorted set"), filled("sorted set")),
		do: command("ZUNIONSTORE", "stored", "2", "large:sorted set", "large:sorted set:2"),
	},
	{name: "ZRANGESTORE", do: command("ZRANGESTORE", "stored", "large:sorted set", "0", "-1")},
	{name: "COPY", do: command("COPY", "large:set", "copied", "REPLACE")},
	{name: "RENAME", do: command("RENAME", "copied", "renamed")},
	{name: "RPUSH of 100k", do: manyArgs(part(10), "element:", "RPUSH", "pushed")},
	{name: "MSET of 100k keys", do: manyArgs(part(20), "set:", "MSET")},
	{name: "LREM of what is not there", do: command("LREM", "large:list", "0", "nothing"),
		times: 3},
	{name: "LTRIM to one", do: command("LTRIM", "large:list", "0", "0")},
	{name: "ZREMRANGEBYRANK of all but one",
		do: command("ZREMRANGEBYRANK", "large:sorted set:2", "1", "-1")},
	{name: "DEL of a hash", prepare: fillLarge("hash"), do: command("DEL", "large:hash")},
	{name: "DEL of 100k keys", do: manyArgs(part(10), "set:", "DEL")},
	{name: "MULTI of 100k commands", do: func(a *abuser) error {
		b := encode("MULTI")
		for i := range a.n / 10 {
			b = appendCommand(b, "SET", "multi:"+strconv.Itoa(i), "x")
		}
		return a.main.ask(appendCommand(b, "EXEC"))
	}},
	{name: "WATCH of 20k keys", do: manyArgs(part(2), "watched:", "WATCH")},
	{name: "FLUSHDB", prepare: command("SELECT", "1"),
		do: steps(manyArgs(part(20), "flushed:", "MSET"), command("FLUSHDB"))},
}

// stringAbuses are about strings of hundreds of MiB.
var stringAbuses = []abuse{
	{name: "SET of 256 MiB", do: func(a *abuser) error {
		return a.run("SET", "string", strings.Repeat("x", bytesOf(a, 256)))
	}},
	{name: "GET of 256 MiB", do: command("GET", "string"), times: 2},
	{name: "SETRANGE to 512 MiB", do: func(a *abuser) error {
		return a.run("SETRANGE", "ranged", strconv.Itoa(bytesOf(a, 512)-1), "x")
	}},
	{name: "APPEND to 256 MiB", do: command("APPEND", "string", "x")},
	{name: "COPY of 256 MiB", do: command("COPY", "string", "copied", "REPLACE")},
	{name: "DUMP of 256 MiB", do: command("DUMP", "string")},
	{name: "GETRANGE of 256 MiB", do: command("GETRANGE", "string", "0", "-1")},
	{name: "MGET of one of 1 MiB 200 times", prepare: setString("one", 1),
		do: func(a *abuser) error {
			return a.run(append([]string{"MGET"},
				slices.Repeat([]string{"one"}, max(1, 200*a.n/1_000_000))...)...)
		}},
	{name: "LCS of 10 KB", prepare: func(a *abuser) error {
		size := max(10, 10_000*a.n/1_000_000)
		return a.run("MSET", "left", strings.Repeat("ab", size/2), "right",
			strings.Repeat("ba", size/2))
	}, do: command("LCS", "left", "right"), times: 3},
	{name: "DEL of 256 MiB", do: command("DEL", "string", "copied", "ranged")},
}

func setString(key string, mib int) func(*abuser) error {
	return func(a *abuser) error { return a.run("SET", key, strings.Repeat("x", bytesOf(a, mib))) }
}

// inputAbuses are pipelines and commands that do not end.
var inputAbuses = []abuse{
	{name: "1M GETs at once", do: repeated(elements, "GET", "key:0")},
	{name: "1M SETs at once", do: repeated(elements, "SET", "piped", "x")},
	{name: "INFO 5000 times at once", do: repeated(part(1), "INFO", "everything")},
	{name: "half-sent commands on 2000 connections", do: manyConns(2000,
		"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$100000\r\n"+strings.Repeat("x", 20_000))},
	{name: "promised arguments on 2000 connections",
		do: manyConns(2000, "*1000000000\r\n$3\r\nSET\r\n$536870912\r\n")},
	{name: "byte by byte on 200 connections", do: func(a *abuser) error {
		if err := manyConns(200, "*3\r\n")(a); err != nil {
			return err
		}
		for _, b := range []byte("$3\r\nSET\r\n$4\r\nslow\r\n$50\r\n" + strings.Repeat("x", 50)) {
			for _, conn := range a.extra {
				if _, err := conn.Write([]byte{b}); err != nil {
					return err
				}
			}
		}
		return nil
	}},
	{name: "8000 idle connections", do: manyConns(8000, "")},
	{name: "CLIENT LIST with 8000 clients", prepare: manyConns(8000, ""),
		do: command("CLIENT", "LIST"), times: 5},
	{name: "5000 connections come and go", do: func(a *abuser) error {
		for range a.scaled(5000) {
			c, err := a.dial()
			if err != nil {
				return err
			}
			if err := c.conn.Close(); err != nil {
				return err
			}
		}
		return nil
	}},
}

// scaled returns n, or less in proportion if there are fewer than a million elements.
func (a *abuser) scaled(n int) int { return max(1, min(n, n*a.n/1_000_000)) }

// manyConns returns a step that opens connections, each of which sends text and nothing more.
func manyConns(n int, text string) func(*abuser) error {
	return func(a *abuser) error {
		for range a.scaled(n) {
			c, err := a.open()
			if err != nil {
				return err
			}
			if _, err := c.conn.Write([]byte(text)); err != nil {
				return err
			}
		}
		return nil
	}
}

// unreadTime is how long a client that reads nothing writes, in ms.
const unreadTime = 2000

// unread returns a step with a client that never reads. It sends first, and then more for a while,
// as long as the server accepts that. Meanwhile another client sends others and reads the replies.
func unread(first, more, others []byte) func(*abuser) error {
	return func(a *abuser) error {
		deaf, err := a.open()
		if err != nil {
			return err
		}
		if _, err := deaf.conn.Write(first); err != nil {
			return err
		}
		until := clock.System.Now() + unreadTime
		if a.b.quick {
			until -= unreadTime * 9 / 10
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			send(deaf.conn, more, until)
		}()
		for len(others) > 0 && clock.System.Now() < until {
			if err := a.main.ask(others); err != nil {
				<-ended
				return err
			}
		}
		<-ended
		return nil
	}
}

// send writes until the time until, or until the connection ends, because the server may close it.
func send(conn net.Conn, more []byte, until int64) {
	if len(more) == 0 || conn.SetWriteDeadline(time.UnixMilli(until)) != nil {
		return
	}
	for clock.System.Now() < until {
		if _, err := conn.Write(more); err != nil {
			return
		}
	}
}

func pipeline(n int, args ...string) []byte {
	return []byte(strings.Repeat(string(encode(args...)), n))
}

// outputAbuses are clients that do not read.
var outputAbuses = []abuse{
	{name: "GETs of 1 MiB unread", prepare: setString("one", 1),
		do: unread(nil, pipeline(1000, "GET", "one"), nil)},
	{name: "GETs of 100 B unread", do: unread(nil, pipeline(10_000, "GET", "key:0"), nil)},
	{
		name: "MONITOR unread", do: unread(encode("MONITOR"), nil,
			pipeline(10, "SET", "shown", strings.Repeat("x", 100_000))),
	},
	{
		name: "CLIENT TRACKING unread",
		do: unread(appendCommand(encode("HELLO", "3"), "CLIENT", "TRACKING", "ON", "BCAST"), nil,
			pipeline(1000, "SET", strings.Repeat("long", 1000), "x")),
	},
	{
		name: "SUBSCRIBE unread", do: unread(encode("SUBSCRIBE", "news"), nil,
			pipeline(10, "PUBLISH", "news", strings.Repeat("x", 100_000))),
	},
	{
		name: "100k patterns",
		prepare: func(a *abuser) error {
			return a.subscribe("PSUBSCRIBE", "*pattern", a.scaled(100_000))
		},
		do: repeated(func(*abuser) int { return 100 }, "PUBLISH", "news", "x"),
	},
	{name: "SUBSCRIBE to 200k channels", do: func(a *abuser) error {
		return a.subscribe("SUBSCRIBE", "channel", a.n/5)
	}},
}

// subscribe opens a connection and subscribes it to n channels.
func (a *abuser) subscribe(command, prefix string, n int) error {
	c, err := a.open()
	if err != nil {
		return err
	}
	if err := c.ask(encode("HELLO", "3")); err != nil {
		return err
	}
	b := redcon.AppendArray(nil, n+1)
	b = redcon.AppendBulkString(b, command)
	for i := range n {
		b = redcon.AppendBulkString(b, prefix+strconv.Itoa(i))
	}
	return c.ask(b)
}

// scriptAbuses are scripts that take all memory, which may be refused, and scripts that do not end,
// which are killed before other clients get -BUSY.
var scriptAbuses = []abuse{
	{name: "a script that allocates",
		do: refusable(command("EVAL", "local t = {} for i = 1, 1e7 do t[i] = 'x' .. i end", "0"))},
	{name: "a script that makes one long string",
		do: refusable(command("EVAL", "local s = 'x' for i = 1, 30 do s = s .. s end", "0"))},
	{name: "a pattern that matches slowly",
		do: killed(command("EVAL",
			"return string.find(string.rep('a', 10000), string.rep('a*', 50) .. 'b')", "0"))},
	{name: "a script that loops", do: killed(command("EVAL", "while true do end", "0"))},
}

// refusable returns a step that succeeds even if the server refuses do.
func refusable(do func(*abuser) error) func(*abuser) error {
	return func(a *abuser) error {
		err := do(a)
		if err != nil && strings.Contains(err.Error(), errWrong.Error()) {
			return nil
		}
		return err
	}
}

// killed returns a step that runs do, and ends it by SCRIPT KILL after a second.
func killed(do func(*abuser) error) func(*abuser) error {
	return func(a *abuser) error {
		killer, err := a.open()
		if err != nil {
			return err
		}
		ended := make(chan error)
		go func() {
			err := pause(a.ctx, clock.System.Now()+1000)
			if err == nil {
				err = refusable(func(*abuser) error {
					return killer.ask(encode("SCRIPT", "KILL"))
				})(a)
			}
			ended <- err
		}()
		err = refusable(do)(a)
		if killErr := <-ended; err == nil {
			err = killErr
		}
		return err
	}
}
