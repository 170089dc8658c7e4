package restart

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// look reads keys with their deadlines, and returns when it did so.
func look(t testing.TB, server *testkit.Server, names []name) (map[name]seen, span) {
	t.Helper()
	shown := map[name]seen{}
	at := span{from: time.Now().UnixMilli()}
	for db := range databases {
		c := server.ClientDB(3, db)
		type replies struct {
			data     func() (string, bool, error)
			deadline *redis.DurationCmd
		}
		asked := map[name]replies{}
		pipe := c.Pipeline()
		for _, n := range names {
			if n.db == db {
				asked[n] = replies{askData(pipe, n), pipe.PExpireTime(ctx, n.key)}
			}
		}
		_, _ = pipe.Exec(ctx) // each reply has its own error
		for n, r := range asked {
			shown[n] = see(t, n, r.data, r.deadline)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	at.to = time.Now().UnixMilli()
	return shown, at
}

// see combines the replies about a key's data and its deadline. The key may expire between them.
func see(t testing.TB, n name, data func() (string, bool, error),
	deadline *redis.DurationCmd) seen {
	t.Helper()
	text, there, err := data()
	missing := !there
	if err != nil {
		t.Fatalf("reading %v: %v", n, err)
	}
	at, err := deadline.Result()
	switch {
	case err != nil:
		t.Fatalf("PEXPIRETIME %v: %v", n, err)
	case at == -2:
		return seen{}
	case missing && n.kind() == "x": // its last field ended between the two
		return seen{}
	case missing:
		t.Errorf("%v: reading finds nothing, PEXPIRETIME then gives %d", n, at)
	case at == -1:
		return seen{there: true, data: text}
	}
	return seen{true, text, at.Milliseconds()}
}

// checkNames fails if the server has other keys than the known ones. It also fails if DBSIZE is
// wrong for longer than the removal of expired keys may take.
func checkNames(t testing.TB, server *testkit.Server, known []name) {
	t.Helper()
	expected := map[name]bool{}
	for _, n := range known {
		expected[n] = true
	}
	for db := range databases {
		c := server.ClientDB(2, db)
		keys, err := c.Keys(ctx, "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if !expected[name{db, key}] {
				t.Errorf("there is a key that nobody wrote: %v", name{db, key})
			}
		}
		checkSize(t, c)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkSize waits until DBSIZE counts what KEYS shows.
func checkSize(t testing.TB, c *redis.Client) {
	t.Helper()
	said := ""
	agree := await.Reached(func() bool {
		keys, err := c.Keys(ctx, "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		size, err := c.DBSize(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		if said = ""; int(size) != len(keys) {
			said = fmt.Sprintf("DBSIZE is %d, but there are %d KEYS", size, len(keys))
		}
		return said == ""
	})
	if !agree {
		t.Fatalf("%v: %s; INFO says\n%s", c, said,
			c.Info(ctx, "keyspace", "persistence", "stats").Val())
	}
}

// These tests break connections on purpose, so go-redis need not log that.
func init() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
