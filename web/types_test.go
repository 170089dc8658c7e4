package web

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// The counts of keys by database and type agree with SCAN, whatever commands have made and removed
// the keys. They agree before and after a checkpoint, a stop and a kill, in memory and on disk.
func TestKeysByType(t *testing.T) {
	s := keyp(t, "--databases", "4")
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	ctx := await.Context(t)
	word := func(list string) string {
		words := strings.Fields(list)
		return words[rng.IntN(len(words))]
	}
	change := func() {
		var clients []*redis.Client
		for db := range 4 {
			clients = append(clients, s.ClientDB(3, db))
		}
		for i := range 300 {
			key, other := fmt.Sprint("k", rng.IntN(40)), fmt.Sprint("k", rng.IntN(40))
			var args []any
			switch rng.IntN(16) {
			case 0, 1, 2:
				args = []any{"SET", key, strings.Repeat("v", rng.IntN(2)*10_000)}
			case 3:
				args = []any{"HSET", key, "f", i}
			case 4:
				args = []any{"RPUSH", key, i}
			case 5:
				args = []any{"SADD", key, i}
			case 6:
				args = []any{"ZADD", key, 1, i}
			case 7:
				args = []any{"XADD", key, "*", "f", i}
			case 8, 9:
				args = []any{"DEL", key}
			case 10, 11:
				args = []any{word("RENAME COPY RENAMENX SINTERSTORE"), key, other}
			case 12:
				args = []any{"PEXPIRE", key, word("1 1 100000")}
			case 13:
				args = []any{word("LPOP SPOP ZPOPMIN"), key}
			case 14:
				args = []any{"SWAPDB", rng.IntN(4), rng.IntN(4)}
			default:
				args = []any{"MSET", key, "v", other, "v"}
				if rng.IntN(20) == 0 {
					args = []any{"FLUSHDB"}
				}
			}
			_ = clients[rng.IntN(4)].Do(ctx, args...).Err() // many are of another type
		}
	}
	scanned := func() map[string]float64 {
		found := map[string]float64{}
		for db := range 4 {
			c := s.ClientDB(3, db)
			for _, name := range []string{"string", "hash", "list", "set", "zset",
				"stream", "lease"} {
				for keys := c.ScanType(ctx, 0, "", 100, name).Iterator(); keys.Next(ctx); {
					found[fmt.Sprintf(`keyp_keys_by_type{db="%d",type="%s"}`, db, name)]++
				}
			}
		}
		return found
	}
	agree := func(when string) {
		t.Helper()
		var want, got map[string]float64
		defer func() {
			if t.Failed() {
				t.Logf("%s: %v, want %v", when, got, want)
			}
		}()
		await.Until(t, "the metrics agree with SCAN "+when, func() bool {
			want, got = scanned(), s.metrics()
			if got["keyp_keys_by_type_timestamp_seconds"] == 0 {
				return false
			}
			maps.DeleteFunc(got, func(name string, n float64) bool {
				return !strings.HasPrefix(name, "keyp_keys_by_type{") || n == 0
			})
			return maps.Equal(got, want)
		})
		if len(want) < 10 {
			t.Errorf("%s there are only %v", when, want)
		}
	}
	save := func() {
		if err := s.Client(3).Do(ctx, "SAVE").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, round := range []struct {
		when string
		do   func()
	}{
		{"at first", func() {}}, {"after a checkpoint", save}, {"after a kill", func() {
			s.Kill()
			s.Start()
		}}, {"after a stop", s.Restart},
	} {
		change()
		round.do()
		agree(round.when)
	}
}

// Keys are counted by type for some time after a request for the counts. Then the counts are
// dropped.
func TestTypesIdle(t *testing.T) {
	h := listen(t)
	h.load()
	h.run("SET k v")
	b, now := &h.pulse.byType, h.o.Clock.Mono()
	if b.wanted(now) || h.pulse.countTypes(h.env) != nil {
		t.Error("nobody has asked, and types are counted")
	}
	b.ask(now)
	if counts := h.pulse.countTypes(h.env); counts == nil || len(counts.DBs) != 1 ||
		counts.DBs[0].Types["string"] != 1 {
		t.Errorf("somebody has asked, and there are %+v", counts)
	}
	if !b.wanted(now+typesIdle) || b.wanted(now+typesIdle+time.Millisecond) {
		t.Error("types are not counted for as long as they are to be")
	}
}
