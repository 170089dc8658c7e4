package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit/await"
)

// TestGoRedisNewer sends the commands and options that Redis 8.6 to 8.10 added for strings, lists,
// sets, hashes and the server.
func TestGoRedisNewer(t *testing.T) {
	t.Parallel()
	family(t, []feature{
		{name: "INCREX", run: increx, newer: "8.8"},
		{name: "LMOVEM", run: moveMany, newer: "8.10"},
		{name: "SUNIONCARD", run: setCards, newer: "8.10"},
		{name: "MIGRATE", run: migrateNothing},
		{name: "HIMPORT", run: hashImport, newer: "8.10"},
		{name: "HOTKEYS", run: hotKeys, newer: "8.6"},
	})
}

func increx(t *testing.T, c subject) {
	is(t, any([]any{int64(5), int64(5)}))(c.Do(ctx, "INCREX", "k", "BYINT", 5, "UBOUND", 6,
		"EX", 100).Result())
	is(t, any([]any{int64(5), int64(0)}))(c.Do(ctx, "INCREX", "k", "BYINT", 5,
		"UBOUND", 6).Result())
	expires(t, c, "k", 100*time.Second)
	want := []any{"5.5", "0.5"}
	if c.proto == 3 {
		want = []any{5.5, 0.5}
	}
	is(t, any(want))(c.Do(ctx, "INCREX", "k", "BYFLOAT", 0.5).Result())
}

func moveMany(t *testing.T, c subject) {
	is(t, int64(5))(c.RPush(ctx, "l", 1, 2, 3, 4, 5).Result())
	is(t, []string{"1"})(c.LMoveM(ctx, "l", "m", "LEFT", "RIGHT", redis.LMoveMArgs{}).Result())
	is(t, any([]any{"3", "2"}))(c.Do(ctx, "LMOVEM", "l", "m", "LEFT", "LEFT", "COUNT", 2,
		"OBO").Result())
	is(t, any([]any{"4", "5"}))(c.Do(ctx, "BLMOVEM", "l", "m", "LEFT", "RIGHT", 1, "EXACTLY", 2,
		"BULK").Result())
	is(t, []string{"3", "2", "1", "4", "5"})(c.LRange(ctx, "m", 0, -1).Result())
	missing(t, c.LMoveM(ctx, "l", "m", "LEFT", "RIGHT", redis.LMoveMArgs{}))
	missing(t, c.Do(ctx, "BLMOVEM", "l", "m", "LEFT", "RIGHT", 0.01, "EXACTLY", 2, "BULK"))
	started := make(chan error, 1)
	other := c.server.Client(c.proto)
	go func() {
		started <- other.Do(ctx, "BLMOVEM", "l", "m", "LEFT", "RIGHT", 0, "EXACTLY",
			3, "BULK").Err()
	}()
	is(t, int64(2))(c.RPush(ctx, "l", 6, 7).Result())
	is(t, int64(3))(c.RPush(ctx, "l", 8).Result())
	if err := await.For(t, "the call begins", started); err != nil {
		t.Error(err)
	}
	is(t, []string{"6", "7", "8"})(c.LRange(ctx, "m", -3, -1).Result())
	is(t, int64(0))(c.Exists(ctx, "l").Result())
}

func migrateNothing(t *testing.T, c subject) {
	is(t, "NOKEY")(c.Migrate(ctx, "127.0.0.1", "1", "none", 0, time.Second).Result())
}

func setCards(t *testing.T, c subject) {
	is(t, int64(3))(c.SAdd(ctx, "a", 1, 2, 3).Result())
	is(t, int64(2))(c.SAdd(ctx, "b", 3, 4).Result())
	is(t, int64(4))(c.SUnionCard(ctx, nil, "a", "b").Result())
	is(t, int64(2))(c.SDiffCard(ctx, nil, "a", "b").Result())
	is(t, any(int64(4)))(c.Do(ctx, "SUNIONCARD", 2, "a", "b", "APPROX").Result())
}

func hashImport(t *testing.T, c subject) {
	for _, step := range []struct {
		args []any
		want any
	}{
		{[]any{"HIMPORT", "PREPARE", "user", "name", "age"}, "OK"},
		{[]any{"HIMPORT", "SET", "u:1", "user", "ann", 30}, "OK"},
		{[]any{"HIMPORT", "DISCARD", "user"}, int64(1)},
		{[]any{"HIMPORT", "PREPARE", "user", "name"}, "OK"},
		{[]any{"HIMPORT", "DISCARDALL"}, int64(1)},
	} {
		is(t, step.want)(c.Do(ctx, step.args...).Result())
	}
	is(t, map[string]string{"name": "ann", "age": "30"})(c.HGetAll(ctx, "u:1").Result())
}

func hotKeys(t *testing.T, c subject) {
	is(t, any("OK"))(c.Do(ctx, "HOTKEYS", "START", "METRICS", 2, "CPU", "NET", "COUNT", 3,
		"DURATION", 100).Result())
	is(t, "OK")(c.Set(ctx, "hot", "v", 0).Result())
	is(t, "v")(c.Get(ctx, "hot").Result())
	is(t, any("OK"))(c.Do(ctx, "HOTKEYS", "STOP").Result())
	got, err := c.Do(ctx, "HOTKEYS", "GET").Slice()
	if err != nil || len(got) != 1 {
		t.Fatalf("HOTKEYS GET: %v, %v", got, err)
	}
	if text := fmt.Sprint(got[0]); !strings.Contains(text, "by-net-bytes") ||
		!strings.Contains(text, "hot") {
		t.Errorf("HOTKEYS GET: %s", text)
	}
	is(t, any("OK"))(c.Do(ctx, "HOTKEYS", "RESET").Result())
	missing(t, c.Do(ctx, "HOTKEYS", "GET"))
	if help, err := c.Do(ctx, "HOTKEYS", "HELP").StringSlice(); err != nil || len(help) < 5 {
		t.Errorf("HOTKEYS HELP: %q, %v", help, err)
	}
}
