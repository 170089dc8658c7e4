package restart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestEventsOfKeysThatExpireMeanwhile: if a key expires while the server is down, the restarted
// server publishes the event, but only after clients had time to subscribe again. It never
// publishes the event twice. notify-keyspace-events was set with CONFIG SET, and CONFIG REWRITE
// keeps it over the restart.
func TestEventsOfKeysThatExpireMeanwhile(t *testing.T) {
	for name, end := range map[string]func(testing.TB, *testkit.Server){"kill": kill,
		"stop": stop} {
		t.Run(name, func(t *testing.T) {
			// On a busy machine clients need more time to subscribe again.
			for delay := 3 * time.Second; !eventsOfKeysThatExpireMeanwhile(t, end,
				delay); delay *= 4 {
			}
		})
	}
}

// eventsOfKeysThatExpireMeanwhile reports whether the delay was long enough for clients to
// subscribe.
func eventsOfKeysThatExpireMeanwhile(t *testing.T, end func(testing.TB, *testkit.Server),
	delay time.Duration) (inTime bool) {
	t.Helper()
	delay = min(delay, time.Minute) // the most that there is
	file := filepath.Join(t.TempDir(), "keyp.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, "expired-events-delay %d\n",
		delay.Milliseconds()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testkit.NewKeyp(t, testkit.Options{Config: file, Args: small})
	s.Start()
	c := s.Client(2)
	run(t, c, "CONFIG SET notify-keyspace-events Exh")
	run(t, c, "CONFIG REWRITE")
	const keys = 200
	var deadline int64
	// Events of keys that expire before the server ends are published before the restart. So on a
	// busy machine the keys need a longer life.
	for life := 2 * time.Second; ; life *= 2 {
		c := s.Client(2)
		run(t, c, "FLUSHALL")
		deadline = time.Now().Add(life).UnixMilli()
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range keys {
				p.Do(ctx, "SET", fmt.Sprint("k", i), "v", "PXAT", deadline+int64(i)/10)
			}
			p.HSet(ctx, "h", "f", 1, "g", 2)
			p.Do(ctx, "HPEXPIREAT", "h", deadline, "FIELDS", 1, "f")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if end(t, s); time.Now().UnixMilli() < deadline {
			break
		}
		s.Start()
	}
	await.PassUntil(time.UnixMilli(deadline + keys/10 + 1))

	started := time.Now()
	s.Start()
	p := listen(t, s)
	if time.Since(started) >= delay && delay < time.Minute {
		return false
	}
	if got := run(t, s.Client(3), "GET k7"); got != nil {
		t.Errorf("k7 is %v after its deadline", got)
	}
	seen := map[string]int{}
	for range keys + 1 {
		seen[next(t, p)]++
	}
	if seen["hexpired h"] != 1 {
		t.Error("the hash's event is missing")
	}
	for i := range keys {
		if n := seen[fmt.Sprint("expired k", i)]; n != 1 {
			t.Errorf("k%d was reported %d times", i, n)
		}
	}

	end(t, s)
	s.Start()
	p = listen(t, s)
	run(t, s.Client(2), "SET marker v PX 1")
	if got := next(t, p); got != "expired marker" {
		t.Errorf("%s is reported again", got)
	}
	if got := run(t, s.Client(2), "HGETALL h"); fmt.Sprint(got) != "[g 2]" {
		t.Errorf("the hash is %v", got)
	}
	return true
}

// listen subscribes to all events, which are already enabled.
func listen(t *testing.T, s *testkit.Server) *redis.PubSub {
	t.Helper()
	p := s.Client(2).PSubscribe(ctx, "__keyevent@0__:*")
	t.Cleanup(func() { _ = p.Close() })
	if _, err := p.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// next returns the next event: its name and the key.
func next(t *testing.T, p *redis.PubSub) string {
	t.Helper()
	message, err := p.ReceiveTimeout(ctx, await.Bound)
	if err != nil {
		t.Fatal(err)
	}
	event, ok := message.(*redis.Message)
	if !ok {
		t.Fatalf("heard %v", message)
	}
	return strings.TrimPrefix(event.Channel, "__keyevent@0__:") + " " + event.Payload
}
