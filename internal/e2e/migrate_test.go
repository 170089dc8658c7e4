package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// migrate sends MIGRATE to c, for a target at addr, and returns its reply or its error as text.
func migrate(c *redis.Client, addr string, args ...any) string {
	host, port, _ := net.SplitHostPort(addr)
	call := append([]any{"MIGRATE", host, port}, args...)
	reply, err := c.Do(ctx, call...).Text()
	if err != nil {
		return err.Error()
	}
	return reply
}

// patience is a timeout of MIGRATE, in ms, for targets that reply.
const patience = int(await.Bound / time.Millisecond)

// TestMigrate: values of every type can be moved to a redis-server and to another Keyp, and back,
// with their deadlines. Options and errors are those of Redis.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB,
		...string) *testkit.Server{"redis-server": testkit.Redis, "keyp": testkit.Keyp} {
		t.Run(name, func(t *testing.T) {
			there := start(t, "--requirepass", "secret")
			here := testkit.Keyp(t)
			from, to := here.Client(3), testkit.NewClient(t,
				&redis.Options{Addr: there.Addr(), Password: "secret", Protocol: 3})
			auth := []any{"AUTH", "secret"}
			with := func(args ...any) []any { return append(args, auth...) }

			is(t, "NOKEY")(migrate(from, there.Addr(), with("none", 0, patience)...), nil)
			is(t, "OK")(from.Set(ctx, "s", "text", time.Hour).Result())
			at := from.PExpireTime(ctx, "s").Val()
			is(t, "ERR Target instance replied with error: NOAUTH Authentication required.")(
				migrate(from, there.Addr(), "s", 0, patience), nil)
			is(t, "ERR Target instance replied with error: ERR DB index is out of range")(
				migrate(from, there.Addr(), with("s", 99, patience)...), nil)
			is(t, "OK")(migrate(from, there.Addr(), with("s", 0, patience, "COPY")...), nil)
			is(t, int64(1))(from.Exists(ctx, "s").Result())
			is(t,
				"ERR Target instance replied with error: BUSYKEY Target key name already exists.")(
				migrate(from, there.Addr(), with("s", 0, patience)...), nil)
			is(t, int64(1))(from.Exists(ctx, "s").Result())
			is(t, "OK")(migrate(from, there.Addr(), "s", 0, patience, "REPLACE", "AUTH2",
				"default", "secret"), nil)
			is(t, int64(0))(from.Exists(ctx, "s").Result())
			is(t, "text")(to.Get(ctx, "s").Result())
			is(t, at)(to.PExpireTime(ctx, "s").Result())

			is(t, int64(2))(from.RPush(ctx, "l", "a", strings.Repeat("b", 300_000)).Result())
			is(t, int64(2))(from.HSet(ctx, "h", "f", "v", "g", "w").Result())
			is(t, int64(3))(from.SAdd(ctx, "set", 1, 2, 3).Result())
			is(t, int64(1))(from.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"}).Result())
			// The key whose name is empty.
			is(t, "NOKEY")(migrate(from, there.Addr(), with("", 3, patience)...), nil)
			list := append(with("", 3, patience), "KEYS", "l", "none", "h", "set", "z")
			is(t, "OK")(migrate(from, there.Addr(), list...), nil)
			is(t, int64(0))(from.DBSize(ctx).Result())
			db := testkit.NewClient(t,
				&redis.Options{Addr: there.Addr(), Password: "secret", DB: 3})
			is(t, int64(4))(db.DBSize(ctx).Result())
			is(t, map[string]string{"f": "v", "g": "w"})(db.HGetAll(ctx, "h").Result())
			is(t, int64(2))(db.LLen(ctx, "l").Result())

			is(t, "OK")(migrate(db, here.Addr(), "", 0, patience, "KEYS", "h", "z"), nil)
			is(t, 1.5)(from.ZScore(ctx, "z", "m").Result())
			is(t, int64(2))(db.DBSize(ctx).Result())
		})
	}
}

// target starts a server that MIGRATE can send keys to. It calls answer with each command to get
// the reply. If answer returns an error, the server closes the connection.
func target(t *testing.T, answer func(args []string) (string, error)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					args, err := readCall(in)
					if err != nil {
						return
					}
					reply, err := answer(args)
					if _, writing := io.WriteString(conn, reply); err != nil || writing != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

func readCall(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || line[0] != kind {
			return 0, errors.Join(err, errors.New("no command"))
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// TestMigrateFailures: keys that the target has not accepted stay, whatever the target does. The
// errors are those of redis-server.
func TestMigrateFailures(t *testing.T) {
	t.Parallel()
	ends := errors.New("the connection ends")
	after := func(word, reply string, err error) func([]string) (string, error) {
		return func(args []string) (string, error) {
			if args[0] == word {
				return reply, err
			}
			return "+OK\r\n", nil
		}
	}
	targets := map[string]string{
		"refuses connections": "127.0.0.1:1",
		"ends at SELECT":      target(t, after("SELECT", "", ends)),
		"ends at RESTORE":     target(t, after("RESTORE", "", ends)),
		"ends midway":         target(t, after("RESTORE", "+O", ends)),
		"refuses the value":   target(t, after("RESTORE", "-ERR Bad data format\r\n", nil)),
		"refuses SELECT":      target(t, after("SELECT", "-ERR no such database\r\n", nil)),
		"is silent":           target(t, after("RESTORE", "", nil)),
		"is silent at once":   target(t, after("SELECT", "", nil)),
	}
	keyp, server := testkit.Keyp(t).Client(2), testkit.Redis(t).Client(2)
	for name, addr := range targets {
		var replies []string
		timeout := patience
		if strings.HasPrefix(name, "is silent") {
			timeout = 100
		}
		for _, c := range []*redis.Client{keyp, server} {
			is(t, "OK")(c.MSet(ctx, "a", "1", "b", "2").Result())
			replies = append(replies, migrate(c, addr, "", 0, timeout, "KEYS", "a", "b"))
			// If a target leaves out a reply, redis-server takes the reply to one command for that
			// to another.
			if got := c.MGet(ctx, "a", "b").Val(); c == keyp &&
				!reflect.DeepEqual(got, []any{"1", "2"}) {
				t.Errorf("the target %s: %v are left (%s)", name, got, c)
			}
		}
		if replies[0] != replies[1] {
			t.Errorf("the target %s: keyp replies %q, redis-server %q", name,
				replies[0], replies[1])
		}
	}
	// The target refuses the second of two keys. The first one is moved.
	half := target(t, func(args []string) (string, error) {
		if args[0] == "RESTORE" && args[1] == "b" {
			return "-BUSYKEY Target key name already exists.\r\n", nil
		}
		return "+OK\r\n", nil
	})
	for _, c := range []*redis.Client{keyp, server} {
		is(t, "ERR Target instance replied with error: BUSYKEY Target key name already exists.")(
			migrate(c, half, "", 0, patience, "KEYS", "a", "b", "c"), nil)
		is(t, []any{nil, "2"})(c.MGet(ctx, "a", "b").Result())
	}
	// The connection ends after the first of two replies. The key that was accepted is moved, and
	// the other one stays.
	is(t, "OK")(keyp.MSet(ctx, "a", "1", "b", "2").Result())
	first := target(t, func(args []string) (string, error) {
		if args[0] == "RESTORE" && args[1] == "b" {
			return "", ends
		}
		return "+OK\r\n", nil
	})
	if reply := migrate(keyp, first, "", 0, patience, "KEYS", "a", "b"); !strings.HasPrefix(reply,
		"IOERR error or timeout") {
		t.Errorf("a connection that ends midway: %s", reply)
	}
	is(t, "2")(keyp.Get(ctx, "b").Result())
}

// TestMigrateChanging: a key that is written while its value is being sent is sent again. Only the
// value that the target has is deleted. Meanwhile the server serves other clients.
func TestMigrateChanging(t *testing.T) {
	t.Parallel()
	c := testkit.Keyp(t).Client(2)
	is(t, "OK")(c.Set(ctx, "k", "first", 0).Result())
	var calls [][]string
	addr := target(t, func(args []string) (string, error) {
		if calls = append(calls, args); args[0] == "RESTORE" && len(calls) == 2 {
			if err := c.Set(ctx, "k", "second", time.Hour).Err(); err != nil {
				return "", err
			}
		}
		return "+OK\r\n", nil
	})
	is(t, "OK")(migrate(c, addr, "k", 0, patience), nil)
	is(t, int64(0))(c.Exists(ctx, "k").Result())
	if len(calls) != 3 || len(calls[1]) != 4 || !strings.Contains(calls[1][3], "first") ||
		!strings.Contains(calls[2][3], "second") ||
		!reflect.DeepEqual(calls[2][4:], []string{"ABSTTL", "REPLACE"}) || calls[2][2] == "0" {
		t.Errorf("the target was sent %q", calls)
	}

	// A key that changes each time stays, with the value of the last write.
	is(t, "OK")(c.Set(ctx, "k", "first", 0).Result())
	n := 0
	busy := target(t, func(args []string) (string, error) {
		if args[0] == "RESTORE" {
			n++
			return "+OK\r\n", c.Set(ctx, "k", n, 0).Err()
		}
		return "+OK\r\n", nil
	})
	is(t, "ERR a key changed each time that it was sent: the target has an older value of it")(
		migrate(c, busy, "k", 0, patience), nil)
	is(t, strconv.Itoa(n))(c.Get(ctx, "k").Result())
}

// TestMigrateSliding: if a policy moves a key's deadline while the key is being sent, the new
// deadline is sent, too.
func TestMigrateSliding(t *testing.T) {
	t.Parallel()
	c := testkit.Keyp(t).Client(2)
	is[any](t, "OK")(c.Do(ctx, "KEYP.POLICY", "SET", "p", "PATTERN", "k", "ENFORCE", "SLIDE",
		600_000).Result())
	is(t, "OK")(c.Set(ctx, "k", "v", time.Minute).Result())
	var sent []string
	moved := int64(0)
	addr := target(t, func(args []string) (string, error) {
		if args[0] == "RESTORE" {
			if sent = append(sent, args[2]); len(sent) == 1 {
				if err := c.Get(ctx, "k").Err(); err != nil {
					return "", err
				}
				moved = c.Do(ctx, "PEXPIRETIME", "k").Val().(int64)
			}
		}
		return "+OK\r\n", nil
	})
	is(t, "OK")(migrate(c, addr, "k", 0, patience), nil)
	is(t, int64(0))(c.Exists(ctx, "k").Result())
	if len(sent) != 2 || sent[1] != strconv.FormatInt(moved, 10) {
		t.Errorf("the deadlines %q are sent; the last one was %d", sent, moved)
	}
}

// TestMigrateChangingGroups: a stream whose groups change while it is being sent is sent again,
// although WATCH does not count that as a change.
func TestMigrateChangingGroups(t *testing.T) {
	t.Parallel()
	c := testkit.Keyp(t).Client(2)
	is(t, "1-1")(c.XAdd(ctx,
		&redis.XAddArgs{Stream: "s", ID: "1-1", Values: []string{"f", "v"}}).Result())
	is(t, "OK")(c.XGroupCreate(ctx, "s", "g", "0").Result())
	sends := 0
	addr := target(t, func(args []string) (string, error) {
		if args[0] != "RESTORE" {
			return "+OK\r\n", nil
		}
		switch sends++; sends {
		case 1:
			return "+OK\r\n", c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c",
				Streams: []string{"s", ">"}}).Err()
		case 2:
			return "+OK\r\n", c.XAck(ctx, "s", "g", "1-1").Err()
		case 3:
			return "+OK\r\n", c.XGroupCreate(ctx, "s", "another", "0").Err()
		}
		return "+OK\r\n", nil
	})
	is(t, "OK")(migrate(c, addr, "s", 0, patience), nil)
	is(t, int64(0))(c.Exists(ctx, "s").Result())
	if sends != 4 {
		t.Errorf("the stream was sent %d times, want 4", sends)
	}
}
