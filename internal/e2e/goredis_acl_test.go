package e2e

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

func TestGoRedisACL(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "the default user", run: aclOfOneUser},
		{name: "users", run: aclUsers},
		{name: "SETUSER is all or nothing", run: aclAllOrNothing},
		{name: "description", run: aclDescription, newer: "7.2"},
		{name: "what is refused", run: aclRefusals, newer: "7.2"},
		{name: "keys", run: aclKeys},
		{name: "channels", run: aclChannels},
		{name: "transactions and scripts", run: aclWithin},
		{name: "a blocked command", run: aclBlocked, newer: "7.2"},
		{name: "deleted users", run: aclDeleted},
		{name: "LOG", run: aclLogged},
		{name: "CLIENT", run: aclClients},
		{name: "INFO", run: aclCounters, newer: "7.2"},
	})
}

// alice creates the user alice with these rules, and returns a client with that user.
func (s subject) alice(t *testing.T, rules ...string) *redis.Client {
	t.Helper()
	is(t, "OK")(s.ACLSetUser(ctx, "alice", append([]string{"reset", "on", ">secret"},
		rules...)...).Result())
	return testkit.NewClient(t, &redis.Options{Addr: s.server.Addr(), Protocol: s.proto,
		Username: "alice", Password: "secret", DisableIdentity: true})
}

// refused checks that a command is refused for lack of permission, in any wording.
func refused(t *testing.T, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM ") {
		t.Errorf("%v: %v, want a refusal", cmd.Args(), err)
	}
}

func aclOfOneUser(t *testing.T, c subject) {
	_ = c.ACLDelUser(ctx, "alice").Err() // the next says whether she is there
	is[any](t, "default")(c.do("ACL", "WHOAMI"))
	is(t, []string{"default"})(c.ACLUsers(ctx).Result())
	is(t, "OK")(c.ACLDryRun(ctx, "default", "get", "k").Result())
	fails(t, "ERR User 'alice' not found", c.ACLDryRun(ctx, "alice", "get", "k"))
	is(t, int64(0))(c.ACLDelUser(ctx, "alice").Result())
	fails(t, "ERR The 'default' user cannot be removed", c.ACLDelUser(ctx, "default"))
	if list, err := c.ACLList(ctx).Result(); err != nil || len(list) != 1 ||
		!strings.HasPrefix(list[0], "user default on nopass ") {
		t.Errorf("ACL LIST: %q, %v", list, err)
	}
	if user, err := c.do("ACL", "GETUSER", "default"); err != nil ||
		!strings.Contains(fmt.Sprint(user), "+@all") {
		t.Errorf("ACL GETUSER: %v, %v", user, err)
	}
	categories := 21
	if c.keyp {
		categories += 2 // @keyp and @backup
	}
	if names, err := c.ACLCatArgs(ctx, nil).Result(); err != nil || len(names) != categories {
		t.Errorf("ACL CAT: %q, %v", names, err)
	}
	if secret, err := c.ACLGenPass(ctx, 128).Result(); err != nil || len(secret) != 32 {
		t.Errorf("ACL GENPASS: %q, %v", secret, err)
	}
	for _, sub := range []string{"LOAD", "SAVE"} {
		if err := c.Do(ctx, "ACL", sub).Err(); err == nil || !strings.HasPrefix(err.Error(),
			"ERR This Redis instance is not configured to use an ACL file.") {
			t.Errorf("ACL %s: %v", sub, err)
		}
	}
	is[any](t, "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")(
		first(c.do("ACL", "HELP")))
}

func aclUsers(t *testing.T, c subject) {
	alice := c.alice(t, "~*", "+@all", "-@dangerous")
	is[any](t, "alice")(alice.Do(ctx, "ACL", "WHOAMI").Result())
	is(t, "OK")(alice.Set(ctx, "k", "v", 0).Result())
	is(t, "v")(alice.Get(ctx, "k").Result())
	refused(t, alice.FlushAll(ctx))
	is(t, "v")(c.Get(ctx, "k").Result())
	is(t, []string{"alice", "default"})(c.ACLUsers(ctx).Result())
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "-get").Result())
	refused(t, alice.Get(ctx, "k")) // from then on, for connections that are there already
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "off").Result())
	is(t, "OK")(alice.Set(ctx, "k", "v", 0).Result()) // a connection outlives that
	conn := c.Conn()
	defer conn.Close()
	const wrong = "WRONGPASS invalid username-password pair or user is disabled."
	fails(t, wrong, conn.AuthACL(ctx, "alice", "secret"))
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "on", ">other").Result())
	is(t, "OK")(conn.AuthACL(ctx, "alice", "secret").Result())
	is(t, "OK")(conn.AuthACL(ctx, "alice", "other").Result())
	fails(t, wrong, conn.AuthACL(ctx, "alice", "Other"))
	fails(t, wrong, conn.AuthACL(ctx, "bob", "other"))
	is[any](t, "alice")(conn.Do(ctx, "ACL", "WHOAMI").Result())
	is[any](t, "RESET")(conn.Do(ctx, "RESET").Result())
	is[any](t, "default")(conn.Do(ctx, "ACL", "WHOAMI").Result())
	is(t, int64(1))(c.ACLDelUser(ctx, "alice").Result())
}

func aclAllOrNothing(t *testing.T, c subject) {
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "reset", "~a", "+get").Result())
	for _, rules := range [][]string{{"~b", "+nosuch"}, {"~b", "foo"}, {"~b", "(~c", "+set"},
		{"~b", "<none"}, {"~b", "~*", "~c"}} {
		if err := c.ACLSetUser(ctx, "alice", rules...).Err(); err == nil ||
			!strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("%q: %v", rules, err)
		}
		if list, err := c.ACLList(ctx).Result(); err != nil || strings.Contains(list[0], "~b") ||
			!strings.Contains(list[0], "~a") {
			t.Errorf("%q: %q, %v", rules, list, err)
		}
	}
	is(t, int64(1))(c.ACLDelUser(ctx, "alice").Result())
}

func aclDescription(t *testing.T, c subject) {
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "reset", "on", ">foobar", "%R~a", "&c", "+@read", "-get",
		"+get", "(+set", "~b)").Result())
	const hash = "c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"
	is(t, []string{
		"user alice on sanitize-payload #" + hash +
			" %R~a resetchannels &c -@all +@read +get (~b resetchannels -@all +set)",
		"user default on nopass sanitize-payload ~* &* +@all",
	})(c.ACLList(ctx).Result())
	user, err := c.do("ACL", "GETUSER", "alice")
	want := "[flags [on sanitize-payload] passwords [" + hash +
		"] commands -@all +@read +get keys %R~a channels &c selectors [[commands -@all +set keys ~b channels ]]]"
	if got := fmt.Sprint(user); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	is(t, int64(1))(c.ACLDelUser(ctx, "alice").Result())
	is[any](t, nil)(noNil(c.do("ACL", "GETUSER", "alice")))
}

// noNil treats a null reply as no error.
func noNil(reply any, err error) (any, error) {
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

func aclRefusals(t *testing.T, c subject) {
	alice := c.alice(t, "~a*", "&c*", "+@all", "-config|set", "-set")
	fails(t, "NOPERM User alice has no permissions to run the 'set' command",
		alice.Set(ctx, "a", "1", 0))
	fails(t, "NOPERM User alice has no permissions to run the 'config|set' command",
		alice.ConfigSet(ctx, "maxclients", "1"))
	fails(t, "NOPERM No permissions to access a key", alice.MGet(ctx, "a", "b"))
	fails(t, "NOPERM No permissions to access a channel", alice.Publish(ctx, "d", "m"))
	fails(t, "ERR wrong number of arguments for 'set' command", alice.Do(ctx, "SET"))
	fails(t, "ERR unknown command 'nope', with args beginning with: ", alice.Do(ctx, "nope"))
	is(t, "User alice has no permissions to run the 'set' command")(c.ACLDryRun(ctx, "alice", "set",
		"a", "1").Result())
	is(t, "User alice has no permissions to access the 'b' key")(c.ACLDryRun(ctx, "alice", "mget",
		"a", "b").Result())
	is(t, "User alice has no permissions to access the 'd' channel")(c.ACLDryRun(ctx, "alice",
		"publish", "d", "m").Result())
	is(t, "OK")(c.ACLDryRun(ctx, "alice", "mget", "a", "aa").Result())
}

func aclKeys(t *testing.T, c subject) {
	alice := c.alice(t, "%R~in", "%W~out", "~both", "+@all")
	is(t, "OK")(c.MSet(ctx, "in", "1", "out", "2", "both", "3", "none", "4").Result())
	is(t, "1")(alice.Get(ctx, "in").Result())
	refused(t, alice.Set(ctx, "in", "x", 0))
	refused(t, alice.Del(ctx, "in"))
	refused(t, alice.Get(ctx, "out"))
	is(t, "OK")(alice.Set(ctx, "out", "5", 0).Result())
	refused(t, alice.SetArgs(ctx, "out", "6", redis.SetArgs{Get: true}))
	refused(t, alice.Incr(ctx, "out"))
	is(t, int64(4))(alice.Incr(ctx, "both").Result())
	is(t, int64(3))(alice.Exists(ctx, "in", "out", "both").Result())
	refused(t, alice.Exists(ctx, "none"))
	is(t, int64(1))(alice.Copy(ctx, "in", "out", 0, true).Result())
	refused(t, alice.Copy(ctx, "out", "in", 0, true))
	is(t, int64(1))(c.LPush(ctx, "list", "x").Result())
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "~list").Result())
	fails(t, "ERR BY option of SORT denied due to insufficient ACL permissions.",
		alice.Sort(ctx, "list", &redis.Sort{By: "w_*"}))
	fails(t, "ERR GET option of SORT denied due to insufficient ACL permissions.",
		alice.Sort(ctx, "list", &redis.Sort{Get: []string{"w_*"}}))
	is(t, "1")(c.Get(ctx, "out").Result())
}

func aclChannels(t *testing.T, c subject) {
	alice := c.alice(t, "&news:*", "+@all")
	sub := alice.Subscribe(ctx, "news:one")
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	is(t, int64(1))(alice.Publish(ctx, "news:one", "m").Result())
	refused(t, alice.Publish(ctx, "other", "m"))
	for _, pattern := range []string{"news:o*", "*"} {
		other := alice.PSubscribe(ctx, pattern)
		if _, err := other.Receive(ctx); err == nil || !strings.HasPrefix(err.Error(), "NOPERM ") {
			t.Errorf("PSUBSCRIBE %s: %v", pattern, err)
		}
		_ = other.Close()
	}
	if msg, err := sub.ReceiveMessage(ctx); err != nil || msg.Payload != "m" {
		t.Errorf("received %v, %v", msg, err)
	}
	// A connection is closed if it is subscribed to a channel that its user may no longer use.
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "resetchannels", "&other").Result())
	if msg, err := sub.ReceiveTimeout(ctx, await.Bound); !errors.Is(err, io.EOF) {
		t.Errorf("after the loss of its channel: %v, %v", msg, err)
	}
}

func aclWithin(t *testing.T, c subject) {
	alice := c.alice(t, "~a", "+@all")
	is[any](t, "OK")(alice.Eval(ctx, "return redis.call('set', KEYS[1], 'v')",
		[]string{"a"}).Result())
	if err := alice.Eval(ctx, "return redis.call('set', 'b', 'v')", nil).Err(); err == nil {
		t.Error("a script may do more than its user")
	}
	refused(t, alice.Eval(ctx, "return 1", []string{"b"}))
	is(t, int64(0))(c.Exists(ctx, "b").Result())
	conn := alice.Conn()
	defer conn.Close()
	is[any](t, "OK")(conn.Do(ctx, "MULTI").Result())
	is[any](t, "QUEUED")(conn.Do(ctx, "APPEND", "a", "1").Result())
	is[any](t, "QUEUED")(conn.Do(ctx, "GET", "a").Result())
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "-append").Result())
	// go-redis returns an error among the replies as the error of all of them.
	fails(t,
		"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand",
		conn.Do(ctx, "EXEC"))
	is(t, "v")(c.Get(ctx, "a").Result())
	conn = alice.Conn()
	defer conn.Close()
	is[any](t, "OK")(conn.Do(ctx, "MULTI").Result())
	refused(t, conn.Do(ctx, "APPEND", "a", "1"))
	fails(t, "EXECABORT Transaction discarded because of previous errors.", conn.Do(ctx, "EXEC"))
}

// aclBlocked: the permissions of a command that waits are checked again when it continues.
func aclBlocked(t *testing.T, c subject) {
	alice := c.alice(t, "~a", "+@all")
	done := make(chan error, 1)
	go func() { done <- alice.BLPop(ctx, await.Bound, "a").Err() }()
	await.Until(t, "the command waits", func() bool {
		info, err := c.Info(ctx, "clients").Result()
		return err == nil && strings.Contains(info, "\nblocked_clients:1\r")
	})
	is(t, "OK")(c.ACLSetUser(ctx, "alice", "-blpop").Result())
	is(t, int64(1))(c.LPush(ctx, "a", "x").Result())
	if err := await.For(t, "the command ends", done); err == nil ||
		err.Error() != "NOPERM User alice has no permissions to run the 'blpop' command" {
		t.Errorf("BLPOP: %v", err)
	}
	is(t, int64(1))(c.LLen(ctx, "a").Result())
}

func aclDeleted(t *testing.T, c subject) {
	conn := c.alice(t, "+@all").Conn()
	defer conn.Close()
	is(t, "PONG")(conn.Ping(ctx).Result())
	is(t, int64(1))(c.ACLDelUser(ctx, "alice").Result())
	if err := conn.Ping(ctx).Err(); err == nil {
		t.Error("a connection outlives its user")
	}
	own := c.alice(t, "+@all").Conn()
	defer own.Close()
	is[any](t, int64(1))(own.Do(ctx, "ACL", "DELUSER", "alice").Result())
	if err := own.Ping(ctx).Err(); err == nil {
		t.Error("the connection that deleted its own user goes on")
	}
	is(t, []string{"default"})(c.ACLUsers(ctx).Result())
}

func aclLogged(t *testing.T, c subject) {
	alice := c.alice(t, "~a", "&c", "+@all", "-set")
	is(t, "OK")(c.ACLLogReset(ctx).Result())
	for range 3 {
		refused(t, alice.Set(ctx, "a", "1", 0))
	}
	refused(t, alice.Get(ctx, "b"))
	refused(t, alice.Publish(ctx, "d", "m"))
	// The command is refused, in a wording that depends on the version.
	_ = alice.Eval(ctx, "return redis.call('get', 'x')", nil).Err()
	if err := alice.Conn().AuthACL(ctx, "alice", "bad").Err(); err == nil {
		t.Error("a wrong password is taken")
	}
	log, err := c.ACLLog(ctx, 10).Result()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range log {
		got = append(got, fmt.Sprintln(e.Count, e.Reason, e.Context, e.Object, e.Username,
			e.AgeSeconds >= 0 && e.AgeSeconds < 20))
	}
	want := []string{"1 auth toplevel auth alice true\n", "1 key lua x alice true\n",
		"1 channel toplevel d alice true\n", "1 key toplevel b alice true\n",
		"3 command toplevel set alice true\n"}
	is(t, want)(got, nil)
	is(t, "OK")(c.ACLLogReset(ctx).Result())
	if log, err := c.ACLLog(ctx, 10).Result(); err != nil || len(log) != 0 {
		t.Errorf("after the reset: %v, %v", log, err)
	}
}

func aclClients(t *testing.T, c subject) {
	alice := c.alice(t, "+@all")
	is(t, "PONG")(alice.Ping(ctx).Result())
	list, err := c.ClientList(ctx).Result()
	if err != nil || strings.Count(list, " user=alice ") != 1 ||
		!strings.Contains(list, " user=default ") {
		t.Errorf("CLIENT LIST: %s, %v", list, err)
	}
	fails(t, "ERR No such user 'nobody'", c.ClientKillByFilter(ctx, "USER", "nobody"))
	is(t, int64(1))(c.ClientKillByFilter(ctx, "USER", "alice").Result())
	is(t, int64(0))(c.ClientKillByFilter(ctx, "USER", "alice").Result())
}

func aclCounters(t *testing.T, c subject) {
	alice := c.alice(t, "~a", "+@all", "-set")
	is(t, "OK")(c.ConfigResetStat(ctx).Result())
	refused(t, alice.Set(ctx, "a", "1", 0))
	refused(t, alice.Get(ctx, "b"))
	refused(t, alice.Get(ctx, "b"))
	refused(t, alice.Publish(ctx, "c", "m"))
	info, err := c.Info(ctx, "stats").Result()
	for _, line := range []string{"acl_access_denied_auth:0", "acl_access_denied_cmd:1",
		"acl_access_denied_key:2", "acl_access_denied_channel:1"} {
		if err != nil || !strings.Contains(info, "\n"+line+"\r") {
			t.Errorf("INFO lacks %s: %v", line, err)
		}
	}
}
