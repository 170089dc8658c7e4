package restart

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestOutboxKills kills the server while thousands of keys expire under an outbox rule, and while
// their entries move to the stream. Each key that was stored is reported once, and no other key.
// Keys that expire while the server is down are reported in the order of their deadlines.
func TestOutboxKills(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	rounds, keys := 3, 3000
	if n := int(testkit.Number(t, "KEYP_KILLS", 0)); n > 0 {
		rounds, keys = max(3, n/5), 20_000
	}
	// With little memory most keys are on disk only.
	s := testkit.Keyp(t, append([]string{"--checkpoint-log-size", "1mb", "--maxmemory",
		[]string{"0", "1mb"}[rng.IntN(2)]}, small...)...)
	run(t, s.Client(2), "KEYP.OUTBOX SET r PATTERN k:* ELEMENTS STREAM reported VALUE 100")
	stored, next := map[string]bool{}, 0
	for round := range rounds {
		c := s.Client(2)
		at := time.Now().UnixMilli() + 300 + int64(keys)/20
		for from := 0; from < keys; from += 500 {
			var names []string
			pipe := c.Pipeline()
			for range 500 {
				next++
				name := fmt.Sprintf("k:%d", next)
				deadline := at + int64(rng.IntN(2)*rng.IntN(100))
				if next%10 == 0 {
					pipe.HSet(ctx, name, "f", name)
					pipe.Do(ctx, "HPEXPIREAT", name, deadline, "FIELDS", 1, "f")
				} else {
					pipe.Do(ctx, "SET", name, name, "PXAT", deadline)
				}
				names = append(names, name)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				stored[name] = true
			}
		}
		if rng.IntN(2) == 0 {
			run(t, c, "SAVE")
		}
		for kills := range 3 {
			if kills == 0 && round%2 == 1 { // all expire while it is down
				s.Kill()
				await.Pass(time.Until(time.UnixMilli(at + 100)))
			} else {
				wait := time.Until(time.UnixMilli(at + int64(rng.IntN(150))))
				await.Pass(max(wait, time.Duration(rng.IntN(30))*time.Millisecond))
				s.Kill()
			}
			s.Start()
		}
	}
	c := s.Client(2)
	await.Until(t, "all that has expired is in the stream", func() bool {
		state := c.Do(ctx, "KEYP.OUTBOX", "GET", "r").Val()
		return c.Exists(ctx, "k:1").Val() == 0 && c.DBSize(ctx).Val() == 1 &&
			strings.Contains(fmt.Sprint(state), "waiting 0")
	})
	reported := map[string]int{}
	for from := "-"; ; {
		page, err := c.XRangeN(ctx, "reported", from, "+", 5000).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			name, _ := m.Values["key"].(string)
			if reported[name]++; m.Values["value"] != name {
				t.Errorf("%s has the value %v", name, m.Values["value"])
			}
			from = "(" + m.ID
		}
		if len(page) == 0 {
			break
		}
	}
	for name := range stored {
		if reported[name] != 1 {
			t.Errorf("%s was reported %d times", name, reported[name])
		}
	}
	if len(reported) != len(stored) {
		t.Errorf("%d keys were reported, of %d", len(reported), len(stored))
	}
	s.Stop()
	checkSound(t, s)
}

// TestOutboxWhileDown: keys that expired while the server was down are reported in the order of
// their deadlines, even if clients read the last ones first.
func TestOutboxWhileDown(t *testing.T) {
	s := testkit.Keyp(t, small...)
	c := s.Client(2)
	run(t, c, "KEYP.OUTBOX SET r PATTERN k* STREAM reported")
	const keys = 2000
	var at int64
	var prefix string
	// All keys must be stored, and the server killed, before the first deadline.
	for lead := int64(500); ; lead *= 2 {
		at, prefix = time.Now().UnixMilli()+lead, fmt.Sprintf("k%d:", lead)
		pipe := c.Pipeline()
		for i := range keys {
			pipe.Do(ctx, "SET", fmt.Sprint(prefix, i), "v", "PXAT", at+int64(i*7%100))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		if s.Kill(); time.Now().UnixMilli() < at {
			break
		}
		s.Start()
		c = s.Client(2)
	}
	await.Pass(time.Until(time.UnixMilli(at + 150)))
	s.Start()
	c = s.Client(2)
	for i := range 50 {
		c.Exists(ctx, fmt.Sprint(prefix, keys-1-i))
	}
	var list []redis.XMessage
	await.Until(t, "all are reported", func() bool {
		list = slices.DeleteFunc(c.XRange(ctx, "reported", "-", "+").Val(),
			func(m redis.XMessage) bool {
				key, _ := m.Values["key"].(string)
				return !strings.HasPrefix(key, prefix)
			})
		return len(list) >= keys
	})
	last := ""
	for _, m := range list {
		deadline, _ := m.Values["deadline"].(string)
		if deadline < last {
			t.Fatalf("an entry of %s is behind one of %s", deadline, last)
		}
		last = deadline
	}
	s.Stop()
	checkSound(t, s)
}
