package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestGoRedisConnection(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "PING and ECHO", run: pingAndEcho},
		{name: "SELECT", run: selectDB},
		{name: "HELLO", run: hello},
		{name: "AUTH without a password", run: authWithout},
		{name: "CLIENT names", run: clientNames},
		{name: "CLIENT SETINFO", run: clientSetInfo, newer: "7.2"},
		{name: "CLIENT INFO and LIST", run: clientInfo},
		{name: "CLIENT KILL", run: clientKill},
		{name: "CLIENT PAUSE", run: clientPause},
		{name: "CLIENT flags", run: clientFlags},
		{name: "CLIENT NO-TOUCH", run: clientNoTouch, newer: "7.2"},
		{name: "RESET and QUIT", run: resetAndQuit},
		{name: "errors", run: connectionErrors},
	})
}

// conn returns a separate connection, which is closed after the test. It never returns to a pool,
// where its state could disturb the next test.
func (s subject) conn(t *testing.T) *redis.Conn {
	client := s.server.Client(s.proto)
	c := client.Conn()
	c.AddHook(recorder{s.keyp})
	t.Cleanup(func() { _ = client.Close() }) // testkit closes it again
	return c
}

func pingAndEcho(t *testing.T, c subject) {
	is(t, "PONG")(c.Ping(ctx).Result())
	is[any](t, "hi\r\nthere")(c.do("PING", "hi\r\nthere"))
	is(t, "x")(c.Echo(ctx, "x").Result())
}

func selectDB(t *testing.T, c subject) {
	conn := c.conn(t)
	for db := range 16 {
		is(t, "OK")(conn.Select(ctx, db).Result())
		is(t, int64(0))(conn.Exists(ctx, "k").Result())
		is(t, "OK")(conn.Set(ctx, "k", db, 0).Result())
	}
	for db := range 16 {
		is(t, fmt.Sprint(db))(c.other(db).Get(ctx, "k").Result())
	}
	fails(t, "ERR DB index is out of range", conn.Select(ctx, 16))
	fails(t, "ERR DB index is out of range", conn.Select(ctx, -1))
	fails(t, "ERR value is not an integer or out of range", conn.Do(ctx, "SELECT", "x"))
	is(t, "15")(conn.Get(ctx, "k").Result())
}

func hello(t *testing.T, c subject) {
	conn := c.conn(t)
	for _, proto := range []int{2, 3} {
		got, err := conn.Do(ctx, "HELLO", proto, "SETNAME", "me").Result()
		if err != nil {
			t.Fatal(err)
		}
		fields := map[any]any{}
		switch got := got.(type) {
		case map[any]any:
			fields = got
		case []any:
			for i := 0; i+1 < len(got); i += 2 {
				fields[got[i]] = got[i+1]
			}
		}
		for name, want := range map[string]any{
			"server": "redis", "proto": int64(proto), "mode": "standalone", "role": "master",
		} {
			is(t, want)(fields[name], nil)
		}
		for _, name := range []string{"version", "id", "modules"} {
			if fields[name] == nil {
				t.Errorf("HELLO %d has no %s: %v", proto, name, fields)
			}
		}
		is(t, "me")(conn.ClientGetName(ctx).Result())
	}
	fails(t, "NOPROTO unsupported protocol version", conn.Do(ctx, "HELLO", 4))
	fails(t, "ERR Protocol version is not an integer or out of range", conn.Do(ctx, "HELLO", "x"))
	fails(t, "ERR Syntax error in HELLO option 'BAD'", conn.Do(ctx, "HELLO", 3, "BAD"))
}

func authWithout(t *testing.T, c subject) {
	fails(t, "ERR AUTH <password> called without any password configured for the default user. "+
		"Are you sure your configuration is correct?", c.Do(ctx, "AUTH", "x"))
	is[any](t, "OK")(c.do("AUTH", "default", "anything"))
	fails(t, "WRONGPASS invalid username-password pair or user is disabled.",
		c.Do(ctx, "AUTH", "nobody", "x"))
}

func clientNames(t *testing.T, c subject) {
	conn := c.conn(t)
	is(t, true)(conn.ClientSetName(ctx, "worker-1").Result())
	is(t, "worker-1")(conn.ClientGetName(ctx).Result())
	fails(t, "ERR Client names cannot contain spaces, newlines or special characters.",
		conn.ClientSetName(ctx, "a b"))
	is(t, "worker-1")(conn.ClientGetName(ctx).Result())
	first, err := conn.ClientID(ctx).Result()
	is(t, first)(conn.ClientID(ctx).Result())
	if second := c.conn(t).ClientID(ctx).Val(); err != nil || second <= first {
		t.Errorf("ids %d, then %d: want rising ones (%v)", first, second, err)
	}
}

func clientSetInfo(t *testing.T, c subject) {
	conn := c.conn(t)
	is[any](t, "OK")(conn.Do(ctx, "CLIENT", "SETINFO", "LIB-NAME", "tester").Result())
	is[any](t, "OK")(conn.Do(ctx, "CLIENT", "SETINFO", "lib-ver", "1.2").Result())
	fails(t, "ERR lib-name cannot contain spaces, newlines or special characters.",
		conn.Do(ctx, "CLIENT", "SETINFO", "lib-name", "a b"))
	fails(t, "ERR Unrecognized option 'color'", conn.Do(ctx, "CLIENT", "SETINFO", "color", "red"))
	info, err := conn.ClientInfo(ctx).Result()
	if err != nil || info.LibName != "tester" || info.LibVer != "1.2" {
		t.Errorf("CLIENT INFO: %+v, %v", info, err)
	}
}

func clientInfo(t *testing.T, c subject) {
	conn := c.conn(t)
	is(t, true)(conn.ClientSetName(ctx, "known").Result())
	is(t, "OK")(conn.Select(ctx, 3).Result())
	id := conn.ClientID(ctx).Val()
	info, err := conn.ClientInfo(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	if info.ID != id || info.Name != "known" || info.DB != 3 || info.Resp != c.proto ||
		info.User != "default" || info.LastCmd != "client|info" {
		t.Errorf("CLIENT INFO: %+v", info)
	}
	for what, list := range map[string]*redis.Cmd{
		"LIST":             conn.Do(ctx, "CLIENT", "LIST"),
		"LIST TYPE normal": conn.Do(ctx, "CLIENT", "LIST", "TYPE", "normal"),
		"LIST ID":          conn.Do(ctx, "CLIENT", "LIST", "ID", id),
	} {
		text, err := list.Text()
		if line := fmt.Sprintf("id=%d addr=", id); err != nil || !strings.Contains(text, line) {
			t.Errorf("CLIENT %s: no %q in %q, %v", what, line, text, err)
		}
	}
	is(t, "")(conn.Do(ctx, "CLIENT", "LIST", "TYPE", "replica").Text())
}

func clientKill(t *testing.T, c subject) {
	kill := func(name string, victim *redis.Conn, command ...any) {
		is[any](t, int64(1))(c.do(command...))
		if err := victim.Ping(ctx).Err(); err == nil {
			t.Errorf("%s: the client goes on", name)
		}
	}
	victim := c.conn(t)
	kill("ID", victim, "CLIENT", "KILL", "ID", victim.ClientID(ctx).Val())
	victim = c.conn(t)
	info, err := victim.ClientInfo(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	kill("ADDR", victim, "CLIENT", "KILL", "ADDR", info.Addr, "TYPE", "normal")
	victim = c.conn(t)
	is(t, "OK")(c.ClientKill(ctx, victim.ClientInfo(ctx).Val().Addr).Result())
	if err := victim.Ping(ctx).Err(); err == nil {
		t.Error("old form: the client goes on")
	}
	fails(t, "ERR No such client", c.ClientKill(ctx, "127.0.0.1:1"))
	is(t, int64(0))(c.ClientKillByFilter(ctx, "ID", "999999").Result())
	fails(t, "ERR client-id should be greater than 0", c.ClientKillByFilter(ctx, "ID", "0"))
	fails(t, "ERR syntax error", c.ClientKillByFilter(ctx, "SHOE", "43"))
}

func clientPause(t *testing.T, c subject) {
	is(t, "OK")(c.Set(ctx, "k", "old", 0).Result())
	is[any](t, "OK")(c.do("CLIENT", "PAUSE", 60_000, "WRITE"))
	written := make(chan error, 1)
	go func() { written <- c.Set(ctx, "k", "new", 0).Err() }()
	is(t, "old")(c.Get(ctx, "k").Result())
	await.Pass(20 * time.Millisecond) // so that it would come
	select {
	case err := <-written:
		t.Errorf("a write went through the pause: %v", err)
	default:
	}
	is(t, true)(c.ClientUnpause(ctx).Result())
	if err := await.For(t, "the write ends", written); err != nil {
		t.Error(err)
	}
	is(t, "new")(c.Get(ctx, "k").Result())

	at := time.Now()
	is(t, true)(c.ClientPause(ctx, 50*time.Millisecond).Result())
	is(t, "new")(c.Get(ctx, "k").Result())
	if took := time.Since(at); took < 49*time.Millisecond { // it is counted in whole milliseconds
		t.Errorf("a pause of 50 ms held GET for %v", took)
	}
	fails(t, "ERR timeout is not an integer or out of range", c.Do(ctx, "CLIENT", "PAUSE", "x"))
	fails(t, "ERR timeout is negative", c.Do(ctx, "CLIENT", "PAUSE", "-1"))
	fails(t, "ERR CLIENT PAUSE mode must be WRITE or ALL",
		c.Do(ctx, "CLIENT", "PAUSE", "1", "READ"))
}

func clientFlags(t *testing.T, c subject) {
	conn := c.conn(t)
	is[any](t, "OK")(conn.Do(ctx, "CLIENT", "NO-EVICT", "on").Result())
	fails(t, "ERR syntax error", conn.Do(ctx, "CLIENT", "NO-EVICT", "maybe"))
	is[any](t, int64(0))(conn.Do(ctx, "CLIENT", "UNBLOCK", 999999).Result())
	is[any](t, int64(-1))(conn.Do(ctx, "CLIENT", "GETREDIR").Result())
	is[any](t, "OK")(conn.Do(ctx, "CLIENT", "REPLY", "ON").Result())
	if _, err := conn.Do(ctx, "CLIENT", "TRACKINGINFO").Result(); err != nil {
		t.Error(err)
	}
	if help, err := conn.Do(ctx, "CLIENT", "HELP").StringSlice(); err != nil || len(help) < 10 {
		t.Errorf("CLIENT HELP: %q, %v", help, err)
	}
}

func clientNoTouch(t *testing.T, c subject) {
	conn := c.conn(t)
	is[any](t, "OK")(conn.Do(ctx, "CLIENT", "NO-TOUCH", "ON").Result())
	is[any](t, "OK")(conn.Do(ctx, "CLIENT", "NO-TOUCH", "off").Result())
	fails(t, "ERR syntax error", conn.Do(ctx, "CLIENT", "NO-TOUCH", "maybe"))
}

func resetAndQuit(t *testing.T, c subject) {
	conn := c.conn(t)
	is(t, "OK")(conn.Select(ctx, 5).Result())
	is(t, true)(conn.ClientSetName(ctx, "named").Result())
	is[any](t, "RESET")(conn.Do(ctx, "RESET").Result())
	info, err := conn.ClientInfo(ctx).Result()
	if err != nil || info.DB != 0 || info.Resp != 2 || info.Name != "" {
		t.Errorf("after RESET: %+v, %v", info, err)
	}
	is[any](t, "OK")(conn.Do(ctx, "QUIT").Result())
	if err := conn.Ping(ctx).Err(); err == nil {
		t.Error("the connection goes on after QUIT")
	}
}

func connectionErrors(t *testing.T, c subject) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"PING a b", "ERR wrong number of arguments for 'ping' command"},
		{"ECHO", "ERR wrong number of arguments for 'echo' command"},
		{"CLIENT", "ERR wrong number of arguments for 'client' command"},
		{"CLIENT ID x", "ERR wrong number of arguments for 'client|id' command"},
		{"CLIENT NOPE", "ERR unknown subcommand 'NOPE'. Try CLIENT HELP."},
		{"CLIENT REPLY x", "ERR syntax error"},
		{"CLIENT LIST TYPE x", "ERR Unknown client type 'x'"},
		{"CLIENT LIST ID x", "ERR Invalid client ID"},
	} {
		fails(t, tt.want, c.Do(ctx, words(tt.args)...))
	}
}

// TestGoRedisPassword: with requirepass, no command works before AUTH.
func TestGoRedisPassword(t *testing.T) {
	t.Parallel()
	for _, server := range []*testkit.Server{testkit.Keyp(t, "--requirepass", "secret"), nil} {
		name := "keyp"
		if server == nil {
			name = "redis-server"
		}
		t.Run(name, func(t *testing.T) {
			if server == nil {
				server = testkit.Redis(t, "--requirepass", "secret")
			}
			for _, proto := range []int{2, 3} {
				t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
					checkPassword(t, server, proto)
				})
			}
		})
	}
}

func checkPassword(t *testing.T, server *testkit.Server, proto int) {
	wrong := "WRONGPASS invalid username-password pair or user is disabled."
	with := func(password string) *redis.Client {
		return testkit.NewClient(t, &redis.Options{Addr: server.Addr(), Protocol: proto,
			Password: password})
	}
	is(t, "OK")(with("secret").Set(ctx, "k", "v", 0).Result())
	if err := with("bad").Get(ctx, "k").Err(); err == nil ||
		!strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: %v", err)
	}
	fails(t, "NOAUTH Authentication required.", with("").Get(ctx, "k"))

	conn := with("").Conn()
	defer conn.Close()
	fails(t, "NOAUTH Authentication required.", conn.Do(ctx, "SHUTDOWN"))
	fails(t, "ERR unknown command 'NOPE', with args beginning with: ", conn.Do(ctx, "NOPE"))
	fails(t, wrong, conn.Auth(ctx, "bad"))
	fails(t, wrong, conn.AuthACL(ctx, "nobody", "secret"))
	fails(t, "NOAUTH Authentication required.", conn.Get(ctx, "k"))
	is(t, "OK")(conn.AuthACL(ctx, "default", "secret").Result())
	is(t, "v")(conn.Get(ctx, "k").Result())
	fails(t, wrong, conn.Auth(ctx, "bad"))
	is(t, "v")(conn.Get(ctx, "k").Result()) // a failed AUTH takes nothing away
	is(t, "OK")(conn.Auth(ctx, "secret").Result())
}
